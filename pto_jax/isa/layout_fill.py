"""Layout and rearrangement: copies that fill what is not valid with a pad value."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ..errors import with_article
from ..ir import BLayout, Loc, Pad, SLayout, TileType, dtype
from ..profiles import Profile
from . import changes, declare
from .common import DST, OPEN_DST, PAGES, SIMULATOR_VALUES, SRC, formal, tile_instruction
from .rules import constraints, irregular, regions, typesets
from .rules.forbid import as_columns, assign, edit, forbid, together
from .rules.require import require
from .samples.operations import Sample

_MOVED = (*typesets.FLOATS, *typesets.INT32)
_TYPES = typesets.table(_MOVED, _MOVED, _MOVED)
_PADS = (Pad.ZERO, Pad.MAX, Pad.MIN)


#: Shown with a region that leaves something to fill.
_PART = replace(SRC, lacking=(1, 3))

_pad_given = require(
    "pad-given",
    "dst.pad in (zero, max, min) or padValue.given",
    when="dst.loc != mat",
    fix=constraints.with_pad,
)


#: Another type for a tile, None where there is none.
_Move: TypeAlias = "Callable[[TileType], TileType | None]"


def _place(moved: _Move) -> declare.Constraint:
    @forbid(
        "place",
        "vec tiles in row_major order, for tfillpad mat tiles in NZ order too",
        constraints.HARDWARE,
        invalid_if=together(edit("dst", moved), edit("src", moved)),
    )
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        for name, t in site.tiles():
            mat = t.loc == Loc.MAT and site.instruction.name == "tfillpad" and t.layout == "NZ"
            if not mat and not (t.loc == Loc.VEC and t.layout == "ND"):
                layout = f"{t.blayout.name.lower()} with {t.slayout.name.lower()}"
                also = " (or mat in NZ order)" if site.instruction.name == "tfillpad" else ""
                kind = with_article(t.loc.name.lower())
                yield (
                    name,
                    f"{name} is {kind} tile, {layout}; allowed on {site.profile.name}: vec, "
                    f"row_major with none_box{also}",
                )

    return rule


def _in_mat(t: TileType) -> TileType | None:
    return None if t.loc == Loc.MAT else replace(t, loc=Loc.MAT)


_one_place = require("one-place", "src.loc == dst.loc", ("cpu_sim",))


_larger = require(
    "dst-room",
    "dst.shape >= src.shape",
)


_mat_shape = require("mat-shape", "dst.shape == src.shape", when="dst.loc == mat")


_no_mode = require(
    "mode",
    "not mode.given",
    why="what a fill does follows from the shapes",
    source=changes.DIALECT,
    invalid_if=assign(mode="expand"),
    since="2026-08",
)


@forbid(
    "mat-equal",
    "mat tiles with equal valid sizes and pads",
    constraints.HARDWARE,
    source=changes.DIALECT,
    invalid_if=edit("src", lambda t: replace(t, pad=Pad.MAX) if t.loc == Loc.MAT else None),
    since="2026-08",
)
def _mat_equal(site: declare.Site) -> Iterator[declare.Finding]:
    dst, src = site.tile("dst"), site.tile("src")
    if dst is None or src is None or Loc.MAT not in (dst.loc, src.loc) or src.shape != dst.shape:
        return
    for name in ("v_row", "v_col", "pad"):
        have, want = getattr(src, name), getattr(dst, name)
        if have != want:
            shown = [getattr(x, "name", x) if x is not None else "?" for x in (have, want)]
            yield (
                "src",
                f"src has {name}={shown[0]}, dst {name}={shown[1]}; allowed for mat tiles: equal ones",
            )


@forbid(
    "fills-nothing",
    "dst is another handle than src, where elements of its valid rows are to be filled",
    source=constraints.HEADERS,
    severity="warning",
)
def _fills(site: declare.Site) -> Iterator[declare.Finding]:
    """A tile that is filled into itself has something outside its valid region that is filled."""
    dst, (rows, cols) = site.tile("dst"), site.region("src")
    if dst is None or site.values.get("src") != site.values.get("dst") or cols is None or cols < dst.cols:
        return
    if (site.profile.name == "cpu_sim" or dst.loc == Loc.MAT) and (rows is None or rows < dst.rows):
        return
    yield (
        "dst",
        f"dst is src and valid in all {cols} columns: nothing is filled on {site.profile.name}; allowed: "
        f"more valid rows; try: another handle at the same address with v_row={dst.rows} as dst",
    )


def _samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    grown = 2 if instruction.name == "tfillpad_expand" else 1
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        src = TileType(d, 8, irregular.row_cols(d, 2))
        dst = TileType(d, 8 * grown, irregular.row_cols(d, 2 * grown), pad=_PADS[i % 3])
        yield irregular.sample(instruction, ("src",), {"src": src, "dst": dst})
    src = TileType(dtype("f16"), 8, 32)
    dst = TileType(dtype("f16"), 8 * grown, 32 * grown)
    yield irregular.sample(instruction, ("src",), {"src": src, "dst": dst}, {"padValue": 0x1BC00})
    if instruction.name == "tfillpad":
        boxed = TileType(
            dtype("f16"), 16, 32, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR
        )
        yield irregular.sample(instruction, ("src",), {"src": boxed, "dst": boxed})


_SEMANTICS = (
    "dst(r, c) = src(r, c) for r, c in the valid region of src, the pad value for every other r, c of the "
    "filled extent; nothing happens where the valid region of dst is empty. The filled extent (both copied "
    "and padded elements lie in it) is the whole physical dst on cpu_sim and for mat tiles, and the first "
    "rows of dst up to its valid rows, in all physical columns, elsewhere. The pad value follows from the "
    "pad of dst's type: zero bits for zero and null, the infinities for max and min of floats, the "
    "limits of the type for max and min of integers; padValue gives its low bits instead. Valid "
    "lanes of src beyond the physical dst are dropped."
)
_DECISIONS = (
    formal(
        "The page fills every element of dst, the hardware headers stop at its valid rows; which holds?",
        "The whole physical tile on cpu_sim, the valid rows of dst in all physical columns on a2a3 and a5.",
        f"{SIMULATOR_VALUES}; {constraints.HEADERS}",
        "the whole physical destination",
        "asl/tile/model/execution/generation.asl",
        constraints.HARDWARE,
    ),
    declare.Decision(
        "How is a pad value written that is none of zero, max and min?",
        "As attribute padValue, an integer whose low bits are the element's bits.",
        f"{constraints.HEADERS} (custom pad values); the text format has no such pad",
    ),
    declare.Decision(
        "The hardware form on mat tiles never copies; what if src and dst are not one storage?",
        "The source is copied, as the simulator does; for one storage both agree.",
        SIMULATOR_VALUES,
    ),
    declare.Contradiction(
        "What do max and min mean for floats, f16 and bf16 included, whose limits some C++ libraries lack?",
        "The infinities.",
        f"{PAGES}; {constraints.HEADERS}; {SIMULATOR_VALUES}",
        other="max is the largest finite f32",
        other_source="PTOAS tilelang system tests of tfillpad (5 cases)",
        key="finite-pads",
        profiles=("a5",),
    ),
    declare.Contradiction(
        "Does pad zero ever stand for another number?",
        "No: it is zero.",
        f"{PAGES}; {constraints.HEADERS}; {SIMULATOR_VALUES}",
        other="pad zero is -1 where the test means a pad that the text cannot say",
        other_source="PTOAS tilelang system tests of tfillpad (2 cases, a placeholder in their text)",
        key="minus-one",
        profiles=("a5",),
    ),
)


def _fill(
    name: str,
    summary: str,
    *rules: declare.Constraint,
    operands: tuple[declare.Operand, ...] = (DST, _PART),
    moved: _Move = _in_mat,
) -> declare.Instruction:
    return tile_instruction(
        name,
        summary,
        _SEMANTICS,
        operands,
        _TYPES,
        cls="layout",
        domain="custom",
        attributes=(
            declare.Attribute("padValue", int, None, "bits of a custom pad value", ("padValue", "pad_value")),
        ),
        placement=(
            _place(moved),
            _one_place,
            _pad_given,
            _fills,
            *rules,
        ),
        decisions=_DECISIONS,
        sampler=_samples,
    )


_EQUAL = regions.equal_shape("dst", "src", ("cpu_sim", "a2a3", "a5"), constraints.HEADERS)
TFILLPAD = _fill(
    "tfillpad",
    "Copy into a tile that is as large or larger, and fill everything outside the source's valid region.",
    _larger,
    _mat_shape,
    _no_mode,
    _mat_equal,
    moved=as_columns,
)
TFILLPAD_INPLACE = _fill(
    "tfillpad_inplace", "Fill everything outside the source's valid region of one storage.", _EQUAL
)
TFILLPAD_EXPAND = _fill(
    "tfillpad_expand",
    "Copy into a larger tile, and fill the rest of it.",
    _larger,
    operands=(OPEN_DST, _PART),
)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (TFILLPAD, TFILLPAD_INPLACE, TFILLPAD_EXPAND)
