"""Floats of a few bits to float32 words and back, as instructions on whole vectors.

A table of 256 values is a load for every element, which is several times slower on CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType, RoundMode

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt8, UInt32

U32 = np.uint32
_INF, _NAN = U32(0x7F800000), U32(0x7FC00000)
#: Formats with a sign, a biased exponent and a fraction, whose subnormals are normal in float32.
IEEE = ("f8e4m3", "f8e5m2")


def single(words: UInt8[Array, "*shape"], dtype: DType) -> UInt32[Array, "*shape"]:
    """float32 words of codes of a format of :data:`IEEE` or of f8e8m0; exact, NaN canonical with its sign."""
    w = lax.convert_element_type(words, U32)
    if dtype.name == "f8e8m0":
        return jnp.where(w == U32(0), U32(1 << 22), jnp.where(w == U32(255), _NAN, w << U32(23)))
    fraction, rebias = 23 - dtype.mantissa, 127 - dtype.bias
    magnitude = w & U32(0x7F)
    # The bits of a fraction as a whole number, whose exponent is then moved.
    number = lax.convert_element_type(lax.bitcast_convert_type(magnitude, np.int32), np.float32)
    number = lax.bitcast_convert_type(number, U32)
    tiny = number - U32((dtype.mantissa + dtype.bias - 1) << 23)
    small = jnp.where(magnitude == U32(0), U32(0), tiny)
    normal = (magnitude << U32(fraction)) + U32(rebias << 23)
    value = jnp.where(magnitude < U32(1 << dtype.mantissa), small, normal)
    if dtype.name == "f8e4m3":
        value = jnp.where(magnitude == U32(0x7F), _NAN, value)
    else:
        value = jnp.where(magnitude >= U32(0x7C), jnp.where(magnitude == U32(0x7C), _INF, _NAN), value)
    return value | ((w & U32(0x80)) << U32(24))


def nearest(a: UInt32[Array, "*shape"], dtype: DType) -> UInt32[Array, "*shape"]:
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
