"""Arithmetic of element types on raw words, for the rules of instructions.

A rule asks :func:`arithmetic` for the arithmetic of an element type and writes its formula with it:
``a.encode(a.add(a.decode(x), a.decode(y)))``. ``decode`` turns words into numbers, ``encode`` numbers into
words; every operation between is rounded as if the instruction stood alone. The implementations:

* :class:`ExactFloat` carries float64 between an integer decode and an integer encode: XLA neither contracts,
  narrows nor flushes that form. A result is rounded to float32 only when it is used again, so a single
  operation pays one encode.
* :class:`NativeFloat` gives the same bits on GPUs, whose float32 sums and products XLA rounds separately,
  with subnormals. Division and roots are approximations there, and functions need more than float32: these
  use float64 between an integer decode and one rounding. The canonical NaN is an integer select, which also
  keeps XLA from reordering the operations around it.
* :class:`FastFloat` computes in float32 and lets XLA contract, reorder and flush.
* :class:`Integer` wraps modulo 2^bits; XLA's division by zero (quotient all ones, remainder the dividend) and
  minimum / -1 are the documented values. :class:`SoftwareDivision` is for integers that a profile divides by
  a routine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, CmpMode, DType

from . import bits

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Float64, Shaped, UInt, UInt16, UInt32

    from .bits import Integers


class Real(NamedTuple):
    """A float64 value of the exact arithmetic.

    ``pending`` is the rounding it still needs: "none" for a decoded or settled value, "single" for the
    result of an operation that hardware does in float32 ("sum": of an addition), "direct" for a float64
    evaluation that is rounded once, to the element type. ``words`` are those that a float32 value is decoded
    from; "encoded" says that its NaN is canonical there.
    """

    value: Float64[Array, "..."]
    pending: Literal["none", "encoded", "single", "sum", "direct"] = "none"
    words: UInt32[Array, "..."] | None = None


#: A number of some arithmetic: Real, a float32 array or an integer array.
Num: TypeAlias = "Real | Float32[Array, '...'] | Integers"

#: An operation on arrays of one type and shape, lane by lane.
Lanewise: TypeAlias = "Callable[[Shaped[Array, '*shape'], Shaped[Array, '*shape']], Shaped[Array, '*shape']]"

COMPARE: dict[CmpMode, Lanewise] = {
    CmpMode.EQ: lax.eq,
    CmpMode.NE: lax.ne,
    CmpMode.LT: lax.lt,
    CmpMode.LE: lax.le,
    CmpMode.GT: lax.gt,
    CmpMode.GE: lax.ge,
}


def broadcast(op: Lanewise) -> Lanewise:
    """An operation on arrays of one shape, on arrays of shapes that broadcast."""

    def apply(x: Shaped[Array, "*#shape"], y: Shaped[Array, "*#shape"]) -> Shaped[Array, "*shape"]:
        return op(x, y) if jnp.shape(x) == jnp.shape(y) else op(*jnp.broadcast_arrays(x, y))

    return apply


#: The formats whose operations are float32 operations, and for 16 bits one rounding more.
FORMATS = ("f32", "f16", "bf16")


class NativeFloat:
    """IEEE-754 arithmetic of a format of 16 or 32 bits: numbers are float32, or a :class:`Real`.

    A Real is a float64 function of 16-bit operands, whose one rounding is pending.
    """

    def __init__(self, dtype: DType) -> None:
        assert dtype.name in FORMATS, dtype
        self.dtype = dtype

    def decode(self, words: UInt[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The float32 values of words."""
        if self.dtype == F16:
            return lax.convert_element_type(lax.bitcast_convert_type(words, np.float16), np.float32)
        return lax.bitcast_convert_type(bits.to_single(words, self.dtype), np.float32)

    def const(self, value: float) -> Float32[Array, ""]:
        """A float32 constant of shape ()."""
        return jnp.asarray(np.float32(value))

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """Words of the element type, rounded once from what is pending, NaN canonical."""
        if isinstance(x, Real):
            return bits.encode(x.value, self.dtype)
        words = _words(x)
        return _half(words) if self.dtype == F16 else words if self.dtype == F32 else bits.f32_to_bf16(words)

    def round_to_type(self, x: Num) -> Float32[Array, "..."]:
        """The value rounded to the element type, as when it is stored and read back."""
        return self.single(x) if self.dtype == F32 else self.decode(self.encode(x))

    def single(self, x: Num) -> Float32[Array, "..."]:
        """The value rounded to float32."""
        return _rounded(x.value) if isinstance(x, Real) else x

    def words_and_value(self, x: Num) -> tuple[UInt32[Array, "*shape"], Float64[Array, "*shape"]]:
        """:meth:`encode` of a float32 result, and the float64 value of its words."""
        words = self.encode(x)
        return words, bits.decode32(words)

    def words32(self, x: Num) -> UInt32[Array, "..."]:
        """float32 words of the value."""
        return _words(self.single(x))

    def add(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x + y``."""
        return broadcast(_native_sum)(self.single(x), self.single(y))

    def sub(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x - y``."""
        return self.add(x, lax.neg(self.single(y)))

    def mul(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x * y``."""
        return _settled(broadcast(lax.mul)(self.single(x), self.single(y)))

    def div(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x / y``."""
        return _rounded(broadcast(lax.div)(self._wide(x), self._wide(y)))

    def fmod(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """Remainder with the dividend's sign, which is exact."""
        return _rounded(broadcast(lax.rem)(self._wide(x), self._wide(y)))

    def evaluate(self, function: Callable[..., Float64[Array, "..."]], *args: Num) -> Num:
        """A float64 function of the values, rounded once to the element type."""
        result = Real(function(*(self._wide(a) for a in args)), "direct")
        return _rounded(result.value) if self.dtype == F32 else result

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds, bool; with NaN only NE does."""
        return broadcast(COMPARE[mode])(self.single(x), self.single(y))

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of words."""
        return self.compare(mode, self.decode(x), self.decode(jnp.asarray(y)))

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Float32[Array, "..."]:
        """The value of ``x`` where the bool mask is set, else that of ``y``."""
        return jnp.where(mask, self.single(x), self.single(y))

    def is_nan(self, x: Num) -> Bool[Array, "..."]:
        """Which values are NaN, bool."""
        v = self.single(x)
        return v != v

    def _wide(self, x: Num) -> Float64[Array, "..."]:
        """The float64 value, in the form that division and roots of it are not narrowed to float32."""
        return bits.decode32(lax.bitcast_convert_type(self.single(x), np.uint32))


def _words(x: Float32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """The words of float32 values, NaN canonical."""
    words = lax.bitcast_convert_type(x, np.uint32)
    return lax.select(lax.ne(x, x), lax.full_like(words, F32.canonical_nan), words)


def _half(words: UInt32[Array, "*shape"]) -> UInt16[Array, "*shape"]:
    """float16 words of float32 words, nearest even, NaN canonical."""
    half = lax.convert_element_type(lax.bitcast_convert_type(words, np.float32), np.float16)
    nearest = lax.bitcast_convert_type(half, np.uint16)
    return lax.select(bits.is_nan(words, F32), lax.full_like(nearest, F16.canonical_nan), nearest)


def _settled(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The values behind an integer operation, NaN canonical."""
    return lax.bitcast_convert_type(_words(x), np.float32)


def _rounded(x: Float64[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """float64 values rounded to float32, NaN canonical."""
    return _settled(lax.convert_element_type(x, np.float32))


def _native_sum(x: Float32[Array, "*shape"], y: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The sum with the right sign of zero, for XLA takes the other operand for a sum with a constant zero."""
    total = lax.add(x, y)
    negative = lax.bitwise_and(*(lax.bitcast_convert_type(v, np.uint32) for v in (x, y)))
    zero = lax.bitcast_convert_type(lax.bitwise_and(negative, np.uint32(1 << 31)), np.float32)
    return _settled(lax.select(lax.eq(total, np.float32(0)), zero, total))


class _Arrays:
    """Operations of numbers that are arrays of one type, in XLA's arithmetic of it; none is rounded."""

    decode: Callable[..., Array]

    def add(self, x: Num, y: Num) -> Array:
        """``x + y``; integers modulo 2^bits."""
        return self._array(x) + self._array(y)

    def sub(self, x: Num, y: Num) -> Array:
        """``x - y``; integers modulo 2^bits."""
        return self._array(x) - self._array(y)

    def mul(self, x: Num, y: Num) -> Array:
        """``x * y``; integers modulo 2^bits."""
        return self._array(x) * self._array(y)

    def fmod(self, x: Num, y: Num) -> Array:
        """Remainder with the dividend's sign; of integers the dividend where ``y`` is zero."""
        return broadcast(lax.rem)(self._array(x), self._array(y))

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds, bool; with NaN only NE does."""
        return broadcast(COMPARE[mode])(self._array(x), self._array(y))

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of words."""
        return self.compare(mode, self.decode(x), self.decode(jnp.asarray(y)))

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Array:
        """``x`` where the bool mask is set, else ``y``."""
        return jnp.where(mask, self._array(x), self._array(y))

    @staticmethod
    def _array(x: Num) -> Array:
        assert not isinstance(x, Real)
        return x


class Integer(_Arrays):
    """Two's complement arithmetic modulo 2^bits."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self._native = np.dtype(dtype.numpy)

    def decode(self, words: UInt[Array, "*#shape"]) -> Integers:
        """The words as integers of the element type."""
        return lax.bitcast_convert_type(words, self._native)

    def const(self, value: float) -> Integers:
        """A constant of the element type, of shape ()."""
        return jnp.asarray(self._native.type(value))

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """The integers as raw words."""
        return lax.bitcast_convert_type(self._array(x), self.dtype.word)

    def round_to_type(self, x: Num) -> Integers:
        """The integers themselves: they are of the element type already."""
        return self._array(x)

    def div(self, x: Num, y: Num) -> Integers:
        """``x / y`` truncated towards zero; all ones where ``y`` is zero."""
        return broadcast(lax.div)(self._array(x), self._array(y))

    def widen(self, x: Num) -> Integers:
        """The value in at least 32 bits, as C++ promotes operands."""
        wide = self._native if self.dtype.bits >= 32 else np.dtype(np.int32)
        return lax.convert_element_type(self._array(x), wide)

    def narrow(self, x: Integers) -> Integers:
        """The low bits of a widened value."""
        return lax.convert_element_type(x, self._native)


class SoftwareDivision(Integer):
    """Integers that hardware divides by a routine: a zero divisor gives 0, as quotient and as remainder."""

    def div(self, x: Num, y: Num) -> Integers:
        """``x / y`` truncated towards zero; 0 where ``y`` is zero."""
        return self._unless_zero(super().div(x, y), y)

    def fmod(self, x: Num, y: Num) -> Integers:
        """Remainder with the dividend's sign; 0 where ``y`` is zero."""
        return self._unless_zero(super().fmod(x, y), y)

    def _unless_zero(self, result: Integers, divisor: Num) -> Integers:
        zero = self.const(0)
        return jnp.where(self._array(divisor) == zero, zero, result)


class FastFloat(_Arrays):
    """float32 arithmetic of XLA, which decides on subnormals, contraction and order."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def decode(self, words: UInt[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """The float32 values of words."""
        if self.dtype.name in ("f32", "f16", "bf16"):
            native = lax.bitcast_convert_type(words, self.dtype.numpy)
            return lax.convert_element_type(native, np.float32)
        return lax.bitcast_convert_type(bits.to_single(words, self.dtype), np.float32)

    def const(self, value: float) -> Float32[Array, ""]:
        """A float32 constant of shape ()."""
        return jnp.asarray(np.float32(value))

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """Words of the element type: the float32 values rounded to it."""
        value = self._array(x)
        if self.dtype.name in ("f32", "f16", "bf16"):
            native = lax.convert_element_type(value, self.dtype.numpy)
            return lax.bitcast_convert_type(native, self.dtype.word)
        return bits.result(bits.narrow(lax.bitcast_convert_type(value, np.uint32), self.dtype), self.dtype)

    def round_to_type(self, x: Num) -> Float32[Array, "..."]:
        """The float32 values rounded to the element type and back."""
        return self.decode(self.encode(x))

    def single(self, x: Num) -> Float32[Array, "..."]:
        """The float32 values as they are."""
        return self._array(x)

    def words32(self, x: Num) -> UInt32[Array, "..."]:
        """float32 words of the value."""
        return lax.bitcast_convert_type(self._array(x), np.uint32)

    def div(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x / y`` in float32."""
        dividend, divisor = self._array(x), self._array(y)
        # XLA multiplies by 1 / y where y is a constant or broadcast, and flushes that of a large y to zero.
        return dividend / jnp.where(dividend == dividend, divisor, np.float32(1))

    def evaluate(self, function: Callable[..., Float32[Array, "..."]], *args: Num) -> Float32[Array, "..."]:
        """A function of the float32 values."""
        return function(*(self._array(a) for a in args))

    def is_nan(self, x: Num) -> Bool[Array, "..."]:
        """Which values are NaN, bool."""
        return jnp.isnan(self._array(x))


def _sum(x: Float64[Array, "*shape"], y: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """float64 sum with the right sign of zero: XLA takes the other operand for a sum with a constant zero."""
    words = [lax.bitcast_convert_type(n, np.uint64) for n in (x, y)]
    zero = bits.zero_of(lax.bitwise_xor(*words))
    return lax.add(*(lax.bitcast_convert_type(lax.bitwise_or(w, zero), np.float64) for w in words))


class ExactFloat:
    """IEEE-754 arithmetic of a float format, one rounding per operation, subnormals kept."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def decode(self, words: UInt[Array, "..."]) -> Real:
        """The decoded float64 values of words, no rounding pending."""
        return Real(bits.decode(words, self.dtype), words=words if self.dtype == F32 else None)

    def decoded(self, words: UInt32[Array, "..."]) -> Real:
        """The values of float32 words that a function computed, NaN canonical."""
        return Real(bits.decode32(words), "encoded", words)

    def const(self, value: float) -> Real:
        """A float64 constant of shape (), no rounding pending."""
        return Real(jnp.asarray(np.float64(value)))

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """Words of the element type; of 16-bit formats after the pending rounding to float32."""
        real = self._real(x)
        if real.pending == "encoded" and real.words is not None:
            return real.words
        if real.pending in ("single", "sum") and self.dtype != F32:
            return bits.narrow(bits.encode32(real.value), self.dtype)
        words = bits.result(bits.encode(real.value, self.dtype), self.dtype)
        return bits.once(words) if real.pending == "direct" else words

    def round_to_type(self, x: Num) -> Real:
        """The value rounded to the element type, as when it is stored and read back."""
        if self.dtype == F32:
            return Real(self.single(x))
        return Real(bits.decode(self.encode(x), self.dtype))

    def single(self, x: Num) -> Float64[Array, "..."]:
        """The value rounded to float32 (formats below 16 bits: not rounded), as float64."""
        real = self._real(x)
        if real.pending in ("none", "encoded") or self.dtype.bits < 16:
            return real.value
        return (bits.settle_sum if real.pending == "sum" else bits.settle32)(real.value)

    def words_and_value(self, x: Num) -> tuple[UInt32[Array, "*shape"], Float64[Array, "*shape"]]:
        """:meth:`encode` and :meth:`single` of a float32 result at once."""
        real = self._real(x)
        words = self.encode(x)
        if real.pending == "direct":
            return words, bits.decode32(words)
        return words, self.single(x)

    def words32(self, x: Num) -> UInt32[Array, "..."]:
        """float32 words of the value."""
        return bits.encode32(self.single(x))

    def flushed(self, x: Num) -> Float32[Array, "..."]:
        """float32 values, for functions to which a subnormal number is a zero on CPUs."""
        real = self._real(x)
        if real.words is None:
            value = lax.convert_element_type(real.value, np.float32)
        else:
            value = lax.bitcast_convert_type(real.words, np.float32)
        # A choice, as XLA would contract a product with what follows.
        return bits.where(lax.ne(value, value), np.float32(np.nan), value)

    def add(self, x: Num, y: Num) -> Real:
        """``x + y``, its rounding pending."""
        return self._operate(_sum, x, y, "sum")

    def sub(self, x: Num, y: Num) -> Real:
        """``x - y``, its rounding pending."""
        return self._operate(lambda u, v: _sum(u, lax.neg(v)), x, y, "sum")

    def mul(self, x: Num, y: Num) -> Real:
        """``x * y``, its rounding pending."""
        return self._operate(lax.mul, x, y)

    def div(self, x: Num, y: Num) -> Real:
        """``x / y``, its rounding pending."""
        return self._operate(lax.div, x, y)

    def fmod(self, x: Num, y: Num) -> Real:
        """Remainder with the dividend's sign; exact, so no rounding is pending."""
        return Real(broadcast(lax.rem)(self.single(x), self.single(y)))

    def evaluate(self, function: Callable[..., Float64[Array, "..."]], *args: Num) -> Real:
        """A float64 function of settled values, rounded once to the element type."""
        return Real(function(*(self.single(a) for a in args)), "direct")

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds for the settled values, bool; with NaN only NE does."""
        return broadcast(COMPARE[mode])(self.single(x), self.single(y))

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of words: integers in the values' order stand for them, which is less work."""
        d = self.dtype
        if d.name not in ("f32", "f16", "bf16"):
            return self.compare(mode, self.decode(x), self.decode(jnp.asarray(y)))
        if not isinstance(y, Array) and y == 0:
            return _against_zero(mode, x, d)
        y = jnp.asarray(y)
        holds = broadcast(COMPARE[mode])(bits.ordered(x, d), bits.ordered(y, d))
        unordered = broadcast(lax.bitwise_or)(bits.is_nan(x, d), bits.is_nan(y, d))
        unordered = jnp.broadcast_to(unordered, holds.shape)
        if mode == CmpMode.NE:
            return lax.bitwise_or(holds, unordered)
        return lax.bitwise_and(holds, lax.bitwise_not(unordered))

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Real:
        """The settled value of ``x`` where the bool mask is set, else that of ``y``."""
        return Real(bits.where(mask, self.single(x), self.single(y)))

    def is_nan(self, x: Num) -> Bool[Array, "..."]:
        """Which settled values are NaN, bool."""
        v = self.single(x)
        return v != v

    def _operate(self, op: Lanewise, x: Num, y: Num, of: Literal["single", "sum"] = "single") -> Real:
        # Formats below 16 bits are evaluated exactly and rounded once, straight to the format.
        pending = of if self.dtype.bits >= 16 else "direct"
        return Real(broadcast(op)(self.single(x), self.single(y)), pending)

    @staticmethod
    def _real(x: Num) -> Real:
        assert isinstance(x, Real)
        return x


class DoubtingFloat(ExactFloat):
    """float32 operations of CPUs, for :mod:`.doubts`: the exact result, or a NaN where it may be another.

    CPUs take subnormal operands for zeros and flush subnormal results, which is in doubt. So is every NaN, as
    CPUs have several. The value of a Real is float32 here; with its rounding pending it is not subnormal.
    Each sum and product is followed by a choice between integers, which XLA contracts no operations across.
    """

    def __init__(self) -> None:
        super().__init__(F32)

    def decode(self, words: UInt[Array, "*shape"]) -> Real:
        """The words as numbers."""
        return Real(lax.bitcast_convert_type(words, np.float32))

    def decoded(self, words: UInt32[Array, "..."]) -> Real:
        """The words as numbers."""
        return self.decode(words)

    def const(self, value: float) -> Real:
        """A constant of shape ()."""
        return Real(jnp.asarray(np.float32(value)), "single")

    def encode(self, x: Num) -> UInt32[Array, "..."]:
        """The words of numbers, in doubt where they are NaN."""
        value = self.single(x)
        return bits.where(lax.ne(value, value), bits.DOUBT, _words_of(value))

    def round_to_type(self, x: Num) -> Real:
        """The numbers themselves."""
        return self._real(x)

    def single(self, x: Num) -> Float32[Array, "..."]:
        """The float32 values."""
        return self._real(x).value

    def words_and_value(self, x: Num) -> tuple[UInt32[Array, "*shape"], Float32[Array, "*shape"]]:
        """The words, and numbers that are not subnormal."""
        return self.encode(x), self._normal(x)

    def add(self, x: Num, y: Num) -> Real:
        """``x + y``; a small sum is in doubt but where the operands are opposite, or zeros."""
        return Real(broadcast(_doubting_sum)(self.single(x), self.single(y)), "single")

    def sub(self, x: Num, y: Num) -> Real:
        """``x - y``, as the sum."""
        return self.add(x, Real(lax.neg(self.single(y))))

    def mul(self, x: Num, y: Num) -> Real:
        """``x * y``, in doubt where it is zero and no operand is."""
        return Real(broadcast(_doubting_product)(self._normal(x), self._normal(y)), "single")

    def div(self, x: Num, y: Num) -> Real:
        """``x / y`` in float64."""
        return self.decode(self._in_float64(broadcast(lax.div), x, y))

    def fmod(self, x: Num, y: Num) -> Real:
        """Remainder with the dividend's sign, in float64."""
        return self.decode(self._in_float64(broadcast(lax.rem), x, y))

    def evaluate(self, function: Callable[..., Float64[Array, "..."]], *args: Num) -> Real:
        """A float64 function of the values, rounded once; it is NaN of a NaN."""
        return self.decode(bits.once(self._in_float64(function, *args)))

    def _in_float64(self, function: Callable[..., Float64[Array, "..."]], *args: Num) -> UInt32[Array, "..."]:
        return bits.encode32(function(*(bits.decode32(_words_of(self.single(a))) for a in args)))

    def _normal(self, x: Num) -> Float32[Array, "..."]:
        """The values, in doubt where they are subnormal."""
        real = self._real(x)
        if real.pending != "none":
            return real.value
        words = _words_of(real.value)
        # Of a zero it is the largest integer.
        magnitude = lax.shift_left(words, np.uint32(1)) - np.uint32(1)
        return _of_words(bits.where(magnitude < np.uint32((1 << 24) - 1), bits.DOUBT, words))


def _words_of(value: Float32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    return lax.bitcast_convert_type(value, np.uint32)


def _of_words(words: UInt32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return lax.bitcast_convert_type(words, np.float32)


#: Twice 2^-100 in words: to a larger sum no subnormal operand makes a difference.
_LARGE = np.uint32((127 - 100) << 24)


def _doubting_sum(x: Float32[Array, "*shape"], y: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    u, v = _words_of(x), _words_of(y)
    apart = lax.bitwise_xor(u, v)
    # XLA takes the other operand for a sum with a constant zero, whatever the zeros' signs.
    zero = bits.zero_of(apart)
    words = _words_of(lax.add(_of_words(lax.bitwise_or(u, zero)), _of_words(lax.bitwise_or(v, zero))))
    small = lax.lt(lax.shift_left(words, np.uint32(1)), _LARGE)
    opposite = lax.eq(apart, np.uint32(1 << 31))
    # As a comparison with zero it would become one of floats, which takes subnormal numbers for zeros.
    zeros = lax.ge(lax.shift_left(lax.bitwise_or(u, v), np.uint32(1)) - np.uint32(1), np.uint32(1 << 31))
    return _of_words(bits.where(lax.gt(small, lax.bitwise_or(opposite, zeros)), bits.DOUBT, words))


def _doubting_product(x: Float32[Array, "*shape"], y: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    product = _words_of(lax.mul(x, y))
    zeros = lax.bitwise_or(_is_zero(_words_of(x)), _is_zero(_words_of(y)))
    return _of_words(bits.where(lax.gt(_is_zero(product), zeros), bits.DOUBT, product))


def _is_zero(words: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    return lax.eq(lax.shift_left(words, np.uint32(1)), np.uint32(0))


def _against_zero(mode: CmpMode, words: UInt[Array, "*shape"], d: DType) -> Bool[Array, "*shape"]:
    """Words compared with zero: the codes of one sign are a range of integers."""
    word = d.word.type
    sign, infinity = bits.dtype_sign(d), word(((1 << d.exponent) - 1) << d.mantissa)
    match mode:
        case CmpMode.EQ | CmpMode.NE:
            return COMPARE[mode](words & ~sign, jnp.zeros_like(words))
        case CmpMode.GT:
            return (words - word(1)) < infinity
        case CmpMode.LT:
            return (words - sign - word(1)) < infinity
        case CmpMode.GE:
            return (words <= infinity) | (words == sign)
        case CmpMode.LE:
            return ((words - sign) <= infinity) | (words == word(0))


Numerics: TypeAlias = Literal["exact", "fast"]


class Arithmetic(Protocol):
    """Operations on numbers of one element type; see the module text."""

    dtype: DType

    def decode(self, words: UInt[Array, "..."]) -> Num:
        """The numbers that raw words stand for."""

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """The words of numbers, rounded to the element type."""

    def const(self, value: float) -> Num:
        """A Python number as a number of the arithmetic, of shape ()."""

    def round_to_type(self, x: Num) -> Num:
        """The numbers rounded to the element type, as when they are stored and read back."""

    def add(self, x: Num, y: Num) -> Num:
        """``x + y``."""

    def sub(self, x: Num, y: Num) -> Num:
        """``x - y``."""

    def mul(self, x: Num, y: Num) -> Num:
        """``x * y``."""

    def div(self, x: Num, y: Num) -> Num:
        """``x / y``; of integers truncated towards zero."""

    def fmod(self, x: Num, y: Num) -> Num:
        """The remainder of the truncated division, with the sign of ``x``."""

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds, bool; with NaN only NE does."""

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of raw words; ``y`` may be one NumPy word."""

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Num:
        """``x`` where the bool mask is set, else ``y``."""


Float: TypeAlias = ExactFloat | NativeFloat | FastFloat


@cache
def arithmetic(
    dtype: DType, numerics: Numerics = "exact", native: bool = False, doubting: bool = False
) -> Float | Integer:
    """The arithmetic of an element type; ``native`` is the exact one of code for GPUs."""
    if dtype.is_integer:
        return Integer(dtype)
    if numerics == "fast":
        return FastFloat(dtype)
    if native and dtype.name in FORMATS:
        return NativeFloat(dtype)
    return DoubtingFloat() if doubting and dtype == F32 else ExactFloat(dtype)
