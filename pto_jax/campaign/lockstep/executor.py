"""Blocks of a campaign in lockstep.

A case index stands for one random program. The programs of a span of indices use one table of opcodes; the
spans take turns in the tables of the campaign's profiles (:mod:`.tables`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...errors import ArgumentError
from ...generate.options import layout_name
from ...lockstep import opcodes, programs, values
from ...lockstep.stream import CHUNK, FILLED, Mode, Runner, coverage
from ...lockstep.table import Table
from ..comparison import COMPARED, compare_case
from ..fuzz.batch import Batch, Failure
from ..fuzz.coverage import attributes_part, named, operands_part
from ..fuzz.executor import Executor, Say, failure
from ..fuzz.plan import Plan
from ..fuzz.progress import ENDLESS
from ..machines import machine
from ..recorder import Recorder
from ..report.ulp import Histograms
from ..targets import Target
from .oracle import Finished, finished

_MODES: dict[str, Mode] = {"lockstep": "switch", "lockstep:grouped": "grouped"}
#: Programs whose full results are held at once when they are compared one by one.
_FEW = 64


class LockstepExecutor(Executor):
    """Executes blocks of programs in lockstep, in a campaign's mode, and compares them.

    Against the other mode the digests of the programs are compared, and only programs whose digests differ
    are executed again alone; against any other machine every program is.
    """

    def __init__(self, plan: Plan, recorder: Recorder, say: Say = bool) -> None:
        if plan.tested not in _MODES:
            allowed = ", ".join(_MODES)
            raise ArgumentError(f"--lockstep with the tested machine {plan.tested}; allowed: {allowed}")
        self._seed, self._recorder = plan.seed, recorder
        self._chunk = _power(min(CHUNK, plan.batch))
        self._mode: Mode = _MODES[plan.tested]
        self._other: Mode | None = _MODES.get(plan.reference)
        self._reference = machine(plan.reference, plan.dut_timeout)
        self._tested = machine(plan.tested, plan.dut_timeout)
        self._tables = plan.tables
        self._compiling = Compiling(plan, say)

    def pieces(self, start: int, count: int) -> Iterator[Batch]:
        """What became of the programs, each batch as soon as it is known."""
        for first, here in self._tables.spans(start, count):
            table = self._tables.of(first)
            self._compiling.begins(first)
            if self._other is None:
                yield from self._one_by_one(table, range(first, first + here))
            else:
                yield from self._by_digest(table, self._other, first, here)

    def _by_digest(self, table: Table, other: Mode, first: int, count: int) -> Iterator[Batch]:
        """The programs between two whose digests differ are one piece."""
        ours, theirs = (
            Runner(table, mode, chunk=self._chunk).digests(self._seed, first, count)
            for mode in (self._mode, other)
        )
        differing = (first + np.flatnonzero(ours.words != theirs.words)).tolist()
        if not differing:
            yield Batch(first, count, Counter(equal=count), _named(table, ours.coverage))
            return
        place = first
        for piece in self._one_by_one(table, differing):
            yield from self._equal(table, place, piece.start)
            yield piece
            place = piece.start + 1
        yield from self._equal(table, place, first + count)

    def _equal(self, table: Table, start: int, end: int) -> Iterator[Batch]:
        if start < end:
            covered = covered_cells(table, self._seed, start, end)
            yield Batch(start, end - start, Counter(equal=end - start), covered)

    def _one_by_one(self, table: Table, index: Sequence[int]) -> Iterator[Batch]:
        few = min(_FEW, self._chunk)
        tested = finished(Runner(table, self._mode, chunk=few), self._seed, index)
        if self._other is None:
            for program in tested:
                yield self._piece(table, program, self._reference, program.machine)
            return
        reference = finished(Runner(table, self._other, chunk=few), self._seed, index)
        for program, again in zip(tested, reference, strict=True):
            # Digests see bits of NaNs that the comparison leaves open.
            yield self._piece(table, program, again.machine, program.machine)

    def _piece(self, table: Table, program: Finished, reference: Target, tested: Target) -> Batch:
        ulp = Histograms()
        outcome = compare_case(program.case, reference, tested, ulp.add_case)
        compared = outcome.kind in COMPARED
        covered = _named(table, coverage(table, program.drawn)) if compared else Counter[str]()
        failures: tuple[Failure, ...] = ()
        if outcome.is_failure:
            record = self._recorder(outcome, self._reference, self._tested)
            failures = (failure(outcome, record),)
        kinds, refusals = Counter[str]({outcome.kind: 1}), Counter(set(outcome.refusals))
        return Batch(program.case.index, 1, kinds, covered, ulp.to_json(), failures, refusals)


class Compiling:
    """Says which table of a campaign is about to be compiled, which takes a while."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self._plan, self._tables, self._say = plan, plan.tables, say
        self._begun: set[int] = set()

    def begins(self, index: int) -> None:
        """Programs from an index on are executed."""
        number, count = self._tables.place(index, self._plan.start, self._plan.end)
        if number not in self._begun:
            self._begun.add(number)
            of = f" of {count}" if self._plan.count < ENDLESS else ""
            self._say(f"compiling table {number}{of}: {len(self._tables.of(index).opcodes)} opcodes")


def _power(n: int) -> int:
    return 1 << max(0, (n - 1).bit_length())


def covered_cells(table: Table, seed: int, start: int, end: int) -> Counter[str]:
    """The coverage cells of the programs from one index to before another."""
    return cells_of(table, seed, range(start, end))


def cells_of(table: Table, seed: int, indices: Sequence[int]) -> Counter[str]:
    """The coverage cells of the programs of some indices."""
    drawn = programs.draw(np, table, values.origin(seed), np.array(indices, np.uint64))
    return _named(table, coverage(table, drawn.programs))


def _named(table: Table, counts: NDArray[np.int64]) -> Counter[str]:
    coverage: Counter[str] = Counter()
    for per_region, cells in zip(counts.tolist(), _cells(table), strict=True):
        for n, of_kind in zip(per_region, cells, strict=True):
            if n:
                coverage.update(dict.fromkeys(of_kind, n))
    return coverage


@lru_cache(maxsize=64)
def _cells(table: Table) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Coverage cells of each opcode, for each kind of region of its destination."""
    return tuple(tuple(_cells_of(opcode, filled) for filled in FILLED) for opcode in table.opcodes)


def _cells_of(opcode: opcodes.Opcode, filled: str) -> tuple[str, ...]:
    context, t = opcode.branch.context, opcode.kinds[0].type
    there = {name for name, _ in (*context.types, *opcode.tmp)}
    operands = operands_part(opcode.instruction, there)
    parts = (opcode.name, t.dtype.name, filled, layout_name(t), operands, "straight")
    return named(parts, attributes_part(context.attributes))
