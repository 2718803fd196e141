"""Constraints on windows of global memory: which layouts and sizes a transfer connects with a tile."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from ... import ir
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..common import PAGES
from ..declare import AttrMap, Constraint, Finding, Site
from ..memory_convolution import CONV_LOADED, CONV_STORED, Dims, conv_fits, expected_window, five, times
from .constraints import HEADERS, size
from .forbid import Types, assign, edit, forbid
from .require import require

_G = ir.GlobalLayout
MX_A = (_G.MX_A_ZZ, _G.MX_A_ND, _G.MX_A_DN)
MX_B = (_G.MX_B_NN, _G.MX_B_ND, _G.MX_B_DN)
MX = (*MX_A, *MX_B)
_ND, _DN, _NZ = (_G.ND, "ND"), (_G.DN, "DN"), (_G.NZ, "NZ")
_Pairs = tuple[tuple[ir.GlobalLayout, ir.LayoutName], ...]
_ConvPairs = tuple[tuple[ir.GlobalLayout, ir.GlobalLayout], ...]
_SAME: _Pairs = (_ND, _DN, _NZ)  # type: ignore[assignment]
_SCALES: _Pairs = (*((g, "ZZ") for g in MX_A), *((g, "NN") for g in MX_B))
_IMAGES = (_G.NC1HWC0, _G.NDC1HWC0)


class Connected(NamedTuple):
    """The layouts of a window and of a tile that a transfer connects.

    By profile: of ordinary tiles by their place, and of convolution tiles. ``simulated`` are the windows that
    the simulator connects with tiles of any layout, ``boxed_rows`` the profiles that take a vec tile of one
    row as it is stored, boxed or not.
    """

    tiles: Mapping[str, Mapping[ir.Loc, _Pairs]]
    convolution: Mapping[str, _ConvPairs]
    simulated: tuple[ir.GlobalLayout, ...]
    boxed_rows: tuple[ProfileName, ...] = ()


LOADED = Connected(
    {
        "a2a3": {ir.Loc.VEC: _SAME, ir.Loc.MAT: (*_SAME, (_G.ND, "NZ"), (_G.DN, "ZN"))},
        "a5": {
            ir.Loc.VEC: _SAME,
            ir.Loc.MAT: (*_SAME, (_G.ND, "NZ"), (_G.DN, "NZ"), (_G.DN, "ZN"), *_SCALES),
        },
    },
    CONV_LOADED,
    (_G.ND, _G.DN, _G.NZ, *MX),
)
STORED = Connected(
    {
        "a2a3": {
            ir.Loc.VEC: _SAME,
            ir.Loc.MAT: _SAME,
            ir.Loc.ACC: tuple((g, "NZ") for g in (_G.ND, _G.NZ, *_IMAGES)),
        },
        "a5": {
            ir.Loc.VEC: _SAME,
            ir.Loc.ACC: tuple((g, "NZ") for g in (_G.ND, _G.DN, _G.NZ, _G.NHWC, _G.NCHW, _G.NCDHW)),
        },
    },
    CONV_STORED,
    (_G.ND, _G.DN, _G.NZ, *_IMAGES),
    ("a5",),
)


def view_layout(site: Site, view: str) -> ir.GlobalLayout | None:
    """The layout that the operation or the view's definition gives, None where neither does."""
    layout, value = site.attrs.get("layout"), site.values.get(view)
    if isinstance(layout, ir.GlobalLayout):
        return layout
    return None if value is None else site.layouts.get(value.name)


#: A window's dimensions, of five, whose product is the number of its rows, and of its columns.
Axes: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...] | None]"
_AXES: dict[ir.GlobalLayout, Axes] = {
    _G.NZ: ((2, 3), (0, 1, 4)),
    _G.MX_A_ZZ: ((1, 3), (2, 4)),
    _G.MX_B_NN: ((2, 4), (1, 3)),
    _G.MX_A_ND: ((2,), (3, 4)),
    _G.MX_A_DN: ((3,), (2, 4)),
    _G.MX_B_ND: ((2, 4), (3,)),
    _G.MX_B_DN: ((3, 4), (2,)),
    _G.NC1HWC0: ((0, 2, 3), (1, 4)),
    _G.NDC1HWC0: ((0, 3, 4), None),
    _G.NCHW: ((0, 1, 3, 4), (2,)),
    _G.NCDHW: ((0, 2, 3, 4), (1,)),
}


