"""Which bytes the tile handles of a program denote, as far as its text says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..analysis.constant_folding import fold_op
from ..ir.program import Op, Region, Value
from ..ir.types import BLayout, Loc, Pipe, TileType
from ..isa.effects import aliased, handed_on, placed, traits_of
from ..isa.issue import loc_of


@dataclass(frozen=True)
class Bytes:
    """Bytes of an on-chip buffer: a range where the address is known, else those of one handle.

    ``root`` names the allocation; ``window`` the window of it, which is at ``rows`` and ``cols`` unless only
    execution tells where.
    """

    root: str
    loc: Loc
    range: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None
    window: str = ""

    def overlaps(self, other: Bytes) -> bool:
        """Whether both may have a byte in common; windows at unknown places of one tile count as apart."""
        if self.root == other.root:
            if not self.window or not other.window or self.window == other.window:
                return True
            return _meet(self.rows, other.rows) and _meet(self.cols, other.cols)
        return self.loc == other.loc and _meet(self.range, other.range)

    def __str__(self) -> str:
        place = self.loc.name.lower()
        return f"{place} bytes [{self.range[0]}, {self.range[1]})" if self.range else f"in {place}"


def _meet(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


@dataclass
class Handles:
    """What the names of a function stand for while it is walked."""

    bytes: dict[str, Bytes] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    #: The pipe of the operation that made an event.
    produced: dict[str, Pipe] = field(default_factory=dict)
    prefix: str = ""

    def inside(self, arguments: Iterable[tuple[str, Value]]) -> Handles:
        """The handles of a function that is called with these arguments."""
        inner = Handles(prefix=f"{self.prefix}>")
        for name, value in arguments:
            found = self.find(value)
            if found is not None:
                inner.bytes[name] = found
            if value.name in self.constants:
                inner.constants[name] = self.constants[value.name]
        return inner

    def find(self, value: Value) -> Bytes | None:
        """The bytes of a tile; a handle of unknown origin has bytes of its own."""
        loc = loc_of(value.type)
        if loc is None:
            return None
        return self.bytes.setdefault(value.name, Bytes(self.prefix + value.name, loc))

    def event(self, op: Op) -> int | None:
        """The number of an event, None where only execution tells."""
        given = op.attrs.get("event")
        if isinstance(given, int):
            return given
        return self.constants.get(op.ins[0].name) if op.ins else None

    def made(self, op: Op, pipe: Pipe) -> None:
        """Remember on which pipe the events of an operation complete."""
        for value in op.results:
            if loc_of(value.type) is None:
                self.produced[value.name] = pipe

    def at_least_once(self, op: Op) -> bool:
        """Whether a loop certainly executes its body."""
        lower, upper = (self.constants.get(op.group(name)[0].name) for name in ("lb", "ub"))
        return lower is not None and upper is not None and lower < upper

    def learn(self, op: Op) -> Iterator[str]:
        """Bind the results of an operation; yields handles that denote other bytes than before."""
        constant = fold_op(op, self.constants)
        for value in op.results:
            self.constants.pop(value.name, None)
            if constant is not None:
                self.constants[value.name] = constant
        place, alias, pair = placed(op), traits_of(op).alias, aliased(op)
        if place is not None and isinstance(place[0].type, TileType):
            yield from self._placed(*place)
        elif alias is not None and alias.memory == "tile" and pair is not None:
            found = self._window(op, *pair) if alias.part == "window" else self.find(pair[1])
            if found is not None:
                self.bytes[pair[0].name] = found
        else:
            for value in op.results:
                if loc_of(value.type) is not None:
                    self.bytes.pop(value.name, None)
                    yield self.prefix + value.name

    def _placed(self, made: Value, address: Value | None) -> Iterator[str]:
        loc, t = loc_of(made.type), made.type
        if loc is None or not isinstance(t, TileType):
            return
        start = self.constants.get(address.name) if address is not None else None
        root = self.prefix + made.name
        extent = (start, start + t.bytes) if start is not None else None
        self.bytes[made.name] = Bytes(root, loc, extent)
        if address is not None and start is None:
            yield root

    def _window(self, op: Op, made: Value, source: Value) -> Bytes | None:
        found, t = self.find(source), made.type
        if not isinstance(t, TileType):
            return None
        sizes = op.attrs.get("sizes", t.valid)
        if found is None or found.window or not isinstance(sizes, tuple) or len(sizes) != 2:
            return found or Bytes(self.prefix + made.name, t.loc)
        starts = [self.constants.get(v.name) for v in op.group("offsets") or op.ins[1:]]
        spans = [
            (at, at + n) if at is not None and isinstance(n, int) else None
            for at, n in zip(starts, sizes, strict=False)
        ]
        if len(spans) != 2 or None in spans:
            return replace(found, window=made.name)
        window = replace(found, window=made.name, rows=spans[0], cols=spans[1])
        return replace(window, range=_narrowed(window, source.type))

    def yielded(self, op: Op) -> Iterator[str]:
        """Bind the results of an operation with regions; yields handles whose bytes are not known."""
        for i, value in enumerate(op.results):
            self.constants.pop(value.name, None)
            if loc_of(value.type) is None:
                continue
            choices = {self._yielded(region, i) for region in op.regions if region.ops}
            (only,) = choices if len(choices) == 1 else (None,)
            regions = traits_of(op).regions
            if only is not None and regions is not None and not regions.repeats:
                self.bytes[value.name] = only
            else:
                self.bytes.pop(value.name, None)
                yield self.prefix + value.name

    def _yielded(self, region: Region, i: int) -> Bytes | None:
        values = handed_on(region)
        return self.find(values[i]) if i < len(values) else None


def _narrowed(window: Bytes, source: object) -> tuple[int, int] | None:
    """The byte range of a window of whole rows or columns of an unboxed tile, else that of the tile."""
    t, extent = source, window.range
    if not isinstance(t, TileType) or extent is None or t.boxed or t.dtype.bits % 8:
        return extent
    lines = window.rows if t.blayout == BLayout.ROW_MAJOR else window.cols
    pitch = (t.cols if t.blayout == BLayout.ROW_MAJOR else t.rows) * t.dtype.bits // 8
    return (extent[0] + lines[0] * pitch, extent[0] + lines[1] * pitch) if lines is not None else extent
