"""Making a failure in a folder smaller still."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...generate.programs import Case
from .. import kernels, machine_names
from ..machines import machine
from . import folder, reading, reduce, search
from .variants import depends, varied


@dataclass(frozen=True)
class Further:
    """What became of a failure: its folder is replaced where it is ``smaller``, or ``as small`` but examined.

    ``gone``: it does not show any more; ``withheld``: a machine was not executed, because only the folder
    names it. Then the folder stays as it is.
    """

    verdict: Literal["smaller", "as small", "gone", "withheld"]
    text: str


def shrink_folder(
    path: str | Path,
    calls: int,
    seconds: float = math.inf,
    *,
    against: str | None = None,
    tested: str | None = None,
    trust: bool = False,
    timeout: float = 60.0,
) -> Further:
    """Go on with the failure in a folder, for some cases on both machines.

    The machines are those of the folder's report where none are named; devices are executed only where they
    are named here, or with ``trust``. FileError for a folder that cannot be read.
    """
    failure, original = reading.read(path), reading.read(path, original=True)
    report = failure.report
    names = (against or report["reference"], tested or report["tested"])
    for named, name in zip((against, tested), names, strict=True):
        if named is None and not trust and machine_names.is_device(name):
            return Further("withheld", name)
    first, second = (machine(name, timeout) for name in names)
    form = kernels.form_for(failure.case, *names)
    machines = search.Machines(first, second, time.monotonic() + seconds, calls, form=form)
    blame = reduce.blamed(machines, failure.case)
    if not blame.finding.outcome.is_failure:
        return Further("gone", f"{blame.finding.outcome.kind}: {blame.finding.outcome.message}".rstrip(": "))
    made = reduce.reduced(machines, blame)
    variants = varied(machines, made.finding)
    about = folder.About(blame.instruction or report["instruction"], report["cause"], *names, variants)
    smaller = search.in_form(machines, made.finding)
    folder.write(Path(path), original.case, smaller, about)
    before, after = size(failure.case), size(smaller.case)
    said = f"{_said(before)} -> {_said(after)} in {made.steps} cases"
    only = depends(variants)
    return Further("smaller" if after < before else "as small", f"{said}; {only}" if only else said)


def size(case: Case) -> tuple[int, int, int]:
    """How large a case is: operations, elements of its arguments, elements that are not zero."""
    words = [i.words for i in case.inputs.values()]
    operations = sum(1 for _ in case.program.walk())
    return operations, sum(w.size for w in words), sum(int((w != 0).sum()) for w in words)


def _said(size: tuple[int, int, int]) -> str:
    operations, elements, filled = size
    return f"{operations} operations on {elements} elements, {filled} not zero"
