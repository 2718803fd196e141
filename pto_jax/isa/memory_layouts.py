"""Memory and data movement: layouts of global memory, and the prefetch hint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from ..ir.dtypes import dtype
from ..ir.languages import Language
from ..ir.types import (
    BLayout,
    GlobalLayout,
    LayoutName,
    Loc,
    PartitionViewType,
    Pipe,
    SLayout,
    TensorViewType,
    TileType,
)
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from .assembly import Assembly
from .common import PAGES, SIMULATOR_VALUES
from .declare import Attribute, AttrMap, Breaker, Constraint, Decision, Finding, Instruction, Operand, Site
from .memory_convolution import CONV_LOADED, CONV_STORED, Dims, conv_fits, expected_window, five, times
from .rules.constraints import HEADERS, element_type, place, size, type_row
from .rules.forbid import Types, assign, edit, forbid, retype
from .rules.typesets import BYTE_FLOATS, NIBBLE_FLOATS, STANDARD, table
from .samples.operations import Sample

_G = GlobalLayout
MX_A = (_G.MX_A_ZZ, _G.MX_A_ND, _G.MX_A_DN)
MX_B = (_G.MX_B_NN, _G.MX_B_ND, _G.MX_B_DN)
MX = (*MX_A, *MX_B)
_ND, _DN, _NZ = (_G.ND, "ND"), (_G.DN, "DN"), (_G.NZ, "NZ")
_Pairs = tuple[tuple[GlobalLayout, LayoutName], ...]
_SAME: _Pairs = (_ND, _DN, _NZ)  # type: ignore[assignment]
_SCALES: _Pairs = (*((g, "ZZ") for g in MX_A), *((g, "NN") for g in MX_B))
_IMAGES = (_G.NC1HWC0, _G.NDC1HWC0)
#: Layouts of a window and of a tile that a transfer connects, per place of the tile.
PAIRS: dict[str, dict[str, dict[Loc, _Pairs]]] = {
    "tload": {
        "a2a3": {Loc.VEC: _SAME, Loc.MAT: (*_SAME, (_G.ND, "NZ"), (_G.DN, "ZN"))},
        "a5": {
            Loc.VEC: _SAME,
            Loc.MAT: (*_SAME, (_G.ND, "NZ"), (_G.DN, "NZ"), (_G.DN, "ZN"), *_SCALES),
        },
    },
    "tstore": {
        "a2a3": {
            Loc.VEC: _SAME,
            Loc.MAT: _SAME,
            Loc.ACC: tuple((g, "NZ") for g in (_G.ND, _G.NZ, *_IMAGES)),
        },
        "a5": {
            Loc.VEC: _SAME,
            Loc.ACC: tuple((g, "NZ") for g in (_G.ND, _G.DN, _G.NZ, _G.NHWC, _G.NCHW, _G.NCDHW)),
        },
    },
}
_CONV_PAIRS = {"tload": CONV_LOADED, "tstore": CONV_STORED}
#: Layouts of windows that the simulator transfers, to and from tiles of any layout.
SIMULATED_LAYOUTS = {
    "tload": (_G.ND, _G.DN, _G.NZ, *MX),
    "tstore": (_G.ND, _G.DN, _G.NZ, *_IMAGES),
}


#: How a window's elements are counted, after its dimensions d0..d4 (missing leading ones are 1).
LAYOUT_TEXT = (
    "Element (r, c) of a window with dimensions d0..d4 (missing leading ones are 1) has the indices: nd "
    "(r/(d1 d2 d3), r/(d2 d3) % d1, r/d3 % d2, r % d3, c); dn (c/(d1 d2 d4), c/(d2 d4) % d1, c/d4 % d2, r, "
    "c % d4); nz, q = c/d4: (q/d1, q % d1, r/d3, r % d3, c % d4); mx_a_zz (0, r/16, c/2, r%16, c%2); "
    "mx_a_nd (0, 0, r, c/2, c%2); mx_a_dn (0, 0, c/2, r, c%2); mx_b_nn (0, c/16, r/2, c%16, r%2); mx_b_nd "
    "(0, 0, r/2, c, r%2); mx_b_dn (0, 0, c, r/2, r%2); nc1hwc0 (r/(d2 d3), c/d4, r/d3 % d2, r % d3, c % d4); "
    "ndc1hwc0 (r/(d3 d4), c/(d2 C0), c/C0 % d2, r/d4 % d3, r % d4) and c % C0 elements further; nhwc as nd; "
    "nchw (0, r/(d3 d4), c, r/d4 % d3, r % d4); ncdhw (r/(d2 d3 d4), c, r/(d3 d4) % d2, r/d4 % d3, r % d4)."
)
LAYOUT_DECISIONS = (
    Decision(
        "Must a window's layout be known?",
        "No: a view without one is taken as nd by values, and rules on pairs of layouts do not apply.",
        "PTOAS (layouts are inferred)",
    ),
    Decision(
        "Do scales load into scaleleft and scaleright tiles directly?",
        "On cpu_sim, as recorded; hardware loads mat tiles.",
        f"{SIMULATOR_VALUES}; {HEADERS}",
    ),
    Decision(
        "Which layouts may meet in a tile of a single row or column?",
        "nd and dn both: the bytes are the same.",
        HEADERS,
    ),
)


def view_layout(site: Site, view: str) -> GlobalLayout | None:
    """The layout that the operation or the view's definition gives, None where neither does."""
    given, value = site.attrs.get("layout"), site.values.get(view)
    if isinstance(given, GlobalLayout):
        return given
    return None if value is None else site.layouts.get(value.name)


