"""What becomes of a block of cases."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...generate.programs import case_id
from ..report.ulp import Histograms

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
    """What became of a block.

    Cases per kind of outcome, coverage cells of those that were compared, ULP histograms as JSON text
    (:mod:`..report.ulp`), failures in the order of their indices, and what machines do not execute with why,
    each with the cases that have it. The kinds add up to ``count``.
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


def alone(found: Failure) -> Batch:
    """A block of one case that gave no outcome."""
    return Batch(found.index, 1, Counter({found.kind: 1}), Counter(), failures=(found,))


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
