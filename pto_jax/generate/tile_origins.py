"""Which buffers the integers in tiles come from, by ranges of bytes of local memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..interpreter import TileRef
from ..ir import BLayout, GlobalLayout, TileType, element_offset

#: Names of buffers.
Names = frozenset[str]


@dataclass(frozen=True)
class Spot:
    """Where the bytes of a tile begin: a memory and an address in it, None where that is not known.

    A tile whose rows do not follow each other without gaps has its bytes before ``end``.
    """

    memory: Hashable
    address: int | None = 0
    end: int | None = None

    @property
    def dense(self) -> bool:
        """Whether it is known which bytes the tile has: all of a range."""
        return self.address is not None and self.end is None

    def moved(self, count: int | None, end: int | None = None) -> Spot:
        """The place some bytes further on."""
        if self.address is None or count is None:
            return Spot(self.memory, None)
        return Spot(self.memory, self.address + count, end)


@dataclass(frozen=True)
class Window:
    """A window of a buffer whose place and sizes are known."""

    buffer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: GlobalLayout | None

    def element(self, row: int, col: int) -> int | None:
        """The element of the buffer that is in a row and a column, None where the layout does not say it."""
        if self.layout not in (None, GlobalLayout.ND) or not self.shape:
            return None
        at = self.offset + col * self.strides[-1]
        for extent, stride in zip(self.shape[-2::-1], self.strides[-2::-1], strict=True):
            row, index = divmod(row, extent) if extent else (0, 0)
            at += index * stride
        return at


@dataclass(frozen=True)
class _Piece:
    """Bytes that hold integers from some buffers.

    Where the tile that begins at byte ``start`` is a copy of a window, that is given.
    """

    begin: int
    end: int
    names: Names
    type: TileType
    start: int
    window: Window | None = None

    def without(self, begin: int, end: int, certain: bool) -> Iterator[_Piece]:
        """What is left of it where other bytes are overwritten, or may have been."""
        if self.begin >= end or self.end <= begin:
            yield self
        elif not certain:
            yield replace(self, window=None)
        else:
            if self.begin < begin:
                yield replace(self, end=begin)
            if self.end > end:
                yield replace(self, begin=end)


@dataclass
class TileOrigins:
    """The origins of what tiles hold."""

    _pieces: dict[Hashable, list[_Piece]] = field(default_factory=dict)

    def write(
        self, ref: TileRef, names: Names, window: Window | None = None, *, certain: bool = True
    ) -> None:
        """A tile holds integers from some buffers; uncertain ones may be what was there before."""
        spot = ref.storage
        if not isinstance(spot, Spot):
            return
        begin, end = _range(spot, ref.type)
        certain &= spot.dense
        kept = [left for p in self._pieces.get(spot.memory, ()) for left in p.without(begin, end, certain)]
        piece = _Piece(begin, end, names, ref.type, begin, window if certain else None)
        self._pieces[spot.memory] = [*kept, piece] if names and piece not in kept else kept

    def names(self, ref: TileRef) -> Names:
        """The buffers that a tile's integers come from."""
        return frozenset().union(*(piece.names for piece in self._overlapping(ref)))

    def source(self, ref: TileRef, position: int) -> tuple[str, int] | None:
        """The buffer and its element that an element of a tile is a copy of, None where that is not known."""
        spot, size = ref.storage, ref.type.dtype.storage_bits // 8
        if not isinstance(spot, Spot) or not spot.dense or not size:
            return None
        at = (spot.address or 0) + position * size
        found = [p for p in self._pieces.get(spot.memory, ()) if p.begin < at + size and p.end > at]
        if len(found) != 1 or (window := found[0].window) is None:
            return None
        t = found[0].type
        same = t.dtype.storage_bits == 8 * size
        place = _row_and_column(t, (at - found[0].start) // size) if same else None
        element = window.element(*place) if place is not None else None
        return None if element is None else (window.buffer, element)

    def _overlapping(self, ref: TileRef) -> Sequence[_Piece]:
        if not isinstance(ref.storage, Spot):
            return ()
        begin, end = _range(ref.storage, ref.type)
        return [p for p in self._pieces.get(ref.storage.memory, ()) if p.begin < end and p.end > begin]


def window_spot(ref: TileRef, type: TileType, row: int | None, col: int | None) -> Spot | None:
    """The place of the part of a tile that begins at a row and a column."""
    spot, bits = ref.storage, ref.type.dtype.storage_bits
    if not isinstance(spot, Spot):
        return None
    known = row is not None and col is not None and not ref.type.boxed
    first = element_offset(ref.type, row or 0, col or 0) * bits // 8 if known else None
    lines = type.rows == 1 or type.cols == ref.type.cols
    if ref.type.blayout == BLayout.COL_MAJOR:
        lines = type.cols == 1 or type.rows == ref.type.rows
    return spot.moved(first, spot.end if lines or spot.end is not None else _range(spot, ref.type)[1])


def _range(spot: Spot, t: TileType) -> tuple[int, int]:
    """The bytes that a tile may have; all where its address is not known."""
    if spot.address is None:
        return 0, 1 << 62
    whole = spot.address + max(1, t.elements * t.dtype.storage_bits // 8)
    return spot.address, whole if spot.end is None else spot.end


def _row_and_column(t: TileType, position: int) -> tuple[int, int] | None:
    if t.boxed:
        return None
    if t.blayout == BLayout.ROW_MAJOR:
        return divmod(position, element_offset(t, 1, 0)) if t.cols else None
    column, row = divmod(position, t.rows)
    return row, column
