"""NumPy rules of operations on vector registers and masks.

A rule takes the call and the operands in the order of the text, and returns the results as a tuple. Most are
written for lanes (:func:`lane_rule`): masks have a bit per lane there.
"""

from collections.abc import Callable

import numpy as np

from ..ir import F16, F32, REGISTER_BYTES, CmpMode, DType, RoundMode, dtype, unpaired
from ..isa.micro import MicroCall
from ..isa.rules.registers import BLOCK, ROUNDING, element, governed, lanes, part, rounding, saturates
from . import arithmetic as lane
from .matrix import fused
from .micro import Rule, rule, signed
from .numbers import Array, decode, encode, infinity, integral
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
    results = function(call, *(v[::stride] if v.dtype == np.bool_ else v for v in operands))
    return tuple(image(v) if v.dtype == np.bool_ else v for v in results)


def image(bits: Array) -> Array:
    """The image of lanes of a mask, with zeros between them.

    >>> image(np.ones(64, bool)).sum()
    np.int64(64)
    """
    mask = np.zeros(REGISTER_BYTES, np.bool_)
    mask[:: REGISTER_BYTES // len(bits)] = bits
    return mask


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
        result = np.where(x == y, tie, np.where(first, a, b))
        return np.where(np.isnan(x) | np.isnan(y), d.word.type(d.canonical_nan), result)

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
    d, source = element(call.results[0]), element(call.types[1])
    signed = decode(count, source).astype(np.int64)
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


def _with_carry(name: str, *, borrows: bool, carried: bool) -> None:
    """Sums and differences with a carry; that of a difference says that nothing was borrowed."""

    @lane_rule(name)
    def execute(call: MicroCall, a: Array, b: Array, *masks: Array) -> tuple[Array, ...]:
        carry = masks[0] if carried else np.full(len(a), borrows)
        total = a.astype(np.uint64) + (~b if borrows else b).astype(np.uint64) + carry.astype(np.uint64)
        return zeroed(masks[-1], total.astype(a.dtype)), (total >> np.uint64(32) != 0) & masks[-1]


for _name in ("vaddc", "vaddcs", "vsubc", "vsubcs"):
    _with_carry(_name, borrows="sub" in _name, carried=_name.endswith("cs"))


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


# -- moves and counts of lanes and bits --------------------------------------------------------------

# -- registers ---------------------------------------------------------------------------------------


def interleaved(a: Array, b: Array) -> tuple[Array, Array]:
    """The lanes of two sources by turns: their first halves, then their second ones."""
    both = np.stack([a, b], axis=-1).reshape(-1)
    return both[: len(a)], both[len(a) :]


def separated(a: Array, b: Array) -> tuple[Array, Array]:
    """The even and the odd lanes of two sources one after the other."""
    both = np.concatenate([a, b])
    return both[0::2], both[1::2]


lane_rule("vintlv")(lambda call, a, b: interleaved(a, b))
lane_rule("vdintlv")(lambda call, a, b: separated(a, b))


def _half(call: MicroCall) -> int:
    return 1 if call.attributes["part"] == "HIGHER" else 0


lane_rule("vintlvv2")(lambda call, a, b: interleaved(a, b)[_half(call) : _half(call) + 1])
lane_rule("vdintlvv2")(lambda call, a, b: separated(a, b)[_half(call) : _half(call) + 1])


@lane_rule("vselr")
def _pick(call: MicroCall, words: Array, index: Array) -> tuple[Array, ...]:
    """Positions count modulo the number of lanes."""
    return (words[(index.astype(np.uint64) % np.uint64(len(words))).astype(np.int64)],)


@lane_rule("vsqz")
def _squeeze(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    lanes = words[mask]
    return (np.concatenate([lanes, np.zeros(len(words) - len(lanes), words.dtype)]),)


@lane_rule("vusqz")
def _count_before(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    return ((np.cumsum(mask) - mask).astype(words.dtype),)


@lane_rule("vpack")
def _pack(call: MicroCall, words: Array) -> tuple[Array, ...]:
    low = words.astype(element(call.results[0]).word)
    rest = np.zeros_like(low)
    return (np.concatenate([rest, low] if _half(call) else [low, rest]),)


@lane_rule("vsunpack", "vzunpack")
def _unpack(call: MicroCall, words: Array, part: Array) -> tuple[Array, ...]:
    source, target = element(call.types[0]), element(call.results[0])
    half = len(words) // 2
    half_words = words[half:] if int(part) else words[:half]
    signed = np.dtype(f"{'i' if call.name == 'vsunpack' else 'u'}{source.word_bits // 8}")
    return (half_words.view(signed).astype(target.word),)


@lane_rule("vbitcast")
def _reinterpret(call: MicroCall, words: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(words).view(element(call.results[0]).word),)


@lane_rule("vbr")
def _broadcast(call: MicroCall, value: Array) -> tuple[Array, ...]:
    t = lanes(call.results[0])
    return (np.full(t.lanes, value.reshape(-1)[0]).astype(t.dtype.word),)


@lane_rule("vdup")
def _duplicate(call: MicroCall, source: Array, mask: Array) -> tuple[Array, ...]:
    word = source.reshape(-1)[-1 if call.attributes.get("position") == "HIGHEST" else 0]
    return (zeroed(mask, np.full(len(mask), word).astype(element(call.results[0]).word)),)


@lane_rule("vci")
def _count_up(call: MicroCall, base: Array) -> tuple[Array, ...]:
    t = lanes(call.results[0])
    d = t.dtype
    step = np.arange(t.lanes)
    step = -step if call.attributes.get("order") == "DESC" else step
    if d.is_float:
        return (encode(decode(base, d) + step.astype(np.float32), d),)
    return (base.astype(d.word) + step.astype(d.word),)


# -- masks -------------------------------------------------------------------------------------------

_WIDTHS = (8, 16, 32)


def _width(call: MicroCall) -> int:
    """Bytes per lane of the mask that an operation makes, or reorders."""
    bits = call.results[0]
    assert isinstance(bits, int), bits
    return bits // 8


@rule("ppack")
def _pack_mask(call: MicroCall, bits: Array) -> tuple[Array, ...]:
    even, none = bits[0::2], np.zeros(REGISTER_BYTES // 2, np.bool_)
    return (np.concatenate([none, even] if _half(call) else [even, none]),)


@rule("punpack")
def _unpack_mask(call: MicroCall, bits: Array) -> tuple[Array, ...]:
    return (image(bits[REGISTER_BYTES // 2 :] if _half(call) else bits[: REGISTER_BYTES // 2]),)


rule("pbitcast")(lambda call, bits: (bits,))
rule("pand")(lambda call, a, b, mask: (a & b & mask,))
rule("por")(lambda call, a, b, mask: ((a | b) & mask,))
rule("pxor")(lambda call, a, b, mask: ((a ^ b) & mask,))
rule("pnot")(lambda call, a, mask: (~a & mask,))
rule("psel")(lambda call, a, b, mask: (np.where(mask, a, b),))


@rule(*(f"pintlv_b{width}" for width in _WIDTHS))
def _interleave_masks(call: MicroCall, a: Array, b: Array) -> tuple[Array, ...]:
    """Lanes keep the bits that they have in the image."""
    low, high = _by_lane(a, _width(call)), _by_lane(b, _width(call))
    both = np.stack([low, high], axis=1).reshape(-1)
    return both[:REGISTER_BYTES], both[REGISTER_BYTES:]


@rule(*(f"pdintlv_b{width}" for width in _WIDTHS))
def _separate_masks(call: MicroCall, a: Array, b: Array) -> tuple[Array, ...]:
    both = _by_lane(np.concatenate([a, b]), _width(call))
    return both[0::2].reshape(-1), both[1::2].reshape(-1)


def _by_lane(bits: Array, width: int) -> Array:
    return bits.reshape(-1, width)


# -- reductions and histograms -----------------------------------------------------------------------


def first_of(count: int, *words: Array) -> Array:
    """Lanes from the first one on, zeros after them."""
    joined = np.concatenate([w.reshape(-1) for w in words])
    return np.concatenate([joined, np.zeros(count - len(joined), joined.dtype)])


def tree_sum(d: DType, words: Array) -> Array:
    """Sums along the last axis: neighbours first, then neighbours among the sums; every sum is rounded.

    Of an odd number of sums the last one waits for the next round.

    >>> from pto_jax.ir import I32
    >>> int(tree_sum(I32, np.arange(5, dtype=np.uint32))[0])
    10
    """
    while words.shape[-1] > 1:
        pairs = words.shape[-1] // 2 * 2
        sums = lane.add(d, words[..., 0:pairs:2], words[..., 1:pairs:2])
        words = np.concatenate([sums, words[..., pairs:]], axis=-1)
    return words


@lane_rule("vcadd")
def _sum(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    """Narrow integers are summed in the wider type of the result."""
    source, target = element(call.types[0]), element(call.results[0])
    active = zeroed(mask, words)
    if source != target:
        active = encode(decode(active, source), target)
    return (first_of(REGISTER_BYTES // target.word.itemsize, tree_sum(target, active)),)


@lane_rule("vcgadd")
def _block_sums(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    sums = tree_sum(element(call.types[0]), _blocks(zeroed(mask, words)))
    return (first_of(len(words), sums),)


def _blocks(words: Array) -> Array:
    return words.reshape(-1, BLOCK // words.dtype.itemsize)


@lane_rule("vcpadd")
def _pair_sums(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    active = zeroed(mask, words)
    return (first_of(len(words), lane.add(element(call.types[0]), active[0::2], active[1::2])),)


def neutral(d: DType, largest: bool) -> Array:
    """The word that no other is beyond: an infinity or a limit of integers."""
    if d.is_float:
        return np.asarray(infinity(d) | (largest << (d.bits - 1)), d.word)
    return np.asarray(d.min_int if largest else d.max_int).astype(d.word)


def extreme(d: DType, words: Array, largest: bool) -> Array:
    """The extremes along the last axis, which stays."""
    better = larger if largest else smaller
    best = words[..., :1]
    for k in range(1, words.shape[-1]):
        best = better(d, best, words[..., k : k + 1])
    # Of a single word too a NaN is the canonical one.
    return better(d, best, best)


def _searched(call: MicroCall, words: Array, mask: Array, largest: bool) -> tuple[Array, Array]:
    """The extreme of the active lanes, and the lanes that compare equal to it, or that are NaN as it is."""
    d = element(call.types[0])
    filled = np.where(mask, words, neutral(d, largest))
    best = extreme(d, filled, largest)
    values, best_values = decode(filled, d), decode(best, d)
    return best, (values == best_values) | (np.isnan(values) & np.isnan(best_values))


@lane_rule("vcmax", "vcmin")
def _extreme(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    best, there = _searched(call, words, mask, call.name == "vcmax")
    return (first_of(len(words), best, np.array([np.argmax(there)], words.dtype)),)


@lane_rule("vcgmax", "vcgmin")
def _block_extremes(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    d, largest = element(call.types[0]), call.name == "vcgmax"
    filled = np.where(mask, words, neutral(d, largest))
    return (first_of(len(words), extreme(d, _blocks(filled), largest)),)


@lane_rule("vcbmax", "vcbmin")
def _extreme_lanes(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    best, there = _searched(call, words, mask, call.name == "vcbmax")
    return first_of(len(words), best), mask & there


@lane_rule("dhistv2", "chistv2")
def _histogram(call: MicroCall, counts: Array, samples: Array, mask: Array, part: Array) -> tuple[Array, ...]:
    """Counts of values from 128 times ``part`` on; cumulative ones count all values up to each."""
    bins = np.bincount(samples[mask], minlength=256)
    bins = np.cumsum(bins) if call.name == "chistv2" else bins
    first = len(counts) * int(part)
    return (counts + bins[first : first + len(counts)].astype(counts.dtype),)


# -- conversions -------------------------------------------------------------------------------------


def converted(words: Array, source: DType, target: DType, letter: str, *, saturate: bool) -> Array:
    """Words of another element type, lane by lane; ``letter`` is that of the letter."""
    values = decode(words, source)
    if source.is_integer and target.is_integer:
        return _integers(values, source, target, saturate)
    if target.is_float:
        return _to_float(values, target, letter, saturate)
    with np.errstate(invalid="ignore"):
        whole = whole_number(values.astype(np.float64), letter)
    low, high = (target.min_int, target.max_int) if saturate else _wide_limits(target)
    return encode(_clamped(whole, low, high), target)


def whole_number(x: Array, letter: str) -> Array:
    """Float64 values rounded to whole numbers by the letter of the text."""
    if letter == "H":
        return np.copysign(np.ceil(np.abs(x) - 0.5), x)
    return integral(x, ROUNDING[letter])


def _wide_limits(d: DType) -> tuple[int, int]:
    """Numbers that do not fit and are not saturated go through an integer of 32 bits or more."""
    bits = max(32, d.bits)
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _clamped(whole: Array, low: int, high: int) -> Array:
    inside = (whole > float(low)) & (whole < float(high))
    number = np.where(inside, whole, 0.0).astype(np.int64)
    number = np.where(whole >= float(high), np.int64(high), number)
    return np.where(whole <= float(low), np.int64(low), number)


def _integers(values: Array, source: DType, target: DType, saturate: bool) -> Array:
    """Low bits; saturated, and from signed to wider unsigned integers, the nearest integer of the type."""
    wide = values.astype(np.int64)
    if saturate or (source.is_signed and not target.is_signed and target.bits > source.bits):
        wide = np.clip(wide, target.min_int, target.max_int)
    return encode(wide, target)


def _to_float(values: Array, target: DType, letter: str, saturate: bool) -> Array:
    x = _sticky(values)
    mode = RoundMode.ROUND if letter == "H" else ROUNDING[letter]
    # A tie moved by the least step towards zero is no tie any more, and nothing else becomes one.
    x = np.copysign(np.nextafter(x, 0.0), x) if letter == "H" else x
    with np.errstate(all="ignore"):
        words = encode(x, target, mode=mode, saturate=saturate)
    if saturate and np.isnan(x).any():
        return np.where(np.isnan(x), target.word.type(0), words)
    return words


def _sticky(values: Array) -> Array:
    """Float64 values; of 64-bit integers a last bit stands for those that do not fit."""
    if values.dtype != np.int64:
        return values.astype(np.float64)
    near = values.astype(np.float64)
    lost = np.abs(values) > 2**53
    kept = np.where(lost, values & ~np.int64(2047), values)
    low = (values != kept) & lost
    return np.where(low, (kept | np.int64(1024)).astype(np.float64), np.where(lost, near, values))


@lane_rule("vcvt")
def _convert(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    """Narrowing leaves zeros between the lanes of a part, widening reads only those of a part."""
    source, target = element(call.types[0]), element(call.results[0])
    at = part(call)
    if target.word_bits > source.word_bits:
        step = target.word_bits // source.word_bits * source.numbers // target.numbers
        words, mask = words[at::step], mask[at::step]
    words, mask = numbers(words, source), np.repeat(mask, source.numbers)
    result = zeroed(
        mask, converted(words, unpaired(source), unpaired(target), rounding(call), saturate=saturates(call))
    )
    result = elements(result, target)
    if target.word_bits >= source.word_bits:
        return (result,)
    return (spread(result, source.word_bits // target.word_bits * target.numbers // source.numbers, at),)


def numbers(words: Array, d: DType) -> Array:
    """The numbers in elements of two, the first one in the low half; of other elements the words."""
    if not d.pair_of:
        return words
    one = unpaired(d)
    both = np.stack([words & ((1 << one.bits) - 1), words >> one.bits], axis=-1)
    return both.reshape(-1).astype(one.word)


def elements(words: Array, d: DType) -> Array:
    """Elements of two numbers each: :func:`numbers` undone."""
    if not d.pair_of:
        return words
    wide = words.astype(d.word)
    return np.asarray(wide[0::2] | wide[1::2] << d.word.type(unpaired(d).bits))


def spread(words: Array, step: int, part: int) -> Array:
    """Every lane followed, and for later parts preceded, by zeros."""
    result = np.zeros(len(words) * step, words.dtype)
    result[part::step] = words
    return result


@lane_rule("vmulscvt")
def _scale_and_convert(call: MicroCall, words: Array, scale: Array, mask: Array) -> tuple[Array, ...]:
    product = lane.multiply(F32, words, scale)
    result = converted(product, F32, element(call.results[0]), rounding(call), saturate=False)
    return (spread(zeroed(mask, result), 2, part(call)),)


@lane_rule("vtrc")
def _to_whole(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    """Whole numbers in the float type; zeros keep the sign."""
    d = element(call.types[0])
    x = decode(words, d).astype(np.float64)
    whole = np.copysign(whole_number(x, rounding(call)), x)
    return (zeroed(mask, encode(whole, d)),)


# -- masks of a pattern or of a count ----------------------------------------------------------------


def _every(call: MicroCall) -> Array:
    """The numbers of the lanes of the mask that an operation makes."""
    return np.arange(REGISTER_BYTES // _width(call))


def _pattern(call: MicroCall) -> tuple[Array, ...]:
    every, name = _every(call), str(call.attributes["pattern"]).removeprefix("PAT_")
    if name.startswith("M"):
        return (image(every % int(name[1:]) == 0),)
    counts = {"ALL": len(every), "ALLF": 0, "H": len(every) // 2, "Q": len(every) // 4}
    return (image(every < (counts[name] if name in counts else int(name[2:]))),)


def _of_count(call: MicroCall, count: Array) -> tuple[Array, ...]:
    every, left = _every(call), int(count)
    return image(every < left), np.asarray(max(0, left - len(every)), np.uint32)


def _rest(call: MicroCall, trip: Array, bound: Array) -> tuple[Array, ...]:
    every = _every(call)
    return (image(every + signed(trip) * len(every) < signed(bound)),)


for _bits in (8, 16, 32):
    rule(f"pset_b{_bits}", f"pge_b{_bits}")(_pattern)
    rule(f"plt_b{_bits}")(_of_count)
    rule(f"pltm_b{_bits}")(_rest)
