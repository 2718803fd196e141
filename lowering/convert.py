"""Conversion between element types with rounding and saturation modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, DType, RoundMode
from pto_jax.isa.rules.conversions import Conversion

from . import bits, formulas

if TYPE_CHECKING:
    from jaxtyping import Float64, Int, Integer, UInt, UInt32

_METHOD = lax.RoundingMethod


def round_whole(v: Float64[Array, "*shape"], mode: RoundMode) -> Float64[Array, "*shape"]:
    """float64 values rounded to whole numbers; ODD is nearest with ties to the odd one."""
    match mode:
        case RoundMode.ROUND:
            return lax.round(v, _METHOD.AWAY_FROM_ZERO)
        case RoundMode.FLOOR:
            return lax.floor(v)
        case RoundMode.CEIL:
            return lax.ceil(v)
        case RoundMode.TRUNC | RoundMode.NONE:
            return jnp.where(v < 0, lax.ceil(v), lax.floor(v))
        case RoundMode.ODD:
            low = lax.floor(v)
            tie = (v - low) == np.float64(0.5)
            odd = jnp.where(lax.rem(low, np.float64(2)) == 0, low + 1, low)
            return jnp.where(tie, odd, lax.round(v, _METHOD.TO_NEAREST_EVEN))
        case _:
            return lax.round(v, _METHOD.TO_NEAREST_EVEN)


def to_float64(words: UInt[Array, "*shape"], dtype: DType) -> Float64[Array, "*shape"]:
    """Float64 values of words, of their shape.

    64-bit integers that do not fit are rounded to odd, so that a later rounding to a narrower type is as if
    it were the only one.
    """
    if dtype.is_float:
        return bits.decode(words, dtype)
    native = integer(words, dtype)
    value = lax.convert_element_type(native, np.float64)
    if dtype.bits < 64:
        return value
    magnitude = lax.convert_element_type(native, np.uint64)
    if dtype.is_signed:
        magnitude = jnp.where(native < 0, ~magnitude + np.uint64(1), magnitude)
    shift = jnp.maximum(np.uint64(11) - lax.clz(magnitude), np.uint64(0))
    shift = jnp.where(lax.clz(magnitude) >= np.uint64(11), np.uint64(0), shift)
    kept = (magnitude >> shift) << shift
    sticky = lax.convert_element_type(kept != magnitude, np.uint64) << shift
    odd = lax.convert_element_type(kept | sticky, np.float64)
    return jnp.where(native < 0, -odd, odd) if dtype.is_signed else odd


def integer(words: UInt[Array, "*shape"], dtype: DType) -> Integer[Array, "*shape"]:
    """Integer words as native integers (4-bit elements sign-extended to int8)."""
    if dtype.bits == 4:
        low = lax.bitcast_convert_type(words << np.uint8(4), np.int8)
        return lax.shift_right_arithmetic(low, np.int8(4))
    return lax.bitcast_convert_type(words, dtype.numpy)


def integer_words(value: Integer[Array, "*shape"], dtype: DType) -> UInt[Array, "*shape"]:
    """Native integers as words of the type, low bits kept."""
    return lax.convert_element_type(value, dtype.word)


def clamp_to_int(whole: Float64[Array, "*shape"], dtype: DType, nan: int) -> UInt[Array, "*shape"]:
    """Whole float64 values to an integer type with exact limits; NaN gives ``nan``."""
    low, high = np.float64(dtype.min_int), np.float64(dtype.max_int)
    wide = np.uint64 if dtype.name == "u64" else np.int64
    safe = jnp.where((whole > low) & (whole < high), whole, 0)
    value = lax.convert_element_type(safe, wide)
    value = jnp.where(whole >= high, wide(dtype.max_int), value)
    value = jnp.where(whole <= low, wide(dtype.min_int), value)
    value = jnp.where(whole != whole, wide(nan), value)
    return lax.convert_element_type(value, dtype.word)


def largest(dtype: DType) -> float:
    """The largest finite value of a type, as float64 (integer limits may round up)."""
    if dtype.is_integer:
        return float(dtype.max_int)
    if dtype.bits <= 8:
        table = bits.value_table(dtype)
        return float(table[np.isfinite(table)].max())
    field = ((1 << dtype.exponent) - 2) - dtype.bias
    return float(2.0**field * (2 - 2.0**-dtype.mantissa))


def _lowest(dtype: DType) -> float:
    return float(dtype.min_int) if dtype.is_integer else -largest(dtype)


def simulated(
    words: UInt[Array, "*shape"], src: DType, dst: DType, mode: RoundMode, saturate: bool
) -> UInt[Array, "*shape"]:
    """Words of ``dst`` converted from those of ``src`` as the CPU simulator does it.

    Saturation clamps the source value to the range both types share, before the conversion; NaN
    becomes the upper limit.
    """
    if src == dst and not saturate and src.name != "i4":
        return words
    if src.packed and dst.packed:
        return words
    if src.is_integer and dst.is_integer:
        return _simulated_integer(words, src, dst, saturate)
    if src.is_float:
        value = bits.decode(words, src)
    else:
        value = lax.convert_element_type(integer(words, src), np.float64)
    low = np.float64(max(_lowest(src), _lowest(dst)))
    high = np.float64(min(largest(src), largest(dst)))
    if dst.name == "i4":
        return clamp_to_int(round_whole(value, mode), dst, dst.max_int) & np.uint8(0xF)
    if dst.is_integer:
        whole = round_whole(value, mode)
        if not saturate:
            return integer_words(_host_cast(whole, dst), dst)
        clamped = jnp.clip(whole, jnp.ceil(low), jnp.floor(high))
        limit = dst.max_int if largest(src) >= dst.max_int else int(largest(src))
        return clamp_to_int(clamped, dst, limit)
    if saturate and dst.bits > 8:
        value = jnp.where(value != value, high, jnp.clip(value, low, high))
    return bits.encode(value, dst, saturate=saturate)


def cast(words: UInt[Array, "*shape"], src: DType, dst: DType) -> UInt[Array, "*shape"]:
    """Words of ``dst`` by a plain C++ conversion.

    Floats truncate to integers, everything else rounds once, to even.
    """
    if src == dst:
        return words
    if src.is_integer and dst.is_float:
        return bits.encode(to_float64(words, src), dst)
    return simulated(words, src, dst, RoundMode.TRUNC, saturate=False)


def _simulated_integer(
    words: UInt[Array, "*shape"], src: DType, dst: DType, saturate: bool
) -> UInt[Array, "*shape"]:
    if dst.name == "i4" or saturate:
        value = lax.convert_element_type(integer(words, src), np.float64)
        low, high = max(src.min_int, dst.min_int), min(src.max_int, dst.max_int)
        clamped = jnp.clip(value, np.float64(low), np.float64(high))
        out = clamp_to_int(clamped, dst, 0)
        return out & np.uint8(0xF) if dst.name == "i4" else out
    return integer_words(integer(words, src), dst)


def _host_cast(whole: Float64[Array, "*shape"], dst: DType) -> Integer[Array, "*shape"]:
    """The simulator's u8 goes through 64 bits, other types as C++ casts on its host."""
    if dst.name == "u8":
        fits = lax.abs(whole) < np.float64(2.0**63)
        return lax.convert_element_type(jnp.where(fits, whole, 0), np.int64)
    return formulas.c_cast(whole, dst)


