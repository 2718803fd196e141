"""Element formats as NumPy values: exact decoding, correctly rounded encoding.

Words go in and words come out. Values are ``float32`` for the 32- and 16-bit float types, ``float64``
for the smaller ones (looked up in tables of every code) and native integers for integer types.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ExactnessError
from ..ir import BF16, F16, F32, I4, DType, RoundMode

Array: TypeAlias = NDArray[Any]


def require_subnormals() -> None:
    """ExactnessError where NumPy in this thread makes zeros of subnormal numbers: a mode of the processor."""
    least = np.full(1, 2.0**-126, np.float32)
    with np.errstate(all="ignore"):
        kept = least * np.float32(0.5) * np.float32(2) == least
    if not kept.all():
        raise ExactnessError(
            "the interpreter cannot keep its bits: NumPy computes 2^-126 / 2 as zero in this thread",
            fix="start Python without the library that flushes subnormal numbers (compiled with -ffast-math)",
        )


@dataclass(frozen=True)
class SmallFloat:
    """Every code of an 8- or 4-bit float.

    ``values`` is indexed by code. ``magnitudes`` are the non-negative finite values in ascending order
    followed by the first value past the largest; ``codes`` are theirs, the last one what an overflow
    without saturation gives.
    """

    values: Array
    magnitudes: Array
    codes: Array
    sign: int
    nan: int | None
    has_negative_zero: bool

    @property
    def largest(self) -> int:
        """Code of the largest finite value."""
        return int(self.codes[-2])


@cache
def small_float(d: DType) -> SmallFloat:
    """The code table of an element type of at most 8 bits."""
    build = {"hif8": _hif8, "f8e8m0": _e8m0}.get(d.name)
    return build() if build else _tabulate(d)


def _tabulate(d: DType) -> SmallFloat:
    half = 1 << (d.bits - 1)
    finite = [_magnitude(d, code) for code in range(half)]
    past = {"f8e4m3": 480.0, "f8e5m2": 65536.0}.get(d.name)
    top, nan, overflow = half, None, half - 1
    values = np.array(finite)
    if d.name == "f8e4m3":
        top, nan, overflow = 0x7F, 0x7F, 0x7F
        values[0x7F] = np.nan
    elif d.name == "f8e5m2":
        top, nan, overflow = 0x7C, 0x7E, 0x7C
        values[0x7C], values[0x7D:] = np.inf, np.nan
    else:
        past = np.inf
    magnitudes = np.array([*finite[:top], past])
    codes = np.array([*range(top), overflow])
    return SmallFloat(np.concatenate([values, -values]), magnitudes, codes, half, nan, True)


def _magnitude(d: DType, code: int) -> float:
    exponent, fraction = code >> d.mantissa, code & ((1 << d.mantissa) - 1)
    if exponent == 0:
        return float(np.ldexp(float(fraction), 1 - d.bias - d.mantissa))
    return float(np.ldexp(1.0 + fraction / (1 << d.mantissa), exponent - d.bias))


def _e8m0() -> SmallFloat:
    values = np.ldexp(1.0, np.arange(256) - 127)
    values[0xFF] = np.nan
    codes = np.array([*range(255), 0xFF])
    return SmallFloat(values, np.ldexp(1.0, np.arange(256) - 127), codes, 0, 0xFF, False)


def _hif8_magnitude(code: int) -> float:
    """Value of a positive tapered code: the leading bits say how long the exponent is."""
    if code < 0x08:
        return float(np.ldexp(1.0, code - 23)) if code else 0.0
    if code < 0x10:
        width, low = 0, 3
    elif code < 0x20:
        width, low = 1, 3
    else:
        width, low = (2, 3) if code < 0x40 else (3, 2) if code < 0x60 else (4, 1)
    exponent = 0
    if width:
        bits = (code >> low) & ((1 << width) - 1)
        size = (1 << (width - 1)) | (bits & ((1 << (width - 1)) - 1))
        exponent = -size if bits >> (width - 1) else size
    return float(np.ldexp(1.0 + (code & ((1 << low) - 1)) / (1 << low), exponent))


def _hif8() -> SmallFloat:
    positive = np.array([_hif8_magnitude(code) for code in range(128)])
    order = np.argsort(positive, kind="stable")
    magnitudes, codes = positive[order], order.astype(np.int64)
    positive[0x6F] = np.inf
    values = np.concatenate([positive, -positive])
    values[0x80] = np.nan
    return SmallFloat(values, magnitudes, codes, 0x80, 0x80, False)


def is_small(d: DType) -> bool:
    """Whether a type is a float of at most 8 bits, whose values are looked up."""
    return d.is_float and d.bits <= 8


def decode(words: Array, d: DType) -> Array:
    """The values that words stand for, in the NumPy types of the module text."""
    if is_small(d):
        return np.asarray(small_float(d).values[words & ((1 << d.bits) - 1)])
    if d is F32 or d == F32:
        return words.view(np.float32)
    if d == F16:
        return words.view(np.float16).astype(np.float32)
    if d == BF16:
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if d == I4:
        low = (words & 15).astype(np.int8)
        return np.where(low > 7, low - np.int8(16), low).astype(np.int8)
    return words.view(np.dtype(f"{'i' if d.is_signed else 'u'}{d.word_bits // 8}"))


def plain(words: Array, d: DType) -> Array:
    """Raw words as numbers that NumPy computes with: floats as float32, integers as they are.

    >>> from pto_jax.ir import I4
    >>> plain(np.array([0x3C00], np.uint16), F16), plain(np.array([15], np.uint8), I4)
    (array([1.], dtype=float32), array([-1], dtype=int8))
    """
    numbers = decode(words, d)
    return numbers.astype(np.float32) if d.is_float else numbers


def encode(values: Array, d: DType, *, mode: RoundMode = RoundMode.RINT, saturate: bool = False) -> Array:
    """Words of values, rounded once; NaN becomes the canonical quiet NaN.

    Floats that overflow become infinity (NaN where the format has none, the largest value where it has
    neither), or the largest finite value under ``saturate``. Integers keep their low bits.
    """
    if d.is_integer:
        return (values & 15 if d == I4 else values).astype(d.word)
    if is_small(d):
        return _encode_small(np.asarray(values, np.float64), small_float(d), mode, saturate).astype(d.word)
    with np.errstate(all="ignore"):
        rounded = values if mode == RoundMode.RINT else on_grid(np.asarray(values, np.float64), d, mode)
        words = _encode_large(rounded, d)
    if saturate:
        sign = words & d.word.type(1 << (d.bits - 1))
        infinite = (words ^ sign) == infinity(d)
        words = np.where(infinite, sign | d.word.type(infinity(d) - 1), words)
    return np.where(np.isnan(rounded), d.word.type(d.canonical_nan), words)


def infinity(d: DType) -> int:
    """Bits of +infinity of an IEEE-like type."""
    return ((1 << d.exponent) - 1) << d.mantissa


def _encode_large(values: Array, d: DType) -> Array:
    if d == F32:
        return values.astype(np.float32).view(np.uint32)
    if d == F16:
        return values.astype(np.float16).view(np.uint16)
    exact = on_grid(np.asarray(values, np.float64), d, RoundMode.RINT)
    return (exact.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def on_grid(x: Array, d: DType, mode: RoundMode) -> Array:
    """Float64 values rounded to the precision of ``d`` (its range of exponents has no upper end)."""
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, 1 - d.bias) - d.mantissa
    step = np.ldexp(1.0, quantum)
    return np.asarray(np.copysign(integral(x / step, mode) * step, x))


def integral(x: Array, mode: RoundMode) -> Array:
    """Round to an integral value; ODD is round-to-odd, NONE truncates."""
    match mode:
        case RoundMode.RINT:
            return np.rint(x)
        case RoundMode.FLOOR:
            return np.floor(x)
        case RoundMode.CEIL:
            return np.ceil(x)
    toward_zero = np.trunc(x)
    if mode == RoundMode.ROUND:
        up = np.abs(x - toward_zero) >= 0.5
    elif mode == RoundMode.ODD:
        up = (x != toward_zero) & (np.fmod(toward_zero, 2.0) == 0)
    else:
        return toward_zero
    return np.where(up, toward_zero + np.copysign(1.0, x), toward_zero)


def ties_to_odd(x: Array) -> Array:
    """Round to the nearest integral value, halves to the odd one."""
    low = np.floor(x)
    tie = x - low == 0.5
    return np.where(tie, np.where(np.fmod(low, 2.0) == 0, low + 1.0, low), np.rint(x))


def _encode_small(x: Array, table: SmallFloat, mode: RoundMode, saturate: bool) -> Array:
    size = np.abs(x)
    below = np.clip(np.searchsorted(table.magnitudes, size, side="right") - 1, 0, len(table.codes) - 2)
    low, high = table.magnitudes[below], table.magnitudes[below + 1]
    up = _goes_up(size, low, high, table.codes[below], np.signbit(x), mode)
    codes = table.codes[below + up]
    if saturate:
        codes = np.where(below + up == len(table.codes) - 1, table.largest, codes)
    negative = np.signbit(x) & (table.has_negative_zero | (codes != 0))
    codes = np.where(negative, codes | table.sign, codes)
    # A format without a sign has no negative numbers.
    missing = np.isnan(x) | ((x < 0) & (table.sign == 0))
    return np.where(missing, 0 if table.nan is None else table.nan, codes)


def _goes_up(size: Array, low: Array, high: Array, code: Array, negative: Array, mode: RoundMode) -> Array:
    """Whether each magnitude between two neighbours takes the larger one."""
    inexact, beyond = size > low, size >= high
    twice, middle = 2.0 * size, low + high
    match mode:
        case RoundMode.FLOOR:
            up = inexact & negative
        case RoundMode.CEIL:
            up = inexact & ~negative
        case RoundMode.TRUNC:
            up = beyond
        case RoundMode.ROUND:
            up = twice >= middle
        case _:
            up = (twice > middle) | ((twice == middle) & (code % 2 == 1))
    return np.asarray(beyond | up)


def flush(words: Array, d: DType) -> Array:
    """Subnormals of the 32- and 16-bit floats replaced by zeros of the same sign."""
    if d not in (F32, F16, BF16):
        return words
    subnormal = (words & d.word.type(infinity(d))) == 0
    return np.where(subnormal, words & d.word.type(1 << (d.bits - 1)), words)
