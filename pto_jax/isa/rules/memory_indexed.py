"""Rules of indexed transfers: what an index picks, and the shapes and types that go with it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ... import ir
from ...errors import with_article
from ...profiles import Profile, ProfileName
from ..changes import DIALECT
from ..declare import AttrMap, Constraint, Finding, RegionRule, Site, Sizes
from .constraints import HARDWARE, HEADERS, bind_vars, element_type, size
from .forbid import Types, edit, forbid, retype
from .require import require

#: The operand of the form that loads indices itself.
VIEW = "index_view"
_SOURCE = f"instruction page; {HEADERS}"


def coalescing(
    attrs: Mapping[str, Any], profile: ProfileName, index: ir.TileType | None, data: ir.TileType | None
) -> ir.Coalesce:
    """What an index picks: as the attribute says, else as the profile's overload without it does.

    On hardware that is rows, as far as the index tile can be a list of rows: one with several rows and
    columns, or with the shape of a data tile of one row, picks elements. Physical shapes decide, which
    are known wherever the types are.

    >>> coalescing({}, "a5", ir.TileType(ir.I32, 1, 8), ir.TileType(ir.F32, 8, 16)).name
    'ROW'
    """
    mode = attrs.get("coalesce")
    if isinstance(mode, ir.Coalesce):
        return mode
    if profile == "cpu_sim" or (index is not None and 1 not in index.shape):
        return ir.Coalesce.ELEM
    if index is None or data is None or data.cols == 1 or index.shape != data.shape:
        return ir.Coalesce.ROW
    return ir.Coalesce.ELEM


def places(picked: ir.Coalesce, shape: Sequence[int]) -> int:
    """How many rows or elements of a table of some shape indices name.

    >>> places(ir.Coalesce.ROW, (5, 32)), places(ir.Coalesce.ELEM, (5, 32))
    (5, 160)
    """
    return prod(shape[:-1] if picked == ir.Coalesce.ROW else shape)


def places_of(
    attrs: Mapping[str, Any], profile: ProfileName, types: Mapping[str, ir.Type], any_mode: bool = False
) -> int | None:
    """How many places of its table an operation's indices may name, so that none is outside of it.

    None without a table, and with a mode that says what becomes of others unless it is ``any_mode``.
    """
    name = next((n for n in ("src", "dst") if isinstance(types.get(n), ir.PartitionViewType)), None)
    said = (v for v in attrs.values() if isinstance(v, ir.GatherOob | ir.ScatterOob))
    if name is None or "indexes" not in types or (not any_mode and any(v.name != "UNDEFINED" for v in said)):
        return None
    table, data, index = types[name], types["dst" if name == "src" else "src"], types.get("indexes")
    assert isinstance(table, ir.PartitionViewType) and isinstance(data, ir.TileType)
    picked = coalescing(attrs, profile, index if isinstance(index, ir.TileType) else None, data)
    return places(picked, [n or 1 for n in table.dims])


def picked(site: Site, data: str) -> ir.Coalesce:
    """What an index picks in an operation whose data tile is called ``data``."""
    return coalescing(site.attrs, site.profile.name, site.tile("indexes"), site.tile(data))


_MODES = ("scatterAtomicOp", "scatterOob", "scatterConflict")


@forbid(
    "coalesce-given",
    "coalesce is given; storing, it may be left out beside no other mode",
    HARDWARE,
    source=DIALECT,
    on_lanes=False,
    since="2026-08",
)
def coalesce_given(site: Site) -> Iterator[Finding]:
    """What an index picks is said: by loads always, by stores that say another mode."""
    said = site.op.attrs
    modes = [key for key in _MODES if key in said]
    stores = site.instruction.operand("dst").kind == "gm"
    if "coalesce" in said or (stores and not modes):
        return
    beside = f" beside {modes[0]}" if modes else ""
    yield None, f"coalesce is missing{beside}", _coalesce(site)


def _coalesce(site: Site) -> str:
    """The attribute as the language of the program writes it."""
    python = site.op.span is not None and site.op.span.python
    return 'coalesce="row" or "elem"' if python else "coalesce = #pto<coalesce row> or elem"


def table_type(data: str, table: str) -> Constraint:
    """The table has the element type of the tile."""

    @forbid(
        "types-equal",
        f"{table} and {data} have one element type",
        source=_SOURCE,
        invalid_if=retype(table, "f16", "f32"),
    )
    def rule(site: Site) -> Iterator[Finding]:
        yield from bind_vars(site)[1]

    return rule


def index_layout(data: str) -> Constraint:
    """How the words of the index tile may be ordered."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["indexes"]
        if not isinstance(t, ir.TileType):
            return False
        boxed = ir.TileType(t.dtype, 16, 32, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR)
        types["indexes"] = boxed.with_valid(t.v_row, t.v_col)
        return profile.name != "cpu_sim" or attrs.get("coalesce") == ir.Coalesce.ROW

    @forbid("index-layout", "indexes are not boxed, and row_major on a2a3", invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        t, profile = site.tile("indexes"), site.profile.name
        if t is None or (profile == "cpu_sim" and picked(site, data) == ir.Coalesce.ELEM):
            return
        row_major = t.blayout == ir.BLayout.ROW_MAJOR or profile != "a2a3"
        if t.boxed or not row_major:
            got = f"{t.blayout.name.lower()} with {t.slayout.name.lower()}"
            expected = "row_major with none_box" if profile == "a2a3" else "none_box"
            yield "indexes", f"indexes are {got}; allowed on {profile}: {expected}"

    return rule


def data_layout(data: str) -> Constraint:
    """How the data tile may be ordered on hardware."""

    def boxed(t: ir.TileType) -> ir.TileType | None:
        whole = t.layout == "ND" and t.rows % 16 == 0
        return replace(t, blayout=ir.BLayout.ROW_MAJOR, slayout=ir.SLayout.ROW_MAJOR) if whole else None

    @forbid(
        "layout", f"{data}: ND or NZ on a2a3, unboxed on a5", ("a2a3", "a5"), invalid_if=edit(data, boxed)
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, profile = site.tile(data), site.profile.name
        if t is None or t.loc == ir.Loc.MAT:
            return
        fits = (
            t.layout == "ND" or (t.layout == "NZ" and t.fractal == 512) if profile == "a2a3" else not t.boxed
        )
        if not fits:
            got = f"{t.blayout.name.lower()} with {t.slayout.name.lower()}, fractal {t.fractal}"
            expected = "ND, or NZ with fractal 512" if profile == "a2a3" else "none_box"
            yield data, f"{data} is {got}; allowed on {profile}: {expected}"

    return rule


@forbid(
    "data-location",
    f"dst in vec, or in mat in NZ order with fractal 512 where {VIEW} gives the indexes",
    invalid_if=edit("dst", lambda t: replace(t, loc=ir.Loc.ACC)),
)
def loaded_place(site: Site) -> Iterator[Finding]:
    """The data tile is in vec; loaded by indices in global memory it is in mat, in NZ order."""
    t, to_mat = site.tile("dst"), VIEW in site.values
    if t is None or (t.loc == ir.Loc.MAT and to_mat and t.layout == "NZ" and t.fractal == 512):
        return
    if to_mat or t.loc != ir.Loc.VEC:
        allowed = "mat in NZ order with fractal 512" if to_mat else "vec"
        got = f"dst is {with_article(t.loc.name.lower())} tile in {t.layout} order"
        yield "dst", f"{got}; allowed: {allowed}"


@forbid("index-view", f"{VIEW} of i32; workspace where an index picks an element", source=DIALECT)
def loaded_indexes(site: Site) -> Iterator[Finding]:
    """Indices in global memory are i32, and picked elements need a workspace of the table's type."""
    if VIEW not in site.values:
        return
    d, pick = element_type(site.types.get(VIEW)), site.attrs.get("coalesce")
    if d is not None and d.name != "i32":
        yield VIEW, f"{VIEW} has element type {d}; allowed: i32"
    if not isinstance(pick, ir.Coalesce):
        yield None, "coalesce is missing", _coalesce(site)
    elif ("workspace" in site.values) != (pick == ir.Coalesce.ELEM):
        got = f"{'a' if 'workspace' in site.values else 'no'} workspace"
        yield None, f"{got} with coalesce {pick.name.lower()}; allowed: one with elem, none with row"


def index_shape(data: str) -> Constraint:
    """One index per row, or one per element; checked again on run-time sizes."""

    def fewer(t: ir.TileType) -> ir.TileType | None:
        return None if not t.v_col or t.v_col < 2 else t.with_valid(t.v_row, t.v_col - 1)

    def broken(sizes: Sizes, types: Mapping[str, ir.TileType]) -> Any:
        (rows, cols), (r, c) = sizes["indexes"], sizes[data]
        elements = (rows == r) & (cols == c)
        row, column = (rows == 1) & (cols == r), (rows == r) & (cols == 1)
        return (elements | row | column) ^ True

    @forbid(
        "index-shape",
        "an index per row in one row or column, or an index per element",
        stage="run-time",
        source=_SOURCE,
        invalid_if=edit("indexes", fewer),
        region=RegionRule("custom", ("indexes", data), broken),
    )
    def rule(site: Site) -> Iterator[Finding]:
        index, shape = site.valid.get("indexes"), site.valid.get(data)
        if index is None or shape is None or None in index or None in shape:
            return
        rows = shape[0]
        lists = [(1, rows)] if site.profile.name == "a2a3" else [(1, rows), (rows, 1)]
        by_row = picked(site, data) == ir.Coalesce.ROW
        legal = lists if by_row else [shape]
        if index not in legal:
            words = " or ".join(f"{size(r)}x{size(c)}" for r, c in legal)
            what = "one index per row" if by_row else "one index per element"
            yield (
                "indexes",
                f"indexes have valid region {size(index[0])}x{size(index[1])}; allowed for {what} of "
                f"{data} ({size(shape[0])}x{size(shape[1])}): {words}",
            )

    return rule


def index_order(data: str) -> Constraint:
    """The indices of rows are the first words of the index tile's storage."""

    @forbid(
        "index-order",
        "a row of a row_major tile, or a column of a col_major one",
        ("cpu_sim", "a5"),
        severity="warning",
        invalid_if=edit(
            "indexes", lambda t: ir.TileType(t.dtype, 16, 32, t.v_row, 1) if t.cols == 1 else None
        ),
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, (rows, cols) = site.tile("indexes"), site.region("indexes")
        if t is None or t.boxed or picked(site, data) != ir.Coalesce.ROW:
            return
        down = rows != 1 and t.cols != 1 and t.blayout == ir.BLayout.ROW_MAJOR
        along = cols != 1 and t.rows != 1 and t.blayout == ir.BLayout.COL_MAJOR
        if down or along:
            yield (
                "indexes",
                f"indexes of {size(rows)}x{size(cols)} in a {t.blayout.name.lower()} tile of "
                f"{t.rows}x{t.cols}: one index per row is read in storage order, beyond the valid region",
            )

    return rule


def table_layout(data: str, table: str) -> Constraint:
    """Which layouts a table has on hardware; an nz table goes with an NZ tile."""

    @forbid("table-layout", "a table of layout nd; nz for NZ tiles on a2a3", HARDWARE)
    def rule(site: Site) -> Iterator[Finding]:
        value, t = site.values.get(table), site.tile(data)
        layout = site.layouts.get(value.name) if value is not None else None
        if layout is None or t is None:
            return
        nz = site.profile.name == "a2a3" and t.layout == "NZ"
        expected = ir.GlobalLayout.NZ if nz else ir.GlobalLayout.ND
        if layout != expected:
            yield (
                table,
                f"{table} has layout {layout.name.lower()}; allowed on {site.profile.name} with {data} in "
                f"{t.layout} order: {expected.name.lower()}",
            )

    return rule


def table_width(data: str, table: str) -> Constraint:
    """Rows of the table are as long as those of the tile."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        view = types[table]
        if not isinstance(view, ir.PartitionViewType) or attrs.get("coalesce") != ir.Coalesce.ROW:
            return False
        types[table] = replace(view, dims=(*view.dims[:-1], (view.dims[-1] or 0) + 1))
        return True

    @forbid(
        "table-width", "rows of the table are as long as the tile's valid rows", ("a5",), invalid_if=breaks
    )
    def rule(site: Site) -> Iterator[Finding]:
        view, cols = site.types.get(table), site.region(data)[1]
        if not isinstance(view, ir.TensorViewType | ir.PartitionViewType | ir.MemRefType) or not view.dims:
            return
        value = site.values.get(table)
        dims = site.shapes.get(value.name, view.dims) if value is not None else view.dims
        width = dims[-1] if dims else None
        if picked(site, data) == ir.Coalesce.ROW and None not in (width, cols) and width != cols:
            yield (
                table,
                f"rows of {table} have {width} elements, the valid region of {data} has {cols} columns; "
                "allowed for one index per row: equal sizes",
            )

    return rule


#: Element types that a store can combine with the table's element, per profile (absent: every one).
ATOMIC: Mapping[ProfileName, Mapping[ir.ScatterAtomicOp, tuple[str, ...]]] = {
    "a2a3": {
        ir.ScatterAtomicOp.ADD: ("i8", "i16", "i32", "f16", "bf16", "f32"),
        ir.ScatterAtomicOp.MAX: (),
        ir.ScatterAtomicOp.MIN: (),
    },
    "a5": {
        ir.ScatterAtomicOp.ADD: ("i32", "u32", "f16", "bf16", "f32"),
        ir.ScatterAtomicOp.MAX: ("i32", "u32", "f32"),
        ir.ScatterAtomicOp.MIN: ("i32", "u32", "f32"),
    },
}


def _maximum(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    d = element_type(types["dst"])
    if d is None or d.name in ATOMIC[profile.name][ir.ScatterAtomicOp.MAX] or attrs.get("scatterConflict"):
        return False
    attrs["scatterAtomicOp"] = ir.ScatterAtomicOp.MAX
    attrs.pop("scatterConflict", None)
    return True


def _combined(site: Site) -> tuple[str, ...] | None:
    """The element types of the atomic operation, None where the profile restricts none."""
    op = site.attrs.get("scatterAtomicOp")
    return ATOMIC[site.profile.name].get(op) if isinstance(op, ir.ScatterAtomicOp) else None


atomic_types = require(
    "atomic-type",
    "dst.dtype in combined",
    HARDWARE,
    let={"combined": _combined},
    why="the types of this atomic operation",
    statement="element types that the profile combines in global memory",
    invalid_if=_maximum,
)


def _last(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["scatterConflict"] = ir.ScatterConflict.LAST
    return attrs.get("scatterAtomicOp", ir.ScatterAtomicOp.NONE) != ir.ScatterAtomicOp.NONE


atomic_conflict = require(
    "atomic-conflict",
    "scatterConflict == DEFAULT",
    when="scatterAtomicOp != NONE",
    source="pto-isa simulator headers (static assertion)",
    invalid_if=_last,
)
