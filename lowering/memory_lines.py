"""Windows of lines: the elements of a line are next to one another, where it begins only execution knows.

Rows at a run-time distance are read and written line by line, as slices. Lines that overlap are written in
their order, so that the last one stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar

from . import memory_layouts, slicing
from .machine.addresses import limited, wide
from .words import from_words, raw

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Int64, Shaped, UInt

    from .arrays import Elements, Flat, Words


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
        found = _reader(width)(buffer[None], *self._places(buffer.shape[0], width))[0]
        found = lax.select(self._mask(found.shape), found, jnp.zeros_like(found))
        return found if self.by_row else found.T

    def _mask(self, shape: tuple[int, ...]) -> Bool[Array, "lines width"]:
        """Which elements of lines are in the window."""
        parts = [
            lax.broadcasted_iota(np.int32, side, axis) < limited(limit, shape[axis])
            for axis, (side, limit) in enumerate((((shape[0], 1), self.count), ((1, shape[1]), self.length)))
            if not (isinstance(limit, int) and limit >= shape[axis])
        ]
        found = parts[0] & parts[-1] if parts else np.ones((1, 1), bool)
        return jnp.broadcast_to(found, shape)

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


def lines_of(window: memory_layouts.Window, shape: tuple[int, int], buffer: Elements) -> Lines | None:
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
        found = raw(lax.gather(buffers, inside[:, None], dimensions, sizes, mode="promise_in_bounds"))
        by = inside - begin
        first, count = _between(lax.ne(by, np.int32(0)))

        def step(trip: Int[Array, ""], found: UInt[Array, "..."]) -> UInt[Array, "..."]:
            i = first + lax.convert_element_type(trip, np.int32)
            place, distance = (lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, by))
            part = raw(_slice(buffers, place, width))
            part = _slice(_padded(part, width), np.int32(width) - distance, width)
            start = (i, np.int32(0), np.int32(0))
            return lax.dynamic_update_slice(found, part[None], start, allow_negative_indices=False)

        # Few lines leave a buffer, if any: those that do are moved to where they belong.
        moved: Array = lax.fori_loop(np.int32(0), count, step, slicing.varied(found, by))
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
        # Room on both sides: a line that leaves its buffer is a slice that begins beside it.
        padded, column = _padded(words, width), lax.iota(np.int32, width)

        def step(trip: Int[Array, ""], buffers: Shaped[Array, "batch _"]) -> Shaped[Array, "batch _"]:
            i = lax.convert_element_type(trip, np.int32)
            place, first = (lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, begin))
            by = first - place
            lines = _slice(padded, (i + np.int32(1)) * np.int32(width) - by, width)
            number = column - by
            chosen = (number >= np.int32(0)) & (number < length) & (i < count)
            chosen = jnp.broadcast_to(chosen, lines.shape)
            new = lax.select(chosen, lines, _slice(buffers, place, width))
            start = (np.int32(0), place)
            return lax.dynamic_update_slice(buffers, new, start, allow_negative_indices=False)

        carried = slicing.varied(buffers, words, begin, count, length)
        written: Array = lax.fori_loop(np.int32(0), np.int32(begin.shape[0]), step, carried)
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


def _between(chosen: Bool[Array, " lines"]) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The first of the chosen lines, and how many lines there are from it to the last one; 0 without any."""
    number, none = lax.iota(np.int32, chosen.shape[0]), np.int32(chosen.shape[0])
    first = jnp.min(number, where=chosen, initial=none)
    last = jnp.max(number, where=chosen, initial=np.int32(-1))
    return first, lax.max(last - first + np.int32(1), np.int32(0))


def _least(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return jnp.minimum(wide(a), wide(b))
