"""How far a campaign is, for the person who waits."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from .batch import Batch

#: Seconds between two lines, on a terminal and elsewhere.
REDRAWN, LOGGED = 0.2, 5.0
#: Cases of a campaign that goes on until its time is over.
ENDLESS = 1 << 40


@dataclass
class Progress:
    """Cases, programs per second, failures, coverage cells and the time that is left, on one line.

    A terminal's line is redrawn; other streams get a line every five seconds, and one with the first
    result. ``done`` and ``failures`` are what there was before; the rate is that of the cases since then.

    >>> import io; from collections import Counter
    >>> now, stream = [0.0], io.StringIO()
    >>> progress = Progress(100, stream, clock=lambda: now[0])
    >>> for now[0], start in ((2.5, 0), (20.0, 20)):
    ...     progress.update(Batch(start, 20, Counter(equal=20), Counter({"tadd|f32|-|full|row": 3})))
    >>> print(stream.getvalue(), end="")
    first result after 2.5 s
    40/100 cases (40%), 2.0 programs/s, 0 failures, 1 coverage cells, 30 s left

    ``shrinking`` failures are being shrunk, which takes the time of many cases.
    """

    total: int
    stream: TextIO | None
    done: int = 0
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    cells: set[str] = field(default_factory=set)
    #: After which the campaign ends, however many cases are left.
    seconds: float = math.inf
    shrinking: int = 0

    def __post_init__(self) -> None:
        self.before, self.began = self.done, self.clock()
        self._shown, self._length = self.began, 0
        self._terminal = self.stream is not None and self.stream.isatty()

    def update(self, piece: Batch | None = None) -> None:
        """Count some cases, and show the line when it is due."""
        first = piece is not None and self.done == self.before
        if piece is not None:
            self.done += piece.count
            self.failures += len(piece.failures)
            self.cells.update(piece.coverage)
        now = self.clock()
        if self.stream is None:
            return
        if first and not self._terminal:
            self._show(f"first result after {now - self.began:.1f} s")
        elif now - self._shown >= (REDRAWN if self._terminal else LOGGED):
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
        return (self.done - self.before) / max(self.clock() - self.began, 1e-9)

    @property
    def elapsed(self) -> float:
        """Seconds since the campaign began or was resumed."""
        return self.clock() - self.began

    def __str__(self) -> str:
        share = 100 * self.done // max(1, self.total)
        cases = f"{self.done}/{self.total} cases ({share}%)" if self.total < ENDLESS else f"{self.done} cases"
        rate = f"{self.rate:.{1 if self.rate < 100 else 0}f} programs/s"
        small = f", {self.shrinking} being shrunk" if self.shrinking else ""
        cells = f"{len(self.cells)} coverage cells"
        return f"{cases}, {rate}, {self.failures} failures{small}, {cells}, {self._left()}"

    def _left(self) -> str:
        """The time that is left, by the cases or by the end that was given."""
        until = max(0.0, self.seconds - self.elapsed)
        if not self.rate and until == math.inf:
            return "starting"
        cases = (self.total - self.done) / self.rate if self.rate else math.inf
        return f"{duration(min(cases, until))} left"

    def _show(self, line: str) -> None:
        if not self._terminal:
            print(line, file=self.stream, flush=True)
            return
        padding = " " * max(0, self._length - len(line))
        print(f"\r{line}{padding}", end="", file=self.stream, flush=True)
        self._length = len(line)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(75), duration(12 * 3600)
    ('1 min 15 s', '12 h 0 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
