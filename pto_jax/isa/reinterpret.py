"""Handles over the bytes of another tile: other shapes, orders, element types and windows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from ..errors import with_article
from ..ir import F16, F32, INDEX, AddressSpace, BLayout, Loc, MemRefType, ScalarType, SLayout, TileType, dtype
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from . import declare
from .changes import Change, removed
from .rules.constraints import HARDWARE, SIMULATOR, in_python, size, spelled
from .rules.forbid import Types, edit, forbid, retile
from .rules.handles import Shown, custom
from .traits import Alias, Traits

_PAGE, _DIALECT = "PTO ISA page of the instruction", "PTOAS dialect definition and verifier"
_SOURCES = (_PAGE, _DIALECT)
_INDEX = ScalarType(INDEX)
_TILE = TileType(F32, 16, 64)
_Test = Callable[[TileType, TileType], str | None]
_Edit = Callable[[TileType], TileType]
#: A name that those who build operations use.
BITCAST = "bitcast"


def _pair(
    rule: str,
    statement: str,
    test: _Test,
    change: _Edit,
    source: str = _DIALECT,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    fix: declare.Fix | None = None,
) -> declare.Constraint:
    """A rule on a tile and the handle that sees it: ``tile`` and ``result``, or ``src`` and ``dst``."""

    def breaks(types: Types, attrs: declare.AttrMap, profile: Profile) -> bool:
        return edit("result" if "result" in types else "dst", change)(types, attrs, profile)

    @forbid(rule, statement, profiles, source=source, invalid_if=breaks, fix=fix)
    def pair(site: declare.Site) -> Iterator[declare.Finding]:
        src = site.tile("tile" if "tile" in site.types else "src")
        seen = "result" if "result" in site.types else "dst"
        dst = site.tile(seen)
        message = test(src, dst) if src is not None and dst is not None else None
        if message is not None:
            yield seen, message

    return pair


def _one_place(a: TileType, b: TileType) -> str | None:
    if a.loc == b.loc:
        return None
    here, there = b.loc.name.lower(), a.loc.name.lower()
    return (
        f"the result is {with_article(here)} tile, its source {with_article(there)} tile; allowed: one place"
    )


def _equal_bytes(a: TileType, b: TileType) -> str | None:
    if a.bytes == b.bytes:
        return None
    return f"the result has {b.bytes} bytes, its source {a.bytes}; allowed: equally many"


def _both_boxed(a: TileType, b: TileType) -> str | None:
    if a.boxed == b.boxed:
        return None
    return f"the result has layout {b.layout}, its source {a.layout}; allowed: both boxed or neither"


def _other_type(a: TileType, b: TileType) -> str | None:
    return None if a.dtype != b.dtype else f"both have element type {a.dtype}; allowed: two different types"


def _only_type(a: TileType, b: TileType) -> str | None:
    if replace(b, dtype=a.dtype) == a:
        return None
    return f"the result is {b}, its source {a}; allowed: types that differ in the element type only"


def _reshaped(site: declare.Site, operand: str) -> str | None:
    """The instruction that sees the same bytes in another shape, as the program's language writes it."""
    source, result, value = site.tile("tile"), site.tile(operand), site.values.get("tile")
    if source is None or result is None or value is None or source.bytes != result.bytes:
        return None
    if site.op.span is not None and site.op.span.python:
        return f"pto.treshape({value.name}, type=pto.tile_type({in_python(result)}))"
    handle = site.values[operand]
    return f"{handle} = pto.treshape {value} : {spelled(source)} -> {spelled(result)}"


def _not_larger(a: TileType, b: TileType) -> str | None:
    if b.bytes <= a.bytes:
        return None
    return f"the result has {b.bytes} bytes, its source {a.bytes}; allowed: at most as many"


def _numbers_alike(a: TileType, b: TileType) -> str | None:
    if a.dtype.is_float == b.dtype.is_float:
        return None
    return f"element types {a.dtype} and {b.dtype}; allowed on cpu_sim: two floats or two integers"


def _boxes(t: TileType) -> TileType:
    return replace(t, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)


_PLACE = _pair("alias-space", "both lie in one place", _one_place, lambda t: replace(t, loc=Loc.MAT))


# -- windows -----------------------------------------------------------------------------------------


