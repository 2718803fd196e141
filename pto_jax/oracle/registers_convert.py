"""NumPy rules of conversions between element types in registers."""

import numpy as np

from ..ir import F32, DType, RoundMode, unpaired
from ..isa.micro import MicroCall
from ..isa.rules.registers import ROUNDING, element, part, rounding, saturates
from . import arithmetic as lane
from .numbers import Array, decode, encode, integral
from .registers import lane_rule, zeroed


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
    made = zeroed(
        mask, converted(words, unpaired(source), unpaired(target), rounding(call), saturate=saturates(call))
    )
    made = elements(made, target)
    if target.word_bits >= source.word_bits:
        return (made,)
    return (spread(made, source.word_bits // target.word_bits * target.numbers // source.numbers, at),)


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
    made = np.zeros(len(words) * step, words.dtype)
    made[part::step] = words
    return made


@lane_rule("vmulscvt")
def _scale_and_convert(call: MicroCall, words: Array, scale: Array, mask: Array) -> tuple[Array, ...]:
    product = lane.multiply(F32, words, scale)
    made = converted(product, F32, element(call.results[0]), rounding(call), saturate=False)
    return (spread(zeroed(mask, made), 2, part(call)),)


@lane_rule("vtrc")
def _to_whole(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    """Whole numbers in the float type; zeros keep the sign."""
    d = element(call.types[0])
    x = decode(words, d).astype(np.float64)
    whole = np.copysign(whole_number(x, rounding(call)), x)
    return (zeroed(mask, encode(whole, d)),)
