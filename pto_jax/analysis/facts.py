"""Facts of a function's values before execution, and the transfer function of every operation.

A scalar has its number, a tile its valid region and bytes, a view its extents and layout, a pointer its
target. Where paths meet, every part on which they disagree is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from ..ir import Function, GlobalLayout, Op, PartitionViewType, PtrType, TensorViewType, TileType, Type, Value
from ..isa import effects, views
from ..isa.check import Valid
from . import addresses, dataflow
from .addresses import Bytes

Extents: TypeAlias = tuple[int | None, ...]


class TileFact(NamedTuple):
    """A tile: the rows and columns of its valid region, None where nothing but its type gives them.

    ``bytes`` is None for a handle that has bytes of its own.
    """

    valid: Valid | None
    bytes: Bytes | None = None


class ViewFact(NamedTuple):
    """A view of global memory."""

    extents: Extents | None
    layout: GlobalLayout | None = None


class PointerFact(NamedTuple):
    """A pointer: the argument that it is derived from, and how many elements behind its first one."""

    base: str
    offset: int


#: The number of a scalar (an array of numbers for many candidates at once), or what is known of a handle.
Fact: TypeAlias = "int | TileFact | ViewFact | PointerFact | Any"


def fact_of(t: Type) -> Fact | None:
    """What the type of a value says; the sizes in a tile's type are seen wherever the tile is named."""
    return ViewFact(t.dims) if isinstance(t, TensorViewType | PartitionViewType) else None


def join(a: Fact | None, b: Fact | None) -> Fact | None:
    """What is known of a value of which one path knows ``a`` and another one ``b``.

    >>> join(3, 3), join(3, 4)
    (3, None)
    >>> join(TileFact((8, 16)), TileFact((4, 16)))
    TileFact(valid=(None, 16), bytes=None)
    """
    if a is b:
        return a
    if isinstance(a, TileFact) and isinstance(b, TileFact):
        where = a.bytes.joined(b.bytes) if a.bytes is not None and b.bytes is not None else None
        return TileFact(_each(a.valid, b.valid), where)  # type: ignore[arg-type]
    if isinstance(a, ViewFact) and isinstance(b, ViewFact):
        return ViewFact(_each(a.extents, b.extents), a.layout if a.layout == b.layout else None)
    return a if isinstance(a, int | PointerFact) and isinstance(b, int | PointerFact) and a == b else None


def _each(a: Extents | None, b: Extents | None) -> Extents | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))


class Facts:
    """What is known at a place of a program of every name in scope: the state of the dataflow problem.

    A path through a region has names of its own, and what it changes of those around it, so that a region
    costs as much as it defines and changes.
    """

    __slots__ = ("_around", "_changed", "_own")

    def __init__(self, around: Facts | None = None) -> None:
        self._own: dict[str, Fact | None] = {}
        self._changed: dict[str, Fact | None] = {}
        self._around = around

    def __getitem__(self, name: str) -> Fact | None:
        scope: Facts | None = self
        while scope is not None:
            if name in scope._own:
                return scope._own[name]
            if name in scope._changed:
                return scope._changed[name]
            scope = scope._around
        return None

    def __setitem__(self, name: str, fact: Fact | None) -> None:
        is_own = name in self._own or self._around is None
        (self._own if is_own else self._changed)[name] = fact

    def define(self, value: Value) -> None:
        """Bring a name into scope with what its type says."""
        self._own[value.name] = fact_of(value.type)

    def fork(self, defined: Sequence[Value] = ()) -> Facts:
        """A path that begins here, and the names that it begins with."""
        path = Facts(self)
        for value in defined:
            path.define(value)
        return path

    def adopt(self, path: Facts) -> None:
        """Take over what a path that began here has changed."""
        scopes = []
        while path is not self:
            assert path._around is not None, "a path that began elsewhere"
            scopes.append(path)
            path = path._around
        for scope in reversed(scopes):
            for name, fact in scope._changed.items():
                self[name] = fact

    def weaken(self, other: Facts) -> bool:
        """Join with what is known on another path; whether something is no longer known."""
        less = False
        for name in (*self._changed, *other._changed):
            mine = self[name]
            joined = join(mine, other[name]) if mine is not None else None
            if mine is not None and (joined is None or joined != mine):
                self[name], less = joined, True
        return less

    def kept(self) -> Facts:
        """What this path knows by itself, without what is around it."""
        facts = Facts()
        facts._changed = {**self._own, **self._changed}
        return facts


