"""One kernel over any number of tiles, chunk by chunk on all local devices, with bounded memory.

The tiles come from arrays, memory maps, or an iterator.
"""

from __future__ import annotations

import itertools
import math
import mmap
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import jax
import numpy as np
from jax import Array

from ..analysis.entries import Argument, GlobalTypes
from ..errors import ArgumentError, ExecutionError, is_number
from ..ir import ScalarType, TileType
from ..lowering.bits import x64
from . import array_files, conversion, state, tiles
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


def batch_of(value: Any, names: Sequence[str]) -> Batch:
    """A batch: a mapping by name, a tuple by position, an array or Tile of one argument, or single calls.

    ``names`` are those of the arguments. ArgumentError where it is none.
    """
    if isinstance(value, Mapping | tuple) or _is_array(value):
        return Arrays.of(_named(value, names, "batch"))
    if isinstance(value, Iterable):
        return Calls.of(value, names)
    raise ArgumentError(
        f"batch: got {type(value).__name__}",
        allowed=(
            "a dictionary or a tuple of arrays, an array, or an iterator over the arguments of single calls"
        ),
    )


def _is_array(x: Any) -> bool:
    return isinstance(x, Tile) or (hasattr(x, "shape") and hasattr(x, "dtype")) or hasattr(x, "__dlpack__")


def _named(value: Any, names: Sequence[str], what: str) -> Chunk:
    """Arguments by name; ArgumentError for a name or a number of them that the kernel does not have."""
    if not isinstance(value, Mapping):
        arrays = value if isinstance(value, tuple) else (value,)
        if len(arrays) > len(names):
            raise ArgumentError(f"{what}: got {len(arrays)} arrays", allowed=f"{', '.join(names) or 'none'}")
        value = dict(zip(names, arrays, strict=False))
    unknown = [n for n in value if n not in names and n.removesuffix(REGION) not in names]
    if unknown:
        raise ArgumentError(f"{what}: no argument is called {unknown[0]!r}", allowed=", ".join(names))
    return dict(value)


# -- arrays --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrays:
    """Arrays with a leading axis, read slice by slice; ``count`` is its extent."""

    values: Chunk
    count: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Arrays:
        """The batch of arrays; ArgumentError where their leading axes differ or one has none."""
        arrays = {n: v if _is_lazy(v) else _apart(v, n) for n, v in values.items()}
        extents: dict[str, int] = {}
        for name, value in arrays.items():
            if not getattr(value, "shape", ()):
                raise ArgumentError(
                    f"batch: {name!r} has no leading axis",
                    fix="pass an array that all calls share in shared=",
                )
            extents[name] = int(value.shape[0])
        if not arrays:
            raise ArgumentError("batch: got no arrays", allowed="at least one")
        first = next(iter(extents))
        other = next((n for n in extents if extents[n] != extents[first]), None)
        if other is not None:
            raise ArgumentError(
                f"batch: {first!r} has {extents[first]} entries, {other!r} {extents[other]}",
                allowed="equally many",
                fix="pass an array that all calls share in shared=",
            )
        return cls(arrays, extents[first])

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


def _apart(x: Any, what: str) -> Any:
    """An array or a Tile; arrays whose type names a mesh, which a single device has none of, as NumPy's."""

    def plain(leaf: Any) -> Any:
        meshed = isinstance(leaf, Array) and not jax.typeof(leaf).sharding.mesh.empty
        return np.asarray(leaf) if meshed else leaf

    return jax.tree.map(plain, x if isinstance(x, Tile) else received(x, what))


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
    """The arguments of one call by name, as arrays of NumPy: copies, as the next may reuse the memory."""
    chunk = _named(item, names, what)
    return {
        n: jax.tree.map(np.array, v) if isinstance(v, Tile) else np.array(received(v, f"{what}: {n}"))
        for n, v in chunk.items()
    }


def _difference(first: Chunk, item: Chunk) -> str | None:
    """What tells the arguments of a call from those of the first one; None where they can be stacked."""
    if first.keys() != item.keys():
        return f"got {', '.join(item) or 'nothing'}, item 0 has {', '.join(first)}"
    for name, value in item.items():
        one, other = ((v.shape, v.dtype) for v in (first[name], value))
        if one != other or isinstance(value, Tile) != isinstance(first[name], Tile):
            return f"{name} is {other[1]}{list(other[0])}, that of item 0 {one[1]}{list(one[0])}"
    return None


