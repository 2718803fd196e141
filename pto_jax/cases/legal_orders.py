"""The check of order as an executor of cases: no finding, and the bits of the text in other legal orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .. import errors, ir, profiles
from ..analysis.resolve import resolve
from ..analysis.roots import is_as_written
from ..generate.programs import Case
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from ..order import judged_program
from ..schedules import races
from ..schedules.machine import Schedule, ScheduledMachine
from . import rank_cases
from .targets import Oracle, Run, on_ranks

#: What makes results depend on the order of pipes; tiles that share bytes do not.
_KINDS = ("race", "deadlock", "unmatched")


@dataclass(frozen=True)
class LegalOrders:
    """``pto.races`` on the program of a case, then two executions with pipes in orders by chance.

    ``run`` raises UndefinedDataError for a finding, so that a program that is correct must have none. A
    mutant may have lost what it needs: for a finding ``run`` raises NotExecutableError there, and without one
    the bits of the other orders show whether the check has missed a race. Functions that a tool has still to
    synchronise are executed in the order of their text. Of a case for several processors the verdict on its
    ranks is checked, as :func:`.rank_cases.judged` says.
    """

    profile: profiles.ProfileName | None = None
    name: ClassVar[str] = "races"
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def run(self, case: Case) -> Run:
        """The results of a case in two orders that its number decides on."""
        if case.ranks is not None:
            return on_ranks(case, rank_cases.judged(case, self.profile))
        profile = profiles.profile(self.profile) if self.profile else case.profile
        results = [f.diagnostic for f in races(case.program, profile, grid=case.grid) if f.kind in _KINDS]
        if results and case.origin:
            raise errors.NotExecutableError(results[:1])
        if results:
            raise errors.UndefinedDataError(results)
        resolved = resolve(case.program, profile)
        judged = judged_program(resolved)
        if not all(map(is_as_written, filter(_computes, case.program.functions))):
            return Oracle(profile.name).run(case)

        def execute(schedule: Schedule) -> Run:
            def machine(policy: Policy, buffers: Mapping[str, Any], steps: int) -> ReferenceMachine:
                return ScheduledMachine(judged, schedule, policy, buffers, steps)

            return Oracle(profile.name, machine).run(replace(case, program=resolved.program))

        seed = int(case.id or "0", 16) % (1 << 32)
        one, two = (execute(Schedule((), seed, backwards, True)) for backwards in (False, True))
        return replace(one, others=((case, two),))


def _computes(function: ir.Function) -> bool:
    """Whether a function has an operation on tiles."""
    return any(isinstance(v.type, ir.TileType) for op in function.walk() for v in (*op.ins, *op.destinations))
