"""Arithmetic of element types on raw words: what an instruction's rule computes with.

A rule asks :func:`arithmetic` for the arithmetic of an element type and writes its formula with it:
``a.out(a.add(a.num(x), a.num(y)))``. ``num`` turns words into numbers, ``out`` numbers into words; in
between every operation is rounded as if the instruction stood alone. Three implementations:

* :class:`ExactFloat` carries float64 between an integer decode and an integer encode (NUMERICS of the
  design: XLA neither contracts, nor narrows, nor flushes that form). A result is rounded to float32
  only when it is used again, so a single operation pays one encode.
* :class:`FastFloat` computes in float32 and leaves XLA free to contract, reorder and flush.
* :class:`Integer` wraps modulo 2^bits; XLA's division by zero (quotient all ones, remainder the
  dividend) and minimum / -1 are the documented values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir.dtypes import F32, DType
from pto_jax.ir.types import CmpMode

from . import bits

Numerics: TypeAlias = Literal["exact", "fast"]


class Real(NamedTuple):
    """A float64 value of the exact arithmetic.

    ``pending`` is the rounding it still needs: "none" for a decoded or settled value, "single" for the
    result of an operation that hardware does in float32, "direct" for a float64 evaluation that is
    rounded once, to the element type.
    """

    value: Array
    pending: Literal["none", "single", "direct"] = "none"


#: A number of some arithmetic: Real, a float32 array or an integer array.
Num: TypeAlias = "Real | Array"


class Arithmetic(Protocol):
    """Operations on numbers of one element type; see the module text."""

    dtype: DType

    def num(self, words: Array) -> Num:
        """The numbers that raw words stand for."""

    def out(self, x: Num) -> Array:
        """The words of numbers, rounded to the element type."""

    def const(self, value: float) -> Num:
        """A Python number as a number of the arithmetic, of shape ()."""

    def step(self, x: Num) -> Num:
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

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Array:
        """Where ``x mode y`` holds, bool; with NaN only NE does."""

    def compare_words(self, mode: CmpMode, x: Array, y: Array | np.integer[Any]) -> Array:
        """As ``compare``, of raw words; ``y`` may be one NumPy word."""

    def where(self, mask: Array, x: Num, y: Num) -> Num:
        """``x`` where the bool mask is set, else ``y``."""


_COMPARE: dict[CmpMode, Callable[[Array, Array], Array]] = {
    CmpMode.EQ: lax.eq,
    CmpMode.NE: lax.ne,
    CmpMode.LT: lax.lt,
    CmpMode.LE: lax.le,
    CmpMode.GT: lax.gt,
    CmpMode.GE: lax.ge,
}


def _broadcast(op: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def apply(x: Array, y: Array) -> Array:
        return op(x, y) if jnp.shape(x) == jnp.shape(y) else op(*jnp.broadcast_arrays(x, y))

    return apply


def _sum(x: Array, y: Array) -> Array:
    """float64 sum with the right sign of zero.

    XLA replaces a sum with a constant zero by the other operand, which is wrong for -0 + +0. A sum is zero
    only where both operands are zeros or cancel: it is -0 where both signs are negative.
    """
    total = lax.add(x, y)
    negative = lax.bitwise_and(*(lax.bitcast_convert_type(v, np.uint64) for v in (x, y)))
    zero = lax.bitcast_convert_type(lax.bitwise_and(negative, np.uint64(1 << 63)), np.float64)
    return lax.select(lax.eq(total, np.float64(0)), zero, total)


class ExactFloat:
    """IEEE-754 arithmetic of a float format, one rounding per operation, subnormals kept."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        #: Formats below 16 bits are evaluated exactly and rounded once, straight to the format.
        self._evaluation: Literal["single", "direct"] = "single" if dtype.bits >= 16 else "direct"

    def num(self, words: Array) -> Real:
        """The decoded float64 values of words, no rounding pending."""
        return Real(bits.decode(words, self.dtype))

    def const(self, value: float) -> Real:
        """A float64 constant of shape (), no rounding pending."""
        return Real(jnp.asarray(np.float64(value)))

    def out(self, x: Num) -> Array:
        """Words of the element type; of 16-bit formats after the pending rounding to float32."""
        real = self._real(x)
        if real.pending == "single" and self.dtype != F32:
            return bits.narrow(bits.encode32(real.value), self.dtype)
        return bits.encode(real.value, self.dtype)

    def step(self, x: Num) -> Real:
        """The value rounded to the element type, as when it is stored and read back."""
        if self.dtype == F32:
            return Real(self.single(x))
        return Real(bits.decode(self.out(x), self.dtype))

    def single(self, x: Num) -> Array:
        """The value rounded to float32 (formats below 16 bits: not rounded), as float64."""
        real = self._real(x)
        if real.pending == "none" or self.dtype.bits < 16:
            return real.value
        return bits.settle32(real.value)

    def words_and_value(self, x: Num) -> tuple[Array, Array]:
        """:meth:`out` and :meth:`single` of a float32 result at once."""
        real = self._real(x)
        if real.pending == "none":
            return bits.encode32(real.value), real.value
        return bits.round32(real.value)

    def words32(self, x: Num) -> Array:
        """float32 words of the value."""
        return bits.encode32(self.single(x))

    def add(self, x: Num, y: Num) -> Real:
        """``x + y``, its rounding pending."""
        return self._operate(_sum, x, y)

    def sub(self, x: Num, y: Num) -> Real:
        """``x - y``, its rounding pending."""
        return self._operate(lambda u, v: _sum(u, lax.neg(v)), x, y)

    def mul(self, x: Num, y: Num) -> Real:
        """``x * y``, its rounding pending."""
        return self._operate(lax.mul, x, y)

    def div(self, x: Num, y: Num) -> Real:
        """``x / y``, its rounding pending."""
        return self._operate(lax.div, x, y)

    def fmod(self, x: Num, y: Num) -> Real:
        """Remainder with the dividend's sign; exact, so no rounding is pending."""
        return Real(_broadcast(lax.rem)(self.single(x), self.single(y)))

    def evaluate(self, function: Callable[..., Array], *args: Num) -> Real:
        """A float64 function of settled values, rounded once to the element type."""
        return Real(function(*(self.single(a) for a in args)), "direct")

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Array:
        """Where ``x mode y`` holds for the settled values, bool; with NaN only NE does."""
        return _broadcast(_COMPARE[mode])(self.single(x), self.single(y))

    def compare_words(self, mode: CmpMode, x: Array, y: Array | np.integer[Any]) -> Array:
        """As ``compare``, of words: integers in the values' order stand for them, which is less work."""
        d = self.dtype
        if d.name not in ("f32", "f16", "bf16"):
            return self.compare(mode, self.num(x), self.num(jnp.asarray(y)))
        if not isinstance(y, Array) and y == 0:
            return _against_zero(mode, x, d)
        y = jnp.asarray(y)
        holds = _broadcast(_COMPARE[mode])(bits.ordered(x, d), bits.ordered(y, d))
        unordered = _broadcast(lax.bitwise_or)(bits.is_nan(x, d), bits.is_nan(y, d))
        unordered = jnp.broadcast_to(unordered, holds.shape)
        if mode == CmpMode.NE:
            return lax.bitwise_or(holds, unordered)
        return lax.bitwise_and(holds, lax.bitwise_not(unordered))

    def where(self, mask: Array, x: Num, y: Num) -> Real:
        """The settled value of ``x`` where the bool mask is set, else that of ``y``."""
        return Real(jnp.where(mask, self.single(x), self.single(y)))

    def is_nan(self, x: Num) -> Array:
        """Which settled values are NaN, bool."""
        v = self.single(x)
        return v != v

    def _operate(self, op: Callable[[Array, Array], Array], x: Num, y: Num) -> Real:
        return Real(_broadcast(op)(self.single(x), self.single(y)), self._evaluation)

    @staticmethod
    def _real(x: Num) -> Real:
        assert isinstance(x, Real)
        return x


