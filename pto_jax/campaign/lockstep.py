"""Executors of blocks in lockstep: alone, against another executor, or against a device.

A case index stands for one random program. The programs of a span of indices use one table of opcodes; the
spans take turns in the tables of the campaign's profiles (:mod:`pto_jax.lockstep.tables`). A device gets the
text of the programs. Its results are compared with those of lockstep, and the reference interpreter executes
only the programs on which they differ, and decides.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ..cases import targets
from ..cases.answers import attempts
from ..cases.comparison import COMPARED, Outcome, compare_case
from ..cases.targets import Run, Target
from ..cases.ulp import Histograms
from ..devices.conversation import Request, Server, request
from ..devices.lockstep import decoder, outputs, pool_of
from ..devices.machines import machine
from ..errors import ArgumentError
from ..failures.recorder import Record, Recorder
from ..generate.options import layout_name
from ..generate.programs import Case
from ..lockstep import opcodes, programs, stream, values
from ..lockstep.opcodes import Opcode
from ..lockstep.stream import CHUNK, FILLED, Mode, Runner, coverage
from ..lockstep.tables import Table
from ..lowering.lockstep import Programs
from .fuzz.batch import Batch, Failure
from .fuzz.coverage import attributes_part, named, of_program, operands_part
from .fuzz.executor_cases import Beat, Executor, Say, failure
from .fuzz.plan import Plan
from .fuzz.progress import ENDLESS
from .refusals import Refusals, feature


@dataclass(frozen=True)
class Given:
    """A machine that has already run one case."""

    name: str
    answer: Run | Exception
    follows: bool = False

    def run(self, case: Case) -> Run:
        """What it gave, or raised, whatever the case."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass(frozen=True)
class Finished:
    """A program as a case, as it was drawn (arrays with one row), and with the lockstep engine's results."""

    case: Case
    drawn: Programs
    machine: Given


def finished(runner: stream.Runner, seed: int, index: Sequence[int]) -> Iterator[Finished]:
    """The programs of some indices, a chunk of them executed at a time."""
    table = runner.table
    for place in range(0, len(index), runner.chunk):
        here = np.array(index[place : place + runner.chunk], np.uint64)
        drawn = programs.draw(np, table, values.origin(seed), here, runner.steps)
        filled = programs.contents(table, pool_of(table, seed), drawn)
        registers = runner.registers(drawn.programs, filled)
        for n, number in enumerate(here.tolist()):
            one = slice(n, n + 1)
            single = programs.Drawn(Programs(*(a[one] for a in drawn.programs)), *(a[one] for a in drawn[1:]))
            case = decoder(table).case(seed, number, single, filled[n])
            yield Finished(
                case,
                single.programs,
                Given(runner.name, Run(outputs(case, table, registers[n])), follows=True),
            )


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
            raise ArgumentError(f"--lockstep: got the executor {plan.tested}", allowed=f"{allowed}")
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


#: Programs that are executed in lockstep at once, and those that a device is given at once.
DEVICE_CHUNK, SENT = 256, 64
#: Seconds after which what is known is told.
_MOMENT = 0.2


