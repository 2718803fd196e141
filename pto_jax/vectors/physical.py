"""Logical elements of a tile and the bytes they are stored in, in NumPy.

A tile is used as a ``[rows, cols]`` array of raw words (unsigned integers of the element's width); its
stored form is a string of bytes in the order of its layout, little-endian, two 4-bit elements per byte
for packed types.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..ir import BLayout, Compact, DType, SLayout, TileType, unpack_pairs


@lru_cache(maxsize=512)
def element_offsets(t: TileType) -> NDArray[np.int64]:
    """Position of every logical element in the tile's storage, in elements; shape ``[rows, cols]``.

    >>> from pto_jax.ir import F32
    >>> element_offsets(TileType(F32, 2, 8, blayout=BLayout.COL_MAJOR))[:, 3]
    array([6, 7])
    """
    r, c = np.indices(t.shape, dtype=np.int64)
    if not t.boxed:
        pitch = t.cols + (1 if t.compact == Compact.ROW_PLUS_ONE else 0)
        offsets = r * pitch + c if t.blayout == BLayout.ROW_MAJOR else c * t.rows + r
    else:
        box_r, box_c = t.stored_box
        inner_r, inner_c = r % box_r, c % box_c
        inner = inner_r * box_c + inner_c if t.slayout == SLayout.ROW_MAJOR else inner_c * box_r + inner_r
        if t.blayout == BLayout.ROW_MAJOR:
            offsets = (r // box_r) * t.cols * box_r + (c // box_c) * box_r * box_c + inner
        else:
            offsets = (c // box_c) * t.rows * box_c + (r // box_r) * box_r * box_c + inner
    offsets.flags.writeable = False
    return offsets


def storage_elements(t: TileType) -> int:
    """Elements the stored tile spans: rows * cols, more where rows are padded."""
    last = int(element_offsets(t).max()) + 1 if t.elements else 0
    return max(last, t.elements)


def unpack_elements(d: DType, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """Stored bytes as words, one per element, in storage order.

    >>> from pto_jax.ir import F4E2M1
    >>> unpack_elements(F4E2M1, np.array([0x21], np.uint8))
    array([1, 2], dtype=uint8)
    """
    raw = np.ascontiguousarray(raw, dtype=np.uint8)
    if d.packed:
        return unpack_pairs(raw).reshape(-1)
    if raw.size % d.word.itemsize:
        raise ArgumentError(f"{raw.size} bytes are no whole number of {d} elements")
    return raw.view(d.word.newbyteorder("<")).astype(d.word)


def pack_elements(d: DType, words: NDArray[Any]) -> NDArray[np.uint8]:
    """Words in storage order as stored bytes; the inverse of :func:`unpack_elements`."""
    flat = np.ascontiguousarray(words, dtype=d.word).reshape(-1)
    if d.packed:
        if flat.size % 2:
            flat = np.append(flat, np.uint8(0))
        return ((flat[0::2] & 15) | (flat[1::2] << 4)).astype(np.uint8)
    return flat.astype(d.word.newbyteorder("<")).view(np.uint8)


def to_logical(t: TileType, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """The ``[rows, cols]`` words of a tile from its stored bytes."""
    stored = unpack_elements(t.dtype, raw)
    if stored.size < storage_elements(t):
        raise ArgumentError(f"{raw.size} bytes for a tile {t}; {t.bytes} are needed")
    return stored[element_offsets(t)]


def to_physical(t: TileType, words: NDArray[Any], into: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """The stored bytes of a tile from its ``[rows, cols]`` words.

    ``into`` gives the bytes of places that hold no element (row padding); they are zero without it.

    >>> from pto_jax.ir import I16
    >>> to_physical(TileType(I16, 1, 2), np.array([[1, 2]]))
    array([1, 0, 2, 0], dtype=uint8)
    """
    if words.shape != t.shape:
        raise ArgumentError(f"words of shape {words.shape} for a tile {t}; {t.shape} is needed")
    size = storage_elements(t)
    stored = np.zeros(size, t.dtype.word) if into is None else unpack_elements(t.dtype, into).copy()
    stored[element_offsets(t)] = words
    return pack_elements(t.dtype, stored)
