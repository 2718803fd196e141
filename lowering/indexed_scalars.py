"""Single elements of tiles and of global memory, at positions that may only be known at run time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar
from pto_jax.ir import DType, TileType, element_offset

from .words import elements_at

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Shaped

    from .arrays import Flat, Word


@lru_cache(maxsize=1024)
def storage_order(t: TileType) -> Int32[np.ndarray, " positions"]:
    """The logical element at every position of a tile's storage, int32 [positions].

    Elements are counted row by row; a position that holds none has the tile's number of elements.
    """
    rows, cols = np.indices(t.shape, np.int64).reshape(2, -1)
    positions = [element_offset(t, int(r), int(c)) for r, c in zip(rows, cols, strict=True)]
    order = np.full(max(positions, default=-1) + 1, t.elements, np.int32)
    order[positions] = np.arange(t.elements, dtype=np.int32)
    return order


def outside(position: Scalar, size: int) -> Bool[Array, ""] | bool:
    """Whether a position is not one of ``size`` elements."""
    if isinstance(position, int):
        return not 0 <= position < size
    return jnp.asarray((position < 0) | (position >= size))


def _index(position: Scalar, size: int) -> Int32[Array, ""]:
    """An int32 position; ``size`` for every position outside."""
    if isinstance(position, int):
        return jnp.asarray(np.int32(position if 0 <= position < size else size))
    wide = lax.convert_element_type(position, np.int64)
    inside = (wide >= np.int64(0)) & (wide < np.int64(size))
    return lax.convert_element_type(jnp.where(inside, wide, np.int64(size)), np.int32)


def read(flat: Flat, position: Scalar) -> Word:
    """One word; zero outside."""
    return elements_at(flat, _index(position, flat.shape[0]))


def write(flat: Flat, position: Scalar, word: Word) -> Flat:
    """The words with one replaced; as they are for a position outside."""
    if flat.shape[0] == 0:
        return flat
    return flat.at[_index(position, flat.shape[0])].set(word, mode="drop")


def in_tile(t: TileType, position: Scalar) -> Scalar:
    """The logical element, counted row by row, at a position of a tile's storage."""
    order = storage_order(t.with_valid(None, None))
    if np.array_equal(order, np.arange(t.elements)):
        return position
    if isinstance(position, int):
        return int(order[position]) if 0 <= position < len(order) else t.elements
    return jnp.asarray(order).at[_index(position, len(order))].get(mode="fill", fill_value=t.elements)


def as_scalar(word: Word, dtype: DType) -> Shaped[Array, ""]:
    """A word as a scalar of the program."""
    return lax.bitcast_convert_type(word, np.dtype(dtype.numpy))
