"""One case on two machines, and whether they agree.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.campaign.targets import Engine, Oracle
>>> compare_case(generate(1, 0), Oracle(), Engine()).kind
'equal'
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import ExecutionError, NotExecutableError, UndefinedDataError
from ..generate.programs import Case
from ..vectors.compare import Difference
from .results import Mismatch, Run, mismatch
from .targets import BatchTarget, Target

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
    #: What the tested device said.
    output: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the machines disagree or one of them crashed."""
        return self.kind in ("different", "crashed")

    @property
    def first(self) -> Difference | None:
        """The first element that differs, where there is one."""
        comparison = self.mismatch.comparison if self.mismatch is not None else None
        return comparison.first if comparison is not None else None

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


#: Sees the results of a case on which both machines gave some: the case, the wanted and the found ones.
Watch = Callable[[Case, Run, Run], None]


def compare_case(case: Case, reference: Target, tested: Target, watch: Watch | None = None) -> Outcome:
    """One case on both machines."""
    return _compared(case, reference, tested, _attempt(reference, case), _attempt(tested, case), watch)


def compare_cases(
    cases: Sequence[Case], reference: Target, tested: Target, watch: Watch | None = None
) -> Iterator[Outcome]:
    """Some cases on both machines; a machine that takes many at once gets all of them."""
    both = zip(cases, attempts(reference, cases), attempts(tested, cases), strict=True)
    for case, wanted, found in both:
        yield _compared(case, reference, tested, wanted, found, watch)


def _compared(
    case: Case,
    reference: Target,
    tested: Target,
    wanted: Run | Exception,
    found: Run | Exception,
    watch: Watch | None,
) -> Outcome:
    said = found.log if isinstance(found, Run) else getattr(found, "output", "")

    def outcome(kind: Kind, message: str = "", differs: Mismatch | None = None) -> Outcome:
        return Outcome(kind, case, reference.name, tested.name, message, differs, said)

    both = ((reference.name, wanted), (tested.name, found))
    refused = next((e for _, e in both if isinstance(e, NotExecutableError)), None)
    if refused is not None:
        return outcome("refused", str(refused))
    for who, error in both:
        if isinstance(error, UndefinedDataError):
            return outcome("different", f"{who}: {error}")
        if isinstance(error, Exception) and not isinstance(error, ExecutionError):
            return outcome("crashed", f"{who}: {type(error).__name__}: {error}")
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        rules = [_rule_broken(r) for _, r in both]
        message = "; ".join(
            f"{who}: {r or 'no rule broken'}" for (who, _), r in zip(both, rules, strict=True)
        )
        return outcome("stopped" if all(rules) else "different", message)
    if watch is not None:
        watch(case, wanted, found)
    broken = [*wanted.problems, *found.problems]
    for name, value in wanted.outputs.items():
        differs = mismatch(case, name, found.outputs.get(name), value, reference.name)
        if differs is not None:
            return outcome("different", "; ".join([differs.message, *broken]), differs)
    return outcome("stopped" if broken else "equal", "; ".join(broken))


def _rule_broken(result: Run | Exception) -> str:
    return str(result) if isinstance(result, Exception) else "; ".join(result.problems)


def attempts(machine: Target, cases: Sequence[Case]) -> Iterable[Run | Exception]:
    """What a machine gives for some cases, in order; one by one as they are asked for, where it can."""
    if isinstance(machine, BatchTarget):
        return machine.run_all(cases)
    return (_attempt(machine, case) for case in cases)


def _attempt(machine: Target, case: Case) -> Run | Exception:
    try:
        return machine.run(case)
    except Exception as error:
        # Any exception is a finding about the machine that raised it.
        return error
