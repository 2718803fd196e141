"""Constraints on valid regions, physical sizes, masks, scratch tiles and inferred destinations.

Each size rule gives the physical size and the valid one from those of the sources. Columns of a packed or
transposed tile are rounded up to the 32-byte blocks of a row_major tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...ir import DType, TileType, dims_text
from ...profiles import ProfileName
from ..declare import Breaker, Constraint, Extent as DeclaredExtent, Finding, Site, Size, Sources
from .constraints import HARDWARE, OVERVIEW, SIMULATOR, size
from .forbid import edit, forbid, retile
from .require import require

Extent = tuple[int | None, int | None]
#: What a lane outside a source's valid region reads as, per profile option.
OUTSIDE = {
    "ones": "all-one bytes",
    "backing": "whatever bits are stored",
    "poison": "an undefined value",
}


def _beyond(have: int, want: int | None) -> bool:
    return want is not None and have < want


def covers(sources: tuple[str, ...], domain: str) -> tuple[Constraint, Constraint, Constraint]:
    """The three region rules of a source that is read at the lanes of ``domain``.

    A lane beyond the physical tile is an error, a lane beyond the valid region a warning, a larger
    valid region a warning that says it is ignored.
    """
    return (_physical(sources, domain), _reads_outside(sources, domain), _differs(sources, domain))


def _lacks_lanes(site: Site, name: str, domain: str) -> bool:
    t, (want_r, want_c) = site.tile(name), site.region(domain)
    return t is not None and (_beyond(t.rows, want_r) or _beyond(t.cols, want_c))


def _halve(names: tuple[str, ...]) -> Breaker:
    """The last of some tiles has a single row."""
    return edit(names[-1], lambda t: None if t.rows < 2 else replace(t, rows=1, v_row=1))


def _physical(sources: tuple[str, ...], domain: str) -> Constraint:
    return require(
        "no-broadcast",
        f"it.shape >= {domain}.sizes",
        it=sources,
        why="no implicit broadcasting: trowexpand and tcolexpand expand",
        source=f"{OVERVIEW} (shared constraints)",
        invalid_if=_halve(sources),
    )


def _reads_outside(sources: tuple[str, ...], domain: str) -> Constraint:
    @forbid(
        "region-covers",
        f"valid regions of {', '.join(sources)} that cover the one of {domain}; other lanes have no "
        "reliable value",
        severity="warning",
        source=f"{OVERVIEW} (valid region model)",
        invalid_if=edit(sources[-1], lambda t: t.with_valid(t.v_row - 1, t.v_col) if t.v_row else None),
    )
    def rule(site: Site) -> Iterator[Finding]:
        want = site.region(domain)
        for name in sources:
            have = site.region(name)
            if _lacks_lanes(site, name, domain):
                continue
            if any(h is not None and _beyond(h, w) for h, w in zip(have, want, strict=True)):
                yield (
                    name,
                    f"the valid region {dims_text(have)} of {name} does not cover the {dims_text(want)} of "
                    f"{domain}; lanes "
                    f"outside it read as {OUTSIDE[site.profile.out_of_region]} on {site.profile.name}; "
                    f"allowed, but no value may be relied on",
                )

    return rule


def _differs(sources: tuple[str, ...], domain: str) -> Constraint:
    def smaller(t: TileType) -> TileType | None:
        return None if t.v_row is None or t.v_row < 2 else t.with_valid(t.v_row - 1, t.v_col)

    @forbid(
        "region-larger",
        f"valid regions of {', '.join(sources)} no larger than the one of {domain}; further lanes "
        "are not read",
        severity="warning",
        source=OVERVIEW,
        invalid_if=edit(domain, smaller),
        on_lanes=False,
    )
    def rule(site: Site) -> Iterator[Finding]:
        want = site.region(domain)
        for name in sources:
            have = site.region(name)
            pairs = [(h, w) for h, w in zip(have, want, strict=True) if h is not None and w is not None]
            if any(h > w for h, w in pairs) and not any(h < w for h, w in pairs):
                yield (
                    name,
                    f"the valid region {dims_text(have)} of {name} is larger than the "
                    f"{dims_text(want)} of {domain}; "
                    f"allowed, the lanes beyond {domain}'s are not read",
                )

    return rule


def equal_shape(
    a: str, b: str, profiles: tuple[ProfileName, ...], source: str, rule: str = "shape-equal"
) -> Constraint:
    """Two tiles have the same physical rows and columns."""
    taller = edit(b, lambda t: replace(t, rows=t.rows * 2))

    @forbid(rule, f"{a} and {b} have equal rows and columns", profiles, source=source, invalid_if=taller)
    def equal(site: Site) -> Iterator[Finding]:
        s, t = site.tile(a), site.tile(b)
        if s is None or t is None or (s.rows, s.cols * s.dtype.numbers) == (t.rows, t.cols * t.dtype.numbers):
            return
        pairs = ", two to an element of a pair" if s.dtype.numbers != t.dtype.numbers else ""
        got = f"{b} is {t.rows}x{t.cols}, {a} is {s.rows}x{s.cols}"
        yield b, f"{got}; allowed: equal rows and columns{pairs}"

    return equal


def mask_holds(*, stream: bool) -> tuple[Constraint, ...]:
    """A packed mask that is read has a bit for every lane of dst.

    ``stream``: the simulator reads the bits as one stream over the mask's valid columns, eight per
    element; elsewhere (and without it) each row starts at its own mask row.
    """
    source = "recorded simulator vectors; instruction page (mask encoding)"
    statement, invalid = "mask has a bit for every valid element of dst", _halve(("mask",))

    def by_rows(site: Site) -> Iterator[Finding]:
        m, (rows, cols) = site.tile("mask"), site.region("dst")
        if m is not None and (_beyond(m.rows, rows) or _beyond(m.cols * m.dtype.bits, cols)):
            got = f"mask is {m.rows}x{m.cols} of {m.dtype}, {m.cols * m.dtype.bits} bits per row"
            needed = f"a row of at least {size(cols)} bits for each of the {size(rows)} valid rows of dst"
            yield "mask", f"{got}; allowed: {needed}"

    if not stream:
        return (forbid("mask-holds", statement, source=source, invalid_if=invalid)(by_rows),)

    @forbid("mask-holds", statement, SIMULATOR, source=source, invalid_if=invalid)
    def by_stream(site: Site) -> Iterator[Finding]:
        m, (rows, cols), per_row = site.tile("mask"), site.region("dst"), site.region("mask")[1]
        if m is None or rows is None or cols is None or per_row is None:
            return
        if m.rows * per_row * 8 < rows * cols:
            needed = f"at least {rows}x{cols} bits, one per valid element of dst"
            yield "mask", f"mask holds {m.rows}x{per_row} groups of 8 bits; allowed: {needed}"

    return (forbid("mask-holds", statement, HARDWARE, source=source, invalid_if=invalid)(by_rows), by_stream)


def mask_receives(profiles: tuple[ProfileName, ...]) -> tuple[Constraint, Constraint]:
    """A packed mask that is written has a row for every valid row compared, and room for its bits."""
    page = "instruction page (mask encoding)"
    rows = require("mask-rows", "dst.rows >= src0.valid_rows", profiles, source=page)

    @forbid(
        "mask-room",
        "the valid columns of dst hold a bit for every valid column of src0",
        profiles,
        severity="warning",
        source=page,
        invalid_if=retile("dst", v_col=1),
    )
    def room(site: Site) -> Iterator[Finding]:
        m, cols, words = site.tile("dst"), site.region("src0")[1], site.region("dst")[1]
        if m is not None and cols is not None and words is not None and words * m.dtype.bits < cols:
            got = f"dst has {words} valid columns of {m.dtype} for the {cols} bits of a row"
            yield "dst", f"{got}; the bits beyond them are dropped or land outside the valid region"

    return rows, room


_BLOCK_BITS = 256


class Open:
    """A valid size that is not known; what is computed from it is not known either."""

    def _open(self, *_: Any) -> Open:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __neg__ = _open

    def __repr__(self) -> str:
        return "?"


OPEN_SIZE = Open()


def whole_blocks(cols: int, d: DType) -> int:
    """Columns rounded up to 32-byte blocks of an element type.

    >>> from pto_jax.ir import F32, U8
    >>> whole_blocks(9, F32), whole_blocks(8, U8)
    (16, 32)
    """
    step = _BLOCK_BITS // d.word_bits
    return -(-cols // step) * step


def like(name: str) -> DeclaredExtent:
    """The size of one source."""

    def rule(s: Sources) -> Size:
        return s.types[name].shape, s.sizes[name]

    return DeclaredExtent(f"the rows and columns of {name}", rule)


def columns(count: int) -> DeclaredExtent:
    """A row of ``count`` elements for each row of src."""

    def rule(s: Sources) -> Size:
        return (s.types["src"].rows, count), (s.sizes["src"][0], count)

    return DeclaredExtent(f"the rows of src and {count} columns", rule)


def _column(s: Sources) -> Size:
    return (s.types["src"].rows, 1), (s.sizes["src"][0], 1)


def _row(s: Sources) -> Size:
    return (1, s.types["src"].cols), (1, s.sizes["src"][1])


def _mask(s: Sources) -> Size:
    source, (rows, cols) = s.types["src0"], s.sizes["src0"]
    bits = s.dtype.bits
    shape = (source.rows, whole_blocks(-(-source.cols // bits), s.dtype))
    return shape, (rows, -(-cols // bits))


def _product(s: Sources) -> Size:
    return (s.types["a"].rows, s.types["b"].cols), (s.sizes["a"][0], s.sizes["b"][1])


def _transposed(s: Sources) -> Size | None:
    source, (rows, cols) = s.types["src"], s.sizes["src"]
    if source.conv is not None:
        return None
    return (source.cols, whole_blocks(source.rows, s.dtype)), (cols, rows)


def _joined(s: Sources) -> Size:
    names = [n for n in s.types if n in ("src0", "src1", "src2", "src3")]
    shape = (max(s.types[n].rows for n in names), sum(s.types[n].cols for n in names))
    valid = s.sizes[names[0]][1]
    for name in names[1:]:
        valid = valid + s.sizes[name][1]
    return shape, (s.sizes[names[0]][0], valid)


def _unwoven(s: Sources) -> Size:
    source, (rows, cols) = s.types["src0"], s.sizes["src0"]
    if "src1" in s.types:
        return source.shape, (rows, cols)
    return (source.rows, source.cols // 2), (rows, cols // 2)


def _larger(s: Sources) -> Size:
    """The larger of two sources, by columns, rows and static valid sizes; src0 where they are alike."""

    def key(name: str) -> tuple[int, ...]:
        t = s.types[name]
        return (t.cols, t.rows, t.v_col or 0, t.v_row or 0)

    name = max(("src0", "src1"), key=key)
    return s.types[name].shape, s.sizes[name]


COLUMN = DeclaredExtent("the rows of src and one column", _column)
ROW = DeclaredExtent("one row and the columns of src", _row)
MASK = DeclaredExtent("the rows of src0 and a bit for each of its columns", _mask)
PRODUCT = DeclaredExtent("the rows of a and the columns of b", _product)
TRANSPOSED = DeclaredExtent("the columns of src as rows, its rows as columns", _transposed)
JOINED = DeclaredExtent("the columns of all sources side by side", _joined)
UNWOVEN = DeclaredExtent("the rows and columns of src0, half the columns of a single source", _unwoven)
LARGER = DeclaredExtent("the rows and columns of the larger source", _larger)
#: A size that no source says.
OPEN = DeclaredExtent("a size that no source says", lambda _: None)
