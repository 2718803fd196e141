"""Tiles at constant addresses: ranges that overlap without being equal, and ranges that are reserved."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import Diagnostic, Span
from ..ir import Loc, Op
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


def shared_bytes(op: Op, whole: Mapping[str, str], places: Sequence[Place]) -> Iterator[Diagnostic]:
    """Operands that share bytes with another one; ``whole`` names the tile that a handle is over."""
    lies = {place.name: place for place in places}
    operands = (*op.ins, *op.destinations)
    for i, target in enumerate(operands):
        for other in operands[:i]:
            a, b = (whole.get(v.name, v.name) for v in (target, other))
            one, two = lies.get(a), lies.get(b)
            meet = one is not None and two is not None and one.loc == two.loc
            if a == b or (meet and one and two and one.start < two.end and two.start < one.end):
                message = f"{target} and {other} share bytes; allowed: tiles apart from each other"
                yield error_of(op, "overlap", message)


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
