"""Exact arithmetic of float formats on GPUs: the device's own float32, which XLA leaves as it is there.

GPU code rounds float32 sums and products by themselves and keeps subnormals. Its division and roots are
approximations, and functions need more than float32: these take float64 between an integer decode, behind
which nothing narrows them, and one rounding. What is left to do is the canonical NaN: an integer select,
which also keeps XLA from reordering what stands before and behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, CmpMode, DType

from . import bits
from .numbers import COMPARE, Num, Real, broadcast

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Float64, UInt, UInt16, UInt32

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
        return broadcast(_sum)(self.single(x), self.single(y))

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


def _sum(x: Float32[Array, "*shape"], y: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The sum with the right sign of zero, for XLA takes the other operand for a sum with a constant zero."""
    total = lax.add(x, y)
    negative = lax.bitwise_and(*(lax.bitcast_convert_type(v, np.uint32) for v in (x, y)))
    zero = lax.bitcast_convert_type(lax.bitwise_and(negative, np.uint32(1 << 31)), np.float32)
    return _settled(lax.select(lax.eq(total, np.float32(0)), zero, total))
