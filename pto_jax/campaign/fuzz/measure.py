"""What a campaign costs."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import PtoError
from .plan import Plan
from .pool import Pool


@dataclass(frozen=True)
class Measured:
    """Cases per second of the blocks, without the start of the worker; the most bytes that it held after a
    block; coverage cells."""

    rate: float
    memory: int
    cells: int


def measured(plan: Plan) -> Measured:
    """Execute a plan with one worker and nothing kept; PtoError when a case fails."""
    seconds, memory = 0.0, 0
    cells: set[str] = set()
    with Pool(plan, 1, print) as pool:
        for finished in pool.run(plan.blocks()):
            if finished is None:
                continue
            if finished.batch.failures:
                first = finished.batch.failures[0]
                raise PtoError(f"case {first.case_id}, index {first.case_index}: {first.message}")
            seconds += finished.seconds
            memory = max(memory, finished.memory)
            cells.update(finished.batch.coverage)
    return Measured(plan.count / seconds, memory, len(cells))
