"""The recorder of failures: shrinking, folders, and the names of groups that one defect explains."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ..cases.comparison import Outcome, normalised
from ..cases.targets import Target
from ..ir import AttrValue, Op
from . import differences, isolation, reduce
from .reduce import relevant

if TYPE_CHECKING:
    from .search import Machines

#: Folders that are written for the failures of one cause.
FOLDERS = 3


@dataclass(frozen=True)
class Record:
    """What a store keeps of a failure beside the outcome; failures of one ``cause`` belong together."""

    instruction: str = ""
    cause: str = ""
    folder: str | None = None
    #: Element types of the instruction.
    types: str = ""


#: Keeps a failure: the outcome, and the machines (reference and tested one) on which it was found.
Recorder = Callable[[Outcome, Target, Target], Record]


def forget(outcome: Outcome, reference: Target, tested: Target) -> Record:
    """A recorder that keeps nothing but the outcome's own words."""
    return Record(cause=f"{outcome.kind}: {outcome.message.splitlines()[0] if outcome.message else ''}")


class Keeper:
    """A recorder that finds causes and writes failure folders into ``folder``, ``each`` per cause.

    A failure may take ``seconds`` and ``calls`` of the machines, of which ``beat`` is told: first its
    instruction is found, which names the cause; where the cause has few folders yet, it is shrunk. Without a
    folder causes are named only. ``reference`` and ``tested`` are the machines as the command line names
    them, for replays; ``kept`` the folders that causes have already. With ``kernels`` the machines are
    given functions over pointers only.
    """

    def __init__(  # noqa: PLR0913 - keywords
        self,
        folder: str | Path | None,
        seconds: float,
        reference: str,
        tested: str,
        each: int = FOLDERS,
        kept: Mapping[str, int] | None = None,
        *,
        calls: float = math.inf,
        beat: Callable[[], object] = bool,
        kernels: bool = False,
    ) -> None:
        self._calls, self._beat, self._kernels = calls, beat, kernels
        self._folder = None if folder is None else Path(folder)
        self._seconds, self._each = seconds, each
        self._names = (reference, tested)
        self._kept = Counter(kept)

    def __call__(self, outcome: Outcome, reference: Target, tested: Target) -> Record:
        """The instruction and the cause of a failure, and its folder where one was written."""
        # What shrinks and writes needs JAX and is seldom needed.
        from ..cases.kernels import form_for
        from ..cases.targets import LegalOrders
        from ..generate.programs import GENERATED
        from .folder import About, save
        from .isolation import varied
        from .reduce import blamed, reduced
        from .search import Machines, in_form

        deadline = time.monotonic() + self._seconds
        form = form_for(outcome.case, *self._names, kernels=self._kernels)
        machines = Machines(reference, tested, deadline, self._calls, self._beat, form)
        if not self._calls or not self._seconds:
            return self._with_its_message(machines, outcome, reduced=False)
        if outcome.case.ranks is not None and isinstance(tested, LegalOrders):
            # Without its data a mutant may need nothing of what it lacks.
            is_mutant = outcome.case.origin[:1] == (GENERATED,)
            return self._with_its_message(machines, outcome, reduced=not is_mutant)
        blame = blamed(machines, outcome.case)
        cause, types = cause_of(blame), types_at_fault(blame)
        if self._folder is None or self._kept[cause] >= self._each:
            return Record(blame.instruction, cause, types=types)
        result = reduced(machines, blame)
        about = About(blame.instruction, cause, *self._names, varied(machines, result.finding))
        folder = save(self._folder, outcome.case, in_form(machines, result.finding), about)
        self._kept[cause] += 1
        return Record(blame.instruction, cause, str(folder), types)

    def _with_its_message(self, machines: Machines, outcome: Outcome, *, reduced: bool) -> Record:
        """A failure whose cause is what is said of it; ``reduced`` to the data that it needs, or as it is."""
        from .folder import About, save
        from .reduce import with_its_order

        message = next(iter(outcome.message.splitlines()), "")
        for name in (outcome.reference, outcome.tested):
            message = message.removeprefix(f"{name}: ")
        cause = f"{outcome.kind}: {normalised(message)}"
        if self._folder is None or self._kept[cause] >= self._each:
            return Record(cause=cause)
        machines.form = None
        run = with_its_order(machines, outcome.case) if reduced else machines.run(outcome.case)
        folder = save(self._folder, outcome.case, run, About("", cause, *self._names))
        self._kept[cause] += 1
        return Record(cause=cause, folder=str(folder))


#: Other instructions that a cause names.
_OTHERS = 3


def cause_of(blame: reduce.Blame) -> str:
    """The cause of a failure whose instruction has been found."""
    finding = blame.representative
    if not finding.outcome.is_failure:
        return "not reproduced when it was executed again"
    how = differences.difference(finding.outcome, finding.wanted, finding.found)
    if finding.outcome.kind == "crashed":
        return str(how)
    ops = [op for op in finding.case.program.walk() if op.name != "arith.constant"]
    at_fault = _at_fault(blame)
    if at_fault is None:
        return f"{blame.instruction or 'unknown instruction'}: {how}"
    others = sorted({op.name for op in ops} - {at_fault.name})
    names = ", ".join(others) if len(others) <= _OTHERS else "other instructions"
    among = f" with {names}" if others else ""
    subject = _described(at_fault) if how.is_numeric else at_fault.name
    return f"{subject}{among}: {how}"


def types_at_fault(blame: reduce.Blame) -> str:
    """The element types of the instruction at fault, as they stand in the smallest program."""
    op = _at_fault(blame)
    return "" if op is None else isolation.types_of(op)


def _at_fault(blame: reduce.Blame) -> Op | None:
    return next((o for o in blame.representative.case.program.walk() if o.name == blame.instruction), None)


def _described(op: Op) -> str:
    """An instruction with the attributes that are not at their defaults.

    >>> from pto_jax.ir import F32, I8, RoundMode, TileType, Value, attrs
    >>> a, b = (Value(n, TileType(d, 1, 32)) for n, d in (("a", F32), ("b", I8)))
    >>> _described(Op("tcvt", (a,), (b,), attributes=attrs(rmode=RoundMode.FLOOR)))
    'tcvt rmode=floor'
    """
    attributes = [f"{name}={_word(value)}" for name, value in relevant(op)]
    return " ".join([op.name, *attributes])


def _word(value: AttrValue) -> str:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return "x".join(map(_word, value)) if isinstance(value, tuple) else str(value)
