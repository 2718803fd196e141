"""Constraints of the reductions and expansions: layouts of row and column vectors, and their extents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from ...ir.types import BLayout, SLayout, TileType, Type
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Constraint, Finding, RegionRule, Site, Sizes
from .advice import row_major_instead
from .constraints import HARDWARE, HEADERS, no_half, size

_Types = dict[str, Type]
#: Which extent two operands share: valid rows or valid columns.
Axis = Literal["rows", "cols"]
_AXES: Mapping[Axis, int] = {"rows": 0, "cols": 1}


def plain(names: tuple[str, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tiles in ND layout: row_major without boxes."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is not None and t.layout != "ND" and not _single_row(t):
                yield name, f"{name} is {_layout(t)}; allowed on {site.profile.name}: row_major, none_box"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        return _to_columns(types, names) or _to_boxes(types, names[0])

    return Constraint(
        "layout",
        f"{', '.join(names)} in ND layout (row_major, none_box)",
        check,
        profiles,
        source=f"instruction pages; {HEADERS}",
        breaks=breaks,
        fix=row_major_instead,
    )


def row_major_only(
    names: tuple[str, ...], profiles: tuple[ProfileName, ...], source: str, *, rule: str = "layout"
) -> Constraint:
    """Tiles with blayout row_major; a tile of one row has the same bytes in either order."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is not None and t.blayout != BLayout.ROW_MAJOR and not _single_row(t):
                yield name, f"{name} has blayout col_major; allowed on {site.profile.name}: row_major"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        return _to_columns(types, names)

    return Constraint(
        rule,
        f"{', '.join(names)}: blayout row_major",
        check,
        profiles,
        source=source,
        breaks=breaks,
        fix=row_major_instead,
    )


def _single_row(t: TileType) -> bool:
    return t.rows == 1 and not t.boxed


def _layout(t: TileType) -> str:
    return f"{t.blayout.name.lower()}, {t.slayout.name.lower()}"


def _to_columns(types: _Types, names: tuple[str, ...]) -> bool:
    """Make one of the tiles col_major where its columns stay aligned."""
    for name in names:
        t = types.get(name)
        if isinstance(t, TileType) and t.rows > 1 and t.rows * t.dtype.storage_bits % 256 == 0:
            types[name] = replace(t, blayout=BLayout.COL_MAJOR)
            return True
    return False


