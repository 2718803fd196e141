"""One case on two executors, and the comparison of their results.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.cases.targets import Engine, Oracle
>>> compare_case(generate(1, 0), Oracle(), Engine()).kind
'equal'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..analysis.entries import arguments, select_entry
from ..analysis.provenance import GlobalTypes
from ..errors import ExecutionError, NotExecutableError, UndefinedDataError
from ..generate.programs import Case
from ..vectors.compare import Difference
from .answers import attempt, attempts
from .expectation import Open, open_bits
from .targets import (
    UNBOUNDED,
    Mismatch,
    Output,
    Run,
    Target,
    follows_profile,
    mismatch,
)

#: ``refused``: the program needs what a machine does not execute; ``stopped``: a run-time rule was found
#: broken, and results that there are agree; ``undefined``: nothing that a device gives has a defined value;
#: ``different``: the machines do not agree; ``crashed``: one of them raised something else.
Kind = Literal["equal", "refused", "stopped", "undefined", "different", "crashed"]
#: Kinds of cases that both machines executed, and whose results were compared.
COMPARED: tuple[Kind, ...] = ("equal", "different")


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
    #: What a machine does not execute, and why: of the whole program, or of operations that were left out.
    refusals: tuple[str, ...] = ()

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
    return _compared(case, reference, tested, attempt(reference, case), attempt(tested, case), watch)


def compare_cases(
    cases: Sequence[Case], reference: Target, tested: Target, watch: Watch | None = None
) -> Iterator[Outcome]:
    """Some cases on both machines; a machine that takes many at once gets all of them."""
    both = zip(cases, attempts(reference, cases), attempts(tested, cases), strict=True)
    for case, expected, result in both:
        yield _compared(case, reference, tested, expected, result, watch)


def _compared(
    case: Case,
    reference: Target,
    tested: Target,
    expected: Run | Exception,
    actual: Run | Exception,
    watch: Watch | None,
) -> Outcome:
    """The outcome of a case, or of the first case executed with it that fails."""
    outcome = _alone(case, reference, tested, expected, actual, watch)
    for other, run in actual.others if isinstance(actual, Run) else ():
        if outcome.is_failure:
            break
        beside = _alone(other, reference, tested, attempt(reference, other), run, None)
        outcome = beside if beside.is_failure else outcome
    return outcome


def _alone(
    case: Case,
    reference: Target,
    tested: Target,
    expected: Run | Exception,
    actual: Run | Exception,
    watch: Watch | None,
) -> Outcome:
    said = actual.log if isinstance(actual, Run) else getattr(actual, "output", "")

    def outcome(kind: Kind, message: str = "", differs: Mismatch | None = None) -> Outcome:
        return Outcome(kind, case, reference.name, tested.name, message, differs, said)

    both = ((reference, expected), (tested, actual))
    refused = next((e for _, e in both if isinstance(e, NotExecutableError)), None)
    if refused is not None:
        return replace(outcome("refused", str(refused)), refusals=(reason_of(refused),))
    devices = [machine for machine, _ in both if not follows_profile(machine)]
    opened = _Lazily(case, reference) if devices else None
    for machine, error in both:
        if isinstance(error, UndefinedDataError):
            return outcome("different", f"{machine.name}: {error}")
        if isinstance(error, Exception) and not isinstance(error, ExecutionError):
            if opened is not None and machine in devices and opened.bits.wild:
                return outcome("undefined", f"{Open.WILD}; {machine.name}: {error}")
            return outcome("crashed", f"{machine.name}: {type(error).__name__}: {error}")
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        # Devices need not notice what breaks a run-time rule.
        rules = {m.name: _rule_broken(r) for m, r in both if m not in devices or isinstance(r, Exception)}
        message = "; ".join(f"{name}: {r or 'no rule broken'}" for name, r in rules.items())
        return outcome("stopped" if all(rules.values()) else "different", message)
    if opened is not None:
        actual = opened.settled(expected, actual)
        if opened.leaves_nothing(expected):
            return outcome("undefined", opened.reason)
        expected = _with_read(case, expected, actual)
    if watch is not None:
        watch(case, expected, actual)
    broken = [*expected.problems, *actual.problems]
    for name, value in expected.outputs.items():
        differs = mismatch(case, name, actual.outputs.get(name), value, reference.name)
        if differs is not None:
            return outcome("different", "; ".join([differs.message, *broken]), differs)
    return outcome("stopped" if broken else "equal", "; ".join(broken))


def _with_read(case: Case, expected: Run, actual: Run) -> Run:
    """The results, and buffers that are only read, where they are given back: they hold what they held.

    What passes through a workspace may stay there, and the memory of tiles may be that of other tiles later.
    """
    returned = {
        name: Output(actual.outputs[name].dtype, given.words, actual.outputs[name].valid)
        for name, given in case.inputs.items()
        if name in actual.outputs and name not in expected.outputs and isinstance(given.type, GlobalTypes)
    }
    if not returned:
        return expected
    program = case.program
    function = program.functions[0] if program.fragment else select_entry(program, case.entry)
    read = {a.name for a in arguments(program, function) if a.read}
    kept = {name: output for name, output in returned.items() if name in read}
    return replace(expected, outputs={**expected.outputs, **kept})


class _Lazily:
    """What a case leaves open to a device, computed where a device gives something else."""

    reason = "every result follows from undefined data or has no exact value"

    def __init__(self, case: Case, reference: Target) -> None:
        self._case, self._profile = case, getattr(reference, "profile", None)

    @cached_property
    def bits(self) -> Open:
        return open_bits(self._case, self._profile)

    def settled(self, expected: Run, actual: Run) -> Run:
        """What a device gave, with the wanted bits where any are right."""
        outputs = dict(actual.outputs)
        for name, value in expected.outputs.items():
            run = outputs.get(name)
            if run is not None and mismatch(self._case, name, run, value, "") is not None:
                outputs[name] = self.bits.settled(name, value, run)
        return replace(actual, outputs=outputs)

    def leaves_nothing(self, expected: Run) -> bool:
        """Whether no result has an element that a device has to reproduce; an equal one is reproduced."""
        exact = [n for n in expected.outputs if self._case.ulp.get(n) != UNBOUNDED]
        return not exact or ("bits" in vars(self) and all(map(self.bits.is_open, exact)))


def reason_of(error: NotExecutableError) -> str:
    """Why a machine does not execute a program, in words that programs share."""
    return normalised(error.diagnostics[0].message if error.diagnostics else str(error))


def _rule_broken(result: Run | Exception) -> str:
    return str(result) if isinstance(result, Exception) else "; ".join(result.problems)


#: What differs between messages of one cause, and the length of what is left.
_INCIDENTAL = (
    (re.compile(r"(?<![\w.])(?:~?/[\w.+@-]+)+/?|\b[A-Za-z]:\\\\\S+"), "PATH"),
    (re.compile(r"\b0x[0-9a-fA-F]+"), "0xN"),
    (re.compile(r"%\w+"), "%"),
    (re.compile(r"\b[rs]?\d+(?:\.\d+)?\b"), "N"),
)


_LONGEST = 120


def normalised(message: str) -> str:
    """The last words of an error, without paths, addresses, names of values and numbers.

    >>> normalised(": loading | sim.cc:81: no tile %t3 at 0x7f00 in /tmp/x1/case.pto")
    'sim.cc:N: no tile % at 0xN in PATH'
    """
    lines = [part for part in re.split(r"\n| \| ", message.lstrip(": ")) if part.strip()]
    text = lines[-1].strip() if lines else ""
    for pattern, plain in _INCIDENTAL:
        text = pattern.sub(plain, text)
    return text[:_LONGEST].rstrip()
