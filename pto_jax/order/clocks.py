"""Happens-before with vector clocks: a clock for every pipe of every core, and the last uses of each region.

Pipes run side by side; each executes its operations in program order. A flag, a barrier, a buffer token, a
flag between cores or a slot of a pipe hands what one agent has waited for to another one. An entry of a clock
says how many operations of another agent are complete before this agent begins its next one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ..ir import Op, Pipe
from .regions import Line, Region, Regions, Space

PIPES = tuple(pipe for pipe in Pipe if pipe != Pipe.ALL)
_INDEX: dict[Pipe, int] = {pipe: i for i, pipe in enumerate(PIPES)}
#: A clock: operations that are complete, by the number of the agent that executes them.
Clock = list[int]


class Use(NamedTuple):
    """An operation that reads or writes a region on a pipe of a core."""

    op: Op
    core: str
    pipe: Pipe
    value: str
    write: bool
    region: Region
    #: Whether the text itself has to order it; else a tool does within a core.
    written: bool = True
    #: Whether it adds to what is there in one step.
    atomic: bool = False

    @property
    def does(self) -> str:
        """The verb."""
        return "writes" if self.write else "reads"


#: Of a signal that announces a use: that is not complete, complete and not published, or in a cache only. Of
#: a use of another block behind it: it is not published. Of bytes beside it: they share a line of the cache.
#: Of an access inside a vector scope: the unit that executes both does not order them.
Announced: TypeAlias = Literal["", "open", "drained", "cached", "hidden", "line", "scope"]


class Race(NamedTuple):
    """Two uses of common bytes, at least one a write, that nothing orders."""

    first: Use
    second: Use
    announced: Announced = ""


#: An operation of a pipe: the number of the agent, and the number of the operation on it.
Moment: TypeAlias = tuple[int, int]


class Issued(NamedTuple):
    """An operation that a pipe has executed, and what was complete before it."""

    op: Op
    core: str
    pipe: Pipe
    moment: Moment
    before: Clock


@dataclass
class Trace:
    """All operations of an execution in their order, and every two of them that race."""

    issued: list[Issued] = field(default_factory=list)
    clashes: list[tuple[Moment, Moment]] = field(default_factory=list)


class Last(NamedTuple):
    """The last use of a region by an agent, and its place in the order of that agent."""

    epoch: int
    use: Use


@dataclass
class Clocks:
    """The clocks of one execution, and the races that it shows.

    ``vector``: operations of the vector pipe complete in order only behind a barrier of it. ``trace`` keeps
    the execution, if somebody wants it.
    """

    vector: bool = False
    trace: Trace | None = None
    regions: Regions = field(default_factory=Regions)
    races: dict[tuple[int, int, Pipe, Pipe], Race] = field(default_factory=dict)
    counts: dict[tuple[int, int, Pipe, Pipe], int] = field(default_factory=dict)
    _bases: dict[str, int] = field(default_factory=dict)
    _issued: Clock = field(default_factory=list)
    _clocks: list[Clock] = field(default_factory=list)
    _published: dict[str, Clock] = field(default_factory=dict)
    _written_back: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, Clock] = field(default_factory=dict)
    #: The blocks of cores by their names, where several blocks are followed.
    blocks: dict[str, str] = field(default_factory=dict)
    _last: dict[int, dict[tuple[int, bool], Last]] = field(default_factory=dict)
    #: The places of all executions of an operation in the order of an agent.
    _executed: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def agent(self, core: str, pipe: Pipe) -> int:
        """The number of a pipe of a core."""
        base = self._bases.get(core)
        if base is None:
            base = self._bases[core] = len(self._issued)
            more = [0] * len(PIPES)
            for clock in (self._issued, *self._clocks):
                clock += more
            self._clocks += [[0] * len(self._issued) for _ in PIPES]
        return base + _INDEX[pipe]

    def _of_core(self, core: str) -> range:
        base = self.agent(core, PIPES[0])
        return range(base, base + len(PIPES))

    # -- order -----------------------------------------------------------------------------------------

    def complete(self, core: str, pipe: Pipe) -> Clock:
        """What is complete when a pipe has executed all it was given so far."""
        if pipe == Pipe.ALL:
            clock = list(self._clocks[self.agent(core, Pipe.S)])
            for agent in self._of_core(core):
                clock = _joined(clock, self._clocks[agent])
                clock[agent] = self._issued[agent]
            return clock
        agent = self.agent(core, pipe)
        clock = list(self._clocks[agent])
        clock[agent] = self._issued[agent]
        return clock

    def issued(self, agent: int) -> int:
        """How many operations an agent was given so far."""
        return self._issued[agent]

    def before(self, core: str, pipe: Pipe) -> Clock:
        """What is complete when a pipe begins its next operation."""
        return list(self._clocks[self.agent(core, pipe)])

    def wait(self, core: str, pipe: Pipe, clock: Clock) -> None:
        """Later operations of a pipe come after what is complete; all pipes where the scalar one waits."""
        agents = self._of_core(core) if pipe in (Pipe.S, Pipe.ALL) else (self.agent(core, pipe),)
        for agent in agents:
            self._clocks[agent] = _joined(self._clocks[agent], clock)

    def barrier(self, core: str, pipe: Pipe) -> None:
        """Later operations of a pipe come after its earlier ones; of all pipes after all."""
        self.wait(core, pipe, self.complete(core, pipe))

    # -- uses ------------------------------------------------------------------------------------------

    def execute(self, uses: list[Use]) -> None:
        """An operation uses regions, all on pipes of its own core."""
        epochs = {(use.core, use.pipe): self.issue(use.core, use.pipe) for use in uses}
        for (core, pipe), epoch in epochs.items():
            self._executed.setdefault((self.agent(core, pipe), id(uses[0].op)), []).append(epoch)
        if self.trace is not None:
            for (core, pipe), epoch in epochs.items():
                moment, before = (self.agent(core, pipe), epoch), self.before(core, pipe)
                self.trace.issued.append(Issued(uses[0].op, core, pipe, moment, before))
        for use in uses:
            agent, number = self.agent(use.core, use.pipe), self.regions.of(use.region)
            for other, last, state in self._clashing(agent, number, use):
                self._meet(other, last, use, state)
        for use in uses:
            # The scalar unit has read before it issues anything else.
            if use.write or use.pipe != Pipe.S:
                agent, number = self.agent(use.core, use.pipe), self.regions.of(use.region)
                epoch = epochs[use.core, use.pipe]
                self._last.setdefault(number, {})[agent, use.write] = Last(epoch, use)

    def issue(self, core: str, pipe: Pipe) -> int:
        """The number of the next operation of a pipe."""
        agent = self.agent(core, pipe)
        self._issued[agent] += 1
        return self._issued[agent]

    def _clashing(self, agent: int, number: int, use: Use) -> Iterator[tuple[int, Last, Announced]]:
        clock = self._clocks[agent]
        line = isinstance(use.region.space.root, Line)
        for near in self.regions.near(number):
            for (other, write), last in self._last.get(near, {}).items():
                if not (write or use.write) or (last.use.atomic and use.atomic):
                    continue
                if other == agent and not (self.vector and use.pipe == Pipe.V):
                    continue
                if line and (last.use.core == use.core or Pipe.S not in (last.use.pipe, use.pipe)):
                    continue
                if clock[other] < last.epoch:
                    yield other, last, "line" if line else ""
                elif write and self.blocks and not self._is_seen(use.core, other, last):
                    yield other, last, "hidden"

    def _is_seen(self, core: str, other: int, last: Last) -> bool:
        """Whether what a core of another block has written in global memory is visible."""
        if last.use.region.space.loc is not None or self.blocks[last.use.core] == self.blocks[core]:
            return True
        seen = self._seen.get(core, [])
        return other < len(seen) and seen[other] >= last.epoch

    def _meet(self, other: int, last: Last, use: Use, state: Announced) -> None:
        first = last.use
        inside = first.core == use.core
        if inside and not (first.written or use.written):
            # Whoever inserts the synchronisation orders the two.
            clock = list(self._clocks[other])
            clock[other] = self._issued[other]
            self.wait(use.core, use.pipe, clock)
        else:
            agent = self.agent(use.core, use.pipe)
            if not (inside or state) and self._is_ahead(other, first, agent, use):
                first, use = use, first
            key = (id(first.op), id(use.op), first.pipe, use.pipe)
            self.races.setdefault(key, Race(first, use, state))
            self.counts[key] = self.counts.get(key, 0) + 1
            if self.trace is not None:
                self.trace.clashes.append(((other, last.epoch), (agent, self._issued[agent])))

    def _is_ahead(self, other: int, first: Use, agent: int, use: Use) -> bool:
        """Whether another core is a pass ahead, and its next pass is what nothing orders after the use.

        Each pass of the use comes after its own pass of the other operation.
        """
        waited = bisect(self._executed.get((other, id(first.op)), []), self._clocks[agent][other])
        return waited >= len(self._executed.get((agent, id(use.op)), [])) > 0

    def note(self, race: Race) -> None:
        """Two uses race that are found elsewhere."""
        key = (id(race.first.op), id(race.second.op), race.first.pipe, race.second.pipe)
        self.races.setdefault(key, race)
        self.counts[key] = self.counts.get(key, 0) + 1

    def forget_between_cores(self) -> None:
        """Forget what races between cores."""
        self.races = {key: race for key, race in self.races.items() if race.first.core == race.second.core}

    def publish(self, core: str) -> None:
        """What a core has written so far is visible to other cores and processors."""
        self._published[core] = self.complete(core, Pipe.ALL)

    def seen(self, core: str) -> Clock:
        """What others see of a core's writes, and of those that it has seen itself."""
        return _joined(self._published.get(core, []), self._seen.get(core, []))

    def see(self, core: str, visible: Clock) -> None:
        """What other blocks have published is visible to a core."""
        self._seen[core] = _joined(self._seen.get(core, []), visible)

    def write_back(self, core: str) -> None:
        """What the scalar unit has stored so far is no longer in its cache only."""
        self._written_back[core] = self._issued[self.agent(core, Pipe.S)]

    def announce(self, use: Use) -> None:
        """The scalar unit tells other processors that earlier uses of global memory are over.

        What it announces has to be complete, and what is written visible.
        """
        clock, visible = self._clocks[self.agent(use.core, Pipe.S)], self._published.get(use.core, [])
        for number, uses in self._last.items():
            if self.regions.known[number].space.loc is not None:
                continue
            for (agent, write), last in uses.items():
                if last.use.core != use.core or (last.use.pipe == Pipe.S and not write):
                    continue
                if last.use.pipe == Pipe.S and last.epoch <= self._written_back.get(use.core, 0):
                    continue
                visible_before = agent < len(visible) and visible[agent] >= last.epoch
                cached, complete = last.use.pipe == Pipe.S, clock[agent] >= last.epoch
                if cached or not complete or (write and not visible_before):
                    key = (id(last.use.op), id(use.op), last.use.pipe, Pipe.S)
                    state: Announced = "cached" if cached else "drained" if complete else "open"
                    self.races.setdefault(key, Race(last.use, use, state))
                    self.counts[key] = self.counts.get(key, 0) + 1

    def last_uses(self, space: Space) -> Iterator[Use]:
        """The last uses of the regions of a space."""
        for number, uses in self._last.items():
            if self.regions.known[number].space == space:
                yield from (last.use for last in uses.values())


def _joined(one: Clock, two: Clock) -> Clock:
    longer = max(len(one), len(two))
    a, b = one + [0] * (longer - len(one)), two + [0] * (longer - len(two))
    return [x if x > y else y for x, y in zip(a, b, strict=True)]


class Token(NamedTuple):
    """What a signal hands over: what was complete when it was given, and who gave it."""

    clock: Clock
    op: Op


#: What tells signals between cores apart: their kind, their number or pipe, who gives and who takes them.
Signal: TypeAlias = tuple[str, Hashable, str, str]


@dataclass
class Semaphores:
    """Counting signals between cores: tokens in their order, by what tells one signal from another."""

    tokens: dict[Signal, list[Token]] = field(default_factory=dict)

    def give(self, key: Signal, token: Token) -> None:
        """Add a token."""
        self.tokens.setdefault(key, []).append(token)

    def take(self, key: Signal) -> Token | None:
        """The oldest token, None where there is none."""
        waiting = self.tokens.get(key)
        return waiting.pop(0) if waiting else None
