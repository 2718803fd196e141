"""A block of cases under way, the outcome of each case, and messages between processes about both."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any

from ...cases.ulp import Histograms
from ...generate.programs import case_id

#: ULP histograms that count nothing.
NO_ULP = Histograms().to_json()


@dataclass(frozen=True)
class Failure:
    """A row of the table ``failure``: the index and the identity of a case, and what became of it.

    ``detail`` has the first element that differs, where there is one: output, index, dtype, expected and got
    (hexadecimal), ulp.
    """

    index: int
    id: str
    kind: str
    profile: str = ""
    instruction: str = ""
    cause: str = ""
    message: str = ""
    folder: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """The outcome of a block.

    Cases per kind of outcome, coverage cells of those that were compared, ULP histograms as JSON text
    (:mod:`pto_jax.cases.ulp`), failures in the order of their indices, and the reasons why executors do not
    execute cases, each with its cases. The kinds add up to ``count``.
    """

    start: int
    count: int
    kinds: Counter[str]
    coverage: Counter[str]
    ulp: str = NO_ULP
    failures: tuple[Failure, ...] = ()
    refusals: Counter[str] = field(default_factory=Counter)


def crash(seed: int, index: int, message: str) -> Failure:
    """The row of a case that gave no outcome."""
    cause = f"crashed: {message.splitlines()[0]}"
    return Failure(index, case_id(seed, index), "crashed", cause=cause, message=message)


def alone(failure: Failure) -> Batch:
    """A block of one case that gave no outcome."""
    return Batch(failure.index, 1, Counter({failure.kind: 1}), Counter(), failures=(failure,))


class Tally:
    """The sum of adjoining blocks, to which the next one is added.

    >>> tally = Tally(4)
    >>> tally.add(Batch(4, 2, Counter(equal=2), Counter()))
    >>> tally.start, tally.end, tally.batch().kinds
    (4, 6, Counter({'equal': 2}))
    """

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self._kinds: Counter[str] = Counter()
        self._coverage: Counter[str] = Counter()
        self._ulp = Histograms()
        self.failures: list[Failure] = []
        self._refusals: Counter[str] = Counter()

    def add(self, batch: Batch) -> None:
        """Add the block that begins where this ends."""
        self.end = batch.start + batch.count
        self._kinds.update(batch.kinds)
        self._coverage.update(batch.coverage)
        if batch.ulp != NO_ULP:
            self._ulp.merge(Histograms.from_json(batch.ulp))
        self.failures.extend(batch.failures)
        self._refusals.update(batch.refusals)

    def batch(self) -> Batch:
        """The sum so far."""
        counts = Counter(self._kinds), Counter(self._coverage)
        ulp, failures = self._ulp.to_json(), tuple(self.failures)
        return Batch(self.start, self.end - self.start, *counts, ulp, failures, Counter(self._refusals))


#: First index and number of some cases.
Span = tuple[int, int]


class Block:
    """``count`` cases from ``start`` on.

    ``runs`` are the adjoining cases that are done, in order; ``todo`` the parts that are still to be
    executed, in the order in which they are given out. ``stored`` are the spans of the rows that a store
    has of the block, ``seconds`` what the cases took, ``worker`` who executed the last of them.

    >>> block = Block(8, 4)
    >>> block.add(Batch(9, 1, Counter(equal=1), Counter()))
    >>> block.left(8, 4), block.finished
    ([(8, 1), (10, 2)], False)
    """

    def __init__(self, start: int, count: int, done: Iterable[Batch] = (), seconds: float = 0.0) -> None:
        self.start, self.count, self.seconds = start, count, seconds
        self.runs: list[Tally] = []
        for batch in done:
            self.add(batch)
        self.stored = self.spans
        self.todo = self.left(start, count)
        #: Cases whose failures only get a row.
        self.unrecorded: frozenset[int] = frozenset()
        self.worker = 0

    @property
    def end(self) -> int:
        """The index after the last case."""
        return self.start + self.count

    @property
    def finished(self) -> bool:
        """Whether all cases are done."""
        return sum(run.end - run.start for run in self.runs) == self.count

    @property
    def spans(self) -> list[Span]:
        """The cases that are done."""
        return [(run.start, run.end - run.start) for run in self.runs]

    def add(self, piece: Batch, seconds: float = 0.0) -> None:
        """Take in what became of some cases that were not done."""
        self.seconds += seconds
        before = [n for n, run in enumerate(self.runs) if run.end <= piece.start]
        at = before[-1] + 1 if before else 0
        if at and self.runs[at - 1].end == piece.start:
            at -= 1
        else:
            self.runs.insert(at, Tally(piece.start))
        self.runs[at].add(piece)
        if at + 1 < len(self.runs) and self.runs[at + 1].start == self.runs[at].end:
            self.runs[at].add(self.runs.pop(at + 1).batch())

    def left(self, start: int, count: int) -> list[Span]:
        """What is not done of some cases."""
        end, at, spans = start + count, start, []
        for run in self.runs:
            if at < run.start < end:
                spans.append((at, run.start - at))
            at = max(at, run.end)
        return [*spans, (at, end - at)] if at < end else spans

    def batches(self) -> Iterator[Batch]:
        """What became of the cases that are done."""
        return (run.batch() for run in self.runs)

    def folders(self) -> Counter[str]:
        """How many failure folders each cause has."""
        return Counter(f.cause for run in self.runs for f in run.failures if f.folder is not None)


# -- messages between processes ----------------------------------------------------------------------


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
    """What the user should know, and that is no result; ``rejected``: programs have errors.

    One that is ``kept`` stands in the store and in summaries: something is lacking in the results.
    """

    text: str
    rejected: bool = False
    kept: bool = False


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
