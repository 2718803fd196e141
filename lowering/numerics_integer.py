"""Arithmetic of integer types: two's complement, modulo 2^bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import CmpMode, DType

from .numbers import COMPARE, Num, Real, broadcast

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt

    from .arrays import Integers


class Integer:
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

    def add(self, x: Num, y: Num) -> Integers:
        """``x + y`` modulo 2^bits."""
        return self._array(x) + self._array(y)

    def sub(self, x: Num, y: Num) -> Integers:
        """``x - y`` modulo 2^bits."""
        return self._array(x) - self._array(y)

    def mul(self, x: Num, y: Num) -> Integers:
        """``x * y`` modulo 2^bits."""
        return self._array(x) * self._array(y)

    def div(self, x: Num, y: Num) -> Integers:
        """``x / y`` truncated towards zero; all ones where ``y`` is zero."""
        return broadcast(lax.div)(self._array(x), self._array(y))

    def fmod(self, x: Num, y: Num) -> Integers:
        """Remainder with the dividend's sign; the dividend where ``y`` is zero."""
        return broadcast(lax.rem)(self._array(x), self._array(y))

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds, bool."""
        return broadcast(COMPARE[mode])(self._array(x), self._array(y))

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of words."""
        return self.compare(mode, self.decode(x), self.decode(jnp.asarray(y)))

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Integers:
        """``x`` where the bool mask is set, else ``y``."""
        return jnp.where(mask, self._array(x), self._array(y))

    def widen(self, x: Num) -> Integers:
        """The value in at least 32 bits, as C++ promotes operands."""
        wide = self._native if self.dtype.bits >= 32 else np.dtype(np.int32)
        return lax.convert_element_type(self._array(x), wide)

    def narrow(self, x: Integers) -> Integers:
        """The low bits of a widened value."""
        return lax.convert_element_type(x, self._native)

    @staticmethod
    def _array(x: Num) -> Integers:
        assert not isinstance(x, Real)
        return x


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