_NONE: Mapping[str, Any] = {}


class OperandFacts(NamedTuple):
    """What is known of the operands of an operation where it is executed, by the names of values."""

    numbers: Mapping[str, Any] = _NONE
    valid: Mapping[str, Valid] = _NONE
    extents: Mapping[str, Extents] = _NONE
    layouts: Mapping[str, GlobalLayout] = _NONE
    bytes: Mapping[str, Bytes] = _NONE
    pointers: Mapping[str, PointerFact] = _NONE

    def number(self, value: Value | None) -> Any:
        """The number of a scalar, None where it is not known."""
        return None if value is None else self.numbers.get(value.name)


#: Of an operation that is not in the program.
NOTHING = OperandFacts()


def operand_facts(values: tuple[Value, ...], facts: Facts) -> OperandFacts:
    """The facts of some values at a place."""
    # Most operations know nothing of most kinds, and a program keeps one of these for each operation.
    result: dict[str, dict[str, Any]] = {}
    for value in values:
        name, fact = value.name, facts[value.name]
        if fact is None:
            continue
        if isinstance(fact, TileFact):
            if fact.valid is not None:
                result.setdefault("valid", {})[name] = fact.valid
            if fact.bytes is not None:
                result.setdefault("bytes", {})[name] = fact.bytes
        elif isinstance(fact, ViewFact):
            if fact.extents is not None:
                result.setdefault("extents", {})[name] = fact.extents
            if fact.layout is not None:
                result.setdefault("layouts", {})[name] = fact.layout
        elif isinstance(fact, PointerFact):
            result.setdefault("pointers", {})[name] = fact
        else:
            result.setdefault("numbers", {})[name] = fact
    return OperandFacts(**result) if result else NOTHING


#: The number that an operation yields when others are known, None where it is not.
Fold: TypeAlias = Callable[[Op, Mapping[str, Any]], Any]
#: The values of an operation by declared operand name.
Operands: TypeAlias = Callable[[Op], Mapping[str, Value]]


@dataclass(frozen=True)
class Entered:
    """What is known of a function's arguments where it is entered: numbers and bytes by name.

    ``prefix`` tells handles of a called function from equally named ones of its callers.
    """

    numbers: tuple[tuple[str, Any], ...] = ()
    bytes: tuple[tuple[str, addresses.Bytes], ...] = ()
    prefix: str = ""


#: Nothing is known of the arguments.
ANYWHERE = Entered()


@dataclass(frozen=True, eq=False)
class FunctionFacts:
    """The facts of a function that is entered in some way, operation by operation."""

    function: Function
    entered: Entered
    _by_operation: Mapping[int, OperandFacts] = field(repr=False)

    def of(self, op: Op) -> OperandFacts:
        """What is known of the operands of one of the function's operations."""
        return self._by_operation.get(id(op), NOTHING)

    def bytes_of(self, op: Op, value: Value) -> addresses.Bytes | None:
        """The bytes of a tile that an operation names; a handle of unknown origin has bytes of its own."""
        return self.of(op).bytes.get(value.name) or _own_bytes(value, self.entered.prefix)

    def entering(self, call: Op, callee: Function) -> Entered:
        """What a call tells the function that it calls."""
        at_call = self.of(call)
        pairs = list(zip(callee.args, call.ins, strict=False))
        return Entered(
            tuple((a.name, at_call.numbers[v.name]) for a, v in pairs if v.name in at_call.numbers),
            tuple((a.name, where) for a, v in pairs if (where := self.bytes_of(call, v)) is not None),
            f"{self.entered.prefix}>",
        )


