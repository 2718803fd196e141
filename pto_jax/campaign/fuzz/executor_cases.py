"""Cases one by one on two machines: generated ones, and the user's own programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ...errors import ArgumentError
from ...testing.generate import Case, generate
from ...testing.generate_options import PRESETS, Options
from ..judge import Outcome, judge_all
from ..machines import machine
from ..recorder import Recorder
from ..report.ulp import Histograms
from ..targets import BatchTarget
from .batch import Batch, Failure, crash
from .coverage import of_program
from .executor import Beat, failure
from .messages import Note
from .plan import Plan


class Source(Protocol):
    """Where cases come from. A case on which both machines stop at a run-time rule is drawn again, up to
    ``attempts`` times."""

    @property
    def attempts(self) -> int: ...
    @property
    def notes(self) -> Sequence[Note]: ...

    def case(self, index: int, attempt: int) -> Case: ...


@dataclass(frozen=True)
class Generated:
    """Generated programs; the presets take turns."""

    seed: int
    options: tuple[Options, ...]
    attempts: int = 1
    notes: tuple[Note, ...] = ()

    @staticmethod
    def of(plan: Plan) -> Generated:
        unknown = [p for p in plan.presets if p not in PRESETS]
        if unknown:
            raise ArgumentError(f"no preset {', '.join(unknown)}; allowed: {' '.join(PRESETS)}")
        chosen = (PRESETS[p] for p in plan.presets or PRESETS)
        return Generated(
            plan.seed, tuple(replace(o, profiles=plan.profiles) if plan.profiles else o for o in chosen)
        )

    def case(self, index: int, attempt: int = 0) -> Case:
        return generate(self.seed, index, self.options[index % len(self.options)])


class CaseExecutor:
    """Executes blocks of cases; nothing of a case is kept but its counts and, if it fails, its record."""

    def __init__(self, plan: Plan, recorder: Recorder, beat: Beat) -> None:
        self._seed, self._recorder, self._beat = plan.seed, recorder, beat
        self._reference = machine(plan.reference, plan.dut_timeout)
        self._tested = machine(plan.tested, plan.dut_timeout)
        self._source = _source(plan)
        #: What a user should know about the cases.
        self.notes = self._source.notes
        both = (self._reference, self._tested)
        #: Whether each case is executed, and told of, before the next one begins.
        self.one_by_one = not any(isinstance(m, BatchTarget) for m in both)

    def run_block(self, start: int, count: int) -> Batch:
        kinds: Counter[str] = Counter()
        coverage: Counter[str] = Counter()
        ulp, failures = Histograms(), []
        for found in self._outcomes(range(start, start + count), ulp):
            if isinstance(found, Outcome):
                coverage.update(of_program(found.case.program))
                if found.is_failure:
                    record = self._recorder(found, self._reference, self._tested)
                    failures.append(failure(found, record))
            else:
                failures.append(found)
            kinds[found.kind] += 1
        failures.sort(key=lambda f: f.case_index)
        return Batch(start, count, kinds, coverage, ulp.to_json(), tuple(failures))

    def _outcomes(self, indices: Sequence[int], ulp: Histograms) -> Iterator[Outcome | Failure]:
        pending = list(indices)
        for attempt in range(self._source.attempts):
            again: list[int] = []
            # A machine that takes many cases at once gets the block; else one case exists at a time.
            step = 1 if self.one_by_one else len(pending)
            for at in range(0, len(pending), max(1, step)):
                cases = []
                for index in pending[at : at + step]:
                    self._beat(index)
                    made = self._made(index, attempt)
                    if isinstance(made, Case):
                        cases.append(made)
                    else:
                        yield made
                if cases:
                    self._beat(cases[0].index)
                for outcome in judge_all(cases, self._reference, self._tested, ulp.add_case):
                    if outcome.kind == "stopped" and attempt + 1 < self._source.attempts:
                        again.append(outcome.case.index)
                    else:
                        yield outcome
            pending = again

    def _made(self, index: int, attempt: int) -> Case | Failure:
        try:
            return self._source.case(index, attempt)
        except Exception as error:
            # A generator that fails is a finding like a machine that does.
            message = f"generator: {type(error).__name__}: {error}"
            return crash(self._seed, index, message)


def _source(plan: Plan) -> Source:
    if plan.programs:
        from .programs import Programs

        return Programs.of(plan)
    return Generated.of(plan)
