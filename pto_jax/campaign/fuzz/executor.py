"""What executes the blocks of a campaign.

A campaign is a range of case indices cut into blocks. An executor turns a block into a :class:`Batch`,
which is a function of the block alone: executed again, in another process or after others, it is the same.
Work that is slow once (imports, compiled functions that all blocks share) belongs in the executor's
constructor, which has no time limit; a block has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..judge import Outcome
from ..recorder import Record, Recorder
from .batch import Batch as Batch, Failure as Failure
from .plan import Plan


class Executor(Protocol):
    """Executes the cases of indices ``start`` to ``start + count - 1``.

    What an executor counts as one case is its own choice, as long as every failure has a case of its own.
    """

    def run_block(self, start: int, count: int) -> Batch: ...


#: Told the index of a case before it is executed, so that a worker that hangs or crashes can be asked which.
Beat = Callable[[int], None]


def make(plan: Plan, recorder: Recorder, beat: Beat) -> Executor:
    """The executor of a campaign; the recorder is called once for each failure.

    Raises PtoError for machines and programs that there are not.
    """
    if plan.lockstep:
        from ..lockstep.executor import LockstepExecutor

        executor: Executor = LockstepExecutor(plan, recorder)
        return executor
    from .executor_cases import CaseExecutor

    return CaseExecutor(plan, recorder, beat)


def failure(outcome: Outcome, record: Record) -> Failure:
    """The row of an outcome and of what its recorder kept."""
    case = outcome.case
    return Failure(
        case.index,
        case.id,
        outcome.kind,
        case.profile.name,
        record.instruction,
        record.cause,
        outcome.message,
        record.folder,
        _detail(outcome),
    )


def _detail(outcome: Outcome) -> dict[str, Any]:
    found = outcome.mismatch
    if found is None:
        return {}
    first = found.comparison.first if found.comparison is not None else None
    if first is None:
        return {"output": found.output}
    digits = max(1, first.dtype.bits // 4)
    return {
        "output": found.output,
        "index": first.index,
        "dtype": first.dtype.name,
        "expected": f"0x{first.expected_bits:0{digits}x}",
        "got": f"0x{first.actual_bits:0{digits}x}",
        "ulp": first.ulp,
    }
