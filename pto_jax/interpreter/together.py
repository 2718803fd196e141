"""Cores side by side, and the regions that they enter together.

Cores take turns and change only where one of them waits, so that execution is deterministic. A region whose
course only execution knows is entered by all cores at once, where each of them has come to one: the loops of
both parts of a kernel that hand tiles to each other have as many trips, and their branches go the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Literal

from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..ir.dtypes import I1, INDEX
from ..ir.program import Op
from .cores import Block, Core
from .interpreter import Steps, Waiting
from .machine import Machine
from .operands import Operand, Scalar
from .scope import Frame
from .windows import scalar

#: Executes a region's operations, given the trip and what a loop carries, or nothing.
Inner = Callable[..., Steps[tuple[Operand, ...]]]


@dataclass(eq=False)
class Meeting(Waiting):
    """A region with pipes inside that a core has come to.

    ``steers`` is the number of trips of a loop, or the condition of a branch. The core that yields it goes on
    once it has ``results``, or where it is ``alone``: then it executes a loop of known trips by itself.
    """

    kind: Literal["loop", "branch"]
    frame: Frame
    steers: Scalar
    inits: Sequence[Operand]
    inner: Sequence[Inner]
    results: tuple[Operand, ...] | None = None
    alone: bool = False


def met(meeting: Meeting) -> Steps[tuple[Operand, ...] | None]:
    """Wait until all cores have come to such a region; what it gives, None where the core goes on alone."""
    while meeting.results is None and not meeting.alone:
        yield meeting
    return meeting.results


def side_by_side(
    machine: Machine, block: Block, cores: Mapping[Core, Steps[tuple[Operand, ...]]]
) -> dict[Core, tuple[Operand, ...]]:
    """What each core's steps give; ExecutionError where all of them wait for ever."""
    running, results = dict(cores), {}
    while running:
        before, waiting = block.changes, {}
        for core, steps in list(running.items()):
            machine.enter(core.name)
            try:
                waiting[core] = next(steps)
            except StopIteration as stop:
                results[core] = stop.value
                del running[core]
                block.changes += 1
        machine.enter("")
        if waiting and block.changes == before:
            _go_on(machine, block, waiting)
    return results


def _go_on(machine: Machine, block: Block, waiting: Mapping[Core, Waiting]) -> None:
    """Execute the regions that all cores have come to, or let those go on that can."""
    meetings = {core: w for core, w in waiting.items() if isinstance(w, Meeting)}
    known = {core: machine.known(m.steers) for core, m in meetings.items()}
    alike = len({m.kind for m in meetings.values()}) == 1 and len(set(known.values())) == 1
    together = meetings and len(meetings) == len(waiting) and alike
    if together and None in known.values():
        _enter(machine, block, meetings)
    elif together:
        try:
            _enter(machine, block, meetings)
        except Apart:
            for meeting in meetings.values():
                meeting.alone = True
    elif any(n is not None for n in known.values()):
        for core, n in known.items():
            meetings[core].alone = n is not None
    elif meetings:
        core, meeting = next(iter(meetings.items()))
        raise _apart(meeting.op, f"core {core.name} comes here, and another core to another region")
    else:
        raise ExecutionError([_stuck(core, found) for core, found in waiting.items()])
    block.changes += 1


def _stuck(core: Core, found: Waiting) -> Diagnostic:
    message = f"core {core.name} waits for {found.what} for ever"
    return Diagnostic("error", message, found.op.span, found.op.name, rule="deadlock")


class Apart(NotExecutableError):
    """Cores that meet do not take the same way, as far as the text shows."""


def _apart(op: Op, found: str) -> Apart:
    message = (
        f"found pipes under control flow that only execution knows: {found}; "
        "allowed: loops and branches that all cores of a block enter together"
    )
    return Apart(Diagnostic("error", message, op.span, op.name, rule="pipe"))


def _enter(machine: Machine, block: Block, meetings: Mapping[Core, Meeting]) -> None:
    """Execute the regions of all cores as one."""
    members = list(meetings.values())
    first = members[0]
    frame = Frame.joined({core.name: m.frame for core, m in meetings.items()}, _joined_op(block, members))
    for other in members[1:]:
        if other.steers is not first.steers and machine.known(first.steers) is None:
            dtype = INDEX if first.kind == "loop" else I1
            apart = scalar(machine, "arith.cmpi.ne", (first.steers, other.steers), dtype, I1)
            machine.require(other.op, "cores", "the way that the other core takes", apart)
    ends = [0, *accumulate(len(m.inits) for m in members)]

    def inner(which: int, trip: tuple[Scalar, ...], given: Sequence[Operand]) -> tuple[Operand, ...]:
        own = [tuple(given[a:b]) for a, b in pairwise(ends)]
        cores = {
            core: m.inner[which](*trip, *((values,) if m.kind == "loop" else ()))
            for (core, m), values in zip(meetings.items(), own, strict=True)
        }
        results = _inside(machine, block, first.op, cores)
        counts[which] = [len(results[core]) for core in meetings]
        return tuple(operand for core in meetings for operand in results[core])

    counts: dict[int, list[int]] = {}
    if first.kind == "loop":
        inits = tuple(operand for m in members for operand in m.inits)
        found = machine.loop(frame, first.steers, inits, lambda trip, given: inner(0, (trip,), given))
        own_counts = [len(m.inits) for m in members]
    else:
        arms = [lambda which=which: inner(which, (), ()) for which in range(2)]
        found = machine.branch(frame, first.steers, arms)
        own_counts = counts[0]
    stops = [0, *accumulate(own_counts)]
    for meeting, (a, b) in zip(members, pairwise(stops), strict=True):
        meeting.results = found[a:b]


def _inside(
    machine: Machine, block: Block, op: Op, cores: Mapping[Core, Steps[tuple[Operand, ...]]]
) -> dict[Core, tuple[Operand, ...]]:
    """Execute a region that may be left out or repeated: it leaves pipes and flags as they were."""
    queues = {key: deque(entries) for key, entries in block.queues.items()}
    before = dict(block.flags), dict(block.counts)
    outside, block.depth = block.depth, machine.depth
    try:
        results = side_by_side(machine, block, cores)
        left = [key for key, q in block.queues.items() if [*map(id, q)] != [*map(id, queues.get(key, ()))]]
        if left or before != (block.flags, block.counts):
            raise _apart(op, "a region that leaves tiles in a pipe, or takes some that it did not put there")
    finally:
        block.depth = outside
        for now, old in ((block.queues, queues), (block.flags, before[0]), (block.counts, before[1])):
            now.clear()
            now.update(old)
    return results


def _joined_op(block: Block, members: Sequence[Meeting]) -> Op:
    """An operation with the results and regions of all; the same for the same operations."""
    ops = [m.op for m in members]
    key = tuple(map(id, ops))
    if key not in block.joined:
        results = tuple(v for op in ops for v in op.results)
        regions = tuple(r for op in ops for r in op.regions)
        block.joined[key] = replace(ops[0], results=results, regions=regions), ops
    return block.joined[key][0]
