"""JAX rules of operations on vector registers and masks.

A rule takes the call and the operands in the order of the text, and returns the results as a tuple. Most are
written for lanes (:func:`lane_rule`): masks have a bit per lane there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, REGISTER_BYTES, CmpMode, DType, RoundMode, dtype, unpaired
from pto_jax.isa.micro import MicroCall
from pto_jax.isa.rules.registers import BLOCK, ROUNDING, element, governed, lanes, part, rounding, saturates

from . import bits, convert, formulas
from .micro import RegisterCall, Rule, image, rule
from .numerics import Float, Integer, SoftwareDivision
from .products import odd_sum

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Shaped, UInt, UInt32

    Lanes: TypeAlias = UInt[Array, "*#lanes"]
    Active: TypeAlias = Bool[Array, " lanes"]
    #: The image of a mask.
    Image = Bool[Array, " bytes"]

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
    results = function(call, *(v[::stride] if v.dtype == np.bool_ else v for v in operands))
    return tuple(image(v) if v.dtype == np.bool_ else v for v in results)


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


def _count(count: Lanes, like: Lanes) -> Lanes:
    """Counts of shifts as words of the element type; those of scalars have a width of their own."""
    signed = lax.bitcast_convert_type(count, np.dtype(f"i{count.dtype.itemsize}"))
    return jnp.broadcast_to(lax.convert_element_type(signed, like.dtype), like.shape)


@lane_rule("vshl", "vshls")
def _shift_left(call: RegisterCall, words: Lanes, count: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a = Integer(element(call.types[0]))
    return (zeroed(mask, formulas.shift_left(a, words, _count(count, words))),)


@lane_rule("vshr", "vshrs")
def _shift_right(call: RegisterCall, words: Lanes, count: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Only integers whose type has a sign extend it."""
    t = lanes(call.types[0])
    a = Integer(dtype(f"u{t.dtype.bits}") if t.signless else t.dtype)
    return (zeroed(mask, formulas.shift_right(a, words, _count(count, words))),)


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


for _name in ("vaddc", "vaddcs", "vsubc", "vsubcs"):
    _with_carry(_name, subtract="sub" in _name, carried=_name.endswith("cs"))


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
    return (zeroed(mask, a.encode(formulas.exponential_of_difference(a, a.decode(x), a.decode(y)))),)


# -- comparison and selection ------------------------------------------------------------------------


@lane_rule("vcmp", "vcmps")
def _compare(call: RegisterCall, x: Lanes, y: Lanes, seed: Active) -> tuple[Active, ...]:
    a = call.arithmetic(element(call.types[0]))
    x, y = jnp.broadcast_arrays(x, y)
    return (a.compare_words(CmpMode[str(call.attributes["mode"]).upper()], x, y) & seed,)


