"""Operations on different pipes that use the same memory in no defined order.

Pipes run side by side; each executes its own operations in program order. Flags, events, buffer tokens and
barriers order them. The walk keeps, for every use of on-chip bytes and of windows of global memory, the pipes
whose later operations are known to come after it; a flag carries that knowledge from the pipe that sets it to
the pipe that waits for it.

A function is judged *as written* where it holds a flag or an event, or where the build says so. In all others
the assembler inserts what orders the pipes (``PTOInsertSync.cpp``), so that every use there comes after the
ones that it depends on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from .. import errors, isa
from ..analysis import addresses, dataflow, provenance, resolve, windows
from ..analysis.facts import FunctionFacts, executes
from ..ir import Function, Op, Pipe, Region, TileType, Value
from ..isa import effects, issue
from .ordering import Order, Pending, Use
from .roots import cores_of, roots

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
            yield from (value for value in op.results if issue.loc_of(value.type) is not None)

    # -- operations ----------------------------------------------------------------------------------

    def synchronise(self, op: Op, state: Order) -> None:
        """What an operation does for the order of others."""
        order = effects.traits_of(op).order
        match (order.role, order.through) if order is not None else None:
            case "barrier", "pipe":
                # A fence names no pipe and drains all.
                pipe = issue.pipe_named(op.attrs.get("pipe", op.attrs.get("op_type", Pipe.ALL)))
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
        pipe = issue.pipe_of(op)
        self.produced.update((v.name, pipe) for v in op.results if issue.loc_of(v.type) is None)
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
        if issue.loc_of(value.type) is not None:
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
    source, target = issue.ends_of(op)
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
    pipe, key = issue.pipe_named(op.attrs.get("op_type")), ("buffer", op.attrs.get("buf"))
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
        tile = issue.loc_of(value.type) is not None
        if effect.resource == "tile" if tile else effect.resource == "global" and not effect.indexed:
            yield value, effect.access != "read"
