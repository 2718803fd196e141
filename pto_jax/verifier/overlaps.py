"""Tiles at constant addresses: ranges that overlap without being equal, and ranges that are reserved."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..analysis.facts import FunctionFacts
from ..errors import Diagnostic, Span
from ..ir import Loc, Op, TileType, Value
from ..isa import Bound
from ..isa.effects import kept_apart
from ..profiles import Profile
from .errors import error_of


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


def overlaps(places: list[Place]) -> Iterator[Diagnostic]:
    """A warning for every two different ranges that share bytes.

    The same range under several handles is the normal way to see a tile through another view.
    """
    first: dict[tuple[Loc, int, int], Place] = {}
    order: dict[tuple[Loc, int, int], int] = {}
    for i, place in enumerate(places):
        if place.bytes not in first:
            first[place.bytes], order[place.bytes] = place, i
    active: list[Place] = []
    for place in sorted(first.values(), key=lambda p: p.bytes):
        active = [p for p in active if p.loc == place.loc and p.end > place.start]
        for other in active:
            earlier, later = sorted((other, place), key=lambda p: order[p.bytes])
            yield Diagnostic(
                "warning",
                f"%{later.name} at bytes [{later.start}, {later.end}) of the "
                f"{later.loc.name.lower()} buffer shares "
                f"bytes with %{earlier.name} at [{earlier.start}, {earlier.end})"
                + (f" ({earlier.span})" if earlier.span else "")
                + "; writes to one change part of the other",
                later.span,
                later.instruction,
                rule="overlap",
            )
        active.append(place)


def shared_bytes(op: Op, bound: Bound, facts: FunctionFacts, profile: Profile) -> Iterator[Diagnostic]:
    """An error for every two operands that share bytes and must not, by their handles or addresses."""
    types = {name: value.type for name, value in bound.values.items()}
    for name, other, apart in kept_apart(bound.instruction, bound.form, types, profile.name):
        pair = bound.values[name], bound.values[other]
        one, two = (facts.bytes_of(op, value) for value in pair)
        if one is None or two is None or not one.overlaps(two) or any(map(_is_empty, pair)):
            continue
        found = f"{name} ({pair[0]}) and {other} ({pair[1]}) share bytes"
        allowed = f"allowed on {profile.name}: {name} apart from {other}, {apart.source}"
        yield error_of(op, "overlap", f"{found}; {allowed}; usual fix: another tile as {name}", pair[0])


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
