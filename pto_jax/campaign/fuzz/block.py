"""A block under way: which of its cases are done, and what became of them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from .batch import Batch, Tally

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
