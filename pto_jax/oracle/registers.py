"""NumPy rules of arithmetic, logic, comparison and selection on vector registers.

A rule takes the call and the operands in the order of the text, and returns the results as a tuple. Most are
written for lanes (:func:`lane_rule`): masks have a bit per lane there.
"""

from collections.abc import Callable

import numpy as np

from ..ir import F16, F32, REGISTER_BYTES, CmpMode, DType, dtype
from ..isa.micro import MicroCall
from ..isa.rules.registers import element, governed, lanes
from . import arithmetic as lane
from .matrix import fused
from .micro import Rule, rule
from .numbers import Array, decode, encode
from .step import Lane, compare

#: Rules on lanes: masks have a bit per lane, and any number of lanes is allowed.
LANE_RULES: dict[str, Rule] = {}


def lane_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on lanes, and the rule on images that it gives."""

    def register(function: Rule) -> Rule:
        LANE_RULES.update(dict.fromkeys(names, function))
        rule(*names)(lambda call, *operands: on_images(function, call, *operands))
        return function

    return register


def on_images(function: Rule, call: MicroCall, *operands: Array) -> tuple[Array, ...]:
    """A rule on lanes applied to images of masks."""
    stride = REGISTER_BYTES // governed(call)
    found = function(call, *(v[::stride] if v.dtype == np.bool_ else v for v in operands))
    return tuple(image(v) if v.dtype == np.bool_ else v for v in found)


def image(bits: Array) -> Array:
    """The image of lanes of a mask, with zeros between them.

    >>> image(np.ones(64, bool)).sum()
    np.int64(64)
    """
    made = np.zeros(REGISTER_BYTES, np.bool_)
    made[:: REGISTER_BYTES // len(bits)] = bits
    return made


def zeroed(mask: Array, words: Array) -> Array:
    """Words of the active lanes, zero in the others."""
    return np.where(mask, words, words.dtype.type(0))


def lanewise(name: str, compute: Lane) -> None:
    """A rule of words lane by lane; inactive lanes are zero."""

    @lane_rule(name)
    def execute(call: MicroCall, *operands: Array) -> tuple[Array, ...]:
        *sources, mask = operands
        return (zeroed(mask, compute(element(call.results[0]), *sources)),)


# -- arithmetic --------------------------------------------------------------------------------------


def _choice(above: bool) -> Lane:
    """Maximum or minimum: NaN of any operand is the result, +0 is above -0."""

    def choose(d: DType, a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        x, y = decode(a, d), decode(b, d)
        first = x > y if above else x < y
        if not d.is_float:
            return np.where(first, a, b)
        tie = a & b if above else a | b
        chosen = np.where(x == y, tie, np.where(first, a, b))
        return np.where(np.isnan(x) | np.isnan(y), d.word.type(d.canonical_nan), chosen)

    return choose


larger, smaller = _choice(above=True), _choice(above=False)


def _fused(d: DType, a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` with one rounding; integers wrap."""
    if d.is_integer:
        return encode(decode(a, d) * decode(b, d) + decode(c, d), d)
    x, y, z = (decode(v, d) for v in (a, b, c))
    if d == F32:
        return encode(fused(x.astype(np.float64), y.astype(np.float64), z), d)
    return encode(_to_odd(x, y, z), d)


