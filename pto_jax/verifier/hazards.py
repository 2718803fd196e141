"""Operations on different pipes that use the same bytes in no defined order.

Pipes run side by side; each executes its own operations in program order. What a hand-synchronised program
orders between pipes are flags, events, buffer tokens and barriers. The walk keeps, for every use of on-chip
bytes, the pipes whose later operations are known to come after it; a flag carries that knowledge from the
pipe that sets it to the pipe that waits for it.
"""

from collections.abc import Iterator

from .. import errors, isa
from ..analysis import addresses, dataflow, provenance, resolve
from ..analysis.facts import FunctionFacts, executes
from ..ir import Function, Op, Pipe, PipeEventType, Program, TileType, Value
from ..isa import effects, issue
from .ordering import Order, Pending, Use

#: Addresses are looked up in so many blocks of so many bytes; all beyond are one block more.
_BLOCK, _BLOCKS = 4096, 256


class Numbers:
    """Numbers of the bytes a program uses, and which of them have bytes in common."""

    def __init__(self) -> None:
        self.known: list[addresses.Bytes] = []
        self._numbers: dict[addresses.Bytes, int] = {}
        self._near: list[list[int]] = []
        #: The numbers in every allocation and every block of addresses, so that only those are compared.
        self._at: dict[tuple[object, ...], list[int]] = {}

    def of(self, found: addresses.Bytes) -> int:
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


def _places(found: addresses.Bytes) -> Iterator[tuple[object, ...]]:
    """The allocation and the blocks of addresses that hold any of these bytes."""
    yield (found.root,)
    if found.range is not None:
        first, last = (min(max(n // _BLOCK, 0), _BLOCKS) for n in (found.range[0], found.range[1] - 1))
        yield from ((found.loc, block) for block in range(first, last + 1))


def hazards(resolved: resolve.ResolvedProgram) -> list[errors.Diagnostic]:
    """A warning for every two operations on different pipes that nothing orders and that share bytes."""
    program = resolved.program
    inner = {f.name for op in program.walk() if (f := provenance.called(program, op)) is not None}
    search = _Search(resolved)
    for function in program.functions:
        if function.name not in inner:
            _Walk(search, function, resolved.facts(function), ()).block(function.body, Order())
    return list(search.found.values())


def is_hand_synchronised(program: Program) -> bool:
    """Whether a program places every tile and orders its pipes itself.

    Without any synchronisation a program is meant for a tool that inserts it.
    """
    addressed = [
        place[1] is not None
        for op in program.walk()
        if (place := effects.placed(op)) is not None and _allocates_tile(op, place[0])
    ]
    return bool(addressed) and all(addressed) and any(map(_orders_pipes, program.walk()))


def _allocates_tile(op: Op, handle: Value) -> bool:
    placement = effects.traits_of(op).placement
    return placement is not None and placement.allocates and isinstance(handle.type, TileType)


def _orders_pipes(op: Op) -> bool:
    order = effects.traits_of(op).order
    return order is not None and order.orders_pipes


class _Search:
    """What the walks over the functions of a program share, in the order in which they execute."""

    def __init__(self, resolved: resolve.ResolvedProgram) -> None:
        self.resolved = resolved
        self.found: dict[tuple[int, int], errors.Diagnostic] = {}
        self.numbers = Numbers()
        self.kinds: dict[tuple[Pipe, bool], None] = {}
        self.orders: dict[int, int] = {id(op): i for i, op in enumerate(resolved.program.walk())}


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

    def transfer(self, op: Op, state: Order) -> None:
        """What an operation waits for, lets go on, reads and writes."""
        if effects.traits_of(op).calls:
            self.call(op, state)
        elif _orders_pipes(op):
            self.synchronise(op, state)
        elif not op.regions:
            self.uses(op, state)
        for handle in self.renewed(op):
            state.forget(self.search.numbers.rooted(self.facts.entered.prefix + handle.name))

    def at_least_once(self, op: Op, state: Order) -> bool:
        """Whether the bounds of a loop are known and apart."""
        return executes(op, self.facts.of(op))

    def call(self, op: Op, state: Order) -> None:
        """Go through the function that is called."""
        resolved = self.search.resolved
        function = provenance.called(resolved.program, op)
        if function is not None and function.name not in self.active and len(function.args) == len(op.ins):
            inner = resolved.facts(function, self.facts.entering(op, function))
            _Walk(self.search, function, inner, self.active, self.loops).block(function.body, state)

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
                # A barrier on one pipe orders the operations of that pipe, which execute in order anyway.
                if op.attrs.get("pipe") == Pipe.ALL:
                    state.done(frozenset(state.pending), Pipe.ALL)
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
        uses = [
            (value, Use(pipe, self.search.numbers.of(where), write))
            for value, write in _uses(self.search.resolved.of(op))
            if (where := self.facts.bytes_of(op, value)) is not None
        ]
        for value, use in uses:
            for other in self.clashing(use):
                known = state.pending.get(other)
                if known is not None and pipe not in known.seen:
                    self.report(op, value, use, other, known)
        for value, use in uses:
            # The scalar unit has read a tile before it issues anything else.
            if use.write or pipe != Pipe.S:
                self.search.kinds[pipe, use.write] = None
                order = self.search.orders[id(op)]
                state.began(use, Pending(order, op, value, frozenset((pipe,))))

    def clashing(self, use: Use) -> Iterator[Use]:
        """Uses by other pipes that share bytes with a use, one of both writing."""
        for number in self.search.numbers.near(use.number):
            for pipe, write in self.search.kinds:
                if pipe != use.pipe and (write or use.write):
                    yield Use(pipe, number, write)

    def report(self, op: Op, value: Value, use: Use, other: Use, known: Pending) -> None:
        key = (self.search.orders[id(op)], known.order)
        if key in self.search.found:
            return
        what, before = ("writes" if u.write else "reads" for u in (use, other))
        place = self.search.numbers.known[use.number]
        where = f" ({known.op.span})" if known.op.span else ""
        earlier = " in an earlier pass of the loop" if self.loops and known.order >= key[0] else ""
        self.search.found[key] = errors.Diagnostic(
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


def _flag(op: Op, role: str, state: Order, number: int | None) -> None:
    """A flag from one pipe to another; a number known only at run time may be any."""
    source, target = _ends(op)
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
    return issue.EVENT_PIPES[kind] if isinstance(kind, PipeEventType) else None


def _uses(resolved: resolve.ResolvedOp) -> Iterator[tuple[Value, bool]]:
    """The tiles an operation reads and writes; scratch is written."""
    instruction = resolved.instruction
    if instruction is None or (instruction.syntax == "custom" and not instruction.executable):
        # Communication orders its own transfers.
        return
    for effect, value in resolved.accesses():
        if effect.resource == "tile" and issue.loc_of(value.type) is not None:
            yield value, effect.access != "read"
