"""Which bytes a tile handle denotes, as far as the text of a program says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from ..ir import BLayout, Loc, Op, TileType, Value


@dataclass(frozen=True)
class Bytes:
    """Bytes of an on-chip buffer: a range where the address is known, else those of one handle.

    ``root`` names the allocation; ``window`` the window of it, which is at ``rows`` and ``cols`` unless only
    execution tells where. ``order`` is the position in the text of the operation that placed them.

    Of a handle that branches choose, ``either`` has the bytes it may denote and ``by`` names the condition:
    what is chosen by one condition, while that is the same, is chosen alike. Without a name, the choices have
    nothing to do with each other.
    """

    root: str
    loc: Loc
    range: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None
    window: str = ""
    order: int = field(default=0, compare=False)
    either: tuple[Bytes, ...] = ()
    by: str = ""

    @property
    def chosen(self) -> tuple[Bytes, ...]:
        """The bytes of each handle that this one may be."""
        return self.either or (self,)

    def overlaps(self, other: Bytes) -> bool:
        """Whether both may have a byte in common; windows at unknown places of one tile count as apart."""
        return any(
            one.overlaps(two) if one.either or two.either else one._meets(two)
            for one, two in self._pairs(other)
        )

    def certainly_overlaps(self, other: Bytes) -> bool:
        """Whether both have a byte in common whatever is chosen."""
        return all(
            one.certainly_overlaps(two) if one.either or two.either else one._meets(two)
            for one, two in self._pairs(other)
        )

    def _pairs(self, other: Bytes) -> Iterable[tuple[Bytes, Bytes]]:
        """What both may be at the same time."""
        if self.by and self.by == other.by:
            return zip(self.either, other.either, strict=True)
        return product(self.chosen, other.chosen)

    def _meets(self, other: Bytes) -> bool:
        if self.root == other.root:
            if not self.window or not other.window or self.window == other.window:
                return True
            return _meet(self.rows, other.rows) and _meet(self.cols, other.cols)
        return self.loc == other.loc and _meet(self.range, other.range)

    def joined(self, other: Bytes) -> Bytes | None:
        """What a handle denotes that denotes these bytes on one path and the others on another one.

        A handle that is placed anew on one of them counts as placed there; None for two kinds of memory.
        """
        if self.root == other.root and self.window == other.window and not (self.either or other.either):
            return max(self, other, key=lambda b: b.order)
        return self.or_else(other)

    def or_else(self, other: Bytes, by: str = "") -> Bytes | None:
        """These bytes or the others, as the condition ``by`` says; None for two kinds of memory."""
        if self == other or self.loc != other.loc:
            return self if self == other else None
        either = (self, other) if by else tuple(dict.fromkeys((*self.chosen, *other.chosen)))
        return Bytes(" or ".join(b.root for b in either), self.loc, either=either, by=by)

    def conditions(self) -> Iterator[str]:
        """The names of the conditions that choose these bytes."""
        if self.by:
            yield self.by
        for one in self.either:
            yield from one.conditions()

    def whenever(self, by: str) -> Bytes:
        """The same bytes as chosen by an earlier value of a condition."""
        either = tuple(one.whenever(by) for one in self.either)
        return replace(self, either=either, by="" if self.by == by else self.by)

    def __str__(self) -> str:
        if self.either:
            return " or ".join(dict.fromkeys(map(str, self.either)))
        place = self.loc.name.lower()
        return f"{place} bytes [{self.range[0]}, {self.range[1]})" if self.range else f"in {place}"


def _meet(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


def window_of(op: Op, made: Value, source: Value, whole: Bytes, numbers: Mapping[str, int]) -> Bytes:
    """The bytes of ``made``, a window of ``source``, whose bytes are ``whole``.

    ``numbers`` are the scalars that are known. A window of a window counts as the outer one.
    """
    if whole.either:
        windows = tuple(window_of(op, made, source, one, numbers) for one in whole.either)
        return replace(whole, either=windows)
    sizes = op.attrs.get("sizes", made.type.valid if isinstance(made.type, TileType) else None)
    if whole.window or not isinstance(sizes, tuple) or len(sizes) != 2:
        return whole
    starts = [numbers.get(v.name) for v in op.group("offsets") or op.ins[1:]]
    spans = [
        (at, at + n) if at is not None and isinstance(n, int) else None
        for at, n in zip(starts, sizes, strict=False)
    ]
    if len(spans) != 2 or None in spans:
        return replace(whole, window=made.name)
    window = replace(whole, window=made.name, rows=spans[0], cols=spans[1])
    return replace(window, range=_narrowed(window, source.type))


def _narrowed(window: Bytes, source: object) -> tuple[int, int] | None:
    """The byte range of a window of whole rows or columns of an unboxed tile, else that of the tile."""
    t, extent = source, window.range
    if not isinstance(t, TileType) or extent is None or t.boxed or t.dtype.bits % 8:
        return extent
    lines = window.rows if t.blayout == BLayout.ROW_MAJOR else window.cols
    pitch = (t.cols if t.blayout == BLayout.ROW_MAJOR else t.rows) * t.dtype.bits // 8
    return (extent[0] + lines[0] * pitch, extent[0] + lines[1] * pitch) if lines is not None else extent
