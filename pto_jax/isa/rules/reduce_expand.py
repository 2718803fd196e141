"""Constraints of the reductions and expansions: layouts of row and column vectors, and their extents."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ...ir import BLayout, SLayout, TileType
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..changes import DIALECT
from ..declare import AttrMap, Breaker, Constraint, Finding, RegionRule, Site, Sizes
from . import constraints, elementwise
from .constraints import HARDWARE, HEADERS, no_half, non_empty, size
from .forbid import Types, edit, every_tile, first_tile, forbid
from .require import require

_PAGES = f"instruction pages; {HEADERS}"
#: Which extent two operands share: valid rows or valid columns.
Axis = Literal["rows", "cols"]
_AXES: Mapping[Axis, int] = {"rows": 0, "cols": 1}


def plain(names: tuple[str, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tiles in ND layout: row_major without boxes."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        return any(b(types, attrs, profile) for b in (_to_columns(names), edit(names[0], _in_boxes)))

    return require(
        "layout",
        "it.layout == ND",
        profiles,
        it=names,
        when=_SEVERAL_ROWS,
        statement=f"{', '.join(names)} in ND layout (row_major, none_box)",
        source=_PAGES,
        invalid_if=breaks,
        fix=constraints.row_major_instead,
    )


def row_major_only(names: tuple[str, ...], profiles: tuple[ProfileName, ...], source: str) -> Constraint:
    """Tiles with blayout row_major; a tile of one row has the same bytes in either order."""
    return require(
        "layout",
        "it.blayout == row_major",
        profiles,
        it=names,
        when=_SEVERAL_ROWS,
        statement=f"{', '.join(names)}: blayout row_major",
        source=source,
        fix=constraints.row_major_instead,
    )


#: The bytes of a row without boxes are the same in either order.
_SEVERAL_ROWS = "it.rows != 1 or it.slayout != none_box"


def _layout(t: TileType) -> str:
    return f"{t.blayout.name.lower()}, {t.slayout.name.lower()}"


def _to_columns(names: tuple[str, ...]) -> Breaker:
    """One of the tiles is col_major where its columns stay aligned."""

    def change(t: TileType) -> TileType | None:
        whole = t.rows > 1 and t.rows * t.dtype.storage_bits % 256 == 0
        return replace(t, blayout=BLayout.COL_MAJOR) if whole else None

    return first_tile(names, change)


def _in_boxes(t: TileType) -> TileType | None:
    """The tile in the inner layout of matrix operands, with rows for whole boxes."""
    if t.cols * t.dtype.storage_bits % 256:
        return None
    rows = -(-t.rows // 16) * 16
    return replace(t, rows=rows, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)


def column_vector(names: tuple[str, ...], *, one_valid: bool = False) -> Constraint:
    """Where a value per row is stored: an ND tile, or a col_major one of a single column."""
    nd = "row_major with one valid column" if one_valid else "row_major"

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[0])
        return isinstance(t, TileType) and t.cols != 1 and _to_columns(names[:1])(types, attrs, profile)

    @forbid(
        "column-vector",
        f"{', '.join(names)}: {nd}, or col_major with one column",
        HARDWARE,
        source=_PAGES,
        invalid_if=breaks,
    )
    def rule(site: Site) -> Iterator[Finding]:
        for name, t in site.named(*names):
            column = t.layout == "DN" and t.cols == 1
            wide = one_valid and not column and site.valid[name][1] not in (None, 1)
            if (t.layout == "ND" or column) and not wide:
                continue
            yield (
                name,
                f"{name} is {t.rows}x{t.cols} ({_layout(t)}) with {size(site.valid[name][1])} valid "
                f"columns; allowed on {site.profile.name}: {nd}, or col_major with one column (none_box)",
            )

    return rule


def holds(names: tuple[str, ...], axis: Axis) -> Constraint:
    """A vector of results has physical room for every valid row (column) of the source."""
    at = _AXES[axis]

    def broken(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        return sizes["src"][at] > types[names[0]].shape[at]

    return require(
        f"holds-{axis}",
        f"it.{axis} >= src.valid_{axis}",
        it=names,
        source="instruction pages (one result per line of the source)",
        region=RegionRule("custom", ("src", names[0]), broken),
    )


def _one_line_less(name: str, axis: Axis) -> Breaker:
    """The tile has one valid row (column) less, but some."""

    def change(t: TileType) -> TileType | None:
        extent = t.valid[_AXES[axis]]
        if extent is None or extent < 2:
            return None
        return t.with_valid(*((extent - 1, t.v_col) if axis == "rows" else (t.v_row, extent - 1)))

    return edit(name, change)


def equal_extent(names: tuple[str, ...], axis: Axis, source: str = "") -> Constraint:
    """Operands with the same number of valid rows (columns); checked again on run-time sizes."""
    rule: Literal["equal-rows", "equal-cols"] = "equal-rows" if axis == "rows" else "equal-cols"

    # Where a tile is physically too small, the rule on room reports it.
    first, valid = names[0], f"valid_{axis}"
    return require(
        rule,
        f"it.{valid} == {first}.{valid}",
        HARDWARE,
        it=names[1:],
        when=f"it.{axis} >= {first}.{valid}",
        statement=f"{', '.join(names)}: equal valid {axis}",
        source=source or f"instruction pages (run-time checks); {HEADERS}",
        run_time=True,
        region=RegionRule(rule, names),
    )


def first_line_covers(
    source_name: str, axis: Axis, profiles: tuple[ProfileName, ...], severity: Literal["error", "warning"]
) -> Constraint:
    """The vector that is broadcast has a valid element for every valid row (column) of dst."""
    at = _AXES[axis]

    def broken(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        have, want = sizes[source_name], sizes["dst"][at]
        return (have[at] < want) | ((have[1 - at] <= 0) & (want > 0))

    @forbid(
        "vector-covers",
        f"{source_name} has a valid element for every valid {axis[:-1]} of dst",
        profiles,
        stage="run-time",
        severity=severity,
        source="instruction pages (one scalar per row or column)",
        invalid_if=_one_line_less(source_name, axis),
        region=RegionRule("custom", (source_name, "dst"), broken),
    )
    def rule(site: Site) -> Iterator[Finding]:
        want = site.region("dst")[at]
        t, have = site.tile(source_name), site.region(source_name)
        if t is None or want is None or t.shape[at] < want:
            return
        lines = have[1 - at]
        if (have[at] is not None and (have[at] or 0) < want) or (lines == 0 and want > 0):
            got = f"{source_name} has the valid region {size(have[0])}x{size(have[1])}"
            yield source_name, f"{got}; allowed: an element for each of the {want} valid {axis} of dst"

    return rule


def vector_room(source_name: str, axis: Axis) -> Constraint:
    """The vector that is broadcast physically has an element for every valid row (column) of dst."""
    return require(
        f"vector-{axis}",
        f"{source_name}.{axis} >= dst.valid_{axis}",
        source="instruction pages (one scalar per row or column)",
        run_time=True,
    )


def filled_source(axis: Axis, *, positions: bool = False) -> Constraint:
    """Hardware reduces no tile without rows or columns; without both it does nothing, but for ``positions``.

    The sample that breaks it loses the valid lines of ``axis``.
    """
    empty = edit("src", lambda t: t.with_valid(*((0, t.v_col) if axis == "rows" else (t.v_row, 0))))
    source = f"instruction pages (run-time checks); {HEADERS}; PTOAS verifier"
    rule = non_empty(("src",), source) if positions else no_half(("src", "dst"), source)
    return replace(rule, profiles=HARDWARE, breaks=empty)


def no_boxes(names: tuple[str, ...], profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """Tiles without an inner layout; either block layout."""
    return require(
        "no-boxes",
        "it.slayout == none_box",
        profiles,
        it=names,
        source=_PAGES,
    )


def in_pairs(site: Site) -> bool:
    """Whether the rows of a sum are added in pairs."""
    return bool(site.attrs.get("isBinary"))


def _half_the_source(site: Site) -> int | None:
    src, (rows, cols) = site.tile("src"), site.region("src")
    if src is None or rows is None or cols is None or not in_pairs(site):
        return None
    return -(-rows // 2) * cols * src.dtype.storage_bits // 8


def _narrow_pairs(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    """Columns that tmp lacks, which has the bytes all the same."""
    tmp = types.get("tmp")
    if not isinstance(tmp, TileType):
        return False
    attrs["isBinary"] = True
    wider = every_tile(("src", "dst"), lambda t: replace(t, cols=2 * tmp.cols, v_col=2 * tmp.cols))
    return wider(types, attrs, profile) and edit("tmp", lambda t: TileType(t.dtype, 256, t.cols))(
        types, attrs, profile
    )


_pair_columns = require(
    "tmp-columns",
    "tmp.cols >= src.valid_cols",
    HARDWARE,
    when="isBinary",
    why="with isBinary",
    source=f"page tcolsum (temporary space); {DIALECT}",
    invalid_if=_narrow_pairs,
    on_lanes=False,
    since="2026-08",
)


def _flat_pairs(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["isBinary"] = True
    return edit("tmp", lambda t: replace(t, rows=1, v_row=1))(types, attrs, profile)


#: Scratch for the sums of pairs of rows.
PAIR_SCRATCH = (
    _pair_columns,
    elementwise.scratch_bytes(_half_the_source, "half of src's rows", _flat_pairs, HARDWARE),
)
