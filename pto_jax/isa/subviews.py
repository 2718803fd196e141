"""Windows of tiles that keep the element order of the whole and have a valid region of their own."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..ir import F32, INDEX, BLayout, Loc, ScalarType, SLayout, TileType
from ..profiles import Profile
from .declare import Attribute, AttrMap, Decision, Finding, Instruction, Operand, Site
from .rules.constraints import size
from .rules.forbid import Types, forbid, retile, retype
from .rules.handles import Shown, custom
from .traits import Alias, Traits

#: A name that those who look at whole functions use.
SUBVIEW = "subview"
_DIALECT = "PTOAS dialect definition and verifier (August 2026)"
_INDEX = ScalarType(INDEX)
_TILE = TileType(F32, 16, 64)
_BOXED = TileType(F32, 32, 32, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
_AXES = (("row", "valid_row", "v_row"), ("column", "valid_col", "v_col"))


def _sizes(site: Site) -> tuple[int, ...]:
    given = site.attrs.get("sizes")
    return tuple(n for n in given if isinstance(n, int)) if isinstance(given, tuple) else ()


def _window(site: Site) -> Iterator[tuple[int | None, int, str]]:
    """Start, size and unit of each axis, where the operation gives two offsets and two sizes."""
    sizes, offsets = _sizes(site), site.numbers("offsets")
    if len(sizes) == len(offsets) == 2:
        yield from zip(offsets, sizes, ("row", "column"), strict=True)


_forbid = partial(forbid, source=_DIALECT)


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
    wanted = replace(t, rows=sizes[0], cols=sizes[1], v_row=result.v_row, v_col=result.v_col)
    if result != wanted:
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
def _valid(site: Site) -> Iterator[Finding]:
    result, sizes = site.tile("result"), _sizes(site)
    if result is None or len(sizes) != 2:
        return
    for n, (unit, operand, key) in zip(sizes, _AXES, strict=True):
        shown: int | None = getattr(result, key)
        given, number = operand in site.values, site.constant(operand)
        if number is not None and not 0 <= number <= n:
            yield operand, f"{operand} = {number}; allowed: 0 to {n}"
        elif given and shown != number:
            yield operand, f"{operand} is {size(number)}, the type says {key}={size(shown)}; allowed: equal"
        elif not given and shown is None:
            yield "result", f"the type says {key}=? without operands; allowed: valid [%rows, %cols]"
        elif shown is not None and not 0 <= shown <= n:
            yield "result", f"{key}={shown} of {n} {unit}s; allowed: 0 to {n}"


INSTRUCTIONS: tuple[Instruction, ...] = (
    custom(
        SUBVIEW,
        "Window of a tile, with a valid region of its own.",
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
        (_parts, _inside, _boxes, _types_agree, _valid),
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
