"""Addresses of tiles in the simulator's memories for programs that place them by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...analysis.facts import ANYWHERE, Entered
from ...analysis.resolve import ResolvedProgram
from ...ir import Function, Loc, Op, TileType
from ...isa.effects import placed
from ...profiles import CPU_SIM
from .spelling import refuse

#: Locations that the simulator keeps in one memory.
_TOGETHER = frozenset({Loc.VEC, Loc.BIAS, Loc.SCALING, Loc.CTRL})
_ALIGNMENT = 512


@dataclass
class Places:
    """Free bytes of every memory of the simulator, after those the program itself addresses."""

    used: dict[Loc, int] = field(default_factory=dict)
    #: Addresses of allocations by operation: one that executes again, in a call too, has the same place.
    _given: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, resolved: ResolvedProgram, entry: Function, known: Mapping[str, int]) -> Places:
        """The places of a program; ``known`` has the values of its entry's scalar arguments."""
        places = cls()
        ranges: list[tuple[Loc, int, int]] = []
        for op, t, at in _addressed(resolved, entry, Entered(tuple(known.items()))):
            if at is None:
                raise refuse(op, "has an address that is computed at run time; allowed: known ones")
            space = _space(t.loc)
            for loc, start, end in ranges:
                if loc != t.loc and _space(loc) == space and start < at + t.bytes and at < end:
                    both = f"{loc.name.lower()} and {t.loc.name.lower()}"
                    raise refuse(op, f"overlaps another tile: the simulator has one memory for {both}")
            ranges.append((t.loc, at, at + t.bytes))
            places.used[space] = max(places.used.get(space, 0), at + t.bytes)
        return places

    def take(self, t: TileType, op: Op | None) -> int:
        """The address of a new tile, or of one that an operation allocated before."""
        if op is not None and id(op) in self._given:
            return self._given[id(op)]
        space = _space(t.loc)
        start = -(-self.used.get(space, 0) // _ALIGNMENT) * _ALIGNMENT
        self.used[space] = start + t.bytes
        capacity = CPU_SIM.capacity[space]
        if self.used[space] > capacity:
            raise refuse(
                op,
                f"tiles in {space.name.lower()} take {self.used[space]} bytes together, the simulator "
                f"has {capacity}",
            )
        if op is not None and placed(op) is not None:
            self._given[id(op)] = start
        return start


def _space(loc: Loc) -> Loc:
    return Loc.VEC if loc in _TOGETHER else loc


def _addressed(
    resolved: ResolvedProgram, entry: Function, entered: Entered
) -> Iterator[tuple[Op, TileType, int | None]]:
    """Operations that point a tile at an address, with the tile's type and the address where it is known."""
    for function in resolved.program.functions:
        facts = resolved.facts(function, entered if function.name == entry.name else ANYWHERE)
        for op in function.walk():
            handle, address = placed(op) or (None, None)
            if handle is None or address is None:
                continue
            if not isinstance(handle.type, TileType):
                raise refuse(op, f"places {handle} of type {handle.type}; allowed: a tile")
            yield op, handle.type, facts.of(op).number(address)
