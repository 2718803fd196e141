"""Statements of generated programs with regions and calls, and their synchronisation.

Neighbouring operations of different pipes are linked by flags, events, tokens or barriers; barriers stand
before and after regions and calls. So a program is ordered whatever memory its operations share.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from .. import isa
from ..ir import (
    I1,
    INDEX,
    Attrs,
    Function,
    Op,
    OpaqueType,
    Pipe,
    PipeEventType,
    Region,
    ScalarType,
    Symbol,
    Value,
    attrs,
    dtype,
)
from ..isa.effects import EVENT_PIPES, loc_of, pipe_of, traits_of
from . import tiles as generate_tiles
from .operations import legal
from .state import Held, Level, State

Statements = Callable[[State, int], None]
_INDEX = ScalarType(INDEX)
_CARRIED = ("index", "i32", "f32")


@contextmanager
def _region(state: State, loop: bool) -> Iterator[Level]:
    level = Level(loop=loop)
    state.levels.append(level)
    try:
        yield level
    finally:
        state.levels.pop()


def _yield(state: State, values: Sequence[Value]) -> None:
    if values:
        state.emit(Op("scf.yield", tuple(values)))


def control(state: State, statements: Statements) -> None:
    """A loop or branch around other statements."""
    make = state.rng.choice((_for, _for, _for, _if, _if, _select, _while, _switch, _block))
    make(state, statements)


def _body_size(state: State) -> int:
    return state.rng.randint(1, 3)


def _inits(state: State) -> tuple[list[Held], list[Value]]:
    """What a loop carries: tiles and scalars."""
    candidates = [h for h in state.tiles() if h.sizes is not None]
    tiles = state.rng.sample(candidates, k=min(len(candidates), state.rng.choice((0, 0, 1, 2))))
    scalars = [state.scalar(dtype(state.rng.choice(_CARRIED))) for _ in range(state.rng.choice((0, 1, 2)))]
    return tiles, scalars


def _like(state: State, handle: Held) -> Held:
    """A tile of the same type and region, made or changed by the statements before."""
    same = [
        h
        for h in state.tiles()
        if h.value.type == handle.value.type and h.sizes == handle.sizes and h.window <= handle.window
    ]
    if not same and handle.sizes is not None:
        return generate_tiles.fresh(state, handle.type, handle.sizes)
    return state.rng.choice(same)


def _carry(
    state: State, tiles: Sequence[Held], scalars: Sequence[Value]
) -> tuple[list[Held], list[Value], list[Value]]:
    """Names for what a region is given, in the order tiles, scalars."""
    handle = [Held(Value(state.name("p"), h.value.type), h.type, h.sizes, window=h.window) for h in tiles]
    numbers = [Value(state.name("q"), s.type) for s in scalars]
    return handle, numbers, [*(h.value for h in handle), *numbers]


def _handed_on(state: State, tiles: Sequence[Held], scalars: Sequence[Value]) -> list[Value]:
    results = [_like(state, h).value for h in tiles]
    for s in scalars:
        assert isinstance(s.type, ScalarType)
        candidates = state.scalars(s.type.dtype)[-3:]
        results.append(state.rng.choice(candidates) if candidates else state.scalar(s.type.dtype))
    return results


def _results(state: State, tiles: Sequence[Held], scalars: Sequence[Value]) -> tuple[Value, ...]:
    """Names for what an operation hands on, known from here."""
    held, numbers, values = _carry(state, tiles, scalars)
    state.level.tiles += held
    state.level.scalars += numbers
    return tuple(values)


def _trips(state: State) -> tuple[Value, Value, Value]:
    lower, step, trips = state.rng.choice((0, 0, 1, 3)), state.rng.choice((1, 1, 2)), state.rng.randint(0, 4)
    upper = max(0, lower + trips * step - state.rng.choice((0, 0, step - 1)))
    return state.number(lower, 0.8), state.number(upper), state.number(step, 0.8)


def _for(state: State, statements: Statements) -> None:
    tiles, scalars = _inits(state)
    bounds = _trips(state)
    counter = Value(state.name("i"), _INDEX)
    with _region(state, loop=True) as level:
        held, numbers, values = _carry(state, tiles, scalars)
        level.tiles += held
        level.scalars += [counter, *numbers]
        statements(state, _body_size(state))
        _yield(state, _handed_on(state, held, numbers))
    inits = (*(h.value for h in tiles), *scalars)
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(inits)))
    region = Region(tuple(level.ops), (counter, *values))
    results = _results(state, tiles, scalars)
    state.emit(Op("scf.for", (*bounds, *inits), results=results, regions=(region,), groups=groups))


def _arms(
    state: State, statements: Statements, count: int, tiles: Sequence[Held], scalars: Sequence[Value]
) -> list[Region]:
    """Regions of which one is executed; each hands on the same types."""
    arms = []
    for _ in range(count):
        with _region(state, loop=False) as level:
            statements(state, _body_size(state))
            _yield(state, _handed_on(state, tiles, scalars))
        arms.append(Region(tuple(level.ops)))
    return arms


def _if(state: State, statements: Statements) -> None:
    condition = state.condition()
    tiles, scalars = _inits(state) if state.chance(0.6) else ([], [])
    tiles = [h for h in tiles if not _may_shrink(h)]
    both = bool(tiles or scalars) or state.chance(0.5)
    arms = _arms(state, statements, 2 if both else 1, tiles, scalars)
    results = _results(state, tiles, scalars)
    state.emit(Op("scf.if", (condition,), results=results, regions=tuple(arms)))


def _select(state: State, statements: Statements) -> None:
    """The selection of one of two tiles, a branch in another spelling."""
    candidates = [h for h in state.tiles() if h.sizes is not None and not _may_shrink(h)]
    if not candidates:
        return _if(state, statements)
    handle, condition = state.rng.choice(candidates), state.condition()
    ends = [Op("scf.yield", (h.value,)) for h in (handle, _like(state, handle))]
    regions = tuple(Region((end,)) for end in ends)
    return state.emit(
        Op("scf.if", (condition,), results=_results(state, [handle], []), regions=regions, form="select")
    )


def _may_shrink(handle: Held) -> bool:
    """Whether an arm may change the tile's region, so that what it hands on has no known one."""
    return not handle.type.is_static


