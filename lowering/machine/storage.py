"""On-chip memory of a program: cells, the allocations that share bytes, and slices of cells.

A *cell* is a piece of on-chip memory that no other cell overlaps. An allocation without an address is a cell,
carried as the logical [rows, cols] words of its type. Allocations with addresses share a cell when their byte
ranges overlap. If all of them have the same shape, order and width, the cell is still carried in logical
form, else as flat words of the width that most of them have, from which each view slices and reorders its
elements.

Slices may have run-time positions. Elements outside read as zero and are not written; slices of ``lax`` and
of :mod:`..slicing` would move inside instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar, TileRef
from pto_jax.ir import Loc, SLayout, TileType
from pto_jax.profiles import Profile

from ..bits import nibbles, recast
from ..slicing import slice_at, varied, with_slice
from . import addresses
from .addresses import wide

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, Shaped, UInt

    from ..bits import Elements, Flat, Words


def read(flat: Elements, start: Scalar, count: int) -> Shaped[Array, " {count}"]:
    """``count`` elements from ``start`` on; no more than the array has."""
    size = flat.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return flat[start : start + count]
    inside, by = _places(wide(start), size, count)

    def shifted(flat: Elements) -> Shaped[Array, " part"]:
        return _moved(-by, slice_at(flat, (inside,), (count,)))

    def branching(flat: Elements) -> Shaped[Array, " part"]:
        # Most slices lie inside their array: on a CPU, a branch costs less than moving by zero.
        words: Array = lax.cond(
            by == np.int32(0), lambda flat: slice_at(flat, (inside,), (count,)), shifted, flat
        )
        return words

    words: Array = lax.platform_dependent(flat, cpu=branching, default=shifted)
    return words


def write(flat: Elements, part: Shaped[Array, " part"], start: Scalar, independent: bool = False) -> Elements:
    """The array with the elements of a part, no longer than it, from ``start`` on.

    ``independent`` as in :func:`..slicing.with_slice`.
    """
    size, count = flat.shape[0], part.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return with_slice(flat, part, (start,), independent)
    inside, by = _places(wide(start), size, count)
    old = slice_at(flat, (inside,), (count,))
    number = lax.iota(np.int32, count) - by
    mask = (number >= np.int32(0)) & (number < np.int32(count))

    def looping(part: Shaped[Array, " part"]) -> Shaped[Array, " part"]:
        # A loop of no or one turn: its carry is updated in place, the result of a branch is copied.
        turns = lax.convert_element_type(by != np.int32(0), np.int32)
        words: Array = lax.fori_loop(np.int32(0), turns, lambda _, x: _moved(by, x), varied(part, by))
        return words

    place = lax.platform_dependent(part, cpu=looping, default=partial(_moved, by))
    return with_slice(flat, lax.select(mask, place, old), (inside,), independent)


def _places(start: Int64[Array, ""], size: int, count: int) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Where a slice moved inside begins, and how far to the right of it the slice begins that was meant.

    Both int32, the distance no longer than the slice.
    """
    begin = lax.clamp(np.int64(0), start, np.int64(size - count))
    # Nothing wraps: a start below zero is moved to zero.
    by = lax.clamp(np.int64(-count), lax.sub(start, begin), np.int64(count))
    return lax.convert_element_type(begin, np.int32), lax.convert_element_type(by, np.int32)


def _moved(by: Int32[Array, ""], line: Shaped[Array, " n"]) -> Shaped[Array, " n"]:
    """A line moved to the right, by no more than its length; zeros come in."""
    count = line.shape[0]
    padded = lax.pad(line, np.zeros((), line.dtype), ((count, count, 0),))
    return slice_at(padded, (np.int32(count) - by,), (count,))


def read_window(
    whole: Words, starts: tuple[Scalar, Scalar], shape: tuple[int, int]
) -> UInt[Array, "{shape[0]} {shape[1]}"]:
    """The elements [rows, cols] of a matrix from a row and a column on."""
    if is_inside(starts, shape, whole.shape):
        return slice_at(whole, starts, shape)
    padded = jnp.pad(whole, [(n, n) for n in shape])
    return slice_at(padded, _padded(starts, shape, whole), shape)


def write_window(whole: Words, words: UInt[Array, "_ _"], starts: tuple[Scalar, Scalar]) -> Words:
    """The matrix with the words [rows, cols] from a row and a column on."""
    if is_inside(starts, words.shape, whole.shape):
        return with_slice(whole, words, starts)
    rows, cols = words.shape
    padded = jnp.pad(whole, [(n, n) for n in words.shape])
    first = _padded(starts, words.shape, whole)
    padded = with_slice(padded, words, first)
    return padded[rows : rows + whole.shape[0], cols : cols + whole.shape[1]]