@forbid("window", "a window inside the tile", source=_DIALECT)
def _window_parts(site: declare.Site) -> Iterator[declare.Finding]:
    sizes, offsets = site.attrs.get("sizes"), site.numbers("offsets")
    if not isinstance(sizes, tuple) or len(sizes) != 2 or len(offsets) != 2:
        count = len(sizes) if isinstance(sizes, tuple) else 0
        yield None, f"{len(offsets)} offset(s) and {count} size(s); allowed: two of each"
        return
    t = site.tile("tile")
    for axis, (start, n) in enumerate(zip(offsets, sizes, strict=True)):
        if t is None or not isinstance(n, int):
            continue
        limit, unit = t.shape[axis], ("rows", "columns")[axis]
        if n > limit or (start is not None and not 0 <= start <= limit - n):
            where = f" from {start} on" if start is not None else ""
            yield "tile", f"the window takes {n} {unit}{where} of {limit}; allowed: a window of the tile"


@forbid(
    "window-boxes",
    "whole boxes, and all columns (row_major) or rows (col_major)",
    source=_DIALECT,
    invalid_if=retile("tile", slayout=SLayout.ROW_MAJOR),
)
def _window_boxes(site: declare.Site) -> Iterator[declare.Finding]:
    """A window of a boxed tile consists of whole boxes and keeps the outer order's full extent."""
    t, sizes, offsets = site.tile("tile"), site.attrs.get("sizes"), site.numbers("offsets")
    if t is None or not t.boxed or not isinstance(sizes, tuple) or len(offsets) != 2 or len(sizes) != 2:
        return
    for axis, (start, n) in enumerate(zip(offsets, sizes, strict=True)):
        box, unit = t.box[axis], ("row", "column")[axis]
        if isinstance(n, int) and (n % box or (start is not None and start % box)):
            yield "tile", f"{n} {unit}s from {size(start)} on in boxes of {box}; allowed: whole boxes"
        full = (t.blayout == BLayout.ROW_MAJOR) == (axis == 1)
        if full and (n != t.shape[axis] or start != 0):
            got = f"a part of the {unit}s of a {t.blayout.name.lower()} boxed tile"
            yield "tile", f"{got}; allowed: all {t.shape[axis]} from a constant 0 on"


@forbid("window", "the valid region of dst lies in src from the indices on", source=_PAGE)
def _subview_window(site: declare.Site) -> Iterator[declare.Finding]:
    src, sizes = site.tile("src"), site.region("dst")
    for axis, name in enumerate(("rowIdx", "colIdx")):
        start, n = site.constant(name), sizes[axis]
        limit = src.shape[axis] if src is not None else None
        if start is not None and limit is not None and (start < 0 or start + (n or 0) > limit):
            unit = ("rows", "columns")[axis]
            got = f"the window takes {n} {unit} from {start} on of {limit}"
            yield "src", f"{got}; allowed: a window of src"


def _same_order(a: TileType, b: TileType) -> str | None:
    if (a.dtype, a.blayout, a.slayout) == (b.dtype, b.blayout, b.slayout):
        return None
    return f"dst is {b}, src is {a}; allowed: one element type and one layout"


def _alias(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[declare.Operand, ...],
    constraints: tuple[declare.Constraint, ...],
    shown: tuple[Shown, ...],
    *,
    part: Literal["same", "window"] = "same",
    attributes: tuple[declare.Attribute, ...] = (),
    decisions: tuple[declare.Decision, ...] = (),
    cls: declare.InstructionClass = "sync_config",
    changes: tuple[Change, ...] = (),
) -> declare.Instruction:
    return custom(
        name,
        summary,
        semantics,
        operands,
        shown,
        attributes,
        constraints,
        decisions,
        Traits(alias=Alias(operands[0].name, operands[1].name, part=part)),
        sources=_SOURCES,
        cls=cls,
        changes=changes,
    )


def _tile(name: str, *, out: bool = False) -> declare.Operand:
    return declare.Operand(name, "out" if out else "in")


def _index(name: str, *, optional: bool = False) -> declare.Operand:
    return declare.Operand(name, "in", "scalar", optional=optional)


