"""Raw words and the scope in which they are computed with."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import Array, lax


def from_words(words: Array, like: np.dtype[Any]) -> Array:
    """Raw words as an array of the given type. Call inside the 64-bit scope."""
    return words if words.dtype == like else lax.bitcast_convert_type(words, like)


def x64() -> Any:
    """The scoped 64-bit context; the global configuration is never touched."""
    return jax.enable_x64(True)
