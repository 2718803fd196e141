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
from .oracle import compare, finished
from .stream import CHUNK, FILLED, Mode, Runner
from .table import Table, parts, table

#: Programs in a row that use one table.
SPAN = 1 << 16
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
        self._mode = _MODES[plan.tested]
        self._other = _MODES.get(plan.reference)
        self._reference = machine(plan.reference, plan.dut_timeout)
        self._tested = machine(plan.tested, plan.dut_timeout)
        self._tables = tables(plan.profiles or _PROFILES)

    def run_block(self, start: int, count: int) -> Batch:
        kinds: Counter[str] = Counter()
        coverage: Counter[str] = Counter()
        ulp, failures = Histograms(), []
        for first, here in _spans(start, count):
            runner = Runner(self._table(first), self._mode, chunk=min(CHUNK, _power(here)))
            found = runner.digests(self._seed, first, here)
            coverage.update(_coverage(runner.table, found.coverage))
            judged = 0
            for outcome in self._outcomes(runner, found.words, first, ulp):
                judged += 1
                kinds[outcome.kind] += 1
                if outcome.is_failure:
                    record = self._recorder(outcome, self._reference, self._tested)
                    failures.append(failure(outcome, record))
            kinds["equal"] += here - judged
        kinds += Counter()
        return Batch(start, count, kinds, coverage, ulp.to_json(), tuple(failures))

    def _table(self, index: int) -> Table:
        return table(*self._tables[index // SPAN % len(self._tables)])

    def _outcomes(
        self, runner: Runner, words: NDArray[np.uint64], first: int, ulp: Histograms
    ) -> Iterator[Outcome]:
        """What became of the programs that had to be looked at one by one; the others are equal."""
        few = Runner(runner.table, self._mode, chunk=min(_FEW, runner.chunk))
        if self._other is None:
            every = list(range(first, first + len(words)))
            yield from compare(few, self._reference, self._seed, every, ulp.add_case)
            return
        other = Runner(runner.table, self._other, chunk=runner.chunk)
        wanted = other.digests(self._seed, first, len(words)).words
        differing = [first + int(i) for i in np.flatnonzero(wanted != words)]
        against = Runner(runner.table, self._other, chunk=few.chunk)
        pairs = zip(
            finished(few, self._seed, differing), finished(against, self._seed, differing), strict=True
        )
        for (case, tested), (_, reference) in pairs:
            # The digests see bits of NaNs that the comparison leaves open.
            yield judge(case, reference, tested, ulp.add_case)


def _power(n: int) -> int:
    return 1 << max(0, (n - 1).bit_length())


def _spans(start: int, count: int) -> Iterator[tuple[int, int]]:
    """The parts of a block that use one table each: first index and count.

    >>> list(_spans(SPAN - 2, 5))
    [(65534, 2), (65536, 3)]
    """
    while count > 0:
        here = min(count, SPAN - start % SPAN)
        yield start, here
        start, count = start + here, count - here


def _coverage(table: Table, counts: NDArray[np.int64]) -> Counter[str]:
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