def window_shape(dims: Dims, layout: GlobalLayout | None) -> tuple[int | None, int | None]:
    """Rows and columns that a window has as a tile.

    >>> window_shape((1, 2, 3, 16, 8), GlobalLayout.NZ)
    (48, 16)
    """
    a, b, c, d, e = five(dims)
    match layout:
        case _G.NZ:
            return times(c, d), times(a, b, e)
        case _G.MX_A_ZZ:
            return times(b, d), times(c, e)
        case _G.MX_B_NN:
            return times(c, e), times(b, d)
        case _G.MX_A_ND:
            return c, times(d, e)
        case _G.MX_A_DN:
            return d, times(c, e)
        case _G.MX_B_ND:
            return times(c, e), d
        case _G.MX_B_DN:
            return times(d, e), c
        case _G.NC1HWC0:
            return times(a, c, d), times(b, e)
        case _G.NDC1HWC0:
            return times(a, d, e), None
        case _G.NCHW:
            return times(a, b, d, e), c
        case _G.NCDHW:
            return times(a, c, d, e), b
        case _G.DN if len(dims) > 2:
            return d, times(a, b, c, e)
    return times(a, b, c, d), e


def layout_pair(tile: str, view: str) -> Constraint:
    """The layouts of window and tile are a pair the profile transfers."""
    wrong = assign(layout=GlobalLayout.HIF4_A_ZZ)

    @forbid("layouts", f"layouts of {view} and {tile} that the profile connects", invalid_if=wrong)
    def rule(site: Site) -> Iterator[Finding]:
        t, layout = site.tile(tile), view_layout(site, view)
        if t is not None and t.conv is not None:
            message = _conv_pair(site, tile, t, view, t.conv.layout if layout is None else layout)
        elif t is not None and layout is not None:
            message = _tile_pair(site, tile, t, view, layout)
        else:
            return
        if message:
            yield view, message

    return rule


def _conv_pair(site: Site, tile: str, t: TileType, view: str, layout: GlobalLayout) -> str:
    """What is wrong with the layouts of a window and a convolution tile."""
    assert t.conv is not None
    known = _CONV_PAIRS[site.instruction.name][site.profile.name]
    if (layout, t.conv.layout) in known:
        return ""
    words = ", ".join(f"{g.name.lower()} and {c.name.lower()}" for g, c in known) or "none"
    return (
        f"{view} has layout {layout.name.lower()}, {tile} is a convolution tile of layout "
        f"{t.conv.layout.name.lower()}; allowed on {site.profile.name} (window and tile): {words}"
    )


