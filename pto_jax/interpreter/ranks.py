"""Processors side by side: what they share besides their code, and how an address says whose bytes it means.

Every rank has a part of every buffer. The parts of a window are symmetric: an address of one rank and the
distance of two windows give the same place in the window of another rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from ..errors import ExecutionError
from ..ir import Op, WaitCmp
from ..isa.effects import traits_of
from .operands import Pointer, Scalar

#: Bytes from the beginning of one buffer to that of the next, and of the windows of two ranks, as powers of
#: two: no window reaches the one behind it.
SPAN, STRIDE = 40, 48
#: Words of a context record: where the rank and the number, the size and the addresses of windows stand.
WORDS, RANKS, SIZE, WINDOWS_IN, WINDOWS_OUT = 132, 2, 3, 4, 68


class Cell(NamedTuple):
    """An element of a buffer."""

    buffer: str
    offset: int

    def __str__(self) -> str:
        name, of, rank = self.buffer.partition(" of rank ")
        return f"{name}[{self.offset}]{of}{rank}"


def part(name: str, rank: int) -> str:
    """What the part of a buffer that a rank has is called.

    >>> part("x", 1)
    'x of rank 1'
    """
    return f"{name} of rank {rank}"


def context(rank: int, count: int) -> list[int]:
    """The words of the context record of a rank.

    >>> record = context(1, 2)
    >>> len(record), record[2] & 0xFFFFFFFF, record[2] >> 32, (record[5] - record[4]) == 1 << STRIDE
    (132, 1, 2, True)
    """
    words = [0] * WORDS
    words[RANKS], words[SIZE] = rank | count << 32, 1 << STRIDE
    for r in range(count):
        words[WINDOWS_IN + r] = words[WINDOWS_OUT + r] = (r + 1) << STRIDE
    return words


class Watch:
    """What signals do, in the order in which they change and are waited for; this one notes nothing."""

    def notified(self, rank: int, op: Op, place: Pointer, value: Scalar, *, adds: bool) -> None:
        """A signal is about to change."""

    def waited(self, rank: int, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar) -> None:
        """A wait has come to its end."""

    def tested(
        self,
        rank: int,
        op: Op,
        places: Sequence[Pointer],
        compared: WaitCmp,
        value: Scalar,
        *,
        answer: bool,
    ) -> None:
        """A look at a signal has its answer."""

    def ended(self, rank: int) -> None:
        """A kernel of a rank has ended."""

    def met(self) -> None:
        """All ranks have met at the host."""


@dataclass
class Meetings:
    """Where the blocks of one kernel of a rank wait for each other.

    ``cores`` are the blocks and kinds that take part; ``counts`` say how often each has come to a place.
    """

    cores: tuple[tuple[int, str], ...]
    counts: dict[tuple[object, tuple[int, str]], int] = field(default_factory=dict)

    def come(self, place: object, core: tuple[int, str]) -> int:
        """A core has come to a place once more; how often it has."""
        self.counts[place, core] = self.counts.get((place, core), 0) + 1
        return self.counts[place, core]

    def lacking(self, place: object, times: int) -> tuple[tuple[int, str], ...]:
        """The cores that have not come to a place so often."""
        return tuple(core for core in self.cores if self.counts.get((place, core), 0) < times)


@dataclass
class World:
    """The processors of an execution.

    ``buffers`` are names of buffers in the order of their addresses, ``shared`` those of them that are
    windows. ``late``: asynchronous copies move their data where they are waited for. ``pauses``: cores may
    lose their turn before every operation that others can see. ``changes`` counts those operations.
    """

    count: int
    buffers: tuple[str, ...]
    shared: frozenset[str]
    late: bool = False
    pauses: bool = False
    changes: int = 0
    watch: Watch = field(default_factory=Watch)
    owners: Mapping[str, tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.owners = {part(n, r): (n, r) for n in self.buffers for r in range(self.count)}

    def touches(self, op: Op) -> bool:
        """Whether others can see an operation: it uses global memory, or orders cores or processors."""
        return _touches(op.name)

    def alters(self, op: Op) -> bool:
        """Whether others may go on after an operation."""
        return _alters(op.name)

    def memory(self) -> tuple[str, ...]:
        """The buffers by their addresses: that of the number k begins at k + 1 spans."""
        names = [""] * (self.count + 2 << STRIDE - SPAN)
        for name, (base, rank) in self.owners.items():
            names[(rank + 1 << STRIDE - SPAN) + self.buffers.index(base)] = name
        return tuple(names)

    def placed(self, op: Op, pointer: Pointer) -> Pointer:
        """A pointer that was moved, in the window that it points into; ExecutionError outside of all."""
        if not isinstance(pointer.offset, int) or pointer.buffer not in self.owners:
            return pointer
        bits, half = pointer.dtype.storage_bits, 1 << STRIDE - 1
        further = (pointer.offset * bits // 8 + half) >> STRIDE
        if not further:
            return pointer
        name, rank = self.owners[pointer.buffer]
        if name not in self.shared or not 0 <= rank + further < self.count:
            got = f"an address {further} windows away from {pointer.buffer}"
            allowed = "a window of the ranks" if name in self.shared else f"its own bytes; try: shared={name}"
            message = f"got {got}; allowed: {allowed}"
            raise ExecutionError(op.error("window", message))
        offset = pointer.offset - (further << STRIDE) * 8 // bits
        return replace(pointer, buffer=part(name, rank + further), offset=offset)


@lru_cache(maxsize=4096)
def _touches(name: str) -> bool:
    traits = traits_of(Op(name))
    order = traits.order
    between = order is not None and order.through in ("core", "cores", "signal", "transfer")
    return between or any(traits.has(a, "global", "remote") for a in ("read", "write"))


@lru_cache(maxsize=4096)
def _alters(name: str) -> bool:
    traits = traits_of(Op(name))
    signals = traits.order is not None and traits.order.role == "signal" and traits.order.through != "cores"
    return signals or traits.has("write", "global", "remote")
