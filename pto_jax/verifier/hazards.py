"""Operations on different pipes that use the same bytes in no defined order.

Pipes run side by side; each executes its own operations in program order. What a hand-synchronised program
orders between pipes are flags, events, buffer tokens and barriers. The walk keeps, for every use of on-chip
bytes, the pipes whose later operations are known to come after it; a flag carries that knowledge from the
pipe that sets it to the pipe that waits for it. Branches are joined, loops repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from .. import isa
from ..analysis.provenance import called
from ..errors import Diagnostic
from ..ir.program import Function, Op, Program, Region, Value
from ..ir.types import Pipe, PipeEventType, TileType
from ..isa.effects import accesses, placed, traits_of
from ..isa.issue import EVENT_PIPES, loc_of, pipe_of
from .addresses import Bytes, Handles

#: Passes over a loop body; each pass only loses knowledge, so few are needed.
_PASSES = 12
#: Addresses are looked up in so many blocks of so many bytes; all beyond are one block more.
_BLOCK, _BLOCKS = 4096, 256


class _Use(NamedTuple):
    """A read or write by a pipe of the bytes with a number."""

    pipe: Pipe
    number: int
    write: bool


@dataclass(frozen=True)
class _Pending:
    """The last operation of a use, and the pipes whose later operations come after it."""

    order: int
    op: Op
    value: Value
    seen: frozenset[Pipe]


_Signal = tuple[object, ...]


@dataclass
class _State:
    """What is known at a place of the program."""

    pending: dict[_Use, _Pending] = field(default_factory=dict)
    #: For every signal that was given: the uses that are complete when it arrives.
    signals: dict[_Signal, frozenset[_Use]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.pending), dict(self.signals))

    def joined(self, other: _State) -> _State:
        """What is known where two paths meet."""
        pending = dict(self.pending)
        for use, found in other.pending.items():
            mine = pending.get(use)
            first = found if mine is None or found.order < mine.order else mine
            pending[use] = found if mine is None else replace(first, seen=found.seen & mine.seen)
        signals: dict[_Signal, frozenset[_Use]] = {}
        for signal in {**self.signals, **other.signals}:
            here, there = self.signals.get(signal, frozenset()), other.signals.get(signal, frozenset())
            signals[signal] = frozenset(
                u
                for u in here | there
                if (u in here or u not in self.pending) and (u in there or u not in other.pending)
            )
        return _State(pending, signals)

    def done(self, uses: frozenset[_Use], pipe: Pipe) -> None:
        """Later operations of ``pipe`` come after these uses; of all pipes where it is the scalar one."""
        for use in uses:
            known = self.pending.get(use)
            if known is None or pipe in known.seen:
                continue
            if pipe in (Pipe.S, Pipe.ALL):
                del self.pending[use]
            else:
                self.pending[use] = replace(known, seen=known.seen | {pipe})

    def before(self, pipe: Pipe) -> frozenset[_Use]:
        """The uses that are complete when ``pipe`` has executed what it has been given so far."""
        if pipe == Pipe.ALL:
            return frozenset(self.pending)
        return frozenset(u for u, known in self.pending.items() if pipe in known.seen)

    def began(self, use: _Use, pending: _Pending) -> None:
        """A new use; signals given earlier say nothing about it."""
        self.pending[use] = pending
        for signal, uses in self.signals.items():
            if use in uses:
                self.signals[signal] = uses - {use}

    def forget(self, numbers: frozenset[int]) -> None:
        """A handle denotes other bytes from here on."""
        for pipe, number, write in product(Pipe, numbers, (False, True)) if numbers else ():
            self.pending.pop(_Use(pipe, number, write), None)


class Numbers:
    """Numbers of the bytes a program uses, and which of them have bytes in common."""

    def __init__(self) -> None:
        self.known: list[Bytes] = []
        self._numbers: dict[Bytes, int] = {}
        self._near: list[list[int]] = []
        #: The numbers in every allocation and every block of addresses, so that only those are compared.
        self._at: dict[tuple[object, ...], list[int]] = {}

    def of(self, found: Bytes) -> int:
        """The number of some bytes, a new one where they have none yet."""
        number = self._numbers.setdefault(found, len(self.known))
        if number == len(self.known):
            places = [self._at.setdefault(place, []) for place in _places(found)]
            around = sorted({i for place in places for i in place})
            near = [i for i in around if self.known[i].overlaps(found)]
            self.known.append(found)
            for place in places:
                place.append(number)
            self._near.append([*near, number])
            for i in near:
                self._near[i].append(number)
        return number

    def near(self, number: int) -> list[int]:
        """The numbers of all bytes that overlap those of a number, itself included."""
        return self._near[number]

    def rooted(self, root: str) -> frozenset[int]:
        """The numbers of all bytes in an allocation."""
        return frozenset(self._at.get((root,), ()))


def _places(found: Bytes) -> Iterator[tuple[object, ...]]:
    """The allocation and the blocks of addresses that hold any of these bytes."""
    yield (found.root,)
    if found.range is not None:
        first, last = (min(max(n // _BLOCK, 0), _BLOCKS) for n in (found.range[0], found.range[1] - 1))
        yield from ((found.loc, block) for block in range(first, last + 1))


def hazards(program: Program) -> list[Diagnostic]:
    """A warning for every two operations on different pipes that nothing orders and that share bytes."""
    inner = {f.name for op in program.walk() if (f := called(program, op)) is not None}
    walk = _Walk(program)
    for function in program.functions:
        if function.name not in inner:
            walk.function(function, _State(), Handles(), ())
    return list(walk.found.values())


def is_hand_synchronised(program: Program) -> bool:
    """Whether a program places every tile and orders its pipes itself.

    Without any synchronisation a program is meant for a tool that inserts it.
    """
    addressed = [
        place[1] is not None
        for op in program.walk()
        if (place := placed(op)) is not None and _allocates_tile(op, place[0])
    ]
    return bool(addressed) and all(addressed) and any(map(_orders_pipes, program.walk()))


def _allocates_tile(op: Op, handle: Value) -> bool:
    placement = traits_of(op).placement
    return placement is not None and placement.allocates and isinstance(handle.type, TileType)


def _orders_pipes(op: Op) -> bool:
    order = traits_of(op).order
    return order is not None and order.orders_pipes


class _Walk:
    """One walk over the functions of a program, in the order in which they execute."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[tuple[int, int], Diagnostic] = {}
        self.loops = 0
        self.numbers = Numbers()
        self.kinds: dict[tuple[Pipe, bool], None] = {}
        self.orders: dict[int, int] = {id(op): i for i, op in enumerate(program.walk())}

    def function(
        self, function: Function, state: _State, handles: Handles, active: tuple[str, ...]
    ) -> _State:
        return self.block(function.body, state, handles, (*active, function.name))

    def block(self, region: Region, state: _State, handles: Handles, active: tuple[str, ...]) -> _State:
        for op in region.ops:
            state = self.op(op, state, handles, active)
        return state

    def op(self, op: Op, state: _State, handles: Handles, active: tuple[str, ...]) -> _State:
        if op.regions:
            return self.nested(op, state, handles, active)
        if traits_of(op).calls:
            function = called(self.program, op)
            if function is not None and function.name not in active and len(function.args) == len(op.ins):
                inner = handles.inside(zip((a.name for a in function.args), op.ins, strict=True))
                state = self.function(function, state, inner, active)
        elif _orders_pipes(op):
            self.synchronise(op, state, handles)
        else:
            self.uses(op, state, handles)
        for handle in handles.learn(op):
            state.forget(self.numbers.rooted(handle))
        return state

    # -- regions -------------------------------------------------------------------------------------

    def nested(self, op: Op, state: _State, handles: Handles, active: tuple[str, ...]) -> _State:
        def run(region: Region, known: _State) -> _State:
            return self.block(region, known.copy(), handles, active)

        regions = traits_of(op).regions
        match regions.runs if regions is not None else None:
            case "for":
                once = handles.at_least_once(op)
                header, last = self.repeated(state, lambda known: run(op.regions[0], known))
                state = last if once else header
            case "while" if len(op.regions) == 2:
                header, _ = self.repeated(state, lambda known: run(op.regions[1], run(op.regions[0], known)))
                state = run(op.regions[0], header)
            case "if" | "switch" as runs:
                paths = [run(region, state) for region in op.regions]
                if runs == "if" and len(op.regions) == 1:
                    paths.append(state)
                state = paths[0]
                for path in paths[1:]:
                    state = state.joined(path)
            case _:
                for region in op.regions:
                    state = run(region, state)
        for handle in handles.yielded(op):
            state.forget(self.numbers.rooted(handle))
        return state

    def repeated(self, state: _State, body: Callable[[_State], _State]) -> tuple[_State, _State]:
        """What is known before every pass over a loop body, and after the last one."""
        header, after = state, state
        self.loops += 1
        for _ in range(_PASSES):
            after = body(header)
            joined = header.joined(after)
            if joined == header:
                break
            header = joined
        self.loops -= 1
        return header, after

    # -- operations ----------------------------------------------------------------------------------

    def synchronise(self, op: Op, state: _State, handles: Handles) -> None:
        """What an operation does for the order of others."""
        order = traits_of(op).order
        match (order.role, order.through) if order is not None else None:
            case "barrier", "pipe":
                # A barrier on one pipe orders the operations of that pipe, which execute in order anyway.
                if op.attrs.get("pipe") == Pipe.ALL:
                    state.done(frozenset(state.pending), Pipe.ALL)
            case role, "flag" | "event":
                _flag(op, role, state, handles.event(op))
            case role, "core":
                _core_flag(op, role, state, handles.event(op))
            case role, "token":
                _token(op, role, state)
            case "wait", "operation":
                self.drain(op, state, handles)

    def drain(self, op: Op, state: _State, handles: Handles) -> None:
        """Everything waits for the events of some operations; for all of them where none is named."""
        pipes: set[Pipe] = set()
        instruction = isa.find(str(op.attrs.get("op", "")))
        if instruction is not None:
            pipes.add(instruction.pipe)
        for value in op.ins:
            made = handles.produced.get(value.name)
            seen = handles.find(value)
            pipes |= {made} if made is not None else set()
            near = self.numbers.near(self.numbers.of(seen)) if seen is not None else ()
            pipes |= {u.pipe for u in state.pending if u.number in near}
        if not op.ins and instruction is None:
            pipes = {Pipe.ALL}
        for pipe in pipes:
            state.done(state.before(pipe), Pipe.ALL)

    def uses(self, op: Op, state: _State, handles: Handles) -> None:
        pipe = pipe_of(op)
        handles.made(op, pipe)
        uses = [
            (value, _Use(pipe, self.numbers.of(found), write))
            for value, write in _uses(op)
            if (found := handles.find(value)) is not None
        ]
        for value, use in uses:
            for other in self.clashing(use):
                known = state.pending.get(other)
                if known is not None and pipe not in known.seen:
                    self.report(op, value, use, other, known)
        for value, use in uses:
            # The scalar unit has read a tile before it issues anything else.
            if use.write or pipe != Pipe.S:
                self.kinds[pipe, use.write] = None
                state.began(use, _Pending(self.orders[id(op)], op, value, frozenset((pipe,))))

    def clashing(self, use: _Use) -> Iterator[_Use]:
        """Uses by other pipes that share bytes with a use, one of both writing."""
        for number in self.numbers.near(use.number):
            for pipe, write in self.kinds:
                if pipe != use.pipe and (write or use.write):
                    yield _Use(pipe, number, write)

    def report(self, op: Op, value: Value, use: _Use, other: _Use, known: _Pending) -> None:
        key = (self.orders[id(op)], known.order)
        if key in self.found:
            return
        what, before = ("writes" if u.write else "reads" for u in (use, other))
        place = self.numbers.known[use.number]
        where = f" ({known.op.span})" if known.op.span else ""
        earlier = " in an earlier pass of the loop" if self.loops and known.order >= key[0] else ""
        self.found[key] = Diagnostic(
            "warning",
            f"{what} {value} ({place}) on PIPE_{use.pipe.name} and nothing orders it "
            f"after {known.op.name}{where}, which {before} {known.value} on PIPE_{other.pipe.name}{earlier}; "
            "allowed: a flag, an event or a barrier between them",
            value.span or op.span,
            op.name,
            rule="hazard",
        )


