"""What ``python -m benchmarks`` measures with: figures, runs, and times of calls."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

ROUNDS = 9
#: The batch of tiles whose size the copy bandwidth is measured at.
TILES = 4096
ROWS = COLS = 64
#: Of a figure that every machine may compare, whether less or more of it is better; empty for others.
Better: TypeAlias = Literal["", "lower", "higher"]


@dataclass(frozen=True)
class Figure:
    """One measured number; ``target`` is what the design asks for, empty when it asks for nothing.

    Ratios inside of one run say what is ``better``; ``python -m benchmarks --check`` compares these.
    """

    name: str
    value: float
    unit: str
    target: str = ""
    better: Better = ""

    def __str__(self) -> str:
        target = f"   (wanted {self.target})" if self.target else ""
        return f"  {self.name:<44}{self.value:>12.3f} {self.unit}{target}"


@dataclass
class Run:
    """One benchmark run: the machine's copy bandwidth is measured once, next to the cases."""

    figures: list[Figure] = field(default_factory=list)
    _bandwidth: float | None = None

    def add(self, name: str, value: float, unit: str, target: str = "", better: Better = "") -> None:
        """Keep a figure and print it."""
        self.figures.append(Figure(name, value, unit, target, better))
        print(self.figures[-1], flush=True)

    @property
    def bandwidth(self) -> float:
        """Bytes per second that XLA copies (reads and writes counted) at the size of the tile batch."""
        if self._bandwidth is None:
            words = jnp.asarray(np.arange(TILES * ROWS * COLS * 2, dtype=np.uint32))
            seconds = median(jax.jit(lambda x: x ^ np.uint32(1)), words)
            self._bandwidth = 2 * words.nbytes / seconds
            self.add("copy bandwidth", self._bandwidth / 1e9, "GB/s")
        return self._bandwidth


def wait(x: Any) -> None:
    """Wait until arrays are computed."""
    jax.block_until_ready(x)  # type: ignore[no-untyped-call]


def _seconds(f: Callable[..., Any], *args: Any, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    wait(f(*args))
    return clock() - start


def median(f: Callable[..., Any], *args: Any) -> float:
    """Median seconds of a call, compiled and warm."""
    wait(f(*args))
    return statistics.median([_seconds(f, *args) for _ in range(ROUNDS)])


def paired(f: Callable[..., Any], g: Callable[..., Any], *args: Any) -> tuple[float, float, float]:
    """Median seconds of two calls taken in turn, and the median of their ratios."""
    wait((f(*args), g(*args)))
    seconds = [(_seconds(f, *args), _seconds(g, *args)) for _ in range(ROUNDS)]
    first, second = (statistics.median(t) for t in zip(*seconds, strict=True))
    return first, second, statistics.median(a / b for a, b in seconds)


def least(
    *calls: Callable[[], Any],
    rounds: int = ROUNDS,
    seconds: float = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The least seconds of each of some calls taken in turn: other work on the machine only adds.

    They are called ``rounds`` times, and again until ``seconds`` have passed; ``clock`` may be that of the
    process, whose time others do not take.
    """
    times = [math.inf] * len(calls)
    for call in calls:
        wait(call())
    began, done = time.perf_counter(), 0
    while done < rounds or time.perf_counter() - began < seconds:
        times = [min(best, _seconds(call, clock=clock)) for best, call in zip(times, calls, strict=True)]
        done += 1
    return times
