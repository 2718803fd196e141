"""The judgement of a launch: the windows that blocks write, and the number of blocks that would write more.

Coverage of a view is counted without a list of elements: the edges of the windows cut every dimension into
few intervals, and each cell between them is covered as a whole or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from ..analysis import addresses, entries
from ..errors import ArgumentError, Diagnostic, PtoError, is_number
from ..interpreter import Operand, View, memref_view, run_block
from ..interpreter.abstract import AbstractMachine
from ..ir import I1, Function, MemRefType, Op, PartitionViewType, Program, ScalarType, TensorViewType, Value
from ..isa.effects import traits_of
from .machine import Blocks, Unseen, Whole, Windows
from .numbers import Flags, Integers, Lanes, settled

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


#: Blocks up to which a launch is judged, and a better one is looked for.
MAX_BLOCKS = 4096
#: Blocks that one launch may have: the block number of the hardware has 16 bits (CANN, kernel launches).
MAX_LAUNCH = 65535
#: Blocks of all launches that are followed together.
MAX_LANES = 1 << 14
#: Launches tried first beyond the one that is judged.
_NEAR = 64


@dataclass(frozen=True, eq=False)
class Facts:
    """Values of arguments, as far as a caller has them.

    Integers by the name of a scalar, extents by the name of a view, functions that give an array of words by
    the name of a buffer.
    """

    scalars: Mapping[str, int] = field(default_factory=dict)
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    buffers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """What is wrong with a launch, if anything is; ``open`` where values of arguments could tell more."""

    problem: Diagnostic | None = None
    open: bool = False


def require_blocks(grid: object) -> None:
    """Raise ArgumentError for what is no number of blocks of a launch.

    >>> require_blocks(4)
    """
    if is_number(grid, 1, MAX_LAUNCH):
        return
    few = not is_number(grid, 1)
    allowed = "a positive number" if few else f"1 to {MAX_LAUNCH}"
    numbers: Sequence[Any] = grid if isinstance(grid, tuple | list) else (grid,)
    whole = [int(str(n)) for n in numbers if str(n).isdecimal()]
    meant = prod(whole) if len(whole) == len(numbers) else 0
    fix = meant if is_number(meant, 1, MAX_LAUNCH) else 1 if few else MAX_LAUNCH
    raise ArgumentError(f"grid: got {grid!r}", allowed=allowed, fix=f"grid={fix}")


def judge(program: Program, entry: str, grid: int, facts: Facts | None = None) -> Judgement:
    """Whether ``grid`` blocks of a function write what they would write with more, or leave their views.

    >>> import pto_jax as pto
    >>> judge(pto.parse("%d = tadd %a, %b : !pto.tile<1x8xf32>"), "main", 1)
    Judgement(problem=None, open=False)
    """
    if program.fragment or grid > MAX_BLOCKS or not asks(program):
        return Judgement()
    facts = facts or Facts()
    if facts.buffers and any(_loads_scalar(op) for op in program.walk()):
        return _judged(program, entry, grid, facts)
    known = tuple(sorted(facts.scalars.items())), tuple(sorted(facts.extents.items()))
    return _remembered(program, entry, grid, program.places, *known)


def _loads_scalar(op: Op) -> bool:
    """Whether an operation makes a scalar of an element of a buffer."""
    traits = traits_of(op)
    return traits.pure and traits.has("read", "global")


@lru_cache(maxsize=1024)
def _remembered(
    program: Program,
    entry: str,
    grid: int,
    places: str,
    scalars: tuple[tuple[str, int], ...],
    extents: tuple[tuple[str, tuple[int, ...]], ...],
) -> Judgement:
    # Equal programs may stand in different places, which the diagnostic names.
    return _judged(program, entry, grid, Facts(dict(scalars), dict(extents)))


@lru_cache(maxsize=4096)
def asks(program: Program) -> bool:
    """Whether a program asks for the number of the block it is."""
    return any(traits_of(op).launch == "block" for op in program.walk())


def _judged(program: Program, entry: str, grid: int, facts: Facts) -> Judgement:
    function = program.function(entry)
    assert function is not None, entry
    launches = _Launches(program, function, facts)
    try:
        return launches.judge(grid)
    except (Unseen, PtoError):
        # Too long to follow, or nothing that can be executed: execution says the latter better.
        return Judgement(open=launches.lacking)


@dataclass(eq=False)
class _Launches:
    """Launches of one function."""

    program: Program
    function: Function
    facts: Facts
    lacking: bool = False

    def judge(self, grid: int) -> Judgement:
        own = self._walk(np.arange(grid), grid)
        leaving = [leaf for leaf in own.leaves if leaf[0] > 0]
        if leaving and len(leaving) == len(own.leaves):
            return Judgement(_too_many(own, grid, min(leaving, key=lambda leaf: leaf[0])))
        counts = any(traits_of(op).launch == "blocks" for op in self.program.walk())
        everyone = np.ones(grid, np.bool_)
        views = [c for c in _covered(own) if not c.by(everyone).all() or (c.adds.any() and not counts)]
        if not views or own.asked is None:
            return Judgement(open=own.lacking)
        better = self._by_count(own, grid) if counts else self._more(own, grid)
        return Judgement(better, own.lacking and better is None)

    def _walk(self, numbers: np.ndarray[Any, Any], count: int | Lanes) -> Blocks:
        """Follow blocks of one or several launches, ``count`` the size of each one's."""
        unchanged = self.facts.buffers.keys() - set(entries.written_buffers(self.program, self.function))
        blocks = Blocks(len(numbers), {name: self.facts.buffers[name] for name in unchanged})
        operands = [self._operand(a) for a in self.function.args]
        try:
            number = settled(numbers.astype(np.int64))
            run_block(self.program, blocks, self.function, operands, number, count)  # type: ignore[arg-type]
        finally:
            self.lacking |= blocks.lacking
        return blocks

    def _operand(self, argument: Value) -> Operand:
        t, facts = argument.type, self.facts
        if isinstance(t, ScalarType) and argument.name in facts.scalars:
            value = addresses.wrapped(facts.scalars[argument.name], t.dtype)
            return bool(value) if t.dtype == I1 else value
        if isinstance(t, TensorViewType | PartitionViewType | MemRefType):
            shape = facts.extents.get(argument.name, t.dims)
            if None not in shape and len(shape) == len(t.dims):
                known = tuple(n or 0 for n in shape)
                if isinstance(t, MemRefType):
                    return memref_view(argument.name, t, known)
                return View(argument.name, t.dtype, 0, known, entries.strides_of(known, None))
        return AbstractMachine().argument(argument)

    def _more(self, own: Blocks, grid: int) -> Diagnostic | None:
        """Evidence where blocks do not ask how many there are: they are the same in every launch."""
        worst: _Gain | None = None
        for limit in (min(grid + _NEAR, MAX_BLOCKS), MAX_BLOCKS):
            try:
                blocks = self._walk(np.arange(limit), limit)
                gains = list(_gains(blocks, grid, _first(blocks.outside, limit)))
            except Unseen:
                if worst is None:
                    raise
                break  # there is evidence, and too much to follow for a better number
            if not gains:
                return None
            worst = max(gains, key=lambda gain: gain.enough)
            if worst.enough < limit or worst.complete:
                return _too_few(own, grid, gains[0], worst.enough)
        return None if worst is None else _too_few(own, grid, worst, None)

    def _by_count(self, own: Blocks, grid: int) -> Diagnostic | None:
        """Evidence where blocks ask how many there are: every launch is one of its own."""
        near = min(_NEAR, MAX_LANES // grid, MAX_BLOCKS - grid)
        far = [n for n in (1 << k for k in range(13)) if grid + near < n <= MAX_BLOCKS]
        best: _Gain | None = None
        for sizes in (range(grid + 1, grid + near + 1), far):
            best = self._best((grid, *sizes)) or best
            if best is None or best.complete:
                break
        return None if best is None else _too_few(own, grid, best, best.enough)

    def _best(self, sizes: Sequence[int]) -> _Gain | None:
        """The launch that writes most beyond the first one, the smallest of its kind."""
        numbers = np.concatenate([np.arange(n) for n in sizes])
        blocks = self._walk(numbers, Lanes(np.repeat(np.array(sizes, np.int64), sizes)))
        launch = np.repeat(np.arange(len(sizes)), sizes)
        legal = [i for i in range(1, len(sizes)) if not blocks.outside[launch == i].any()]
        best, most = None, 0
        for coverage in _covered(blocks):
            now = coverage.by(launch == 0)
            written = coverage.elements(now)
            for i in legal:
                cells = coverage.by(launch == i)
                more = coverage.elements(cells) - written
                if more > most and (cells & ~now).any():
                    best, most = _Gain(coverage, written, sizes[i], bool(cells.all())), more
        return best


@dataclass(frozen=True, eq=False)
class _Gain:
    """A view of which a launch writes some elements, and one of ``enough`` blocks all that can be written.

    Where ``complete``, that is the whole view; ``added`` where only sums would change.
    """

    coverage: Coverage
    written: int
    enough: int
    complete: bool
    added: bool = False


def _first(flags: Flags, otherwise: int) -> int:
    return int(np.argmax(flags)) if flags.any() else otherwise


def _covered(blocks: Blocks) -> Iterator[Coverage]:
    """The coverage of every view all of whose writes are known."""
    for whole, windows in blocks.writes.items():
        others = [w for w in blocks.writes if w.buffer == whole.buffer and w != whole]
        if whole.buffer in blocks.undecided or whole.elements < 2 or any(_meet(whole, w) for w in others):
            continue
        coverage = Coverage.of(whole, windows)
        if coverage is not None:
            yield coverage


def _meet(a: Whole, b: Whole) -> bool:
    """Whether two views may share elements."""
    return a.offset <= b.last and b.offset <= a.last


def _gains(blocks: Blocks, grid: int, legal: int) -> Iterator[_Gain]:
    """The views to which more than ``grid`` blocks write more, up to ``legal`` that keep to their views."""
    number = np.arange(blocks.lanes)
    for coverage in _covered(blocks):
        now, most = coverage.by(number < grid), coverage.by(number < legal)
        more = bool((most & ~now).any())
        # Blocks that add to elements once more are further work only if their number has an end.
        adding = coverage.block[coverage.adds & (coverage.block < legal)]
        last = int(adding.max(initial=-1)) if legal < blocks.lanes else -1
        if more:
            enough = max(_least(coverage, most, grid, legal), last + 1)
            yield _Gain(coverage, coverage.elements(now), enough, bool(most.all()))
        elif last >= grid:
            yield _Gain(coverage, coverage.elements(now), last + 1, complete=True, added=True)


def _least(coverage: Coverage, cells: Flags, low: int, high: int) -> int:
    """The least number of blocks that cover some cells: more than ``low``, at most ``high``."""
    number = np.arange(coverage.block.max() + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if (cells & ~coverage.by(number < middle)).any():
            low = middle
        else:
            high = middle
    return high


def _blocks(n: int) -> str:
    return f"{n} block{'s' if n > 1 else ''} (grid={n})"


def _view(blocks: Blocks, whole: Whole) -> str:
    name = blocks.names.get(whole, whole.buffer)
    return f"view %{name}" + (f" (argument {whole.buffer})" if name != whole.buffer else "")


def _too_few(blocks: Blocks, grid: int, gain: _Gain, enough: int | None) -> Diagnostic:
    asked, view = blocks.asked, _view(blocks, gain.coverage.whole)
    assert asked is not None
    verb, total = "writes" if grid == 1 else "write", gain.coverage.whole.elements
    sentence = f"{_blocks(grid)} {verb} {gain.written} of the {total} elements of {view}"
    if gain.added:
        sentence = f"{_blocks(grid)} add to {view} a part of what {gain.enough} blocks add"
    fix = f"grid={enough} (--grid {enough})" if enough is not None else "a larger grid"
    message = f"{sentence}; allowed: a grid that covers it; try: {fix}"
    return asked.error("launch", message)


def _too_many(blocks: Blocks, grid: int, leave: tuple[int, Op, Whole]) -> Diagnostic | None:
    asked, (number, op, whole) = blocks.asked, leave
    if asked is None:
        return None
    shape, place = "x".join(map(str, whole.shape)), f" at {op.span}" if op.span else ""
    message = (
        f"block {number} of 0 to {grid - 1} (grid={grid}) leaves {_view(blocks, whole)} of {shape} elements, "
        f"in {op.name}{place}; allowed: blocks with windows inside it; try: grid={number} (--grid {number})"
    )
    return asked.error("launch", message)
