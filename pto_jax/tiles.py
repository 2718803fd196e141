"""Tiles as users hold them: pytrees that compose with jit, vmap and shard_map."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import arrays
from .dtypes import F32, TILE_DTYPES, DType, dtype as find_dtype, from_numpy
from .errors import ArgumentError
from .interchange import received
from .types import TileType
from .walk import TileRef


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tile:
    """A tile: raw words [..., rows, cols] of its element type, and its valid region.

    ``v_row`` and ``v_col`` are int32 arrays of the batch shape, or None where the type gives the size.
    ``np.asarray(t)`` is the logical array in the element type (raw words for types NumPy lacks).

    >>> t = tile(np.ones((2, 8), np.float32), valid=(1, 8))
    >>> int(t.valid_rows), t.type.dtype.name, np.asarray(t).shape
    (1, 'f32', (2, 8))
    """

    words: Array
    v_row: Array | None
    v_col: Array | None
    type: TileType = field(metadata={"static": True})

    def __post_init__(self) -> None:
        # Transformations rebuild pytrees with placeholder leaves; only real arrays are checked.
        shape = getattr(self.words, "shape", None)
        if shape is not None and len(shape) >= 2 and tuple(shape[-2:]) != self.type.shape:
            raise ArgumentError(f"tile words have shape {tuple(shape)}, the type says {self.type.shape}")

    @classmethod
    def of(cls, words: Array, ref: TileRef) -> Tile:
        """The tile a handle stands for; sizes known as numbers stay in the type."""
        rows, cols = ref.v_row, ref.v_col
        if isinstance(rows, int) and isinstance(cols, int):
            return cls(words, None, None, ref.type.with_valid(rows, cols))
        rows, cols = jnp.asarray(rows, np.int32), jnp.asarray(cols, np.int32)
        return cls(words, rows, cols, ref.type.with_valid(None, None))

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def valid_rows(self) -> Array | int:
        """Valid rows: an int32 array of the batch shape, or an int when static."""
        return self.v_row if self.v_row is not None else _known(self.type.v_row)

    @property
    def valid_cols(self) -> Array | int:
        return self.v_col if self.v_col is not None else _known(self.type.v_col)

    @property
    def array(self) -> Array:
        """The logical array [..., rows, cols] in the element type."""
        with arrays.x64():
            return arrays.from_words(self.words, np.dtype(self.dtype.numpy))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        logical = np.asarray(self.words).view(self.dtype.numpy)
        if dtype is None:
            return logical
        # Converting a signalling NaN to a wider float raises the invalid flag, and is no news to anybody.
        with np.errstate(invalid="ignore" if np.dtype(dtype).kind == "f" else "warn"):
            return logical.astype(dtype)

    def single(self, what: str) -> Tile:
        """The tile itself; ArgumentError when it is a batch, which instructions take under vmap."""
        for array, rank in ((self.words, 2), (self.v_row, 0), (self.v_col, 0)):
            batch = () if array is None else array.shape[: array.ndim - rank]
            if batch:
                raise ArgumentError(
                    f"{what}: found a batch of tiles of shape {batch}, allowed: one tile; use jax.vmap"
                )
        return self

    def dynamic(self) -> Tile:
        """The same tile with its valid sizes as arrays, so that they can differ within a batch."""
        batch = self.words.shape[:-2]
        rows = jnp.broadcast_to(jnp.asarray(self.valid_rows, np.int32), batch)
        cols = jnp.broadcast_to(jnp.asarray(self.valid_cols, np.int32), batch)
        return replace(self, v_row=rows, v_col=cols, type=self.type.with_valid(None, None))


def _known(size: int | None) -> int:
    if size is None:
        raise ArgumentError("the tile's type leaves the valid size open and no array gives it")
    return size


def tile(
    x: Any,
    valid: tuple[Any, Any] | None = None,
    dtype: str | DType | None = None,
    type: TileType | None = None,
) -> Tile:
    """A tile from a [rows, cols] array.

    ``valid`` gives the valid rows and columns (ints or int32 scalars, kept as data so that they batch);
    without it the whole tile is valid. ``dtype`` names the element type when the array holds raw words;
    ``type`` gives the full tile type (location, layout, static valid region). For a batch, vmap it:
    ``jax.vmap(pto.tile)(X)``.

    >>> tile(np.zeros((16, 64), np.float16)).type.is_full
    True
    """
    x = received(x, "tile")
    if type is None:
        type = _type_of(x, find_dtype(dtype) if dtype is not None else None)
    elif not isinstance(type, TileType):
        raise ArgumentError(f"tile: type is {type!r}, allowed: a TileType")
    x = arrays.as_array(x, type.dtype, "tile")
    if tuple(x.shape) != type.shape:
        raise ArgumentError(f"tile: found shape {tuple(x.shape)}, the type says {type.shape}")
    with arrays.x64():
        words = arrays.to_words(x, type.dtype, elements=True)
    if valid is None:
        if not type.is_static:
            raise ArgumentError(f"tile: the type {type} has dynamic valid sizes; give valid=(rows, cols)")
        return Tile(words, None, None, type)
    if not isinstance(valid, tuple | list) or len(valid) != 2:
        raise ArgumentError(f"tile: valid is {valid!r}, allowed: (rows, cols)")
    rows, cols = (_size(v, n, axis) for v, n, axis in zip(valid, type.shape, ("rows", "cols"), strict=True))
    return Tile(words, rows, cols, type.with_valid(None, None))


def _type_of(x: Any, named: DType | None) -> TileType:
    """The type of a fully valid tile that holds an array; plain Python numbers count as f32."""
    shape = np.shape(x) if hasattr(x, "dtype") else np.shape(arrays.as_array(x, named or F32, "tile"))
    element = named or (from_numpy(x.dtype) if hasattr(x, "dtype") else F32)
    if element not in TILE_DTYPES:
        raise ArgumentError(f"no tile has elements of type {element.name}")
    if len(shape) != 2:
        batch = "; a batch: jax.vmap(pto.tile)(x)" if len(shape) > 2 else ""
        raise ArgumentError(f"a tile needs a [rows, cols] array, found shape {tuple(shape)}{batch}")
    return TileType(element, *shape)


def _size(size: Any, extent: int, axis: str) -> Array:
    array: Array = arrays.settled(jnp.asarray(size))
    if array.ndim or not jnp.issubdtype(array.dtype, jnp.integer):
        raise ArgumentError(
            f"tile: valid {axis} must be an integer scalar, found {array.dtype}{list(array.shape)}"
        )
    if not isinstance(array, jax.core.Tracer) and not 0 <= int(array) <= extent:
        raise ArgumentError(f"tile: {int(array)} valid {axis} found, allowed: 0 to {extent}")
    return array.astype(np.int32)
