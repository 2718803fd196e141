"""Formulas that tile-tile, tile-scalar and expand instructions share.

Arrays ``x``, ``y``, ``z`` and results are raw words of the arithmetic's element type, of shapes that
broadcast, where nothing else is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, I8, CmpMode, DType, RoundMode

from . import bits
from .numerics import (
    ExactFloat,
    FastFloat,
    Float,
    Integer,
    NativeFloat,
    Num,
    Real,
    SoftwareDivision,
    broadcast,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int, Shaped, UInt, UInt32

    from .bits import Floats, Integers

Arithmetic = Float | Integer
#: Bits of the widest type whose integer power is one kernel.
_UNROLLED = 32


def binary(
    a: Arithmetic, operation: str, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    """One of add, sub, mul, div, rounded to the element type."""
    return a.encode(getattr(a, operation)(a.decode(x), a.decode(y)))


def maximum(a: Arithmetic, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """``x`` unless ``x < y``: the first operand wins ties and unordered pairs."""
    return jnp.where(a.compare_words(CmpMode.LT, x, y), y, x)


def minimum(a: Arithmetic, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """``x`` unless ``x > y``."""
    return jnp.where(a.compare_words(CmpMode.GT, x, y), y, x)


def negate(a: Arithmetic, x: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """Unary minus: flips a float's sign bit, wraps integers."""
    if isinstance(a, Integer):
        return a.encode(-a.decode(x))
    return x ^ bits.dtype_sign(a.dtype)


