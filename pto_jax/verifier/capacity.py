"""Capacity: tiles that live at the same time must fit into their memory together.

The tool plans each function by the lifetimes of its tiles. What is added up here is the least that any plan
needs: a destination may take the place of a source that is not needed any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_

from .. import isa
from ..analysis.lifetimes import Access, Lifetimes, Tile, bits, made_tiles
from ..analysis.provenance import called, callees
from ..analysis.resolve import ResolvedProgram
from ..errors import Diagnostic, Span
from ..ir import AddressSpace, Function, Loc, Op
from ..isa.check import hidden_scratch, inserted_scratch
from ..isa.effects import kept_apart, traits_of
from ..profiles import Profile

#: So many tiles are named in a message, the largest ones.
NAMED = 8


@dataclass(frozen=True)
class Part:
    """Bytes of a buffer, and what takes them; ``tile`` are those of one tile."""

    name: str
    bytes: int
    span: Span | None
    tile: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.bytes}" + (f" ({self.span})" if self.span else "")


@dataclass(frozen=True)
class Need:
    """What on-chip memory an operation needs: ``used`` and ``live`` are sets of tiles, with a bit for each.

    Tiles that live hold contents that are used later, or now. The tiles of ``begins`` may take the bytes of
    those of ``ends``. ``bytes`` is the least of each buffer without tiles that have an address, ``extra``
    what takes bytes besides tiles of the function.
    """

    op: Op
    used: int
    live: int
    begins: int
    ends: int
    bytes: Mapping[Loc, int]
    extra: Mapping[Loc, tuple[Part, ...]]


@dataclass(frozen=True)
class _Peak:
    """The most bytes of one buffer that a function and those that it calls need, and what takes them."""

    bytes: int = 0
    op: Op | None = None
    parts: tuple[Part, ...] = ()


def capacity_findings(resolved: ResolvedProgram, profile: Profile) -> list[Diagnostic]:
    """A finding for every buffer that is too small for what a function needs of it at some place."""
    if resolved.program.fragment or _all_fit(resolved, profile):
        return []
    search = _Search(resolved, profile)
    inner = callees(resolved.program)
    return [
        _error(profile, loc, peak)
        for function in resolved.program.functions
        if function.name not in inner
        for loc, peak in search.peaks(function).items()
        # A tile that is too large alone has a finding of its own.
        if peak.bytes > profile.capacity[loc] >= max((part.tile for part in peak.parts), default=0)
    ]


def needed_bytes(resolved: ResolvedProgram, function: Function, profile: Profile) -> dict[Loc, int]:
    """The bytes of each buffer that a function and those it calls need at least.

    Tiles at addresses of the program need all bytes up to their end; others share memory by their lifetimes.
    """
    needed = {loc: peak.bytes for loc, peak in _Search(resolved, profile).peaks(function).items()}
    for f in resolved.program.functions:
        for tile in (tile for op in f.walk() for tile in made_tiles(op)):
            address = resolved.facts(f).of(tile.op).number(tile.address)
            if isinstance(address, int):
                needed[tile.type.loc] = max(needed.get(tile.type.loc, 0), address + tile.bytes)
    return {loc: size for loc, size in sorted(needed.items()) if size}


def needs(
    resolved: ResolvedProgram, profile: Profile, function: Function
) -> tuple[Lifetimes, tuple[Need, ...]]:
    """The tiles of a function and what each operation needs of on-chip memory, in the order of the text."""
    walk = _Search(resolved, profile).walk(function, record=True)
    return walk.lifetimes, tuple(
        walk.recorded[id(op)] for op in walk.lifetimes.function.walk() if id(op) in walk.recorded
    )


def _all_fit(resolved: ResolvedProgram, profile: Profile) -> bool:
    """Whether the buffers have room for everything at once, as in nearly all programs."""
    total = dict.fromkeys(Loc, 0)
    for op in resolved.program.walk():
        for tile in made_tiles(op):
            total[tile.type.loc] += tile.bytes if tile.address is None else 0
        if isa.find(op.name) is not None:
            for loc, part in _reserved(op):
                total[loc] += part.bytes
            total[Loc.VEC] += _inserted(resolved, profile, op)
    return all(size <= profile.capacity[loc] for loc, size in total.items() if profile.capacity[loc])


def _inserted(resolved: ResolvedProgram, profile: Profile, op: Op) -> int:
    """The bytes of scratch in vec that tools put in where an operation leaves it out."""
    bound = resolved.of(op).bound
    hidden = hidden_scratch(op, profile, bound=bound) if bound is not None else None
    return inserted_scratch(op, profile, bound) + (hidden[1] - hidden[0] if hidden is not None else 0)


def _reserved(op: Op) -> Iterator[tuple[Loc, Part]]:
    """The bytes that an operation reserves for the slots of a pipe, at a place that a tool chooses."""
    if traits_of(op).fifo != "reserve" or op.attrs.get("auto") is not True:
        return
    size, place = op.attrs.get("size"), op.attrs.get("location")
    loc = Loc.__members__.get(place.name) if isinstance(place, AddressSpace) else None
    if isinstance(size, int) and loc is not None:
        yield loc, Part(f"reserve_buffer {op.attrs.get('name')}", size, op.span)


def _error(profile: Profile, loc: Loc, peak: _Peak) -> Diagnostic:
    place, capacity = loc.name.lower(), profile.capacity[loc]
    largest = sorted(peak.parts, key=lambda part: -part.bytes)
    tiles = [str(part) for part in largest[:NAMED]]
    if len(largest) > NAMED:
        rest = sum(part.bytes for part in largest[NAMED:])
        tiles.append(f"{len(largest) - NAMED} more {rest}")
    parts = -(-peak.bytes // capacity)
    ways = f"work on 1/{parts} of the rows at a time, or store and reuse a tile before the next one is filled"
    return Diagnostic(
        # Larger scaling tiles than the headers have room for are accepted by assemblers, as single ones are.
        "warning" if loc == Loc.SCALING else "error",
        f"tiles that live here take {peak.bytes} bytes of the {place} buffer: {', '.join(tiles)}; "
        f"allowed on {profile.name}: {capacity}; try: {ways}",
        peak.op.span if peak.op is not None else None,
        peak.op.name if peak.op is not None else None,
        rule="capacity",
    )


class _Search:
    """The peaks of the functions of a program, each computed once."""

    def __init__(self, resolved: ResolvedProgram, profile: Profile) -> None:
        self.resolved = resolved
        self.profile = profile
        self._known: dict[str, dict[Loc, _Peak]] = {}

    def peaks(self, function: Function) -> dict[Loc, _Peak]:
        """What a function needs of each buffer; a function that calls itself counts once."""
        peaks = self._known.get(function.name)
        if peaks is None:
            self._known[function.name] = {}
            peaks = self._known[function.name] = self._computed(function)
        return peaks

    def _computed(self, function: Function) -> dict[Loc, _Peak]:
        return self.walk(function).peaks()

    def walk(self, function: Function, *, record: bool = False) -> _Walk:
        """The walk over a function, which ``record`` makes keep the need of every operation."""
        lifetimes = Lifetimes(self.resolved, function)
        counted = sum(1 << i for i, tile in enumerate(lifetimes.tiles) if tile.address is None)
        walk = _Walk(self, lifetimes, counted, record)
        for loc, part in (reserved for op in function.walk() for reserved in _reserved(op)):
            walk.reserved[loc] = (*walk.reserved.get(loc, ()), part)
        lifetimes.visit(walk.visit)
        return walk


@dataclass(eq=False)
class _Walk:
    """The need of one function, followed from its last operation to its first."""

    search: _Search
    lifetimes: Lifetimes
    counted: int
    record: bool = False
    #: What is reserved for the slots of pipes, all the time.
    reserved: dict[Loc, tuple[Part, ...]] = field(default_factory=dict)
    #: The most of each buffer so far, the operation that needs it, its tiles and what else takes bytes.
    _most: dict[Loc, tuple[int, Op, int, list[Part]]] = field(default_factory=dict)
    #: By the identities of operations, of those in loops the last one.
    recorded: dict[int, Need] = field(default_factory=dict)
    _live: int = 0
    _bytes: dict[Loc, int] = field(default_factory=dict)
    _turns: dict[tuple[int, Loc], list[int]] = field(default_factory=dict)

    def visit(self, op: Op, access: Access, before: int, behind: int) -> None:
        """Note what an operation needs, where it is more than any other one does."""
        live = (before | behind | access.all) & self.counted
        begins, ends = self._handed_over(op, access, before, behind)
        alone = live & ~self._shared(begins, ends)
        self._move(alone)
        inner = called(self.search.resolved.program, op)
        callee = self.search.peaks(inner) if inner is not None else {}
        inserted = _inserted(self.search.resolved, self.search.profile, op)
        scratch = [Part(f"scratch of {op.name}", inserted, op.span)] if inserted else []
        total, extras = dict[Loc, int](), dict[Loc, tuple[Part, ...]]()
        for loc in {*self._bytes, *self.reserved, *callee, *([Loc.VEC] if scratch else [])}:
            extra = [*self.reserved.get(loc, ()), *(callee[loc].parts if loc in callee else ())]
            extra += scratch if loc == Loc.VEC else []
            needed = self._bytes.get(loc, 0) + sum(part.bytes for part in extra)
            total[loc], extras[loc] = needed, tuple(extra)
            if loc not in self._most or needed > self._most[loc][0]:
                self._most[loc] = needed, op, alone, extra
        if self.record:
            all_live = before | behind | access.all
            self.recorded[id(op)] = Need(op, access.all, all_live, begins, ends, total, extras)

    def peaks(self) -> dict[Loc, _Peak]:
        """The most that any operation needs, when all have been visited."""
        return {
            loc: _Peak(needed, op, (*self._parts(tiles, loc), *extra))
            for loc, (needed, op, tiles, extra) in self._most.items()
        }

    def _move(self, live: int) -> None:
        """Keep the bytes of the tiles that live, by those that are other ones than before."""
        for i in bits(live ^ self._live):
            tile, turn = self.lifetimes.tiles[i], self.lifetimes.turns[i]
            loc = tile.type.loc
            sizes = self._turns.setdefault((turn, loc), [])
            before = max(sizes, default=0)
            (sizes.append if live >> i & 1 else sizes.remove)(tile.bytes)
            self._bytes[loc] = self._bytes.get(loc, 0) + max(sizes, default=0) - before
        self._live = live

    def _parts(self, tiles: int, loc: Loc) -> list[Part]:
        """The tiles that take bytes of a buffer; of those that take turns the largest one."""
        largest: dict[int, Tile] = {}
        for i in bits(tiles):
            tile, turn = self.lifetimes.tiles[i], self.lifetimes.turns[i]
            if tile.type.loc == loc and (turn not in largest or largest[turn].bytes < tile.bytes):
                largest[turn] = tile
        return [Part(f"%{t.name}", t.bytes, t.op.span, t.type.bytes) for t in largest.values()]

    def _handed_over(self, op: Op, access: Access, before: int, behind: int) -> tuple[int, int]:
        """The destinations of an operation that may take the bytes of sources, and those sources.

        A source that is not needed behind an operation may give its place to a destination, unless both have
        to lie apart.
        """
        beginning = access.writes & ~before & ~access.reads & self.counted
        ending = access.reads & ~behind & ~access.writes & self.counted & ~self._apart(op, beginning)
        return (beginning, ending) if beginning and ending else (0, 0)

    def _shared(self, begins: int, ends: int) -> int:
        """The tiles that need no place of their own: of each buffer the destinations, or the sources."""
        places = {self.lifetimes.tiles[i].type.loc for i in bits(begins)}
        pairs = ((self._only(ends, loc), self._only(begins, loc)) for loc in places)
        return reduce(or_, (min(pair, key=self._sum) for pair in pairs), 0)

    def _only(self, tiles: int, loc: Loc) -> int:
        return sum(1 << i for i in bits(tiles) if self.lifetimes.tiles[i].type.loc == loc)

    def _sum(self, tiles: int) -> int:
        return sum(tile.bytes for tile in self.lifetimes.listed(tiles))

    def _apart(self, op: Op, tiles: int) -> int:
        """The tiles that lie apart from every one of some tiles of an operation."""
        bound, over = self.search.resolved.of(op).bound, self.lifetimes.over
        if bound is None or not tiles or not bound.instruction.apart:
            return 0
        types = {name: value.type for name, value in bound.values.items()}
        masks = {name: over.get(value.name, 0) for name, value in bound.values.items()}
        from_each = dict.fromkeys(bits(tiles), 0)
        for a, b, _ in kept_apart(bound.instruction, bound.form, types, self.search.profile.name):
            for one, other in ((masks[a], masks[b]), (masks[b], masks[a])):
                for i in bits(one & tiles):
                    from_each[i] |= other
        return reduce(and_, from_each.values())