def _against_zero(mode: CmpMode, words: Array, d: DType) -> Array:
    """Words compared with zero: the codes of one sign are a range of integers."""
    word = d.word.type
    sign, infinity = bits.dtype_sign(d), word(((1 << d.exponent) - 1) << d.mantissa)
    match mode:
        case CmpMode.EQ | CmpMode.NE:
            return _COMPARE[mode](words & ~sign, jnp.zeros_like(words))
        case CmpMode.GT:
            return (words - word(1)) < infinity
        case CmpMode.LT:
            return (words - sign - word(1)) < infinity
        case CmpMode.GE:
            return (words <= infinity) | (words == sign)
        case CmpMode.LE:
            return ((words - sign) <= infinity) | (words == word(0))


class FastFloat:
    """float32 arithmetic as XLA likes it; subnormals, contraction and order are XLA's business."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def num(self, words: Array) -> Array:
        """The float32 values of words."""
        if self.dtype.name in ("f32", "f16", "bf16"):
            native = lax.bitcast_convert_type(words, self.dtype.numpy)
            return lax.convert_element_type(native, np.float32)
        return lax.bitcast_convert_type(bits.to_single(words, self.dtype), np.float32)

    def const(self, value: float) -> Array:
        """A float32 constant of shape ()."""
        return jnp.asarray(np.float32(value))

    def out(self, x: Num) -> Array:
        """Words of the element type: the float32 values rounded to it."""
        value = self._array(x)
        if self.dtype.name in ("f32", "f16", "bf16"):
            native = lax.convert_element_type(value, self.dtype.numpy)
            return lax.bitcast_convert_type(native, self.dtype.word)
        return bits.narrow(lax.bitcast_convert_type(value, np.uint32), self.dtype)

    def step(self, x: Num) -> Array:
        """The float32 values rounded to the element type and back."""
        return self.num(self.out(x))

    def single(self, x: Num) -> Array:
        """The float32 values as they are."""
        return self._array(x)

    def words32(self, x: Num) -> Array:
        """float32 words of the value."""
        return lax.bitcast_convert_type(self._array(x), np.uint32)

    def add(self, x: Num, y: Num) -> Array:
        """``x + y`` in float32."""
        return self._array(x) + self._array(y)

    def sub(self, x: Num, y: Num) -> Array:
        """``x - y`` in float32."""
        return self._array(x) - self._array(y)

    def mul(self, x: Num, y: Num) -> Array:
        """``x * y`` in float32."""
        return self._array(x) * self._array(y)

    def div(self, x: Num, y: Num) -> Array:
        """``x / y`` in float32."""
        return self._array(x) / self._array(y)

    def fmod(self, x: Num, y: Num) -> Array:
        """Remainder with the dividend's sign, in float32."""
        return _broadcast(lax.rem)(self._array(x), self._array(y))

    def evaluate(self, function: Callable[..., Array], *args: Num) -> Array:
        """A function of the float32 values."""
        return function(*(self._array(a) for a in args))

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Array:
        """Where ``x mode y`` holds in float32, bool; with NaN only NE does."""
        return _broadcast(_COMPARE[mode])(self._array(x), self._array(y))

    def compare_words(self, mode: CmpMode, x: Array, y: Array | np.integer[Any]) -> Array:
        """As ``compare``, of words."""
        return self.compare(mode, self.num(x), self.num(jnp.asarray(y)))

    def where(self, mask: Array, x: Num, y: Num) -> Array:
        """``x`` where the bool mask is set, else ``y``."""
        return jnp.where(mask, self._array(x), self._array(y))

    def is_nan(self, x: Num) -> Array:
        """Which values are NaN, bool."""
        return jnp.isnan(self._array(x))

    @staticmethod
    def _array(x: Num) -> Array:
        assert not isinstance(x, Real)
        return x