def _to_boxes(types: _Types, name: str) -> bool:
    """Give a tile the inner layout of matrix operands, with rows for whole boxes."""
    t = types.get(name)
    if not isinstance(t, TileType) or t.cols * t.dtype.storage_bits % 256:
        return False
    rows = -(-t.rows // 16) * 16
    types[name] = replace(t, rows=rows, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
    return True


def column_vector(names: tuple[str, ...], *, one_valid: bool = False) -> Constraint:
    """Where a value per row is stored: an ND tile, or a col_major one of a single column."""
    nd = "row_major with one valid column" if one_valid else "row_major"

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is None:
                continue
            column = t.layout == "DN" and t.cols == 1
            wide = one_valid and not column and site.valid[name][1] not in (None, 1)
            if (t.layout == "ND" or column) and not wide:
                continue
            yield (
                name,
                f"{name} is {t.rows}x{t.cols} ({_layout(t)}) with {size(site.valid[name][1])} valid "
                f"columns; allowed on {site.profile.name}: {nd}, or col_major with one column (none_box)",
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[0])
        if not isinstance(t, TileType) or t.cols == 1:
            return False
        return _to_columns(types, names[:1])

    return Constraint(
        "column-vector",
        f"{', '.join(names)}: {nd}, or col_major with one column",
        check,
        HARDWARE,
        source=f"instruction pages; {HEADERS}",
        breaks=breaks,
    )


def holds(names: tuple[str, ...], axis: Axis) -> Constraint:
    """A vector of results has physical room for every valid row (column) of the source."""
    at = _AXES[axis]

    def short(name: str) -> Callable[[Sizes, Mapping[str, TileType]], Any]:
        return lambda sizes, types: sizes["src"][at] > types[name].shape[at]

    def check(site: Site) -> Iterator[Finding]:
        want = site.valid.get("src", (None, None))[at]
        for name in names:
            t = site.tile(name)
            if t is not None and want is not None and t.shape[at] < want:
                yield (
                    name,
                    (f"{name} has {t.shape[at]} {axis}; allowed: at least the {want} valid {axis} of src"),
                )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t, src = types.get(names[0]), types.get("src")
        if not isinstance(t, TileType) or not isinstance(src, TileType) or t.layout != "ND":
            return False
        if axis == "rows":
            types[names[0]] = replace(t, rows=t.rows - 1, v_row=min(t.v_row or 0, t.rows - 1))
        else:
            types["src"] = replace(src, cols=2 * t.cols, v_col=2 * t.cols)
        return True

    return Constraint(
        f"holds-{axis}",
        f"{', '.join(names)}: a physical {axis[:-1]} for every valid {axis[:-1]} of src",
        check,
        source="instruction pages (one result per line of the source)",
        breaks=breaks,
        region=RegionRule("custom", ("src", names[0]), short(names[0])),
    )


def equal_extent(
    names: tuple[str, ...],
    axis: Axis,
    profiles: tuple[ProfileName, ...] = HARDWARE,
    source: str = "",
) -> Constraint:
    """Operands with the same number of valid rows (columns); checked again on run-time sizes."""
    at = _AXES[axis]
    rule: Literal["equal-rows", "equal-cols"] = "equal-rows" if axis == "rows" else "equal-cols"

    def check(site: Site) -> Iterator[Finding]:
        first = site.valid.get(names[0], (None, None))[at]
        for name in names[1:]:
            t, have = site.tile(name), site.valid.get(name, (None, None))[at]
            # Where the tile is physically too small, the rule on room reports it.
            if t is None or have is None or first is None or have == first or t.shape[at] < first:
                continue
            yield (
                name,
                (f"{name} has {have} valid {axis}, {names[0]} has {first}; allowed: equal valid {axis}"),
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[-1])
        extent = t.valid[at] if isinstance(t, TileType) else None
        if not isinstance(t, TileType) or extent is None or extent < 2:
            return False
        types[names[-1]] = t.with_valid(*((extent - 1, t.v_col) if axis == "rows" else (t.v_row, extent - 1)))
        return True

    return Constraint(
        rule,
        f"{', '.join(names)}: equal valid {axis}",
        check,
        profiles,
        stage="run-time",
        source=source or f"instruction pages (run-time checks); {HEADERS}",
        breaks=breaks,
        region=RegionRule(rule, names),
    )


def first_line_covers(
    source_name: str, axis: Axis, profiles: tuple[ProfileName, ...], severity: Literal["error", "warning"]
) -> Constraint:
    """The vector that is broadcast has a valid element for every valid row (column) of dst."""
    at = _AXES[axis]

    def check(site: Site) -> Iterator[Finding]:
        want = site.valid.get("dst", (None, None))[at]
        t, have = site.tile(source_name), site.valid.get(source_name, (None, None))
        if t is None or want is None or t.shape[at] < want:
            return
        lines = have[1 - at]
        if (have[at] is not None and (have[at] or 0) < want) or (lines == 0 and want > 0):
            yield (
                source_name,
                (
                    f"{source_name} has the valid region {size(have[0])}x{size(have[1])}; allowed: an "
                    f"element for each of the {want} valid {axis} of dst"
                ),
            )

    def broken(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        have, want = sizes[source_name], sizes["dst"][at]
        return (have[at] < want) | ((have[1 - at] <= 0) & (want > 0))

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(source_name)
        extent = t.valid[at] if isinstance(t, TileType) else None
        if not isinstance(t, TileType) or extent is None or extent < 2:
            return False
        types[source_name] = t.with_valid(
            *((extent - 1, t.v_col) if axis == "rows" else (t.v_row, extent - 1))
        )
        return True

    return Constraint(
        "vector-covers",
        f"{source_name} has a valid element for every valid {axis[:-1]} of dst",
        check,
        profiles,
        stage="run-time",
        severity=severity,
        source="instruction pages (one scalar per row or column)",
        breaks=breaks,
        region=RegionRule("custom", (source_name, "dst"), broken),
    )


def vector_room(source_name: str, axis: Axis) -> Constraint:
    """The vector that is broadcast physically has an element for every valid row (column) of dst."""
    at = _AXES[axis]

    def check(site: Site) -> Iterator[Finding]:
        want, t = site.valid.get("dst", (None, None))[at], site.tile(source_name)
        if t is not None and want is not None and t.shape[at] < want:
            yield (
                source_name,
                (f"{source_name} is {t.rows}x{t.cols}; allowed: at least the {want} valid {axis} of dst"),
            )

    def broken(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        return sizes["dst"][at] > types[source_name].shape[at]

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t, dst = types.get(source_name), types.get("dst")
        if not isinstance(t, TileType) or not isinstance(dst, TileType) or t.layout != "ND":
            return False
        if axis == "rows":
            types[source_name] = replace(t, rows=t.rows - 1, v_row=t.rows - 1)
            return True
        for name, old in types.items():
            if name != source_name and isinstance(old, TileType):
                types[name] = replace(old, cols=2 * old.cols, v_col=2 * old.cols)
        return True

    return Constraint(
        f"vector-{axis}",
        f"{source_name} has a physical {axis[:-1]} for every valid {axis[:-1]} of dst",
        check,
        source="instruction pages (one scalar per row or column)",
        breaks=breaks,
        region=RegionRule("custom", (source_name, "dst"), broken),
    )


def filled_source(axis: Axis) -> Constraint:
    """Hardware reduces no tile without rows or columns, and nothing where there are neither.

    The sample that breaks it loses the valid lines of ``axis``.
    """

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get("src")
        if not isinstance(t, TileType):
            return False
        types["src"] = t.with_valid(*((0, t.v_col) if axis == "rows" else (t.v_row, 0)))
        return True

    rule = no_half(("src", "dst"), f"instruction pages (run-time checks); {HEADERS}; PTOAS verifier")
    return replace(rule, profiles=HARDWARE, breaks=breaks)


def no_boxes(names: tuple[str, ...], profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """Tiles without an inner layout; either block layout."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is not None and t.boxed:
                yield name, f"{name} is {_layout(t)}; allowed on {site.profile.name}: none_box"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        return _to_boxes(types, names[0])

    return Constraint(
        "no-boxes",
        f"{', '.join(names)} have slayout none_box",
        check,
        profiles,
        source=f"instruction pages; {HEADERS}",
        breaks=breaks,
    )
