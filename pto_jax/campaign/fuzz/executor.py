"""What executes the blocks of a campaign.

A campaign is a range of case indices cut into blocks. An executor turns cases into pieces, each a
:class:`Batch` that is a function of its cases alone: executed again, in another process or after others,
it is the same, and the sum of a block's pieces is the same however the block was divided.
Work that is slow once (imports, compiled functions that all blocks share) belongs in the executor's
constructor, which has no time limit; a block has one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...generate.programs import Case
from .. import comparison, recorder
from .batch import Batch, Failure
from .messages import Note


class Executor(ABC):
    """Executes the cases of indices ``start`` to ``start + count - 1``.

    What an executor counts as one case is its own choice, as long as every failure has a case of its own.
    """

    #: What a user should know about the cases.
    notes: Sequence[Note] = ()
    #: Whether each case is executed, and told of, before the next one begins.
    one_by_one = False

    @abstractmethod
    def pieces(self, start: int, count: int) -> Iterator[Batch]:
        """What became of the cases, each batch as soon as it is known.

        A failure ends its batch, so that no case waits for the recording of another one's failure.
        """


#: Told what a user should know who waits.
Say = Callable[[str], object]
#: Told the index of a case before it is executed, so that a worker that hangs or crashes can be asked which.
Beat = Callable[[int], None]


def failure(outcome: comparison.Outcome, record: recorder.Record) -> Failure:
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
        _detail(outcome) | _origin(outcome.case) | ({"types": record.types} if record.types else {}),
    )


def _origin(case: Case) -> dict[str, Any]:
    return {"origin": "; ".join(case.origin)} if case.origin else {}


def _detail(outcome: comparison.Outcome) -> dict[str, Any]:
    mismatch = outcome.mismatch
    if mismatch is None:
        return {}
    first = outcome.first
    if first is None:
        return {"output": mismatch.output}
    expected, actual = first.bits
    return {
        "output": mismatch.output,
        "index": first.index,
        "dtype": first.dtype.name,
        "expected": expected,
        "got": actual,
        "ulp": first.ulp,
    }
