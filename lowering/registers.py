"""JAX rules of arithmetic, logic, comparison and selection on vector registers.

A rule takes the call and the operands in the order of the text, and returns the results as a tuple. Most are
written for lanes (:func:`lane_rule`): masks have a bit per lane there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, REGISTER_BYTES, CmpMode, dtype
from pto_jax.isa.rules.registers import element, governed, lanes

from . import bits, formulas
from .micro import RegisterCall, Rule, image, rule
from .numerics import Float, Integer, Num, SoftwareDivision
from .products import odd_sum

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped, UInt


if TYPE_CHECKING:
    #: Raw words of a register or scalar.
    Lanes: TypeAlias = UInt[Array, "*#lanes"]
    #: The active lanes of a register.
    Active: TypeAlias = Bool[Array, " lanes"]

#: Rules on lanes: masks have a bit per lane, and any number of lanes is allowed.
LANE_RULES: dict[str, Rule] = {}


def lane_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on lanes, and the rule on images that it gives."""

    def register(function: Rule) -> Rule:
        LANE_RULES.update(dict.fromkeys(names, function))
        rule(*names)(lambda call, *operands: on_images(function, call, *operands))
        return function

    return register


def on_images(
    function: Rule, call: RegisterCall, *operands: Shaped[Array, "..."]
) -> tuple[Shaped[Array, "..."], ...]:
    """A rule on lanes applied to images of masks."""
    stride = REGISTER_BYTES // governed(call)
    found = function(call, *(v[::stride] if v.dtype == np.bool_ else v for v in operands))
    return tuple(image(v) if v.dtype == np.bool_ else v for v in found)


def zeroed(mask: Active, words: Lanes) -> Lanes:
    """Words of the active lanes, zero in the others."""
    return bits.where(mask, words, words.dtype.type(0))


Lane: TypeAlias = "Callable[..., UInt[Array, '*#lanes']]"


def lanewise(name: str, compute: Lane, *, software: bool = False) -> None:
    """A rule of words lane by lane; inactive lanes are zero. ``software`` divides integers by a routine."""

    @lane_rule(name)
    def execute(call: RegisterCall, *operands: Shaped[Array, "..."]) -> tuple[Lanes, ...]:
        *sources, mask = operands
        d = element(call.results[0])
        a = SoftwareDivision(d) if software and d.is_integer else call.arithmetic(d)
        return (zeroed(mask, compute(a, *sources)),)


# -- arithmetic --------------------------------------------------------------------------------------


def larger(a: Float | Integer, x: Lanes, y: Lanes) -> Lanes:
    """The maximum: NaN of any operand is the result, +0 is above -0."""
    return _chosen(a, x, y, CmpMode.GT)


def smaller(a: Float | Integer, x: Lanes, y: Lanes) -> Lanes:
    """The minimum, by the rules of :func:`larger`."""
    return _chosen(a, x, y, CmpMode.LT)


def _chosen(a: Float | Integer, x: Lanes, y: Lanes, mode: CmpMode) -> Lanes:
    best = jnp.where(a.compare_words(mode, x, y), x, y)
    if isinstance(a, Integer):
        return best
    tie = x & y if mode == CmpMode.GT else x | y
    best = jnp.where(a.compare_words(CmpMode.EQ, x, y), tie, best)
    unordered = bits.is_nan(x, a.dtype) | bits.is_nan(y, a.dtype)
    return jnp.where(unordered, a.dtype.word.type(a.dtype.canonical_nan), best)


def _fused(a: Float | Integer, x: Lanes, y: Lanes, z: Lanes) -> Lanes:
    """``x * y + z`` with one rounding; integers wrap."""
    if isinstance(a, Integer):
        return a.encode(a.add(a.mul(a.decode(x), a.decode(y)), a.decode(z)))
    u, v, w = (bits.decode(words, a.dtype) for words in jnp.broadcast_arrays(x, y, z))
    # The product of two numbers of at most 24 bits is exact, the sum is rounded to odd and then once.
    total = _signed_zero(odd_sum(u * v, w), u * v, w)
    return bits.encode32(total) if a.dtype == F32 else bits.narrow(bits.odd32(total), a.dtype)


def _signed_zero(total: Array, x: Array, y: Array) -> Array:
    """The sum with the right sign of zero, for XLA takes the other operand for a sum with a zero."""
    negative = lax.bitcast_convert_type(x, np.uint64) & lax.bitcast_convert_type(y, np.uint64)
    zero = lax.bitcast_convert_type(negative & np.uint64(1 << 63), np.float64)
    return jnp.where(total == 0, zero, total)


def _relu(a: Float | Integer, x: Lanes) -> Lanes:
    return larger(a, x, jnp.zeros_like(x))


def _leaky(a: Float | Integer, x: Lanes, slope: Lanes) -> Lanes:
    at_least_zero = a.compare_words(CmpMode.GE, x, x.dtype.type(0))
    return jnp.where(at_least_zero, x, formulas.binary(a, "mul", x, slope))


def _absolute(a: Float | Integer, x: Lanes) -> Lanes:
    return jnp.where(a.compare_words(CmpMode.LT, x, x.dtype.type(0)), formulas.negate(a, x), x)


