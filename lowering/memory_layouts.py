"""Where the elements of a global-memory view lie.

A layout says which dimensions of a view run along the rows of a tile and which along its columns; the
strides of the view say where they are in memory. A static view whose dimensions nest without overlap is
a :class:`Block`, read and written with slices and reshapes; of every other view the lanes' addresses are
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Scalar, View
from pto_jax.ir import GlobalLayout

from . import masks, region, slicing
from .machine import slices, storage
from .machine.addresses import begin, distance, limited, product, wide
from .memory_blocks import Block, Run
from .rules import Context, GlobalMemory, Inputs, memory_rule
from .words import elements_at

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64

    from .arrays import Elements, Lanes, Mask, Words
    from .machine.ranges import Range
    from .slicing import Start

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
        numbers = np.indices(shape, dtype=np.int64, sparse=True)
        where = begin(self.offset, self.strides)
        for axes, number in zip(self.axes, numbers, strict=True):
            # What the slowest dimension is asked for beyond its extent is beyond the window.
            for axis in reversed(axes):
                extent = positive(self.shape[axis])
                if not (isinstance(extent, int) and extent == 1):
                    index = number if axis == axes[0] else number % wide(extent)
                    where = where + distance(index, self.strides[axis])
                    number = number // wide(extent)
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
            count = jnp.minimum(jnp.asarray(size, np.int64), wide(extent))
            far = distance(count - np.int64(1), self.strides[moving[0]]) if moving else np.int64(0)
            first, last = first + jnp.minimum(far, 0), last + jnp.maximum(far, 0)
            some = some & (count > np.int64(0))
        return jnp.asarray(first, np.int64), jnp.where(some, last, first - np.int64(1))

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
        known = {axis: n for group in sizes for axis, n in group}
        extents = tuple(known[axis] for axis in sorted(known))
        if not all(isinstance(n, int) for n in (*extents, *self.strides)):
            return None
        kept = tuple(s if axis in known else 0 for axis, s in enumerate(self.strides))
        filled = tuple(known.get(axis, 1) for axis in range(len(self.shape)))
        return _meets(Window(0, filled, kept, self.axes), shape)

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
        found = [(axis, self.shape[axis]) for axis in axes]
        first = next((i for i, (_, n) in enumerate(found) if not (isinstance(n, int) and n == 1)), None)
        if first is not None and not isinstance(found[first][1], int):
            found[first] = (found[first][0], lanes)
        return found

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
        known = isinstance(window.offset, int) and block.within(buffer)
        words = block.taken(buffer) if known else block.read(slices.read(buffer, window.offset, block.span))
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
        block, found = self.block, self._lines(buffer.shape[0])
        if found is None:
            at = lax.convert_element_type(offset, np.int32)
            return block.read(slicing.slice_at(buffer, (at,), (block.span,)))
        pitch, extents = found
        part = slicing.slice_at(buffer.reshape(-1, pitch), self._place(offset, pitch), extents)
        return part.transpose(block.back).reshape(block.rows, block.cols)

    def put(self, buffer: Elements, words: Lanes, offset: Scalar, independent: bool) -> Elements | None:
        """The buffer with [rows, cols] written; None where what is in gaps would be written as well.

        ``independent`` as in :func:`slicing.with_slice`.
        """
        block, found = self.block, self._lines(buffer.shape[0])
        if found is None:
            at = lax.convert_element_type(offset, np.int32)
            if not block.is_dense:
                return None
            return slicing.with_slice(buffer, block.written(words), (at,), independent)
        pitch, extents = found
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
    t, dst, view, buffer = c.tile("dst"), masks.lanes(inputs, "dst"), memory.view, memory.buffer
    line = Window.of(View(view.buffer, view.dtype, view.offset, (t.elements,), (1,)))
    found = fetch(buffer, line, (1, t.elements))[0]
    where = within(line.addresses((1, t.elements)), buffer)[0]
    written, inside = where < np.int32(buffer.shape[0]), region.mask(t, dst)
    if inside is not None:
        written &= inside.reshape(-1)
    return storage.to_logical(jnp.where(written, found, storage.to_physical(dst.words, t)), t)
