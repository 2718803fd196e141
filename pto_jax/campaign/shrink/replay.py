"""Executing a failure again, and saying what is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from ...testing.generate import Case
from ..judge import Outcome
from ..machines import DUT_TIMEOUT, machine
from .reading import read
from .search import Finding, Machines

Verdict = Literal["reproduced", "different", "gone", "refused"]


def replay(
    path: str | Path,
    against: str | None = None,
    tested: str | None = None,
    original: bool = False,
    dut_timeout: float = DUT_TIMEOUT,
) -> tuple[Verdict, str]:
    """Execute the failure in a folder on both machines; the verdict, and a text that describes it.

    The machines are those of the folder's report where none are named. ``different`` is a failure in
    another way. Raises FileError for a folder that cannot be read, ArgumentError for an unknown machine.
    """
    failure = read(path, original)
    names = (against or failure.report["reference"], tested or failure.report["tested"])
    first, second = (machine(name, dut_timeout) for name in names)
    finding = Machines(first, second).run(failure.case)
    verdict = _verdict(finding, failure.report["kind"], failure.report["signature"])
    return verdict, _text(verdict, finding, names, failure.report["instruction"])


def _verdict(finding: Finding, kind: str, signature: str) -> Verdict:
    outcome = finding.outcome
    if outcome.kind == "refused":
        return "refused"
    if not outcome.is_failure:
        return "gone"
    return "reproduced" if (outcome.kind, finding.signature) == (kind, signature) else "different"


_TITLES: dict[Verdict, str] = {
    "reproduced": "reproduced",
    "different": "fails in another way",
    "gone": "does not show any more",
    "refused": "cannot be executed",
}


def _text(verdict: Verdict, finding: Finding, names: tuple[str, str], instruction: str) -> str:
    case, outcome = finding.case, finding.outcome
    lines = [
        f"case {case.id} (seed {case.seed}, index {case.index}), profile {case.profile.name}: "
        f"{names[1]} against {names[0]}",
        f"{_TITLES[verdict]}: {outcome.kind}" + (f": {outcome.message}" if outcome.message else ""),
        *_first(outcome, finding),
        "",
        *_program(case, instruction),
    ]
    return "\n".join(lines)


def _first(outcome: Outcome, finding: Finding) -> list[str]:
    """The first element that differs, with its place and both values."""
    differs = outcome.mismatch
    first = differs.comparison.first if differs is not None and differs.comparison is not None else None
    if first is None or finding.wanted is None:
        return []
    shape = finding.wanted.outputs[first.operand].words.shape
    place = tuple(int(n) for n in np.unravel_index(first.index, shape))
    return [str(first).replace(f"element {first.index}", str(place), 1)]


def _program(case: Case, instruction: str) -> list[str]:
    """The program's text, the lines of the instruction at fault marked."""

    def marked(line: str) -> bool:
        words = line.replace("(", " ").split()
        return bool(instruction) and any(w in (instruction, f"pto.{instruction}") for w in words)

    return [f"{'>' if marked(line) else ' '} {line}" for line in str(case.program).splitlines()]
