"""The tiles of a large batch, chunk by chunk: from arrays, memory maps, or one after another."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from ..errors import ArgumentError
from .array_files import REGION
from .interchange import received
from .tiles import Tile

#: Arguments by name; a value is an array or a Tile, whose leading axis is that of the batch.
Chunk = dict[str, Any]


class Batch(Protocol):
    """The arguments of many calls."""

    @property
    def count(self) -> int | None:
        """The number of calls; None where only their end tells it."""

    @property
    def first(self) -> Chunk | None:
        """The arguments of the first call, with a leading axis of 1; None where there is no call."""

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Arguments of ``size`` calls each, of the last ones fewer."""

    def release(self) -> None:
        """Give the memory of what was read back."""


def batch_of(given: Any, names: Sequence[str]) -> Batch:
    """A batch: a mapping by name, a tuple by position, an array or Tile of one argument, or single calls.

    ``names`` are those of the arguments. ArgumentError where it is none.
    """
    if isinstance(given, Mapping | tuple) or _is_array(given):
        return Arrays.of(_named(given, names, "batch"))
    if isinstance(given, Iterable):
        return Calls.of(given, names)
    raise ArgumentError(
        f"batch: found {type(given).__name__}; allowed: a dictionary or a tuple of arrays, an array, or an "
        "iterator over the arguments of single calls"
    )


def _is_array(x: Any) -> bool:
    return isinstance(x, Tile) or (hasattr(x, "shape") and hasattr(x, "dtype")) or hasattr(x, "__dlpack__")


def _named(given: Any, names: Sequence[str], what: str) -> Chunk:
    """Arguments by name; ArgumentError for a name or a number of them that the kernel does not have."""
    if not isinstance(given, Mapping):
        listed = given if isinstance(given, tuple) else (given,)
        if len(listed) > len(names):
            raise ArgumentError(f"{what}: found {len(listed)} arrays, allowed: {', '.join(names) or 'none'}")
        given = dict(zip(names, listed, strict=False))
    unknown = [n for n in given if n not in names and n.removesuffix(REGION) not in names]
    if unknown:
        raise ArgumentError(f"{what}: no argument is called {unknown[0]!r}; allowed: {', '.join(names)}")
    return dict(given)


# -- arrays --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrays:
    """Arrays with a leading axis, read slice by slice; ``count`` is its extent."""

    values: Chunk
    count: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Arrays:
        """The batch of arrays; ArgumentError where their leading axes differ or one has none."""
        made = {n: v if isinstance(v, Tile) or _is_lazy(v) else received(v, n) for n, v in values.items()}
        extents: dict[str, int] = {}
        for name, value in made.items():
            if not getattr(value, "shape", ()):
                raise ArgumentError(
                    f"batch: {name!r} has no leading axis; usual fix: what all calls share is an entry of "
                    "shared="
                )
            extents[name] = int(value.shape[0])
        if not made:
            raise ArgumentError("batch: found no arrays; allowed: at least one")
        first = next(iter(extents))
        other = next((n for n in extents if extents[n] != extents[first]), None)
        if other is not None:
            raise ArgumentError(
                f"batch: {first!r} has {extents[first]} entries, {other!r} {extents[other]}; allowed: "
                "equally many; usual fix: what all calls share is an entry of shared="
            )
        return cls(made, extents[first])

    @property
    def first(self) -> Chunk | None:
        """The first slice."""
        return next(self.chunks(1), None)

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Slices of the arrays."""
        for start in range(0, self.count, size):
            yield {n: _sliced(v, start, min(start + size, self.count)) for n, v in self.values.items()}

    def release(self) -> None:
        """Take pages of memory maps out of memory."""
        for value in self.values.values():
            release(value)


def _is_lazy(x: Any) -> bool:
    """Whether slices of an object are read when they are asked for: h5py, zarr."""
    module = type(x).__module__.partition(".")[0]
    return hasattr(x, "__getitem__") and hasattr(x, "shape") and module in ("h5py", "zarr")


def _sliced(value: Any, start: int, stop: int) -> Any:
    if isinstance(value, Tile):
        return jax.tree.map(lambda leaf: leaf[start:stop], value)
    return received(value[start:stop], "batch")


def release(array: Any) -> None:
    """Take the pages of a memory map out of this process; its file keeps what was written."""
    if isinstance(array, np.memmap) and array.mode != "c":
        pages = getattr(array, "_mmap", None)
        if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


# -- single calls --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calls:
    """The arguments of one call after another, as an iterator gives them."""

    items: Iterator[Chunk]
    first: Chunk | None
    count: None = None

    @classmethod
    def of(cls, items: Iterable[Any], names: Sequence[str]) -> Calls:
        """The calls whose arguments ``items`` yields: arrays by name, by position in a tuple, or one."""
        read = (_read(item, f"batch: item {i}", names) for i, item in enumerate(items))
        first = next(read, None)
        if first is None:
            return cls(iter(()), None)
        return cls(itertools.chain([first], read), jax.tree.map(lambda x: x[None], first))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Stacked arguments; ArgumentError naming the call whose arguments differ from the first ones."""
        at = 0
        while items := list(itertools.islice(self.items, size)):
            for i, item in enumerate(items):
                problem = _difference(jax.tree.map(lambda x: x[0], self.first), item)
                if problem is not None:
                    raise ArgumentError(f"batch: item {at + i}: {problem}")
            yield jax.tree.map(lambda *leaves: np.stack(leaves), *items)
            at += len(items)

    def release(self) -> None:
        """Nothing is kept."""


def _read(item: Any, what: str, names: Sequence[str]) -> Chunk:
    """The arguments of one call by name, as arrays of NumPy."""
    named = _named(item, names, what)
    return {
        n: jax.tree.map(np.asarray, v) if isinstance(v, Tile) else np.asarray(received(v, f"{what}: {n}"))
        for n, v in named.items()
    }


def _difference(first: Chunk, item: Chunk) -> str | None:
    """What tells the arguments of a call from those of the first one; None where they can be stacked."""
    if first.keys() != item.keys():
        return f"found {', '.join(item) or 'nothing'}, item 0 has {', '.join(first)}"
    for name, value in item.items():
        one, other = ((v.shape, v.dtype) for v in (first[name], value))
        if one != other or isinstance(value, Tile) != isinstance(first[name], Tile):
            return f"{name} is {other[1]}{list(other[0])}, that of item 0 {one[1]}{list(one[0])}"
    return None
