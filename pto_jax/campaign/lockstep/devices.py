"""Blocks of a campaign in lockstep whose programs a device executes.

Programs are made and executed as arrays; the device is given their text. Its results are compared with those
of lockstep, and only a program on which they differ is executed by the reference interpreter, which decides.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from time import monotonic

from ...lockstep.opcodes import Opcode
from ...lockstep.stream import Runner
from ...lockstep.table import Table
from .. import results, targets
from ..comparison import COMPARED, Outcome, attempts, compare_case
from ..devices.refusals import Refusals, feature
from ..devices.server import Server
from ..devices.wire import Request, request
from ..fuzz.batch import Batch
from ..fuzz.coverage import of_program
from ..fuzz.executor import Beat, Executor, Say, failure
from ..fuzz.plan import Plan
from ..machines import machine
from ..recorder import Record, Recorder
from .cases import decoder
from .executor import Compiling, cells_of
from .oracle import Finished, Given, finished

#: Programs that are executed in lockstep at once, and those that a device is given at once.
CHUNK, SENT = 256, 64
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
        kinds, begin, told = Counter[str](), start, monotonic()
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
            due = record is not None or monotonic() - told > _MOMENT or at + 1 == start + count
            if kinds and due:
                covered = cells_of(table, self._seed, compared) + parts
                yield Batch(begin, kinds.total(), kinds, covered, refusals=refusals)
                begin, told = begin + kinds.total(), monotonic()
                kinds, compared, parts, refusals = Counter(), [], Counter(), Counter()
            if record is not None:
                covered = cells_of(table, self._seed, [at] if outcome.kind in COMPARED else [])
                failures = (failure(outcome, record),)
                alone = Counter[str]({outcome.kind: 1}), covered
                yield Batch(at, 1, *alone, failures=failures, refusals=Counter(refused))
                begin = at + 1

    def _answered(self, table: Table, index: range) -> Iterator[tuple[Finished, results.Run | Exception]]:
        """Programs with what the device gives for them; a server works while others are made."""
        programs, device = finished(Runner(table, chunk=CHUNK), self._seed, index), self._tested
        if isinstance(device, Server):
            sent = deque[Finished]()

            def requests() -> Iterator[Request]:
                for program in programs:
                    sent.append(program)
                    self._beat(sent[0].case.index)
                    made = program.case.program
                    yield request(program.case, decoder(table).text(made), made.fragment_results)

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
