"""Trying smaller cases: a candidate replaces the best one where it is legal and fails in the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..cases import recording, targets
from ..cases.comparison import Outcome, compare_case
from ..cases.edits import digest, is_legal
from ..generate.programs import Case
from . import differences


@dataclass(frozen=True)
class Finding:
    """A case on both machines: the outcome, and the results where both gave some."""

    outcome: Outcome
    wanted: targets.Run | None = None
    found: targets.Run | None = None

    @property
    def case(self) -> Case:
        """The case that was executed."""
        return self.outcome.case

    @property
    def signature(self) -> str:
        """What a smaller case must have in common with this one."""
        return differences.difference(self.outcome, self.wanted, self.found).kind


def in_form(machines: Machines, finding: Finding) -> Finding:
    """The failure of a case in the form in which it was executed."""
    executed = None if machines.form is None else machines.form(finding.case)
    if executed is None or executed is finding.case:
        return finding
    return replace(finding, outcome=replace(finding.outcome, case=executed))


class Exhausted(Exception):
    """The time or the calls of a search are spent."""


@dataclass
class Machines:
    """The two machines of a failure, what is left to spend, and how many cases they have executed.

    ``calls`` cases may be executed on the machines until ``deadline``; ``beat`` is called before each. They
    are executed in a ``form``; a case that has none is refused.
    """

    reference: targets.Target
    tested: targets.Target
    deadline: float = math.inf
    calls: float = math.inf
    beat: Callable[[], object] = bool
    form: Callable[[Case], Case | None] | None = None
    steps: int = 0
    _seen: set[str] = field(default_factory=set)

    def run(self, case: Case) -> Finding:
        """A case on both machines, whatever time is left."""
        executed = case if self.form is None else self.form(case)
        if executed is None:
            return Finding(Outcome("refused", case, self.reference.name, self.tested.name, "of another form"))
        self.steps += 1
        self.beat()
        seen: list[tuple[targets.Run, targets.Run]] = []
        outcome = compare_case(
            executed, self.reference, self.tested, lambda _, expected, actual: seen.append((expected, actual))
        )
        return Finding(replace(outcome, case=case), *(seen[0] if seen else ()))

    def fails(self, case: Case | None, signature: str) -> Finding | None:
        """What a legal case gives, where it fails in the wanted way; others are tried once.

        Raises Exhausted when the time is over or all calls are spent.
        """
        if time.monotonic() > self.deadline or self.steps >= self.calls:
            raise Exhausted
        mark = f"{signature} {digest(case)}" if case is not None else ""
        if case is None or mark in self._seen or not is_legal(case) or not recording.ends(case):
            return None
        finding = self.run(case)
        if finding.outcome.is_failure and finding.signature == signature:
            return finding
        self._seen.add(mark)
        return None


@dataclass
class Search:
    """The smallest failing case so far."""

    machines: Machines
    best: Finding
    signature: str
    _taken: set[str] = field(default_factory=set)

    @property
    def case(self) -> Case:
        """The smallest failing case so far."""
        return self.best.case

    def attempt(self, candidate: Case | None) -> bool:
        """Take a smaller case where it fails in the same way; none is taken twice."""
        mark = digest(candidate) if candidate is not None else ""
        finding = self.machines.fails(candidate, self.signature) if mark not in self._taken else None
        if finding is not None:
            self.best = finding
            self._taken.add(mark)
        return finding is not None

    def first(self, candidates: Iterable[Case | None]) -> bool:
        """Take the first of some cases that fails in the same way."""
        return any(self.attempt(c) for c in candidates)