class DeviceExecutor(Executor):
    """Executes blocks of lockstep programs on a device, and compares it with lockstep.

    ``beat`` is told of each program whose answer is waited for.
    """

    def __init__(self, plan: Plan, recorder: Recorder, beat: Beat, say: Say = bool) -> None:
        self._seed, self._recorder, self._beat = plan.seed, recorder, beat
        self._reference = machine(plan.reference, plan.dut_timeout)
        self._tested = machine(plan.tested, plan.dut_timeout)
        if isinstance(self._tested, Server):
            self._tested.must_start = True
        self._tables = plan.tables
        self._refusals = Refusals(self._tested)
        self._compiling = Compiling(plan, say)

    def pieces(self, start: int, count: int) -> Iterator[Batch]:
        """What became of the programs: a failure alone, others together every moment."""
        for first, here in self._tables.spans(start, count):
            self._compiling.begins(first)
            table, refused = self._accepted(self._tables.of(first))
            if table is None:
                refusals = Counter(dict.fromkeys(refused, here))
                yield Batch(first, here, Counter(refused=here), Counter(), refusals=refusals)
            else:
                yield from self._on_table(table, refused, first, here)

    def _accepted(self, table: Table) -> tuple[Table | None, list[str]]:
        """The table without the opcodes that the device refuses, and why; None where that is all of them."""
        kept: list[Opcode] = []
        refused: dict[str, None] = {}
        for opcode in table.opcodes:
            reason = self._refusals.reason(feature(decoder(table).operation(opcode), table.profile))
            if reason is None:
                kept.append(opcode)
            else:
                refused[reason] = None
        if len(kept) == len(table.opcodes):
            return table, []
        return (replace(table, opcodes=tuple(kept)) if kept else None), list(refused)

    def _on_table(self, table: Table, refused: list[str], start: int, count: int) -> Iterator[Batch]:
        kinds, begin, reported = Counter[str](), start, monotonic()
        compared, parts, refusals = list[int](), Counter[str](), Counter[str]()
        for program, answer in self._answered(table, range(start, start + count)):
            at, device = program.case.index, Given(self._tested.name, answer)
            outcome, record = self._judged(program, device)
            if record is None:
                kinds[outcome.kind] += 1
                refusals.update({*refused, *outcome.refusals})
                if outcome.kind in COMPARED and outcome.case is not program.case:
                    parts += of_program(outcome.case.program)
                elif outcome.kind in COMPARED:
                    compared.append(at)
            due = record is not None or monotonic() - reported > _MOMENT or at + 1 == start + count
            if kinds and due:
                covered = cells_of(table, self._seed, compared) + parts
                yield Batch(begin, kinds.total(), kinds, covered, refusals=refusals)
                begin, reported = begin + kinds.total(), monotonic()
                kinds, compared, parts, refusals = Counter(), [], Counter(), Counter()
            if record is not None:
                covered = cells_of(table, self._seed, [at] if outcome.kind in COMPARED else [])
                failures = (failure(outcome, record),)
                alone = Counter[str]({outcome.kind: 1}), covered
                yield Batch(at, 1, *alone, failures=failures, refusals=Counter(refused))
                begin = at + 1

    def _answered(self, table: Table, index: range) -> Iterator[tuple[Finished, targets.Run | Exception]]:
        """Programs with what the device gives for them; a server works while others are made."""
        programs, device = finished(Runner(table, chunk=DEVICE_CHUNK), self._seed, index), self._tested
        if isinstance(device, Server):
            sent = deque[Finished]()

            def requests() -> Iterator[Request]:
                for program in programs:
                    sent.append(program)
                    self._beat(sent[0].case.index)
                    result = program.case.program
                    yield request(program.case, decoder(table).text(result), result.fragment_results)

            for answer in device.answers(requests()):
                yield sent.popleft(), answer
            return
        while some := list(islice(programs, SENT)):
            answers = iter(attempts(device, [p.case for p in some]))
            for program in some:
                self._beat(program.case.index)
                yield program, next(answers)

    def _judged(self, program: Finished, device: Given) -> tuple[Outcome, Record | None]:
        """What became of a program, with a record of a failure, which the reference decides on."""
        case = program.case
        outcome = compare_case(case, program.machine, device)
        if outcome.kind == "refused":
            outcome = self._refusals.compared(outcome, self._reference, self._tested)
            if outcome.is_failure:
                return outcome, self._recorder(outcome, self._reference, self._tested)
        if not outcome.is_failure:
            return outcome, None
        outcome = compare_case(case, self._reference, device)
        if outcome.is_failure:
            return outcome, self._recorder(outcome, self._reference, self._tested)
        engine = compare_case(case, self._reference, program.machine)
        return (engine, _not_the_device(engine, self._tested)) if engine.is_failure else (outcome, None)


def _not_the_device(outcome: Outcome, tested: targets.Target) -> Record:
    return Record(cause=f"{outcome.tested} differs from {outcome.reference}, which agrees with {tested.name}")