def positive(a: Arithmetic, x: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """The ReLU of fused instructions: ``x > 0 ? x : +0``, so NaN and -0 become +0."""
    return jnp.where(a.compare_words(CmpMode.GT, x, x.dtype.type(0)), x, x.dtype.type(0))


def leaky(a: Arithmetic, x: UInt[Array, "*#shape"], slope: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """``x > 0 ? x : x * slope``."""
    product = a.encode(a.mul(a.decode(x), a.decode(slope)))
    return jnp.where(a.compare_words(CmpMode.GT, x, x.dtype.type(0)), x, product)


def chain(
    a: Arithmetic, first: str, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"], z: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    """``(x first y) + z``; 16-bit floats keep float32 in between and round once."""
    return a.encode(a.add(getattr(a, first)(a.decode(x), a.decode(y)), a.decode(z)))


def _shift_operands(
    a: Integer, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> tuple[Integers, Integers]:
    """Value and count after C++ promotion; the count is taken modulo the promoted width."""
    value, count = a.widen(a.decode(x)), a.widen(a.decode(y))
    limit = value.dtype.type(value.dtype.itemsize * 8 - 1)
    return value, jnp.broadcast_to(count & limit, value.shape)


def shift_left(a: Arithmetic, x: UInt[Array, "*shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """Words of ``x << y`` in the promoted width (32 bits or more), the count modulo it; low bits are kept."""
    assert isinstance(a, Integer)
    value, count = _shift_operands(a, x, y)
    return a.encode(a.narrow(lax.shift_left(value, count)))


def shift_right(a: Arithmetic, x: UInt[Array, "*shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """Words of ``x >> y`` in the promoted width, the count modulo it; signed types extend the sign."""
    assert isinstance(a, Integer)
    value, count = _shift_operands(a, x, y)
    shift = lax.shift_right_arithmetic if a.dtype.is_signed else lax.shift_right_logical
    return a.encode(a.narrow(shift(value, count)))


#: What tile-tile and tile-scalar forms compute of the bits of two operands, by what their names share.
ON_BITS: Mapping[str, Callable[..., UInt[Array, "..."]]] = {
    "and": lambda a, x, y: x & y,
    "or": lambda a, x, y: x | y,
    "xor": lambda a, x, y: x ^ y,
    "shl": shift_left,
    "shr": shift_right,
}


def floored_remainder(
    a: Arithmetic, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    """Remainder with the divisor's sign: the truncated one, plus the divisor where signs differ.

    Where integers are divided by a routine it stays the truncated one.
    """
    u, v, zero = a.decode(x), a.decode(y), a.const(0)
    r = a.fmod(u, v)
    if isinstance(a, SoftwareDivision):
        return a.encode(r)
    differ = a.compare(CmpMode.GE, u, zero) != a.compare(CmpMode.GE, v, zero)
    adjust = differ & a.compare(CmpMode.NE, r, zero)
    return jnp.where(adjust, a.encode(a.add(a.decode(a.encode(r)), v)), a.encode(r))


def integer_power(a: Integer, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """Exact power modulo 2^bits; a negative exponent gives 0 except for bases 1 and -1.

    Exponents are read as signed in 64-bit types.
    """
    x, y = jnp.broadcast_arrays(x, y)
    base = a.decode(x)
    assert isinstance(base, Array)
    one = a.const(1)
    signed = lax.bitcast_convert_type(y, np.dtype(f"i{a.dtype.bits // 8}"))
    negative = signed < 0 if a.dtype.is_signed or a.dtype.bits == 64 else jnp.zeros(y.shape, bool)
    # The loop carry starts from an input: shard_map tracks over which axes a value varies.
    power, square = (base & a.const(0)) | one, base

    def step(i: Int[Array, ""], carry: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
        power, square = carry
        bit = (y >> i.astype(y.dtype)) & y.dtype.type(1)
        return jnp.where(bit != 0, power * square, power), square * square

    # Narrow types take one kernel: a trip of a loop costs more than its products of a small tile.
    count, unroll = np.int32(a.dtype.bits), a.dtype.bits <= _UNROLLED
    power, _ = lax.fori_loop(np.int32(0), count, step, (power, square), unroll=unroll)
    odd = (y & y.dtype.type(1)) != 0
    # Unsigned bases compare with -1 as C++ does: only a 64-bit one can meet a negative exponent.
    minus_one = a.const(-1) if a.dtype.is_signed else a.const(a.dtype.max_int)
    inverse = jnp.where(
        base == one, one, jnp.where((base == minus_one), jnp.where(odd, minus_one, one), a.const(0))
    )
    return a.encode(jnp.where(negative, inverse, power))


def host_power(a: Integer, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """Integer power as the simulator's tpows has it: the float64 power of the operands, cast back.

    The power is the correctly rounded one: exact in 64 bits below 2^64, an approximation above, where
    the cast cannot hold it anyway.
    """
    x, y = jnp.broadcast_arrays(x, y)
    base, exponent = (lax.convert_element_type(a.decode(w), np.float64) for w in (x, y))
    magnitude, one, limit = lax.abs(base), np.float64(1), np.float64(2.0**64)
    count = lax.convert_element_type(lax.abs(exponent), np.uint64)
    whole = lax.convert_element_type(jnp.where(magnitude < limit, magnitude, 0), np.uint64)

    def step(
        i: Int[Array, ""], carry: tuple[Shaped[Array, "*shape"], ...]
    ) -> tuple[Shaped[Array, "*shape"], ...]:
        exact, exact_square, rough, rough_square = carry
        bit = (count >> i.astype(np.uint64)) & np.uint64(1) != 0
        exact = jnp.where(bit, exact * exact_square, exact)
        rough = jnp.where(bit, rough * rough_square, rough)
        return exact, exact_square * exact_square, rough, rough_square * rough_square

    start = (
        (whole & np.uint64(0)) | np.uint64(1),
        whole,
        jnp.where(magnitude < 0, magnitude, one),
        magnitude,
    )
    exact, _, rough, _ = lax.fori_loop(np.int32(0), np.int32(64), step, start)
    power = jnp.where(rough < limit, lax.convert_element_type(exact, np.float64), rough)
    inverse = jnp.where(magnitude == 0, np.float64(np.inf), jnp.where(magnitude == one, one, 0))
    power = jnp.where(exponent < 0, inverse, power)
    odd = (count & np.uint64(1)) != 0
    return a.encode(c_cast(jnp.where((base < 0) & odd, -power, power), a.dtype))


def c_pow(x: Floats, y: Floats) -> Floats:
    """``pow`` of floats with the C library's special cases, which XLA does not promise."""
    x, y = jnp.broadcast_arrays(x, y)
    one, zero, inf = x.dtype.type(1), x.dtype.type(0), x.dtype.type(np.inf)
    magnitude = lax.pow(lax.abs(x), y)
    whole = lax.floor(y) == y
    odd = whole & (lax.abs(lax.rem(y, x.dtype.type(2))) == one)
    negative = lax.lt(x, zero) | ((x == zero) & lax.lt(one / x, zero))
    signed = jnp.where(negative & odd, -magnitude, magnitude)
    undefined = lax.lt(x, zero) & (x > -inf) & ~whole & (lax.abs(y) < inf)
    result = jnp.where(undefined, x.dtype.type(np.nan), signed)
    result = jnp.where((x != x) | (y != y), x.dtype.type(np.nan), result)
    ones = (y == zero) | (x == one) | ((x == -one) & (lax.abs(y) == inf))
    return jnp.where(ones, one, result)


def reciprocal_root(x: Floats) -> Floats:
    """``1 / sqrt(x)``, in float64 as the root of the reciprocal.

    XLA rewrites the quotient to ``rsqrt``, which GPUs approximate. In float64 either form rounds to the
    correctly rounded float32 of every float32 (all significands were tried); fast numerics take the
    approximation.
    """
    one = lax.full_like(x, 1)
    if x.dtype != np.float64:
        return lax.div(one, lax.sqrt(x))
    inverse = lax.div(one, x)
    root = lax.select(lax.lt(x, lax.full_like(x, 0)), lax.full_like(x, np.nan), lax.sqrt(inverse))
    return lax.select(lax.eq(x, lax.full_like(x, 0)), inverse, root)


#: Coefficients 11 to 2 of the polynomial through exp(r) = 1 + r + ... at Chebyshev points of
#: |r| <= log(2) / 2; its error is below 2^-55.
_EXPONENTIAL = (
    2.5100375832561234e-08,
    2.7620075879983367e-07,
    2.7557268480310024e-06,
    2.4801521322368692e-05,
    0.00019841269863040545,
    0.0013888888917196719,
    0.008333333333330065,
    0.041666666666624164,
    0.16666666666666669,
    0.5000000000000001,
)
#: log(2) in two parts: products of the first with whole numbers below 2^11 are exact.
_LOG2 = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c76730p-45")
#: What is added to a power to have it, with the bias of exponents, in the low bits.
_IN_LOW_BITS = np.float64(1.5 * 2.0**52 + 1023)
#: Where exp is infinity, and its reciprocal 0, in every format of at most 32 bits.
_FAR = 200.0


def _exponential(x: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """exp(x) to be rounded to float32 or less; on CPUs less than half of the work of XLA's own.

    It is within a unit in the last place of float64, but for numbers beyond float32.
    ``tests/numerics/test_exponential.py`` compares every float32.
    """
    return _near_exponential(_bounded(x))


def _bounded(x: Floats) -> Floats:
    """Numbers between those where exp is infinity, and its reciprocal 0; NaN as it is."""
    for beyond, limit in ((lax.lt, -_FAR), (lax.gt, _FAR)):
        x = lax.select(beyond(x, lax.full_like(x, limit)), lax.full_like(x, limit), x)
    return x


def _near_exponential(y: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    # Of a constant XLA would not see that it rounds, and leave out the sum and the difference.
    rounding = bits.zero_of(lax.bitcast_convert_type(y, np.uint64)) | _IN_LOW_BITS.view(np.uint64)
    rounding = lax.bitcast_convert_type(rounding, np.float64)
    biased = y * np.float64(1 / math.log(2)) + rounding
    power = biased - rounding
    rest = (y - power * np.float64(_LOG2[0])) - power * np.float64(_LOG2[1])
    result = lax.full_like(y, _EXPONENTIAL[0])
    for coefficient in (*_EXPONENTIAL[1:], 1.0, 1.0):
        result = result * rest + np.float64(coefficient)
    factor = lax.shift_left(lax.bitcast_convert_type(biased, np.uint64), np.uint64(52))
    return result * lax.bitcast_convert_type(factor, np.float64)


#: The largest number whose exp is subnormal in float32.
_SMALL = np.float32(-126 * math.log(2))


def _exponential_words(x: Float32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words of exp(x) on CPUs, NaN canonical; a subnormal number has that of zero, 1, too."""
    result = _near_exponential(lax.convert_element_type(_bounded(x), np.float64))
    # As in bits.encode32, for results that are not negative; either way is right around the smallest normal.
    multiple = result * np.float64(2.0**149) + np.float64(2.0**52)
    low = lax.convert_element_type(lax.bitcast_convert_type(multiple, np.uint64), np.uint32)
    words = lax.bitcast_convert_type(lax.convert_element_type(result, np.float32), np.uint32)
    words = lax.select(lax.le(x, lax.full_like(x, _SMALL)), low, words)
    return bits.once(bits.where(lax.ne(x, x), np.uint32(F32.canonical_nan), words))


def exponential_of_difference(a: Arithmetic, x: Num, y: Num) -> Num:
    """exp(x - y); the difference is rounded to the element type first."""
    if isinstance(a, ExactFloat) and a.dtype == F32:
        # Where a subnormal number makes a difference, the result is 1.
        return a.decoded(_exponential_words(broadcast(lax.sub)(a.flushed(x), a.flushed(y))))
    return exponential(a, a.round_to_type(a.sub(x, y)))


def exponential(a: Arithmetic, x: Num) -> Num:
    """exp(x), as :func:`function`."""
    if isinstance(a, ExactFloat) and a.dtype == F32:
        return a.decoded(_exponential_words(a.flushed(x)))
    return function(a, _exponential if isinstance(a, ExactFloat) else jnp.exp, x)


def float_power(a: Float, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """Words of :func:`c_pow` of the values of words ``x`` and ``y``, rounded once to the element type."""
    return a.encode(a.evaluate(c_pow, a.decode(x), a.decode(y)))


def function(a: Arithmetic, f: Callable[[Floats], Floats], x: Num) -> Num:
    """A float64 function rounded once; integers go through float64 and truncate."""
    if isinstance(a, Integer):
        assert not isinstance(x, Real)
        return c_cast(f(lax.convert_element_type(x, np.float64)), a.dtype)
    return a.evaluate(f, x)


def c_cast(value: Float64[Array, "*#shape"], dtype: DType) -> Integers:
    """float64 to integer as the simulator's host does it.

    Types below 32 bits and i32 go through a 32-bit conversion, u32 through a 64-bit one; what does not
    fit gives that conversion's minimum, and the low bits are kept. u64 takes values from 2^63 upwards
    as they are.
    """
    inside = lax.convert_element_type
    wide = np.int32 if dtype.bits < 32 or dtype.name == "i32" else np.int64
    limit = np.float64(2.0 ** (np.iinfo(wide).bits - 1))
    fits = (value > (-limit - 1 if wide == np.int32 else -limit * (1 + 2**-52))) & (value < limit)
    converted = jnp.where(fits, inside(jnp.where(fits, value, 0), wide), np.iinfo(wide).min)
    if dtype.name == "u64":
        high = inside(jnp.where((value >= limit) & (value < 2 * limit), value - limit, 0), np.int64)
        converted = jnp.where(value >= limit, high ^ np.int64(np.iinfo(np.int64).min), converted)
    return inside(converted, dtype.numpy)


def saturating(
    a: Arithmetic, operation: str, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    """Two-source add or sub clamped to the type's range; floats clamp infinities, NaN stays."""
    if isinstance(a, Integer):
        return _saturating_integer(a, operation, x, y)
    total = getattr(a, operation)(a.decode(x), a.decode(y))
    if a.dtype.bits < 16:
        return bits.narrow(a.words32(total), a.dtype, RoundMode.RINT, saturate=True)
    words = a.encode(total)
    sign = bits.dtype_sign(a.dtype)
    infinity = words.dtype.type(((1 << a.dtype.exponent) - 1) << a.dtype.mantissa)
    largest = infinity - words.dtype.type(1)
    return jnp.where((words & ~sign) == infinity, (words & sign) | largest, words)


def _saturating_integer(
    a: Integer, operation: str, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    u, v = a.decode(x), a.decode(y)
    total = getattr(a, operation)(u, v)
    assert isinstance(u, Array) and isinstance(v, Array)
    low, high = a.const(a.dtype.min_int), a.const(a.dtype.max_int)
    if a.dtype.is_signed:
        w = v if operation == "add" else ~v
        over = ((u ^ total) & (w ^ total)) < 0
        clamped = jnp.where(u < 0, low, high)
    else:
        over = total < u if operation == "add" else u < v
        clamped = high if operation == "add" else low
    return a.encode(jnp.where(over, clamped, total))


def to_float(a: Float, value: Integers) -> Num:
    """An integer array as a float32 number, rounded to nearest even."""
    if isinstance(a, FastFloat):
        return lax.convert_element_type(value, np.float32)
    return a.decode(bits.encode32(lax.convert_element_type(value, np.float64)))


def narrow(single: UInt32[Array, "*shape"], dtype: DType, saturate: bool = False) -> UInt[Array, "*shape"]:
    """float32 words converted to another float type, nearest even."""
    return single if dtype == F32 else bits.narrow(single, dtype, saturate=saturate)


def relu_convert(
    a: Arithmetic, target: DType, operation: str, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]
) -> UInt[Array, "*shape"]:
    """The fused add/sub, ReLU (x > 0 ? x : +0, NaN kept) and saturating narrowing conversion.

    Float sums are rounded to the source type first; 16-bit integer sums are not wrapped.
    """
    if isinstance(a, Integer):
        wide = a.widen(a.decode(x))
        other = a.widen(a.decode(y))
        total = wide + other if operation == "add" else wide - other
        clamped = jnp.clip(total, np.int32(0), np.int32(target.max_int))
        return lax.convert_element_type(clamped, target.word)
    if target == F16 and a.dtype == F32 and type(a) is ExactFloat:
        # What a CPU loses with subnormal operands and sums, float16 does not have.
        a = NativeFloat(F32)
    words = binary(a, operation, x, y)
    negative = a.compare_words(CmpMode.LE, words, words.dtype.type(0))
    clamped = jnp.where(negative, words.dtype.type(0), words)
    if target == F16:
        return bits.narrow(clamped, F16, RoundMode.RINT, saturate=True)
    assert target == I8, target
    value = a.single(a.decode(clamped))
    value = jnp.where(value != value, value.dtype.type(0), value)
    whole = lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.convert_element_type(jnp.minimum(whole, value.dtype.type(127)), target.word)