def window_axes(rank: int, layout: ir.GlobalLayout | None) -> Axes:
    """The dimensions, of five, that are the rows and the columns of a window as a tile."""
    if layout == _G.DN and rank > 2:
        return (3,), (0, 1, 2, 4)
    return _AXES.get(layout, ((0, 1, 2, 3), (4,))) if layout is not None else ((0, 1, 2, 3), (4,))


def window_shape(dims: Dims, layout: ir.GlobalLayout | None) -> tuple[int | None, int | None]:
    """Rows and columns that a window has as a tile.

    >>> window_shape((1, 2, 3, 16, 8), ir.GlobalLayout.NZ)
    (48, 16)
    """
    sizes, (rows, cols) = five(dims), window_axes(len(dims), layout)
    return times(*(sizes[i] for i in rows)), None if cols is None else times(*(sizes[i] for i in cols))


def layout_pair(tile: str, view: str, connected: Connected) -> Constraint:
    """The layouts of window and tile are a pair the profile transfers."""
    wrong = assign(layout=ir.GlobalLayout.HIF4_A_ZZ)

    @forbid("layouts", f"layouts of {view} and {tile} that the profile connects", invalid_if=wrong)
    def rule(site: Site) -> Iterator[Finding]:
        t, layout, profile = site.tile(tile), view_layout(site, view), site.profile.name
        if t is not None and t.conv is not None:
            layout = t.conv.layout if layout is None else layout
            message = _conv_pair(tile, t.conv, layout, connected.convolution[profile], profile)
        elif t is not None and layout is not None:
            message = _tile_pair(tile, t, layout, connected, profile)
        else:
            return
        if message:
            yield view, f"{view} has layout {layout.name.lower()}{message}"

    return rule


def _conv_pair(tile: str, conv: ir.Conv, layout: ir.GlobalLayout, pairs: _ConvPairs, profile: str) -> str:
    """What is wrong with the layouts of a window and a convolution tile."""
    if (layout, conv.layout) in pairs:
        return ""
    words = ", ".join(f"{g.name.lower()} and {c.name.lower()}" for g, c in pairs) or "none"
    got = f"{tile} is a convolution tile of layout {conv.layout.name.lower()}"
    return f", {got}; allowed on {profile} (window and tile): {words}"


def _tile_pair(tile: str, t: ir.TileType, layout: ir.GlobalLayout, connected: Connected, profile: str) -> str:
    """What is wrong with the layouts of a window and an ordinary tile."""
    if profile == "cpu_sim":
        words = ", ".join(g.name.lower() for g in connected.simulated)
        return "" if layout in connected.simulated else f"; allowed on {profile}: {words}"
    pairs = connected.tiles[profile].get(t.loc, ())
    if (layout, t.layout) in pairs or _one_line(t, layout):
        return ""
    if profile in connected.boxed_rows and t.loc == ir.Loc.VEC and t.rows == 1 and layout == _G.ND:
        return ""
    words = ", ".join(f"{g.name.lower()} and {n}" for g, n in pairs) or "none"
    got = f"{tile} has {t.layout} in {t.loc.name.lower()}"
    return f", {got}; allowed on {profile} (window and tile): {words}"


def _one_line(t: ir.TileType, layout: ir.GlobalLayout) -> bool:
    """One row or column is the same bytes in either order."""
    return not t.boxed and 1 in (*t.valid, *t.shape) and layout in (_G.ND, _G.DN)


#: Layouts of block scales hold block scales, in boxes of 32 bytes.
scale_types = require(
    "scales",
    "dst.dtype == f8e8m0 and dst.fractal == 32",
    ("a5",),
    when=lambda site: view_layout(site, "src") in MX,
    why="block scales of an MX layout",
    invalid_if=edit("dst", lambda t: t.with_dtype(ir.dtype("i8")) if t.fractal == 32 else None),
)
#: Elements of tile and window have one size.
same_size = require("element-size", "src.width == dst.width")


def _wide_in_boxes(t: ir.TileType) -> ir.TileType | None:
    wide = t.dtype.bits == 64
    return replace(t, slayout=ir.SLayout.ROW_MAJOR, blayout=ir.BLayout.COL_MAJOR) if wide else None


#: 64-bit integers keep their layout on A2/A3.
wide_integers = require(
    "wide-layout",
    "dst.slayout == none_box",
    ("a2a3",),
    when="dst.bits == 64",
    invalid_if=edit("dst", _wide_in_boxes),
)
#: 64-bit integers have no pad value but zero on A5; A2/A3 takes any for zero.
wide_pads = require(
    "wide-pad",
    "dst.pad in (null, zero)",
    ("a5",),
    when="dst.bits == 64",
    source=f"page tload; {HEADERS}",
)


