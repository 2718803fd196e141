"""Exact arithmetic of float formats: float64 between decoding and encoding, one rounding per operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, CmpMode, DType

from . import bits
from .numbers import COMPARE, Lanewise, Num, Real, broadcast

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, UInt, UInt32


def _sum(x: Float64[Array, "*shape"], y: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
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

    def decode(self, words: UInt[Array, "..."]) -> Real:
        """The decoded float64 values of words, no rounding pending."""
        return Real(bits.decode(words, self.dtype))

    def const(self, value: float) -> Real:
        """A float64 constant of shape (), no rounding pending."""
        return Real(jnp.asarray(np.float64(value)))

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """Words of the element type; of 16-bit formats after the pending rounding to float32."""
        real = self._real(x)
        if real.pending == "single" and self.dtype != F32:
            return bits.narrow(bits.encode32(real.value), self.dtype)
        return bits.result(bits.encode(real.value, self.dtype), self.dtype)

    def round_to_type(self, x: Num) -> Real:
        """The value rounded to the element type, as when it is stored and read back."""
        if self.dtype == F32:
            return Real(self.single(x))
        return Real(bits.decode(self.encode(x), self.dtype))

    def single(self, x: Num) -> Float64[Array, "..."]:
        """The value rounded to float32 (formats below 16 bits: not rounded), as float64."""
        real = self._real(x)
        if real.pending == "none" or self.dtype.bits < 16:
            return real.value
        return bits.settle32(real.value)

    def words_and_value(self, x: Num) -> tuple[UInt32[Array, "*shape"], Float64[Array, "*shape"]]:
        """:meth:`encode` and :meth:`single` of a float32 result at once."""
        real = self._real(x)
        if real.pending == "none":
            return bits.encode32(real.value), real.value
        return bits.round32(real.value)

    def words32(self, x: Num) -> UInt32[Array, "..."]:
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

    def _operate(self, op: Lanewise, x: Num, y: Num) -> Real:
        return Real(broadcast(op)(self.single(x), self.single(y)), self._evaluation)

    @staticmethod
    def _real(x: Num) -> Real:
        assert isinstance(x, Real)
        return x


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