#: Bytes of arguments and results that the calls of a chunk have: they stay in the caches of a CPU.
CACHED = 1 << 23
#: The same for other devices, which want work for all their lanes.
RESIDENT = 1 << 27
#: Chunks under way per device.
DEPTH = 2


class Mapped(Hashable, Protocol):
    """A kernel as far as its calls go."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it takes, in order."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its results."""

    def reported(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], state.Report]:
        """Results of one call, and the run-time rules that it broke."""


def stream(
    kernel: Mapped,
    given: Any,
    shared: Mapping[str, Any],
    chunk: int | None,
    progress: bool | Callable[[int, int | None], object],
    out: Any,
) -> dict[str, Any]:
    """The results of a kernel for every entry of a batch; see :meth:`pto_jax.Kernel.map`."""
    names = [a.name for a in kernel.arguments]
    unknown = [n for n in shared if n not in names]
    if unknown:
        raise ArgumentError(f"shared: no argument is called {unknown[0]!r}", allowed=", ".join(names))
    if chunk is not None and not is_number(chunk, 1):
        raise ArgumentError(f"chunk: got {chunk!r}", allowed="a positive number")
    batch = batch_of(given, [n for n in names if n not in shared])
    first = batch.first
    if first is None:
        raise ArgumentError("batch: got no entries", allowed="at least one")
    sink = Sink(batch.count, _outputs(kernel, out))
    common = _shared(kernel, shared) | _blank(kernel, {*first, *shared}, sink.out or {})
    size = chunk or _chunk(first, batch.count)
    # Chunks go to one device each, whatever the mesh of the context.
    alone: Any = jax.set_mesh(jax.sharding.Mesh(np.empty((), object), ()))
    with x64(), alone:
        _run(_mapped(kernel), batch, common, size, sink, _progress(progress, batch.count))
    return sink.results()


def _shared(kernel: Mapped, values: Mapping[str, Any]) -> dict[str, Any]:
    """What all calls have in common; Python numbers in the types that the program declares."""
    types = {a.name: a.type for a in kernel.arguments}
    arrays = {}
    for name, value in values.items():
        t, what = types[name], f"shared: {name!r}"
        if isinstance(t, ScalarType):
            arrays[name] = conversion.as_scalar(value, t.dtype, what)
        else:
            arrays[name] = _apart(value, what)
    return arrays


def _outputs(kernel: Mapped, out: Any) -> dict[str, Any] | None:
    """Arrays that take the results, by name."""
    if out is None:
        return None
    arrays = dict(out) if isinstance(out, Mapping) else dict(zip(kernel.outputs, (out,), strict=False))
    wrong = next((n for n in arrays if n not in kernel.outputs), None)
    if wrong is not None or len(arrays) < len(kernel.outputs):
        got = f"{wrong!r}" if wrong is not None else ", ".join(arrays) or "nothing"
        names = ", ".join(kernel.outputs)
        raise ArgumentError(f"out: got {got}", allowed=f"an array for each result: {names}")
    return arrays


