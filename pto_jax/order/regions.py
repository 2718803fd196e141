"""Sets of bytes that operations use: strided rows on chip and in global memory, and which of them meet."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..interpreter import TileRef, View
from ..interpreter.windows import pitches
from ..ir import BLayout, Loc, TileType

#: Rows up to which two sets are compared row by row; sets of more rows are compared by their bounds.
MOST_ROWS = 1 << 14
#: Regions are looked up by blocks of so many bytes; those that span more than a few are looked up apart.
_BLOCK, _MOST_BLOCKS = 4096, 64
_WORD = 1 << 62
#: What stands for an address that only execution knows begins behind all on-chip memory.
GENERIC = 1 << 21


#: Bytes of a line of the scalar unit's cache.
LINE = 64


class Line(NamedTuple):
    """The lines of a global buffer as a memory of their own."""

    buffer: Hashable


@dataclass(frozen=True)
class Space:
    """A memory that has bytes of its own: a buffer of a core, a tile without an address, a global buffer.

    ``core`` is the core that owns on-chip memory, "" for global memory; ``root`` tells tiles without an
    address, and global buffers, from others.
    """

    loc: Loc | None
    core: str
    root: Hashable = None

    def __str__(self) -> str:
        if isinstance(self.root, Line):
            return f"lines of %{self.root.buffer}"
        if self.loc is None:
            return f"global memory of %{self.root}"
        return f"the {self.loc.name.lower()} buffer{f' of {self.core}' if self.core else ''}"


@dataclass(frozen=True)
class Region:
    """The bytes ``start + sum(i_k * pitch_k) + [0, width)`` of a space; ``dims`` are pairs (count, pitch)."""

    space: Space
    start: int
    width: int
    dims: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(space: Space, start: int, width: int, dims: list[tuple[int, int]]) -> Region | None:
        """The region in its one spelling: rows that touch are one. None for no bytes."""
        if width <= 0 or any(count <= 0 for count, _ in dims):
            return None
        kept: list[tuple[int, int]] = []
        for count, pitch in sorted(dims, key=lambda d: abs(d[1])):
            if pitch < 0:
                start, pitch = start + (count - 1) * pitch, -pitch
            if count == 1 or pitch == 0:
                continue
            if not kept and pitch <= width:
                width += (count - 1) * pitch
            elif kept and pitch == kept[-1][0] * kept[-1][1]:
                kept[-1] = kept[-1][0] * count, kept[-1][1]
            else:
                kept.append((count, pitch))
        return Region(space, start, width, tuple(kept))

    def lines(self) -> Region:
        """The lines of the cache that the bytes of a global buffer are in."""
        start = self.start // LINE * LINE
        width = -(-(self.start % LINE + self.width) // LINE) * LINE
        # Rows whose pitch is no multiple of a line begin anywhere in theirs.
        width += LINE if any(pitch % LINE for _, pitch in self.dims) else 0
        return Region(Space(None, "", Line(self.space.root)), start, width, self.dims)

    @cached_property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.start + sum((count - 1) * pitch for count, pitch in self.dims) + self.width

    @cached_property
    def rows(self) -> Any:
        """The first bytes of all rows in their order; None for too many of them."""
        if prod(count for count, _ in self.dims) > MOST_ROWS or max(abs(self.start), abs(self.end)) > _WORD:
            return None
        rows = np.array([self.start], np.int64)
        for count, pitch in self.dims:
            rows = (rows[:, None] + np.arange(count, dtype=np.int64) * pitch).ravel()
        return np.sort(rows)

    def meets(self, other: Region) -> bool:
        """Whether both have a byte in common."""
        if self.space != other.space or self.start >= other.end or other.start >= self.end:
            return False
        if not self.dims and not other.dims:
            return True
        mine, theirs = self.rows, other.rows
        if mine is None or theirs is None:
            return True
        # A row meets the last one of the other set that begins before it ends, or none.
        last = np.searchsorted(theirs, mine + self.width, side="left") - 1
        return bool(((last >= 0) & (theirs[np.maximum(last, 0)] + other.width > mine)).any())

    @property
    def bytes(self) -> int:
        """How many bytes these are, those of rows that overlap counted twice."""
        return self.width * prod(count for count, _ in self.dims)

    def __str__(self) -> str:
        rows = f" in {prod(c for c, _ in self.dims)} rows of {self.width}" if self.dims else ""
        if self.space.loc is None:
            return str(self.space)
        if self.space.root is not None:
            return f"a tile of {self.space}"
        if self.start >= GENERIC:
            return f"an address in {self.space} that only execution knows"
        return f"bytes [{self.start}, {self.end}){rows} of {self.space}"


@dataclass
class _Numbers:
    """The numbers of the regions of one memory: by their blocks, those of many blocks, all of them."""

    blocks: dict[int, list[int]] = field(default_factory=dict)
    wide: list[int] = field(default_factory=list)
    all: list[int] = field(default_factory=list)


@dataclass
class Regions:
    """Numbers of regions, and for each number those that have bytes in common with it."""

    known: list[Region] = field(default_factory=list)
    _numbers: dict[Region, int] = field(default_factory=dict)
    #: The same by the identities of objects, which are kept: they are cheaper to compare.
    _same: dict[int, tuple[Region, int]] = field(default_factory=dict)
    _near: list[list[int]] = field(default_factory=list)
    _spaces: dict[Space, _Numbers] = field(default_factory=dict)

    def of(self, region: Region) -> int:
        """The number of a region, a new one where it has none yet."""
        same = self._same.get(id(region))
        if same is None:
            number = self._numbers.get(region)
            same = self._same[id(region)] = region, self._new(region) if number is None else number
        return same[1]

    def _new(self, region: Region) -> int:
        number = self._numbers[region] = len(self.known)
        blocks, others = self._blocks(region), self._spaces.setdefault(region.space, _Numbers())
        around = (
            others.all
            if blocks is None
            else [i for b in blocks for i in others.blocks.get(b, ())] + others.wide
        )
        near = [i for i in dict.fromkeys(around) if self.known[i].meets(region)]
        self.known.append(region)
        self._near.append([*near, number])
        for i in near:
            self._near[i].append(number)
        others.all.append(number)
        if blocks is None:
            others.wide.append(number)
        for b in blocks or ():
            others.blocks.setdefault(b, []).append(number)
        return number

    def near(self, number: int) -> list[int]:
        """The numbers of all regions that have bytes in common with one, itself included."""
        return self._near[number]

    @staticmethod
    def _blocks(region: Region) -> range | None:
        blocks = range(region.start // _BLOCK, (region.end - 1) // _BLOCK + 1)
        return blocks if len(blocks) <= _MOST_BLOCKS else None


@dataclass(frozen=True)
class Storage:
    """Where a handle lies: ``row`` and ``col`` of a tile of type ``whole`` that begins at byte ``start``.

    ``tile``: the first byte and the type of the tile that it is a window of, if it is one; ``made``: the
    operation that has placed it.
    """

    space: Space
    start: int
    whole: TileType | None = None
    row: int = 0
    col: int = 0
    tile: tuple[int, TileType] | None = field(default=None, compare=False)
    made: int = field(default=0, compare=False)


def tile_region(ref: TileRef, valid: tuple[int | None, int | None]) -> Region | None:
    """The bytes of a handle's valid part; of sizes that are None the whole physical extent."""
    storage = ref.storage
    if not isinstance(storage, Storage):
        return None
    t = storage.whole or ref.type
    rows, cols = (have if n is None else n for n, have in zip(valid, ref.type.shape, strict=True))
    if ref.type.conv is not None or ref.type.dtype.bits < 8:
        return Region.of(storage.space, storage.start, ref.type.bytes, [])
    size = t.dtype.word_bits // 8
    of_row, of_col = pitches(t)
    box_rows, box_cols = t.stored_box
    if t.blayout == BLayout.ROW_MAJOR:
        first = storage.start + (storage.row // box_rows) * box_rows * of_row * size
        first += storage.row % box_rows * box_cols * size + storage.col // box_cols * box_cols * of_col * size
        count = -(-(storage.row % box_rows + rows) // box_rows)
        width = -(-cols // box_cols) * box_cols * of_col * size
        return Region.of(storage.space, first, width if rows else 0, [(count, box_rows * of_row * size)])
    first = storage.start + storage.row * of_row * size
    first += storage.col // box_cols * box_cols * of_col * size
    count = -(-(storage.col % box_cols + cols) // box_cols)
    width = rows * of_row * size
    return Region.of(storage.space, first, width if cols else 0, [(count, box_cols * of_col * size)])


def view_region(view: View, numbers: Iterator[int]) -> Region | None:
    """The bytes of a window of global memory; ``numbers`` are its offset, its extents and its strides."""
    offset, *rest = numbers
    bits, rank = view.dtype.bits, len(view.shape)
    dims = [(n, s * bits // 8) for n, s in zip(rest[:rank], rest[rank:], strict=True)]
    return Region.of(Space(None, "", view.buffer), offset * bits // 8, max(1, bits // 8), dims)
