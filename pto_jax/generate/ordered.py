"""Synchronisation of generated programs that every pair of dependent operations needs, and not much more.

Operations of different pipes that use the same data, one of them to write it, are ordered by a flag behind
the first one and a wait before the second one; the next trips of a loop by a flag that is set before the
loop, waited for and set in every trip, and waited for behind it. Numbers of flags are used again once they
are free; where none is, all pipes meet in a barrier. Programs are correct by construction, without an
analysis of the whole: what orders an operation is decided beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..ir import (
    INDEX,
    Function,
    KernelKind,
    Op,
    Pipe,
    PipeEventType,
    Region,
    ScalarType,
    TileType,
    Value,
    attrs,
)
from ..isa import effects
from ..isa.rules.pipes import CUBE_PIPES, are_windows, popping
from .control import KINDS, barrier, event
from .operations import legal
from .state import State

#: Numbers of flags between two pipes, and how often an edge is a barrier, or a flag of a run-time number.
_EVENTS, _BARRIER, _DYNAMIC = range(8), 0.06, 0.15
#: Data by the names of what they began as.
Roots = frozenset[str]
#: What a pipe reads and writes.
Uses = dict[Pipe, tuple[Roots, Roots]]
#: A flag: its pipes and its number.
Flag = tuple[Pipe, Pipe, int]


class _Item(NamedTuple):
    """An operation of a region with what its pipes use; ``meets``: it needs barriers on both sides."""

    op: Op
    uses: Uses
    meets: bool = False


class _Edge(NamedTuple):
    """Order from behind item ``first`` to before item ``second``, of the next trip where ``carried``."""

    source: Pipe
    target: Pipe
    first: int
    second: int
    carried: bool = False

    def meets(self, other: _Edge) -> bool:
        """Whether both are in use at one time, so that they need two numbers."""
        if (self.source, self.target) != (other.source, other.target):
            return False
        apart = self.second < other.first or other.second < self.first
        return self.carried or other.carried or not apart

    def spans(self, at: int) -> bool:
        """Whether its flag is in use while an item is executed."""
        return self.carried or self.first < at < self.second


@dataclass
class _Plan:
    """How the items of a region are ordered: by edges with numbers, and by barriers."""

    edges: dict[_Edge, int] = field(default_factory=dict)
    #: Items that a barrier of all pipes stands before, and those with one of the vector pipe.
    barriers: set[int] = field(default_factory=set)
    vector: set[int] = field(default_factory=set)

    def orders(self, first: int, second: int, ends: tuple[Pipe, Pipe], *, carried: bool) -> bool:
        """Whether an item is ordered before another one, in the next trip where ``carried``."""
        places = self.barriers | self.vector if ends[0] == ends[1] else self.barriers
        edges = [e for e in self.edges if (e.source, e.target) == ends]
        if not carried:
            return any(first < b <= second for b in places) or any(
                e.first >= first and e.second <= second and not e.carried for e in edges
            )
        # Between both is the rest of one trip, and the beginning of the next one.
        return any(b > first or b <= second for b in places) or any(
            (e.first >= first and e.second <= second)
            if e.carried
            else (e.first >= first or e.second <= second)
            for e in edges
        )


@dataclass
class _Made:
    """The operations of a region, and those of a loop's edges to its next trip before and behind it."""

    ops: list[Op] = field(default_factory=list)
    primes: list[Op] = field(default_factory=list)
    drains: list[Op] = field(default_factory=list)
    #: The flags that are in use during the whole loop.
    flags: set[Flag] = field(default_factory=set)


def ordered(
    state: State, ops: Sequence[Op], functions: Sequence[Function]
) -> tuple[tuple[Op, ...], list[Function]]:
    """The operations of a program with what orders them, in its entry and in its other functions."""
    strict = state.profile.name == "a2a3" and state.chance(0.3)

    def body(ops: Sequence[Op], kind: object = None) -> tuple[Op, ...]:
        return tuple(_Order(state, ops, strict, kind).region(ops).ops)

    kinds = [f.attrs.get("pto.kernel_kind") for f in functions]
    return body(ops), [
        replace(f, body=replace(f.body, ops=body(f.body.ops, kind)))
        for f, kind in zip(functions, kinds, strict=True)
    ]