def _ends(op: Op) -> tuple[Pipe | None, Pipe | None]:
    """The pipes that a flag or event connects."""
    if "src_op" in op.attrs:
        return _class_pipe(op.attrs.get("src_op")), _class_pipe(op.attrs.get("dst_op"))
    source, target = op.attrs.get("src"), op.attrs.get("dst")
    return (source if isinstance(source, Pipe) else None), (target if isinstance(target, Pipe) else None)


def _flag(op: Op, role: str, state: _State, number: int | None) -> None:
    """A flag from one pipe to another; a number known only at run time may be any."""
    source, target = _ends(op)
    if role == "signal":
        if source is not None:
            state.signals["flag", source, target, number] = state.before(source)
        return
    for signal, uses in state.signals.items():
        if signal[:3] == ("flag", source, target) and (number is None or signal[3] in (None, number)):
            state.done(uses, target or Pipe.ALL)


def _core_flag(op: Op, role: str, state: _State, number: int | None) -> None:
    """A flag between cores, which a core may give itself."""
    pipe = op.attrs.get("pipe")
    if not isinstance(pipe, Pipe):
        return
    if role == "signal":
        state.signals["sync", number] = state.before(pipe)
        return
    for awaited in (number, None):
        state.done(state.signals.get(("sync", awaited), frozenset()), pipe)


def _token(op: Op, role: str, state: _State) -> None:
    """A token of a buffer, which the operations of a class take and give back."""
    pipe, key = _class_pipe(op.attrs.get("op_type")), ("buffer", op.attrs.get("buf"))
    if pipe is None:
        return
    uses = state.signals.get(key, frozenset())
    if role == "signal":
        state.signals[key] = uses | state.before(pipe)
    else:
        state.done(uses, pipe)


def _class_pipe(kind: object) -> Pipe | None:
    if isinstance(kind, Pipe):
        return kind
    return EVENT_PIPES[kind] if isinstance(kind, PipeEventType) else None


def _uses(op: Op) -> Iterator[tuple[Value, bool]]:
    """The tiles an operation reads and writes; scratch is written."""
    instruction = isa.find(op.name)
    if instruction is None or (instruction.syntax == "custom" and not instruction.executable):
        # Communication orders its own transfers.
        return
    for effect, value in accesses(op):
        if effect.resource == "tile" and loc_of(value.type) is not None:
            yield value, effect.access != "read"
