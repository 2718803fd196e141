"""Lane functions: words of the operands to words of the result, shared by the instruction files.

Each takes the element type first. Float results are rounded once per documented step and a NaN that is
computed is canonical; a lane that is chosen keeps its bits.
"""

import math
from collections.abc import Callable

import numpy as np

from ..ir import F8E4M3, DType
from .numbers import Array, decode, encode
from .step import Lane

Formula = Callable[..., Array]


def computed(formula: Formula) -> Lane:
    """A formula on values: integers wrap, floats are rounded once at the end.

    A format whose overflow is a NaN has only the one.
    """

    def lane(d: DType, *words: Array) -> Array:
        result = encode(formula(*(decode(w, d) for w in words)), d)
        return (
            np.where(np.isnan(decode(result, d)), result.dtype.type(d.canonical_nan), result)
            if d == F8E4M3
            else result
        )

    return lane


def precise(function: Callable[[Array], Array]) -> Lane:
    """A function evaluated in double precision and rounded once (integers truncate)."""

    def lane(d: DType, x: Array) -> Array:
        return from_double(function(decode(x, d).astype(np.float64)), d)

    return lane


def from_double(x: Array, d: DType) -> Array:
    """Words of float64 values, rounded once; integers as the simulator's host converts."""
    return encode(x, d) if d.is_float else truncated(x, d)


def truncated(x: Array, d: DType, *, width: int = 32) -> Array:
    """Integer words of float64 values as the simulator's host converts them.

    Toward zero into a signed integer of at least ``width`` bits, whose minimum stands for NaN and for
    everything that does not fit; the low bits are kept. u64 has its upper half of values too.
    """
    whole = np.trunc(x)
    if d.name == "u64":
        high = _host_integer(np.where(whole >= 2.0**63, whole - 2.0**63, 0.0), 64)
        return encode(np.where(whole >= 2.0**63, high | np.int64(-(2**63)), _host_integer(whole, 64)), d)
    exact = 64 if d.name == "u32" else max(d.bits, width)
    return encode(_host_integer(whole, exact), d)


def _host_integer(whole: Array, width: int) -> Array:
    limit = 2.0 ** (width - 1)
    fits = (whole >= -limit) & (whole < limit)
    return np.where(fits, np.where(fits, whole, 0.0).astype(np.int64), np.int64(-(2 ** (width - 1))))


add = computed(lambda a, b: a + b)
subtract = computed(lambda a, b: a - b)
multiply = computed(lambda a, b: a * b)
add_add = computed(lambda a, b, c: (a + b) + c)
subtract_add = computed(lambda a, b, c: (a - b) + c)


def bitwise(operation: Formula) -> Lane:
    """A function of raw words as a lane function; the element type plays no part."""
    return lambda d, *words: operation(*words)


def divide(d: DType, a: Array, b: Array) -> Array:
    """Quotient; integers truncate, and a zero divisor gives all ones."""
    x, y = decode(a, d), decode(b, d)
    if d.is_float:
        return encode(x / y, d)
    quotient, _ = divided(x, y)
    return encode(np.where(y == 0, np.array(-1).astype(quotient.dtype), quotient), d)


def divided(x: Array, y: Array) -> tuple[Array, Array]:
    """Integer quotient toward zero and remainder; by zero: 0 and the dividend.

    >>> import numpy as np
    >>> divided(np.array([-7, 7]), np.array([2, 0]))
    (array([-3,  0]), array([-1,  7]))
    """
    x, y = np.broadcast_arrays(x, y)
    divisor = np.where(y == 0, np.ones_like(y), y)
    floor = x // divisor
    exact = floor * divisor == x
    toward_zero = np.where(~exact & ((x < 0) != (divisor < 0)), floor + np.ones_like(floor), floor)
    if np.issubdtype(x.dtype, np.signedinteger):
        toward_zero = np.where(divisor == -1, np.zeros_like(x) - x, toward_zero)
    quotient = np.where(y == 0, np.zeros_like(x), toward_zero)
    return quotient, x - quotient * y