class _Order:
    """The order of one function; ``strict``: dependent vector operations need a barrier, too."""

    def __init__(self, state: State, body: Sequence[Op], strict: bool, kind: object) -> None:
        self.state, self.strict = state, strict
        #: The kind of the core, None where one core executes everything.
        self.kind = kind
        self.roots = _roots(body)
        #: Tiles that were popped and not yet freed, with the pipes that wait for their slots.
        self.slots: deque[tuple[Pipe, Roots]] = deque()

    # -- what operations use -----------------------------------------------------------------------------

    def item(self, op: Op) -> _Item:
        """An operation with what it uses; one with regions uses what is used in them."""
        traits = effects.traits_of(op)
        if traits.calls:
            return _Item(op, {}, meets=True)
        if op.regions:
            uses: Uses = {}
            # Sections are other cores, which order nothing here.
            for inner in op.walk() if traits.core is None else ():
                if inner is not op and not inner.regions:
                    uses = _joined(uses, self.of(inner))
            return _Item(op, uses)
        return _Item(op, self.of(op))

    def of(self, op: Op) -> Uses:
        """What the pipes of an operation without regions use."""
        traits, values = effects.traits_of(op), effects.operands_of(op)
        profile = self.state.profile.name
        if traits.fifo == "free" and are_windows(profile) and self.slots:
            pipe, roots = self.slots.popleft()
            return {pipe: (frozenset(), roots)}
        if traits.fifo == "pop":
            target = next(iter((*op.results, *op.ins)))
            for phase in popping(profile, {"result": target.type}, {}):
                self.slots.append((phase.pipe, self.data([target])))
                return {phase.pipe: (frozenset(), self.data([target]))}
        uses: Uses = {}
        for phase in effects.phases_of(op, values, op.attrs, profile):
            reads, writes = (
                self.data(values[name] for name in names if name in values)
                for names in (phase.reads, phase.writes)
            )
            if reads or writes:
                uses = _joined(uses, {phase.pipe: (reads, writes)})
        return uses

    def data(self, values: Iterable[Value]) -> Roots:
        """What values are made of, as far as they name memory."""
        return frozenset(
            root
            for value in values
            if not isinstance(value.type, ScalarType)
            for root in self.roots.get(value.name, (value.name,))
        )

    # -- regions -----------------------------------------------------------------------------------------

    def region(
        self, body: Sequence[Op], busy: frozenset[Flag] = frozenset(), *, repeats: bool = False
    ) -> _Made:
        """The operations of a region in order; ``busy`` are flags in use around it."""
        ends = len(body) - bool(body and effects.traits_of(body[-1]).terminator)
        items = [self.item(op) for op in body[:ends]]
        plan = self.planned(items, repeats)
        self.number(plan, busy)
        result = self.emitted(items, plan, busy)
        result.ops += body[ends:]
        return result

    def planned(self, items: Sequence[_Item], repeats: bool) -> _Plan:
        """The edges and barriers that the items need."""
        plan = _Plan()
        for second, item in enumerate(items):
            if item.meets or (second and items[second - 1].meets):
                plan.barriers.add(second)
            for first in reversed(range(second)):
                self.pair(plan, items, _Edge(Pipe.S, Pipe.S, first, second))
        for first in reversed(range(len(items))) if repeats else ():
            for second in range(first + 1):
                self.pair(plan, items, _Edge(Pipe.S, Pipe.S, first, second, carried=True))
        return plan

    def pair(self, plan: _Plan, items: Sequence[_Item], places: _Edge) -> None:
        """Order the items at the ends of an edge where they use the same data, on their pipes."""
        first, second = items[places.first].uses, items[places.second].uses
        for source, (reads, writes) in first.items():
            for target, (more, written) in second.items():
                same = source == target
                if not (writes & (more | written) or reads & written):
                    continue
                if same and not (self.strict and source == Pipe.V):
                    continue
                edge = places._replace(source=source, target=target)
                if plan.orders(edge.first, edge.second, (source, target), carried=edge.carried):
                    continue
                if same:
                    plan.vector.add(edge.second)
                elif self.state.chance(_BARRIER):
                    plan.barriers.add(edge.second)
                else:
                    plan.edges[edge] = 0

    def number(self, plan: _Plan, busy: frozenset[Flag]) -> None:
        """Give every edge a number that is free between its ends; a barrier where there is none."""
        numbered: dict[_Edge, int] = {}
        for edge in sorted(plan.edges, key=lambda e: not e.carried):
            used = {n for source, target, n in busy if (source, target) == (edge.source, edge.target)}
            used |= {n for other, n in numbered.items() if edge.meets(other)}
            free = [n for n in _EVENTS if n not in used]
            if free and not self.stops(edge) and legal(self.state.profile, _flag("set", edge, free[0])):
                numbered[edge] = self.state.rng.choice(free)
            else:
                plan.barriers.add(edge.second)
        plan.edges = numbered

    def stops(self, edge: _Edge) -> bool:
        """Whether a vector core of an A5 would stop at the flag of an edge."""
        foreign = edge.source in CUBE_PIPES or edge.target in CUBE_PIPES
        return foreign and self.kind == KernelKind.VECTOR and self.state.profile.name == "a5"

    def emitted(self, items: Sequence[_Item], plan: _Plan, busy: frozenset[Flag]) -> _Made:
        """The items with what orders them."""
        result = _Made()
        before: dict[int, list[Op]] = {at: [] for at in range(len(items))}
        behind: dict[int, list[Op]] = {at: [] for at in range(len(items))}
        for edge, number in plan.edges.items():
            signal, wait = self.way(edge, number)
            behind[edge.first] += signal
            before[edge.second] += wait
            if edge.carried:
                result.primes.append(_flag("set", edge, number))
                result.drains.append(_flag("wait", edge, number))
                result.flags.add((edge.source, edge.target, number))
        for at, item in enumerate(items):
            if at in plan.barriers or at in plan.vector:
                pipe = Pipe.ALL if at in plan.barriers else Pipe.V
                result.ops.append(barrier(pipe))
            inside = busy | {(e.source, e.target, n) for e, n in plan.edges.items() if e.spans(at)}
            result.ops += [*before[at], *self.inner(item.op, inside), *behind[at]]
        return result

    def inner(self, op: Op, busy: frozenset[Flag]) -> list[Op]:
        """An operation whose regions are in order, between what its loops set before and wait for behind."""
        if not op.regions:
            return [op]
        traits = effects.traits_of(op)
        repeats = traits.regions is not None and traits.regions.repeats
        around = frozenset[Flag]() if traits.core is not None else busy
        outer, self.kind = self.kind, traits.core if traits.core is not None else self.kind
        regions, primes, drains = [], [], []
        for region in op.regions:
            result = self.region(region.ops, around, repeats=repeats)
            primes += result.primes
            drains += result.drains
            around |= result.flags
            regions.append(Region(tuple(result.ops), region.args))
        self.kind = outer
        return [*primes, replace(op, regions=tuple(regions)), *drains]

    def way(self, edge: _Edge, number: int) -> tuple[list[Op], list[Op]]:
        """What stands behind the first item of an edge, and what before the second one."""
        pick, ends = self.state.rng.random(), (edge.source, edge.target)
        if pick < _DYNAMIC:
            return self.dynamic("set", edge, number), self.dynamic("wait", edge, number)
        if pick < 2 * _DYNAMIC and not edge.carried and all(KINDS.get(pipe) for pipe in ends):
            kinds = self.state.rng.choice(KINDS[ends[0]]), self.state.rng.choice(KINDS[ends[1]])
            if self.state.profile.name == "a5" and self.state.chance(0.5):
                buffer = self.state.rng.randrange(32)
                signal, wait = ([_token(way, kind, buffer) for way in ("get", "rls")] for kind in kinds)
                return signal, wait
            recorded, waited = event(kinds, number)
            return [recorded], [waited]
        return [_flag("set", edge, number)], [_flag("wait", edge, number)]

    def dynamic(self, way: str, edge: _Edge, number: int) -> list[Op]:
        """A flag of a number that is a value."""
        value = Value(self.state.name("c"), ScalarType(INDEX))
        constant = Op("arith.constant", results=(value,), attributes=attrs(value=number))
        return [
            constant,
            Op(f"{way}_flag_dyn", (value,), attributes=attrs(src=edge.source, dst=edge.target)),
        ]


