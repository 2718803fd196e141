"""What a campaign costs."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import PtoError
from .block import Block
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
    blocks = [Block(start, count) for start, count in plan.blocks()]
    cells: set[str] = set()
    with Pool(plan, 1, print) as pool:
        for update in pool.run(iter(blocks)):
            if update is None:
                continue
            for first in update.piece.failures:
                raise PtoError(f"case {first.case_id}, index {first.case_index}: {first.message}")
            cells.update(update.piece.coverage)
    return Measured(plan.count / sum(b.seconds for b in blocks), pool.peak, len(cells))