def routine_divide(d: DType, a: Array, b: Array) -> Array:
    """Quotient of integers by a routine: truncated, 0 for a zero divisor."""
    return encode(divided(decode(a, d), decode(b, d))[0], d)


def routine_remainder(d: DType, a: Array, b: Array) -> Array:
    """Remainder of integers by a routine: the dividend's sign, 0 for a zero divisor."""
    y = decode(b, d)
    remainder = divided(decode(a, d), y)[1]
    return encode(np.where(y == 0, np.zeros_like(remainder), remainder), d)


def truncated_remainder(d: DType, a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign; integers by zero give the dividend."""
    x, y = decode(a, d), decode(b, d)
    if d.is_float:
        return encode(np.fmod(x.astype(np.float64), y.astype(np.float64)), d)
    return encode(divided(x, y)[1], d)


def floored_remainder(d: DType, a: Array, b: Array) -> Array:
    """Truncated remainder moved to the divisor's side: one addition in the element type."""
    x, y = decode(a, d), decode(b, d)
    r = decode(truncated_remainder(d, a, b), d)
    moved = r + y
    apart = ((x >= 0) != (y >= 0)) & (r != 0) & (y != 0 if d.is_integer else True)
    return encode(np.where(apart, moved, r), d)


def power(d: DType, base: Array, exponent: Array) -> Array:
    """C ``pow`` for floats; integers wrap, negative exponents leave only bases 1 and -1."""
    if d.is_integer:
        return encode(_integer_power(decode(base, d), decode(exponent, d)), d)
    x, y = np.broadcast_arrays(decode(base, d).astype(np.float64), decode(exponent, d).astype(np.float64))
    return encode(np.power(x.copy(), y.copy()), d)


def double_power(d: DType, base: Array, exponent: Array) -> Array:
    """Power through float64 for every type, truncated for integers.

    The float64 power of integers is the correctly rounded one, which a host's ``pow`` may miss.
    """
    x, y = np.broadcast_arrays(decode(base, d).astype(np.float64), decode(exponent, d).astype(np.float64))
    if d.is_integer:
        return from_double(np.vectorize(_rounded_power, otypes=[np.float64])(x, y), d)
    return from_double(np.power(x.copy(), y.copy()), d)


def _rounded_power(base: float, exponent: float) -> float:
    """``base ** exponent`` of whole numbers, rounded once."""
    if exponent < 0:
        return math.inf if base == 0 else base**exponent
    if abs(base) > 1 and exponent * math.log2(abs(base)) > 65:
        return math.copysign(math.inf, base) if exponent % 2 else math.inf
    return float(int(base) ** int(exponent)) if abs(base) > 1 else base**exponent


def _integer_power(base: Array, exponent: Array) -> Array:
    base, exponent = np.broadcast_arrays(base.astype(np.int64), exponent.astype(np.int64))
    result, square, left = np.ones_like(base), base.copy(), exponent.copy()
    for _ in range(63):
        result = np.where(left & 1 == 1, result * square, result)
        square, left = square * square, left >> 1
        if not (left > 0).any():
            break
    odd = np.where(exponent & 1 == 1, np.int64(-1), np.int64(1))
    unit = np.where(base == 1, np.int64(1), np.where(base == -1, odd, np.int64(0)))
    return np.where(exponent < 0, unit, result)


def shift_left(d: DType, a: Array, b: Array) -> Array:
    """``a << b`` in at least 32 bits, the count modulo that width; the low bits are kept."""
    x, count = _promoted(d, a, b)
    return encode(x << count, d)


def shift_right(d: DType, a: Array, b: Array) -> Array:
    """``a >> b`` in at least 32 bits, the count modulo that width; signed types extend the sign."""
    x, count = _promoted(d, a, b)
    return encode(x >> count, d)


def _promoted(d: DType, a: Array, b: Array) -> tuple[Array, Array]:
    """Operands of a shift: at least 32 bits wide, the count modulo that width."""
    width = max(32, d.bits)
    wide = np.dtype(f"{'u' if d.name in ('u32', 'u64') else 'i'}{width // 8}")
    count = decode(b, d).astype(np.int64) & (width - 1)
    return decode(a, d).astype(wide), count.astype(wide)


def larger(d: DType, a: Array, b: Array) -> Array:
    """The second operand where the first compares less, else the first with its bits."""
    return np.where(decode(a, d) < decode(b, d), b, a)


def smaller(d: DType, a: Array, b: Array) -> Array:
    """The second operand where it compares less, else the first with its bits."""
    return np.where(decode(b, d) < decode(a, d), b, a)


def _minus(d: DType, a: Array) -> Array:
    if d.is_float:
        return np.bitwise_xor(a, d.word.type(1 << (d.bits - 1)))
    return encode(np.zeros_like(a) - a, d)


def negate(d: DType, a: Array) -> Array:
    """Sign bit flipped (NaN included); integers wrap."""
    return _minus(d, a)


def absolute(d: DType, a: Array) -> Array:
    """Negated where below zero: -0 and the sign of NaN stay."""
    return np.where(decode(a, d) < 0, _minus(d, a), a)


def relu(d: DType, a: Array) -> Array:
    """Zero where below zero: NaN and -0 stay."""
    return np.where(decode(a, d) < 0, np.zeros_like(a), a)


def strict_relu(d: DType, a: Array) -> Array:
    """The lane where above zero, else +0 (NaN included)."""
    return np.where(decode(a, d) > 0, a, np.zeros_like(a))


def leaky(d: DType, a: Array, slope: Array) -> Array:
    """The lane with its bits where above zero, else its product with ``slope``."""
    return np.where(decode(a, d) > 0, a, multiply(d, a, slope))


def add_relu(d: DType, a: Array, b: Array) -> Array:
    """The sum where above zero, else +0; integers are compared before they wrap."""
    if d.is_integer:
        total = decode(a, d).astype(np.int32) + decode(b, d).astype(np.int32)
        return encode(np.maximum(total, 0), d)
    return strict_relu(d, add(d, a, b))


def subtract_relu(d: DType, a: Array, b: Array) -> Array:
    """ReLU of a difference: narrow integers are compared before they wrap."""
    if d.is_integer and d.bits < 32:
        full = decode(a, d).astype(np.int32) - decode(b, d).astype(np.int32)
        return encode(np.maximum(full, 0), d)
    return strict_relu(d, subtract(d, a, b))


def reciprocal(d: DType, a: Array) -> Array:
    """The quotient of 1 and ``a``, as :func:`divide` has it."""
    return divide(d, encode(np.ones((1, 1)), d) if d.is_float else np.ones((1, 1), d.word), a)


def routine_reciprocal(d: DType, a: Array) -> Array:
    """The quotient of 1 and ``a``, as :func:`routine_divide` has it."""
    return routine_divide(d, np.ones((1, 1), d.word), a)


def multiply_add_rounded(d: DType, a: Array, b: Array, c: Array) -> Array:
    """``a * b`` rounded to the element type, then ``+ c``."""
    return add(d, multiply(d, a, b), c)


multiply_add = computed(lambda a, b, c: a * b + c)


def multiply_add_relu(d: DType, a: Array, b: Array, c: Array) -> Array:
    """:func:`strict_relu` of :func:`multiply_add_rounded`."""
    return strict_relu(d, multiply_add_rounded(d, a, b, c))


def clamped(formula: Formula) -> Lane:
    """A saturating sum or difference: integers at their limits, floats at the largest finite value."""

    def lane(d: DType, a: Array, b: Array) -> Array:
        x, y = decode(a, d), decode(b, d)
        if d.is_float:
            return encode(formula(x, y), d, saturate=True)
        exact = formula(x.astype(object), y.astype(object)) if d.bits == 64 else formula(_i64(x), _i64(y))
        return np.minimum(np.maximum(exact, d.min_int), d.max_int).astype(decode(a, d).dtype).view(d.word)

    return lane


def _i64(x: Array) -> Array:
    return x.astype(np.int64)


add_saturating = clamped(lambda a, b: a + b)
subtract_saturating = clamped(lambda a, b: a - b)
