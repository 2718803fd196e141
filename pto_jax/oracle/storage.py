"""Memory of the reference machine: plain bytes, read and written through element maps."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import cast

import numpy as np

from ..interpreter import TileRef, View
from ..ir import DType, TileType, element_offset
from .numbers import Array

_offset = cast(Callable[[TileType, Array, Array], Array], element_offset)


@dataclass(eq=False)
class Buffer:
    """A run of bytes that grows as far as it is addressed; new bytes hold ``fill``."""

    fill: int = 0
    bytes: Array = field(default_factory=lambda: np.zeros(0, np.uint8))

    def reserve(self, size: int) -> None:
        """Grow to at least ``size`` bytes."""
        if size > len(self.bytes):
            more = np.full(size - len(self.bytes), self.fill, np.uint8)
            self.bytes = np.concatenate([self.bytes, more])


@dataclass(frozen=True)
class Place:
    """Where a tile's storage starts: a buffer and a byte address in it."""

    buffer: Buffer
    address: int = 0


@dataclass(frozen=True)
class Window:
    """Storage of a part of a tile, from a row and a column on."""

    tile: TileRef
    row: int
    col: int

    def slices(self, t: TileType) -> tuple[slice, slice]:
        """The slices of the whole tile's words that a part of type ``t`` takes."""
        return slice(self.row, self.row + t.rows), slice(self.col, self.col + t.cols)


@lru_cache(maxsize=1024)
def element_map(t: TileType) -> Array:
    """Storage position of every logical element, in elements."""
    rows, cols = np.ogrid[: t.rows, : t.cols]
    positions = np.asarray(_offset(t, rows, cols), np.int64)
    positions.setflags(write=False)
    return positions


def map_of(t: TileType) -> Array:
    """:func:`element_map` under the key that only says what the map depends on."""
    return element_map(replace(t, v_row=None, v_col=None))


def storage_size(t: TileType) -> int:
    """Bytes from a tile's address to the end of its last element."""
    if t.elements == 0:
        return 0
    return t.dtype.storage_bytes(int(map_of(t).max()) + 1)


def read_words(memory: Array, positions: Array, d: DType, address: int = 0) -> Array:
    """Raw words of the elements at ``positions`` (in elements from the byte ``address``)."""
    if d.packed:
        halves = memory[address + (positions >> 1)]
        return np.asarray((halves >> ((positions & 1) << 2).astype(np.uint8)) & np.uint8(15))
    return _typed(memory, d, address)[positions]


def write_words(memory: Array, positions: Array, words: Array, d: DType, address: int = 0) -> None:
    """Store raw words; elements elsewhere, the other half of a shared byte included, stay."""
    if not d.packed:
        _typed(memory, d, address)[positions] = words
        return
    for half in (0, 1):
        mask = (positions & 1) == half
        at = address + (positions[mask] >> 1)
        keep = memory[at] & np.uint8(0xF0 >> (4 * half))
        memory[at] = keep | ((words[mask] & 15) << (4 * half)).astype(np.uint8)


def elements_of(view: View) -> Array:
    """The positions of a view's elements in its buffer."""
    shape = tuple(int(n) for n in view.shape)
    at = np.full(shape, int(view.offset), np.int64)
    for axis, (n, stride) in enumerate(zip(shape, view.strides, strict=True)):
        at += (np.arange(n) * int(stride)).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return at


def _typed(memory: Array, d: DType, address: int) -> Array:
    width = d.word.itemsize
    usable = (len(memory) - address) // width * width
    return memory[address : address + usable].view(d.word)
