"""Tiles in several buffers that a program uses in turn, and windows with a valid region.

A window keeps the element order of the whole tile.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..ir import (
    F16,
    F32,
    I64,
    INDEX,
    BLayout,
    Compact,
    Loc,
    MultiTileType,
    OpaqueType,
    ScalarType,
    SLayout,
    TileType,
    dtype,
)
from ..profiles import Profile
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import handles, tile_legality
from .rules.constraints import size
from .rules.forbid import Types, forbid, give, retile, retype
from .rules.handles import Shown, custom, of_class
from .rules.require import require
from .traits import Alias, Placement, Traits

_DIALECT = "PTOAS dialect definition and verifier (August 2026)"
_SLOT = TileType(F16, 16, 16)
_MULTI = MultiTileType(_SLOT, 2)
_INDEX = ScalarType(INDEX)
#: What the assembler keeps for its own planning.
RESERVED = "pto.multi_buffer_addrs"
_AXES = (("valid_row", "v_row", 0), ("valid_col", "v_col", 1))
#: Places whose tiles begin at multiples of 512 bytes; those of the others begin at multiples of 32.
_CUBE = frozenset({Loc.LEFT, Loc.RIGHT, Loc.ACC})


def slot_bytes(t: TileType) -> int:
    """How many bytes lie between the beginnings of two slots.

    >>> slot_bytes(TileType(F16, 1, 24)), slot_bytes(TileType(F16, 1, 24, loc=Loc.LEFT))
    (64, 512)
    """
    unit = alignment(t)
    return -(-t.bytes // unit) * unit


def alignment(t: TileType) -> int:
    """What addresses of slots are multiples of."""
    return 512 if t.loc in _CUBE else 32


def _slot(site: Site, name: str) -> MultiTileType | None:
    t = site.types.get(name)
    return t if isinstance(t, MultiTileType) else None


_forbid = partial(forbid, source=_DIALECT)


def _kind(name: str) -> Constraint:
    statement, other = f"{name} is a multi tile", OpaqueType("pipe")
    words = "!pto.multi_tile_buf<...>"
    return of_class(f"{name}-handle", statement, name, MultiTileType, words, other, _DIALECT)


@_forbid(
    "slot-type",
    "slots of whole bytes without padding",
    invalid_if=give("result", MultiTileType(_SLOT.with_dtype(dtype("i4")), 2)),
)
def _slots(site: Site) -> Iterator[Finding]:
    """Slots are tiles that lie side by side, as their addresses say."""
    t = _slot(site, "result")
    if t is None:
        return
    d = t.slot.dtype
    if d.bits < 8 or (d.is_float and d.bits < 16):
        yield "result", f"slots of {d}; allowed: element types of 8 bits and more that are no small floats"
    if t.slot.compact == Compact.ROW_PLUS_ONE:
        yield "result", "slots with compact row_plus_one; allowed: null, normal, row_aligned_padding"
    for finding in tile_legality.check_type(t.slot, site.profile):
        if finding.severity == "error":
            yield "result", f"slots of {t.slot}: {finding.message}"


@_forbid(
    "reserved-attribute",
    f"no {RESERVED}",
    invalid_if=lambda types, attrs, profile: attrs.update({RESERVED: (0, 512)}) is None,
)
def _unplanned(site: Site) -> Iterator[Finding]:
    if RESERVED in site.attrs:
        yield None, f"the attribute {RESERVED}, which a memory planner sets; allowed: addr = %address"


@_forbid("address-aligned", "slots begin at multiples of 32 bytes (512 for the cube core)")
def _address(site: Site) -> Iterator[Finding]:
    t, at = _slot(site, "result"), site.constant("addr")
    if t is None or at is None:
        return
    if at < 0 or at % alignment(t.slot):
        yield "addr", f"address {at}; allowed: a multiple of {alignment(t.slot)} bytes, 0 or more"
    end, capacity = at + t.count * slot_bytes(t.slot), site.profile.capacity[t.slot.loc]
    if end > capacity:
        place = t.slot.loc.name.lower()
        yield "addr", f"the slots cover bytes [{at}, {end}); allowed in {place}: [0, {capacity})"


def _open(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    types["result"] = MultiTileType(replace(_SLOT, v_row=None), 2)
    return "valid_row" not in types


@_forbid("valid-operands", "valid_row and valid_col exactly where the slots say ?", invalid_if=_open)
def _valid(site: Site) -> Iterator[Finding]:
    t = _slot(site, "result")
    for operand, key, axis in _AXES if t is not None else ():
        assert t is not None
        has_operand, shown = operand in site.values, t.slot.valid[axis]
        if has_operand == (shown is not None):
            got = "is given" if has_operand else "is not given"
            yield operand, f"{operand} {got} and the slots have {key}={size(shown)}; allowed: with ?"
        number = site.constant(operand)
        if number is not None and not 0 <= number <= t.slot.shape[axis]:
            yield operand, f"{operand} = {number}; allowed: 0 to {t.slot.shape[axis]}"


_number = require(
    "slot",
    "0 <= slot.value <= last",
    let={"last": lambda site: None if (t := _slot(site, "tiles")) is None else t.count - 1},
    statement="a slot of the multi tile",
    source=_DIALECT,
)


@_forbid("types-equal", "the type of the slots", invalid_if=give("result", _SLOT.with_dtype(dtype("i16"))))
def _slot_type(site: Site) -> Iterator[Finding]:
    t, result = _slot(site, "tiles"), site.tile("result")
    if t is not None and result is not None and result != t.slot:
        yield "result", f"the result is {result}; allowed: {t.slot}, the type of the slots"


_PARTS = ("addr", "valid_row", "valid_col")

INSTRUCTIONS: tuple[Instruction, ...] = (
    handles.custom(
        "alloc_multi_tile",
        "Declare a tile in several buffers.",
        "A handle to count slots of one type, side by side from addr on or in separate storage. Contents "
        "are undefined until written, and stay from one trip of a loop to the next.",
        (
            Operand(
                "addr", "in", "scalar", optional=True, note="byte address of slot 0", type=ScalarType(I64)
            ),
            Operand("valid_row", "in", "scalar", optional=True, note="exactly with v_row=?"),
            Operand("valid_col", "in", "scalar", optional=True, note="exactly with v_col=?"),
            Operand("result", "out", "handle"),
        ),
        (
            handles.Shown({"result": _MULTI}, grouped=True),
            handles.Shown(
                {
                    "addr": ScalarType(I64),
                    "valid_row": _INDEX,
                    "valid_col": _INDEX,
                    "result": MultiTileType(_SLOT.with_valid(None, None), 4),
                },
                constants={"addr": (0x1000,), "valid_row": (8,), "valid_col": (16,)},
                grouped=True,
            ),
        ),
        forms=tuple(
            tuple(p for i, p in enumerate(_PARTS) if mask & (1 << i)) for mask in range(1 << len(_PARTS))
        ),
        constraints=(_kind("result"), _slots, _valid, _address, _unplanned),
        decisions=(
            Decision(
                "Where does slot k begin?",
                "At addr + k times the bytes of a slot, rounded up to 32 (512 for left, right and acc).",
                _DIALECT,
            ),
        ),
        traits=Traits(placement=Placement("result", "addr")),
        sources=(_DIALECT,),
    ),
    handles.custom(
        "multi_tile_get",
        "One slot of a tile in several buffers.",
        "result denotes the bytes of slot number slot, which may be known at run time only.",
        (
            Operand("result", "out"),
            Operand("tiles", "in", "handle"),
            Operand("slot", "in", "scalar", note="0 to count - 1"),
        ),
        (handles.Shown({"tiles": _MULTI, "slot": _INDEX, "result": _SLOT}, constants={"slot": (1,)}),),
        constraints=(_kind("tiles"), _slot_type, _number),
        traits=Traits(alias=Alias("result", "tiles", part="window")),
        sources=(_DIALECT,),
    ),
)


#: A name that those who look at whole functions use.
SUBVIEW = "subview"


_TILE = TileType(F32, 16, 64)
_BOXED = TileType(F32, 32, 32, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
_SUBVIEW_AXES = (("row", "valid_row", "v_row"), ("column", "valid_col", "v_col"))


def _sizes(site: Site) -> tuple[int, ...]:
    sizes = site.attrs.get("sizes")
    return tuple(n for n in sizes if isinstance(n, int)) if isinstance(sizes, tuple) else ()


def _window(site: Site) -> Iterator[tuple[int | None, int, str]]:
    """Start, size and unit of each axis, where the operation gives two offsets and two sizes."""
    sizes, offsets = _sizes(site), site.numbers("offsets")
    if len(sizes) == len(offsets) == 2:
        yield from zip(offsets, sizes, ("row", "column"), strict=True)


@_forbid("window", "two offsets of 0 or more and two sizes of 1 or more")
def _parts(site: Site) -> Iterator[Finding]:
    sizes, offsets = _sizes(site), site.numbers("offsets")
    if len(sizes) != 2 or len(offsets) != 2:
        yield None, f"{len(offsets)} offset(s) and {len(sizes)} size(s); allowed: two of each"
    for start, n, unit in _window(site):
        if n <= 0:
            yield None, f"{n} {unit}s; allowed: 1 or more"
        if start is not None and start < 0:
            yield "offsets", f"{unit} offset {start}; allowed: 0 or more"


@_forbid("window-inside", "a window inside the tile", severity="warning")
def _inside(site: Site) -> Iterator[Finding]:
    """A window beside the tile has elements of other tiles: it is legal text, and an error to execute."""
    t = site.tile("tile")
    for limit, (start, n, unit) in zip(t.shape if t is not None else (), _window(site), strict=False):
        if n > limit or (start is not None and start > limit - n):
            where = f" from {start} on" if start is not None else ""
            yield "tile", f"{n} {unit}s{where} of {limit}, which is an error when executed"


def _break_boxes(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    tile = types["tile"]
    if not isinstance(tile, TileType) or tile.boxed:
        return False
    attrs["sizes"] = (4, 32)
    boxed = retile("tile", slayout=SLayout.COL_MAJOR)(types, attrs, profile)
    return retile("result", slayout=SLayout.COL_MAJOR, rows=4, v_row=4)(types, attrs, profile) and boxed


@_forbid("window-boxes", "windows of boxed tiles consist of whole boxes", invalid_if=_break_boxes)
def _boxes(site: Site) -> Iterator[Finding]:
    t = site.tile("tile")
    boxes = t.box if t is not None and t.boxed else ()
    for box, (start, n, unit) in zip(boxes, _window(site), strict=False):
        if n % box or (start is not None and start % box):
            yield "tile", f"{n} {unit}s from {size(start)} on in boxes of {box}; allowed: whole boxes"


@_forbid(
    "types-equal",
    "the result has the sizes given, and otherwise its source's type",
    invalid_if=retype("result", "i32"),
)
def _types_agree(site: Site) -> Iterator[Finding]:
    t, result, sizes = site.tile("tile"), site.tile("result"), _sizes(site)
    if t is None or result is None or len(sizes) != 2:
        return
    expected = replace(t, rows=sizes[0], cols=sizes[1], v_row=result.v_row, v_col=result.v_col)
    if result != expected:
        yield (
            "result",
            f"the result is {result}, its source {t}; allowed: {sizes[0]}x{sizes[1]} and otherwise the "
            "source's place, element type and layout",
        )


@_forbid(
    "valid-operands",
    "valid sizes from 0 to the window's, ? exactly where an operand gives them at run time",
    invalid_if=retile("result", v_row=None),
)
def _subview_valid(site: Site) -> Iterator[Finding]:
    result, sizes = site.tile("result"), _sizes(site)
    if result is None or len(sizes) != 2:
        return
    for n, (unit, operand, key) in zip(sizes, _SUBVIEW_AXES, strict=True):
        shown: int | None = getattr(result, key)
        has_operand, number = operand in site.values, site.constant(operand)
        if number is not None and not 0 <= number <= n:
            yield operand, f"{operand} = {number}; allowed: 0 to {n}"
        elif has_operand and shown != number:
            yield operand, f"{operand} is {size(number)}, the type says {key}={size(shown)}; allowed: equal"
        elif not has_operand and shown is None:
            yield "result", f"the type says {key}=? without operands; allowed: valid [%rows, %cols]"
        elif shown is not None and not 0 <= shown <= n:
            yield "result", f"{key}={shown} of {n} {unit}s; allowed: 0 to {n}"


SUBVIEWS_INSTRUCTIONS: tuple[Instruction, ...] = (
    custom(
        SUBVIEW,
        "Window of a tile, with a separate valid region.",
        "result(r, c) is tile(offsets[0] + r, offsets[1] + c): the same element, in the order of tile, whose "
        "pitch it keeps. The valid region is valid_row x valid_col, else that of the written type, else the "
        "sizes; it does not depend on the valid region of tile.",
        (
            Operand("result", "out"),
            Operand("tile", "in"),
            Operand("offsets", "in", "scalar", note="row and column"),
            Operand("valid_row", "in", "scalar", optional=True, note="valid rows"),
            Operand("valid_col", "in", "scalar", optional=True, note="valid columns"),
        ),
        (
            Shown(
                {"tile": _TILE, "offsets": _INDEX, "result": replace(_TILE, cols=32, v_col=32)},
                attrs={"sizes": (16, 32)},
                constants={"offsets": (0, 32)},
                grouped=True,
            ),
            Shown(
                {
                    "tile": _BOXED.with_valid(None, None),
                    "offsets": _INDEX,
                    "valid_row": _INDEX,
                    "valid_col": _INDEX,
                    "result": replace(_BOXED, rows=16, cols=16, v_row=5, v_col=16),
                },
                attrs={"sizes": (16, 16)},
                constants={"offsets": (16, 8), "valid_row": (5,), "valid_col": (16,)},
                grouped=True,
            ),
        ),
        (Attribute("sizes", tuple, None, "rows and columns of the window"),),
        (_parts, _inside, _boxes, _types_agree, _subview_valid),
        decisions=(
            Decision(
                "What are the physical rows and columns of the window, for instructions that count elements "
                "of the storage?",
                "Those of tile, whose pitch the window has; those of the window where the pitches are equal.",
                "PTOAS (the handle that a window is lowered to)",
            ),
            Decision(
                "A window that leaves the tile: is it legal?",
                "Yes, with a warning; executing it is an error, as for windows of views.",
                "PTOAS checks no bounds; the engine's rule for run-time windows",
            ),
        ),
        sources=("PTO ISA page of the instruction", _DIALECT),
        traits=Traits(alias=Alias("result", "tile", part="window")),
    ),
)

INSTRUCTIONS = (*SUBVIEWS_INSTRUCTIONS, *INSTRUCTIONS)
