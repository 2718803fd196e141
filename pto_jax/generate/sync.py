"""Synchronisation in generated programs: every operation on tiles waits for what other pipes did before.

Neighbouring operations of different pipes are linked by flags, events, tokens or barriers; regions and calls
are set off by barriers. So a program is ordered whatever its operations share.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import isa
from ..ir import INDEX, Function, Op, OpaqueType, Pipe, PipeEventType, Region, ScalarType, Value, attrs
from ..isa.effects import traits_of
from ..isa.issue import EVENT_PIPES, loc_of, pipe_of
from .legal import legal
from .state import State

# Instructions by name: a generator writes the operations it makes.
_ARRAY = OpaqueType("eventid_array", "4")
_KINDS: dict[Pipe, tuple[PipeEventType, ...]] = {
    pipe: tuple(kind for kind, p in EVENT_PIPES.items() if p == pipe) for pipe in EVENT_PIPES.values()
}
#: Pipes that execute operations on tiles, each of which has barriers of its own.
_PIPES = (Pipe.S, *_KINDS)


def synchronised(state: State, body: Sequence[Op]) -> tuple[Op, ...]:
    """The operations of a function with what orders them."""
    return tuple(_Sync(state).region(body))


def synchronised_function(state: State, function: Function) -> Function:
    """A function that orders its operations."""
    return replace(function, body=replace(function.body, ops=synchronised(state, function.body.ops)))


class _Sync:
    """One walk over the operations of a function."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.ops: list[Op] = []

    def region(self, body: Sequence[Op]) -> list[Op]:
        """The operations of a region, ordered; before it and after it is a barrier."""
        outer, self.ops = self.ops, []
        last: Op | None = None
        for op in body:
            last = self.op(op, last)
        if last is not None and (not body or not traits_of(body[-1]).terminator):
            self.barrier()
        made, self.ops = self.ops, outer
        return made

    def op(self, op: Op, last: Op | None) -> Op | None:
        """Add an operation; what the next one has to wait for."""
        traits = traits_of(op)
        if op.regions or traits.calls or traits.terminator:
            if last is not None:
                self.barrier()
            regions = tuple(Region(tuple(self.region(r.ops)), r.args) for r in op.regions)
            self.ops.append(replace(op, regions=regions))
            if traits.calls:
                self.barrier()
            return None
        if not _is_ordered(op):
            self.ops.append(op)
            return last
        if last is not None and pipe_of(last) != pipe_of(op):
            self.link(last, op)
        elif last is not None and self.state.chance(0.1):
            self.one_pipe(pipe_of(op) if self.state.chance(0.5) else self.state.rng.choice(_PIPES))
        self.ops.append(op)
        return op

    def barrier(self) -> None:
        self.ops.append(Op("barrier", attributes=attrs(pipe=Pipe.ALL)))

    def one_pipe(self, pipe: Pipe) -> None:
        """A barrier of one pipe, which orders nothing that is not ordered already."""
        if pipe in _KINDS and self.state.chance(0.5):
            kind = self.state.rng.choice(_KINDS[pipe])
            self.ops.append(Op("barrier_sync", attributes=attrs(op_type=kind)))
        else:
            self.ops.append(Op("barrier", attributes=attrs(pipe=pipe)))

    def link(self, last: Op, op: Op) -> None:
        """Make an operation wait for the one before, which another pipe executes."""
        first, second = pipe_of(last), pipe_of(op)
        ways: list[Callable[[], None]] = [self.barrier, *[lambda: self.flags(first, second)] * 2]
        ways += [lambda: self.numbered(first, second), lambda: self.listed(first, second)]
        if Pipe.S not in (first, second):
            ways.append(lambda: self.cores(first, second))
            if first in _KINDS and second in _KINDS:
                ways += [lambda: self.events(first, second), lambda: self.tokens(first, second)]
            instruction = isa.find(last.name)
            if instruction is not None and instruction.pipe == first:
                ways.append(lambda: self.ops.append(Op("tsync", attributes=attrs(op=last.name))))
        self.state.rng.choice(ways)()

    def number(self) -> int:
        return self.state.rng.randint(0, 7)

    def flags(self, first: Pipe, second: Pipe) -> None:
        attributes = attrs(src=first, dst=second, event=self.number())
        self.ops += [Op("set_flag", attributes=attributes), Op("wait_flag", attributes=attributes)]

    def events(self, first: Pipe, second: Pipe) -> None:
        kinds = {
            "src_op": self.state.rng.choice(_KINDS[first]),
            "dst_op": self.state.rng.choice(_KINDS[second]),
        }
        attributes = attrs(kinds, event=self.number())
        self.ops += [Op("record_event", attributes=attributes), Op("wait_event", attributes=attributes)]

    def tokens(self, first: Pipe, second: Pipe) -> None:
        """A buffer goes from one pipe to the other."""
        number = self.number()
        for pipe in (first, second):
            attributes = attrs(op_type=self.state.rng.choice(_KINDS[pipe]), buf=number)
            self.ops += [Op("get_buf", attributes=attributes), Op("rls_buf", attributes=attributes)]

    def cores(self, first: Pipe, second: Pipe) -> None:
        """A flag between cores, which one core may give to itself, where its pipes have such flags."""
        number = self.number()
        pair = [
            Op("sync.set", attributes=attrs(pipe=first, event=number)),
            Op("sync.wait", attributes=attrs(pipe=second, event=number)),
        ]
        if all(legal(self.state.profile, op) for op in pair):
            self.ops += pair
        else:
            self.flags(first, second)

    def constant(self, number: int) -> Value:
        value = Value(self.state.name("c"), ScalarType(INDEX))
        self.ops.append(Op("arith.constant", results=(value,), attributes=attrs(value=number)))
        return value

    def numbered(self, first: Pipe, second: Pipe) -> None:
        self.dynamic(self.constant(self.number()), first, second)

    def dynamic(self, number: Value, first: Pipe, second: Pipe) -> None:
        attributes = attrs(src=first, dst=second)
        self.ops += [Op(f"{name}_flag_dyn", (number,), attributes=attributes) for name in ("set", "wait")]

    def listed(self, first: Pipe, second: Pipe) -> None:
        """A flag whose number stands in an array."""
        array, event = Value(self.state.name("e"), _ARRAY), Value(self.state.name("k"), ScalarType(INDEX))
        self.ops.append(Op("declare_eventid_array", results=(array,)))
        at, number = self.constant(self.state.rng.randint(0, 3)), self.constant(self.number())
        self.ops.append(Op("eventid_array_set", (array, at, number)))
        self.ops.append(Op("eventid_array_get", (array, at), results=(event,)))
        self.dynamic(event, first, second)


def _is_ordered(op: Op) -> bool:
    """Whether an operation reads or writes tiles, so that another pipe may have to wait for it."""
    instruction, traits = isa.find(op.name), traits_of(op)
    uses = any(effect.resource == "tile" for effect in traits.effects) and traits.fifo is None
    if instruction is None or (instruction.syntax == "custom" and not uses):
        return False
    return any(loc_of(v.type) is not None for v in (*op.ins, *op.destinations))
