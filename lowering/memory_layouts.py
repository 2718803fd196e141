"""Addresses of the elements of a global-memory view.

A layout states which dimensions of a view run along the rows of a tile and which along its columns; the
strides of the view give the addresses. There are three cases. A static view whose dimensions nest without
overlap is a :class:`Block`, accessed by slices and reshapes. Rows that are contiguous but begin at run-time
positions are :class:`Lines`, accessed one slice after the other in order, so that the last of overlapping
rows remains. For every other view the addresses of all elements are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Scalar, View
from pto_jax.ir import GlobalLayout

from . import platforms, region, slicing
from .bits import elements_at, from_words, raw
from .machine import storage
from .machine.addresses import Positions, begin, distance, limited, product, wide
from .numerics import broadcast
from .rules import Context, GlobalMemory, Inputs, memory_rule
from .slicing import slice_at, with_slice

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Int64, Shaped, UInt

    from .bits import Elements, Flat, Lanes, Mask, Size, Words
    from .machine.ranges import Range
    from .slicing import Start


#: Elements of a span of which one is read, at most, for a slice at a run-time offset to pay.
SPARSEST = 32
#: Elements of a buffer for one of a span, at most, for a choice between all of them to pay.
MOST_AROUND = 4
#: Extent and stride of one or more dimensions that are one arithmetic progression.
Run: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """A static window of nested runs: the elements [begin, begin + span) of a buffer and the gaps between.

    ``runs`` are by falling stride, each stride at least what the runs inside it span; ``back`` is the
    permutation of their dimensions to those of the tile's rows and columns.
    """

    begin: int
    span: int
    runs: tuple[Run, ...]
    back: tuple[int, ...]
    rows: int
    cols: int

    @property
    def end(self) -> int:
        """The position after the last element."""
        return self.begin + self.span

    @property
    def is_dense(self) -> bool:
        """Whether the block has no gaps."""
        return self.span == self.rows * self.cols

    @property
    def is_sparse(self) -> bool:
        """Whether so few elements of the span are read that addresses cost less than a slice."""
        return self.span > SPARSEST * self.rows * self.cols

    def fits(self, shape: tuple[int, int]) -> bool:
        """Whether the block is no larger than a tile."""
        return self.rows <= shape[0] and self.cols <= shape[1]

    def within(self, buffer: Elements) -> bool:
        """Whether the block is inside a flat buffer."""
        return bool(self.begin >= 0 and self.end <= buffer.shape[0])

    def is_all(self, buffer: Elements) -> bool:
        """Whether the block is a flat buffer, its elements in their order."""
        whole = self.begin == 0 and self.span == buffer.shape[0] and self.is_dense
        return whole and self.back == tuple(range(len(self.back)))

    def rectangle(self, size: int) -> tuple[tuple[int, int], tuple[int, int], int] | None:
        """Where the block begins in a buffer of a size, and its extents, in lines of its larger stride.

        None where it is no part of whole lines.
        """
        if len(self.runs) != 2 or self.runs[1][1] != 1:
            return None
        (count, pitch), (length, _) = self.runs
        line, first = divmod(self.begin, pitch)
        inside = self.begin >= 0 and first + length <= pitch and (line + count) * pitch <= size
        return ((line, first), (count, length), pitch) if inside and size % pitch == 0 else None

    def taken(self, buffer: Elements) -> Lanes:
        """[rows, cols] of a buffer that the block is inside of."""
        rectangle = self.rectangle(buffer.shape[0])
        if rectangle is None:
            return self.read(buffer[self.begin : self.end])
        first, extents, pitch = rectangle
        part = slice_at(buffer.reshape(-1, pitch), first, extents)
        return part.transpose(self.back).reshape(self.rows, self.cols)

    def put(self, buffer: Elements, words: Lanes, independent: bool) -> Elements:
        """A buffer that the block is inside of, with [rows, cols] written.

        ``independent`` as in :func:`slicing.with_slice`.
        """
        rectangle = self.rectangle(buffer.shape[0])
        if rectangle is not None and self.span < buffer.shape[0]:
            first, extents, pitch = rectangle
            lines = buffer.reshape(-1, pitch)
            return with_slice(lines, self._ordered(words).reshape(extents), first, independent).reshape(-1)
        old = None if self.is_dense else buffer[self.begin : self.end]
        flat = self.written(words, old)
        if flat.shape == buffer.shape:
            return flat
        return with_slice(buffer, flat, (self.begin,), independent)

    def put_before(
        self,
        limits: Sequence[Size],
        buffer: Elements,
        words: Lanes,
        independent: bool,
        costly: bool,
        around: Elements,
    ) -> Elements:
        """:meth:`put` of the rows and columns before ``limits``, which are at most those of the block.

        Words that are ``costly`` to compute are computed apart. ``around`` are the elements of the buffer,
        for a result that is no update.
        """
        rectangle = self.rectangle(buffer.shape[0])
        by_axis = tuple(self.runs[i][0] for i in self.back) == (self.rows, self.cols)
        if rectangle is None or not by_axis or buffer.shape[0] > MOST_AROUND * self.span:
            row, col = (lax.broadcasted_iota(np.int32, words.shape, axis) for axis in (0, 1))
            inside = (row < limits[0]) & (col < limits[1])
            return self.put(buffer, jnp.where(inside, words, self.taken(buffer)), independent)
        # A choice over all of the buffer is a vector loop, one that reads and writes the same buffer is none.
        first, extents, pitch = rectangle
        lines = around.reshape(-1, pitch)
        limits = limits if self.back == (0, 1) else limits[::-1]
        places = [lax.broadcasted_iota(np.int32, lines.shape, axis) for axis in (0, 1)]
        begins = [np.int32(n) for n in first]
        parts = [(p >= b) & (p < b + n) for p, b, n in zip(places, begins, limits, strict=True)]
        margins = [(n, m - n - k) for n, m, k in zip(first, lines.shape, extents, strict=True)]
        new = self._ordered(words).reshape(extents)
        if costly and platforms.expected() == "cpu":
            (new,) = slicing.computed_before(new)
        return lax.select(parts[0] & parts[1], jnp.pad(new, margins), lines).reshape(-1)

    def _ordered(self, words: Lanes) -> Shaped[Array, "..."]:
        """[rows, cols] in the order of the runs."""
        return words.reshape([self.runs[i][0] for i in self.back]).transpose(np.argsort(self.back))

    def read(self, flat: Shaped[Array, " span"]) -> Lanes:
        """[rows, cols] of the ``span`` elements of the block."""
        for extent, stride in self.runs:
            flat = _resized(flat, extent * stride).reshape(*flat.shape[:-1], extent, stride)
        extents = flat.shape[:-1]
        parts = lax.slice_in_dim(flat, 0, 1, axis=len(extents)).reshape(extents)
        return parts.transpose(self.back).reshape(self.rows, self.cols)

    def written(self, words: Lanes, flat: Shaped[Array, " span"] | None = None) -> Shaped[Array, " _"]:
        """The ``span`` elements of the block after [rows, cols] are written.

        ``flat`` has the gaps of one that is not dense.
        """
        extents = tuple(self.runs[i][0] for i in self.back)
        forth = tuple(int(i) for i in np.argsort(self.back))
        words = words.reshape(extents).transpose(forth)
        if self.is_dense or flat is None:
            return words.reshape(-1)
        return _interleaved(words, flat, self.runs)


def _interleaved(
    words: Shaped[Array, "..."], old: Shaped[Array, "*lead length"], runs: Sequence[Run]
) -> Shaped[Array, "*lead length"]:
    """``old`` [..., length] with ``words`` [..., *extents] at the places the runs name."""
    if not runs:
        return jnp.concatenate([words[..., None], old[..., 1:]], axis=-1)
    extent, stride = runs[0]
    length = old.shape[-1]
    parts = _resized(old, extent * stride).reshape(*old.shape[:-1], extent, stride)
    new = _interleaved(words, parts, runs[1:]).reshape(*old.shape[:-1], extent * stride)
    return jnp.concatenate([new[..., :length], old[..., extent * stride :]], axis=-1)


def _resized(flat: Shaped[Array, "*lead _"], size: int) -> Shaped[Array, "*lead _"]:
    """The last dimension cropped, or extended with zeros."""
    have = flat.shape[-1]
    if have >= size:
        return flat[..., :size]
    return jnp.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, size - have)])


RANK = 5
#: Bytes of the innermost dimension of blocked layouts.
BLOCK_BYTES = 32


class Axes(NamedTuple):
    """Dimensions of a view along the rows and along the columns of a tile, slowest first."""

    rows: tuple[int, ...]
    cols: tuple[int, ...]


AXES: dict[GlobalLayout, Axes] = {
    GlobalLayout.ND: Axes((0, 1, 2, 3), (4,)),
    GlobalLayout.DN: Axes((3,), (0, 1, 2, 4)),
    GlobalLayout.NZ: Axes((2, 3), (0, 1, 4)),
    GlobalLayout.MX_A_ND: Axes((2,), (3, 4)),
    GlobalLayout.MX_A_DN: Axes((3,), (2, 4)),
    GlobalLayout.MX_A_ZZ: Axes((1, 3), (2, 4)),
    GlobalLayout.MX_B_ND: Axes((2, 4), (3,)),
    GlobalLayout.MX_B_DN: Axes((3, 4), (2,)),
    GlobalLayout.MX_B_NN: Axes((2, 4), (1, 3)),
    GlobalLayout.HIF4_A_ZZ: Axes((1, 3), (2, 4)),
    GlobalLayout.HIF4_B_NN: Axes((2, 4), (1, 3)),
    GlobalLayout.NC1HWC0: Axes((0, 2, 3), (1, 4)),
    GlobalLayout.NDC1HWC0: Axes((0, 3, 4), (1, 2, 5)),
    GlobalLayout.FRACTAL_Z: Axes((0, 1, 2, 4), (3,)),
    GlobalLayout.NHWC: Axes((0, 1, 2, 3), (4,)),
    GlobalLayout.NCHW: Axes((0, 1, 3, 4), (2,)),
    GlobalLayout.NCDHW: Axes((0, 2, 3, 4), (1,)),
}
#: Layouts whose innermost dimension is not written in the view: ``32 / element size``, with unit stride.
IMPLIED_BLOCK = (GlobalLayout.NDC1HWC0,)


class Placed(Protocol):
    """Where the lanes of a transfer are in a buffer."""

    @property
    def offset(self) -> Scalar:
        """Position of the first element."""

    @property
    def is_static(self) -> bool:
        """Whether the addresses are known."""

    def lanes(self) -> tuple[Scalar, Scalar]:
        """Rows and columns of the tile lanes that the window stands for."""

    def meets(self, shape: tuple[int, int]) -> bool | None:
        """Whether two lanes of a tile shape stand for one element; None where that is not known.

        Dynamic extents count with the largest values that they can have.
        """

    def addresses(self, shape: tuple[int, int]) -> Int64[Array, "rows cols"] | Int64[np.ndarray, "rows cols"]:
        """Buffer positions of the lanes of a tile shape, int64 [rows, cols]; -1 beyond the window.

        A NumPy array where everything is static.
        """

    def block(self) -> Block | None:
        """The window as a block, or None where it is not static or its dimensions do not nest."""

    def moving_block(self) -> Block | None:
        """A window at a run-time offset as a block that begins there, or None."""


@dataclass(frozen=True)
class Window:
    """A view brought to the rank of its layout: leading dimensions of extent 1."""

    offset: Scalar
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    axes: Axes

    @staticmethod
    def of(view: View, layout: GlobalLayout | None = None, *, flat: bool = False) -> Window:
        """The window of a view; a layout the instruction gives goes before the view's own.

        A ``flat`` window is one row of its elements in the order of their indices.
        """
        layout = view.layout if layout is None else layout
        layout = GlobalLayout.ND if layout is None else layout
        lead = RANK - len(view.shape)
        shape, strides = (1,) * lead + view.shape, (0,) * lead + view.strides
        if layout in IMPLIED_BLOCK:
            shape += (BLOCK_BYTES * 8 // view.dtype.word_bits,)
            strides += (1,)
        if flat:
            return Window(view.offset, shape, strides, Axes((), tuple(range(len(shape)))))
        if layout not in AXES:
            message = f"global layout {layout.name.lower()} is not executed by this version"
            raise NotExecutableError(Diagnostic("error", message))
        return Window(view.offset, shape, strides, AXES[layout])

    @property
    def is_static(self) -> bool:
        """Whether offset, shape and strides are all known."""
        return all(isinstance(n, int) for n in (*self.shape, *self.strides, self.offset))

    def lanes(self) -> tuple[Scalar, Scalar]:
        """Rows and columns: products of the extents along the two axes."""
        rows, cols = (product(tuple(self.shape[axis] for axis in axes)) for axes in self.axes)
        return rows, cols

    def addresses(self, shape: tuple[int, int]) -> Int64[Array, "rows cols"] | Int64[np.ndarray, "rows cols"]:
        """Buffer positions of the lanes of a tile shape, int64 [rows, cols]; -1 beyond the window.

        A NumPy array where everything is static.
        """
        numbers: tuple[Positions, ...] = np.indices(shape, dtype=np.int64, sparse=True)
        where = begin(self.offset, self.strides)
        for axes, number in zip(self.axes, numbers, strict=True):
            # What the slowest dimension is asked for beyond its extent is beyond the window.
            for axis in reversed(axes):
                extent = positive(self.shape[axis])
                if not (isinstance(extent, int) and extent == 1):
                    index = number
                    if axis != axes[0]:
                        number, index = _divided(number, extent)
                    where = where + distance(index, self.strides[axis])
        for number, extent, size in zip(numbers, self.lanes(), shape, strict=True):
            if isinstance(extent, int) and isinstance(where, np.ndarray | np.integer):
                where = np.where(number < extent, where, np.int64(-1))
            elif not isinstance(extent, int) or extent < size:
                where = jnp.where(number < extent, where, np.int64(-1))
        if isinstance(where, np.ndarray | np.integer):
            return np.broadcast_to(where, shape)
        return jnp.broadcast_to(where, shape)

    def corners(self, sizes: Sequence[Scalar]) -> tuple[Int64[Array, ""], Int64[Array, ""]] | None:
        """The first and the last position of so many lanes; the last one is less where there are none.

        None where positions are not a multiple of the row plus one of the column.
        """
        first = last = begin(self.offset, self.strides)
        some: Scalar = True
        for axes, size, extent in zip(self.axes, sizes, self.lanes(), strict=True):
            moving = [a for a in axes if not (isinstance(self.shape[a], int) and self.shape[a] == 1)]
            if len(moving) > 1:
                return None
            count, none = lax.min(jnp.asarray(size, np.int64), wide(extent)), np.int64(0)
            if moving:
                far = distance(lax.sub(count, np.int64(1)), self.strides[moving[0]])
                first, last = lax.add(first, lax.min(far, none)), lax.add(last, lax.max(far, none))
            positive = lax.gt(count, none)
            some = positive if some is True else lax.bitwise_and(some, positive)
        return jnp.asarray(first, np.int64), lax.select(some, last, lax.sub(first, np.int64(1)))

    def block(self) -> Block | None:
        """The window as a block, or None where it is not static or its dimensions do not nest."""
        return self._nested(self.offset) if isinstance(self.offset, int) else None

    def moving_block(self) -> Block | None:
        """The block, begun at 0, of a window of which only the offset is not known; else None."""
        return None if isinstance(self.offset, int) else self._nested(0)

    def meets(self, shape: tuple[int, int]) -> bool | None:
        """Whether two lanes of a tile shape stand for one element; None where that is not known."""
        if self._nested(0) is not None:
            return False
        sizes = [self._sizes(axes, n) for axes, n in zip(self.axes, shape, strict=True)]
        sizes_of = {axis: n for group in sizes for axis, n in group}
        extents = tuple(sizes_of[axis] for axis in sorted(sizes_of))
        if not all(isinstance(n, int) for n in (*extents, *self.strides)):
            return None
        strides = tuple(s if axis in sizes_of else 0 for axis, s in enumerate(self.strides))
        filled = tuple(sizes_of.get(axis, 1) for axis in range(len(self.shape)))
        return _meets(Window(0, filled, strides, self.axes), shape)

    def widened(self, shape: tuple[int, int]) -> tuple[Window, Mask | None]:
        """The window with run-time extents as large as a tile has them, where they are the slowest ones.

        The mask [rows, cols] tells which lanes are in this window, None where the extents are known.
        """
        groups = [self._sizes(axes, n) for axes, n in zip(self.axes, shape, strict=True)]
        sizes = dict(enumerate(self.shape)) | {axis: n for group in groups for axis, n in group}
        inside = [
            lax.broadcasted_iota(np.int32, (side, 1) if axis == 0 else (1, side), axis) < limited(limit, side)
            for axis, (side, limit) in enumerate(zip(shape, self.lanes(), strict=True))
            if not isinstance(limit, int)
        ]
        mask = jnp.broadcast_to(inside[0] & inside[-1], shape) if inside else None
        return replace(self, shape=tuple(sizes[axis] for axis in range(len(self.shape)))), mask

    def _sizes(self, axes: Sequence[int], lanes: int) -> list[tuple[int, Scalar]]:
        """Extents of some dimensions; the slowest one that counts needs to be no larger than the tile."""
        sizes = [(axis, self.shape[axis]) for axis in axes]
        first = next((i for i, (_, n) in enumerate(sizes) if not (isinstance(n, int) and n == 1)), None)
        if first is not None and not isinstance(sizes[first][1], int):
            sizes[first] = (sizes[first][0], lanes)
        return sizes

    def _nested(self, begin: int) -> Block | None:
        if not all(isinstance(n, int) for n in (*self.shape, *self.strides)) or 0 in self.shape:
            return None
        rows, cols = (self._runs(axes) for axes in self.axes)
        runs = (*rows, *cols)
        order = sorted(range(len(runs)), key=lambda i: -runs[i][1])
        nested = tuple(runs[i] for i in order)
        span = 1
        for extent, stride in reversed(nested):
            if stride < span:
                return None
            span += (extent - 1) * stride
        back = tuple(int(i) for i in np.argsort(order))
        return Block(begin, span, nested, back, prod(n for n, _ in rows), prod(n for n, _ in cols))

    def _runs(self, axes: Sequence[int]) -> tuple[Run, ...]:
        """Some dimensions, slowest first, without those of extent 1 and joined where that is possible."""
        runs: list[Run] = []
        for axis in axes:
            extent, stride = self.shape[axis], self.strides[axis]
            if extent == 1:
                continue
            if runs and runs[-1][1] == extent * stride:
                runs[-1] = (runs[-1][0] * extent, stride)
            else:
                runs.append((extent, stride))
        return tuple(runs)


@lru_cache(maxsize=1024)
def _meets(window: Window, shape: tuple[int, int]) -> bool:
    where = np.asarray(window.addresses(shape))
    where = where[where >= 0]
    return bool(np.unique(where).size != where.size)


def _divided(number: Positions, by: Scalar) -> tuple[Positions, Positions]:
    """Quotient and remainder of numbers from 0 on and a number from 1 on."""
    if isinstance(by, int):
        return number // np.int64(by), number % np.int64(by)
    dividend, divisor = jnp.asarray(number), jnp.asarray(wide(by))
    return broadcast(lax.div)(dividend, divisor), broadcast(lax.rem)(dividend, divisor)


def positive(n: Scalar) -> Scalar:
    """An extent kept positive, so that empty windows do not divide by zero."""
    return max(n, 1) if isinstance(n, int) else jnp.maximum(n, 1)


def within(
    where: Int64[Array, "*shape"] | Int64[np.ndarray, "*shape"], buffer: Elements
) -> Int32[Array, "*shape"]:
    """int32 positions; those outside the buffer become its size, which gathers and scatters skip."""
    size = np.int64(buffer.shape[0])
    where = jnp.asarray(where, np.int64)
    outside = lax.bitwise_or(lax.lt(where, np.int64(0)), lax.gt(where, size))
    return lax.convert_element_type(lax.select(outside, lax.full_like(where, size), where), np.int32)


def fetch(buffer: Elements, window: Placed, shape: tuple[int, int], offsets: Range | None = None) -> Lanes:
    """The window's elements on a tile shape; lanes beyond the window or the buffer are zero.

    ``offsets`` is where the window begins in any execution, where that is known.
    """
    moving = inner_block(window, shape, buffer, offsets)
    if moving is not None:
        return region.fit(moving.fetched(buffer, window.offset), shape, buffer.dtype.type(0))
    fill = buffer.dtype.type(0)
    block, inside = block_of(window, shape)
    if block is not None and block.fits(shape) and block.span <= buffer.shape[0]:
        fixed = isinstance(window.offset, int) and block.within(buffer)
        words = block.taken(buffer) if fixed else block.read(storage.read(buffer, window.offset, block.span))
        words = region.fit(words, shape, fill)
        return words if inside is None else jnp.where(inside, words, fill)
    return elements_at(buffer, within(window.addresses(shape), buffer))


def block_of(window: Placed, shape: tuple[int, int]) -> tuple[Block | None, Mask | None]:
    """A window as a block that begins at its offset, and which lanes are in the window (None: all of it).

    None where a block does not pay: addresses cost less than a long slice at a run-time place.
    """
    inside: Mask | None = None
    if isinstance(window, Window):
        window, inside = window.widened(shape)
    block = window.block()
    if block is None:
        block = window.moving_block()
        return (None if block is None or block.is_sparse else block), inside
    return block, inside


@dataclass(frozen=True)
class Inner:
    """A block that begins where only execution knows, at one of ``offsets``, and is always in its buffer."""

    block: Block
    offsets: Range

    def _lines(self, size: int) -> tuple[int, tuple[int, int]] | None:
        """The distance of the lines that the block is part of, and its extents; None where it is none.

        Wherever it begins, it ends before the end of a line.
        """
        runs = self.block.runs
        if len(runs) != 2 or runs[1][1] != 1:
            return None
        (count, pitch), (length, _) = runs
        step = gcd(self.offsets.step, pitch)
        inside = size % pitch == 0 and self.offsets.low % step + length <= step
        return (pitch, (count, length)) if inside else None

    def _place(self, offset: Scalar, pitch: int) -> tuple[Start | int, Start | int]:
        """The line and the place in it where the block begins."""
        at = lax.convert_element_type(offset, np.int32)
        first = self.offsets.low % pitch if self.offsets.step % pitch == 0 else lax.rem(at, np.int32(pitch))
        return lax.div(at, np.int32(pitch)), first

    def fetched(self, buffer: Elements, offset: Scalar) -> Lanes:
        """[rows, cols] of the buffer."""
        block, lines = self.block, self._lines(buffer.shape[0])
        if lines is None:
            at = lax.convert_element_type(offset, np.int32)
            return block.read(slicing.slice_at(buffer, (at,), (block.span,)))
        pitch, extents = lines
        part = slicing.slice_at(buffer.reshape(-1, pitch), self._place(offset, pitch), extents)
        return part.transpose(block.back).reshape(block.rows, block.cols)

    def put(self, buffer: Elements, words: Lanes, offset: Scalar, independent: bool) -> Elements | None:
        """The buffer with [rows, cols] written; None where what is in gaps would be written as well.

        ``independent`` as in :func:`slicing.with_slice`.
        """
        block, some = self.block, self._lines(buffer.shape[0])
        if some is None:
            at = lax.convert_element_type(offset, np.int32)
            if not block.is_dense:
                return None
            return slicing.with_slice(buffer, block.written(words), (at,), independent)
        pitch, extents = some
        part = words.reshape([block.runs[i][0] for i in block.back]).transpose(np.argsort(block.back))
        lines = buffer.reshape(-1, pitch)
        place = self._place(offset, pitch)
        return slicing.with_slice(lines, part.reshape(extents), place, independent).reshape(-1)


def inner_block(
    window: Placed, shape: tuple[int, int], buffer: Elements, offsets: Range | None
) -> Inner | None:
    """A window as a block that moves inside its buffer, None where it may leave it or is none."""
    block = window.moving_block()
    if block is None or offsets is None or not block.fits(shape):
        return None
    inside = offsets.low >= 0 and offsets.high + block.span <= buffer.shape[0]
    return Inner(block, offsets) if inside else None


@memory_rule("tprefetch")
def tprefetch(c: Context, inputs: Inputs, memory: GlobalMemory) -> Words | None:
    """The simulator's linear copy: neither the window's strides nor the tile's layout count."""
    if c.profile != "cpu_sim":
        return None
    t, dst, view, buffer = c.tile("dst"), region.lanes(inputs, "dst"), memory.view, memory.buffer
    line = Window.of(View(view.buffer, view.dtype, view.offset, (t.elements,), (1,)))
    words = fetch(buffer, line, (1, t.elements))[0]
    where = within(line.addresses((1, t.elements)), buffer)[0]
    written, inside = where < np.int32(buffer.shape[0]), region.mask(t, dst)
    if inside is not None:
        written &= inside.reshape(-1)
    return storage.to_logical(jnp.where(written, words, storage.to_physical(dst.words, t)), t)