def _blank(kernel: Mapped, names: Iterable[str], out: Mapping[str, Any]) -> dict[str, Any]:
    """Zeros for buffers that the kernel writes and the call does not give."""
    blank = {}
    for a in kernel.arguments:
        if a.name in names or not a.written or not isinstance(a.type, GlobalTypes):
            continue
        if a.name not in out and a.min_elements is None:
            raise ArgumentError(
                f"batch: missing argument {a.name!r}, whose size the program leaves open",
                fix="give it in the batch, or its results' array in out=",
            )
        if a.name in out:
            shape = tuple(out[a.name].shape[1:])
        else:
            shape = ((a.min_elements or 0) // (2 if a.type.dtype.packed else 1),)
        blank[a.name] = np.zeros(shape, a.type.dtype.numpy)
    return blank


def _chunk(first: Chunk, count: int | None) -> int:
    """How many calls a chunk has, by the bytes that each takes and gives."""
    bytes_each = 2 * sum(leaf.nbytes for leaf in jax.tree.leaves(first))
    room = CACHED if jax.default_backend() == "cpu" else RESIDENT
    size = 1 << max(0, int(math.log2(max(1, room // max(1, bytes_each)))))
    return size if count is None else max(1, min(size, -(-count // len(jax.local_devices()))))


def _run(
    run: Callable[..., Any],
    batch: Batch,
    common: dict[str, Any],
    size: int,
    sink: Sink,
    progress: Callable[[int], object],
) -> None:
    devices = jax.local_devices()
    shared = [jax.device_put(common, d) for d in devices]
    pending: deque[tuple[int, int, Any]] = deque()

    def collect() -> None:
        start, count, (results, report) = pending.popleft()
        report = jax.tree.map(lambda x: np.asarray(x)[:count], report)
        problems = report.problems(start)
        if problems:
            raise ExecutionError(problems)
        sink.put(start, jax.tree.map(lambda x: np.asarray(x)[:count], results))
        batch.release()
        progress(start + count)

    start = 0
    for i, values in enumerate(batch.chunks(size)):
        count = len(jax.tree.leaves(values)[0])
        at = i % len(devices)
        filled = jax.tree.map(lambda x: _filled(x, size), values)
        pending.append((start, count, run(jax.device_put(filled, devices[at]), shared[at])))
        start += count
        if len(pending) >= DEPTH * len(devices):
            collect()
    while pending:
        collect()


def _filled(array: Any, size: int) -> Any:
    """``size`` entries: the last one repeated, so that a short last chunk needs no program of its own."""
    missing = size - len(array)
    return array if not missing else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])


@lru_cache(maxsize=256)
def _mapped(kernel: Mapped) -> Callable[..., Any]:
    """A chunk and what its calls share to the results and the report of them all."""
    types = {a.name: a.type for a in kernel.arguments}

    def one(chunk: Chunk, shared: Chunk) -> tuple[dict[str, Any], state.Report]:
        values = {**shared, **{n: v for n, v in chunk.items() if n in types}}
        for name, region in chunk.items():
            if name not in types:
                tiled = name.removesuffix(array_files.REGION)
                t = types[tiled]
                static = t.with_valid(None, None) if isinstance(t, TileType) else None
                values[tiled] = tiles.tile(values[tiled], (region[0], region[1]), type=static)
        return kernel.reported(values)

    return jax.jit(jax.vmap(one, in_axes=(0, None)))


# -- results -------------------------------------------------------------------------------------------


@dataclass
class Sink:
    """Where results go: into arrays that were given, else into new ones."""

    count: int | None
    out: dict[str, Any] | None
    parts: list[Any] = field(default_factory=list)
    whole: Any = None
    done: int = 0

    def put(self, start: int, results: dict[str, Any]) -> None:
        """Keep the results of the calls from ``start`` on."""
        self.done = start + len(jax.tree.leaves(results)[0])
        if self.out is not None:
            for name, target in self.out.items():
                _write(name, target, start, self.count, np.asarray(results[name]))
        elif (count := self.count) is None:
            self.parts.append(results)
        else:
            if self.whole is None:
                self.whole = jax.tree.map(lambda x: np.empty((count, *x.shape[1:]), x.dtype), results)
            jax.tree.map(lambda w, x: w.__setitem__(slice(start, start + len(x)), x), self.whole, results)

    def results(self) -> dict[str, Any]:
        """All results by name: arrays of NumPy, or tiles of a fragment; the arrays that were given."""
        if self.out is not None:
            return self.out
        whole = self.whole
        if whole is None:
            whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *self.parts)
        return dict(whole)


def _write(name: str, target: Any, start: int, count: int | None, result: Any) -> None:
    stop = start + len(result)
    size = len(target) if count is None else count
    if tuple(target.shape) != (size, *result.shape[1:]) or stop > size or target.dtype != result.dtype:
        need = f"{result.dtype}{[stop if count is None else size, *result.shape[1:]]}"
        raise ArgumentError(f"out: {name!r}: got {target.dtype}{list(target.shape)}", allowed=f"{need}")
    target[start:stop] = result
    release(target)


def _progress(
    progress: bool | Callable[[int, int | None], object], total: int | None
) -> Callable[[int], object]:
    """What is told how many calls are done: nothing, a function of the user's, a line on standard error."""
    if callable(progress):
        return lambda done: progress(done, total)
    began, last = time.perf_counter(), 0.0

    def show(done: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last < 0.2 and done != total:
            return
        last, rate = now, done / max(now - began, 1e-9)
        of = f" of {total}, {(total - done) / rate:.0f} s left" if total is not None else ""
        end = "\n" if done == total else ""
        print(f"\r{done}{of}, {rate:,.0f}/s   ", end=end, file=sys.stderr, flush=True)

    return show if progress else lambda done: None
