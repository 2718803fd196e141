"""Conversions between words and numbers of every element type, in integer arithmetic.

XLA flushes subnormals, contracts multiply-add chains and narrows convert-operate-convert sequences. It keeps
a float64 between an integer decode and an integer encode as it is. Everything here runs inside a scoped
64-bit context (:func:`x64`). Floats of a few bits are converted by instructions on whole vectors, because a
table of 256 values costs a load per element, several times slower on CPUs.

The names of array types are for annotations that state element type and axes: ``UInt32[Array, "lines
lanes"]``. Equal names in one signature are equal sizes; ``*shape`` stands for any axes, ``*#shape`` for axes
that broadcast with the others of that name, ``_`` for one axis, ``...`` for axes without a statement and
``{count}`` for the value of a parameter. Modules import the names for type checking only, so that execution
does not need jaxtyping; tests/numerics/test_shapes.py checks the rules against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import BF16, F8E4M3, F16, F32, DType, RoundMode

if TYPE_CHECKING:
    from jaxtyping import (
        Bool,
        Float,
        Float64,
        Int,
        Int32,
        Integer,
        Shaped,
        UInt,
        UInt8,
        UInt16,
        UInt32,
    )

    #: Raw words of a tile, or of the lanes that an instruction computes.
    Words: TypeAlias = UInt[Array, "rows cols"]
    #: The raw word of a scalar.
    Word: TypeAlias = UInt[Array, ""]
    #: Raw words of a buffer of global memory or of a tile's storage, one after the other.
    Flat: TypeAlias = UInt[Array, " elements"]
    #: Such words, or the numbers that they stand for.
    Elements: TypeAlias = Shaped[Array, " elements"]
    #: The same of a tile.
    Lanes: TypeAlias = Shaped[Array, "rows cols"]
    #: Which of those lanes are meant.
    Mask: TypeAlias = Bool[Array, "rows cols"]
    #: The values of the words of a tile.
    Values: TypeAlias = Float64[Array, "rows cols"]
    #: A valid size, or another small number, that only execution knows.
    Size: TypeAlias = Int32[Array, ""]
    #: An array that control flow carries, of any type and shape.
    Leaf: TypeAlias = Shaped[Array, "..."]
    #: Integers of an element type, no raw words; they broadcast with the arrays of ``*#shape``.
    Integers: TypeAlias = Integer[Array, "*#shape"]
    #: Values of floats, float64 or under fast numerics float32; they broadcast likewise.
    Floats: TypeAlias = Float[Array, "*#shape"]
    from jaxtyping import Int32, Shaped, UInt


U32 = np.uint32
_ABS = U32(0x7FFFFFFF)
_SIGN = U32(0x80000000)
_INF = U32(0x7F800000)
#: A NaN that no instruction makes; a sum that it is added to keeps its bits, but for the sign.
DOUBT = U32(0x7FD50000)
#: The same by format.
DOUBTS = {"f32": int(DOUBT), "bf16": 0x7FD5, "f16": 0x7EA8}
_EVEN = lax.RoundingMethod.TO_NEAREST_EVEN


def widen(words: UInt[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Unsigned words zero-extended to 32 bits."""
    return lax.convert_element_type(words, U32)


def where(
    mask: Bool[Array, "*#shape"],
    x: Shaped[Array, "*#shape"] | np.number[Any],
    y: Shaped[Array, "*#shape"] | np.number[Any],
) -> Shaped[Array, "*shape"]:
    """``jnp.where`` for a bool mask and two operands of one type, of shapes that broadcast.

    It is traced as what it becomes and not as a function of its own, which every program would pay for
    wherever a rule selects.
    """
    shape = np.broadcast_shapes(np.shape(mask), np.shape(x), np.shape(y))
    return lax.select(_spread(mask, shape), _spread(x, shape), _spread(y, shape))


def _spread(v: Shaped[Array, "..."] | np.number[Any], shape: tuple[int, ...]) -> Shaped[Array, "..."]:
    if isinstance(v, Array) and v.shape == shape:
        return v
    return lax.broadcast_in_dim(v, shape, range(len(shape) - np.ndim(v), len(shape)))