def _switch(state: State, statements: Statements) -> None:
    index = state.masked(state.scalar(INDEX), 3)
    _, scalars = _inits(state)
    cases = tuple(sorted(state.rng.sample(range(4), k=state.rng.randint(1, 2))))
    arms = _arms(state, statements, len(cases) + 1, (), scalars)
    results = _results(state, (), scalars)
    state.emit(
        Op("scf.index_switch", (index,), results=results, attributes=attrs(cases=cases), regions=tuple(arms))
    )


def _block(state: State, statements: Statements) -> None:
    """Operations that are executed once, in a region of their own."""
    tiles, scalars = _inits(state)
    arms = _arms(state, statements, 1, tiles, scalars)
    state.emit(Op("scf.execute_region", results=_results(state, tiles, scalars), regions=tuple(arms)))


def _while(state: State, statements: Statements) -> None:
    """A loop that counts to a bound and carries other values besides."""
    tiles, scalars = _inits(state)
    start, limit, one = state.number(0), state.number(state.rng.randint(0, 4)), state.constant(1)
    with _region(state, loop=True) as before:
        held, numbers, values = _carry(state, tiles, scalars)
        counter = Value(state.name("i"), _INDEX)
        go = Value(state.name("f"), ScalarType(I1))
        state.emit(Op("arith.cmpi", (counter, limit), results=(go,), attributes=attrs(predicate="slt")))
        state.emit(Op("scf.condition", (go, counter, *values)))
        arguments = (counter, *values)
    first = Region(tuple(before.ops), arguments)
    with _region(state, loop=True) as after:
        held, numbers, values = _carry(state, tiles, scalars)
        counter, following = Value(state.name("i"), _INDEX), Value(state.name("i"), _INDEX)
        after.tiles += held
        after.scalars += [counter, *numbers]
        statements(state, _body_size(state))
        state.emit(Op("arith.addi", (counter, one), results=(following,)))
        _yield(state, [following, *_handed_on(state, held, numbers)])
    second = Region(tuple(after.ops), (counter, *values))
    last = Value(state.name("i"), _INDEX)
    results = (last, *_results(state, tiles, scalars))
    state.level.scalars.append(last)
    inits = (start, *(h.value for h in tiles), *scalars)
    state.emit(Op("scf.while", inits, results=results, regions=(first, second)))