@dataclass(frozen=True)
class Lines:
    """Where the lines of a tile begin in a buffer, int64 [lines].

    ``count`` lines, and ``length`` elements of each, are in the window. ``by_row`` tells whether a line is a
    row of the tile or a column.
    """

    starts: Int64[Array, " lines"]
    count: Scalar
    length: Scalar
    by_row: bool

    def read(self, buffer: Elements, shape: tuple[int, int]) -> Words:
        """The elements on a tile shape; zeros beyond the window and the buffer."""
        width = shape[1 if self.by_row else 0]
        words = _reader(width)(buffer[None], *self._places(buffer.shape[0], width))[0]
        words = lax.select(self._mask(words.shape), words, jnp.zeros_like(words))
        return words if self.by_row else words.T

    def _mask(self, shape: tuple[int, ...]) -> Bool[Array, "lines width"]:
        """Which elements of lines are in the window."""
        parts = [
            lax.broadcasted_iota(np.int32, side, axis) < limited(limit, shape[axis])
            for axis, (side, limit) in enumerate((((shape[0], 1), self.count), ((1, shape[1]), self.length)))
            if not (isinstance(limit, int) and limit >= shape[axis])
        ]
        mask = parts[0] & parts[-1] if parts else np.ones((1, 1), bool)
        return jnp.broadcast_to(mask, shape)

    def limited(self, rows: Scalar, cols: Scalar) -> Lines:
        """The lines of a window that ends at the latest after some rows and columns of the tile."""
        count, length = (rows, cols) if self.by_row else (cols, rows)
        return replace(self, count=_least(self.count, count), length=_least(self.length, length))

    def write(self, buffer: Flat, words: Words, kind: np.dtype[Any], independent: bool) -> Flat:
        """The buffer with a tile's elements written; nothing beyond the window and the buffer.

        Elements are moved as arrays of type ``kind``; ``independent`` as in :func:`slicing.with_slice`.
        """
        words = words if self.by_row else words.T
        lines, width = words.shape
        limits = (limited(n, m) for n, m in ((self.count, lines), (self.length, width)))
        places = self._places(buffer.shape[0], width)
        old, new = (from_words(x.reshape(1, -1), kind) for x in (buffer, words))
        first, moved = places
        if not independent:
            new, first, moved = slicing.computed_before(new, first, moved)
        return raw(_writer(width)(old, new, first, moved, *limits)[0])

    def _places(self, size: int, width: int) -> tuple[Int32[Array, " lines"], Int32[Array, " lines"]]:
        """Where lines begin, as far outside as counts, and where slices begin that are moved inside.

        Lines that are not in the window begin anywhere.
        """
        counts = lax.iota(np.int64, self.starts.shape[0]) < wide(self.count)
        inside = lax.clamp(np.int64(0), self.starts, np.int64(size - width))
        begin = lax.select(counts, lax.clamp(np.int64(-width), self.starts, np.int64(size)), inside)
        first, moved = (lax.convert_element_type(n, np.int32) for n in (begin, inside))
        return first, moved


