"""Which uses of on-chip bytes the later operations of a pipe are known to come after: a dataflow state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple, TypeAlias

from ..ir import Op, Pipe, Value


class Use(NamedTuple):
    """A read or write by a pipe of the memory with a number."""

    pipe: Pipe
    number: int
    write: bool


@dataclass(frozen=True)
class Pending:
    """The last operation of a use, and the pipes whose later operations come after it.

    ``settled``: later operations of the pipe that executes it do not only begin, but read and write after it.
    """

    order: int
    op: Op
    value: Value
    seen: frozenset[Pipe]
    settled: bool = True


#: What tells a flag, an event or a token from others.
Signal: TypeAlias = tuple[object, ...]


@dataclass
class Order:
    """What is known at a place of the program: an element of the lattice of the hazard problem."""

    pending: dict[Use, Pending] = field(default_factory=dict)
    #: For every signal that was given: the uses that are complete when it arrives.
    signals: dict[Signal, frozenset[Use]] = field(default_factory=dict)

    def fork(self, defined: Sequence[Value] = ()) -> Order:
        """A state for one path from here."""
        return Order(dict(self.pending), dict(self.signals))

    def kept(self) -> Order:
        """What is remembered in front of a loop: everything."""
        return self.fork()

    def adopt(self, path: Order) -> None:
        """Become what a path is at its end."""
        self.pending, self.signals = path.pending, path.signals

    def weaken(self, other: Order) -> bool:
        """Become what is known where two paths meet; whether that is less."""
        joined = self._joined(other)
        if joined == self:
            return False
        self.adopt(joined)
        return True

    def _joined(self, other: Order) -> Order:
        pending = dict(self.pending)
        for use, found in other.pending.items():
            mine = pending.get(use)
            first = found if mine is None or found.order < mine.order else mine
            if mine is None:
                pending[use] = found
            else:
                seen, settled = found.seen & mine.seen, found.settled and mine.settled
                pending[use] = replace(first, seen=seen, settled=settled)
        signals: dict[Signal, frozenset[Use]] = {}
        for signal in {**self.signals, **other.signals}:
            here, there = self.signals.get(signal, frozenset()), other.signals.get(signal, frozenset())
            signals[signal] = frozenset(
                u
                for u in here | there
                if (u in here or u not in self.pending) and (u in there or u not in other.pending)
            )
        return Order(pending, signals)

    def done(self, uses: frozenset[Use], pipe: Pipe) -> None:
        """Later operations of ``pipe`` come after these uses; of all pipes where it is the scalar one."""
        for use in uses:
            known = self.pending.get(use)
            if known is None:
                continue
            if pipe == use.pipe and not known.settled:
                self.pending[use] = replace(known, settled=True)
            elif pipe in known.seen:
                continue
            elif pipe in (Pipe.S, Pipe.ALL):
                del self.pending[use]
            else:
                self.pending[use] = replace(known, seen=known.seen | {pipe})

    def before(self, pipe: Pipe) -> frozenset[Use]:
        """The uses that are complete when ``pipe`` has executed what it has been given so far."""
        if pipe == Pipe.ALL:
            return frozenset(self.pending)
        return frozenset(u for u, known in self.pending.items() if pipe in known.seen)

    def began(self, use: Use, pending: Pending) -> None:
        """A new use; signals given earlier say nothing about it."""
        self.pending[use] = pending
        for signal, uses in self.signals.items():
            if use in uses:
                self.signals[signal] = uses - {use}

    def forget(self, numbers: frozenset[int]) -> None:
        """A handle denotes other bytes from here on."""
        for pipe, number, write in product(Pipe, numbers, (False, True)) if numbers else ():
            self.pending.pop(Use(pipe, number, write), None)

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Uses of some memory count as uses of other memory from here on."""
        moved = {use for use in self.pending if use.number in numbers} if numbers else set[Use]()
        if not moved:
            return
        later = {use: use._replace(number=numbers[use.number]) for use in moved}
        renamed = Order(
            {later[use]: self.pending.pop(use) for use in moved},
            {s: frozenset(later.get(u, u) for u in uses) for s, uses in self.signals.items()},
        )
        self.signals = {s: uses - moved for s, uses in self.signals.items()}
        self.adopt(self._joined(renamed))
