"""Indexed transfers, one element after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from ..interpreter import View
from ..ir import Coalesce, GatherOob, GlobalLayout, ScatterAtomicOp, ScatterOob
from ..isa.rules.memory_indexed import coalescing
from . import arithmetic, storage
from .numbers import Array, decode
from .step import Lane, Step, rule

#: What a table of any rank counts as.
_RANK = 5


@dataclass(frozen=True)
class _Table:
    """A table in global memory, as the indices of one instruction address it."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    by_row: bool
    fractal: bool
    simulator: bool

    @property
    def capacity(self) -> int:
        """How many indices name something."""
        if not self.by_row:
            return prod(self.shape)
        if self.fractal:
            return self.shape[2] * self.shape[3]
        return self.shape[3] if self.simulator else prod(self.shape[:4])

    def position(self, n: int, column: int) -> int:
        """Element of the buffer that an index and the column of a lane name."""
        d, s = self.shape, self.strides
        if self.fractal:
            width = d[0] * d[1] * d[4]
            r, c = (n, column) if self.by_row else divmod(n, width)
            q = c // d[4]
            at = (q // d[1], q % d[1], r // d[3], r % d[3], c % d[4])
            return self.offset + sum(i * k for i, k in zip(at, s, strict=True))
        if self.by_row:
            return self.offset + n * s[3] + column * s[4]
        return self.offset + n


def table_of(step: Step, name: str, by_row: bool) -> _Table:
    """The view of an operand as a table, brought to rank 5."""
    view: View = step.view(name)
    missing = _RANK - len(view.shape)
    return _Table(
        int(view.offset),
        (1,) * missing + tuple(map(int, view.shape)),
        (0,) * missing + tuple(map(int, view.strides)),
        by_row,
        step.policy.profile.name == "a2a3" and view.layout == GlobalLayout.NZ,
        step.policy.simulator,
    )


_Lanes: TypeAlias = Iterator[tuple[int, int, int]]


def named_lanes(step: Step, data: str, by_row: bool) -> _Lanes:
    """Row, column and index of every valid lane of the data tile, in row order."""
    rows, cols = step.valid(data)
    if by_row:
        numbers = _numbers(step, *index_places(step, rows))
        yield from ((i, j, numbers[i]) for i in range(rows) for j in range(cols))
        return
    numbers = _numbers(step, *np.indices((rows, cols)).reshape(2, -1))
    yield from ((i, j, numbers[i * cols + j]) for i in range(rows) for j in range(cols))


def index_places(step: Step, count: int) -> tuple[Array, Array]:
    """Row and column of the first elements of the index tile's storage; beyond the tile where it is short."""
    t = step.type("indexes")
    places = {int(at): place for place, at in np.ndenumerate(storage.map_of(t))}
    found = [places.get(i, (t.rows, t.cols)) for i in range(count)]
    rows, cols = np.array(found, np.int64).reshape(-1, 2).T
    return rows, cols


def _numbers(step: Step, rows: Array, cols: Array) -> list[int]:
    """Elements of the index tile as unsigned numbers."""
    width = 64 if step.policy.simulator else 32
    signed = decode(step.gather("indexes", rows, cols), step.dtype("indexes"))
    return [int(n) & ((1 << width) - 1) for n in signed]


def resolved(step: Step, n: int, capacity: int) -> int | None:
    """The index that counts, or None where nothing is transferred."""
    mode = step.attrs["gatherOob" if step.is_tile("dst") else "scatterOob"]
    assert isinstance(mode, GatherOob | ScatterOob)
    if capacity == 0:
        return None
    if n < capacity or mode.name == "UNDEFINED":
        return n
    return {"CLAMP": capacity - 1, "WRAP": n % capacity}.get(mode.name)


def is_by_row(step: Step, data: str) -> bool:
    """Whether an index names a row of the table and not an element."""
    profile = step.policy.profile.name
    picked = coalescing(step.attrs, profile, step.type("indexes"), step.type(data))
    return picked == Coalesce.ROW


@rule("mgather")
def _mgather(step: Step) -> None:
    by_row, view = is_by_row(step, "dst"), step.view("src")
    table, elements = table_of(step, "src", by_row), _elements(step, view)
    found = np.zeros(step.region, elements.dtype)
    for i, j, n in named_lanes(step, "dst", by_row):
        k = resolved(step, n, table.capacity)
        at = -1 if k is None else table.position(k, j)
        if 0 <= at < len(elements):
            found[i, j] = elements[at]
    step.put(found)


def _elements(step: Step, view: View) -> Array:
    """Every element of the buffer a view lies in, as words."""
    memory = step.memory(view.buffer)
    count = len(memory) * 8 // view.dtype.storage_bits
    return storage.read_words(memory, np.arange(count), view.dtype)


_COMBINE: dict[object, Lane] = {
    ScatterAtomicOp.ADD: arithmetic.add,
    ScatterAtomicOp.MAX: arithmetic.larger,
    ScatterAtomicOp.MIN: arithmetic.smaller,
}


@rule("mscatter")
def _mscatter(step: Step) -> None:
    by_row, view = is_by_row(step, "src"), step.view("dst")
    table, elements = table_of(step, "dst", by_row), _elements(step, view)
    words, atomic = step.raw("src", step.valid("src")), step.attrs["scatterAtomicOp"]
    combine, row_number = _combiner(step, atomic), combines_at_row(step, by_row)
    for i, j, n in named_lanes(step, "src", by_row):
        k = resolved(step, n, table.capacity)
        at = -1 if k is None else table.position(k, j)
        if k is None or not 0 <= at < len(elements):
            continue
        read = table.offset + k if row_number else at
        old = elements[read : read + 1] if read < len(elements) else np.zeros(1, elements.dtype)
        elements[at] = combine(old, words[i : i + 1, j])[0]
    storage.write_words(step.memory(view.buffer), np.arange(len(elements)), elements, view.dtype)


def combines_at_row(step: Step, by_row: bool) -> bool:
    """Whether the old element is that of the row's number: so the simulator's row form of max and min."""
    limits = (ScatterAtomicOp.MAX, ScatterAtomicOp.MIN)
    return by_row and step.policy.simulator and step.attrs["scatterAtomicOp"] in limits


def _combiner(step: Step, atomic: object) -> Callable[[Array, Array], Array]:
    """What becomes of a table's word and a stored one."""
    lane, d = _COMBINE.get(atomic), step.dtype("src")
    if lane is None:
        return lambda old, new: new
    return lambda old, new: step.flushed(lane(d, step.flushed(old, "src"), step.flushed(new, "src")), "src")