@lane_rule("vsel")
def _select(call: RegisterCall, x: Lanes, y: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return (jnp.where(mask, x, y),)


# -- masks of a pattern or of a count ----------------------------------------------------------------


def _numbers(call: MicroCall) -> Any:
    """The numbers of the lanes of the mask that an operation makes."""
    return np.arange(REGISTER_BYTES // _width(call), dtype=np.int64)


def _pattern(call: MicroCall) -> tuple[Bool[Array, " 256"]]:
    lanes, name = _numbers(call), str(call.attributes["pattern"])[len("PAT_") :]
    if name in ("M3", "M4"):
        mask = lanes % int(name[1]) == 0
    else:
        counts = {"ALL": 256, "ALLF": 0, "H": len(lanes) // 2, "Q": len(lanes) // 4}
        mask = lanes < (counts[name] if name in counts else int(name.removeprefix("VL")))
    return (image(jnp.asarray(mask)),)


def _below(call: MicroCall, count: UInt[Array, ""]) -> tuple[Array, ...]:
    lanes = _numbers(call)
    left = count.astype(np.int64)
    rest = jnp.maximum(left - len(lanes), 0).astype(np.uint32)
    return image(lanes < left), rest


def _left(call: MicroCall, trip: UInt[Array, ""], bound: UInt[Array, ""]) -> tuple[Array, ...]:
    lanes = _numbers(call)
    first, end = (
        lax.bitcast_convert_type(n, np.dtype(f"i{n.dtype.itemsize}")).astype(np.int64) for n in (trip, bound)
    )
    return (image(lanes + first * len(lanes) < end),)


for _bits in (8, 16, 32):
    rule(f"pset_b{_bits}", f"pge_b{_bits}")(_pattern)
    rule(f"plt_b{_bits}")(_below)
    rule(f"pltm_b{_bits}")(_left)


# -- moves and counts of lanes and bits --------------------------------------------------------------

# -- registers ---------------------------------------------------------------------------------------


def interleaved(x: Shaped[Array, "..."], y: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """The lanes of two sources by turns: their first halves, then their second ones."""
    both = jnp.stack([x, y], axis=1).reshape(-1, *x.shape[1:])
    return both[: x.shape[0]], both[x.shape[0] :]


def separated(x: Shaped[Array, "..."], y: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """The even and the odd lanes of two sources one after the other."""
    both = jnp.concatenate([x, y])
    return both[0::2], both[1::2]


lane_rule("vintlv")(lambda call, x, y: interleaved(x, y))
lane_rule("vdintlv")(lambda call, x, y: separated(x, y))


def _half(call: RegisterCall) -> int:
    return 1 if call.attributes["part"] == "HIGHER" else 0


lane_rule("vintlvv2")(lambda call, x, y: (interleaved(x, y)[_half(call)],))
lane_rule("vdintlvv2")(lambda call, x, y: (separated(x, y)[_half(call)],))


@lane_rule("vselr")
def _pick(call: RegisterCall, words: Lanes, index: Lanes) -> tuple[Lanes, ...]:
    """Positions count modulo the number of lanes."""
    position = lax.rem(lax.convert_element_type(index, np.uint64), np.uint64(words.shape[0]))
    return (bits.elements_at(words, lax.convert_element_type(position, np.int32)),)


def _before(mask: Active) -> Array:
    """How many active lanes there are below each."""
    active = lax.convert_element_type(mask, np.int32)
    return lax.cumsum(active) - active


@lane_rule("vsqz")
def _squeeze(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    position = jnp.where(mask, _before(mask), np.int32(words.shape[0]))
    return (jnp.zeros_like(words).at[position].set(words, mode="drop"),)


@lane_rule("vusqz")
def _count_before(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return (lax.convert_element_type(_before(mask), words.dtype),)


@lane_rule("vpack")
def _pack(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    low = lax.convert_element_type(words, element(call.results[0]).word)
    rest = jnp.zeros_like(low)
    return (jnp.concatenate([rest, low] if _half(call) else [low, rest]),)


@lane_rule("vsunpack", "vzunpack")
def _unpack(call: RegisterCall, words: Lanes, part: Array) -> tuple[Lanes, ...]:
    half = words.shape[0] // 2
    half_words = bits.where(part != part.dtype.type(0), words[half:], words[:half])
    if call.name == "vsunpack":
        half_words = lax.bitcast_convert_type(half_words, np.dtype(f"i{words.dtype.itemsize}"))
    return (lax.convert_element_type(half_words, element(call.results[0]).word),)


@lane_rule("vbitcast")
def _reinterpret(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    return (bits.recast(words, element(call.results[0]).word),)


@lane_rule("vbr")
def _broadcast(call: RegisterCall, value: Lanes) -> tuple[Lanes, ...]:
    t = lanes(call.results[0])
    low = lax.convert_element_type(value.reshape(-1)[0], t.dtype.word)
    return (jnp.full(t.lanes, low),)


@lane_rule("vdup")
def _duplicate(call: RegisterCall, source: Lanes, mask: Active) -> tuple[Lanes, ...]:
    word = source.reshape(-1)[-1 if call.attributes.get("position") == "HIGHEST" else 0]
    low = lax.convert_element_type(word, element(call.results[0]).word)
    return (zeroed(mask, jnp.broadcast_to(low, mask.shape)),)


@lane_rule("vci")
def _count_up(call: RegisterCall, base: Lanes) -> tuple[Lanes, ...]:
    t = lanes(call.results[0])
    d = t.dtype
    step = np.arange(t.lanes)
    step = -step if call.attributes.get("order") == "DESC" else step
    if d.is_integer:
        return (lax.convert_element_type(base, d.word) + step.astype(d.word),)
    a = call.arithmetic(F32)
    assert not isinstance(a, Integer)
    words = jnp.broadcast_to(bits.to_single(base, d), step.shape)
    steps = jnp.asarray(step.astype(np.float32).view(np.uint32))
    return (formulas.narrow(formulas.binary(a, "add", words, steps), d),)


# -- masks -------------------------------------------------------------------------------------------

_WIDTHS = (8, 16, 32)


def _width(call: RegisterCall | MicroCall) -> int:
    """Bytes per lane of the mask that an operation makes, or reorders."""
    width = call.results[0]
    assert isinstance(width, int), width
    return width // 8


@rule("ppack")
def _pack_mask(call: RegisterCall, flags: Image) -> tuple[Image, ...]:
    even = flags[0::2]
    none = jnp.zeros_like(even)
    return (jnp.concatenate([none, even] if _half(call) else [even, none]),)


@rule("punpack")
def _unpack_mask(call: RegisterCall, flags: Image) -> tuple[Image, ...]:
    half = REGISTER_BYTES // 2
    return (image(flags[half:] if _half(call) else flags[:half]),)


rule("pbitcast")(lambda call, flags: (flags,))
rule("pand")(lambda call, x, y, mask: (x & y & mask,))
rule("por")(lambda call, x, y, mask: ((x | y) & mask,))
rule("pxor")(lambda call, x, y, mask: ((x ^ y) & mask,))
rule("pnot")(lambda call, x, mask: (~x & mask,))
rule("psel")(lambda call, x, y, mask: (jnp.where(mask, x, y),))


@rule(*(f"pintlv_b{width}" for width in _WIDTHS))
def _interleave_masks(call: RegisterCall, x: Image, y: Image) -> tuple[Image, ...]:
    """Lanes keep the bits that they have in the image."""
    return _flat(interleaved(*(v.reshape(-1, _width(call)) for v in (x, y))))


@rule(*(f"pdintlv_b{width}" for width in _WIDTHS))
def _separate_masks(call: RegisterCall, x: Image, y: Image) -> tuple[Image, ...]:
    return _flat(separated(*(v.reshape(-1, _width(call)) for v in (x, y))))


def _flat(lanes: tuple[Array, ...]) -> tuple[Image, ...]:
    return tuple(v.reshape(-1) for v in lanes)


# -- reductions and histograms -----------------------------------------------------------------------


def first_of(count: int, *words: UInt[Array, "..."]) -> Lanes:
    """Lanes from the first one on, zeros after them."""
    lanes = jnp.concatenate([w.reshape(-1) for w in words])
    return jnp.pad(lanes, (0, count - lanes.shape[0]))


def _folded(
    words: UInt[Array, "*rows lanes"], join: Callable[[Array, Array], Array]
) -> UInt[Array, "*rows one"]:
    """Neighbours joined, then neighbours among the results; a last one alone waits for the next round."""
    while words.shape[-1] > 1:
        pairs = words.shape[-1] // 2 * 2
        joined = join(words[..., 0:pairs:2], words[..., 1:pairs:2])
        words = jnp.concatenate([joined, words[..., pairs:]], axis=-1)
    return words


def tree_sum(a: Float | Integer, words: UInt[Array, "*rows lanes"]) -> UInt[Array, "*rows one"]:
    """Sums along the last axis: neighbours first, then neighbours among the sums; every sum is rounded."""
    return _folded(words, lambda x, y: formulas.binary(a, "add", x, y))


@lane_rule("vcadd")
def _sum(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Narrow integers are summed in the wider type of the result."""
    source, target = element(call.types[0]), element(call.results[0])
    active = zeroed(mask, words)
    if source != target:
        active = convert.integer_words(convert.integer(active, source), target)
    total = tree_sum(call.arithmetic(target), active)
    return (first_of(REGISTER_BYTES // target.word.itemsize, total),)


@lane_rule("vcgadd")
def _block_sums(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    sums = tree_sum(call.arithmetic(element(call.types[0])), _blocks(zeroed(mask, words)))
    return (first_of(words.shape[0], sums),)


def _blocks(words: Lanes) -> UInt[Array, "blocks lanes"]:
    return words.reshape(-1, BLOCK // words.dtype.itemsize)


@lane_rule("vcpadd")
def _pair_sums(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a, active = call.arithmetic(element(call.types[0])), zeroed(mask, words)
    return (first_of(words.shape[0], formulas.binary(a, "add", active[0::2], active[1::2])),)


def neutral(d: DType, largest: bool) -> np.unsignedinteger:
    """The word that no other is beyond: an infinity or a limit of integers."""
    if d.is_float:
        infinity = ((1 << d.exponent) - 1) << d.mantissa
        return d.word.type(infinity | (1 << (d.bits - 1) if largest else 0))
    return d.word.type((d.min_int if largest else d.max_int) & ((1 << d.bits) - 1))


def extreme(a: Float | Integer, words: UInt[Array, "*rows lanes"], largest: bool) -> UInt[Array, "*rows one"]:
    """The extremes along the last axis, which stays."""
    better = larger if largest else smaller
    if words.shape[-1] == 1:
        # Of a single word too a NaN is the canonical one.
        return better(a, words, words)
    return _folded(words, lambda x, y: better(a, x, y))


def same_number(a: Float | Integer, words: Lanes, best: Lanes) -> Active:
    """Lanes that compare equal to a word, or that are NaN as it is."""
    equal = a.compare_words(CmpMode.EQ, words, jnp.broadcast_to(best, words.shape))
    if isinstance(a, Integer):
        return equal
    return equal | (bits.is_nan(words, a.dtype) & bits.is_nan(best, a.dtype))


def _position(flags: Active) -> Int32[Array, " one"]:
    """The first lane that is set."""
    count = np.int32(flags.shape[0])
    places = jnp.where(flags, lax.iota(np.int32, flags.shape[0]), count)
    position: Array = lax.reduce(places, count, lax.min, (0,))
    return position.reshape(1)


def _searched(call: RegisterCall, words: Lanes, mask: Active, largest: bool) -> tuple[Lanes, Lanes, Active]:
    """The extreme of the active lanes, and the lanes that have it, neutral ones among them."""
    a = call.arithmetic(element(call.types[0]))
    filled = bits.where(mask, words, neutral(a.dtype, largest))
    best = extreme(a, filled, largest)
    return filled, best, same_number(a, filled, best)


@lane_rule("vcmax", "vcmin")
def _extreme(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    _, best, place = _searched(call, words, mask, call.name == "vcmax")
    position = lax.convert_element_type(_position(place), words.dtype)
    return (first_of(words.shape[0], best, position),)


@lane_rule("vcgmax", "vcgmin")
def _block_extremes(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a, largest = call.arithmetic(element(call.types[0])), call.name == "vcgmax"
    filled = bits.where(mask, words, neutral(a.dtype, largest))
    return (first_of(words.shape[0], extreme(a, _blocks(filled), largest)),)


@lane_rule("vcbmax", "vcbmin")
def _extreme_lanes(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Array, ...]:
    _, best, place = _searched(call, words, mask, call.name == "vcbmax")
    return first_of(words.shape[0], best), mask & place


@lane_rule("dhistv2", "chistv2")
def _histogram(
    call: RegisterCall, counts: Lanes, samples: Lanes, mask: Active, part: Array
) -> tuple[Lanes, ...]:
    """Counts of values from 128 times ``part`` on; cumulative ones count all values up to each."""
    bins = lax.iota(np.int32, counts.shape[0])
    bins = bins + lax.convert_element_type(part, np.int32) * np.int32(counts.shape[0])
    values = lax.convert_element_type(samples, np.int32)
    hits = values[:, None] <= bins if call.name == "chistv2" else values[:, None] == bins
    number: Array = lax.reduce(
        lax.convert_element_type(hits & mask[:, None], np.int32), np.int32(0), lax.add, (0,)
    )
    return (counts + lax.convert_element_type(number, counts.dtype),)


# -- conversions -------------------------------------------------------------------------------------


def converted(words: Lanes, source: DType, target: DType, letter: str, *, saturate: bool) -> Lanes:
    """Words of another element type, lane by lane; ``letter`` is that of the letter."""
    if source.is_integer and target.is_integer:
        return _integers(words, source, target, saturate)
    if target.is_integer:
        whole = whole_number(bits.decode(words, source), letter)
        if saturate or target.bits >= 32:
            return convert.clamp_to_int(whole, target, 0)
        through = convert.clamp_to_int(whole, _WIDE, 0)
        return lax.convert_element_type(through, target.word)
    if source.is_integer:
        value = convert.to_float64(words, source)
        if target == F32 and letter == "O":
            return bits.odd32(value)
        if target == F32:
            return convert.to_single(_moved(value) if letter == "H" else value, _mode(letter))
        single = bits.odd32(value)
    else:
        single = bits.to_single(words, source)
    return _narrowed(single, target, letter, saturate)


_WIDE = DType("i32", "int", 32)


def whole_number(x: Float64[Array, "*shape"], letter: str) -> Float64[Array, "*shape"]:
    """Float64 values rounded to whole numbers by the letter of the text."""
    zero_side = jnp.where(x < 0, lax.ceil(x), lax.floor(x))
    away = jnp.where(x < 0, np.float64(-1), np.float64(1))
    if letter == "H":
        return jnp.where(lax.abs(x - zero_side) > 0.5, zero_side + away, zero_side)
    if letter == "O":
        even = lax.rem(zero_side, np.float64(2)) == 0
        return jnp.where((x != zero_side) & even, zero_side + away, zero_side)
    return convert.round_whole(x, ROUNDING[letter])


def _mode(letter: str) -> RoundMode:
    """Nearest of values that :func:`_moved` has moved has no ties to break; else the letter's mode."""
    return RoundMode.ROUND if letter == "H" else ROUNDING[letter]


def _moved(value: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """Float64 values one place nearer to zero."""
    words = lax.bitcast_convert_type(value, np.uint64)
    return lax.bitcast_convert_type(jnp.where(value == 0, words, words - np.uint64(1)), np.float64)


def _integers(words: Lanes, source: DType, target: DType, saturate: bool) -> Lanes:
    """Low bits; saturated, and from signed to wider unsigned integers, the nearest integer of the type."""
    value = convert.integer(words, source)
    if saturate or (source.is_signed and not target.is_signed and target.bits > source.bits):
        wide = lax.convert_element_type(value, np.int64)
        low, high = np.int64(target.min_int), np.int64(target.max_int)
        value = lax.max(lax.min(wide, lax.full_like(wide, high)), lax.full_like(wide, low))
    return convert.integer_words(value, target)


def _narrowed(single: UInt32[Array, "*shape"], target: DType, letter: str, saturate: bool) -> Lanes:
    nan = bits.is_nan(single, F32)
    if target == F32 and saturate:
        # Only infinities are beyond the numbers of the type; what is below them in order is the largest one.
        infinite = (single & np.uint32(0x7FFFFFFF)) == np.uint32(0x7F800000)
        finite = jnp.where(infinite, single - np.uint32(1), single)
        return jnp.where(nan, np.uint32(0), finite)
    if target == F32:
        return jnp.where(nan, np.uint32(F32.canonical_nan), single)
    if letter == "H":
        magnitude = single & np.uint32(0x7FFFFFFF)
        finite = (magnitude != np.uint32(0)) & (magnitude < np.uint32(0x7F800000))
        single = jnp.where(finite, single - np.uint32(1), single)
    words = bits.narrow(single, target, _mode(letter), saturate)
    return jnp.where(nan, words.dtype.type(0), words) if saturate else words


@lane_rule("vcvt")
def _convert(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Narrowing leaves zeros between the lanes of a part, widening reads only those of a part."""
    source, target = element(call.types[0]), element(call.results[0])
    at = part(call)
    if target.word_bits > source.word_bits:
        step = target.word_bits // source.word_bits * source.numbers // target.numbers
        words, mask = words[at::step], mask[at::step]
    words, mask = numbers(words, source), jnp.repeat(mask, source.numbers)
    lanes = zeroed(
        mask, converted(words, unpaired(source), unpaired(target), rounding(call), saturate=saturates(call))
    )
    lanes = elements(lanes, target)
    if target.word_bits >= source.word_bits:
        return (lanes,)
    return (spread(lanes, source.word_bits // target.word_bits * target.numbers // source.numbers, at),)


def numbers(words: UInt[Array, " lanes"], d: DType) -> UInt[Array, " numbers"]:
    """The numbers in elements of two, the first one in the low half; of other elements the words."""
    if not d.pair_of:
        return words
    one = unpaired(d)
    low = words & words.dtype.type((1 << one.bits) - 1)
    both = jnp.stack([low, words >> words.dtype.type(one.bits)], axis=1)
    return lax.convert_element_type(both.reshape(-1), one.word)


def elements(words: UInt[Array, " numbers"], d: DType) -> UInt[Array, " lanes"]:
    """Elements of two numbers each: :func:`numbers` undone."""
    if not d.pair_of:
        return words
    wide = lax.convert_element_type(words, d.word)
    return wide[0::2] | wide[1::2] << d.word.type(unpaired(d).bits)


def spread(words: UInt[Array, " lanes"], step: int, part: int) -> UInt[Array, " more"]:
    """Every lane followed, and for later parts preceded, by zeros."""
    return lax.pad(words, words.dtype.type(0), [(part, step - 1 - part, step - 1)])


@lane_rule("vmulscvt")
def _scale_and_convert(call: RegisterCall, words: Lanes, scale: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a = call.arithmetic(F32)
    product = formulas.binary(a, "mul", words, jnp.broadcast_to(scale, words.shape))
    lanes = converted(product, F32, element(call.results[0]), rounding(call), saturate=False)
    return (spread(zeroed(mask, lanes), 2, part(call)),)


@lane_rule("vtrc")
def _to_whole(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Whole numbers in the float type; zeros keep the sign."""
    a = call.arithmetic(element(call.types[0]))
    d = a.dtype
    assert not isinstance(a, Integer)
    whole = bits.encode(whole_number(bits.decode(words, d), rounding(call)), d)
    sign = bits.dtype_sign(d)
    signed = (whole & ~sign) | (words & sign)
    return (zeroed(mask, jnp.where(bits.is_nan(words, d), d.word.type(d.canonical_nan), signed)),)
