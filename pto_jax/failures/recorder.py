"""What becomes of a failure: it is shrunk, its folder is written, its cause is named."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..cases.comparison import Outcome
from ..cases.messages import normalised
from ..cases.targets import Target

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
        from .causes import cause_of, types_at_fault
        from .folder import About, save
        from .reduce import blamed, reduced
        from .search import Machines, in_form
        from .variants import varied

        deadline = time.monotonic() + self._seconds
        form = form_for(outcome.case, *self._names, kernels=self._kernels)
        machines = Machines(reference, tested, deadline, self._calls, self._beat, form)
        if not self._calls or not self._seconds:
            return self._as_it_is(machines, outcome)
        blame = blamed(machines, outcome.case)
        cause, types = cause_of(blame), types_at_fault(blame)
        if self._folder is None or self._kept[cause] >= self._each:
            return Record(blame.instruction, cause, types=types)
        result = reduced(machines, blame)
        about = About(blame.instruction, cause, *self._names, varied(machines, result.finding))
        folder = save(self._folder, outcome.case, in_form(machines, result.finding), about)
        self._kept[cause] += 1
        return Record(blame.instruction, cause, str(folder), types)

    def _as_it_is(self, machines: Machines, outcome: Outcome) -> Record:
        """A failure that is not made small: its cause is what is said of it."""
        from .folder import About, save

        cause = f"{outcome.kind}: {normalised(next(iter(outcome.message.splitlines()), ''))}"
        if self._folder is None or self._kept[cause] >= self._each:
            return Record(cause=cause)
        machines.form = None
        folder = save(self._folder, outcome.case, machines.run(outcome.case), About("", cause, *self._names))
        self._kept[cause] += 1
        return Record(cause=cause, folder=str(folder))
