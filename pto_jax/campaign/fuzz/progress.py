"""How far a campaign is, for the person who waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from .batch import Batch

#: Seconds between two lines, on a terminal and elsewhere.
REDRAWN, LOGGED = 0.2, 10.0


@dataclass
class Progress:
    """Cases, programs per second, failures, coverage cells and the time that is left, on one line.

    A terminal's line is redrawn; other streams get a line every ten seconds. ``done`` and ``failures`` are
    what there was before; the rate is that of the cases since then.

    >>> import io; from collections import Counter
    >>> now, stream = [0.0], io.StringIO()
    >>> progress = Progress(100, stream, clock=lambda: now[0])
    >>> now[0] = 20.0
    >>> progress.update(Batch(0, 40, Counter(equal=40), Counter({"tadd|f32|-|full|row": 3})))
    >>> stream.getvalue()
    '40/100 cases (40%), 2.0 programs/s, 0 failures, 1 coverage cells, 30 s left\\n'
    """

    total: int
    stream: TextIO | None
    done: int = 0
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    cells: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before, self.began = self.done, self.clock()
        self._shown, self._length, self._begun = self.began, 0, 0
        self._terminal = self.stream is not None and self.stream.isatty()

    def update(self, batch: Batch | None = None, begun: int = 0) -> None:
        """Count a finished block, and show the line when it is due; ``begun`` are the cases that are done of
        blocks that are not finished."""
        self._begun = begun
        if batch is not None:
            self.done += batch.count
            self.failures += len(batch.failures)
            self.cells.update(batch.coverage)
        now = self.clock()
        if self.stream is not None and now - self._shown >= (REDRAWN if self._terminal else LOGGED):
            self._shown = now
            self._show(str(self))

    def say(self, text: str) -> None:
        """Show a line of its own."""
        if self.stream is not None:
            self.clear()
            print(text, file=self.stream, flush=True)

    def clear(self) -> None:
        """Remove the line that is redrawn."""
        if self._length and self.stream is not None:
            print("\r" + " " * self._length, end="\r", file=self.stream, flush=True)
            self._length = 0

    @property
    def rate(self) -> float:
        """Cases per second since the campaign began or was resumed."""
        return (self.done + self._begun - self.before) / max(self.clock() - self.began, 1e-9)

    def __str__(self) -> str:
        done = self.done + self._begun
        share = 100 * done // max(1, self.total)
        left = f"{_duration((self.total - done) / self.rate)} left" if self.rate else "starting"
        rate = f"{self.rate:.{1 if self.rate < 100 else 0}f} programs/s"
        return (
            f"{done}/{self.total} cases ({share}%), {rate}, "
            f"{self.failures} failures, {len(self.cells)} coverage cells, {left}"
        )

    def _show(self, line: str) -> None:
        if not self._terminal:
            print(line, file=self.stream, flush=True)
            return
        padding = " " * max(0, self._length - len(line))
        print(f"\r{line}{padding}", end="", file=self.stream, flush=True)
        self._length = len(line)


def _duration(seconds: float) -> str:
    """Seconds in words.

    >>> _duration(75), _duration(12 * 3600)
    ('1 min 15 s', '12 h 0 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
