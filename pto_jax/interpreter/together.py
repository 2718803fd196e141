"""Cores side by side, and the regions that they enter together.

Cores take turns and change only where one of them waits, so that execution is deterministic. A region whose
course only execution knows is entered by all cores at once, where each of them has come to one: the loops of
both parts of a kernel that hand tiles to each other have as many trips, and their branches go the same way.
What is in the pipes is a value that such a region hands on: it leaves as many tiles there as it found.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, cast

from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..ir import I1, INDEX, Op, ScalarType, TileType, Value, dtype
from .cores import Block, Core, Entry
from .interpreter import Steps, Waiting
from .machine import Machine
from .operands import Frame, Operand, Scalar, TileRef
from .windows import scalar

#: Slots in memory are allocated, popped and freed.
_KINDS_OF_COUNTS = 3
#: Executes a region's operations, given the trip and what a loop carries, or nothing.
Inner = Callable[..., Steps[tuple[Operand, ...]]]


@dataclass(eq=False)
class Meeting(Waiting):
    """A region with pipes inside that a core has come to.

    ``steers`` is the number of trips of a loop, or the condition of a branch or of a while loop, whose inner
    steps are a trip and the next condition, which they give first. The core that yields it goes on
    once it has ``results``, or where it is ``alone``: then it executes a loop of known trips by itself.
    """

    kind: Literal["loop", "branch", "while"]
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
            go_on(machine, block, waiting)
    return results


def go_on(machine: Machine, block: Block, waiting: Mapping[Core, Waiting]) -> None:
    """Execute the regions that all cores have come to, or let those go on that can."""
    meetings = {core: w for core, w in waiting.items() if isinstance(w, Meeting)}
    numbers = {core: machine.known(m.steers) for core, m in meetings.items()}
    alike = len({m.kind for m in meetings.values()}) == 1 and len(set(numbers.values())) == 1
    together = meetings and len(meetings) == len(waiting) and alike
    if together and None in numbers.values():
        _enter(machine, block, meetings)
    elif together:
        try:
            _enter(machine, block, meetings)
        except Apart:
            for meeting in meetings.values():
                meeting.alone = True
    elif any(n is not None for n in numbers.values()):
        for core, n in numbers.items():
            meetings[core].alone = n is not None
    elif meetings:
        core, meeting = next(iter(meetings.items()))
        raise _apart(meeting.op, f"core {core.name} comes here, and another core to another region")
    else:
        raise ExecutionError([_stuck(core, wait) for core, wait in waiting.items()])
    block.changes += 1


def _stuck(core: Core, wait: Waiting) -> Diagnostic:
    message = f"core {core.name} waits for {wait.what} for ever"
    return wait.op.error("deadlock", message)


class Apart(NotExecutableError):
    """Cores that meet do not take the same way, as far as the text shows."""


def _apart(op: Op, pipes: str) -> Apart:
    message = (
        f"got pipes under control flow that only execution knows: {pipes}; "
        "allowed: loops and branches that all cores of a block enter together"
    )
    return Apart(op.error("pipe", message))


def _enter(machine: Machine, block: Block, meetings: Mapping[Core, Meeting]) -> None:
    """Execute the regions of all cores as one."""
    members = list(meetings.values())
    first, held = members[0], _held(machine, members[0].op, block)
    joined = _joined_op(block, members, held)
    frame = Frame.joined({core.name: m.frame for core, m in meetings.items()}, joined)
    _same_way(machine, members, [m.steers for m in members])
    ends = [0, *accumulate(len(m.inits) for m in members)]
    form = _form(block)

    def inner(which: int, trip: tuple[Scalar, ...], given: Sequence[Operand]) -> tuple[Operand, ...]:
        own = [tuple(given[a:b]) for a, b in pairwise(ends)]
        cores = {
            core: m.inner[which](*trip, *(() if m.kind == "branch" else (values,)))
            for (core, m), values in zip(meetings.items(), own, strict=True)
        }
        results, left = _inside(machine, block, first.op, cores, given[ends[-1] :])
        conditions: list[Scalar] = []
        if first.kind == "while":
            conditions = [condition for condition, *_ in results.values()]
            _same_way(machine, members, conditions)
            results = {core: passed[1:] for core, passed in results.items()}
        counts[which] = [len(results[core]) for core in meetings]
        return (*conditions[:1], *(operand for core in meetings for operand in results[core]), *left)

    counts: dict[int, list[int]] = {}
    if first.kind == "loop":
        inits = (*(operand for m in members for operand in m.inits), *held)
        outcome = machine.loop(frame, first.steers, inits, lambda trip, given: inner(0, (trip,), given))
        own_counts = [len(m.inits) for m in members]
    elif first.kind == "while":
        start = (first.steers, *(operand for m in members for operand in m.inits), *held)
        outcome = machine.repeat(frame, start, _condition_first, lambda passed: inner(0, (), passed))
        own_counts = [len(m.inits) for m in members]
    else:
        arms = [lambda which=which: inner(which, (), held) for which in range(2)]
        outcome = machine.branch(frame, first.steers, arms)
        own_counts = counts[0]
    stops = [0, *accumulate(own_counts)]
    _put(machine, block, form, outcome[stops[-1] :])
    for meeting, (a, b) in zip(members, pairwise(stops), strict=True):
        meeting.results = outcome[a:b]


def _same_way(machine: Machine, members: Sequence[Meeting], steers: Sequence[Scalar]) -> None:
    """Note where a core goes another way than the first one."""
    source = INDEX if members[0].kind == "loop" else I1
    for member, other in zip(members[1:], steers[1:], strict=True):
        if other is not steers[0] and None in (machine.known(steers[0]), machine.known(other)):
            apart = scalar(machine, "arith.cmpi.ne", (steers[0], other), source, I1)
            machine.require(member.op, "cores", "the way that the other core takes", apart)
        elif machine.known(steers[0]) != machine.known(other):
            raise _apart(member.op, "a while loop that one core leaves before the other")


def _condition_first(carried: Sequence[Operand]) -> tuple[Scalar, tuple[Operand, ...]]:
    condition, *passed = carried
    return cast("Scalar", condition), tuple(passed)


def _inside(
    machine: Machine,
    block: Block,
    op: Op,
    cores: Mapping[Core, Steps[tuple[Operand, ...]]],
    held: Sequence[Operand],
) -> tuple[dict[Core, tuple[Operand, ...]], tuple[Operand, ...]]:
    """Execute a region that may be left out or repeated, with what the pipes hold when it begins.

    Gives the results of the cores, and what the pipes hold at its end.
    """
    queues = {key: deque(entries) for key, entries in block.queues.items()}
    before = dict(block.flags), dict(block.counts), dict(block.turns)
    outside, block.depth = block.depth, machine.depth
    form = _form(block)
    try:
        _put(machine, block, form, held)
        results = side_by_side(machine, block, cores)
        turns = _turns(op, before[1], block.counts)
        if _form(block) != form or block.flags != before[0]:
            raise _apart(op, "a region that leaves more tiles in a pipe than it finds there, or fewer")
        for direction, slots in turns.items():
            block.turns[direction] = scalar(
                machine, "arith.addi", (block.turns.get(direction, 0), slots), INDEX, INDEX
            )
        return results, _held(machine, op, block)
    finally:
        block.depth = outside
        state: tuple[dict[Any, Any], ...] = (block.queues, block.flags, block.counts, block.turns)
        for now, old in zip(state, (queues, *before), strict=True):
            now.clear()
            now.update(old)


#: What the queues of a block hold, without the contents: the type of a tile, None for a slot in memory.
Form = tuple[tuple[tuple[Any, ...], tuple[TileType | None, ...]], ...]


def _form(block: Block) -> Form:
    """What is in the pipes of a block, in one order however they were filled."""
    filled = sorted((key for key, entries in block.queues.items() if entries), key=repr)
    return tuple((key, tuple(map(_type, block.queues[key]))) for key in filled)


def _type(entry: Entry | None) -> TileType | None:
    if entry is None:
        return None
    rows, cols = entry.contents.shape
    return TileType(dtype(f"u{8 * entry.contents.dtype.itemsize}"), rows, cols).with_valid(*entry.sizes)


def _held(machine: Machine, op: Op, block: Block) -> tuple[Operand, ...]:
    """What is in the pipes as tiles, and the numbers of slots that were used."""
    tiles = [
        TileRef(t, machine.receive(op, "pipe", t, entry.contents), *t.shape)
        for key, types in _form(block)
        for t, entry in zip(types, block.queues[key], strict=True)
        if t is not None
    ]
    return (*tiles, *block.turns.values())


def _put(machine: Machine, block: Block, form: Form, held: Sequence[Operand]) -> None:
    """Fill the pipes with what :func:`_held` gave."""
    rest = iter(held)
    for key, types in form:
        block.queues[key] = deque(None if t is None else _entry(machine, t, next(rest)) for t in types)
    block.turns.update(zip(block.turns, rest, strict=True))


def _entry(machine: Machine, t: TileType, held: Operand) -> Entry:
    assert isinstance(held, TileRef)
    return Entry(machine.contents(held), (t.v_row or 0, t.v_col or 0))


def _turns(
    op: Op, before: Mapping[tuple[Any, ...], int], after: Mapping[tuple[Any, ...], int]
) -> dict[tuple[Any, ...], int]:
    """How many slots of each direction of a pipe a region has allocated, popped and freed alike."""
    counts_by_pipe: dict[tuple[Any, ...], set[int]] = {}
    for key, count in after.items():
        counts_by_pipe.setdefault(key[1:3], set()).add(count - before.get(key, 0))
    used = {direction: counts for direction, counts in counts_by_pipe.items() if counts != {0}}
    for direction, counts in used.items():
        kinds = {key[0] for key in after if key[1:3] == direction}
        if len(counts) != 1 or len(kinds) != _KINDS_OF_COUNTS:
            raise _apart(op, "a region that does not free as many slots of a pipe as it uses")
    return {direction: counts.pop() for direction, counts in used.items()}


def _joined_op(block: Block, members: Sequence[Meeting], held: Sequence[Operand]) -> Op:
    """An operation that stands for all, with what the pipes hold as results; the same for the same ones."""
    ops = [m.op for m in members]
    types = tuple(o.type if isinstance(o, TileRef) else ScalarType(INDEX) for o in held)
    key = (*map(id, ops), *types)
    if key not in block.joined:
        pipes = (Value(f"pipe {n}", t) for n, t in enumerate(types))
        results = (*(v for op in ops for v in op.results), *pipes)
        regions = tuple(r for op in ops for r in op.regions)
        block.joined[key] = replace(ops[0], results=results, regions=regions), ops
    return block.joined[key][0]