def call(state: State, statements: Statements) -> None:
    """A call of a new function, once or twice, on tiles and scalars there are."""
    candidates = [h for h in state.tiles() if h.sizes is not None]
    if not candidates:
        statements(state, 1)
        return
    tiles = state.rng.choices(candidates, k=state.rng.randint(1, min(3, len(candidates))))
    scalars = [state.scalar(INDEX), state.scalar(dtype("f32"))]
    views = [v for level in state.levels for v in level.views][:2]
    buffers = [b for level in state.levels for b in level.buffers][:2]
    outer, entry = state.levels, state.entry
    state.levels, state.entry = [Level()], False
    try:
        held, numbers, values = _carry(state, tiles, scalars)
        windows = [Value(state.name("g"), v.type) for v in views]
        level = state.level
        level.tiles += held
        level.scalars += numbers
        level.views += windows
        level.buffers += [replace(b, value=Value(state.name("g"), b.value.type)) for b in buffers]
        pointers = [b.value for b in level.buffers]
        statements(state, _body_size(state))
        static = [h for h in state.tiles() if h.sizes is not None and h.type.is_static]
        back = state.rng.sample(static, k=min(len(static), state.rng.randint(0, 1)))
        level.ops.append(Op("return", tuple(h.value for h in back)))
    finally:
        state.levels, state.entry = outer, entry
    name = state.name("f")
    types, none = tuple(h.value.type for h in back), Attrs()
    body = Region(tuple(level.ops))
    state.functions.append(Function(name, (*values, *windows, *pointers), body, types, none, private=True))
    for _ in range(state.rng.choice((1, 1, 2))):
        passed = (*(_like(state, h).value for h in tiles), *scalars, *views, *(b.value for b in buffers))
        results = _results(state, back, ())
        state.emit(Op("call", passed, results=results, attributes=attrs(callee=Symbol(name))))


# Instructions by name: a generator writes the operations it makes.
_ARRAY = OpaqueType("eventid_array", "4")
#: The classes of operations of each pipe, by which high-level events name it.
KINDS: dict[Pipe, tuple[PipeEventType, ...]] = {
    pipe: tuple(kind for kind, p in EVENT_PIPES.items() if p == pipe) for pipe in EVENT_PIPES.values()
}
#: Pipes that execute operations on tiles, each of which has barriers of its own.
_PIPES = (Pipe.S, *KINDS)


def barrier(pipe: Pipe) -> Op:
    """A barrier of a pipe, or of all of them."""
    return Op("barrier", attributes=attrs(pipe=pipe))


def event(kinds: tuple[PipeEventType, PipeEventType], number: int) -> tuple[Op, Op]:
    """An event from one class of operations to another one: its signal and its wait."""
    attributes = attrs(src_op=kinds[0], dst_op=kinds[1], event=number)
    return Op("record_event", attributes=attributes), Op("wait_event", attributes=attributes)


def synchronised(state: State, body: Sequence[Op], *, apart: bool) -> tuple[Op, ...]:
    """The operations of a function with what orders them; ``apart``: cores of two kinds execute them."""
    return tuple(_Sync(state, apart).region(body))


def synchronised_function(state: State, function: Function, *, apart: bool) -> Function:
    """A function that orders its operations."""
    ops = synchronised(state, function.body.ops, apart=apart)
    return replace(function, body=replace(function.body, ops=ops))


class _Sync:
    """One walk over the operations of a function."""

    def __init__(self, state: State, apart: bool) -> None:
        self.state, self.apart = state, apart
        self.ops: list[Op] = []

    def region(self, body: Sequence[Op]) -> list[Op]:
        """The operations of a region, ordered; before it and after it is a barrier."""
        outer, self.ops = self.ops, []
        last: Op | None = None
        for op in body:
            last = self.op(op, last)
        if last is not None and (not body or not traits_of(body[-1]).terminator):
            self.barrier()
        ops, self.ops = self.ops, outer
        return ops

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
        self.ops.append(barrier(Pipe.ALL))

    def one_pipe(self, pipe: Pipe) -> None:
        """A barrier of one pipe, which orders nothing that is not ordered already."""
        if pipe in KINDS and self.state.chance(0.5):
            kind = self.state.rng.choice(KINDS[pipe])
            self.ops.append(Op("barrier_sync", attributes=attrs(op_type=kind)))
        else:
            self.ops.append(barrier(pipe))

    def link(self, last: Op, op: Op) -> None:
        """Make an operation wait for the one before, which another pipe executes."""
        first, second = pipe_of(last), pipe_of(op)
        ways: list[Callable[[], None]] = [self.barrier, *[lambda: self.flags(first, second)] * 2]
        ways += [lambda: self.numbered(first, second), lambda: self.listed(first, second)]
        if Pipe.S not in (first, second):
            # A core that signals to the other kind waits for its own signal for ever.
            ways += [] if self.apart else [lambda: self.cores(first, second)]
            if first in KINDS and second in KINDS:
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
        kinds = self.state.rng.choice(KINDS[first]), self.state.rng.choice(KINDS[second])
        self.ops += event(kinds, self.number())

    def tokens(self, first: Pipe, second: Pipe) -> None:
        """A buffer goes from one pipe to the other."""
        number = self.number()
        for pipe in (first, second):
            attributes = attrs(op_type=self.state.rng.choice(KINDS[pipe]), buf=number)
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
