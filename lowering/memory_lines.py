"""Windows of lines: the elements of a line are next to one another, where it begins only execution knows.

Rows at a run-time distance are read and written line by line, as slices. Lines that overlap are written in
their order, so that the last one stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar

from .machine import slices
from .machine.addresses import wide
from .memory_layouts import Window
from .words import raw

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Int64

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
        begin, inside = self._places(buffer.shape[0], width)

        def step(trip: Int[Array, ""], found: Words) -> Words:
            i = lax.convert_element_type(trip, np.int32)
            place, first = (lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, begin))
            line = raw(lax.dynamic_slice(buffer, (place,), (width,), allow_negative_indices=False))
            line = slices.moved(place - first, line)[0]
            return lax.dynamic_update_slice(found, line[None], (i, np.int32(0)), allow_negative_indices=False)

        # Derived from the buffer: shard_map tracks over which axes a loop carry varies.
        some = raw(buffer[:width])
        blank = jnp.broadcast_to(lax.bitwise_and(some, some.dtype.type(0)), (len(inside), width))
        found: Array = lax.fori_loop(np.int32(0), np.int32(len(inside)), step, blank)
        found = lax.select(self._mask(found.shape), found, jnp.zeros_like(found))
        return found if self.by_row else found.T

    def _mask(self, shape: tuple[int, ...]) -> Bool[Array, "lines width"]:
        """Which elements of lines are in the window."""
        parts = [
            lax.broadcasted_iota(np.int32, side, axis) < wide(limit)
            for axis, (side, limit) in enumerate((((shape[0], 1), self.count), ((1, shape[1]), self.length)))
            if not (isinstance(limit, int) and limit >= shape[axis])
        ]
        found = parts[0] & parts[-1] if parts else np.ones((1, 1), bool)
        return jnp.broadcast_to(found, shape)

    def limited(self, rows: Scalar, cols: Scalar) -> Lines:
        """The lines of a window that ends at the latest after some rows and columns of the tile."""
        count, length = (rows, cols) if self.by_row else (cols, rows)
        return replace(self, count=_least(self.count, count), length=_least(self.length, length))

    def write(self, buffer: Flat, words: Words) -> Flat:
        """The buffer with a tile's elements written; nothing beyond the window and the buffer."""
        words = words if self.by_row else words.T
        lines, width = words.shape
        begin, inside = self._places(buffer.shape[0], width)
        inner = self._mask((lines, width))

        def step(trip: Int[Array, ""], buffer: Flat) -> Flat:
            i = lax.convert_element_type(trip, np.int32)
            place, first, line, chosen = (
                lax.dynamic_index_in_dim(x, i, 0, False) for x in (inside, begin, words, inner)
            )
            line, chosen = slices.moved(first - place, line, chosen)
            old = lax.dynamic_slice(buffer, (place,), (width,), allow_negative_indices=False)
            new = lax.select(chosen, line, old)
            return lax.dynamic_update_slice(buffer, new, (place,), allow_negative_indices=False)

        found: Array = lax.fori_loop(np.int32(0), np.int32(lines), step, buffer)
        return found

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


def _least(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return jnp.minimum(wide(a), wide(b))