def lines_of(window: Window, shape: tuple[int, int], buffer: Elements) -> Lines | None:
    """A window as lines of a tile, None where neither rows nor columns are such, or none fits the buffer."""
    for by_row, along in ((True, window.axes.cols), (False, window.axes.rows)):
        counting = [axis for axis in along if not _is(window.shape[axis], 1)]
        width = shape[1 if by_row else 0]
        if len(counting) > 1 or not all(_is(window.strides[axis], 1) for axis in counting):
            continue
        if not 1 < width <= buffer.shape[0]:
            continue
        extents = tuple(1 if axis in counting else n for axis, n in enumerate(window.shape))
        lines = (shape[0], 1) if by_row else (1, shape[1])
        starts = jnp.asarray(replace(window, shape=extents).addresses(lines), np.int64).reshape(-1)
        rows, cols = window.lanes()
        return Lines(starts, *((rows, cols) if by_row else (cols, rows)), by_row)
    return None


def _is(n: Scalar, number: int) -> bool:
    return isinstance(n, int) and n == number


@cache
def _reader(width: int) -> Callable[..., Any]:
    """Lines of ``width`` elements [batch, lines, width] of buffers [batch, elements]; zeros beyond them."""

    def read(
        buffers: Shaped[Array, "batch _"], begin: Int32[Array, " lines"], inside: Int32[Array, " lines"]
    ) -> UInt[Array, "batch lines _"]:
        sizes = buffers.shape[0], width
        # The lines first, as XLA has them in any case.
        dimensions = lax.GatherDimensionNumbers((1, 2), (), (1,))
        lines = raw(lax.gather(buffers, inside[:, None], dimensions, sizes, mode="promise_in_bounds"))
        by = inside - begin
        first, count = _between(lax.ne(by, np.int32(0)))

        def step(trip: Int[Array, ""], lines: UInt[Array, "..."]) -> UInt[Array, "..."]:
            i = first + lax.convert_element_type(trip, np.int32)
            place, distance = (lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, by))
            part = raw(_slice(buffers, place, width))
            part = _slice(_padded(part, width), np.int32(width) - distance, width)
            start = (i, np.int32(0), np.int32(0))
            return lax.dynamic_update_slice(lines, part[None], start, allow_negative_indices=False)

        # Few lines leave a buffer, if any: those that do are moved to where they belong.
        moved: Array = lax.fori_loop(np.int32(0), count, step, slicing.varied(lines, by))
        return lax.transpose(moved, (1, 0, 2))

    return slicing.of_batches(read, 1)


