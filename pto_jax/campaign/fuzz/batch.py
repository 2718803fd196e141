"""What becomes of a block of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...testing.generate import case_id
from ..report.ulp import Histograms


@dataclass(frozen=True)
class Failure:
    """A row of the table ``failure``. ``detail`` has the first element that differs, where there is one:
    output, index, dtype, expected and got (hexadecimal), ulp."""

    case_index: int
    case_id: str
    kind: str
    profile: str = ""
    instruction: str = ""
    cause: str = ""
    message: str = ""
    folder: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """What became of a block: cases per kind of outcome, coverage cells, ULP histograms as JSON text
    (:mod:`..report.ulp`), failures in the order of their indices. The kinds add up to ``count``."""

    start: int
    count: int
    kinds: Counter[str]
    coverage: Counter[str]
    ulp: str = "{}"
    failures: tuple[Failure, ...] = ()


def crash(seed: int, index: int, message: str) -> Failure:
    """The row of a case that gave no outcome."""
    cause = f"crashed: {message.splitlines()[0]}"
    return Failure(index, case_id(seed, index), "crashed", cause=cause, message=message)


def alone(found: Failure) -> Batch:
    """A block of one case that gave no outcome."""
    return Batch(found.case_index, 1, Counter({found.kind: 1}), Counter(), failures=(found,))


def joined(parts: Iterable[Batch]) -> Batch:
    """Adjoining blocks as one; at least one.

    >>> parts = [Batch(2, 1, Counter(equal=1), Counter()), Batch(0, 2, Counter(equal=2), Counter())]
    >>> joined(parts).start, joined(parts).count, joined(parts).kinds
    (0, 3, Counter({'equal': 3}))
    """
    ordered = sorted(parts, key=lambda b: b.start)
    kinds: Counter[str] = Counter()
    coverage: Counter[str] = Counter()
    ulp = Histograms()
    for part in ordered:
        kinds.update(part.kinds)
        coverage.update(part.coverage)
        ulp.merge(Histograms.from_json(part.ulp))
    failures = tuple(f for part in ordered for f in part.failures)
    return Batch(ordered[0].start, sum(b.count for b in ordered), kinds, coverage, ulp.to_json(), failures)