def is_inside(starts: tuple[Scalar, Scalar], shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a window [rows, cols] of a matrix begins at a place that is known, and does not leave it."""
    return all(
        isinstance(a, int) and 0 <= a <= n - size for a, size, n in zip(starts, shape, whole, strict=True)
    )


def _padded(starts: tuple[Scalar, Scalar], shape: tuple[int, ...], whole: Words) -> list[Int32[Array, ""]]:
    """Starts in a matrix with room for a window around it."""
    pairs = zip(starts, shape, whole.shape, strict=True)
    near = [lax.clamp(np.int64(-size), wide(a), np.int64(n)) + np.int64(size) for a, size, n in pairs]
    return [lax.convert_element_type(n, np.int32) for n in near]


@dataclass(frozen=True)
class Cell:
    """A piece of on-chip memory that no other overlaps: the bytes [begin, end) of a memory space.

    ``logical`` is the tile type every view agrees on, or None for flat words of ``width`` bits. Registers are
    ``cleared``; other memory begins as the profile says.
    """

    key: str
    logical: TileType | None
    begin: int
    end: int
    width: int
    cleared: bool = False


#: Bytes beyond every memory space.
FAR = 1 << 40
#: Step of a slot that begins where an allocation does.
WHOLE = 1 << 16


@dataclass(frozen=True)
class Slot:
    """Where a tile handle's bytes are: a cell and the byte address inside its memory space.

    A ``loose`` slot begins inside another tile, at a multiple of ``step`` bits, and may reach beyond the end
    of the cell.
    """

    cell: Cell
    address: Scalar = 0
    step: int = WHOLE

    @property
    def loose(self) -> bool:
        """Whether the slot begins inside another tile."""
        return self.step < WHOLE


@dataclass(frozen=True, eq=False)
class Carried:
    """Storage made on the way: its contents, where they are handed on."""

    type: TileType
    words: Words


@dataclass(frozen=True)
class Window:
    """A part of a tile, from a row and a column on, in the order of the whole."""

    tile: TileRef
    row: Scalar
    col: Scalar

    @property
    def starts(self) -> tuple[Scalar, Scalar]:
        """Row and column in the tile."""
        return self.row, self.col

    def take(self, whole: UInt[Array, "whole_rows whole_cols"], t: TileType) -> Words:
        """The window's words [rows, cols] of type ``t``, of the words of the whole tile."""
        line = self._line(whole)
        if line is None:
            return read_window(whole, self.starts, t.shape)
        (rows, cols), (pitch, start) = (t.shape if self._by_row else t.shape[::-1]), line
        span = (rows - 1) * pitch + cols
        words = read(self._flat(whole), start, span)
        words = jnp.pad(words, (0, rows * pitch - span)).reshape(rows, pitch)[:, :cols]
        return words if self._by_row else words.T

    def put(self, whole: Words, words: UInt[Array, "_ _"]) -> Words:
        """The words of the whole tile after the window's words [rows, cols] are written."""
        line = self._line(whole)
        if line is None:
            return write_window(whole, words, self.starts)
        words = words if self._by_row else words.T
        (rows, cols), (pitch, start) = words.shape, line
        span = (rows - 1) * pitch + cols
        flat = self._flat(whole)
        old = jnp.pad(read(flat, start, span), (0, rows * pitch - span)).reshape(rows, pitch)
        part = jnp.concatenate([words, old[:, cols:]], axis=1).reshape(-1)[:span]
        shape = whole.shape if self._by_row else whole.shape[::-1]
        flat = write(flat, part, start).reshape(shape)
        return flat if self._by_row else flat.T

    @property
    def _by_row(self) -> bool:
        return self.tile.type.layout == "ND"

    def _flat(self, whole: Words) -> Flat:
        return (whole if self._by_row else whole.T).reshape(-1)

    def _line(self, whole: Words) -> tuple[int, Scalar] | None:
        """Pitch and first element of a window as a part of the tile's storage, where its place is not known.

        A window that leaves its tile to the side goes on in the next line, as its addresses do.
        """
        if self.tile.type.boxed or all(isinstance(n, int) for n in self.starts):
            return None
        major, minor = self.starts if self._by_row else self.starts[::-1]
        pitch = whole.shape[1] if self._by_row else whole.shape[0]
        return pitch, addresses.followed(addresses.followed(0, major, pitch), minor, 1)


def slot_of(place: object) -> Slot | None:
    """The slot that a storage is, or is a window of."""
    if isinstance(place, Window):
        return slot_of(place.tile.storage)
    return place if isinstance(place, Slot) else None


@dataclass(frozen=True)
class Placement:
    """An allocation at a byte address, None where only execution knows it."""

    type: TileType
    address: int | None

    @property
    def end(self) -> int:
        """The byte address after the last byte, counted from 0 where the address is not known."""
        return (self.address or 0) + max(1, self.type.bytes)


def _view(t: TileType) -> tuple[object, ...]:
    """What two tile types must share to see the same bytes as the same logical array."""
    return (t.shape, t.layout, t.fractal if t.boxed else 0, t.dtype.word_bits, t.dtype.packed)


def seen_alike(a: TileType, b: TileType) -> bool:
    """Whether tiles of both types have the same words in the same places."""
    return _view(a) == _view(b)


class Plan:
    """Cells of the allocations of a program that have addresses.

    A memory space in which some address is only known at run time is one cell.
    """

    def __init__(self, placements: Sequence[Placement], capacity: Mapping[Loc, int]) -> None:
        self._cells: dict[Loc, list[Cell]] = {}
        by_space: dict[Loc, list[Placement]] = {}
        for p in placements:
            by_space.setdefault(p.type.loc, []).append(p)
        for space, members in by_space.items():
            moving = any(p.address is None for p in members)
            slots = [_whole(space, members, capacity[space])] if moving else _cells(space, members)
            self._cells[space] = slots

    def slot(self, t: TileType, address: Scalar | None) -> Slot:
        """The slot of a planned placement."""
        cells = self._cells.get(t.loc, [])
        if not isinstance(address, int):
            return Slot(cells[0], address)
        end = Placement(t, address).end
        for cell in cells:
            if cell.begin <= address and end <= cell.end:
                return Slot(cell, address)
        raise KeyError((t, address))


def _cells(space: Loc, members: Sequence[Placement]) -> list[Cell]:
    ordered = sorted(set(members), key=lambda p: (p.address or 0, p.end))
    groups: list[list[Placement]] = []
    end = -1
    for p in ordered:
        if groups and (p.address or 0) < end:
            groups[-1].append(p)
        else:
            groups.append([p])
        end = max(end, p.end) if len(groups[-1]) > 1 else p.end
    return [_cell(space, group) for group in groups]


def _whole(space: Loc, members: Sequence[Placement], capacity: int) -> Cell:
    """A whole memory space as flat words of a width that suits every placement in it."""
    end = max(capacity, *(p.end for p in members))
    width = min(p.type.dtype.word_bits for p in members)
    aligned = all(p.address is None or p.address * 8 % width == 0 for p in members)
    width = width if aligned else 8
    return Cell(f"{space.name.lower()}@0", None, 0, -(-end * 8 // width) * width // 8, width)


def _cell(space: Loc, group: Sequence[Placement]) -> Cell:
    begin, end = group[0].address or 0, max(p.end for p in group)
    key = f"{space.name.lower()}@{begin}"
    alike = {(_view(p.type), p.address) for p in group}
    if len(alike) == 1:
        t = group[0].type
        return Cell(key, t, begin, end, t.dtype.word_bits)
    width = Counter(p.type.dtype.word_bits for p in group).most_common(1)[0][0]
    step = width // 8
    aligned = all((p.address or 0) % step == 0 and p.type.bytes % step == 0 for p in group)
    width, step = (width, step) if aligned else (8, 1)
    return Cell(key, None, begin, begin + -(-(end - begin) // step) * step, width)


def initial(cell: Cell, profile: Profile, whole: bool) -> UInt[Array, "..."]:
    """What a cell holds before anything is written; ``whole``: in a program that is traced as a whole."""
    dtype = np.dtype(f"u{cell.width // 8}")
    shape = cell.logical.shape if cell.logical else ((cell.end - cell.begin) * 8 // cell.width,)
    fill = np.iinfo(dtype).max if profile.fresh_tile == "ones" and not cell.cleared else 0
    if cell.logical is not None and cell.logical.dtype.packed:
        fill &= (1 << cell.logical.dtype.bits) - 1
    # NumPy needs no program of XLA for each shape.
    return jnp.full(shape, fill, dtype) if whole else jax.device_put(np.full(shape, fill, dtype))


def sees_logical(slot: Slot, t: TileType) -> bool:
    """Whether a handle of the type sees the cell's array as it is carried (an alias may not)."""
    return not slot.loose and slot.cell.logical is not None and seen_alike(slot.cell.logical, t)


def load(state: Mapping[str, UInt[Array, "..."]], slot: Slot, t: TileType) -> Words:
    """Logical words [rows, cols] of a tile."""
    if sees_logical(slot, t):
        return state[slot.cell.key]
    unit = _unit(slot, t)
    count = t.bytes * 8 // unit
    part = read(_flat(state, slot, unit, count), _first(slot, unit), count)
    return to_logical(regroup(part, t.dtype.word_bits), t)


def store(state: dict[str, UInt[Array, "..."]], slot: Slot, t: TileType, words: Words) -> None:
    """Write logical words [rows, cols] of a tile."""
    if sees_logical(slot, t):
        state[slot.cell.key] = words
        return
    unit = _unit(slot, t)
    part = regroup(to_physical(words, t), unit)
    flat = _flat(state, slot, unit, part.shape[0])
    flat = write(flat, part, _first(slot, unit))
    logical, own = slot.cell.logical, (slot.cell.end - slot.cell.begin) * 8 // unit
    flat = regroup(flat[:own], slot.cell.width)
    state[slot.cell.key] = flat if logical is None else to_logical(flat, logical)


def _unit(slot: Slot, t: TileType) -> int:
    """The widest words, of at most the cell's width, that a tile begins and ends between."""
    unit = min(slot.cell.width, slot.step)
    address = slot.address if isinstance(slot.address, int) else 0
    while t.bytes * 8 % unit or (address - slot.cell.begin) * 8 % unit:
        unit //= 2
    return unit


def _flat(state: Mapping[str, UInt[Array, "..."]], slot: Slot, unit: int, count: int) -> Flat:
    """The words of a cell in memory order, for a loose slot at least as many as a tile takes."""
    words = state[slot.cell.key]
    if slot.cell.logical is not None:
        words = to_physical(words, slot.cell.logical)
    words = regroup(words, unit)
    missing = count - words.shape[0]
    return jnp.pad(words, (0, missing)) if missing > 0 else words


def _first(slot: Slot, unit: int) -> Scalar:
    """Where a tile's words start in its cell."""
    address = slot.address
    if not isinstance(address, int):
        address = lax.clamp(np.int64(-FAR), addresses.wide(address), np.int64(FAR))
    return (address - slot.cell.begin) * 8 // unit


def regroup(words: Flat, width: int) -> UInt[Array, " _"]:
    """Flat little-endian words regrouped to another width."""
    return recast(words, np.dtype(f"u{width // 8}"))


def _box(t: TileType) -> tuple[int, int]:
    """The box of a tile; all rows are one box where boxes of rows follow each other, whole or not."""
    return (t.rows, t.stored_box[1]) if t.layout == "NZ" else t.stored_box


def to_logical(flat: Flat, t: TileType) -> Words:
    """Physical element order to [rows, cols]; packed elements are unpacked one per word."""
    if t.dtype.packed:
        flat = nibbles(flat)
    rows, cols = t.shape
    if not t.boxed:
        return flat.reshape(rows, cols) if t.layout == "ND" else flat.reshape(cols, rows).T
    ir, ic = _box(t)
    inner = (ir, ic) if t.slayout == SLayout.ROW_MAJOR else (ic, ir)
    outer = (rows // ir, cols // ic) if t.layout in ("ZN", "ZZ") else (cols // ic, rows // ir)
    boxes = flat.reshape(*outer, *inner)
    row_outer, col_outer = (0, 1) if t.layout in ("ZN", "ZZ") else (1, 0)
    row_inner, col_inner = (2, 3) if t.slayout == SLayout.ROW_MAJOR else (3, 2)
    return boxes.transpose(row_outer, row_inner, col_outer, col_inner).reshape(rows, cols)


def to_physical(words: Words, t: TileType) -> Flat:
    """[rows, cols] to physical element order; the inverse of :func:`to_logical`."""
    rows, cols = t.shape
    if not t.boxed:
        flat = words.reshape(-1) if t.layout == "ND" else words.T.reshape(-1)
    else:
        ir, ic = _box(t)
        boxes = words.reshape(rows // ir, ir, cols // ic, ic)
        outer = (0, 2) if t.layout in ("ZN", "ZZ") else (2, 0)
        inner = (1, 3) if t.slayout == SLayout.ROW_MAJOR else (3, 1)
        flat = boxes.transpose(*outer, *inner).reshape(-1)
    if t.dtype.packed:
        pairs = flat.reshape(-1, 2)
        flat = pairs[:, 0] | (pairs[:, 1] << np.uint8(4))
    return flat