def decode32(b: UInt32[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """float64 value of float32 words, subnormals and signed zeros included."""
    magnitude = lax.bitwise_and(b, _ABS)
    # Below the normal range the magnitude is the fraction, and the conversion gives a zero of the sign.
    fraction = lax.convert_element_type(lax.bitcast_convert_type(magnitude, np.int32), np.float64)
    small = lax.bitcast_convert_type(lax.mul(fraction, np.float64(2.0**-149)), np.uint64)
    small = lax.select(lax.lt(magnitude, U32(1 << 23)), small, lax.full_like(small, 0))
    normal = lax.convert_element_type(lax.bitcast_convert_type(b, np.float32), np.float64)
    # Where the conversion keeps subnormals both have the same bits but for the sign.
    value = lax.bitwise_or(lax.bitcast_convert_type(normal, np.uint64), small)
    return lax.bitcast_convert_type(value, np.float64)


def encode32(r: Float64[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words nearest to float64 values, ties to even, canonical NaN."""
    # 2^52 leaves the multiple of the smallest subnormal, rounded, in the low bits. The product is exact, so
    # that its contraction with the sum changes nothing.
    multiple = lax.add(lax.mul(lax.abs(r), np.float64(2.0**149)), np.float64(2.0**52))
    low = lax.convert_element_type(lax.bitcast_convert_type(multiple, np.uint64), np.uint32)
    nearest = lax.bitcast_convert_type(lax.convert_element_type(r, np.float32), np.uint32)
    words = lax.select(_is_tiny(r), lax.bitwise_or(low, lax.bitwise_and(nearest, _SIGN)), nearest)
    return lax.select(lax.ne(r, r), lax.full_like(words, F32.canonical_nan), words)


def settle32(r: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """float64 values rounded to the float32 grid, staying float64."""
    single = lax.convert_element_type(r, np.float32)
    small = lax.mul(lax.round(lax.mul(r, np.float64(2.0**149)), _EVEN), np.float64(2.0**-149))
    return lax.select(_is_tiny(r), small, lax.convert_element_type(single, np.float64))


def settle_sum(r: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """:func:`settle32` for sums of numbers of that grid: below the normal range they are on it already."""
    normal = lax.convert_element_type(lax.convert_element_type(r, np.float32), np.float64)
    return lax.select(_is_tiny(r), r, normal)


def settle32_apart(r: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """:func:`settle32` for GPUs, where XLA drops a conversion to float32 and back: words stand in between."""
    return decode32(encode32(r))


def _is_tiny(r: Float64[Array, "*shape"]) -> Bool[Array, "*shape"]:
    return lax.lt(lax.abs(r), np.float64(2.0**-126))


def once(words: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """Words that take long to compute, or repeat along an axis: on CPUs computed once, not for every use.

    XLA computes again whatever it takes for cheap; a division it keeps apart.
    """
    return lax.div(words, lax.bitwise_or(zero_of(words), words.dtype.type(1)))


def zero_of(words: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """Zeros that XLA takes for numbers, so that it simplifies nothing with them; LLVM knows them."""
    word = words.dtype.type
    return lax.bitwise_and(lax.shift_right_logical(words, word(1)), word(1 << (8 * words.dtype.itemsize - 1)))


def dtype_sign(dtype: DType) -> np.unsignedinteger:
    """The sign bit of a format, as a typed word."""
    return dtype.word.type(1 << (dtype.bits - 1))


def ordered(words: UInt[Array, "*shape"], dtype: DType) -> Int[Array, "*shape"]:
    """Signed integers in the order of the words' values, equal for both zeros."""
    signed = np.dtype(f"i{words.dtype.itemsize}")
    if dtype.is_integer:
        flip = words.dtype.type(0) if dtype.is_signed else dtype_sign(dtype)
        return lax.bitcast_convert_type(lax.bitwise_xor(words, flip), signed)
    magnitude = lax.bitcast_convert_type(lax.bitwise_and(words, ~dtype_sign(dtype)), signed)
    value = lax.bitcast_convert_type(words, signed)
    negative = lax.shift_right_arithmetic(value, signed.type(dtype.bits - 1))
    return lax.sub(lax.bitwise_xor(magnitude, negative), negative)


def is_nan(words: UInt[Array, "*shape"], dtype: DType) -> Bool[Array, "*shape"]:
    """Which words of a float format with infinities encode a NaN, bool of the words' shape."""
    infinity = words.dtype.type(((1 << dtype.exponent) - 1) << dtype.mantissa)
    return lax.gt(lax.bitwise_and(words, ~dtype_sign(dtype)), infinity)


def doubt(dtype: DType) -> np.unsignedinteger:
    """The NaN of a format of :data:`DOUBTS` that says that a number is in doubt."""
    return dtype.word.type(DOUBTS[dtype.name])


def odd32(r: Float64[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words of float64 values rounded to odd, NaN canonical.

    A second rounding to a narrower format is then as if it were the only one.
    """
    words = encode32(r)
    back = decode32(words)
    inexact = (back != r) & (r == r)
    away = lax.abs(back) > lax.abs(r)
    towards = jnp.where(away, words - U32(1), words)
    return jnp.where(inexact, towards | U32(1), words)


def f16_to_f32(h: UInt16[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words of float16 words (exact; NaN payloads shift along)."""
    single = lax.convert_element_type(lax.bitcast_convert_type(h, np.float16), np.float32)
    words = lax.bitcast_convert_type(single, np.uint32)
    w = widen(h)
    sign = lax.shift_left(lax.bitwise_and(w, U32(0x8000)), U32(16))
    payload = lax.shift_left(lax.bitwise_and(w, U32(0x7FFF)), U32(13))
    nan = lax.bitwise_or(lax.bitwise_or(sign, payload), _INF)
    return lax.select(is_nan(h, F16), nan, words)


def f32_to_f16(u: UInt32[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """float16 words of float32 words, nearest even, overflow to infinity, canonical NaN."""
    # Conversions between these two flush no float16; float32 subnormals are zeros in float16.
    half = lax.convert_element_type(lax.bitcast_convert_type(u, np.float32), np.float16)
    words = lax.bitcast_convert_type(half, np.uint16)
    return lax.select(is_nan(u, F32), lax.full_like(words, F16.canonical_nan), words)


def f32_to_bf16(u: UInt32[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """bfloat16 words of float32 words, nearest even, canonical NaN."""
    code = (u + U32(0x7FFF) + ((u >> U32(16)) & U32(1))) >> U32(16)
    code = jnp.where((u & _ABS) > _INF, U32(BF16.canonical_nan), code)
    return lax.convert_element_type(code, np.uint16)


def bf16_to_f32(h: UInt16[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words (uint32) of bfloat16 words (uint16), exact; NaN payloads are kept."""
    return widen(h) << U32(16)


@cache
def value_table(dtype: DType) -> Float64[np.ndarray, " codes"]:
    """float64 value of every code of a format of at most 8 bits."""
    codes = np.arange(1 << dtype.bits)
    if dtype.name == "hif8":
        return np.array([_hif8_value(int(c)) for c in codes])
    if dtype.name in ("f8e4m3", "f8e5m2", "f8e8m0"):
        return codes.astype(np.uint8).view(dtype.numpy).astype(np.float64)
    sign = np.where(codes >> 3 & 1, -1.0, 1.0)
    magnitude = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]) if dtype.name == "f4e2m1x2" else np.arange(8) / 4.0
    return np.asarray(sign * magnitude[codes & 7])


def _hif8_value(code: int) -> float:
    """Value of a HiFloat8 code: a prefix of the payload selects exponent and fraction widths."""
    sign = -1.0 if code & 0x80 else 1.0
    p = code & 0x7F
    if p >> 3 == 0:
        if p == 0:
            return float("nan") if code & 0x80 else 0.0
        return sign * 2.0 ** (p - 23)
    if p >> 3 == 1:
        return sign * (1 + (p & 7) / 8)
    if p >> 4 == 1:
        return sign * 2.0 ** (-1 if p >> 3 & 1 else 1) * (1 + (p & 7) / 8)
    width, fraction = {1: (2, 3), 2: (3, 2), 3: (4, 1)}[p >> 5]
    exponent = p >> fraction & ((1 << width) - 1)
    negative = exponent >> (width - 1)
    magnitude = (1 << (width - 1)) + (exponent & ((1 << (width - 1)) - 1))
    e = -magnitude if negative else magnitude
    m = p & ((1 << fraction) - 1)
    if e == 15 and m:
        return sign * float("inf")
    return sign * 2.0**e * (1 + m / (1 << fraction))


def decode(words: UInt[Array, "*shape"], dtype: DType) -> Float64[Array, "*shape"]:
    """float64 value of the words of any float format."""
    match dtype.name:
        case "f32":
            return decode32(words)
        case "f16":
            single = lax.bitcast_convert_type(f16_to_f32(words), np.float32)
            return lax.convert_element_type(single, np.float64)
        case "bf16":
            return decode32(bf16_to_f32(words))
    table = jnp.asarray(value_table(dtype))
    index = lax.convert_element_type(words & np.uint8((1 << dtype.bits) - 1), np.int32)
    return table[index]


def to_single(words: UInt[Array, "*shape"], dtype: DType) -> UInt32[Array, "*shape"]:
    """float32 words of the words of any float format (exact, NaN stays NaN)."""
    match dtype.name:
        case "f32":
            return words
        case "f16":
            return f16_to_f32(words)
        case "bf16":
            return bf16_to_f32(words)
        case "f8e4m3" | "f8e5m2" | "f8e8m0":
            return single(words, dtype)
    table = value_table(dtype).astype(np.float32).view(np.uint32)
    index = lax.convert_element_type(words & np.uint8((1 << dtype.bits) - 1), np.int32)
    return jnp.asarray(table)[index]


def narrow(
    single: UInt32[Array, "*shape"], dtype: DType, mode: RoundMode = RoundMode.RINT, saturate: bool = False
) -> UInt[Array, "*shape"]:
    """Words of a float format from float32 words, one rounding in the given mode.

    Overflow and infinities become infinity (or NaN where the format has none), the largest finite
    value under ``saturate`` and in formats with neither. NaN becomes the canonical NaN; +0 in 4-bit
    formats, which have none.
    """
    if mode == RoundMode.RINT and dtype in (F16, BF16):
        words = f32_to_f16(single) if dtype == F16 else f32_to_bf16(single)
        # The largest finite code is the one before the infinity.
        infinite = (words & ~dtype_sign(dtype)) == dtype.word.type(_limits(dtype)[0] + 1)
        return jnp.where(infinite, words - dtype.word.type(1), words) if saturate else words
    if dtype.name == "hif8":
        return _nearest_hif8(single, mode, saturate)
    if dtype.name == "f8e8m0":
        return _narrow_e8m0(single)
    sign, a = single >> U32(31), single & _ABS
    nearest = mode == RoundMode.RINT and dtype.name in IEEE
    code = nearest_code(a, dtype) if nearest else rounded(a, sign, dtype, mode)
    largest, infinity = _limits(dtype)
    over = largest if saturate or infinity is None else infinity
    code = jnp.where((code > U32(largest)) | (a >= _INF), U32(over), code)
    sign_bit = sign << U32(dtype.bits - 1)
    nan = U32(dtype.canonical_nan) if dtype.bits >= 8 else U32(0)
    code = jnp.where(a > _INF, nan, code | sign_bit)
    return lax.convert_element_type(code, dtype.word)


def result(words: UInt[Array, "*shape"], dtype: DType) -> UInt[Array, "*shape"]:
    """Words that arithmetic made, with one NaN: f8e4m3 overflows to a NaN of either sign."""
    if dtype != F8E4M3:
        return words
    nan = np.uint8(dtype.canonical_nan)
    return jnp.where((words & ~dtype_sign(dtype)) == nan, nan, words)


def _limits(dtype: DType) -> tuple[int, int | None]:
    """Code of the largest finite value, and what overflow gives (None: the format saturates)."""
    top = (1 << (dtype.bits - 1)) - 1
    match dtype.name:
        case "f8e4m3":
            return top - 1, top
        case "f4e2m1x2" | "f4e1m2x2":
            return top, None
    infinity = ((1 << dtype.exponent) - 1) << dtype.mantissa
    return infinity - 1, infinity


def _nearest_hif8(single: UInt32[Array, "*shape"], mode: RoundMode, saturate: bool) -> UInt8[Array, "*shape"]:
    """The nearest HiFloat8 code; ties go away from zero under ROUND, else to the even code."""
    a = single & _ABS
    code = lax.convert_element_type(hif8(a, mode), np.uint8)
    # The value after 2^15 would be 1.5 * 2^15, whose code is the infinity.
    halfway = np.float32(1.25 * 2.0**15).view(np.uint32)
    over = a >= halfway if mode == RoundMode.ROUND else a > halfway
    code = jnp.where(over, np.uint8(0x6E if saturate else 0x6F), code)
    sign = lax.convert_element_type(single >> U32(24), np.uint8) & np.uint8(0x80)
    code = jnp.where(code == np.uint8(0), code, code | sign)
    return jnp.where(a > _INF, np.uint8(0x80), code)


def _narrow_e8m0(single: UInt32[Array, "*shape"]) -> UInt8[Array, "*shape"]:
    """Codes of the nearest power of two of float32 words; ties go to the even exponent code.

    Zero gives 2^-127; negative values, values nearer to 2^128, infinities and NaN give NaN.
    """
    a = single & _ABS
    code = (a + U32(0x3FFFFF) + ((a >> U32(23)) & U32(1))) >> U32(23)
    # 2^-127 is a float32 subnormal, where the spacing is that of the codes above.
    low = lax.convert_element_type(a > U32(0x600000), np.uint32)
    code = jnp.where(a < U32(0x800000), low, code)
    bad = (a >= _INF) | ((single >> U32(31) == U32(1)) & (a != U32(0)))
    return lax.convert_element_type(jnp.where(bad, U32(0xFF), code), np.uint8)


def encode(r: Float64[Array, "*shape"], dtype: DType, saturate: bool = False) -> UInt[Array, "*shape"]:
    """Words of float64 values, one rounding to nearest even."""
    if dtype == F32:
        return encode32(r)
    return narrow(odd32(r), dtype, saturate=saturate)


def pack(words: UInt8[Array, "rows numbers"]) -> UInt8[Array, "rows pairs"]:
    """Bytes of two 4-bit words side by side, the first one in the low half; a last one alone is dropped."""
    pairs = words.shape[1] // 2
    return words[:, 0 : 2 * pairs : 2] | words[:, 1 : 2 * pairs : 2] << np.uint8(4)


def unpack(packed: UInt8[Array, "rows pairs"]) -> UInt8[Array, "rows numbers"]:
    """The 4-bit words of bytes of two: :func:`pack` undone."""
    return nibbles(packed).reshape(packed.shape[0], -1)


def nibbles(packed: UInt8[Array, "*shape"]) -> UInt8[Array, " numbers"]:
    """The 4-bit words of bytes of two in one row, the low half of each byte first."""
    return jnp.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1).reshape(-1)


_NAN = U32(0x7FC00000)
#: Formats with a sign, a biased exponent and a fraction, whose subnormals are normal in float32.
IEEE = ("f8e4m3", "f8e5m2")


def single(words: UInt8[Array, "*shape"], dtype: DType) -> UInt32[Array, "*shape"]:
    """float32 words of codes of a format of :data:`IEEE` or of f8e8m0; exact, NaN canonical with its sign."""
    w = lax.convert_element_type(words, U32)
    if dtype.name == "f8e8m0":
        return jnp.where(w == U32(0), U32(1 << 22), jnp.where(w == U32(255), _NAN, w << U32(23)))
    # The bits of a float16, whose exponent is then moved: its conversion flushes no subnormals.
    sign, magnitude = w & U32(0x80), w & U32(0x7F)
    half = (sign << U32(8)) | (magnitude << U32(F16.mantissa - dtype.mantissa))
    number = lax.bitcast_convert_type(lax.convert_element_type(half, np.uint16), np.float16)
    power = np.float32(2.0 ** (F16.bias - dtype.bias))
    value = lax.bitcast_convert_type(lax.convert_element_type(number, np.float32) * power, U32)
    is_nan = magnitude > U32(0x7C) if dtype.name == "f8e5m2" else magnitude == U32(0x7F)
    return jnp.where(is_nan, _NAN | (sign << U32(24)), value)


def nearest_code(a: UInt32[Array, "*shape"], dtype: DType) -> UInt32[Array, "*shape"]:
    """Codes of finite float32 magnitudes in a format of :data:`IEEE`, nearest even.

    Codes go on beyond the format's largest.
    """
    drop, rebias = 23 - dtype.mantissa, 127 - dtype.bias
    normal = (a - U32(rebias << 23) + U32((1 << (drop - 1)) - 1) + ((a >> U32(drop)) & U32(1))) >> U32(drop)
    # A sum with a power of two whose last place is the smallest code: the rounding is the addition's.
    # float32 subnormals, which a CPU takes for zeros, are far below half of that code.
    unit = np.float32(2.0 ** (24 - dtype.mantissa - dtype.bias))
    total = lax.bitcast_convert_type(lax.bitcast_convert_type(a, np.float32) + unit, U32)
    return jnp.where(a < U32((rebias + 1) << 23), total - unit.view(U32), normal)


def rounded(
    a: UInt32[Array, "*shape"], sign: UInt32[Array, "*shape"], dtype: DType, mode: RoundMode
) -> UInt32[Array, "*shape"]:
    """Codes of finite float32 magnitudes, rounded by mode; they go on beyond the format's largest.

    ``sign`` is 1 for negative values.
    """
    field = a >> U32(23)
    significand = jnp.where(field == U32(0), a, (a & U32(0x7FFFFF)) | U32(0x800000))
    exponent = lax.convert_element_type(jnp.maximum(field, U32(1)), np.int32) - np.int32(127 - dtype.bias)
    shift = np.int32(23 - dtype.mantissa) + jnp.maximum(np.int32(1) - exponent, np.int32(0))
    shift = lax.convert_element_type(jnp.minimum(shift, np.int32(31)), np.uint32)
    quotient = _round_shift(significand, shift, sign, mode)
    lead = lax.convert_element_type(jnp.maximum(exponent, np.int32(1)) - np.int32(1), np.uint32)
    return (lead << U32(dtype.mantissa)) + quotient


def _round_shift(
    significand: UInt32[Array, "*shape"],
    shift: UInt32[Array, "*shape"],
    sign: UInt32[Array, "*shape"],
    mode: RoundMode,
) -> UInt32[Array, "*shape"]:
    """``significand >> shift`` rounded by mode (``sign`` is 1 for negative values)."""
    quotient = significand >> shift
    rest = significand & ((U32(1) << shift) - U32(1))
    half = U32(1) << (shift - U32(1))
    match mode:
        case RoundMode.ROUND:
            up = rest >= half
        case RoundMode.FLOOR:
            up = (rest != U32(0)) & (sign == U32(1))
        case RoundMode.CEIL:
            up = (rest != U32(0)) & (sign == U32(0))
        case RoundMode.TRUNC:
            return quotient
        case RoundMode.ODD:
            return quotient | lax.convert_element_type(rest != U32(0), np.uint32)
        case _:
            up = (rest > half) | ((rest == half) & ((quotient & U32(1)) == U32(1)))
    return quotient + lax.convert_element_type(up, np.uint32)


def hif8(a: UInt32[Array, "*shape"], mode: RoundMode) -> UInt32[Array, "*shape"]:
    """HiFloat8 codes of float32 magnitudes, nearest; of those above 2^15 and of NaN, any code.

    Ties go away from zero under ROUND, else to the even code.
    """
    drop = _hif8_exponent(a)[2]
    half = U32(1) << (drop - U32(1))
    # Below the normal range codes count powers of two, and the exponent's last bit is the code's.
    add = half if mode == RoundMode.ROUND else half - U32(1) + ((a >> drop) & U32(1))
    value = ((a + add) >> drop) << drop
    exponent, size, drop = _hif8_exponent(value)
    below = lax.convert_element_type(exponent < np.int32(0), U32)
    fraction = (value & U32(0x7FFFFF)) >> drop
    wide = (drop << U32(5)) + (size << (U32(23) - drop)) + (below << U32(4)) - U32(19 * 32 + 16)
    narrow = (size + below + U32(1)) << U32(3)
    code = jnp.where(size < U32(2), narrow, wide) + fraction
    tiny = lax.bitcast_convert_type(exponent + np.int32(23), U32)
    code = jnp.where(exponent < np.int32(-15), tiny, code)
    # Half of the smallest magnitude, 2^-22, rounds to it or to zero.
    least = a >= U32(104 << 23) if mode == RoundMode.ROUND else a > U32(104 << 23)
    return jnp.where(a < U32(105 << 23), lax.convert_element_type(least, U32), code)


def _hif8_exponent(
    a: UInt32[Array, "*shape"],
) -> tuple[Int32[Array, "*shape"], UInt32[Array, "*shape"], UInt32[Array, "*shape"]]:
    """Of float32 magnitudes: the exponent, its size, and how many bits of the fraction HiFloat8 drops."""
    exponent = lax.bitcast_convert_type(a >> U32(23), np.int32) - np.int32(127)
    size = lax.bitcast_convert_type(lax.abs(exponent), U32)
    drop = lax.full_like(a, U32(20))
    for most in (3, 7, 15):
        drop = drop + lax.convert_element_type(size > U32(most), U32)
    return exponent, size, drop


def from_words(words: UInt[Array, "*shape"], like: np.dtype[Any]) -> Shaped[Array, "*shape"]:
    """Raw words as an array of the given type. Call inside the 64-bit scope."""
    return words if words.dtype == like else lax.bitcast_convert_type(words, like)


def raw(array: Shaped[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """The raw words of an array; of words, the array."""
    word = np.dtype(f"u{array.dtype.itemsize}")
    return array if array.dtype == word else lax.bitcast_convert_type(array, word)


def moved_as(dtype: DType) -> np.dtype[Any]:
    """The type of the arrays in which elements of global memory are moved: that of arguments and results.

    As words they would have to be copied on the way in and out. Narrow floats stay words, as XLA may
    compute with others on the way.
    """
    native = dtype == F32 or (dtype.is_integer and dtype.bits >= 8)
    return np.dtype(dtype.numpy if native else dtype.word)


def moves_intact(dtype: DType) -> bool:
    """Whether an element of the type is one array element, whose bits XLA leaves as they are on the way.

    On CPUs slices of bfloat16 and of 8-bit floats are slices of wider floats.
    """
    return not dtype.packed and (dtype.is_integer or dtype in (F32, F16))


def numbers_of(words: UInt[Array, "*shape"], dtype: DType) -> Shaped[Array, "*shape"]:
    """Words as numbers of their type, to be reshaped: that keeps the bits of any type.

    XLA drops conversions to words and back only where no reshape of words stands between. Elements that are
    no array elements of their own stay words.
    """
    return words if dtype.packed or dtype.bits < 8 else from_words(words, np.dtype(dtype.numpy))


def elements_at(flat: Shaped[Array, " size"], where: Int32[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    """Elements at int32 positions; zero at those that are not below the size, which may be none at all."""
    if flat.shape[0] == 0:
        return jnp.zeros(where.shape, flat.dtype)
    return flat.at[where].get(mode="fill", fill_value=0)


def recast(flat: UInt[Array, " words"], word: np.dtype[Any]) -> UInt[Array, " others"]:
    """The bytes of flat words as words of another size, without those at the end that fill none.

    XLA rewrites a cast to wider words and from there to narrower ones into one that its verifier rejects, so
    that wider words are computed.
    """
    old, new = flat.dtype.itemsize, word.itemsize
    if new <= old:
        return flat if new == old else lax.bitcast_convert_type(flat, word).reshape(-1)
    size = new // old
    pieces = flat[: flat.shape[0] // size * size].reshape(-1, size).astype(word)
    words = pieces[:, 0]
    for k in range(1, size):
        words |= pieces[:, k] << word.type(8 * old * k)
    return words


def restored(flat: UInt[Array, " words"], others: UInt[Array, " others"]) -> UInt[Array, " words"]:
    """Flat words of which those that :func:`recast` gives are replaced by others."""
    if others.dtype == flat.dtype:
        return others
    words = recast(others, flat.dtype)
    return flat.at[: words.shape[0]].set(words)


#: Settings of JAX that code of this package is written for, and how each is entered.
_SETTINGS: tuple[tuple[str, Any, Callable[[Any], Any]], ...] = (
    ("jax_numpy_rank_promotion", "allow", jax.numpy_rank_promotion),
    ("jax_numpy_dtype_promotion", "standard", jax.numpy_dtype_promotion),
    # What is executed is a program as a whole, and an instruction as a whole: never an operation of XLA.
    ("jax_disable_jit", False, jax.disable_jit),
    # A trace that shows what a loop carries is left, and begun again.
    ("jax_check_tracer_leaks", False, jax.check_tracer_leaks),
)


def x64() -> Any:
    """The scope in which words are computed with: 64 bits, and the settings that code here is written for.

    The global configuration is never touched.
    """
    wide = jax.enable_x64(True)
    others = [enter(value) for name, value, enter in _SETTINGS if getattr(jax.config, name) != value]
    return _entered((wide, *others)) if others else wide


@contextmanager
def _entered(settings: Sequence[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for setting in settings:
            stack.enter_context(setting)
        yield
