"""Tiles that share bytes with others that are read later, with other operands, or with hidden scratch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..analysis.facts import FunctionFacts
from ..analysis.lifetimes import Access, Lifetimes, bits
from ..analysis.resolve import ResolvedProgram
from ..errors import Diagnostic, Span
from ..ir import Function, Loc, Op, TileType, Value
from ..isa import Bound
from ..isa.effects import kept_apart
from ..profiles import Profile


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
    """A warning for every tile that is written over another one that is read later."""
    for op, lost, written in overwrites(resolved, function):
        yield overwrite_finding(op, written, lost)


def overwrites(resolved: ResolvedProgram, function: Function) -> Iterator[tuple[Op, Place, Place]]:
    """The operations that write a tile over another one that is read later.

    With each the place that is lost and the one that is written.

    Tiles that take turns in the same bytes are planned reuse, and a handle of another type at the bytes of a
    tile is the normal way to see it in another form, unless what it writes has nothing to do with the tile.
    """
    lifetimes = Lifetimes(resolved, function)
    facts = resolved.facts(lifetimes.function)
    places: dict[int, Place] = {}
    for i, tile in enumerate(lifetimes.tiles):
        start = facts.of(tile.op).number(tile.address)
        if start is not None:
            end = start + tile.bytes
            places[i] = Place(tile.type.loc, start, end, tile.name, tile.op.span, tile.op.name)
    near = _without_windows(lifetimes, places, _near(places))
    for i, twins in _twins(lifetimes, places).items():
        near[i] = near.get(i, 0) | twins
    writers: dict[int, tuple[Op, int]] = {}

    def visit(op: Op, access: Access, before: int, behind: int) -> None:
        for i in bits(access.writes | access.scratch):
            lost = near.get(i, 0) & before & behind & ~access.writes
            if lost and i not in writers:
                writers[i] = op, next(bits(lost))

    if near:
        lifetimes.visit(visit)
    if writers:
        from ..order import lost_values

        # Followed with numbers, some of them replace only what is read no more, or is read as theirs.
        of = dict(zip(map(id, lifetimes.function.walk()), function.walk(), strict=True))
        recast = any(_is_recast(lifetimes, places, i, j) for i, (_, j) in writers.items())
        # A value may come to another form of its tile through tiles at any bytes.
        within = None if recast else _ranges(places[i] for i in near)
        replaces = lost_values(resolved, function, [of[id(op)] for op, _ in writers.values()], within)
        for i, (op, j) in writers.items():
            complete = replaces(of[id(op)], places[j].start, places[j].end)
            # Of two tiles of one type at the same bytes most are one value that goes on.
            if complete or (complete is None and places[i].bytes != places[j].bytes):
                yield op, places[j], places[i]


def _ranges(places: Iterable[Place]) -> dict[Loc | None, list[tuple[int, int]]]:
    """The bytes of places by their memories."""
    ranges: dict[Loc | None, set[tuple[int, int]]] = {}
    for place in places:
        ranges.setdefault(place.loc, set()).add((place.start, place.end))
    return {loc: sorted(spans) for loc, spans in ranges.items()}


def _is_recast(lifetimes: Lifetimes, places: Mapping[int, Place], i: int, j: int) -> bool:
    """Whether two tiles are forms of the same bytes."""
    types = lifetimes.tiles[i].type, lifetimes.tiles[j].type
    return places[i].bytes == places[j].bytes and not types[0].is_laid_out_as(types[1])


def _without_windows(
    lifetimes: Lifetimes, places: Mapping[int, Place], near: Mapping[int, int]
) -> dict[int, int]:
    """The tiles near each other without windows: tiles whose address is computed from that of the other."""
    if not near:
        return {}
    # Most programs have no tiles that share bytes, and need nothing of the order.
    from ..order import is_window

    sources = {r.name: op.ins for op in lifetimes.function.walk() for r in op.results if not op.regions}

    def computed(i: int, j: int) -> bool:
        pending, base = [lifetimes.tiles[i].address], lifetimes.tiles[j].address
        seen: set[str] = set()
        while pending:
            value = pending.pop()
            if value is not None and base is not None and value.name not in seen:
                seen.add(value.name)
                pending += sources.get(value.name, ())
        return base is not None and base.name in seen - {getattr(lifetimes.tiles[i].address, "name", "")}

    def is_part(i: int, j: int) -> bool:
        one, other = places[i], places[j]
        inside = other.start <= one.start and one.end <= other.end
        return inside and is_window(*(lifetimes.tiles[k].type for k in (i, j))) and computed(i, j)

    return {
        i: sum(1 << j for j in bits(others) if not is_part(i, j) and not is_part(j, i))
        for i, others in near.items()
    }


def _twins(lifetimes: Lifetimes, places: Mapping[int, Place]) -> dict[int, int]:
    """For tiles, the others at their bytes, of another type those that lose a value to one that is used.

    Most handles of another type only read what the tile has, or only give it a value.
    """
    groups: dict[tuple[Loc, int, int], int] = {}
    for i, place in places.items():
        groups[place.bytes] = groups.get(place.bytes, 0) | 1 << i
    types = [tile.type for tile in lifetimes.tiles]
    mixed = any(len({types[i] for i in bits(group)}) > 1 for group in groups.values())
    reads, writes = _used(lifetimes) if mixed else (0, 0)
    result = {}
    for i, place in places.items():
        others = bits(groups[place.bytes] & ~(1 << i))
        twins = (j for j in others if types[i] == types[j] or (reads >> i & 1 and writes >> j & 1))
        result[i] = sum(1 << j for j in twins)
    return {i: twins for i, twins in result.items() if twins}


def _used(lifetimes: Lifetimes) -> tuple[int, int]:
    """The tiles that are read and those that are written, by handles of their own."""
    reads = writes = 0

    def visit(op: Op, access: Access, before: int, behind: int) -> None:
        nonlocal reads, writes
        reads |= access.reads
        writes |= access.writes

    lifetimes.visit(visit)
    return reads, writes


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


def overwrite_finding(op: Op, written: Place, other: Place) -> Diagnostic:
    """The warning that an operation writes a tile over another one that is read later."""
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
    if not bound.instruction.apart_on(profile.name):
        return
    types = {name: value.type for name, value in bound.values.items()}
    for name, other, apart in kept_apart(bound.instruction, bound.form, types, profile.name):
        pair = bound.values[name], bound.values[other]
        one, two = (facts.bytes_of(op, value) for value in pair)
        if one is None or two is None or not one.overlaps(two) or any(map(_is_empty, pair)):
            continue
        certain = one.certainly_overlaps(two)
        got = f"{name} ({pair[0]}) and {other} ({pair[1]}) {'share' if certain else 'may share'} bytes"
        allowed = f"allowed on {profile.name}: {name} apart from {other}, {apart.source}"
        error = op.error("overlap", f"{got}; {allowed}; try: another tile as {name}", pair[0])
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