def hardware(
    words: UInt[Array, "*shape"], src: DType, dst: DType, how: Conversion, mode: RoundMode, saturate: bool
) -> UInt[Array, "*shape"]:
    """Words of ``dst`` converted from those of ``src`` by the tables of a2a3 and a5."""
    rounding = how.rounding(mode)
    if src.is_integer and dst.is_integer:
        value = integer(words, src)
        if saturate or (src.is_signed and not dst.is_signed and how.default_saturation is None):
            return clamp_to_int(lax.convert_element_type(value, np.float64), dst, 0)
        return integer_words(value, dst)
    if src.is_float and src.bits < 32 and dst == F32:
        single = bits.to_single(words, src)
        return bits.where(bits.is_nan(single, F32), np.uint32(F32.canonical_nan), single)
    value = to_float64(words, src)
    if dst.is_integer:
        whole = round_whole(value, rounding or RoundMode.TRUNC)
        if saturate:
            out = clamp_to_int(whole, dst, 0)
        else:
            via = np.int64 if dst.bits == 64 else np.int32
            out = integer_words(_saturated(whole, via), dst)
        return out & np.uint8(0xF) if dst.bits == 4 else out
    if src == dst == F32:
        whole = bits.encode32(round_whole(value, rounding or RoundMode.RINT))
        signed = (whole & np.uint32(0x7FFFFFFF)) | (words & np.uint32(0x80000000))
        return jnp.where(value != value, whole, signed)
    if dst == F32:
        return to_single(value, rounding or RoundMode.RINT)
    exact = bits.to_single(words, src) if src.is_float else bits.odd32(value)
    return bits.narrow(exact, dst, rounding or RoundMode.RINT, saturate)


