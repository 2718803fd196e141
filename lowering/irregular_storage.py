"""What irregular instructions share: their operands, integer positions, and tiles as flat storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType, MaskPattern
from pto_jax.isa.rules.irregular_patterns import period

from . import convert, masks, region
from .machine import storage
from .rules import Context, Inputs, Lanes

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt

    from .arrays import Flat, Mask, Size, Word, Words


def iota(shape: tuple[int, ...], axis: int) -> Int32[Array, "..."]:
    """int32 numbers along one axis."""
    return lax.broadcasted_iota(np.int32, shape, axis)


def source(c: Context, inputs: Inputs, name: str, shape: tuple[int, int] | None = None) -> Words:
    """A source's words over ``shape`` (default: its own), with the profile's fill outside its valid region.

    Unlike :func:`region.read` it does not rely on the destination's region to be inside.
    """
    t = c.tile(name)
    shape = shape or t.shape
    fill = region.all_ones(t.dtype)
    words = region.fit(masks.lanes(inputs, name).words, shape, fill)
    if c.semantics.out_of_region != "ones":
        return words
    inside = region.mask(t, masks.lanes(inputs, name), shape)
    return words if inside is None else jnp.where(inside, words, fill)


def inside(c: Context, inputs: Inputs, name: str, shape: tuple[int, int] | None = None) -> Mask:
    """Lanes of ``shape`` inside a tile's valid region, as an array even where that is every lane."""
    shape = shape or c.tile(name).shape
    found = region.mask(c.tile(name), masks.lanes(inputs, name), shape)
    return jnp.ones(shape, np.bool_) if found is None else found


def positions(words: UInt[Array, "*shape"], dtype: DType, size: int) -> Int32[Array, "*shape"]:
    """Integer words as int32 positions; negative ones and those not below ``size`` become ``size``."""
    wide = lax.convert_element_type(convert.integer(words, dtype), np.int64)
    legal = (wide >= np.int64(0)) & (wide < np.int64(size))
    return lax.convert_element_type(jnp.where(legal, wide, np.int64(size)), np.int32)


def flat(c: Context, inputs: Inputs, name: str) -> Flat:
    """A tile's words in storage order."""
    return storage.to_physical(masks.lanes(inputs, name).words, c.tile(name))


def store_first(c: Context, inputs: Inputs, name: str, values: UInt[Array, "..."], count: Size) -> Words:
    """Words [rows, cols] of a tile whose first ``count`` elements in storage order are ``values``.

    The other elements keep what they hold; values that do not fit are dropped.
    """
    old = flat(c, inputs, name)
    line = region.fit(values.reshape(1, -1), (1, old.shape[0]), old.dtype.type(0))[0]
    return storage.to_logical(jnp.where(iota(old.shape, 0) < count, line, old), c.tile(name))


def scalar(inputs: Inputs, name: str) -> Word:
    """The 0-d word of a scalar operand."""
    word = inputs[name]
    assert not isinstance(word, Lanes)
    return word


def pattern(c: Context) -> tuple[np.int32, np.int32]:
    """The pair (n, k) of the operation's mask pattern: element i takes part where ``i % n == k``."""
    given = c.attrs["maskPattern"]
    assert isinstance(given, MaskPattern)
    n, k = period(given)
    return np.int32(n), np.int32(k)
