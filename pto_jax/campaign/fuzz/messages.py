"""What a campaign's process and its workers tell each other."""

from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field

from .batch import Batch


@dataclass(frozen=True)
class Task:
    """Cases of a block.

    The failures of ``unrecorded`` indices only get a row, because recording them ended a worker. ``folders``
    counts the failure folders that causes have in the block already.
    """

    start: int
    count: int
    unrecorded: frozenset[int] = frozenset()
    folders: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """The executor stands; on which device, and whether it tells of each case before it is executed."""

    device: str
    one_by_one: bool


@dataclass(frozen=True)
class Note:
    """What the user should know, and that is no result; ``rejected``: programs have errors."""

    text: str
    rejected: bool = False


@dataclass(frozen=True)
class Piece:
    """What became of some cases of a task, as soon as it is known; ``seconds`` they took."""

    batch: Batch
    seconds: float


@dataclass(frozen=True)
class Done:
    """All pieces of a task are sent; the bytes of memory that the worker holds."""

    memory: int


@dataclass(frozen=True)
class Failed:
    """The executor could not be made (``usage`` says that the command is wrong), or a task raised.

    ``final`` says that no task can be executed.
    """

    message: str
    usage: bool = False
    final: bool = False


@dataclass(frozen=True)
class Board:
    """Where a worker shows what it is doing, in memory that both processes see.

    The index of the case, whether its failure is being recorded, and a number that is another one each time
    it is written.

    >>> board = Board([0] * Board.SIZE)
    >>> board.show(7)
    >>> board.index, board.recording, board.beats
    (7, False, 1)
    """

    cells: MutableSequence[int]
    SIZE = 3

    def show(self, index: int, recording: bool = False) -> None:
        """Show the index of a case, and whether its failure is being recorded."""
        self.cells[0], self.cells[1] = index, recording
        self.cells[2] += 1

    @property
    def index(self) -> int:
        """The index of the case."""
        return self.cells[0]

    @property
    def recording(self) -> bool:
        """Whether the case's failure is being recorded."""
        return bool(self.cells[1])

    @property
    def beats(self) -> int:
        """How often the board was written."""
        return self.cells[2]
