"""Lane-wise instructions on tiles: arithmetic, bits, shifts, powers and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array, lax

from pto_jax.ir import CmpMode, Precision

from . import formulas
from .formulas import Arithmetic
from .numerics import Integer, Num
from .region import choice, computed, elementwise, lanewise, number, numeric
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Float

    from .arrays import Words

_PAIR = ("src0", "src1")
_lanewise = lanewise(__name__)


def _arithmetic(name: str, operation: str) -> None:
    @numeric(name, "src0", "src1")
    def formula(a: Arithmetic, x: Num, y: Num) -> Num:
        return getattr(a, operation)(x, y)  # type: ignore[no-any-return]


for _name in ("add", "sub", "mul", "div"):
    _arithmetic(f"t{_name}", _name)


@rule("tmax")
def _tmax(c: Context, inputs: Inputs) -> Outputs:
    return choice(c, inputs, "src0", "src1", CmpMode.LT)


@rule("tmin")
def _tmin(c: Context, inputs: Inputs) -> Outputs:
    return choice(c, inputs, "src0", "src1", CmpMode.GT)


@elementwise("tnot", "src")
def _tnot(c: Context, x: Words) -> Words:
    return ~x


for _name, _formula in formulas.ON_BITS.items():
    _lanewise(f"t{_name}", _formula, _PAIR)
_lanewise("trem", formulas.floored_remainder, _PAIR)
_lanewise("tneg", formulas.negate, ("src",))


@numeric("tfmod", "src0", "src1")
def _tfmod(a: Arithmetic, x: Num, y: Num) -> Num:
    return a.fmod(x, y)


@elementwise("tpow", "base", "exp")
def _tpow(c: Context, x: Words, y: Words) -> Words:
    a = c.arithmetic()
    if isinstance(a, Integer):
        return formulas.integer_power(a, x, y)
    return formulas.float_power(a, x, y)


@elementwise("tabs", "src")
def _tabs(c: Context, x: Words) -> Words:
    a = c.arithmetic()
    negative = a.compare_words(CmpMode.LT, x, x.dtype.type(0))
    return jnp.where(negative, formulas.negate(a, x), x)


@elementwise("trelu", "src")
def _trelu(c: Context, x: Words) -> Words:
    a = c.arithmetic()
    return jnp.where(a.compare_words(CmpMode.LT, x, x.dtype.type(0)), x.dtype.type(0), x)


def _function(name: str, function: Callable[[Float[Array, "..."]], Float[Array, "..."]]) -> None:
    @numeric(name, "src")
    def formula(a: Arithmetic, x: Num) -> Num:
        return formulas.function(a, function, x)


_function("texp", jnp.exp)
_function("tlog", jnp.log)
_function("tsqrt", lax.sqrt)


@rule("trsqrt")
def _trsqrt(c: Context, inputs: Inputs) -> Outputs:
    """The precise form of a5 divides by the root, each rounded; the others round once."""
    a, x = c.arithmetic(), number(c, inputs, "src")
    if c.profile == "a5" and c.attrs.get("precision") == Precision.HIGH_PRECISION:
        return computed(c, inputs, a.div(a.const(1), a.round_to_type(formulas.function(a, lax.sqrt, x))))
    return computed(c, inputs, formulas.function(a, formulas.reciprocal_root, x))


@numeric("trecip", "src")
def _trecip(a: Arithmetic, x: Num) -> Num:
    return a.div(a.const(1), x)