def _to_odd(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` in float64, rounded to odd, so that a rounding to 16 bits is the only one."""
    product, addend = np.broadcast_arrays(x.astype(np.float64) * y, z.astype(np.float64))
    total = product + addend
    share = total - product
    rest = (product - (total - share)) + (addend - share)
    words = total.view(np.int64)
    odd = np.isfinite(total) & (rest != 0) & (words & 1 == 0)
    moved = np.where(odd, words + np.where((rest > 0) == (total > 0), 1, -1), words)
    return np.asarray(moved.view(np.float64))


def _relu(d: DType, a: Array) -> Array:
    return larger(d, a, np.zeros_like(a))


def _leaky(d: DType, a: Array, slope: Array) -> Array:
    return np.where(decode(a, d) >= 0, a, lane.multiply(d, a, slope))


def _divide(d: DType, a: Array, b: Array) -> Array:
    return lane.divide(d, a, b) if d.is_float else lane.routine_divide(d, a, b)


def _difference_exp(d: DType, a: Array, b: Array) -> Array:
    """The exponential of a difference that is rounded to f32."""
    return lane.precise(np.exp)(d, lane.subtract(d, a, b))


_REAL: dict[str, Lane] = {
    "vadd": lane.add,
    "vsub": lane.subtract,
    "vmul": lane.multiply,
    "vdiv": _divide,
    "vmax": larger,
    "vmin": smaller,
    "vabs": lane.absolute,
    "vneg": lane.negate,
    "vrelu": _relu,
    "vexp": lane.precise(np.exp),
    "vln": lane.precise(np.log),
    "vsqrt": lane.precise(np.sqrt),
    "vrsqrt": lane.precise(lambda x: 1.0 / np.sqrt(x)),
    "vand": lane.bitwise(np.bitwise_and),
    "vor": lane.bitwise(np.bitwise_or),
    "vxor": lane.bitwise(np.bitwise_xor),
    "vnot": lane.bitwise(np.bitwise_not),
    "vadds": lane.add,
    "vmuls": lane.multiply,
    "vmaxs": larger,
    "vmins": smaller,
    "vlrelu": _leaky,
    "vprelu": _leaky,
    "vmula": lambda d, acc, a, b: _fused(d, a, b, acc),
    "vmadd": lambda d, acc, a, b: _fused(d, acc, a, b),
    "vaxpy": lambda d, a, b, scale: _fused(d, a, scale, b),
}
for _name, _compute in _REAL.items():
    lanewise(_name, _compute)


def _count(call: MicroCall, count: Array) -> Array:
    """Counts of shifts as words of the element type; those of scalars have a width of their own."""
    d, given = element(call.results[0]), element(call.types[1])
    signed = decode(count, given).astype(np.int64)
    return signed.astype(d.numpy).view(d.word)


@lane_rule("vshl", "vshls")
def _shift_left(call: MicroCall, words: Array, count: Array, mask: Array) -> tuple[Array, ...]:
    return (zeroed(mask, lane.shift_left(element(call.types[0]), words, _count(call, count))),)


@lane_rule("vshr", "vshrs")
def _shift_right(call: MicroCall, words: Array, count: Array, mask: Array) -> tuple[Array, ...]:
    """Only integers whose type has a sign extend it."""
    t = lanes(call.types[0])
    d = dtype(f"u{t.dtype.bits}") if t.signless else t.dtype
    return (zeroed(mask, lane.shift_right(d, words, _count(call, count))),)


def _carried(words: Array, other: Array, carry: Array) -> tuple[Array, Array]:
    total = words.astype(np.uint64) + other.astype(np.uint64) + carry.astype(np.uint64)
    return total.astype(words.dtype), total >> np.uint64(32) != 0


@lane_rule("vaddc")
def _add_carry(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    total, carry = _carried(a, b, np.zeros(len(a), np.bool_))
    return zeroed(mask, total), carry & mask


@lane_rule("vaddcs")
def _add_with_carry(call: MicroCall, a: Array, b: Array, carry: Array, mask: Array) -> tuple[Array, ...]:
    total, out = _carried(a, b, carry)
    return zeroed(mask, total), out & mask


@lane_rule("vsubc")
def _subtract_carry(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    """A carry says that nothing was borrowed."""
    total, carry = _carried(a, ~b, np.ones(len(a), np.bool_))
    return zeroed(mask, total), carry & mask


@lane_rule("vsubcs")
def _subtract_with_carry(call: MicroCall, a: Array, b: Array, carry: Array, mask: Array) -> tuple[Array, ...]:
    total, out = _carried(a, ~b, carry)
    return zeroed(mask, total), out & mask


@lane_rule("vmull")
def _wide_product(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    d = element(call.types[0])
    wide = np.int64 if d.is_signed else np.uint64
    product = (decode(a, d).astype(wide) * decode(b, d).astype(wide)).view(np.uint64)
    low, high = product.astype(np.uint32), (product >> np.uint64(32)).astype(np.uint32)
    return zeroed(mask, low), zeroed(mask, high)


@lane_rule("vexpdif")
def _exponential(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    """f16 lanes of a part give f32 lanes."""
    d = element(call.types[0])
    if d == F16:
        odd = 1 if call.attributes["part"] == "ODD" else 0
        a, b = (encode(decode(v[odd::2], d), F32) for v in (a, b))
        mask = mask[odd::2]
    return (zeroed(mask, _difference_exp(F32, a, b)),)


# -- comparison and selection ------------------------------------------------------------------------


@lane_rule("vcmp", "vcmps")
def _compare(call: MicroCall, a: Array, b: Array, seed: Array) -> tuple[Array, ...]:
    d, mode = element(call.types[0]), CmpMode[str(call.attributes["mode"]).upper()]
    return (compare(mode, decode(a, d), decode(b, d)) & seed,)


@lane_rule("vsel")
def _select(call: MicroCall, a: Array, b: Array, mask: Array) -> tuple[Array, ...]:
    return (np.where(mask, a, b),)