def _binary(operation: str) -> Lane:
    return lambda a, x, y: formulas.binary(a, operation, x, y)


def _function(function: Callable[..., Array]) -> Lane:
    return lambda a, x: a.encode(formulas.function(a, function, a.decode(x)))


_LANES: dict[str, Lane] = {
    "vadd": _binary("add"),
    "vsub": _binary("sub"),
    "vmul": _binary("mul"),
    "vmax": larger,
    "vmin": smaller,
    "vabs": _absolute,
    "vneg": formulas.negate,
    "vrelu": _relu,
    "vexp": lambda a, x: a.encode(formulas.exponential(a, a.decode(x))),
    "vln": _function(jnp.log),
    "vsqrt": _function(lax.sqrt),
    "vrsqrt": _function(formulas.reciprocal_root),
    "vand": lambda a, x, y: x & y,
    "vor": lambda a, x, y: x | y,
    "vxor": lambda a, x, y: x ^ y,
    "vnot": lambda a, x: ~x,
    "vadds": _binary("add"),
    "vmuls": _binary("mul"),
    "vmaxs": larger,
    "vmins": smaller,
    "vlrelu": _leaky,
    "vprelu": _leaky,
    "vmula": lambda a, acc, x, y: _fused(a, x, y, acc),
    "vmadd": lambda a, acc, x, y: _fused(a, acc, x, y),
    "vaxpy": lambda a, x, y, scale: _fused(a, x, scale, y),
}
for _name, _compute in _LANES.items():
    lanewise(_name, _compute)
lanewise("vdiv", _binary("div"), software=True)


def _count(call: RegisterCall, count: Lanes, like: Lanes) -> Lanes:
    """Counts of shifts as words of the element type; those of scalars have a width of their own."""
    signed = lax.bitcast_convert_type(count, np.dtype(f"i{count.dtype.itemsize}"))
    return jnp.broadcast_to(lax.convert_element_type(signed, like.dtype), like.shape)


@lane_rule("vshl", "vshls")
def _shift_left(call: RegisterCall, words: Lanes, count: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a = Integer(element(call.types[0]))
    return (zeroed(mask, formulas.shift_left(a, words, _count(call, count, words))),)


@lane_rule("vshr", "vshrs")
def _shift_right(call: RegisterCall, words: Lanes, count: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Only integers whose type has a sign extend it."""
    t = lanes(call.types[0])
    a = Integer(dtype(f"u{t.dtype.bits}") if t.signless else t.dtype)
    return (zeroed(mask, formulas.shift_right(a, words, _count(call, count, words))),)


def _carried(x: Lanes, y: Lanes, carry: Active) -> tuple[Lanes, Active]:
    total = sum(lax.convert_element_type(v, np.uint64) for v in (x, y, carry))
    assert isinstance(total, Array)
    return lax.convert_element_type(total, x.dtype), (total >> np.uint64(32)) != np.uint64(0)


def _with_carry(name: str, *, subtract: bool, carried: bool) -> None:
    """Sums and differences with a carry; that of a difference says that nothing was borrowed."""

    @lane_rule(name)
    def execute(call: RegisterCall, x: Lanes, y: Lanes, *masks: Active) -> tuple[Shaped[Array, "..."], ...]:
        mask = masks[-1]
        carry = masks[0] if carried else jnp.full(x.shape, subtract)
        total, out = _carried(x, ~y if subtract else y, carry)
        return zeroed(mask, total), out & mask


for _name, _subtract, _takes in (
    ("vaddc", False, False),
    ("vaddcs", False, True),
    ("vsubc", True, False),
    ("vsubcs", True, True),
):
    _with_carry(_name, subtract=_subtract, carried=_takes)


@lane_rule("vmull")
def _wide_product(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a = Integer(element(call.types[0]))
    wide = np.int64 if a.dtype.is_signed else np.uint64
    u, v = (lax.convert_element_type(a.decode(w), wide) for w in (x, y))
    product = lax.bitcast_convert_type(u * v, np.uint64)
    halves = (lax.convert_element_type(p, np.uint32) for p in (product, product >> np.uint64(32)))
    return tuple(zeroed(mask, half) for half in halves)


@lane_rule("vexpdif")
def _exponential(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """f16 lanes of a part give f32 lanes; the difference is rounded to f32."""
    if element(call.types[0]) == F16:
        odd = 1 if call.attributes["part"] == "ODD" else 0
        x, y = (bits.f16_to_f32(v[odd::2]) for v in (x, y))
        mask = mask[odd::2]
    a = call.arithmetic(F32)
    assert not isinstance(a, Integer)
    difference: Num = a.round_to_type(a.sub(a.decode(x), a.decode(y)))
    return (zeroed(mask, a.encode(formulas.exponential(a, difference))),)


# -- comparison and selection ------------------------------------------------------------------------


@lane_rule("vcmp", "vcmps")
def _compare(call: RegisterCall, x: Lanes, y: Lanes, seed: Active) -> tuple[Active, ...]:
    a = call.arithmetic(element(call.types[0]))
    x, y = jnp.broadcast_arrays(x, y)
    return (a.compare_words(CmpMode[str(call.attributes["mode"]).upper()], x, y) & seed,)


@lane_rule("vsel")
def _select(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return (jnp.where(mask, x, y),)
