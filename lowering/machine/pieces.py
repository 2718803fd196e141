"""Buffers as runs of elements of arrays: copies between them cost nothing until somebody looks.

A copy of a run of elements to another buffer is noted. Where all parts of an array end as such runs, XLA sees
one concatenation of slices in place of a chain of updates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import from_numpy

from ..bits import from_words, moved_as
from ..slicing import as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..bits import Flat


@dataclass(frozen=True, eq=False)
class Source:
    """A flat array that runs are taken from; ``words``: its raw words, else numbers of its own type."""

    array: Array
    to_words: Callable[[Array], Flat] | None = None

    def words(self, first: int, count: int) -> Flat:
        """The raw words of a run."""
        run = _run(self.array, first, count)
        return run if self.to_words is None else self.to_words(run)

    def numbers(self, first: int, count: int, dtype: np.dtype[Any]) -> Array:
        """A run as numbers of a type of as many bits."""
        if self.to_words is not None and self.array.dtype == dtype:
            return _run(self.array, first, count)
        return from_words(self.words(first, count), dtype)

    def rows(self, first: int, count: int, size: int, dtype: np.dtype[Any]) -> Array:
        """Some rows of so many elements as numbers of a type of as many bits."""
        table = self.array.reshape(-1, size)
        run = (
            table if (first, count) == (0, table.shape[0]) else lax.slice_in_dim(table, first, first + count)
        )
        if self.to_words is not None and self.array.dtype == dtype:
            return run
        return from_words(run if self.to_words is None else self.to_words(run), dtype)


#: Fewest elements of rows, and most runs that are joined row by row.
MIN_ROW, MAX_JOINED = 64, 16


def row_size(runs: Sequence[Run]) -> int | None:
    """The length of rows of which all runs and their sources consist; None where flat elements are as good.

    XLA:CPU copies whole rows at once, and decides on a flat concatenation element by element.
    """
    if not 1 < len(runs) <= MAX_JOINED:
        return None
    size = math.gcd(*(n for run in runs for n in (run.first, run.count, int(run.source.array.shape[0]))))
    return size if size >= MIN_ROW else None


def _run(array: Array, first: int, count: int) -> Array:
    return array if (first, count) == (0, array.shape[0]) else lax.slice(array, (first,), (first + count,))


@dataclass(frozen=True)
class Run:
    """So many elements of a source from one on."""

    source: Source
    first: int
    count: int

    def part(self, start: int, stop: int) -> Run:
        """The elements from ``start`` to before ``stop`` of the run."""
        return replace(self, first=self.first + start, count=stop - start)


def merged(runs: Sequence[Run]) -> Iterator[Run]:
    """The runs, those that follow one another in their source as one."""
    last: Run | None = None
    for run in runs:
        if last is not None and run.source is last.source and run.first == last.first + last.count:
            last = replace(last, count=last.count + run.count)
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def part(runs: Sequence[Run], start: int, stop: int) -> list[Run]:
    """The runs of the elements from ``start`` to before ``stop``."""
    found, at = [], 0
    for run in runs:
        low, high = max(start - at, 0), min(stop - at, run.count)
        if low < high:
            found.append(run.part(low, high))
        at += run.count
    return found


class Buffers(dict[str, Any]):
    """The flat words of buffers by name, made of their runs where somebody asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, list[Run]] = {}

    def __getitem__(self, name: str) -> Any:
        runs = self.runs.pop(name, None)
        if runs is not None:
            super().__setitem__(
                name, _joined([run.source.words(run.first, run.count) for run in merged(runs)])
            )
        return super().__getitem__(name)

    def __setitem__(self, name: str, words: Any) -> None:
        self.runs.pop(name, None)
        super().__setitem__(name, words)

    def __contains__(self, name: object) -> bool:
        return name in self.runs or super().__contains__(name)

    def settle(self) -> None:
        """Make the words of all buffers."""
        for name in list(self.runs):
            self[name]

    def runs_of(self, name: str) -> list[Run]:
        """The runs of a buffer."""
        if name not in self.runs:
            words = super().__getitem__(name)
            self.runs[name] = [Run(Source(words), 0, int(words.shape[0]))]
        return self.runs[name]

    def size(self, name: str) -> int:
        """The elements of a buffer."""
        return sum(run.count for run in self.runs[name]) if name in self.runs else int(self[name].shape[0])

    def copy_run(self, dst: str, at: int, src: str, first: int, count: int) -> None:
        """Note a copy of so many elements."""
        moved = part(self.runs_of(src), first, first + count)
        old = self.runs_of(dst)
        behind = part(old, at + count, self.size(dst))
        self.runs[dst] = [*merged([*part(old, 0, at), *moved, *behind])]

    def gathered(self, names: Sequence[str], dtype: np.dtype[Any]) -> Array:
        """The elements of some buffers behind one another, as numbers of a type."""
        kind = moved_as(from_numpy(dtype))
        runs = [*merged([run for name in names for run in self.runs_of(name)])]
        size = row_size(runs)
        if size is None:
            return as_array(_joined([run.source.numbers(run.first, run.count, kind) for run in runs]), dtype)
        rows = [run.source.rows(run.first // size, run.count // size, size, kind) for run in runs]
        return as_array(jnp.concatenate(rows).reshape(-1), dtype)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
