"""One case on two machines, and whether they agree.

>>> from pto_jax.testing.generate import generate
>>> from pto_jax.campaign.targets import Engine, Oracle
>>> judge(generate(1, 0), Oracle(), Engine()).kind
'equal'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..errors import ExecutionError, NotExecutableError
from ..testing.generate import Case
from .results import Mismatch, Run, mismatch
from .targets import Target

#: ``refused``: the program needs what a machine does not execute; ``stopped``: a run-time rule was found
#: broken, and results that there are agree; ``different``: the machines do not agree; ``crashed``: one of
#: them raised something else.
Kind = Literal["equal", "refused", "stopped", "different", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """What became of one case; the message says what was found, with the first element that differs."""

    kind: Kind
    case: Case
    reference: str
    tested: str
    message: str = ""
    mismatch: Mismatch | None = None

    @property
    def is_failure(self) -> bool:
        return self.kind in ("different", "crashed")

    def __str__(self) -> str:
        c = self.case
        inputs = "\n".join(
            f"{name} {i.type}{'' if i.valid is None else f' valid {i.valid}'}: "
            f"{' '.join(f'{int(w):x}' for w in i.words.reshape(-1)[:8])} ..."
            for name, i in c.inputs.items()
        )
        head = f"case {c.id} (seed {c.seed}, index {c.index}), {c.profile.name}"
        head = f"{head}, {self.tested} against {self.reference}: {self.kind}"
        return f"{head}\n{self.message}\n{c.program}\n{inputs}"


@dataclass
class Tally:
    """Counts of a campaign."""

    kinds: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.kinds[f"{outcome.tested} {outcome.kind}"] += 1
        self.instructions.update(op.name for op in outcome.case.program.walk())


def failures(
    cases: Iterable[Case], reference: Target, tested: Target, tally: Tally | None = None
) -> Iterator[Outcome]:
    """The failures among some cases."""
    for case in cases:
        outcome = judge(case, reference, tested)
        if tally is not None:
            tally.add(outcome)
        if outcome.is_failure:
            yield outcome


def judge(case: Case, reference: Target, tested: Target) -> Outcome:
    """One case on both machines."""

    def outcome(kind: Kind, message: str = "", found: Mismatch | None = None) -> Outcome:
        return Outcome(kind, case, reference.name, tested.name, message, found)

    wanted, stop = _attempt(lambda: reference.run(case))
    found, halt = _attempt(lambda: tested.run(case))
    refused = next((e for e in (stop, halt) if isinstance(e, NotExecutableError)), None)
    if refused is not None:
        return outcome("refused", str(refused))
    for who, error in ((reference.name, stop), (tested.name, halt)):
        if error is not None and not isinstance(error, ExecutionError):
            return outcome("crashed", f"{who}: {type(error).__name__}: {error}")
    if stop is not None or halt is not None:
        rules = [str(stop or _problems(wanted)), str(halt or _problems(found))]
        message = "; ".join(
            f"{t.name}: {r or 'no rule broken'}" for t, r in zip((reference, tested), rules, strict=True)
        )
        return outcome("stopped" if all(rules) else "different", message)
    assert wanted is not None and found is not None
    broken = [*wanted.problems, *found.problems]
    for name, value in wanted.outputs.items():
        differs = mismatch(case, name, found.outputs.get(name), value, reference.name)
        if differs is not None:
            return outcome("different", "; ".join([differs.message, *broken]), differs)
    return outcome("stopped" if broken else "equal", "; ".join(broken))


def _problems(run: Run | None) -> str:
    return "" if run is None else "; ".join(run.problems)


def _attempt(run: Callable[[], Run]) -> tuple[Run | None, Exception | None]:
    try:
        return run(), None
    except Exception as error:
        # Any exception is a finding about the machine that raised it.
        return None, error
