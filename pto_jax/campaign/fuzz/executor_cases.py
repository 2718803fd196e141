"""Cases one by one on two machines: generated ones, and the user's own programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ... import errors, profiles
from ...generate.options import PRESETS, Options, on_blocks
from ...generate.programs import Case, generate
from .. import comparison, machines, results, targets
from ..devices.refusals import Refusals, finished
from ..devices.server import Server
from ..kernels import kernel, kernels_only
from ..recorder import Recorder
from ..report.ulp import Histograms
from . import batch, executor, messages
from .coverage import of_program
from .plan import Plan


class Source(Protocol):
    """Where cases come from.

    A case on which both machines stop at a run-time rule is drawn again, up to ``attempts`` times.
    """

    @property
    def attempts(self) -> int:
        """How often a case may be drawn."""

    @property
    def notes(self) -> Sequence[messages.Note]:
        """What a user should know about the cases."""

    def case(self, index: int, attempt: int) -> Case:
        """The case of an index; attempts, counted from 0, differ in its contents."""


@dataclass(frozen=True)
class Generated:
    """Generated programs; the presets take turns."""

    seed: int
    options: tuple[Options, ...]
    kernels: bool = False
    attempts: int = 1
    notes: tuple[messages.Note, ...] = ()

    @staticmethod
    def of(plan: Plan) -> Generated:
        """The cases of a plan; ArgumentError for a preset that there is not."""
        unknown = [p for p in plan.presets if p not in PRESETS]
        if unknown:
            raise errors.ArgumentError(f"no preset {', '.join(unknown)}; allowed: {' '.join(PRESETS)}")
        chosen = [PRESETS[p] for p in plan.presets or PRESETS]
        chosen = [replace(o, profiles=plan.profiles) if plan.profiles else o for o in chosen]
        chosen = [on_blocks(o, plan.grid) for o in chosen]
        kernels = plan.form == "kernel"
        chosen = [kernels_only(o) for o in chosen] if kernels else chosen
        return Generated(plan.seed, tuple(map(plan.focus.options, chosen)), kernels)

    def case(self, index: int, attempt: int = 0) -> Case:
        """The case of an index, the same for every attempt."""
        options = self.options[index % len(self.options)]
        return kernel(self.seed, index, options) if self.kernels else generate(self.seed, index, options)


class CaseExecutor(executor.Executor):
    """Executes blocks of cases; nothing of a case is kept but its counts and, if it fails, its record."""

    def __init__(self, plan: Plan, recorder: Recorder, beat: executor.Beat) -> None:
        self._seed, self._recorder, self._beat = plan.seed, recorder, beat
        self._reference = machines.machine(plan.reference, plan.dut_timeout)
        self._tested = machines.machine(plan.tested, plan.dut_timeout)
        for machine in (self._reference, self._tested):
            if isinstance(machine, Server):
                machine.must_start = True
        devices = (m for m in (self._reference, self._tested) if not targets.follows_profile(m))
        self._refusals = [Refusals(device) for device in devices]
        self._source = source_of(plan)
        self.notes = self._source.notes
        both = (self._reference, self._tested)
        self.one_by_one = not any(isinstance(m, targets.BatchTarget) for m in both)

    def pieces(self, start: int, count: int) -> Iterator[batch.Batch]:
        """One batch for each case, in the order of indices."""
        # A machine that takes many cases at once gets all of them; else one case exists at a time.
        step = 1 if self.one_by_one else count
        for first in range(start, start + count, step):
            ulp: defaultdict[int, Histograms] = defaultdict(Histograms)
            for outcome in self._outcomes(range(first, first + step), ulp):
                yield self._piece(outcome, ulp)

    def _piece(self, found: comparison.Outcome | batch.Failure, ulp: Mapping[int, Histograms]) -> batch.Batch:
        if isinstance(found, batch.Failure):
            return batch.alone(found)
        index = found.case.index
        failures: tuple[batch.Failure, ...] = ()
        if found.is_failure:
            record = self._recorder(found, self._reference, self._tested)
            failures = (executor.failure(found, record),)
        coverage = of_program(found.case.program) if found.kind in comparison.COMPARED else Counter[str]()
        kinds, refusals = Counter[str]({found.kind: 1}), Counter(set(found.refusals))
        return batch.Batch(index, 1, kinds, coverage, ulp[index].to_json(), failures, refusals)

    def _outcomes(
        self, indices: Sequence[int], ulp: Mapping[int, Histograms]
    ) -> Iterator[comparison.Outcome | batch.Failure]:
        """What became of each case; distances are counted in the histograms of its index."""

        def watch(case: Case, wanted: results.Run, found: results.Run) -> None:
            ulp[case.index].add_case(case, wanted, found)

        pending = list(indices)
        for attempt in range(self._source.attempts):
            cases: list[Case] = []
            for index in pending:
                self._beat(index)
                made = self._made(index, attempt)
                if isinstance(made, Case):
                    cases.append(made)
                else:
                    yield made
            if cases:
                self._beat(cases[0].index)
            pending = []
            for outcome in self._compared(cases, watch):
                if outcome.kind == "stopped" and attempt + 1 < self._source.attempts:
                    pending.append(outcome.case.index)
                else:
                    yield outcome

    def _compared(self, cases: Sequence[Case], watch: comparison.Watch) -> Iterator[comparison.Outcome]:
        """What became of each case, without what devices refuse of it."""
        left = [self._left_out(case) for case in cases]
        made = [case for case, _ in left if case is not None]
        outcomes = comparison.compare_cases(made, self._reference, self._tested, watch)
        for case, (executed, reasons) in zip(cases, left, strict=True):
            if executed is None:
                yield finished(None, case, reasons, self._reference, self._tested)
                continue
            outcome = next(outcomes)
            for refusals in self._refusals if outcome.kind == "refused" else ():
                outcome = refusals.compared(outcome, self._reference, self._tested, watch)
            yield replace(outcome, refusals=(*reasons, *outcome.refusals))

    def _left_out(self, case: Case) -> tuple[Case | None, tuple[str, ...]]:
        """The case without what devices are known to refuse, and why; None where nothing is left."""
        reasons: tuple[str, ...] = ()
        for refusals in self._refusals:
            made, more = refusals.accepted(case)
            reasons += more
            if made is None:
                return None, reasons
            case = made
        return case, reasons

    def _made(self, index: int, attempt: int) -> Case | batch.Failure:
        try:
            return self._source.case(index, attempt)
        except Exception as error:
            # A generator that fails is a finding like a machine that does.
            message = f"generator: {type(error).__name__}: {error}"
            return batch.crash(self._seed, index, message)


def source_of(plan: Plan) -> Source:
    """Where the cases of a plan come from. ArgumentError, FileError and PtoError for a plan that has none."""
    if plan.programs:
        from .programs import Programs

        return Programs.of(plan)
    made = Generated.of(plan)
    if plan.goal is None:
        return made
    from .aimed import Aimed
    from .goal_file import read_goal

    bins = read_goal(plan.goal, plan.profiles or profiles.PROFILE_NAMES)
    return Aimed(made.seed, made.options, bins, made.kernels)