def _tile_pair(site: Site, tile: str, t: TileType, view: str, layout: GlobalLayout) -> str:
    # Stores with a row of parameters connect the layouts that plain stores do.
    name, profile = site.instruction.name.removesuffix("_fp"), site.profile.name
    found = f"{view} has layout {layout.name.lower()}"
    if profile == "cpu_sim":
        simulated = SIMULATED_LAYOUTS[name]
        words = ", ".join(g.name.lower() for g in simulated)
        return "" if layout in simulated else f"{found}; allowed on {profile}: {words}"
    pairs = PAIRS[name][profile].get(t.loc, ())
    if (layout, t.layout) in pairs or _one_line(t, layout):
        return ""
    words = ", ".join(f"{g.name.lower()} and {n}" for g, n in pairs) or "none"
    place = f"{tile} has {t.layout} in {t.loc.name.lower()}"
    return f"{found}, {place}; allowed on {profile} (window and tile): {words}"


def _one_line(t: TileType, layout: GlobalLayout) -> bool:
    """One row or column is the same bytes in either order."""
    return not t.boxed and 1 in (*t.valid, *t.shape) and layout in (_G.ND, _G.DN)


def scale_types(tile: str) -> Constraint:
    """Layouts of block scales hold block scales, in boxes of 32 bytes."""
    bytewise = edit(tile, lambda t: t.with_dtype(dtype("i8")) if t.fractal == 32 else None)

    @forbid("scales", "MX layouts: f8e8m0 with fractal 32", ("a5",), invalid_if=bytewise)
    def rule(site: Site) -> Iterator[Finding]:
        t, layout = site.tile(tile), view_layout(site, "src")
        if t is None or layout is None or layout not in MX:
            return
        if t.dtype.name != "f8e8m0" or t.fractal != 32:
            yield (
                tile,
                f"{tile} has element type {t.dtype} and fractal {t.fractal}; allowed for layout "
                f"{layout.name.lower()} on {site.profile.name}: f8e8m0 and 32",
            )

    return rule


