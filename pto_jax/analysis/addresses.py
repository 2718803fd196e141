"""Which bytes a tile handle denotes, as far as the text of a program says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..ir import BLayout, Loc, Op, TileType, Value


@dataclass(frozen=True)
class Bytes:
    """Bytes of an on-chip buffer: a range where the address is known, else those of one handle.

    ``root`` names the allocation; ``window`` the window of it, which is at ``rows`` and ``cols`` unless only
    execution tells where. ``order`` is the position in the text of the operation that placed them.
    """

    root: str
    loc: Loc
    range: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None
    window: str = ""
    order: int = field(default=0, compare=False)

    def overlaps(self, other: Bytes) -> bool:
        """Whether both may have a byte in common; windows at unknown places of one tile count as apart."""
        if self.root == other.root:
            if not self.window or not other.window or self.window == other.window:
                return True
            return _meet(self.rows, other.rows) and _meet(self.cols, other.cols)
        return self.loc == other.loc and _meet(self.range, other.range)

    def joined(self, other: Bytes) -> Bytes | None:
        """What a handle denotes that denotes these bytes on one path and the others on another one.

        A handle that is placed anew on one of them counts as placed there; None for bytes of two allocations.
        """
        if self.root != other.root or self.window != other.window:
            return None
        return max(self, other, key=lambda b: b.order)

    def __str__(self) -> str:
        place = self.loc.name.lower()
        return f"{place} bytes [{self.range[0]}, {self.range[1]})" if self.range else f"in {place}"


def _meet(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


def window_of(op: Op, made: Value, source: Value, whole: Bytes, numbers: Mapping[str, int]) -> Bytes:
    """The bytes of ``made``, a window of ``source``, whose bytes are ``whole``.

    ``numbers`` are the scalars that are known. A window of a window counts as the outer one.
    """
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
