"""How much of a view some windows cover, counted without listing elements.

The edges of the windows cut every dimension of the view into few intervals; the cells between them are
covered as wholes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from .machine import Unseen
from .numbers import Flags, Integers
from .windows import Whole, Windows

#: Cells up to which a view is cut.
MAX_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Coverage:
    """A view and the windows ``low .. high`` of blocks in it, in the coordinates of its cells.

    ``adds`` marks those that add to what is there.
    """

    whole: Whole
    block: Integers
    adds: Flags
    low: Integers
    high: Integers
    widths: tuple[Integers, ...]

    @staticmethod
    def of(whole: Whole, windows: Sequence[Windows]) -> Coverage | None:
        """The windows of a view of more than one element; Unseen where they cut it into too many cells.

        None where elements share memory: coordinates do not follow from addresses.
        """
        order = _slowest_first(whole)
        if order is None:
            return None
        rest = np.concatenate([w.offset for w in windows]) - whole.offset
        sizes = np.concatenate([w.sizes for w in windows])
        starts = []
        for d in order:
            starts.append(rest // whole.strides[d])
            rest = rest % whole.strides[d]
        if rest.any():
            return None
        low, extent = np.stack(starts, -1), [whole.shape[d] for d in order]
        high = np.clip(low + sizes[:, order], 0, extent)
        low = np.clip(low, 0, extent)
        edges = [np.unique(np.concatenate([[0, n], low[:, d], high[:, d]])) for d, n in enumerate(extent)]
        if prod(len(e) for e in edges) > MAX_CELLS:
            raise Unseen
        first, end = (
            np.stack([np.searchsorted(e, x[:, d]) for d, e in enumerate(edges)], -1) for x in (low, high)
        )
        block = np.concatenate([w.block for w in windows])
        adds = np.repeat([w.adds for w in windows], [w.block.size for w in windows])
        return Coverage(whole, block, adds, first, end, tuple(np.diff(e) for e in edges))

    @cached_property
    def weights(self) -> Integers:
        """The number of elements of every cell."""
        total = np.ones((), np.int64)
        for width in self.widths:
            total = total[..., None] * width
        return total

    def by(self, blocks: Flags) -> Flags:
        """The cells that some blocks cover: windows are added up at their corners, then summed."""
        chosen = blocks[self.block]
        low, high = self.low[chosen], self.high[chosen]
        count = np.zeros([len(w) + 1 for w in self.widths], np.int64)
        for corner in itertools.product((False, True), repeat=len(self.widths)):
            at = np.where(corner, high, low)
            np.add.at(count, tuple(at.T), (-1) ** sum(corner))
        for axis in range(count.ndim):
            count = np.cumsum(count, axis)
        inside = count[tuple(slice(0, -1) for _ in self.widths)]
        return inside > 0

    def elements(self, cells: Flags) -> int:
        """The number of elements in some cells."""
        return int(self.weights[cells].sum())


def _slowest_first(whole: Whole) -> list[int] | None:
    """The dimensions with more than one element, outermost in memory first; None where they overlap."""
    order = [d for d, n in enumerate(whole.shape) if n > 1]
    order.sort(key=lambda d: -whole.strides[d])
    for outer, inner in itertools.pairwise(order):
        if whole.strides[outer] < whole.strides[inner] * whole.shape[inner]:
            return None
    return None if any(whole.strides[d] <= 0 for d in order) else order