def _flag(way: str, edge: _Edge, number: int) -> Op:
    return Op(f"{way}_flag", attributes=attrs(src=edge.source, dst=edge.target, event=number))


def _token(way: str, kind: PipeEventType, buffer: int) -> Op:
    return Op(f"{way}_buf", attributes=attrs(op_type=kind, buf=buffer))


def _joined(one: Uses, two: Uses) -> Uses:
    nothing: tuple[Roots, Roots] = (frozenset(), frozenset())
    return {
        pipe: (
            one.get(pipe, nothing)[0] | two.get(pipe, nothing)[0],
            one.get(pipe, nothing)[1] | two.get(pipe, nothing)[1],
        )
        for pipe in (*one, *(p for p in two if p not in one))
    }


def _roots(body: Sequence[Op]) -> dict[str, Roots]:
    """What handles, views and pointers are made of, by name; tiles with an address are all the same."""
    table: dict[str, Roots] = {}
    pairs: list[tuple[Value, Value]] = []
    for op in (inner for outer in body for inner in outer.walk()):
        pair, place = effects.aliased(op), effects.placed(op)
        if place is not None and place[1] is not None and isinstance(place[0].type, TileType):
            table[place[0].name] = frozenset({f"the {place[0].type.loc.name} buffer"})
        elif pair is not None:
            pairs.append(pair)
        elif op.regions:
            pairs += effects.flows(op)
        elif op.results and not isinstance(op.results[0].type, ScalarType):
            # A choice between handles, or what is made of several of them.
            pairs += [(r, v) for r in op.results for v in op.ins if not isinstance(v.type, ScalarType)]
    changed = True
    while changed:
        changed = False
        for target, source in pairs:
            more = table.get(source.name, frozenset({source.name}))
            before = table.get(target.name, frozenset())
            if not more <= before:
                table[target.name], changed = before | more, True
    return table
