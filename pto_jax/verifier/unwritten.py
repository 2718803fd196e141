"""Kernels that store nothing, and tiles that are read although nothing has written them on any path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..analysis import addresses, dataflow, provenance
from ..analysis.facts import FunctionFacts, executes
from ..analysis.provenance import AliasClasses
from ..analysis.resolve import ResolvedProgram
from ..analysis.roots import roots, runs_on_both
from ..errors import Diagnostic, Span
from ..ir import Function, Loc, MemRefType, Op, PartitionViewType, PtrType, TensorViewType, TileType, Value
from ..isa import Instruction, effects
from ..isa.traits import Effect
from ..text import type_text

#: What writes that nobody outside a kernel sees are of.
_INSIDE = ("tile", "vector", "mode", "events")


def unwritten_findings(resolved: ResolvedProgram) -> Iterator[Diagnostic]:
    """Warnings about the functions of a program that no other one calls; fragments show what they define."""
    if resolved.program.fragment:
        return
    judge = _Judge(resolved)
    for function in roots(resolved.program):
        if function.private or function.external:
            continue
        if not _stores(resolved, function):
            yield from _stores_nothing(resolved, function)
        yield from judge.reads(function)


# -- kernels that store nothing --------------------------------------------------------------------------


def _stores(resolved: ResolvedProgram, function: Function) -> bool:
    """Whether an execution of a function writes what others see, or signals to them."""
    return any(
        traits.fifo in ("push", "free")
        or (traits.order is not None and traits.order.role == "signal")
        or any(e.access == "write" and e.resource not in _INSIDE for e in traits.effects)
        for owner in _executed(resolved, function)
        for traits in effects.traits_in(owner)
    )


def _stores_nothing(resolved: ResolvedProgram, function: Function) -> Iterator[Diagnostic]:
    buffers = any(isinstance(a.type, provenance.GlobalTypes) for a in function.args)
    aliases = AliasClasses(resolved.program)
    tiles = {
        aliases.of(function.name, a.name): a for a in function.args if effects.loc_of(a.type) is not None
    }
    first: Op | None = None
    written: Value | None = None
    for owner in _executed(resolved, function):
        for op in owner.walk():
            for value in resolved.of(op).written("tile"):
                first = first or op
                written = written or tiles.get(aliases.of(owner.name, value.name))
    # Without buffers a function is no kernel: kernels call it.
    if first is not None and not function.results and buffers:
        what = "stores to no argument, so that its result is empty"
        if written is not None:
            what = f"writes its argument {written} and stores nothing, and callers get buffers back, no tiles"
        place, message = function.span or first.span, f"@{function.name} {what}"
        allowed, fix = "a store into one of its buffers", _store(function, place)
        yield Diagnostic("warning", message, place, rule="stores-nothing", allowed=allowed, fix=fix)


def _store(function: Function, place: Span | None) -> str:
    """A store of the tile that was written last: into the last buffer, or a view that nothing uses."""
    ops = list(function.walk())
    tiles = [v for op in ops for v in op.destinations if isinstance(v.type, TileType)]
    views = [v for op in ops for v in op.results if isinstance(v.type, PartitionViewType | TensorViewType)]
    buffers = [a.name for a in function.args if isinstance(a.type, PtrType)]
    names = {v.name for op in ops for v in op.ins}
    view = next((v for v in views if v.name not in names), next(reversed(views), None))
    if tiles and buffers and place is not None and place.python:
        shape = tiles[-1].type.shape if isinstance(tiles[-1].type, TileType) else ()
        return f"pto.tstore(pto.GlobalTensor({buffers[-1]}, {shape}), {tiles[-1].name})"
    if not tiles or view is None:
        return ""
    types = [type_text.print_type(v.type) for v in (tiles[-1], view)]
    return f"pto.tstore ins({tiles[-1]} : {types[0]}) outs({view} : {types[1]})"


def _executed(resolved: ResolvedProgram, function: Function) -> Iterator[Function]:
    """A function and all that it calls, directly or not."""
    functions = {function.name: function}
    pending = [function]
    while pending:
        caller = pending.pop()
        yield caller
        for _, callee in provenance.calls(resolved.program, caller):
            if callee.name not in functions:
                functions[callee.name] = callee
                pending.append(callee)


# -- tiles that are read and were not written ------------------------------------------------------------


#: Addresses are looked up in so many blocks of so many bytes; all beyond are one block more.
_BLOCK, _BLOCKS = 4096, 256


class Numbers:
    """Numbers of the memory a program uses, and which of them have bytes in common."""

    def __init__(self) -> None:
        self.known: list[addresses.Bytes] = []
        self._numbers: dict[addresses.Bytes, int] = {}
        self._near: list[list[int]] = []
        #: The numbers in every allocation and every block of addresses, so that only those are compared.
        self._at: dict[tuple[object, ...], list[int]] = {}

    def of(self, span: addresses.Bytes) -> int:
        """The number of some memory, a new one where it has none yet."""
        number = self._numbers.setdefault(span, len(self.known))
        if number == len(self.known):
            places = [self._at.setdefault(place, []) for place in _places(span)]
            around = sorted({i for place in places for i in place})
            near = [i for i in around if self.known[i].overlaps(span)]
            self.known.append(span)
            for place in places:
                place.append(number)
            self._near.append([*near, number])
            for i in near:
                self._near[i].append(number)
        return number

    def near(self, number: int) -> list[int]:
        """The numbers of all bytes that overlap those of a number, itself included."""
        return self._near[number]


def _places(span: addresses.Bytes) -> Iterator[tuple[object, ...]]:
    """Where other memory is looked up that may meet this one: allocations, blocks of addresses."""
    if span.either:
        yield from dict.fromkeys(place for one in span.either for place in _places(one))
        return
    yield (span.root,)
    if span.range is not None:
        first, last = (min(max(n // _BLOCK, 0), _BLOCKS) for n in (span.range[0], span.range[1] - 1))
        yield from ((span.loc, block) for block in range(first, last + 1))


@dataclass
class _Written:
    """The numbers of the bytes that some path to a place has written: an element of the lattice."""

    numbers: set[int] = field(default_factory=set)

    def fork(self, defined: Sequence[Value] = ()) -> _Written:
        """A state for one path from here."""
        return _Written(set(self.numbers))

    def kept(self) -> _Written:
        """What is remembered in front of a loop: everything."""
        return self.fork()

    def adopt(self, path: _Written) -> None:
        """Become what a path is at its end."""
        self.numbers = path.numbers

    def weaken(self, other: _Written) -> bool:
        """Become what some of two paths has written; whether that is more."""
        before = len(self.numbers)
        self.numbers |= other.numbers
        return len(self.numbers) > before


class _Judge:
    """What the walks over the functions of a program share."""

    def __init__(self, resolved: ResolvedProgram) -> None:
        self.resolved = resolved
        self.numbers = Numbers()
        #: By the calls that led to an operation, the operation and the name of the tile.
        self.found: dict[tuple[tuple[int, ...], int, str], Diagnostic] = {}
        #: Buffers in which tiles lie at addresses that only execution knows, or that other cores fill.
        self.open: set[Loc] = set()
        #: What operations of a function that is entered in some way read and write, by their identities.
        self.used: dict[FunctionFacts, dict[int, _Uses]] = {}
        self._allocated: dict[FunctionFacts, frozenset[str]] = {}
        #: Both kinds of cores run at once, so that the text's order says nothing of writes.
        self.ordered = not runs_on_both(resolved.program)
        for function in resolved.program.functions:
            facts = resolved.facts(function)
            if any(traits.fifo is not None for traits in effects.traits_in(function)):
                self.open |= {Loc.VEC, Loc.MAT}
            for op in function.walk():
                place = effects.placed(op)
                if place is not None and place[1] is not None and facts.of(op).number(place[1]) is None:
                    self.open |= {loc} if (loc := effects.loc_of(place[0].type)) is not None else set(Loc)

    def allocated(self, facts: FunctionFacts) -> frozenset[str]:
        """The handles of tiles that a function allocates, without those that only execution can place."""
        if facts not in self._allocated:
            handles = set[str]()
            for op in facts.function.walk():
                placement = effects.traits_of(op).placement
                place = effects.placed(op) if placement is not None and placement.allocates else None
                if place is not None:
                    handle, address = place
                    if isinstance(handle.type, TileType) and (
                        address is None or facts.of(op).number(address) is not None
                    ):
                        handles.add(facts.entered.prefix + handle.name)
            self._allocated[facts] = frozenset(handles)
        return self._allocated[facts]

    def reads(self, function: Function) -> list[Diagnostic]:
        """The reads in a function, and in those it calls, of tiles that nothing has written."""
        state, facts = _Written(), self.resolved.facts(function)
        if not self.ordered:
            _Walk(self, facts).block(function.body, state)
        _Walk(self, facts).block(function.body, state)
        # One warning for each tile: at its first read.
        findings = {key[::2]: finding for key, finding in reversed(self.found.items())}
        self.found.clear()
        return list(dict.fromkeys(findings.values()))


#: Of an operation: tiles that it reads, with the names of their allocations and the numbers of the bytes that
#: overlap theirs, and the numbers of the bytes that it writes.
_Uses: TypeAlias = tuple[tuple[tuple[Value, str, list[int]], ...], frozenset[int]]
_NO_USES: _Uses = (), frozenset()
#: Types of what may lie in a buffer on chip.
_TILES = (TileType, MemRefType)


def _depends(instruction: Instruction | None, effect: Effect) -> bool:
    """Whether results depend on the tile that is read: kept elements only stay where they are."""
    if effect.access != "read" or effect.resource != "tile":
        return False
    return instruction is None or effect.operand is None or not instruction.operand(effect.operand).keeps


class _Walk(dataflow.Forward[_Written]):
    """The dataflow problem of one function, entered by ``calls`` from the functions that are ``active``."""

    def __init__(
        self,
        judge: _Judge,
        facts: FunctionFacts,
        active: tuple[str, ...] = (),
        calls: tuple[int, ...] = (),
        own: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.judge = judge
        self.facts = facts
        self.active = (*active, facts.function.name)
        self.calls = calls
        #: The handles of tiles that the function and its callers allocate.
        self.own = own | judge.allocated(facts)
        #: What operations read and write, by their identities.
        self.used = judge.used.setdefault(facts, {})

    def at_least_once(self, op: Op, state: _Written) -> bool:
        """Whether the bounds of a loop are known and apart."""
        return executes(op, self.facts.of(op))

    def transfer(self, op: Op, state: _Written) -> None:
        """Judge what an operation reads, and note what it writes."""
        if effects.traits_of(op).calls and self.call(op, state):
            return
        accesses = self.used.get(id(op))
        if accesses is None:
            accesses = self.used[id(op)] = self.uses(op)
        if accesses is _NO_USES:
            return
        reads, written = accesses
        for value, root, near in reads:
            if root in self.own:
                self.read(op, value, near, state)
        state.numbers |= written

    def uses(self, op: Op) -> _Uses:
        """The tiles that an operation reads, and the numbers of those that it writes."""
        tiles = [v for v in (*op.ins, *op.outs, *op.results) if isinstance(v.type, _TILES)]
        if not tiles:
            return _NO_USES
        traits = effects.traits_of(op)
        if traits.placement is not None and effects.placed(op) is not None:
            return _NO_USES
        if (traits.alias is not None and traits.alias.memory == "tile") or traits.resizes is not None:
            return _NO_USES
        resolved = self.judge.resolved.of(op)
        accessed = list(resolved.accesses())
        executed = resolved.instruction is not None and (
            resolved.instruction.syntax != "custom" or resolved.instruction.executable
        )
        names = {value.name for effect, value in accessed if effect.access == "read"} if executed else set()
        # Whoever gets a tile in a way that is not declared may write it.
        values = [v for v in tiles if v.name not in names]
        values += [v for effect, v in accessed if effect.access != "read"]
        places = [self.memory(op, value) for value in values]
        written = frozenset(self.judge.numbers.of(where) for where in places if where is not None)
        is_tile = [v for e, v in accessed if executed and _depends(resolved.instruction, e)]
        return tuple(self.readable(op, is_tile)), written

    def readable(self, op: Op, values: Iterable[Value]) -> Iterator[tuple[Value, str, list[int]]]:
        """Of tiles that an operation reads, those in memory that the text tells apart from that of others.

        With each the name of its allocation, and the numbers of the bytes that overlap its own.
        """
        for value in values:
            where = self.memory(op, value)
            if where is not None and (where.range is None or where.loc not in self.judge.open):
                yield value, where.root, self.judge.numbers.near(self.judge.numbers.of(where))

    def call(self, op: Op, state: _Written) -> bool:
        """Go through the function that is called; whether there is one."""
        resolved = self.judge.resolved
        function = provenance.called(resolved.program, op)
        if function is None or function.external or function.name in self.active:
            return False
        if len(function.args) != len(op.ins):
            return False
        facts = resolved.facts(function, self.facts.entering(op, function))
        inner = _Walk(self.judge, facts, self.active, (*self.calls, id(op)), self.own)
        inner.block(function.body, state)
        return True

    def memory(self, op: Op, value: Value) -> addresses.Bytes | None:
        """The bytes of a whole tile: where a window of it lies may be known to execution only."""
        where = self.facts.bytes_of(op, value) if effects.loc_of(value.type) is not None else None
        if where is None or not where.window:
            return where
        return replace(where, window="", rows=None, cols=None)

    def read(self, op: Op, value: Value, near: list[int], state: _Written) -> None:
        """Judge one tile that is read."""
        key = (self.calls, id(op), value.name)
        if not state.numbers.isdisjoint(near):
            # A pass over a loop knows less of the trips before than the next pass.
            self.judge.found.pop(key, None)
            return
        self.judge.found[key] = Diagnostic(
            "warning",
            f"reads {value}, which nothing has written before; allowed: a load, or another instruction that "
            "writes it first",
            value.span or op.span,
            op.name,
            rule="unwritten",
        )