_COLUMN = TileType(F32, 16, 1, blayout=BLayout.COL_MAJOR)
_LOCAL = MemRefType((16, 16), F16, AddressSpace.VEC)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (
    _alias(
        "treshape",
        "See the bytes of a tile through another shape, order or element type.",
        "Byte k of result is byte k of tile; nothing moves, and writes through either handle are seen "
        "through the other. The valid region of result is that of its type.",
        (_tile("result", out=True), _tile("tile")),
        (
            _PLACE,
            _pair(
                "alias-size",
                "both have equally many bytes",
                _equal_bytes,
                lambda t: replace(t, rows=2 * t.rows, v_row=2 * t.rows),
            ),
            _pair("alias-boxes", "both are boxed, or neither is", _both_boxed, _boxes),
            _pair(
                "alias-types",
                "two float types or two integer types",
                _numbers_alike,
                lambda t: t.with_dtype(dtype("i32" if t.dtype.is_float else "f32")),
                "public CPU simulator",
                SIMULATOR,
            ),
        ),
        (
            Shown({"tile": _COLUMN, "result": TileType(F32, 1, 16)}),
            Shown({"tile": _TILE, "result": TileType(F32, 32, 32)}),
        ),
        cls="layout",
        decisions=(
            declare.Decision(
                "A page states that hardware keeps the valid region only; is the rest of the bytes seen?",
                "All bytes are seen.",
                "pto-isa headers (the address is bound anew)",
            ),
        ),
    ),
    _alias(
        BITCAST,
        "See the elements of a tile as another type.",
        "Byte k of result is byte k of tile; nothing moves.",
        (_tile("result", out=True), _tile("tile")),
        (
            _pair(
                "types-differ",
                "two different element types",
                _other_type,
                lambda t: t.with_dtype(dtype("f32")),
            ),
            _pair(
                "types-equal",
                "types that differ in the element type only",
                _only_type,
                lambda t: replace(t, cols=t.cols // 2, v_col=t.cols // 2),
                fix=_reshaped,
            ),
            _pair(
                "alias-size",
                "the result has at most the bytes of its source",
                _not_larger,
                lambda t: t.with_dtype(dtype("i64")),
            ),
        ),
        (
            Shown({"tile": _TILE, "result": _TILE.with_dtype(dtype("i32"))}),
            Shown({"tile": _TILE, "result": _TILE.with_dtype(F16)}),
        ),
    ),
    _alias(
        "subset",
        "Window of a tile.",
        "result(r, c) is tile(offsets[0] + r, offsets[1] + c): the same element, in the order of tile, whose "
        "pitch it keeps.",
        (_tile("result", out=True), _tile("tile"), _index("offsets")),
        (_window_parts, _window_boxes),
        (
            Shown(
                {"tile": _TILE, "offsets": _INDEX, "result": replace(_TILE, cols=32, v_col=32)},
                attrs={"sizes": (16, 32)},
                constants={"offsets": (0, 32)},
                grouped=True,
            ),
        ),
        part="window",
        attributes=(declare.Attribute("sizes", tuple, None, "rows and columns of the window"),),
        decisions=(
            declare.Decision(
                "What is the valid region of the window?",
                "Its sizes where the source is fully valid, else the part of the source's valid region that "
                "the window covers.",
                _DIALECT,
            ),
        ),
    ),
    _alias(
        "tsubview",
        "Make a tile a window of the storage of another.",
        "dst(i, j) is src(rowIdx + i, colIdx + j): dst begins at that element and uses its own order.",
        (_tile("dst", out=True), _tile("src"), _index("rowIdx"), _index("colIdx")),
        (
            _PLACE,
            _subview_window,
            _pair("alias-order", "one element type and one layout", _same_order, _boxes, _PAGE, HARDWARE),
        ),
        (
            Shown(
                {"src": _TILE, "dst": _TILE.with_valid(8, 32), "rowIdx": _INDEX, "colIdx": _INDEX},
                constants={"rowIdx": (8,), "colIdx": (32,)},
            ),
        ),
        part="window",
        decisions=(
            declare.Decision(
                "A window of a boxed tile: where does it begin?",
                "rowIdx * cols + colIdx elements into src for a row_major tile, rowIdx + colIdx * rows for a "
                "col_major one, whatever the boxes.",
                "public CPU simulator, recorded vectors",
            ),
        ),
    ),
    _alias(
        "bind_tile",
        "Give a local memref a layout and a valid region.",
        "result denotes the bytes of source as the tile that config describes.",
        (
            declare.Operand("result", "out"),
            declare.Operand("source", "in"),
            _index("valid_row", optional=True),
            _index("valid_col", optional=True),
        ),
        (),
        (
            Shown({"source": _LOCAL, "result": _LOCAL}, grouped=True),
            Shown(
                {"source": _LOCAL, "result": _LOCAL, "valid_row": _INDEX, "valid_col": _INDEX},
                constants={"valid_row": (8,), "valid_col": (16,)},
                grouped=True,
            ),
        ),
        attributes=(declare.Attribute("config", str, None, "layout of the tile"),),
        changes=(removed("alloc_tile, or the tile itself; it is still read"),),
    ),
)
