"""Rules on the valid regions of rearranging instructions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...ir import TileType
from ...profiles import Profile
from ..declare import AttrMap, Finding, RegionRule, Site
from .constraints import HARDWARE, size
from .forbid import Types, edit, forbid


def _shorter(t: TileType) -> TileType:
    return t.with_valid(t.rows - 1, t.cols)


def _not_mirrored(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst"], sizes["src"]
    return (types["src"].conv is None) & ((r != t) | (c != s))


@forbid(
    "valid-mirrored",
    "the valid regions of dst and src mirror each other",
    severity="warning",
    stage="run-time",
    invalid_if=edit("src", lambda t: None if t.conv is not None else _shorter(t)),
    region=RegionRule("custom", ("dst", "src"), _not_mirrored),
)
def mirrored(site: Site) -> Iterator[Finding]:
    """The valid rows of dst are the valid columns of src, and the other way round."""
    (r, c), (s, t) = site.region("dst"), site.region("src")
    if any(tile.conv is not None for _, tile in site.tiles()):
        return
    if (None not in (r, t) and r != t) or (None not in (c, s) and c != s):
        yield (
            "dst",
            f"dst has valid region {size(r)}x{size(c)}, src has {size(s)}x{size(t)}; "
            "allowed: the rows of one are the columns of the other",
        )


def _overfull(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["src0"][1] + sizes["src1"][1] > types["dst"].cols


def _unequal(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["src0"][1] + sizes["src1"][1] != sizes["dst"][1]


@forbid(
    "columns-sum",
    "the valid columns of dst are those of src0 and src1 together",
    ("cpu_sim",),
    stage="run-time",
    invalid_if=edit("dst", lambda t: t.with_valid(t.v_row, t.v_col - 1) if t.v_col else None),
    region=RegionRule("custom", ("dst", "src0", "src1"), _unequal),
)
def columns_sum(site: Site) -> Iterator[Finding]:
    """The valid columns of src0 and src1 together are those of dst."""
    have, a, b = (site.region(n)[1] for n in ("dst", "src0", "src1"))
    if have is not None and a is not None and b is not None and a + b != have:
        yield "dst", f"dst has {have} valid columns; allowed: the {a} + {b} of src0 and src1"


@forbid(
    "columns-sum",
    "dst has room for the valid columns of src0 and src1",
    HARDWARE,
    stage="run-time",
    invalid_if=edit("dst", lambda t: replace(t, cols=t.cols // 2, v_col=t.cols // 2)),
    region=RegionRule("custom", ("dst", "src0", "src1"), _overfull),
)
def columns_fit(site: Site) -> Iterator[Finding]:
    """The valid columns of src0 and src1 together fit into dst."""
    dst, a, b = site.tile("dst"), site.region("src0")[1], site.region("src1")[1]
    if dst is not None and a is not None and b is not None and a + b > dst.cols:
        yield "dst", f"dst has {dst.cols} columns; allowed: at least the {a} + {b} of src0 and src1"


@forbid(
    "rows-equal",
    "dst, src0 and src1 have equal valid rows",
    stage="run-time",
    invalid_if=edit("src1", _shorter),
    region=RegionRule("equal-rows", ("dst", "src0", "src1")),
)
def equal_rows(site: Site) -> Iterator[Finding]:
    """The tiles dst, src0 and src1 have equal valid rows."""
    want = site.region("dst")[0]
    for name, t in site.named("src0", "src1"):
        rows = site.region(name)[0]
        if None not in (rows, want) and rows != want and t.rows >= (want or 0):
            yield name, f"{name} has {rows} valid rows; allowed: the {want} of dst"


def _odd(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    return sizes["dst0"][1] % 2 != 0


def _with_odd_columns(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    tiles = {n: t for n, t in types.items() if isinstance(t, TileType)}
    single = "src1" not in tiles
    for name, t in tiles.items():
        less = 2 if single and name == "src0" else 1
        types[name] = t.with_valid(t.rows, t.cols - less)
    return True


@forbid(
    "columns-even",
    "an even number of valid columns",
    stage="run-time",
    invalid_if=_with_odd_columns,
    region=RegionRule("custom", ("dst0",), _odd),
)
def even_columns(site: Site) -> Iterator[Finding]:
    """The tile dst0 has an even number of valid columns."""
    cols = site.region("dst0")[1]
    if cols is not None and cols % 2:
        yield "dst0", f"dst0 has {cols} valid columns; allowed: an even number"


def _not_half(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst0"], sizes["src0"]
    return (r != s) | (c != t) if "src1" in sizes else (r != s) | (2 * c != t)


@forbid(
    "source-columns",
    "src0 has the valid region of dst0, a single source twice its columns",
    stage="run-time",
    invalid_if=edit("src0", _shorter),
    region=RegionRule("custom", ("dst0", "src0"), _not_half),
)
def halves(site: Site) -> Iterator[Finding]:
    """The valid region of src0 is that of dst0; a single source has twice its columns."""
    (r, c), (s, t) = site.region("dst0"), site.region("src0")
    each = 1 if "src1" in site.types else 2
    if (None not in (r, s) and r != s) or (c is not None and t is not None and each * c != t):
        columns = "twice the columns of dst0 in a single source" if each == 2 else "equal columns"
        yield (
            "src0",
            f"src0 has valid region {size(s)}x{size(t)}, dst0 {size(r)}x{size(c)}; allowed: "
            f"equal rows and {columns}",
        )