def solve(
    function: Function, operands: Operands, entered: Entered = ANYWHERE, fold: Fold = addresses.fold_op
) -> FunctionFacts:
    """The facts of a function.

    ``operands`` gives what the operands of its operations stand for; ``fold`` computes with known numbers.
    """
    problem, facts = _Problem(entered.prefix, operands, fold), Facts()
    for value in function.args:
        facts.define(value)
        if isinstance(value.type, PtrType):
            facts[value.name] = PointerFact(value.name, 0)
    for name, number in entered.numbers:
        facts[name] = number
    for name, where in entered.bytes:
        facts[name] = _with_bytes(facts[name], where)
    problem.block(function.body, facts)
    return FunctionFacts(function, entered, problem.solution)


def _own_bytes(value: Value, prefix: str) -> addresses.Bytes | None:
    loc = effects.loc_of(value.type)
    return None if loc is None else addresses.Bytes(prefix + value.name, loc)


def _with_bytes(fact: Fact | None, where: addresses.Bytes | None) -> TileFact:
    return TileFact(fact.valid if isinstance(fact, TileFact) else None, where)


class _Problem(dataflow.Forward[Facts]):
    """The dataflow problem of one function; ``solution`` has the facts of every operation's operands."""

    def __init__(self, prefix: str, operands: Operands, fold: Fold) -> None:
        super().__init__()
        self.prefix = prefix
        self.operands = operands
        self.fold = fold
        self.solution: dict[int, OperandFacts] = {}
        self._placements: dict[int, int] = {}

    def transfer(self, op: Op, state: Facts) -> None:
        """Define the results, with what the operation says of them and of handles that it changes."""
        before = self.solution[id(op)] = operand_facts((*op.ins, *op.outs), state)
        for value in op.results:
            state.define(value)
        number = self.fold(op, before.numbers)
        if number is not None:
            state[op.results[0].name] = number
        traits = effects.traits_of(op)
        if traits.placement is not None:
            self._place(op, before, state)
        if traits.resizes is not None and len(op.ins) == 3:
            self._resize(op, traits.resizes, before, state)
        if traits.alias is not None:
            self._alias(op, before, state)

    def hand_on(
        self,
        targets: Sequence[Value],
        sources: Sequence[Value],
        here: Facts,
        there: Facts,
        *,
        carried: bool = False,
    ) -> None:
        """A number, view or handle is the same under its new name.

        A handle that a loop carries counts as one with bytes of its own, as they may be others on every trip.
        """
        facts = [here[source.name] for source in sources[: len(targets)]]
        for i, (source, fact) in enumerate(zip(sources, facts, strict=False)):
            where = self._bytes(source, here)
            if where is not None:
                facts[i] = _with_bytes(fact, None if carried else where)
        for target, fact in zip_longest(targets, facts):
            there[target.name] = fact if fact is not None else fact_of(target.type)

    def meeting(self, op: Op, paths: Sequence[Facts]) -> Callable[[Facts], None]:
        """A handle that a branch hands on is one of two, and its condition says which one."""
        regions = effects.traits_of(op).regions
        both = regions is not None and regions.runs == "if" and len(paths) == 2
        chosen = dict(self._chosen(op, *paths)) if both else {}

        def add(state: Facts) -> None:
            for name, where in chosen.items():
                state[name] = _with_bytes(state[name], where)

        return add

    def _chosen(self, op: Op, yes: Facts, no: Facts) -> Iterator[tuple[str, addresses.Bytes | None]]:
        condition = op.ins[0]
        number = self.solution[id(op)].number(condition)
        for value in op.results:
            one, two = self._bytes(value, yes), self._bytes(value, no)
            if one is not None and two is not None:
                either = one.or_else(two, self.prefix + condition.name)
                yield value.name, either if not isinstance(number, int) else one if number else two

    def at_least_once(self, op: Op, state: Facts) -> bool:
        """Whether the bounds of a loop are known and apart."""
        return executes(op, self.solution[id(op)])

    def _bytes(self, value: Value, state: Facts) -> addresses.Bytes | None:
        fact = state[value.name]
        place = fact.bytes if isinstance(fact, TileFact) else None
        return place or _own_bytes(value, self.prefix)

    # -- operations ----------------------------------------------------------------------------------

    def _place(self, op: Op, before: OperandFacts, state: Facts) -> None:
        handle, address = effects.placed(op) or (None, None)
        placement = effects.traits_of(op).placement
        if handle is None or placement is None or not isinstance(handle.type, TileType):
            return
        t, start = handle.type, before.number(address)
        extent = None if start is None else (start, start + t.bytes)
        where = addresses.Bytes(self.prefix + handle.name, t.loc, extent, order=self._order(op))
        if not placement.allocates:
            state[handle.name] = _with_bytes(state[handle.name], where)
            return
        row, col = (before.number(next(iter(op.group(n)), None)) for n in ("valid_row", "valid_col"))
        valid = (t.v_row if t.v_row is not None else row, t.v_col if t.v_col is not None else col)
        # Sizes may be arrays, which have no one truth value: what is new is what the type leaves open.
        says_more = any(s is None and v is not None for s, v in zip(t.valid, valid, strict=True))
        state[handle.name] = TileFact(valid if says_more else None, where)

    def _resize(self, op: Op, resized: str, before: OperandFacts, state: Facts) -> None:
        values = self.operands(op)
        if values:
            row, col = (before.number(values[n]) for n in ("valid_row", "valid_col"))
            handle = values[resized]
            fact = state[handle.name]
            state[handle.name] = TileFact((row, col), fact.bytes if isinstance(fact, TileFact) else None)

    def _order(self, op: Op) -> int:
        """The number of an operation that places a tile; the first pass meets them in the text's order."""
        return self._placements.setdefault(id(op), len(self._placements) + 1)

    def _alias(self, op: Op, before: OperandFacts, state: Facts) -> None:
        alias, pair = effects.traits_of(op).alias, effects.aliased(op)
        if alias is None or pair is None:
            return
        result, source = pair
        if alias.memory == "tile":
            whole = self._bytes(source, state)
            if whole is not None and alias.part == "window":
                whole = addresses.window_of(op, result, source, whole, before.numbers)
            state[result.name] = _with_bytes(state[result.name], whole)
        elif op.name == views.MAKE_TENSOR_VIEW:
            layout = op.attrs.get("layout")
            sizes = _extents(op, result, "shape", before)
            state[result.name] = ViewFact(sizes, layout if isinstance(layout, GlobalLayout) else None)
        elif op.name == views.PARTITION_VIEW:
            sizes = _extents(op, result, "sizes", before)
            state[result.name] = ViewFact(sizes, before.layouts.get(source.name))
        elif op.name == views.ADDPTR:
            pointer, offset = before.pointers.get(source.name), before.number(next(iter(op.ins[1:]), None))
            if pointer is not None and offset is not None:
                state[result.name] = PointerFact(pointer.base, pointer.offset + offset)


def executes(loop: Op, before: OperandFacts) -> bool:
    """Whether a loop with bounds certainly executes its body."""
    lower, upper = (before.number(next(iter(loop.group(name)), None)) for name in ("lb", "ub"))
    return isinstance(lower, int) and isinstance(upper, int) and lower < upper


def _extents(op: Op, result: Value, group: str, before: OperandFacts) -> tuple[int | None, ...]:
    numbers = [before.numbers.get(v.name) for v in op.group(group)]
    static = views.extents(result.type, len(numbers)) or ()
    missing = len(static) - len(numbers)
    if missing:
        return (1,) * missing + tuple(numbers[max(0, -missing) :])
    return tuple(d if d is not None else k for d, k in zip(static, numbers, strict=True))
