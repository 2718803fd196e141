"""Blocks of a campaign in lockstep.

A case index stands for one random program, made on the device. The programs of a span of indices use one
table of opcodes; the spans take turns in the tables of the campaign's profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...errors import ArgumentError
from ...ir import FRAGMENT, Function, Op, Program, Region, Value, attrs
from ...profiles import ProfileName
from ..fuzz.batch import Batch
from ..fuzz.coverage import of_program
from ..fuzz.executor import failure
from ..fuzz.plan import Plan
from ..judge import Outcome, judge
from ..machines import machine
from ..recorder import Recorder
from ..report.ulp import Histograms
from . import values
from .oracle import compare, finished
from .programs import draw
from .stream import CHUNK, FILLED, Mode, Runner, coverage
from .table import Table, parts, table

#: Programs in a row that use one table.
SPAN = 1 << 13
#: Without a profile: the one with the most instructions and types.
_PROFILES: tuple[ProfileName, ...] = ("a5",)
_MODES: dict[str, Mode] = {"lockstep": "switch", "lockstep:grouped": "grouped"}
#: Programs whose full results are held at once when they are compared one by one.
_FEW = 256


def tables(profiles: Sequence[ProfileName]) -> list[tuple[ProfileName, int]]:
    """Profile and part of every table, in the order in which spans of indices take them.

    >>> tables(["a5"])[:2]
    [('a5', 0), ('a5', 1)]
    """
    counts = {p: parts(p) for p in profiles}
    return [(p, part) for part in range(max(counts.values())) for p in profiles if part < counts[p]]


class LockstepExecutor:
    """Executes blocks of programs in lockstep, in a campaign's mode, and compares them.

    Against the other mode the digests of the programs are compared, and only programs whose digests differ
    are executed again alone; against any other machine every program is.
    """

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        if plan.tested not in _MODES:
            allowed = ", ".join(_MODES)
            raise ArgumentError(f"--lockstep with the tested machine {plan.tested}; allowed: {allowed}")
        self._seed, self._recorder = plan.seed, recorder
        self._chunk = _power(min(CHUNK, plan.batch))
        self._mode = _MODES[plan.tested]
        self._other = _MODES.get(plan.reference)
        self._reference = machine(plan.reference, plan.dut_timeout)
        self._tested = machine(plan.tested, plan.dut_timeout)
        self._tables = tables(plan.profiles or _PROFILES)

    def run_block(self, start: int, count: int) -> Batch:
        kinds: Counter[str] = Counter()
        cells: Counter[str] = Counter()
        ulp, failures = Histograms(), []
        for first, here in _spans(start, count):
            table = self._table(first)
            looked_at, counts = self._suspects(table, first, here)
            cells.update(_named(table, counts))
            kinds["equal"] += here - len(looked_at)
            for outcome in self._outcomes(table, looked_at, ulp):
                kinds[outcome.kind] += 1
                if outcome.is_failure:
                    record = self._recorder(outcome, self._reference, self._tested)
                    failures.append(failure(outcome, record))
        kinds += Counter()
        return Batch(start, count, kinds, cells, ulp.to_json(), tuple(failures))

    def _table(self, index: int) -> Table:
        return table(*self._tables[index // SPAN % len(self._tables)])

    def _suspects(self, table: Table, first: int, count: int) -> tuple[list[int], NDArray[np.int64]]:
        """The programs that have to be looked at one by one, and what all of them cover."""
        every = np.arange(first, first + count, dtype=np.uint64)
        if self._other is None:
            drawn = draw(np, table, values.origin(self._seed), every)
            return every.tolist(), coverage(table, drawn.programs)
        ours, theirs = (
            Runner(table, mode, chunk=self._chunk).digests(self._seed, first, count)
            for mode in (self._mode, self._other)
        )
        return every[ours.words != theirs.words].tolist(), ours.coverage

    def _outcomes(self, table: Table, index: list[int], ulp: Histograms) -> Iterator[Outcome]:
        few = min(_FEW, self._chunk)
        runner = Runner(table, self._mode, chunk=few)
        if self._other is None:
            yield from compare(runner, self._reference, self._seed, index, ulp.add_case)
            return
        both = (finished(r, self._seed, index) for r in (runner, Runner(table, self._other, chunk=few)))
        for (case, tested), (_, reference) in zip(*both, strict=True):
            # Digests see bits of NaNs that the comparison leaves open.
            yield judge(case, reference, tested, ulp.add_case)


def _power(n: int) -> int:
    return 1 << max(0, (n - 1).bit_length())


def _spans(start: int, count: int) -> Iterator[tuple[int, int]]:
    """The parts of a block that use one table each: first index and count.

    >>> list(_spans(SPAN - 2, 5))
    [(8190, 2), (8192, 3)]
    """
    while count > 0:
        here = min(count, SPAN - start % SPAN)
        yield start, here
        start, count = start + here, count - here


def _named(table: Table, counts: NDArray[np.int64]) -> Counter[str]:
    found: Counter[str] = Counter()
    for per_region, cells in zip(counts.tolist(), _cells(table), strict=True):
        for n, named in zip(per_region, cells, strict=True):
            if n:
                found.update(dict.fromkeys(named, n))
    return found


@lru_cache(maxsize=64)
def _cells(table: Table) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Coverage cells of each opcode, for each kind of region of its destination."""
    return tuple(
        tuple(tuple(_cells_of(table, number, filled)) for filled in FILLED)
        for number in range(len(table.opcodes))
    )


def _cells_of(table: Table, number: int, filled: str) -> Counter[str]:
    opcode = table.opcodes[number]
    t = opcode.kinds[0].type
    sizes = {"full": t.shape, "partial": (t.rows, t.cols - 1), "empty": (0, t.cols)}
    dst = Value("dst", t.with_valid(*sizes[filled]))
    op = Op(opcode.name, (), (dst,), attributes=attrs(dict(opcode.branch.context.attributes)))
    return of_program(Program((Function(FRAGMENT, (dst,), Region((op,))),), fragment=True))
