"""Executing a failure again, and saying what is left of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...files.terminal import one_line
from ...generate.programs import Case
from .. import comparison, machine_names
from ..devices.exchange import load_outputs
from ..machines import DUT_TIMEOUT, machine
from ..report.programs import marked
from ..results import Run
from ..targets import Target
from . import folder, reading, search

Verdict = Literal["reproduced", "different", "gone", "refused", "withheld"]


@dataclass(frozen=True)
class Replay:
    """What a failure is now, in one word and in a text.

    ``withheld`` are the machines that were not executed because only the folder names them.
    """

    verdict: Verdict
    text: str
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """What a machine gave when the failure was found, in place of the machine."""

    machine: str
    file: Path

    @property
    def name(self) -> str:
        """The machine whose results they are."""
        return f"recorded results of {self.machine}"

    def run(self, case: Case) -> Run:
        """The recorded results; DeviceError where the file cannot be read as such."""
        return load_outputs(self.file, case)


def replay(
    path: str | Path,
    against: str | None = None,
    tested: str | None = None,
    original: bool = False,
    dut_timeout: float = DUT_TIMEOUT,
    trust: bool = False,
) -> Replay:
    """Execute the failure in a folder on both machines.

    The machines are those of the folder's report where none are named. Command lines and modules are
    executed only where they are named here, or with ``trust``; otherwise the results that the folder keeps
    of them are compared, and without such results (crashes, the ``original`` program) nothing is executed.
    ``different`` is a failure in another way. Raises FileError for a folder that cannot be read,
    ArgumentError for an unknown machine.
    """
    failure = reading.read(path, original)
    report = failure.report
    withheld: list[str] = []
    targets: list[Target] = []
    for key, named, results in (("reference", against, folder.EXPECTED), ("tested", tested, folder.GOT)):
        name = report[key] if named is None else named
        if trust or named is not None or not machine_names.is_device(name):
            targets.append(machine(name, dut_timeout))
            continue
        withheld.append(name)
        if not original and (Path(path) / results).is_file():
            targets.append(Recorded(name, Path(path) / results))
    names = (against or report["reference"], tested or report["tested"])
    if len(targets) < len(names):
        return Replay("withheld", _text(failure.case, names, "not executed", report), tuple(withheld))
    first, second = targets
    finding = search.Machines(first, second).run(failure.case)
    outcome = finding.outcome
    verdict = _verdict(finding, report["kind"], report["signature"])
    said = f"{_TITLES[verdict]}: {outcome.kind}" + (f": {outcome.message}" if outcome.message else "")
    only = report.get("only")
    said += f"\n{one_line(only)}" if isinstance(only, str) and only and not original else ""
    shown = [t.name if isinstance(t, Recorded) else n for t, n in zip(targets, names, strict=True)]
    text = _text(failure.case, shown, "\n".join([said, *_first(outcome, finding)]), report)
    return Replay(verdict, text, tuple(withheld))


def _verdict(finding: search.Finding, kind: str, signature: str) -> Verdict:
    outcome = finding.outcome
    if outcome.kind == "refused":
        return "refused"
    if not outcome.is_failure:
        return "gone"
    return "reproduced" if (outcome.kind, finding.signature) == (kind, signature) else "different"


_TITLES: dict[str, str] = {
    "reproduced": "reproduced",
    "different": "fails in another way",
    "gone": "does not show any more",
    "refused": "cannot be executed",
}


def _text(case: Case, names: Sequence[str], said: str, report: Mapping[str, Any]) -> str:
    reference, tested = names
    head = f"case {case.id} (seed {case.seed}, index {case.index}), profile {case.profile.name}"
    lines = [f"{head}: {tested} against {reference}", said, "", *_program(case, report["instruction"])]
    return "\n".join(lines)


def _first(outcome: comparison.Outcome, finding: search.Finding) -> list[str]:
    """The first element that differs, with its place and both values."""
    first = outcome.first
    if first is None or finding.wanted is None:
        return []
    shape = finding.wanted.outputs[first.operand].words.shape
    place = tuple(int(n) for n in np.unravel_index(first.index, shape))
    return [str(first).replace(f"element {first.index}", str(place), 1)]


def _program(case: Case, instruction: str) -> list[str]:
    """The program's text, the lines of the instruction at fault marked."""
    return [f"{'>' if at_fault else ' '} {line}" for at_fault, line in marked(str(case.program), instruction)]
