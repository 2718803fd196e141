"""The blocks of a launch side by side: where their cores meet, and what an arrival says about data.

A barrier of all cores, and a flag for the cores of all blocks, hand over what is complete. Another block sees
what a core has written only once it is published, too: by a fence, or by the flag of the pipe that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..errors import Diagnostic, ExecutionError
from ..interpreter import Operand, Steps
from ..interpreter.cores import Block, Core
from ..interpreter.interpreter import Waiting
from ..interpreter.together import go_on
from ..ir import CoreType, KernelKind, Op, Pipe
from ..isa import effects
from .clocks import Clock, Clocks
from .machine import OrderMachine

#: What a core waits for at a barrier of all cores.
ALL = "the cores of all blocks"
#: The steps of the cores of a block.
Running: TypeAlias = dict[Core, Steps[tuple[Operand, ...]]]


class Member(NamedTuple):
    """A core of a launch by its name, with its kind: "" for one that executes everything."""

    name: str
    kind: str


class Arrival(NamedTuple):
    """What a core had complete when it arrived, and what of it other blocks see."""

    done: Clock
    visible: Clock


class ForBlocks(Waiting):
    """A core waits for the cores of other blocks."""


def prefix(number: int | None) -> str:
    """What the names of a block's cores begin with; nothing where one block is followed."""
    return "" if number is None else f"block {number} "


def block_of(core: str) -> str:
    """The block of a core, as its name says.

    >>> block_of("block 1 vector0"), block_of("cube")
    ('block 1', '')
    """
    return " ".join(core.split(" ")[:2]) if core.startswith("block ") else ""


@dataclass
class Meetings:
    """The barriers and flags of all cores: who has arrived how often."""

    clocks: Clocks
    members: list[Member] = field(default_factory=list)
    arrivals: dict[tuple[object, str], list[Arrival]] = field(default_factory=dict)
    taken: dict[tuple[object, str], int] = field(default_factory=dict)
    changes: int = 0

    def pass_by(self, op: Op, core: str, member: Member) -> Steps[None]:
        """Arrive, wait, or both, as an operation says; ``core`` is the one whose pipes it orders."""
        order = effects.traits_of(op).order
        assert order is not None
        expected = _kind(op, member.kind)
        key = (op.attrs.get("event"), expected)
        if order.role != "wait":
            self.arrivals.setdefault((key, member.name), []).append(self.arrival(op, core))
            self.changes += 1
        if order.role == "signal":
            return
        number = self.taken.get((key, member.name), 0)
        taking = [m.name for m in self.members if not expected or not m.kind or m.kind == expected]
        while any(len(self.arrivals.get((key, other), ())) <= number for other in taking):
            yield ForBlocks(op, ALL)
        self.taken[key, member.name] = number + 1
        for other in taking:
            if other != member.name:
                arrival = self.arrivals[key, other][number]
                self.clocks.wait(core, Pipe.ALL, arrival.done)
                self.clocks.see(core, arrival.visible)
        self.changes += 1

    def arrival(self, op: Op, core: str) -> Arrival:
        """Behind a flag what its pipe has done, at a barrier what the core has waited for."""
        pipe = op.attrs.get("pipe")
        if isinstance(pipe, Pipe):
            done = self.clocks.complete(core, pipe)
            return Arrival(done, done)
        return Arrival(self.clocks.before(core, Pipe.S), self.clocks.seen(core))


def _kind(op: Op, own: str) -> str:
    """The kind of cores that take part; "" for all of them."""
    match op.attrs.get("core"):
        case CoreType.AIC_ONLY:
            return "cube"
        case CoreType.MIX:
            return ""
        case CoreType.AIV_ONLY:
            return "vector"
        case _:
            return own


def kind_of(name: str) -> str:
    """The kind of a core by its name inside its block."""
    return next((k.name.lower() for k in KernelKind if name.startswith(k.name.lower())), "")


def launched(
    machine: OrderMachine, meetings: Meetings, blocks: Mapping[int | None, tuple[Block, Running]]
) -> None:
    """Execute the cores of all blocks; ExecutionError where some of them wait for ever."""
    left = {n: _steps(machine, prefix(n), *block) for n, block in blocks.items()}
    while left:
        before, waiting = meetings.changes, {}
        for number, steps in list(left.items()):
            try:
                waiting[number] = next(steps)
            except StopIteration:
                del left[number]
                meetings.changes += 1
        if waiting and meetings.changes == before:
            raise ExecutionError([_stuck(n, w) for n, wait in waiting.items() for w in wait])


def _steps(
    machine: OrderMachine, named: str, block: Block, running: Running
) -> Iterator[list[tuple[str, Waiting]]]:
    """The cores of a block; yields where they wait for other blocks."""
    while running:
        before, waiting = block.changes, {}
        for core, steps in list(running.items()):
            machine.enter(named + core.name)
            try:
                waiting[core] = next(steps)
            except StopIteration:
                del running[core]
                block.changes += 1
        if not waiting or block.changes != before:
            continue
        outside: list[tuple[str, Waiting]] = [
            (core.name, w) for core, w in waiting.items() if isinstance(w, ForBlocks)
        ]
        if outside:
            yield outside
        else:
            go_on(machine, block, waiting)


def _stuck(number: int | None, wait: tuple[str, Waiting]) -> Diagnostic:
    core, waiting = wait
    name = f"{prefix(number)}{core}".strip() or "core main"
    message = f"{name} waits for {waiting.what} for ever: not all of them come here as often"
    return waiting.op.error("deadlock", message)