class Integer:
    """Two's complement arithmetic modulo 2^bits."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self._native = np.dtype(dtype.numpy)

    def num(self, words: Array) -> Array:
        """The words as integers of the element type."""
        return lax.bitcast_convert_type(words, self._native)

    def const(self, value: float) -> Array:
        """A constant of the element type, of shape ()."""
        return jnp.asarray(self._native.type(value))

    def out(self, x: Num) -> Array:
        """The integers as raw words."""
        return lax.bitcast_convert_type(self._array(x), self.dtype.word)

    def step(self, x: Num) -> Array:
        """The integers themselves: they are of the element type already."""
        return self._array(x)

    def add(self, x: Num, y: Num) -> Array:
        """``x + y`` modulo 2^bits."""
        return self._array(x) + self._array(y)

    def sub(self, x: Num, y: Num) -> Array:
        """``x - y`` modulo 2^bits."""
        return self._array(x) - self._array(y)

    def mul(self, x: Num, y: Num) -> Array:
        """``x * y`` modulo 2^bits."""
        return self._array(x) * self._array(y)

    def div(self, x: Num, y: Num) -> Array:
        """``x / y`` truncated towards zero; all ones where ``y`` is zero."""
        return _broadcast(lax.div)(self._array(x), self._array(y))

    def fmod(self, x: Num, y: Num) -> Array:
        """Remainder with the dividend's sign; the dividend where ``y`` is zero."""
        return _broadcast(lax.rem)(self._array(x), self._array(y))

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Array:
        """Where ``x mode y`` holds, bool."""
        return _broadcast(_COMPARE[mode])(self._array(x), self._array(y))

    def compare_words(self, mode: CmpMode, x: Array, y: Array | np.integer[Any]) -> Array:
        """As ``compare``, of words."""
        return self.compare(mode, self.num(x), self.num(jnp.asarray(y)))

    def where(self, mask: Array, x: Num, y: Num) -> Array:
        """``x`` where the bool mask is set, else ``y``."""
        return jnp.where(mask, self._array(x), self._array(y))

    def widen(self, x: Num) -> Array:
        """The value in at least 32 bits, as C++ promotes operands."""
        wide = self._native if self.dtype.bits >= 32 else np.dtype(np.int32)
        return lax.convert_element_type(self._array(x), wide)

    def narrow(self, x: Array) -> Array:
        """The low bits of a widened value."""
        return lax.convert_element_type(x, self._native)

    @staticmethod
    def _array(x: Num) -> Array:
        assert not isinstance(x, Real)
        return x


class SoftwareDivision(Integer):
    """Integers that hardware divides by a routine: a zero divisor gives 0, as quotient and as remainder."""

    def div(self, x: Num, y: Num) -> Array:
        """``x / y`` truncated towards zero; 0 where ``y`` is zero."""
        return self._unless_zero(super().div(x, y), y)

    def fmod(self, x: Num, y: Num) -> Array:
        """Remainder with the dividend's sign; 0 where ``y`` is zero."""
        return self._unless_zero(super().fmod(x, y), y)

    def _unless_zero(self, result: Array, divisor: Num) -> Array:
        zero = self.const(0)
        return jnp.where(self._array(divisor) == zero, zero, result)


Float: TypeAlias = ExactFloat | FastFloat


@cache
def arithmetic(dtype: DType, numerics: Numerics = "exact") -> Float | Integer:
    """The arithmetic of an element type."""
    if dtype.is_integer:
        return Integer(dtype)
    return ExactFloat(dtype) if numerics == "exact" else FastFloat(dtype)