def _shortened(types: Types, view: str, v: ir.PartitionViewType) -> bool:
    """Take one line off the first dimension of a window that has several; whether it has one."""
    axis = next((i for i, d in enumerate(v.dims) if d is not None and d > 1), None)
    if axis is None:
        return False
    types[view] = replace(v, dims=(*v.dims[:axis], (v.dims[axis] or 0) - 1, *v.dims[axis + 1 :]))
    return True


def window_fits(
    tile: str,
    view: str,
    severity: Literal["error", "warning"] = "error",
    since: ir.Language | None = None,
    until: ir.Language | None = None,
) -> Constraint:
    """Where sizes are static the window has the shape of the tile's valid region.

    What is loaded may be the first rows and columns of a larger window, and windows of block scales may be
    larger than the valid region, which need not be whole blocks.
    """

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        v = types[view]
        if not isinstance(v, ir.PartitionViewType):
            return False
        return _shortened(types, view, v)

    @forbid(
        "window-size" if severity == "error" else "window-lanes",
        f"{view} has the shape of the valid region of {tile}, where both are static; what is loaded may be "
        "less",
        source=f"{PAGES}; PTOAS verifier",
        invalid_if=breaks,
        severity=severity,
        since=since,
        until=until,
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, v = site.types.get(tile), site.types.get(view)
        if not isinstance(t, ir.TileType) or not isinstance(v, ir.PartitionViewType | ir.TensorViewType):
            return
        layout = view_layout(site, view)
        if t.conv is not None or site.op.group("offsets"):
            return
        if t.v_row is None or t.v_col is None or 0 in t.valid:
            return
        larger = layout in MX or not site.instruction.operand(tile).is_read
        have, want = times(*v.dims) if layout is None else None, t.v_row * t.v_col
        if have is not None and (have < want if larger else have != want):
            yield (
                view,
                f"{view} has {have} elements ({'x'.join(size(d) for d in v.dims)}), the valid "
                f"region of {tile} has {want} ({t.v_row}x{t.v_col}); allowed: "
                f"{'at least as many' if larger else 'equal sizes'}, or a dynamic valid region",
            )
            return
        if layout is None and len(v.dims) > 2:
            return
        rows, cols = window_shape(v.dims, layout)
        if larger and ((rows or t.v_row) < t.v_row or (cols or t.v_col) < t.v_col):
            yield view, _told(view, rows, cols, tile, t, "at least the valid rows and columns")
        elif not larger and None not in (rows, cols) and (rows, cols) != (t.v_row, t.v_col):
            yield view, _told(view, rows, cols, tile, t, "equal rows and columns")

    read = severity == "error" and until is None
    return replace(rule, fits=(tile, view)) if read else rule


def conv_window(tile: str, view: str, profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """The window of a convolution tile has its extents."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        t, v = types[tile], types[view]
        if not isinstance(t, ir.TileType) or t.conv is None or not isinstance(v, ir.PartitionViewType):
            return False
        return _shortened(types, view, v)

    @forbid(
        "conv-window",
        f"{view} has the extents of a convolution tile",
        profiles,
        source=f"{PAGES}; PTOAS verifier",
        invalid_if=breaks,
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, v = site.types.get(tile), site.types.get(view)
        if isinstance(t, ir.TileType) and isinstance(v, ir.PartitionViewType | ir.TensorViewType) and t.conv:
            yield from _conv_window(view, t, v.dims, view_layout(site, view))

    return rule


def _told(view: str, rows: int | None, cols: int | None, tile: str, t: ir.TileType, allowed: str) -> str:
    return (
        f"{view} is a window of {size(rows)}x{size(cols)}, the valid region of {tile} is "
        f"{t.v_row}x{t.v_col}; allowed: {allowed}"
    )


def _conv_window(view: str, t: ir.TileType, dims: Dims, layout: ir.GlobalLayout | None) -> Iterator[Finding]:
    assert t.conv is not None
    layout = t.conv.layout if layout is None else layout
    if not any(g == layout and c == t.conv.layout for pairs in CONV_LOADED.values() for g, c in pairs):
        return
    if not conv_fits(t, dims, layout):
        want, names = expected_window(t, layout)
        yield (
            view,
            f"{view} has dimensions {'x'.join(size(d) for d in five(dims))}, the convolution tile "
            f"{'x'.join(map(str, t.conv.shape))}; allowed for layout {layout.name.lower()}: "
            f"{'x'.join(size(d) for d in want)} ({names})",
        )
