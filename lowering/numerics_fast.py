"""Fast arithmetic of float formats: float32, left to XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import CmpMode, DType

from . import bits
from .numbers import COMPARE, Num, Real, broadcast

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, UInt, UInt32


class FastFloat:
    """float32 arithmetic as XLA likes it; subnormals, contraction and order are XLA's business."""

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

    def add(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x + y`` in float32."""
        return self._array(x) + self._array(y)

    def sub(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x - y`` in float32."""
        return self._array(x) - self._array(y)

    def mul(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x * y`` in float32."""
        return self._array(x) * self._array(y)

    def div(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """``x / y`` in float32."""
        dividend, divisor = self._array(x), self._array(y)
        # XLA multiplies by 1 / y where y is a constant or broadcast, and flushes that of a large y to zero.
        return dividend / jnp.where(dividend == dividend, divisor, np.float32(1))

    def fmod(self, x: Num, y: Num) -> Float32[Array, "..."]:
        """Remainder with the dividend's sign, in float32."""
        return broadcast(lax.rem)(self._array(x), self._array(y))

    def evaluate(self, function: Callable[..., Float32[Array, "..."]], *args: Num) -> Float32[Array, "..."]:
        """A function of the float32 values."""
        return function(*(self._array(a) for a in args))

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds in float32, bool; with NaN only NE does."""
        return broadcast(COMPARE[mode])(self._array(x), self._array(y))

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of words."""
        return self.compare(mode, self.decode(x), self.decode(jnp.asarray(y)))

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Float32[Array, "..."]:
        """``x`` where the bool mask is set, else ``y``."""
        return jnp.where(mask, self._array(x), self._array(y))

    def is_nan(self, x: Num) -> Bool[Array, "..."]:
        """Which values are NaN, bool."""
        return jnp.isnan(self._array(x))

    @staticmethod
    def _array(x: Num) -> Float32[Array, "..."]:
        assert not isinstance(x, Real)
        return x
