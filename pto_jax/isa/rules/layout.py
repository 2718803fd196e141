"""Rules on the valid regions of rearranging instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...ir.types import TileType, Type
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, RegionRule, Site
from .constraints import HEADERS, size

_Types = dict[str, Type]


def _not_mirrored(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst"], sizes["src"]
    return (types["src"].conv is None) & ((r != t) | (c != s))


def mirrored() -> Constraint:
    """The valid rows of dst are the valid columns of src, and the other way round."""

    def check(site: Site) -> Iterator[Finding]:
        (r, c), (s, t) = (site.valid.get(n, (None, None)) for n in ("dst", "src"))
        if any(tile.conv is not None for _, tile in site.tiles()):
            return
        if (None not in (r, t) and r != t) or (None not in (c, s) and c != s):
            yield (
                "dst",
                f"dst has valid region {size(r)}x{size(c)}, src has {size(s)}x{size(t)}; "
                "allowed: the rows of one are the columns of the other",
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["src"]
        if not isinstance(t, TileType) or t.conv is not None:
            return False
        types["src"] = t.with_valid(t.rows - 1, t.cols)
        return True

    return Constraint(
        "valid-mirrored",
        "the valid regions of dst and src mirror each other",
        check,
        stage="run-time",
        source=HEADERS,
        breaks=breaks,
        region=RegionRule("custom", ("dst", "src"), _not_mirrored),
    )


def _overfull(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["src0"][1] + sizes["src1"][1] > types["dst"].cols


def _unequal(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["src0"][1] + sizes["src1"][1] != sizes["dst"][1]


def columns_sum(*, exact: bool) -> Constraint:
    """The valid columns of src0 and src1 together are those of dst (``exact``), or fit into dst."""

    def check(site: Site) -> Iterator[Finding]:
        dst = site.tile("dst")
        have, a, b = (site.valid.get(n, (None, None))[1] for n in ("dst", "src0", "src1"))
        if dst is None or a is None or b is None:
            return
        if exact and have is not None and a + b != have:
            yield "dst", f"dst has {have} valid columns; allowed: the {a} + {b} of src0 and src1"
        if not exact and a + b > dst.cols:
            yield "dst", f"dst has {dst.cols} columns; allowed: at least the {a} + {b} of src0 and src1"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["dst"]
        if not isinstance(t, TileType) or t.v_col is None:
            return False
        narrow = t.cols // 2
        types["dst"] = t.with_valid(t.v_row, t.v_col - 1) if exact else replace(t, cols=narrow, v_col=narrow)
        return True

    return Constraint(
        "columns-sum",
        "the valid columns of dst are those of src0 and src1 together"
        if exact
        else "dst has room for the valid columns of src0 and src1",
        check,
        ("cpu_sim", "a5") if exact else ("a2a3",),
        stage="run-time",
        source=HEADERS,
        breaks=breaks,
        region=RegionRule("custom", ("dst", "src0", "src1"), _unequal if exact else _overfull),
    )


def equal_rows() -> Constraint:
    """The tiles dst, src0 and src1 have equal valid rows."""

    def check(site: Site) -> Iterator[Finding]:
        want = site.valid.get("dst", (None, None))[0]
        for name in ("src0", "src1"):
            rows, t = site.valid.get(name, (None, None))[0], site.tile(name)
            if None not in (rows, want) and rows != want and t is not None and t.rows >= (want or 0):
                yield name, f"{name} has {rows} valid rows; allowed: the {want} of dst"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["src1"]
        if not isinstance(t, TileType):
            return False
        types["src1"] = t.with_valid(t.rows - 1, t.cols)
        return True

    return Constraint(
        "rows-equal",
        "dst, src0 and src1 have equal valid rows",
        check,
        stage="run-time",
        source=HEADERS,
        breaks=breaks,
        region=RegionRule("equal-rows", ("dst", "src0", "src1")),
    )


def _odd(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["dst0"][1] % 2 != 0


def even_columns() -> Constraint:
    """The tile dst0 has an even number of valid columns."""

    def check(site: Site) -> Iterator[Finding]:
        cols = site.valid.get("dst0", (None, None))[1]
        if cols is not None and cols % 2:
            yield "dst0", f"dst0 has {cols} valid columns; allowed: an even number"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        tiles = {n: t for n, t in types.items() if isinstance(t, TileType)}
        single = "src1" not in tiles
        for name, t in tiles.items():
            less = 2 if single and name == "src0" else 1
            types[name] = t.with_valid(t.rows, t.cols - less)
        return True

    return Constraint(
        "columns-even",
        "an even number of valid columns",
        check,
        stage="run-time",
        source=HEADERS,
        breaks=breaks,
        region=RegionRule("custom", ("dst0",), _odd),
    )


def _not_half(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst0"], sizes["src0"]
    return (r != s) | (c != t) if "src1" in sizes else (r != s) | (2 * c != t)


def halves() -> Constraint:
    """The valid region of src0 is that of dst0; a single source has twice its columns."""

    def check(site: Site) -> Iterator[Finding]:
        (r, c), (s, t) = (site.valid.get(n, (None, None)) for n in ("dst0", "src0"))
        each = 1 if "src1" in site.types else 2
        if (None not in (r, s) and r != s) or (c is not None and t is not None and each * c != t):
            yield (
                "src0",
                f"src0 has valid region {size(s)}x{size(t)}, dst0 {size(r)}x{size(c)}; allowed: "
                "equal rows and "
                + ("twice the columns of dst0 in a single source" if each == 2 else "equal columns"),
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["src0"]
        if not isinstance(t, TileType):
            return False
        types["src0"] = t.with_valid(t.rows - 1, t.cols)
        return True

    return Constraint(
        "source-columns",
        "src0 has the valid region of dst0, a single source twice its columns",
        check,
        stage="run-time",
        source=HEADERS,
        breaks=breaks,
        region=RegionRule("custom", ("dst0", "src0"), _not_half),
    )
