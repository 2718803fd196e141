"""Lane-wise instructions on a tile and a scalar or an immediate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from pto_jax.ir import BF16, F16, CmpMode, Loc

from . import formulas, masks
from .formulas import Arithmetic
from .numerics import Integer, Num
from .region import elementwise, lanewise, mask, merge, numeric, operand, read
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Floats, Word, Words

_SCALED = ("src", "scalar")
_lanewise = lanewise(__name__)


def _arithmetic(name: str, operation: str) -> None:
    @numeric(name, "src", "scalar")
    def formula(a: Arithmetic, x: Num, s: Num) -> Num:
        return getattr(a, operation)(x, s)  # type: ignore[no-any-return]


for _name in ("add", "sub", "mul"):
    _arithmetic(f"t{_name}s", _name)


@elementwise("tdivs", "src", "scalar")
def _tdivs(c: Context, x: Words, s: Word) -> Words:
    """The operand order of the text decides which one is divided."""
    if c.form[0] == "scalar":
        x, s = s, x
    return formulas.binary(c.arithmetic(), "div", x, s)


for _name, _formula in formulas.ON_BITS.items():
    _lanewise(f"t{_name}s", _formula, _SCALED)
_lanewise("tmaxs", formulas.maximum, _SCALED)
_lanewise("tmins", formulas.minimum, _SCALED)
_lanewise("tlrelu", formulas.leaky, _SCALED)


def _unless_zero(c: Context, s: Word, result: Words, old: Words) -> Words:
    """The simulator leaves the destination alone when the scalar divisor is zero."""
    if c.profile != "cpu_sim":
        return result
    a = c.arithmetic()
    return jnp.where(a.compare_words(CmpMode.EQ, s, s.dtype.type(0)), old, result)


@elementwise("trems", "src", "scalar", "dst")
def _trems(c: Context, x: Words, s: Word, old: Words) -> Words:
    return _unless_zero(c, s, formulas.floored_remainder(c.arithmetic(), x, s), old)


@elementwise("tfmods", "src", "scalar", "dst")
def _tfmods(c: Context, x: Words, s: Word, old: Words) -> Words:
    a = c.arithmetic()
    return _unless_zero(c, s, a.encode(a.fmod(a.decode(x), a.decode(s))), old)


@elementwise("tpows", "base", "exp")
def _tpows(c: Context, x: Words, s: Word) -> Words:
    """Integers go through a float64 power on the simulator; hardware multiplies exactly."""
    a = c.arithmetic()
    if not isinstance(a, Integer):
        return formulas.float_power(a, x, s)
    if c.profile != "cpu_sim":
        return formulas.integer_power(a, x, s)
    return formulas.host_power(a, x, s)


@elementwise("taxpy", "src", "scalar", "dst")
def _taxpy(c: Context, x: Words, s: Word, old: Words) -> Words:
    """Words of ``dst + src * scalar``.

    The product is rounded to the source type first, except bf16 into bf16. On a2a3 it is rounded to the
    destination's, on a5 f16 is rounded once at the end.
    """
    source, a = c.arithmetic("src"), c.arithmetic()
    product = source.mul(source.decode(x), source.decode(s))
    if isinstance(source, Integer) and isinstance(a, Integer):
        wide = source.widen(source.decode(x)) * source.widen(source.decode(s))
        return a.encode(a.narrow(wide + a.widen(a.decode(old))))
    if c.profile == "a5" and c.dtype("dst") == F16:
        assert not isinstance(a, Integer)
        return a.encode(a.evaluate(_accumulated, a.decode(old), source.decode(x), source.decode(s)))
    same = c.dtype("src") == c.dtype("dst")
    if not (same and c.dtype("src") == BF16) and (same or c.profile == "cpu_sim"):
        product = source.round_to_type(product)
    return a.encode(a.add(a.decode(old), product))


def _accumulated(old: Floats, x: Floats, factor: Floats) -> Floats:
    return old + x * factor


@rule("texpands")
def _texpands(c: Context, inputs: Inputs) -> Outputs:
    """Hardware fills the whole physical tile when it is a Mat tile."""
    value = read(c, inputs, "scalar")
    t = c.tile("dst")
    if t.loc == Loc.MAT and c.profile != "cpu_sim":
        return {"dst": jnp.broadcast_to(value, t.shape)}
    return {"dst": merge(c, inputs, value)}


def _with_scalar_first(name: str, first: str) -> None:
    @numeric(name, "src0", "scalar", "src1")
    def formula(a: Arithmetic, x: Num, s: Num, y: Num) -> Num:
        return a.add(getattr(a, first)(x, s), y)


_with_scalar_first("taddsc", "add")
_with_scalar_first("tsubsc", "sub")


@rule("tcmps")
def _tcmps(c: Context, inputs: Inputs) -> Outputs:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = masks.lanes(inputs, "src0")
    x, y = (operand(c, inputs, name, over="src0") for name in ("src0", "src1"))
    if c.profile == "cpu_sim" and mode in (CmpMode.EQ, CmpMode.NE):
        flags = masks.near(c, mode, x, y)
    else:
        flags = a.compare_words(mode, x, y)
    inside = mask(c.tile("src0"), source)
    flags = flags if inside is None else flags & inside
    if c.profile != "cpu_sim":
        return {"dst": masks.store_rows(c, inputs, flags)}
    return {"dst": masks.reflow(c, inputs, flags)}


@rule("tsels")
def _tsels(c: Context, inputs: Inputs) -> Outputs:
    x, s = read(c, inputs, "src"), read(c, inputs, "scalar")
    words = read(c, inputs, "mask", over="mask")
    return {"dst": merge(c, inputs, jnp.where(masks.unpack(words, c.tile("dst").shape), x, s))}
