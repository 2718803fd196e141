"""Static windows of global memory whose dimensions nest without overlap: slices and reshapes of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax

from .slicing import slice_at, with_slice

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Shaped

    from .arrays import Elements, Lanes, Size

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
        found = self.rectangle(buffer.shape[0])
        if found is None:
            return self.read(buffer[self.begin : self.end])
        first, extents, pitch = found
        part = slice_at(buffer.reshape(-1, pitch), first, extents)
        return part.transpose(self.back).reshape(self.rows, self.cols)

    def put(self, buffer: Elements, words: Lanes, independent: bool) -> Elements:
        """A buffer that the block is inside of, with [rows, cols] written.

        ``independent`` as in :func:`slicing.with_slice`.
        """
        found = self.rectangle(buffer.shape[0])
        if found is not None and not self.is_dense:
            first, extents, pitch = found
            lines = buffer.reshape(-1, pitch)
            return with_slice(lines, self._ordered(words).reshape(extents), first, independent).reshape(-1)
        old = None if self.is_dense else buffer[self.begin : self.end]
        flat = self.written(words, old)
        if flat.shape == buffer.shape:
            return flat
        return with_slice(buffer, flat, (self.begin,), independent)

    def put_before(
        self, limits: Sequence[Size], buffer: Elements, words: Lanes, independent: bool
    ) -> Elements:
        """:meth:`put` of the rows and columns before ``limits``, which are at most those of the block."""
        found = self.rectangle(buffer.shape[0])
        by_axis = tuple(self.runs[i][0] for i in self.back) == (self.rows, self.cols)
        if found is None or not by_axis or buffer.shape[0] > MOST_AROUND * self.span:
            row, col = (lax.broadcasted_iota(np.int32, words.shape, axis) for axis in (0, 1))
            inside = (row < limits[0]) & (col < limits[1])
            return self.put(buffer, jnp.where(inside, words, self.taken(buffer)), independent)
        # A choice over all of the buffer is a vector loop, one that reads and writes the same buffer is none.
        first, extents, pitch = found
        lines = buffer.reshape(-1, pitch)
        limits = limits if self.back == (0, 1) else limits[::-1]
        places = [lax.broadcasted_iota(np.int32, lines.shape, axis) for axis in (0, 1)]
        begins = [np.int32(n) for n in first]
        parts = [(p >= b) & (p < b + n) for p, b, n in zip(places, begins, limits, strict=True)]
        around = [(n, m - n - k) for n, m, k in zip(first, lines.shape, extents, strict=True)]
        new = jnp.pad(self._ordered(words).reshape(extents), around)
        return lax.select(parts[0] & parts[1], new, lines).reshape(-1)

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
