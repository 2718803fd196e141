"""What a campaign costs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...errors import Diagnostic, NotExecutableError, PtoError
from ...generate.programs import Case
from ..results import Run
from .block import Block
from .plan import Plan
from .pool import Pool


@dataclass(frozen=True)
class Measured:
    """What a campaign was measured to need.

    ``rate`` is cases per second of the blocks, without the start of the worker; ``first`` seconds to the
    first result, with it; ``memory`` the most bytes that the worker held after a block; ``cells`` coverage
    cells.
    """

    rate: float
    first: float
    memory: int
    cells: int


def measured(plan: Plan) -> Measured:
    """Execute a plan with one worker and nothing kept; PtoError when a case fails."""
    blocks = [Block(start, count) for start, count in plan.blocks()]
    cells: set[str] = set()
    began = time.monotonic()
    first = 0.0
    with Pool(plan, 1, print) as pool:
        for update in pool.run(iter(blocks)):
            if update is None:
                continue
            first = first or time.monotonic() - began
            for failed in update.piece.failures:
                raise PtoError(f"case {failed.case_id}, index {failed.case_index}: {failed.message}")
            cells.update(update.piece.coverage)
    return Measured(plan.count / sum(b.seconds for b in blocks), first, pool.peak, len(cells))


class Nothing:
    """A device that costs nothing, for ``python:`` as a machine: it declines every program."""

    name = "nothing"

    def run(self, case: Case) -> Run:
        """Raise NotExecutableError."""
        raise NotExecutableError(Diagnostic("error", "the device declines: it executes nothing"))