def fast(
    words: UInt[Array, "*shape"], src: DType, dst: DType, mode: RoundMode | None, saturate: bool
) -> UInt[Array, "*shape"] | None:
    """A conversion of :func:`hardware` in float32, where XLA has one that rounds so; else None."""
    native = ("f32", "f16", "bf16")
    from_integer = src.is_integer and not src.packed and src.bits <= 32
    if src == dst or not (src.name in native or from_integer):
        return None
    source = integer(words, src) if from_integer else lax.bitcast_convert_type(words, src.numpy)
    value = lax.convert_element_type(source, np.float32)
    if dst.name in native and mode in (None, RoundMode.RINT):
        value = lax.convert_element_type(value, dst.numpy)
        if saturate:
            # In this order, and after the conversion, XLA fuses it with a reduction before it.
            limit = jnp.asarray(largest(dst), dst.numpy)
            value = jnp.maximum(jnp.minimum(value, limit), -limit)
        return lax.bitcast_convert_type(value, dst.word)
    if dst.name in ("i8", "u8", "i16", "u16") and saturate and not from_integer:
        whole = round_whole(value, mode or RoundMode.TRUNC)
        clamped = jnp.clip(whole, np.float32(dst.min_int), np.float32(dst.max_int))
        number = lax.convert_element_type(jnp.where(value == value, clamped, 0), np.int32)
        return lax.convert_element_type(number, dst.word)
    return None


def _saturated(whole: Float64[Array, "*shape"], wide: type[np.signedinteger]) -> Int[Array, "*shape"]:
    limits = np.iinfo(wide)
    inside = (whole > np.float64(limits.min)) & (whole < np.float64(limits.max))
    value = lax.convert_element_type(jnp.where(inside, whole, 0), wide)
    value = jnp.where(whole >= np.float64(limits.max), wide(limits.max), value)
    return jnp.where(whole <= np.float64(limits.min), wide(limits.min), value)


def to_single(value: Float64[Array, "*shape"], mode: RoundMode) -> UInt32[Array, "*shape"]:
    """float32 words of float64 values, rounded by mode."""
    words = bits.encode32(value)
    if mode in (RoundMode.RINT, RoundMode.NONE, RoundMode.ODD):
        return words
    back = bits.decode32(words)
    magnitude, single = lax.abs(value), lax.abs(back)
    one = np.uint32(1)
    inward = jnp.where(single > magnitude, words - one, words)
    outward = jnp.where(single < magnitude, words + one, words)
    match mode:
        case RoundMode.TRUNC:
            return inward
        case RoundMode.FLOOR:
            return jnp.where(value < 0, outward, inward)
        case RoundMode.CEIL:
            return jnp.where(value < 0, inward, outward)
    tie = magnitude - lax.abs(bits.decode32(inward)) == lax.abs(bits.decode32(inward + one)) - magnitude
    return jnp.where(tie & (back != value), inward + one, words)
