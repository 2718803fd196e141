"""Which buffers the integers in tiles come from, by ranges of bytes of local memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from ..interpreter import TileRef
from ..ir.types import BLayout, GlobalLayout, TileType, element_offset

#: Names of buffers.
Names = frozenset[str]


@dataclass(frozen=True)
class Spot:
    """Where the bytes of a tile begin: a memory and an address in it, None where that is not known.

    The rows of a ``strided`` tile do not follow each other without gaps.
    """

    memory: Hashable
    address: int | None = 0
    strided: bool = False

    def moved(self, count: int | None, strided: bool = False) -> Spot:
        """The place some bytes further on."""
        known = self.address is not None and count is not None
        return Spot(self.memory, (self.address or 0) + (count or 0) if known else None, strided)


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
    """Bytes that hold integers from some buffers, of a window where they are a copy of it."""

    begin: int
    end: int
    names: Names
    type: TileType
    window: Window | None = None


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
        kept = self._pieces.setdefault(spot.memory, [])
        if certain and spot.address is not None and not spot.strided:
            kept[:] = [piece for piece in kept if piece.begin < begin or piece.end > end]
        if names:
            exact = window if certain and spot.address is not None and not spot.strided else None
            kept.append(_Piece(begin, end, names, ref.type, exact))

    def names(self, ref: TileRef) -> Names:
        """The buffers that a tile's integers come from."""
        return frozenset().union(*(piece.names for piece in self._overlapping(ref)))

    def source(self, ref: TileRef, position: int) -> tuple[str, int] | None:
        """The buffer and its element that an element of a tile is a copy of, None where that is not known."""
        spot, size = ref.storage, ref.type.dtype.storage_bits // 8
        if not isinstance(spot, Spot) or spot.address is None or spot.strided or not size:
            return None
        at = spot.address + position * size
        found = [p for p in self._pieces.get(spot.memory, ()) if p.begin < at + size and p.end > at]
        if len(found) != 1 or (window := found[0].window) is None:
            return None
        t = found[0].type
        same = t.dtype.storage_bits == 8 * size
        place = _row_and_column(t, (at - found[0].begin) // size) if same else None
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
    return spot.moved(first, spot.strided or not lines)


def _range(spot: Spot, t: TileType) -> tuple[int, int]:
    """The bytes that a tile may have; all where its address is not known."""
    if spot.address is None or spot.strided:
        return 0, 1 << 62
    return spot.address, spot.address + max(1, t.elements * t.dtype.storage_bits // 8)


def _row_and_column(t: TileType, position: int) -> tuple[int, int] | None:
    if t.boxed:
        return None
    if t.blayout == BLayout.ROW_MAJOR:
        return divmod(position, element_offset(t, 1, 0)) if t.cols else None
    column, row = divmod(position, t.rows)
    return row, column
