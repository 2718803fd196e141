"""Tile-scalar instructions: a tile combined with one scalar of its element type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from ..ir.types import Loc
from ..profiles import PROFILE_NAMES
from .assembly import Assembly
from .common import (
    ACCUMULATOR,
    DIVISION_TRAPS,
    DST,
    MASK_DST,
    OPEN_DST,
    PAGES,
    PRECISION,
    SCALAR,
    SCRATCH_OPTIONAL,
    SHIFT_COUNTS,
    SIMULATOR_VALUES,
    SOFTWARE_REMAINDER,
    SRC,
    SRC0,
    SRC1,
    TILE_SCALAR,
    TileParts,
    tile_instruction,
)
from .declare import Contradiction, Decision, Instruction, Operand
from .elementwise import NAN_FIRST, POWER
from .elementwise_select import (
    CMP_MODE,
    HARDWARE_MASKS,
    MASK_TYPES,
    READ_MASKS,
    STREAMED_MASK,
    equality_only,
    rows_by_mask,
)
from .operands import Implied
from .rules import elementwise as rules
from .rules.constraints import HARDWARE, equal_valid, fixed_type, in_vec, place, row_major
from .rules.regions import mask_holds, mask_receives
from .rules.typesets import (
    A2A3_ARITHMETIC,
    A5_ARITHMETIC,
    A5_DIVISION,
    A5_PRODUCTS,
    HALVES,
    INT32,
    INTS,
    STANDARD,
    TWO_FOUR_BYTES,
    TypeTable,
    pairs,
    table,
)
from .semantics import QUOTIENT, Formula, of_two

#: The simulator restricts some tile-scalar instructions to row-major vec tiles, some to vec tiles.
_VEC_ROW_MAJOR = "vec and row_major"
_VEC = "vec"
_FREE = "free"
#: A scalar whose type the assembler leaves open: counts of shifts and slopes.
_ANY_SCALAR = (DST, SRC, replace(SCALAR, converts=True))


def _with_scalar(
    name: str,
    summary: str,
    semantics: str,
    types: TypeTable,
    *decisions: Decision,
    simulator: str = _VEC,
    operands: tuple[Operand, ...] = TILE_SCALAR,
    **parts: Unpack[TileParts],
) -> Instruction:
    in_vec_on = HARDWARE if simulator == _FREE else PROFILE_NAMES
    row_major_on = PROFILE_NAMES if simulator == _VEC_ROW_MAJOR else HARDWARE
    return tile_instruction(
        name,
        summary,
        semantics,
        operands,
        types,
        cls="tile_scalar",
        placement=(in_vec(operands, in_vec_on), row_major(operands, row_major_on)),
        decisions=decisions,
        **parts,
    )


def _of_scalar(operation: str) -> tuple[Formula, ...]:
    return (of_two(operation, "src", "scalar"),)


def _bitwise(name: str, word: str, sign: str, *decisions: Decision, **parts: Any) -> Instruction:
    return _with_scalar(
        name,
        f"Bitwise {word} with a scalar.",
        f"dst = src {sign} scalar.",
        table(INTS, INT32, INT32),
        *decisions,
        formulas=(Formula(f"src {sign} scalar"),),
        **parts,
    )


def _shift(name: str, direction: str, semantics: str, sign: str) -> Instruction:
    return _with_scalar(
        name,
        f"Shift {direction} by a scalar count.",
        semantics,
        table(INTS, ("i32", "u32", "i16", "u16"), INTS),
        SHIFT_COUNTS,
        operands=_ANY_SCALAR,
        formulas=(Formula(f"src {sign} scalar"),),
        shift_count="scalar",
    )


def _three_operands(name: str, summary: str, sign: str) -> Instruction:
    page = "page TADDSC" if name == "taddsc" else "page TADDSC, applied to subtraction"
    return _with_scalar(
        name,
        summary,
        f"dst = (src0 {sign} scalar) + src1; integers wrap, floats round once at the end.",
        table(STANDARD, A2A3_ARITHMETIC, A2A3_ARITHMETIC),
        Decision(
            "A group page calls it a saturating operation with two operands.",
            "Three operands, wrapping: the instruction page and the recorded values agree.",
            f"{page}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "Where do f16 and bf16 round?",
            "Both steps in f32, one rounding at the end.",
            SIMULATOR_VALUES,
        ),
        operands=(DST, SRC0, SCALAR, SRC1),
        extra=(equal_valid(("dst", "src0", "src1"), f"{page} (common constraints: run-time valid shapes)"),),
        formulas=(Formula(f"(src0 {sign} scalar) + src1", "f32"),),
    )


_ZERO_SCALAR = Decision(
    "What does a zero scalar divisor do?",
    "On cpu_sim dst is left untouched, as recorded; elsewhere integers follow the division rule, "
    "floats give NaN.",
    SIMULATOR_VALUES,
)
_CMPS_OPERANDS = (MASK_DST, SRC0, Operand("src1", "in", "scalar"))
_SELS_OPERANDS = (
    DST,
    Operand("mask", "in", dtype=None, note="packed bits, bit 1 selects src", holds="mask"),
    SRC,
    replace(rules.TMP, implied=Implied("src")),
    SCALAR,
)
_EXPAND_OPERANDS = (OPEN_DST, SCALAR)

INSTRUCTIONS: tuple[Instruction, ...] = (
    _with_scalar(
        "tadds",
        "Tile plus scalar.",
        "dst = src + scalar, as tadd.",
        table(STANDARD, A2A3_ARITHMETIC, A5_ARITHMETIC),
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("add"),
    ),
    _with_scalar(
        "tsubs",
        "Tile minus scalar.",
        "dst = src - scalar, as tsub.",
        table(STANDARD, A2A3_ARITHMETIC, A5_ARITHMETIC),
        Decision(
            "A2/A3 passes an i32 scalar through f32.",
            "Not modelled: the scalar is exact on every profile.",
            SIMULATOR_VALUES,
        ),
        formulas=_of_scalar("sub"),
    ),
    _with_scalar(
        "tmuls",
        "Tile times scalar.",
        "dst = src * scalar, as tmul.",
        table(STANDARD, A2A3_ARITHMETIC, A5_PRODUCTS),
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("mul"),
    ),
    _with_scalar(
        "tdivs",
        "Tile divided by scalar, or scalar divided by tile.",
        "dst = src / scalar when the tile comes first, scalar / src when the scalar does; integers truncate.",
        table(STANDARD, A2A3_ARITHMETIC, A5_DIVISION),
        DIVISION_TRAPS,
        Decision(
            "A2/A3 divides integers through floats and changes the source tile.",
            "Exact integer division, sources unchanged; the effect is documented.",
            SIMULATOR_VALUES,
        ),
        attributes=(PRECISION,),
        forms=(("src", "scalar"), ("scalar", "src")),
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("first / second"),),
        accuracy=QUOTIENT,
        divisor=("src", "scalar"),
    ),
    _with_scalar(
        "tmaxs",
        "Maximum of tile and scalar.",
        "dst = scalar where src < scalar, else src.",
        table(STANDARD, A2A3_ARITHMETIC, A5_ARITHMETIC),
        NAN_FIRST,
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("max"),
    ),
    _with_scalar(
        "tmins",
        "Minimum of tile and scalar.",
        "dst = scalar where scalar < src, else src.",
        table(STANDARD, A2A3_ARITHMETIC, A5_ARITHMETIC),
        NAN_FIRST,
        formulas=_of_scalar("min"),
    ),
    _bitwise("tands", "AND", "&"),
    _bitwise("tors", "OR", "|"),
    _bitwise(
        "txors",
        "XOR",
        "^",
        SCRATCH_OPTIONAL,
        operands=(*TILE_SCALAR, rules.TMP),
        extra=rules.LANE_SCRATCH,
        simulator=_FREE,
    ),
    _shift("tshls", "left", "dst = src << scalar, low bits kept.", "<<"),
    _shift("tshrs", "right", "dst = src >> scalar; arithmetic for signed types.", ">>"),
    _with_scalar(
        "trems",
        "Floored remainder by a scalar.",
        "As trem with the scalar as divisor.",
        table(STANDARD, ("f32", "i32"), A5_DIVISION),
        SCRATCH_OPTIONAL,
        _ZERO_SCALAR,
        SOFTWARE_REMAINDER,
        operands=(*TILE_SCALAR, rules.TMP),
        attributes=(PRECISION,),
        extra=rules.SCALAR_REMAINDER_SCRATCH,
        formulas=(Formula("rem(src, scalar)"),),
        divisor=("scalar",),
    ),
    _with_scalar(
        "tfmods",
        "Truncated remainder by a scalar.",
        "As tfmod with the scalar as divisor.",
        table(STANDARD, ("f32",), ("f32", "f16", "i32", "u32", "i16", "u16")),
        _ZERO_SCALAR,
        attributes=(PRECISION,),
        formulas=(Formula("fmod(src, scalar)"),),
        divisor=("scalar",),
    ),
    _with_scalar(
        "tpows",
        "Power with a scalar exponent.",
        "dst = base ^ exp; floats as C pow; integers through a double power on cpu_sim, in range only.",
        table(STANDARD, ("f32", *INT32), ("f32", "f16", "bf16", *INT32)),
        SCRATCH_OPTIONAL,
        operands=(DST, Operand("base", "in"), Operand("exp", "in", "scalar"), rules.POWER_TMP),
        attributes=(PRECISION,),
        extra=(rules.precision_types, rules.precise_power, *rules.POWER_SCRATCH),
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("pow(base, exp)", shown="base ^ exp"),),
        accuracy=POWER,
        positive=("base", "exp"),
    ),
    _with_scalar(
        "tlrelu",
        "ReLU with a scalar slope.",
        "dst = src where src > 0, else src * scalar.",
        table(STANDARD, HALVES, HALVES),
        operands=_ANY_SCALAR,
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("src if src > 0 else src * scalar"),),
    ),
    _with_scalar(
        "taxpy",
        "Scaled accumulation.",
        "dst = dst + src * scalar, the product rounded to the source type for f16; sums in the "
        "destination type.",
        pairs(
            (
                *((d, d) for d in STANDARD),
                *(("f32", "f16"), ("f32", "bf16"), ("f16", "f32"), ("i32", "i16")),
            ),
            (("f32", "f32"), ("f16", "f16"), ("f32", "f16")),
            (("f32", "f32"), ("f16", "f16"), ("f32", "f16")),
        ),
        Decision(
            "Is the addend the old destination or a separate tile?",
            "The old destination.",
            f"{PAGES}; {SIMULATOR_VALUES}",
        ),
        Contradiction(
            "Is the product of f16 tiles rounded before the sum?",
            "Yes, to the source type.",
            SIMULATOR_VALUES,
            other="one rounding, from f64; 1e-3 apart is accepted, so both pass",
            other_source="pto-isa system tests of taxpy",
            profiles=("a5",),
        ),
        operands=(
            Operand("dst", "inout", dtype="D", note=ACCUMULATOR.note),
            Operand("src", "in", dtype="S"),
            Operand("scalar", "in", "scalar", dtype="S"),
        ),
        type_vars=("D", "S"),
        simulator=_FREE,
        # The product has a type of its own.
        formulas=(Formula("dst + src * scalar", complete=False),),
    ),
    tile_instruction(
        "texpands",
        "Fill a tile with a scalar.",
        "dst = scalar in every valid lane.",
        _EXPAND_OPERANDS,
        table(STANDARD, ("f32", "f16", "bf16", *INT32), A5_ARITHMETIC),
        cls="tile_scalar",
        placement=(
            place(_EXPAND_OPERANDS, (Loc.VEC, Loc.MAT), HARDWARE),
            row_major(_EXPAND_OPERANDS, ()),
        ),
        decisions=(
            Decision(
                "Hardware fills the whole physical tile when it is a mat tile.",
                "On a2a3 and a5 a mat tile is filled whole, elsewhere the valid region only.",
                "pto-isa headers; recorded simulator vectors",
            ),
        ),
        moves="select",
        formulas=(Formula("scalar", shown="scalar in every valid lane"),),
    ),
    tile_instruction(
        "tcmps",
        "Comparison of a tile with a scalar into a packed bit mask.",
        "Bit (i,j) is src0[i,j] <mode> src1. cpu_sim packs the physical rows densely into the mask's valid "
        "columns and treats values closer than 1e-9 as equal.",
        _CMPS_OPERANDS,
        pairs(
            rows_by_mask(("u8", "u32"), STANDARD),
            rows_by_mask(("u8", "i8"), ("f32", "f16", "i32", "i16", "u16")),
            rows_by_mask(HARDWARE_MASKS, STANDARD),
        ),
        cls="tile_scalar",
        type_vars=("M", "T"),
        attributes=(CMP_MODE,),
        domain="src0",
        extra=(equality_only, *mask_receives("dst", "src0", HARDWARE)),
        decisions=(
            MASK_TYPES,
            Decision(
                "A second overload takes a tile instead of the scalar.",
                "Not offered: hardware uses its first element, the simulator does not compile it.",
                f"pto-isa headers; {SIMULATOR_VALUES}",
            ),
            STREAMED_MASK,
        ),
        assembly=Assembly(inline=True),
    ),
    tile_instruction(
        "tsels",
        "Per-lane selection between a tile and a scalar by a packed mask.",
        "dst = src where the mask bit is 1, else scalar; bit j of row i is bit j mod W of mask word j / W.",
        _SELS_OPERANDS,
        table(STANDARD, TWO_FOUR_BYTES, tuple(d for d in A5_ARITHMETIC if d != "bf16")),
        cls="tile_scalar",
        forms=(("mask", "src", "scalar"), ("mask", "src", "tmp", "scalar")),
        reads=("src",),
        extra=(
            fixed_type("mask", READ_MASKS, PROFILE_NAMES, "page tsels (mask encoding)"),
            *mask_holds("mask", "dst", stream=False),
            *rules.SELECTION_SCRATCH,
        ),
        decisions=(
            SCRATCH_OPTIONAL,
            Decision(
                "A group page selects between two tiles by a scalar predicate.",
                "A mask tile selects between a tile and a scalar.",
                f"page tsels; {SIMULATOR_VALUES}",
            ),
        ),
        moves="select",
    ),
    _three_operands("taddsc", "Tile plus scalar plus tile.", "+"),
    _three_operands("tsubsc", "Tile minus scalar plus tile.", "-"),
)