def other_size(view: str, profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Breaker:
    """The elements of a view have another size, on some profiles."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        d = element_type(types[view])
        other = "f32" if d is None or d.storage_bits != 32 else "f16"
        return profile.name in profiles and retype(view, other)(types, attrs, profile)

    return breaks


def same_size(tile: str, view: str) -> Constraint:
    """Elements of tile and window have one size."""

    @forbid("element-size", f"elements of {tile} and {view} have one size", invalid_if=other_size(view))
    def rule(site: Site) -> Iterator[Finding]:
        t, d = site.tile(tile), element_type(site.types.get(view))
        if t is not None and d is not None and t.dtype.storage_bits != d.storage_bits:
            yield view, f"{view} has element type {d}, {tile} has {t.dtype}; allowed: elements of one size"

    return rule


def _wide_in_boxes(t: TileType) -> TileType | None:
    wide = t.dtype.bits == 64
    return replace(t, slayout=SLayout.ROW_MAJOR, blayout=BLayout.COL_MAJOR) if wide else None


def wide_integers(tile: str) -> Constraint:
    """64-bit integers keep their layout on A2/A3."""

    @forbid("wide-layout", "64-bit tiles are not boxed", ("a2a3",), invalid_if=edit(tile, _wide_in_boxes))
    def rule(site: Site) -> Iterator[Finding]:
        t = site.tile(tile)
        if t is not None and t.dtype.bits == 64 and t.boxed:
            yield tile, f"{tile} has {t.dtype} in layout {t.layout}; allowed on a2a3: none_box"

    return rule


def window_fits(
    tile: str,
    view: str,
    severity: Literal["error", "warning"] = "error",
    since: Language | None = None,
    until: Language | None = None,
) -> Constraint:
    """Where sizes are static the window has the shape of the tile's valid region.

    What is loaded may be the first rows and columns of a larger window, and windows of block scales may be
    larger than the valid region, which need not be whole blocks.
    """

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        v = types[view]
        if not isinstance(v, PartitionViewType):
            return False
        axis = next((i for i, d in enumerate(v.dims) if d is not None and d > 1), None)
        if axis is None:
            return False
        types[view] = replace(v, dims=(*v.dims[:axis], (v.dims[axis] or 0) - 1, *v.dims[axis + 1 :]))
        return True

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
        if not isinstance(t, TileType) or not isinstance(v, PartitionViewType | TensorViewType):
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

    return rule


def conv_window(tile: str, view: str, profiles: tuple[ProfileName, ...] = PROFILE_NAMES) -> Constraint:
    """The window of a convolution tile has its extents."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        t, v = types[tile], types[view]
        if not isinstance(t, TileType) or t.conv is None or not isinstance(v, PartitionViewType):
            return False
        axis = next((i for i, d in enumerate(v.dims) if d is not None and d > 1), None)
        if axis is None:
            return False
        types[view] = replace(v, dims=(*v.dims[:axis], (v.dims[axis] or 0) - 1, *v.dims[axis + 1 :]))
        return True

    @forbid(
        "conv-window",
        f"{view} has the extents of a convolution tile",
        profiles,
        source=f"{PAGES}; PTOAS verifier",
        invalid_if=breaks,
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, v = site.types.get(tile), site.types.get(view)
        if isinstance(t, TileType) and isinstance(v, PartitionViewType | TensorViewType) and t.conv:
            yield from _conv_window(view, t, v.dims, view_layout(site, view))

    return rule


def _told(view: str, rows: int | None, cols: int | None, tile: str, t: TileType, allowed: str) -> str:
    return (
        f"{view} is a window of {size(rows)}x{size(cols)}, the valid region of {tile} is "
        f"{t.v_row}x{t.v_col}; allowed: {allowed}"
    )


def _conv_window(view: str, t: TileType, dims: Dims, layout: GlobalLayout | None) -> Iterator[Finding]:
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


_PREFETCH = (
    Operand("dst", "out", note="scratch tile; programs may not rely on its contents"),
    Operand("src", "in", "gm", None),
)


def _prefetched(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        cols = 2 * 256 // d.storage_bits
        t = TileType(d, 4, cols, v_col=cols - 1 if i % 2 else cols, loc=Loc.MAT if i % 3 == 2 else Loc.VEC)
        yield Sample(instruction, {"dst": t, "src": PartitionViewType((5, cols), d)}, ("src",))


_PREFETCHED = table(STANDARD, STANDARD, (*STANDARD, *BYTE_FLOATS, *NIBBLE_FLOATS))
TPREFETCH = Instruction(
    "tprefetch",
    "memory",
    "Hint that a window of global memory will be read, with a tile for the data.",
    "a2a3 and a5: no effect on values. cpu_sim: element (r * cols + c) of the stored dst, cols its physical "
    "columns, becomes element (r * cols + c) of the buffer from the start of src on, for r, c in the valid "
    "region of dst; shape, strides and layout of src and the layout of dst are not consulted, and what lies "
    "beyond the buffer leaves dst as it is.",
    _PREFETCH,
    _PREFETCHED,
    ("T",),
    (
        Attribute("layout", GlobalLayout, None, "layout of the view; no effect"),
        Attribute("inferred_layout", bool, None, "mark of the assembler", ("pto.inferred_layout",)),
    ),
    (
        type_row(_PREFETCH, ("T",), _PREFETCHED),
        place((_PREFETCH[0],), (Loc.VEC, Loc.MAT), ("cpu_sim", "a2a3", "a5")),
        same_size("dst", "src"),
    ),
    (("src",),),
    "dst",
    Pipe.MTE2,
    decisions=(
        Decision(
            "The page says a full load on cpu_sim; its code copies linearly. What does the tile hold?",
            "On cpu_sim what was recorded, the linear copy.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "What does the tile hold on hardware, where rows are packed and may overwrite each other?",
            "What it held before: it is scratch, and its contents are not defined.",
            f"{PAGES}; {HEADERS}",
        ),
    ),
    sources=("page tprefetch", HEADERS, SIMULATOR_VALUES),
    sampler=_prefetched,
    lanes="open",
    assembly=Assembly(indexed=("src",)),
)

INSTRUCTIONS: tuple[Instruction, ...] = (TPREFETCH,)
