"""The order of accesses inside a vector scope, where the text orders nothing but what depends on each other.

The vector unit does not track addresses: a load may overtake a store of the same bytes. A barrier of the
scope orders kinds of accesses; a store comes behind the loads that its register is computed from. Every
access has a number, and what is over before it is a set of numbers, as the bits of an integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from ..interpreter import Operand
from ..interpreter.operands import Register
from ..ir import I1, MaskType, Op, ScalarType
from ..isa.micro import Access, Lanes, MicroCall, MicroOperation, Place, Rows
from .clocks import Race, Use
from .regions import Region, Regions, Space


@dataclass(frozen=True, eq=False)
class Traced(Register):
    """A register whose contents are not followed.

    ``after`` are the accesses that it is computed from; ``lanes`` of a mask those that are set from the first
    on, None where that is not known.
    """

    after: int = 0
    lanes: int | None = None


class _Seen(NamedTuple):
    """An access of a scope: its number, and what is over before it."""

    number: int
    before: int
    access: Access
    use: Use


@dataclass
class VectorScope:
    """The accesses of one execution of a scope."""

    regions: Regions = field(default_factory=Regions)
    _count: int = 0
    #: By kinds of accesses: those so far with what was over before them, and what later ones come behind.
    _so_far: dict[Access, int] = field(default_factory=dict)
    _held: dict[Access, int] = field(default_factory=dict)
    _last: dict[int, dict[tuple[Access, int], _Seen]] = field(default_factory=dict)

    def barrier(self, prior: frozenset[Access], later: frozenset[Access]) -> None:
        """Later accesses of some kinds come behind all earlier ones of others."""
        for one, two in product(prior, later):
            self._held[two] = self._held.get(two, 0) | self._so_far.get(one, 0)

    def use(self, use: Use, access: Access, after: int = 0) -> Iterator[Race]:
        """An access, which comes behind some others; what it races with."""
        number = self.regions.of(use.region)
        before = self._held.get(access, 0) | after
        for near in self.regions.near(number):
            for seen in self._last.get(near, {}).values():
                writes = use.write or seen.use.write
                alone = access[0] == seen.access[0] == "scalar"
                if writes and not alone and not before >> seen.number & 1:
                    yield Race(seen.use, use, "scope")
        self._last.setdefault(number, {})[access, id(use.op)] = _Seen(self._count, before, access, use)
        self.accept(access, after)

    def accept(self, access: Access | None, after: int = 0) -> tuple[int, int]:
        """The number of the next operation, and what is over before it; None accesses no memory."""
        number, before = self._count, after
        if access is not None:
            before |= self._held.get(access, 0)
            self._so_far[access] = self._so_far.get(access, 0) | before | 1 << number
        self._count += 1
        return number, before

    @property
    def load(self) -> int:
        """The next access, a load of the vector unit, with what is over before it."""
        return self._held.get(("vector", "read"), 0) | 1 << self._count


def after_of(operands: Mapping[str, Operand]) -> int:
    """The accesses that the registers among operands are computed from."""
    position = 0
    for value in operands.values():
        if isinstance(value, Traced):
            position |= value.after
    return position


def results_of(
    op: Op,
    declared: MicroOperation,
    call: MicroCall,
    numbers: Mapping[str, int | None],
    found: tuple[Operand, ...],
    after: int,
) -> tuple[Operand, ...]:
    """The results of an operation with what its numbers say of them, and what they are computed from."""
    results: list[Operand] = []
    for name, value, operand in zip(declared.results, op.results, found, strict=False):
        known = declared.known[name](call, numbers) if name in declared.known else None
        if isinstance(operand, Register):
            results.append(Traced(None, after, known if isinstance(value.type, MaskType) else None))
        else:
            results.append(known if known is not None and isinstance(value.type, ScalarType) else operand)
    return (*results, *found[len(results) :])


def touched(
    space: Space,
    start: int,
    place: Place,
    call: MicroCall,
    numbers: Mapping[str, int | None],
    mask: Operand | None,
) -> Region | None:
    """The bytes of an access that are certain: of a store whose mask is not known those of its first lane."""
    rows = place.rows(call, numbers) if place.rows is not None else _run(place, call, numbers)
    if rows is None:
        return None
    if place.masked(call) and mask is not None:
        total, lanes = _governed(call), mask.lanes if isinstance(mask, Traced) else None
        share = 1 if lanes is None else min(lanes, total)
        if share < total:
            # Lanes of rows with gaps are those of their first block.
            whole = rows.width * rows.steps[0][0] if rows.steps else rows.width
            rows = Rows(min(rows.width, whole * share // total))
    return Region.of(space, start + rows.start, rows.width, list(rows.steps))


def _governed(call: MicroCall) -> int:
    """The lanes that the mask of a store governs."""
    bits = next((t for t in call.types if isinstance(t, int)), None)
    if bits is not None:
        return 2048 // bits
    return next(t.lanes for t in reversed(call.types) if isinstance(t, Lanes) and t.dtype == I1)


def _run(place: Place, call: MicroCall, numbers: Mapping[str, int | None]) -> Rows | None:
    size = place.span(call, numbers)
    return None if size is None else Rows(size)
