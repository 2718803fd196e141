"""Windows of an array at regular distances, taken and replaced all at once.

The windows of nested loops have an axis for each loop. Where they are far enough apart, an array is cut into
them by its shape alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.interpreter import Scalar

from . import storage

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, Shaped, UInt

    from ..bits import Flat


@dataclass(frozen=True)
class Windows:
    """``size`` elements at ``start + sum(number * distance)``, for all numbers below the ``counts``."""

    start: Scalar
    counts: tuple[int, ...]
    distances: tuple[int, ...]
    size: int

    def taken(self, flat: Flat) -> UInt[Array, "*counts size"]:
        """The windows of an array; zeros beyond its ends."""
        part = storage.read(_padded(flat, self._extent), self._first, self._extent)
        if not self._is_nested:
            return part[self._places]
        words = _cut(part, self._levels, self.size)
        return self._arranged(words)

    def put(
        self, flat: Flat, words: UInt[Array, "*counts size"], active: Bool[Array, "*counts size"] | None
    ) -> Flat:
        """The array with its windows replaced, where they are active; none beyond its ends.

        No two windows meet.
        """
        whole = _padded(flat, self._extent)
        if active is not None:
            words = jnp.where(active, words, self.taken(flat))
        if self._is_nested and self.size * int(np.prod(self.counts)) == self._extent:
            part = self._in_order(words).reshape(-1)
        else:
            old = storage.read(whole, self._first, self._extent)
            if self._is_nested:
                part = _joined(old, self._levels, self._in_order(words))
            else:
                part = old.at[self._places].set(words)
        return storage.write(whole, part, self._first)[: flat.shape[0]]

    @property
    def _first(self) -> Scalar:
        """The first element of all windows."""
        below = sum(min(0, d * (n - 1)) for n, d in zip(self.counts, self.distances, strict=True))
        return self.start + below if isinstance(self.start, int) else self.start + np.int64(below)

    @property
    def _extent(self) -> int:
        return self.size + sum(abs(d) * (n - 1) for n, d in zip(self.counts, self.distances, strict=True))

    @property
    def _axes(self) -> list[int]:
        """The axes along which windows differ, from the largest distance to the smallest."""
        moving = [i for i, (n, d) in enumerate(zip(self.counts, self.distances, strict=True)) if n > 1 and d]
        return sorted(moving, key=lambda i: -abs(self.distances[i]))

    @property
    def _levels(self) -> list[tuple[int, int]]:
        return [(self.counts[i], abs(self.distances[i])) for i in self._axes]

    @property
    def _is_nested(self) -> bool:
        """Whether the windows of each axis lie between two of the axis before it."""
        return all(
            _extent(self._levels[i + 1 :], self.size) <= distance
            for i, (_, distance) in enumerate(self._levels)
        )

    @property
    def _places(self) -> Int64[np.ndarray, "*counts size"]:
        """Where the elements are, counted from the first one."""
        positions: Int64[np.ndarray, "..."] = np.zeros((), np.int64)
        for n, d in zip(self.counts, self.distances, strict=True):
            positions = positions[..., None] + np.arange(n) * d
        places: Int64[np.ndarray, "..."] = positions[..., None] - positions.min() + np.arange(self.size)
        return places

    def _arranged(self, words: Shaped[Array, "..."]) -> Shaped[Array, "*counts size"]:
        """Windows in the order of their axes, with those along which they do not differ."""
        axes, rank = self._axes, len(self.counts)
        words = jnp.transpose(words, (*(axes.index(i) for i in sorted(axes)), len(axes)))
        words = jnp.expand_dims(words, tuple(i for i in range(rank) if i not in axes))
        words = jnp.flip(words, self._falling)
        return jnp.broadcast_to(words, (*self.counts, self.size))

    def _in_order(self, words: Shaped[Array, "*counts size"]) -> Shaped[Array, "..."]:
        """Windows from the largest distance to the smallest; the inverse of :meth:`_arranged`."""
        axes, rank = self._axes, len(self.counts)
        words = jnp.flip(words, self._falling)
        words = words[tuple(slice(None) if i in axes else 0 for i in range(rank))]
        return jnp.transpose(words, (*(sorted(axes).index(i) for i in axes), len(axes)))

    @property
    def _falling(self) -> tuple[int, ...]:
        return tuple(i for i in self._axes if self.distances[i] < 0)


def _extent(levels: Sequence[tuple[int, int]], size: int) -> int:
    return size + sum(distance * (count - 1) for count, distance in levels)


def _padded(x: Shaped[Array, "... n"], count: int) -> Shaped[Array, "... m"]:
    missing = count - x.shape[-1]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing > 0 else x


def _rows(
    part: Shaped[Array, "... extent"], count: int, distance: int
) -> Shaped[Array, "... count distance"]:
    return _padded(part, count * distance).reshape(*part.shape[:-1], count, distance)


def _cut(part: Array, levels: Sequence[tuple[int, int]], size: int) -> Array:
    """The windows of an array that ends with the last one, from the largest distance to the smallest."""
    if not levels:
        return part
    (count, distance), rest = levels[0], levels[1:]
    return _cut(_rows(part, count, distance)[..., : _extent(rest, size)], rest, size)


def _joined(part: Array, levels: Sequence[tuple[int, int]], words: Array) -> Array:
    """The array with its windows replaced; the inverse of :func:`_cut`."""
    if not levels:
        return words
    (count, distance), rest = levels[0], levels[1:]
    inner = _extent(rest, words.shape[-1])
    rows = _rows(part, count, distance)
    new = jnp.concatenate([_joined(rows[..., :inner], rest, words), rows[..., inner:]], axis=-1)
    return new.reshape(*part.shape[:-1], count * distance)[..., : part.shape[-1]]
