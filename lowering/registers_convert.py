"""JAX rules of conversions between element types in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, DType, RoundMode, unpaired
from pto_jax.isa.rules.registers import ROUNDING, element, part, rounding, saturates

from . import bits, convert, formulas
from .micro import RegisterCall
from .numerics import Integer
from .registers import lane_rule, zeroed

if TYPE_CHECKING:
    from jaxtyping import Float64, UInt, UInt32

    from .registers import Active, Lanes


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
    made = zeroed(
        mask, converted(words, unpaired(source), unpaired(target), rounding(call), saturate=saturates(call))
    )
    made = elements(made, target)
    if target.word_bits >= source.word_bits:
        return (made,)
    return (spread(made, source.word_bits // target.word_bits * target.numbers // source.numbers, at),)


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
    made = converted(product, F32, element(call.results[0]), rounding(call), saturate=False)
    return (spread(zeroed(mask, made), 2, part(call)),)


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
