"""Happens-before across ranks: what a wait for a signal comes after, and the uses that nothing orders.

A wait for a counter comes after an event if the counter cannot have the wanted value without the increments
behind that event. That is asked of the recorded execution, for every agent the latest such event at once, as
the greatest fixpoint: each wait begins as one after everything that it saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..interpreter.ranks import Cell
from ..ir import Op, Pipe, WaitCmp
from .clocks import Clock, Clocks, Last, Use

#: Times that an execution is judged again, if what waits come after has not settled before.
MOST_ROUNDS = 12


@dataclass
class RankClocks(Clocks):
    """The clocks of all ranks: the scalar unit's reads count for other cores, too."""

    scalar: dict[int, dict[int, tuple[int, Use]]] = field(default_factory=dict)

    def execute(self, uses: list[Use]) -> None:
        """An operation uses regions; a write comes after what the scalar units of other cores have read."""
        for use in (u for u in uses if u.write):
            clock = self.before(use.core, use.pipe)
            for near in self.regions.near(self.regions.of(use.region)):
                for agent, (epoch, last) in self.scalar.get(near, {}).items():
                    if last.core != use.core and _at(clock, agent) < epoch:
                        self._meet(agent, Last(epoch, last), use, "")
        super().execute(uses)
        for use in (u for u in uses if not u.write and u.pipe == Pipe.S):
            agent = self.agent(use.core, use.pipe)
            number = self.regions.of(use.region)
            self.scalar.setdefault(number, {})[agent] = self.complete(use.core, Pipe.S)[agent], use


def _at(clock: Clock, agent: int) -> int:
    return clock[agent] if agent < len(clock) else 0


class Notify(NamedTuple):
    """A change of a signal: who, what was complete before it, and its own place in the order of its agent."""

    op: Op
    core: str
    cell: Cell
    value: int
    adds: bool
    agent: int
    epoch: int
    clock: Clock

    def after(self, agent: int, epoch: int) -> bool:
        """Whether the change comes after an event of an agent."""
        return _at(self.clock, agent) >= epoch


class Waited(NamedTuple):
    """A wait for signals that has come to its end, or a look at them."""

    op: Op
    core: str
    cells: tuple[Cell, ...]
    compared: WaitCmp
    value: int
    agent: int
    epoch: int
    clock: Clock
    #: What was complete before it, whatever it saw.
    before: Clock
    #: Whether it lasts until the signal compares, unlike a look with the answer yes.
    sure: bool = True


#: Comparisons with a number that a counter goes down to, as those with its negative number.
_MIRRORED = {WaitCmp.LT: WaitCmp.GT, WaitCmp.LE: WaitCmp.GE}
_WORDS = 1 << 32


def upwards(wait: Waited, notifies: Sequence[Notify], initial: int) -> tuple[Waited, Sequence[Notify], int]:
    """A wait for a counter that goes up: with negative numbers of one that goes down, beyond those of a word.

    A counter of increments only that is to be equal to less than its first value wraps around.
    """
    below = wait.compared == WaitCmp.EQ and wait.value < initial
    if wait.compared in _MIRRORED or (below and all(m.value < 0 for m in notifies)):
        compared = _MIRRORED.get(wait.compared, wait.compared)
        mirrored = [m._replace(value=-m.value) for m in notifies]
        return wait._replace(compared=compared, value=-wait.value), mirrored, -initial
    if below and all(m.value > 0 for m in notifies):
        return wait._replace(value=wait.value + _WORDS), notifies, initial
    return wait, notifies, initial


def needed(compared: WaitCmp, value: int, initial: int) -> int | None:
    """The least value of a counter that satisfies a comparison; None where it is no least one.

    >>> needed(WaitCmp.GT, 3, 0), needed(WaitCmp.NE, 0, 0), needed(WaitCmp.LT, 3, 5)
    (4, 1, None)
    """
    if compared in (WaitCmp.GE, WaitCmp.EQ):
        return value
    if compared == WaitCmp.GT:
        return value + 1
    return initial + 1 if compared == WaitCmp.NE and value == initial else None


def acquired(wait: Waited, cell: Cell, notifies: Sequence[Notify], initial: int) -> Clock:
    """What is complete when a wait for a signal ends, whatever the order of those that nothing orders."""
    others: Sequence[Notify] = [m for m in notifies if not m.after(wait.agent, wait.epoch)]
    if any(not m.adds for m in others):
        return _mailbox(wait, others)
    wait, others, initial = upwards(wait, others, initial)
    least = needed(wait.compared, wait.value, initial)
    if least is None:
        return []
    before = sum(m.value for m in others if m.value < 0 and _at(wait.clock, m.agent) >= m.epoch)
    lacking, clocks = least - initial - before, []
    positive = [m for m in others if m.value > 0]
    for agent in range(max((len(m.clock) for m in positive), default=0)):
        clocks.append(_latest(agent, positive, lacking))
    return clocks


def _latest(agent: int, notifies: Sequence[Notify], lacking: int) -> int:
    """The latest event of an agent without which the increments do not suffice."""
    total = 0
    for m in sorted(notifies, key=lambda m: _at(m.clock, agent)):
        total += m.value
        if lacking > 0 and total >= lacking:
            return _at(m.clock, agent)
    return 0


_HOLDS = {
    WaitCmp.EQ: lambda a, b: a == b,
    WaitCmp.NE: lambda a, b: a != b,
    WaitCmp.GT: lambda a, b: a > b,
    WaitCmp.GE: lambda a, b: a >= b,
    WaitCmp.LT: lambda a, b: a < b,
    WaitCmp.LE: lambda a, b: a <= b,
}


def holds(compared: WaitCmp, current: int, value: int) -> bool:
    """Whether a signal compares as wanted.

    >>> holds(WaitCmp.GE, 2, 1)
    True
    """
    return bool(_HOLDS[compared](current, value))


def _mailbox(wait: Waited, notifies: Sequence[Notify]) -> Clock:
    """A mailbox: the wait comes after whichever set has given the value.

    That is none which another one has replaced before the wait.
    """
    earlier = [m for m in notifies if not m.adds and _at(wait.before, m.agent) >= m.epoch]
    fitting = [
        m
        for m in notifies
        if not m.adds
        and holds(wait.compared, m.value, wait.value)
        and not any(o is not m and o.after(m.agent, m.epoch) for o in earlier)
    ]
    if not fitting:
        return []
    width = max(len(m.clock) for m in fitting)
    return [min(_at(m.clock, agent) for m in fitting) for agent in range(width)]


def may_pass(wait: Waited, notifies: Sequence[Notify], initial: int) -> Iterator[Notify]:
    """The increments that may bring a counter past the one value that a wait wants."""
    if wait.compared != WaitCmp.EQ or any(not m.adds for m in notifies):
        return
    wait, notifies, initial = upwards(wait, notifies, initial)
    others = [m for m in notifies if m.value > 0 and not m.after(wait.agent, wait.epoch)]
    if initial + sum(m.value for m in others) > wait.value:
        yield from others[-1:]


def unordered(one: Notify, two: Notify) -> bool:
    """Whether nothing orders two changes of signals."""
    return not one.after(two.agent, two.epoch) and not two.after(one.agent, one.epoch)
