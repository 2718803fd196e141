"""Hazards: operations on different pipes that use one memory without an order, and tiles that share bytes.

Pipes run side by side; each executes its operations in program order. Flags, events, buffer tokens and
barriers order them. For every use of on-chip bytes and of windows of global memory the walk keeps the pipes
whose later operations certainly come after it (:class:`Order`); a flag carries this from the pipe that sets
it to the pipe that waits for it.

A function is judged *as written* if it holds a flag or an event, or if the build requires it. In all others
the assembler inserts the synchronisation (``PTOInsertSync.cpp``), so that every use there comes after the
ones that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple, TypeAlias

from .. import errors, isa
from ..analysis import addresses, dataflow, provenance, resolve, windows
from ..analysis.facts import FunctionFacts, executes
from ..analysis.lifetimes import Access, Lifetimes, bits
from ..analysis.resolve import ResolvedProgram
from ..errors import Diagnostic, Span
from ..ir import Function, Loc, Op, Pipe, Region, TileType, Value
from ..isa import Bound, effects
from ..isa.effects import kept_apart
from ..profiles import Profile
from .errors import error_of
from .roots import cores_of, roots


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


#: The means by which operations order more than the pipes of one core.
_BETWEEN_CORES = ("core", "cores", "signal", "transfer")
#: Addresses are looked up in so many blocks of so many bytes; all beyond are one block more.
_BLOCK, _BLOCKS = 4096, 256


#: What a use is of: on-chip bytes, or a window of global memory.
Memory: TypeAlias = addresses.Bytes | windows.Window


class Numbers:
    """Numbers of the memory a program uses, and which of them have bytes in common."""

    def __init__(self) -> None:
        self.known: list[Memory] = []
        self._numbers: dict[Memory, int] = {}
        self._near: list[list[int]] = []
        #: The numbers in every allocation and every block of addresses, so that only those are compared.
        self._at: dict[tuple[object, ...], list[int]] = {}

    def of(self, found: Memory) -> int:
        """The number of some memory, a new one where it has none yet."""
        number = self._numbers.setdefault(found, len(self.known))
        if number == len(self.known):
            places = [self._at.setdefault(place, []) for place in _places(found)]
            around = sorted({i for place in places for i in place})
            near = [i for i in around if _overlap(self.known[i], found)]
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

    def named(self, name: str) -> frozenset[int]:
        """The numbers of all windows that depend on the value of a name."""
        return frozenset(self._at.get(("name", name), ()))

    def chosen(self, name: str) -> dict[int, int]:
        """The numbers of bytes that a condition chooses, with those of what an earlier value of it chose."""
        numbers = list(self._at.get(("choice", name), ()))
        memory = {n: self.known[n] for n in numbers}
        return {n: self.of(m.whenever(name)) for n, m in memory.items() if isinstance(m, addresses.Bytes)}

    @property
    def windows(self) -> frozenset[int]:
        """The numbers of all windows of global memory."""
        return frozenset(self._at.get(("windows",), ()))


def _overlap(a: Memory, b: Memory) -> bool:
    if isinstance(a, windows.Window):
        return isinstance(b, windows.Window) and a.overlaps(b)
    return isinstance(b, addresses.Bytes) and a.overlaps(b)


def _places(found: Memory) -> Iterator[tuple[object, ...]]:
    """Where other memory is looked up that may meet this one: allocations, blocks of addresses, buffers."""
    if isinstance(found, windows.Window):
        yield from (("windows",), ("buffer", found.root))
        yield from (("name", name) for name in dict.fromkeys(found.names()))
        return
    if found.either:
        yield from dict.fromkeys(place for one in found.either for place in _places(one))
        yield from (("choice", name) for name in dict.fromkeys(found.conditions()))
        return
    yield (found.root,)
    if found.range is not None:
        first, last = (min(max(n // _BLOCK, 0), _BLOCKS) for n in (found.range[0], found.range[1] - 1))
        yield from ((found.loc, block) for block in range(first, last + 1))


def hazards(
    resolved: resolve.ResolvedProgram, *, as_written: bool = False, vector: bool = False
) -> list[errors.Diagnostic]:
    """A warning for every two operations on different pipes that nothing orders and that share memory.

    ``as_written``: nothing is inserted, whatever functions hold. ``vector``: dependent operations of the
    vector pipe need a barrier between them, too.
    """
    search = _Search(resolved, as_written, vector)
    for function in roots(resolved.program) if search.judged else ():
        walk = _Walk(search, function, resolved.facts(function), ())
        denoted = {a.name: (w,) for a in function.args if (w := windows.of_argument(a)) is not None}
        walk.enter(denoted, Order())
    return list(search.found.values())


def is_as_written(function: Function) -> bool:
    """Whether a function orders its pipes by flags or events, so that nothing is inserted into it."""
    orders = (effects.traits_of(op).order for op in function.walk())
    return any(order is not None and order.through in ("flag", "event") for order in orders)


def _orders_pipes(op: Op) -> bool:
    order = effects.traits_of(op).order
    return order is not None and order.orders_pipes


class _Search:
    """What the walks over the functions of a program share, in the order in which they execute."""

    def __init__(self, resolved: resolve.ResolvedProgram, as_written: bool, vector: bool) -> None:
        self.resolved = resolved
        self.vector = vector
        self.found: dict[tuple[int, int], errors.Diagnostic] = {}
        self.numbers = Numbers()
        self.kinds: dict[tuple[Pipe, bool], None] = {}
        self.orders: dict[int, int] = {id(op): i for i, op in enumerate(resolved.program.walk())}
        self.cores = cores_of(resolved.program)
        #: The numbers of the operations that nothing is inserted between.
        self.judged: frozenset[int] = frozenset(
            self.orders[id(op)]
            for function in resolved.program.functions
            if as_written or is_as_written(function)
            for op in function.walk()
        )


class _Walk(dataflow.Forward[Order]):
    """The dataflow problem of one function, entered from the functions that are ``active``."""

    def __init__(
        self,
        search: _Search,
        function: Function,
        facts: FunctionFacts,
        active: tuple[str, ...],
        loops: int = 0,
    ) -> None:
        super().__init__()
        self.search = search
        self.facts = facts
        self.active = (*active, function.name)
        self.loops = loops
        #: The pipe of the operation that made an event.
        self.produced: dict[str, Pipe] = {}
        #: The windows that pointers and views denote, several where branches choose one.
        self.windows: dict[str, tuple[windows.Window, ...]] = {}

    def enter(self, denoted: Mapping[str, tuple[windows.Window, ...]], state: Order) -> None:
        """Go through the function, whose arguments denote windows."""
        self.windows |= denoted
        self.redefine(self.facts.function.args, state)
        self.block(self.facts.function.body, state)

    def block(self, region: Region, state: Order) -> None:
        """Take a state through a region, whose arguments have other values each time."""
        self.redefine(region.args, state)
        super().block(region, state)

    def redefine(self, values: Iterable[Value], state: Order) -> None:
        """Names have other values from here on, and windows that depend on them are others."""
        for value in values:
            name = self.facts.entered.prefix + value.name
            state.forget(self.search.numbers.named(name))
            state.renumber(self.search.numbers.chosen(name))

    def transfer(self, op: Op, state: Order) -> None:
        """What an operation waits for, lets go on, reads and writes."""
        self.redefine(op.results, state)
        traits = effects.traits_of(op)
        if traits.calls:
            self.call(op, state)
        elif _orders_pipes(op):
            self.synchronise(op, state)
        elif not op.regions:
            self.uses(op, state)
        if traits.fifo == "pop" or (traits.order is not None and traits.order.through in _BETWEEN_CORES):
            # What the other core has done meanwhile may have waited for anything in global memory.
            waits = traits.order is None or traits.order.role != "signal"
            state.forget(self.search.numbers.windows if waits else frozenset())
        if traits.alias is not None and traits.alias.memory == "global":
            self.derive(op)
        for handle in self.renewed(op):
            state.forget(self.search.numbers.rooted(self.facts.entered.prefix + handle.name))

    def derive(self, op: Op) -> None:
        """What a pointer or view denotes that an operation makes."""
        made, source = effects.aliased(op) or (None, None)
        bases = self.windows.get(source.name, ()) if source is not None else ()
        made_of = [windows.of_alias(op, base, lambda v: self.number(op, v)) for base in bases]
        if made is not None:
            self.windows[made.name] = tuple(window for window in made_of if window is not None)

    def hand_on(
        self,
        targets: Sequence[Value],
        sources: Sequence[Value],
        here: Order,
        there: Order,
        *,
        carried: bool = False,
    ) -> None:
        """A view that branches choose is one of theirs."""
        for target, source in zip(targets, sources, strict=False) if not carried else ():
            more = (*self.windows.get(target.name, ()), *self.windows.get(source.name, ()))
            self.windows[target.name] = tuple(dict.fromkeys(more))

    def number(self, op: Op, value: Value) -> windows.Sum:
        """The number of an operand, or its name."""
        number = self.facts.of(op).number(value)
        name = self.facts.entered.prefix + value.name
        return windows.Sum(number) if isinstance(number, int) else windows.Sum(0, (name,))

    def at_least_once(self, op: Op, state: Order) -> bool:
        """Whether the bounds of a loop are known and apart."""
        return executes(op, self.facts.of(op))

    def call(self, op: Op, state: Order) -> None:
        """Go through the function that is called."""
        resolved = self.search.resolved
        function = provenance.called(resolved.program, op)
        if function is not None and function.name not in self.active and len(function.args) == len(op.ins):
            inner = resolved.facts(function, self.facts.entering(op, function))
            pairs = zip(function.args, op.ins, strict=True)
            denoted = {a.name: self.windows[v.name] for a, v in pairs if v.name in self.windows}
            _Walk(self.search, function, inner, self.active, self.loops).enter(denoted, state)

    def renewed(self, op: Op) -> Iterator[Value]:
        """The handles that denote other bytes each time when an operation executes."""
        place, alias = effects.placed(op), effects.traits_of(op).alias
        if place is not None and isinstance(place[0].type, TileType):
            handle, address = place
            if address is not None and self.facts.of(op).number(address) is None:
                yield handle
        elif alias is None or alias.memory != "tile":
            yield from (value for value in op.results if effects.loc_of(value.type) is not None)

    # -- operations ----------------------------------------------------------------------------------

    def synchronise(self, op: Op, state: Order) -> None:
        """What an operation does for the order of others."""
        order = effects.traits_of(op).order
        match (order.role, order.through) if order is not None else None:
            case "barrier", "pipe":
                # A fence names no pipe and drains all.
                pipe = effects.pipe_named(op.attrs.get("pipe", op.attrs.get("op_type", Pipe.ALL)))
                if pipe == Pipe.ALL:
                    state.done(frozenset(state.pending), Pipe.ALL)
                elif pipe is not None:
                    state.done(state.before(pipe), pipe)
            case role, "flag" | "event":
                _flag(op, role, state, self.event(op))
            case role, "core":
                _core_flag(op, role, state, self.event(op))
            case role, "token":
                _token(op, role, state)
            case "wait", "operation":
                self.drain(op, state)

    def event(self, op: Op) -> int | None:
        """The number of an event, None where only execution tells."""
        written = op.attrs.get("event")
        return written if isinstance(written, int) else self.facts.of(op).number(next(iter(op.ins), None))

    def drain(self, op: Op, state: Order) -> None:
        """Everything waits for the events of some operations; for all of them where none is named."""
        pipes: set[Pipe] = set()
        instruction = isa.find(str(op.attrs.get("op", "")))
        if instruction is not None:
            pipes.add(instruction.pipe)
        for value in op.ins:
            made, seen = self.produced.get(value.name), self.facts.bytes_of(op, value)
            pipes |= {made} if made is not None else set()
            near = self.search.numbers.near(self.search.numbers.of(seen)) if seen is not None else ()
            pipes |= {u.pipe for u in state.pending if u.number in near}
        if not op.ins and instruction is None:
            pipes = {Pipe.ALL}
        for pipe in pipes:
            state.done(state.before(pipe), Pipe.ALL)

    def uses(self, op: Op, state: Order) -> None:
        """The bytes that an operation reads and writes, and what nothing orders it after."""
        pipe = effects.pipe_of(op)
        self.produced.update((v.name, pipe) for v in op.results if effects.loc_of(v.type) is None)
        order = self.search.orders[id(op)]
        uses = [
            (value, Use(pipe, self.search.numbers.of(where), write))
            for value, write in _uses(self.search.resolved.of(op))
            for where in self.memory(op, value)
        ]
        for value, use in uses:
            for other in self.clashing(use):
                known = state.pending.get(other)
                if known is None or (known.settled if other.pipe == pipe else pipe in known.seen):
                    continue
                if self.search.judged.isdisjoint((order, known.order)):
                    state.done(state.before(other.pipe), pipe)
                else:
                    self.report(op, value, use, other, known)
        for value, use in uses:
            # The scalar unit has read a tile before it issues anything else.
            if use.write or pipe != Pipe.S:
                self.search.kinds[pipe, use.write] = None
                state.began(use, Pending(order, op, value, frozenset((pipe,)), pipe != Pipe.V))

    def memory(self, op: Op, value: Value) -> Iterator[Memory]:
        """The bytes of a tile, or the windows of a view for one kind of core: each has pipes of its own."""
        if effects.loc_of(value.type) is not None:
            where = self.facts.bytes_of(op, value)
            yield from (where,) if where is not None else ()
            return
        core = self.search.cores.get(id(op))
        for window in self.windows.get(value.name, ()):
            yield replace(window, root=f"{core.name if core else ''}:{window.root}")

    def clashing(self, use: Use) -> Iterator[Use]:
        """Uses by other pipes that share memory with a use, one of both writing."""
        for number in self.search.numbers.near(use.number):
            for pipe, write in self.search.kinds:
                same = pipe == use.pipe and not (self.search.vector and pipe == Pipe.V)
                if not same and (write or use.write):
                    yield Use(pipe, number, write)

    def report(self, op: Op, value: Value, use: Use, other: Use, known: Pending) -> None:
        key = (self.search.orders[id(op)], known.order)
        if key in self.search.found:
            return
        what, before = ("writes" if u.write else "reads" for u in (use, other))
        place = self.search.numbers.known[use.number]
        where = f" ({known.op.span})" if known.op.span else ""
        earlier = " in an earlier pass of the loop" if self.loops and known.order >= key[0] else ""
        allowed = "a barrier of PIPE_V" if other.pipe == use.pipe else "a flag, an event or a barrier"
        self.search.found[key] = errors.Diagnostic(
            "warning",
            f"{what} {value} ({place}) on PIPE_{use.pipe.name} and nothing orders it "
            f"after {known.op.name}{where}, which {before} {known.value} on PIPE_{other.pipe.name}{earlier}; "
            f"allowed: {allowed} between them",
            value.span or op.span,
            op.name,
            rule="hazard",
        )


def _flag(op: Op, role: str, state: Order, number: int | None) -> None:
    """A flag from one pipe to another; a number known only at run time may be any."""
    source, target = effects.ends_of(op)
    if role == "signal":
        if source is not None:
            state.signals["flag", source, target, number] = state.before(source)
        return
    for signal, uses in state.signals.items():
        if signal[:3] == ("flag", source, target) and (number is None or signal[3] in (None, number)):
            state.done(uses, target or Pipe.ALL)


def _core_flag(op: Op, role: str, state: Order, number: int | None) -> None:
    """A flag between cores, which a core may give itself."""
    pipe = op.attrs.get("pipe")
    if not isinstance(pipe, Pipe):
        return
    if role == "signal":
        state.signals["sync", number] = state.before(pipe)
        return
    for awaited in (number, None):
        state.done(state.signals.get(("sync", awaited), frozenset()), pipe)


def _token(op: Op, role: str, state: Order) -> None:
    """A token of a buffer, which the operations of a class take and give back."""
    pipe, key = effects.pipe_named(op.attrs.get("op_type")), ("buffer", op.attrs.get("buf"))
    if pipe is None:
        return
    uses = state.signals.get(key, frozenset())
    if role == "signal":
        state.signals[key] = uses | state.before(pipe)
    else:
        state.done(uses, pipe)


def _uses(resolved: resolve.ResolvedOp) -> Iterator[tuple[Value, bool]]:
    """The tiles and views an operation reads and writes; scratch is written."""
    instruction = resolved.instruction
    if instruction is None or (instruction.syntax == "custom" and not instruction.executable):
        # Communication orders its own transfers.
        return
    for effect, value in resolved.accesses():
        tile = effects.loc_of(value.type) is not None
        if effect.resource == "tile" if tile else effect.resource == "global" and not effect.indexed:
            yield value, effect.access != "read"


@dataclass(frozen=True)
class Place:
    """The bytes [start, end) of one on-chip buffer that a handle denotes."""

    loc: Loc
    start: int
    end: int
    name: str
    span: Span | None
    instruction: str

    @property
    def bytes(self) -> tuple[Loc, int, int]:
        """The buffer, the first byte, and the byte after the last."""
        return (self.loc, self.start, self.end)


def overwritten(resolved: ResolvedProgram, function: Function) -> Iterator[Diagnostic]:
    """A warning for every tile that is written over another one, of a different range, that is read later.

    Tiles that take turns in the same bytes are planned reuse, and the same range under several handles is the
    normal way to see a tile through another view.
    """
    lifetimes = Lifetimes(resolved, function)
    facts = resolved.facts(lifetimes.function)
    places: dict[int, Place] = {}
    for i, tile in enumerate(lifetimes.tiles):
        start = facts.of(tile.op).number(tile.address)
        if start is not None:
            end = start + tile.bytes
            places[i] = Place(tile.type.loc, start, end, tile.name, tile.op.span, tile.op.name)
    near = _near(places)
    found: dict[int, tuple[Op, int]] = {}

    def visit(op: Op, access: Access, before: int, behind: int) -> None:
        for i in bits(access.writes | access.scratch):
            lost = near.get(i, 0) & before & behind & ~access.writes
            if lost and i not in found:
                found[i] = op, next(bits(lost))

    if near:
        lifetimes.visit(visit)
    for i, (op, j) in found.items():
        yield _overwrites(op, places[i], places[j])


def _near(places: Mapping[int, Place]) -> dict[int, int]:
    """For tiles, the others that have some bytes in common and not all."""
    near: dict[int, int] = {}
    active: list[int] = []
    for i in sorted(places, key=lambda i: places[i].bytes):
        place = places[i]
        active = [j for j in active if places[j].loc == place.loc and places[j].end > place.start]
        for j in (j for j in active if places[j].bytes != place.bytes):
            near[i] = near.get(i, 0) | 1 << j
            near[j] = near.get(j, 0) | 1 << i
        active.append(i)
    return near


def _overwrites(op: Op, written: Place, other: Place) -> Diagnostic:
    where = f" ({other.span})" if other.span else ""
    return Diagnostic(
        "warning",
        f"writes %{written.name} at bytes [{written.start}, {written.end}) of the "
        f"{written.loc.name.lower()} buffer, which shares bytes with %{other.name} at "
        f"[{other.start}, {other.end}){where}, and %{other.name} is read later; allowed: bytes whose last "
        "read is over",
        op.span,
        op.name,
        rule="overlap",
    )


def shared_bytes(op: Op, bound: Bound, facts: FunctionFacts, profile: Profile) -> Iterator[Diagnostic]:
    """An error for every two operands that share bytes and must not, by their handles or addresses."""
    types = {name: value.type for name, value in bound.values.items()}
    for name, other, apart in kept_apart(bound.instruction, bound.form, types, profile.name):
        pair = bound.values[name], bound.values[other]
        one, two = (facts.bytes_of(op, value) for value in pair)
        if one is None or two is None or not one.overlaps(two) or any(map(_is_empty, pair)):
            continue
        certain = one.certainly_overlaps(two)
        found = f"{name} ({pair[0]}) and {other} ({pair[1]}) {'share' if certain else 'may share'} bytes"
        allowed = f"allowed on {profile.name}: {name} apart from {other}, {apart.source}"
        error = error_of(op, "overlap", f"{found}; {allowed}; try: another tile as {name}", pair[0])
        yield error if certain else replace(error, severity="warning")


def _is_empty(value: Value) -> bool:
    return isinstance(value.type, TileType) and 0 in value.type.valid


@dataclass(frozen=True)
class Reserved:
    """Bytes [start, end) of the unified buffer that an operation overwrites without naming them."""

    start: int
    end: int
    instruction: str
    span: Span | None


def in_reserved(places: list[Place], sizes: list[Place], reserved: list[Reserved]) -> Iterator[Diagnostic]:
    """An error for every tile in bytes that some operation of the same kernel overwrites.

    ``sizes`` are tiles without an address, as if placed at 0: automatic allocation ends below the range.
    """
    for place in dict.fromkeys((*places, *sizes)):
        user = next((r for r in reserved if r.start < place.end and place.start < r.end), None)
        if place.loc != Loc.VEC or user is None:
            continue
        where = f" ({user.span})" if user.span else ""
        what = (
            f"takes bytes [{place.start}, {place.end}) of the vec buffer"
            if place in places
            else f"has {place.end} bytes and no address"
        )
        yield Diagnostic(
            "error",
            f"%{place.name} {what}, and {user.instruction}{where} without tmp overwrites "
            f"[{user.start}, {user.end}); allowed: tiles that end at {user.start} or below, or a tmp operand",
            place.span,
            place.instruction,
            rule="hidden-scratch",
        )