@cache
def _writer(width: int) -> Callable[..., Any]:
    """Buffers [batch, elements] with lines of words [batch, lines * width] written one after the other."""

    def write(
        buffers: Shaped[Array, "batch _"],
        words: Shaped[Array, "batch _"],
        begin: Int32[Array, " lines"],
        inside: Int32[Array, " lines"],
        count: Int32[Array, ""],
        length: Int32[Array, ""],
    ) -> Shaped[Array, "batch _"]:
        column = lax.iota(np.int32, width)

        def step(trip: Int[Array, ""], buffers: Shaped[Array, "batch _"]) -> Shaped[Array, "batch _"]:
            i = lax.convert_element_type(trip, np.int32)
            place, first = (lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, begin))
            by = first - place
            lines = _slice(words, i * np.int32(width), width)
            # A line that leaves its buffer is a slice that begins beside it.
            lines = _slice(_padded(lines, width), np.int32(width) - by, width)
            number = column - by
            mask = (number >= np.int32(0)) & (number < length) & (i < count)
            mask = jnp.broadcast_to(mask, lines.shape)
            new = lax.select(mask, lines, _slice(buffers, place, width))
            start = (np.int32(0), place)
            return lax.dynamic_update_slice(buffers, new, start, allow_negative_indices=False)

        carried = slicing.varied(buffers, words, begin, count, length)
        written: Array = slicing.repeated(np.int32(begin.shape[0]), step, carried)
        return written

    return slicing.of_batches(write, 2)


def _slice(lines: Shaped[Array, "batch _"], start: Int32[Array, ""], width: int) -> Shaped[Array, "batch _"]:
    """``width`` elements of each line from the same place on."""
    return lax.dynamic_slice(
        lines, (np.int32(0), start), (lines.shape[0], width), allow_negative_indices=False
    )


def _padded(lines: Shaped[Array, "batch _"], width: int) -> Shaped[Array, "batch _"]:
    """Lines with ``width`` zeros before and after them."""
    return lax.pad(lines, lines.dtype.type(0), ((0, 0, 0), (width, width, 0)))


def _between(mask: Bool[Array, " lines"]) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The first of the chosen lines, and how many lines there are from it to the last one; 0 without any."""
    number, none = lax.iota(np.int32, mask.shape[0]), np.int32(mask.shape[0])
    first = jnp.min(number, where=mask, initial=none)
    last = jnp.max(number, where=mask, initial=np.int32(-1))
    return first, lax.max(last - first + np.int32(1), np.int32(0))


def _least(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return jnp.minimum(wide(a), wide(b))
