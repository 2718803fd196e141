"""Whether a value is lost where tiles share bytes: which write every byte that is read comes from.

Courses of a function are followed trip by trip. A tile that is written inside of another one of its row
pitch, and whose elements are then read as those of the other one, is a window of it: the write is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..analysis.resolve import ResolvedProgram
from ..interpreter import Operand, Scope, TileRef
from ..ir import BLayout, Function, Loc, Op, Pipe, TileType
from .clocks import Use
from .judge import assumptions, judged_program
from .judged import Judged, OperandUse, OpFacts
from .numbers import Course
from .regions import GENERIC, Region, Space, Storage, tile_region
from .walk import CourseRun

#: Operations after which a course is given up, and of all courses together; more writes than a course has.
LIMIT, _ROOM = 10_000, 30_000
_MOST = 1 << 20
#: The space, the first byte, and the one behind the last one.
Bytes: TypeAlias = tuple[Space, int, int]
#: By memories: pairs of a first byte and the one behind the last one.
Ranges: TypeAlias = Mapping[Loc | None, Sequence[tuple[int, int]]]


class Place(NamedTuple):
    """The bytes of a tile, windows being part of theirs, and how they are laid out."""

    space: Space
    start: int
    type: TileType
    made: int = 0

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.start + self.type.bytes

    @property
    def bytes(self) -> Bytes:
        """What it takes."""
        return self.space, self.start, self.end

    def is_same(self, other: Place) -> bool:
        """Whether two handles are over one tile: another tile of its type at its bytes is another value."""
        return self.bytes == other.bytes and (self.made == other.made or self.type != other.type)

    def is_recast(self, other: Place) -> bool:
        """Whether a tile in another form is at its bytes: of other elements, another shape or layout."""
        here = self.bytes == other.bytes and self.made != other.made
        return here and not self.type.is_laid_out_as(other.type)

    def pair(self, other: Place) -> frozenset[tuple[Bytes, int]]:
        """What two places are to each other: a part and its whole by bytes, twins by who placed them."""
        twins = self.bytes == other.bytes
        return frozenset((place.bytes, place.made if twins else 0) for place in (self, other))

    def has(self, start: int, end: int) -> bool:
        """Whether bytes are inside of it."""
        return self.start <= start and end <= self.end

    def nests(self, other: Place) -> bool:
        """Whether one of two is inside of the other one."""
        return self.has(other.start, other.end) or other.has(self.start, self.end)


@dataclass(eq=False)
class Written:
    """What one operation has written: ``scratch`` means nothing; ``own``: it is read as what it is.

    ``sources`` are the operations that have placed the tiles at its own bytes that it is computed from,
    ``lineage`` those of all tiles that it follows from; ``read``: it is read by the handle that wrote it.
    """

    op: Op
    place: Place
    region: Region
    scratch: bool
    sources: frozenset[int] = frozenset()
    lineage: frozenset[int] = frozenset()
    own: bool = False
    read: bool = False


class Lost(NamedTuple):
    """A write, the place whose value was there before, and the one that is read later."""

    by: Written
    before: Place
    read: Place


def _no_writes() -> Any:
    return np.zeros(GENERIC, np.int64)


@dataclass
class Memory:
    """The numbers of the writes that the bytes of a space come from: from 1 on, 0 for none.

    ``before``: the last writes of another place that were there before.
    """

    last: Any = field(default_factory=_no_writes)
    before: Any = field(default_factory=_no_writes)


class ContentsRun(CourseRun):
    """A course that follows all trips of all loops, and where the values come from that it reads.

    Only operations that use bytes ``within`` ranges of a memory count, all where there are none.
    """

    def __init__(self, judged: Judged, course: Course, within: Ranges | None) -> None:
        super().__init__(judged, course)
        self.within = within
        self.all_trips, self.left = True, LIMIT
        #: The operations that it has come to.
        self.came_to: set[int] = set()
        self.writes: list[Written] = []
        self.lost: dict[tuple[int, Bytes, Bytes], Lost] = {}
        #: Operations that write what only execution knows; whether micro-operations use any tile.
        self.open: set[int] = set()
        self.micro = False
        #: What is written through one place and read through another one: the number of the write, the place.
        self.passed: set[tuple[int, Place]] = set()
        #: Pairs of a tile and a part of it that is read before it has a value of its own.
        self.parts: set[frozenset[tuple[Bytes, int]]] = set()
        #: The bytes that the present operation reads, and what has placed what is there.
        self.sources: list[tuple[Bytes, frozenset[int]]] = []
        self.lineage: frozenset[int] = frozenset()
        #: The bytes and the operations that have placed tiles that were written.
        self.named: set[tuple[Bytes, int]] = set()
        self._memory: defaultdict[Space, Memory] = defaultdict(Memory)

    def uses(
        self, op: Op, scope: Scope, facts: OpFacts, pipe: Pipe, accesses: Sequence[OperandUse]
    ) -> Iterator[Use]:
        """Nothing that has to be ordered: only what is read and written counts."""
        executed = self.machine.executed
        operands = executed.operands if executed is not None and executed.op is op else {}
        self.sources, self.lineage = [], frozenset()
        before = {n.name: operands[n.name] if n.name in operands else scope.find(n.value) for n in accesses}
        self.came_to.add(id(op))
        if not self.is_unchanged(op, before, operands):
            for write in (False, True):
                for n in (n for n in accesses if n.write == write):
                    self.used(op, n, before[n.name])
        return iter(())

    def bytes_of(self, op: Op) -> Iterator[Use]:
        """Of micro-operations nothing is known."""
        self.machine.accessed, self.machine.indexed = [], []
        self.micro = True
        return iter(())

    def used(self, op: Op, operand_use: OperandUse, operand: Operand) -> None:
        """An operand is read or written."""
        here = self.place(operand)
        if here is None:
            return
        place, region = here
        ranges = None if self.within is None else self.within.get(place.space.loc, ())
        if ranges is not None and all(end <= place.start or place.end <= start for start, end in ranges):
            return
        exact = region.start >= 0 and region.end <= GENERIC and region.rows is not None
        if not exact:
            whole = Region.of(place.space, place.start, place.type.bytes, [])
            if whole is None or whole.start < 0 or whole.end > GENERIC:
                return
            region = whole
        if operand_use.write:
            instruction = self.judged.resolved.of(op).instruction
            scratch = instruction is not None and instruction.operand(operand_use.name).role == "tmp"
            sources = frozenset[int]().union(*(s for at, s in self.sources if at == place.bytes))
            self.write(Written(op, place, region, scratch, sources, self.lineage), exact)
        else:
            self.read(place, region, exact)

    def place(self, operand: Operand) -> tuple[Place, Region] | None:
        """The bytes of a tile at an address, and those of them that a handle is over."""
        operand = self.machine.selected(operand)
        region = self.region(operand)
        storage = getattr(operand, "storage", None)
        if region is None or not isinstance(operand, TileRef) or not isinstance(storage, Storage):
            return None
        if storage.space.root is not None:
            return None
        start, whole = storage.tile or (storage.start, storage.whole or operand.type)
        return Place(storage.space, start, whole, storage.made), region

    def write(self, written: Written, exact: bool) -> None:
        """Bytes have a new value; where only execution knows which ones, other values may stay."""
        memory = self._memory[written.region.space]
        at = _bytes(written.region)
        old = memory.last[at]
        others = [n for n in _values(old) if n and not written.place.is_same(self.writes[n - 1].place)]
        self.writes.append(written)
        self.named.add((written.place.bytes, written.place.made))
        if not others:
            memory.last[at] = len(self.writes)
        elif exact:
            memory.before[at] = np.where(np.isin(old, others), old, memory.before[at])
            memory.last[at] = len(self.writes)
        else:
            self.open.add(id(written.op))
            memory.last[at] = np.where(np.isin(old, others), old, len(self.writes))

    def read(self, place: Place, region: Region, exact: bool) -> None:
        """Bytes are read as those of a place; all of them where only execution knows which ones."""
        memory = self._memory[region.space]
        at = _bytes(region)
        for pair in _values(memory.last[at] * _MOST + memory.before[at]):
            last, before = divmod(pair, _MOST)
            if not last:
                continue
            written = self.writes[last - 1]
            old = self.writes[before - 1].place if before else None
            same, twins = place.is_same(written.place), place.bytes == written.place.bytes
            self.sources.append((place.bytes, written.sources | {place.made}))
            self.lineage |= written.lineage | {place.made, written.place.made}
            written.read |= place.made == written.place.made
            if twins and not same:
                # A sum may have a name of its own at the bytes of what it is added to.
                if (place.bytes, place.made) in self.named and place.made not in written.sources:
                    self.lost.setdefault(
                        (id(written.op), place.bytes, place.bytes), Lost(written, place, place)
                    )
            elif place.is_recast(written.place) and not written.scratch:
                # Through other tiles numbers of one type go on.
                numbers = place.type.dtype == written.place.type.dtype
                goes_on = place.made in (written.lineage if numbers else written.sources)
                if (place.bytes, place.made) in self.named and not goes_on:
                    self.lost.setdefault(
                        (id(written.op), place.bytes, place.bytes), Lost(written, place, place)
                    )
            elif old is not None and not same and old.nests(place):
                self.lost.setdefault((id(written.op), old.bytes, place.bytes), Lost(written, old, place))
            elif written.place.has(place.start, place.end):
                written.own = True
                if old is None and is_window(place.type, written.place.type):
                    self.parts.add(written.place.pair(place))
            if not same and exact:
                self.passed.add((last - 1, place))

    def is_unchanged(self, op: Op, before: Mapping[str, Operand], operands: Mapping[str, Operand]) -> bool:
        """Whether an operation copies elements onto themselves."""
        instruction = self.judged.resolved.of(op).instruction
        if instruction is None or instruction.moves != "copy":
            return False
        src, dst = before.get("src"), before.get("dst")
        if not isinstance(src, TileRef) or not isinstance(dst, TileRef) or src.type.dtype != dst.type.dtype:
            return False
        storage, here = src.storage, self.region(dst)
        row, col = (operands.get(name, 0) for name in ("indexRow", "indexCol"))
        if not (isinstance(storage, Storage) and here and isinstance(row, int) and isinstance(col, int)):
            return False
        whole = storage.whole or src.type
        moved = replace(storage, whole=whole, row=storage.row + row, col=storage.col + col)
        source = replace(src, storage=moved, type=replace(dst.type, loc=src.type.loc))
        return tile_region(source, self.machine.sizes(dst)) == here and here.end <= GENERIC

    def found(self) -> Iterator[Lost]:
        """The values that are lost, without those that windows of what is read replace on purpose."""
        meant = set(self.parts)
        for number, place in self.passed:
            written = self.writes[number]
            inside = place.has(written.region.start, written.region.end)
            if inside and not (written.own or written.scratch) and is_window(written.place.type, place.type):
                meant.add(written.place.pair(place))
        for lost in self.lost.values():
            place = lost.by.place
            parts = is_window(place.type, lost.read.type) or is_window(lost.read.type, place.type)
            if parts and place.pair(lost.read) in meant:
                continue
            # Another form of a tile that is not read itself gives the tile a value.
            if lost.by.read or not place.is_recast(lost.read):
                yield lost


def lost_values(
    resolved: ResolvedProgram, function: Function, ops: Iterable[Op], within: Ranges | None
) -> Callable[[Op, int, int], bool | None]:
    """Whether an operation replaces a value of bytes [start, end) of a buffer that is read later.

    ``ops`` are the operations in question, which use bytes ``within`` ranges, and what else decides about
    them does. None: nothing is known, of those that no course comes to, and of writes at places that only
    execution knows.
    """
    judged = judged_program(resolved)
    runs: list[ContentsRun] = []
    room, left = _ROOM, {id(op) for op in ops}
    for course in assumptions(resolved.program):
        if any(run.guesses.repeats(course) for run in runs):
            continue
        run = ContentsRun(judged, course, within)
        run.run(function)
        runs.append(run)
        room -= LIMIT - run.left
        left -= run.came_to if run.ended else set()
        if not run.guesses.used or (room < 0 and not left):
            break
    lost = [value for run in runs for value in run.found()]
    ended = [run for run in runs if run.ended and not run.micro]

    def replaces(op: Op, start: int, end: int) -> bool | None:
        if any(f.by.op is op and f.before.start < end and start < f.before.end for f in lost):
            return True
        seen = [run for run in ended if id(op) in run.came_to]
        return None if not seen or any(id(op) in run.open for run in seen) else False

    return replaces


def is_window(inner: TileType, outer: TileType) -> bool:
    """Whether a tile inside of the bytes of another one is a window of it: its elements are in its rows.

    >>> from pto_jax.ir import F32
    >>> outer = TileType(F32, 16, 64)
    >>> [is_window(TileType(F32, *shape), outer) for shape in ((4, 64), (1, 16), (4, 16))]
    [True, True, False]
    """
    forms = [(t.dtype, t.blayout, t.slayout, t.fractal) for t in (inner, outer)]
    across, pitches = (inner.rows, (inner.cols, outer.cols))
    if inner.blayout != BLayout.ROW_MAJOR:
        across, pitches = inner.cols, (inner.rows, outer.rows)
    return forms[0] == forms[1] and (pitches[0] == pitches[1] or (across == 1 and not inner.boxed))


def _bytes(region: Region) -> Any:
    """The numbers of the bytes of a region."""
    if not region.dims:
        return slice(region.start, region.start + region.width)
    return (np.asarray(region.rows)[:, None] + np.arange(region.width)).ravel()


def _values(numbers: Any) -> list[int]:
    """The values of an array that has few of them, in long runs."""
    changes = np.flatnonzero(numbers[1:] != numbers[:-1])
    return sorted({*numbers[:1].tolist(), *numbers[changes + 1].tolist()})
