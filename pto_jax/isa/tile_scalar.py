"""Tile-scalar instructions: a tile combined with one scalar of its element type."""

from dataclasses import replace
from typing import Any, Unpack

from ..ir import Loc
from ..profiles import PROFILE_NAMES
from . import common, elementwise, elementwise_select
from .assembly import Assembly
from .declare import Contradiction, Decision, Implied, Instruction, Operand
from .rules import elementwise as rules, regions, typesets
from .rules.constraints import HARDWARE, equal_valid, fixed_type, in_vec, place, row_major
from .semantics import QUOTIENT, Apart, Formula, of_two

#: The simulator restricts some tile-scalar instructions to row-major vec tiles, some to vec tiles.
_VEC_ROW_MAJOR = "vec and row_major"
_VEC = "vec"
_FREE = "free"
#: A scalar whose type the assembler leaves open: counts of shifts and slopes.
_ANY_SCALAR = (common.DST, common.SRC, replace(common.SCALAR, converts=True))


def _with_scalar(
    name: str,
    summary: str,
    semantics: str,
    types: typesets.TypeTable,
    *decisions: Decision,
    simulator: str = _VEC,
    operands: tuple[Operand, ...] = common.TILE_SCALAR,
    **parts: Unpack[common.TileParts],
) -> Instruction:
    in_vec_on = HARDWARE if simulator == _FREE else PROFILE_NAMES
    row_major_on = PROFILE_NAMES if simulator == _VEC_ROW_MAJOR else HARDWARE
    return common.tile_instruction(
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
        typesets.table(typesets.INTS, typesets.INT32, typesets.INT32),
        *decisions,
        formulas=(Formula(f"src {sign} scalar"),),
        **parts,
    )


def _shift(name: str, direction: str, semantics: str, sign: str) -> Instruction:
    return _with_scalar(
        name,
        f"Shift {direction} by a scalar count.",
        semantics,
        typesets.table(typesets.INTS, ("i32", "u32", "i16", "u16"), typesets.INTS),
        common.SHIFT_COUNTS,
        operands=_ANY_SCALAR,
        formulas=(Formula(f"src {sign} scalar"),),
        shift_count="scalar",
    )


def _three_operands(name: str, summary: str, sign: str) -> Instruction:
    page = "page TADDSC" if name == "taddsc" else "page TADDSC, applied to subtraction"
    return _with_scalar(
        name,
        summary,
        f"dst = (src0 {sign} scalar) + src1; integers wrap; {common.ROUNDED_SUMS}.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A2A3_ARITHMETIC),
        Decision(
            "A group page calls it a saturating operation with two operands.",
            "Three operands, wrapping: the instruction page and the recorded values agree.",
            f"{page}; {common.SIMULATOR_VALUES}",
        ),
        Decision(
            "Where do f16 and bf16 round?",
            "Both steps in f32, one rounding at the end.",
            common.SIMULATOR_VALUES,
        ),
        operands=(common.DST, common.SRC0, common.SCALAR, common.SRC1),
        extra=(equal_valid(("dst", "src0", "src1"), f"{page} (common constraints: run-time valid shapes)"),),
        formulas=(Formula(f"(src0 {sign} scalar) + src1", "f32"),),
    )


_ZERO_SCALAR = common.formal(
    "What does a zero scalar divisor do?",
    "On cpu_sim dst is left untouched, as recorded; elsewhere integers follow the division rule, "
    "floats give NaN.",
    common.SIMULATOR_VALUES,
    "illegal before any effect for integers",
    "decision 0080 (060, 061)",
)
_CMPS_OPERANDS = (common.MASK_DST, common.SRC0, Operand("src1", "in", "scalar"))
_SELS_OPERANDS = (
    common.DST,
    Operand("mask", "in", dtype=None, note="packed bits, bit 1 selects src", holds="mask"),
    common.SRC,
    replace(rules.TMP, implied=Implied("src")),
    common.SCALAR,
)
_EXPAND_OPERANDS = (common.OPEN_DST, common.SCALAR)

_FILLED_FIRST = "a2a3/TDivS.hpp: dst is filled with the scalar before src is read"
_SCALAR_IN_DST = "pages tands and tors (implementation checks); a2a3/TBitwiseSOp.hpp (assertion)"
_BESIDE_SCALAR = (Apart("dst", ("src",), _SCALAR_IN_DST, HARDWARE),)

INSTRUCTIONS: tuple[Instruction, ...] = (
    _with_scalar(
        "tadds",
        "Tile plus scalar.",
        "dst = src + scalar, as tadd.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_ARITHMETIC),
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("add"),
    ),
    _with_scalar(
        "tsubs",
        "Tile minus scalar.",
        "dst = src - scalar, as tsub.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_ARITHMETIC),
        Decision(
            "A2/A3 passes an i32 scalar through f32.",
            "Not modelled: the scalar is exact on every profile.",
            common.SIMULATOR_VALUES,
        ),
        formulas=_of_scalar("sub"),
    ),
    _with_scalar(
        "tmuls",
        "Tile times scalar.",
        "dst = src * scalar, as tmul.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_PRODUCTS),
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("mul"),
    ),
    _with_scalar(
        "tdivs",
        "Tile divided by scalar, or scalar divided by tile.",
        "dst = src / scalar when the tile comes first, scalar / src when the scalar does; integers truncate.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_DIVISION),
        common.DIVISION_TRAPS,
        Decision(
            "A2/A3 divides integers through floats and changes the source tile.",
            "Exact integer division, sources unchanged; the effect is documented.",
            common.SIMULATOR_VALUES,
        ),
        attributes=(common.PRECISION,),
        forms=(("src", "scalar"), ("scalar", "src")),
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("first / second"),),
        accuracy=QUOTIENT,
        divisor=("src", "scalar"),
        apart=(
            Apart("dst", ("src",), _FILLED_FIRST, form=("scalar",)),
            Apart("dst", ("src",), _FILLED_FIRST, dtypes=("i32", "i16")),
        ),
    ),
    _with_scalar(
        "tmaxs",
        "Maximum of tile and scalar.",
        "dst = scalar where src < scalar, else src.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_ARITHMETIC),
        elementwise.NAN_FIRST,
        elementwise.ZERO_FIRST,
        simulator=_VEC_ROW_MAJOR,
        formulas=_of_scalar("max"),
    ),
    _with_scalar(
        "tmins",
        "Minimum of tile and scalar.",
        "dst = scalar where scalar < src, else src.",
        typesets.table(typesets.STANDARD, typesets.A2A3_ARITHMETIC, typesets.A5_ARITHMETIC),
        elementwise.NAN_FIRST,
        elementwise.ZERO_FIRST,
        formulas=_of_scalar("min"),
    ),
    _bitwise("tands", "AND", "&", apart=_BESIDE_SCALAR),
    _bitwise("tors", "OR", "|", apart=_BESIDE_SCALAR),
    _bitwise(
        "txors",
        "XOR",
        "^",
        common.SCRATCH_OPTIONAL,
        operands=(*common.TILE_SCALAR, rules.WHOLE_TMP),
        extra=rules.LANE_SCRATCH,
        simulator=_FREE,
        apart=(Apart("dst", ("src",), "page txors; a2a3/TBitwiseSOp.hpp (assertion)"),),
    ),
    _shift("tshls", "left", "dst = src << scalar, low bits kept.", "<<"),
    _shift("tshrs", "right", "dst = src >> scalar; arithmetic for signed types.", ">>"),
    _with_scalar(
        "trems",
        "Floored remainder by a scalar.",
        "As trem with the scalar as divisor.",
        typesets.table(typesets.STANDARD, ("f32", "i32"), typesets.A5_DIVISION),
        common.SCRATCH_OPTIONAL,
        _ZERO_SCALAR,
        common.SOFTWARE_REMAINDER,
        operands=(*common.TILE_SCALAR, rules.TMP),
        attributes=(common.PRECISION,),
        extra=rules.SCALAR_REMAINDER_SCRATCH,
        formulas=(Formula("rem(src, scalar)"),),
        apart=(Apart("dst", ("src",), "a2a3/TRemS.hpp: src is read after dst is written"),),
        divisor=("scalar",),
    ),
    _with_scalar(
        "tfmods",
        "Truncated remainder by a scalar.",
        "As tfmod with the scalar as divisor.",
        typesets.table(typesets.STANDARD, ("f32",), ("f32", "f16", "i32", "u32", "i16", "u16")),
        _ZERO_SCALAR,
        attributes=(common.PRECISION,),
        formulas=(Formula("fmod(src, scalar)"),),
        apart=(Apart("dst", ("src",), "a2a3/TFmodS.hpp: src is read after dst is written"),),
        divisor=("scalar",),
    ),
    _with_scalar(
        "tpows",
        "Power with a scalar exponent.",
        "dst = base ^ exp; floats as C pow; integers through a double power on cpu_sim, in range only.",
        typesets.table(typesets.STANDARD, ("f32", *typesets.INT32), ("f32", "f16", "bf16", *typesets.INT32)),
        common.SCRATCH_OPTIONAL,
        operands=(common.DST, Operand("base", "in"), Operand("exp", "in", "scalar"), rules.POWER_TMP),
        attributes=(common.PRECISION,),
        extra=(rules.precision_types, rules.precise_power, *rules.POWER_SCRATCH),
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("pow(base, exp)", shown="base ^ exp"),),
        accuracy=elementwise.POWER,
        positive=("base", "exp"),
    ),
    _with_scalar(
        "tlrelu",
        "ReLU with a scalar slope.",
        "dst = src where src > 0, else src * scalar.",
        typesets.table(typesets.STANDARD, typesets.HALVES, typesets.HALVES),
        operands=_ANY_SCALAR,
        simulator=_VEC_ROW_MAJOR,
        formulas=(Formula("src if src > 0 else src * scalar"),),
    ),
    _with_scalar(
        "taxpy",
        "Scaled accumulation.",
        "dst = dst + src * scalar, sums in the destination type. The product is rounded first: on cpu_sim to "
        "the source type (bf16 into bf16 is not), on a2a3 to the destination's; on a5 f16 is rounded once.",
        typesets.pairs(
            (
                *((d, d) for d in typesets.STANDARD),
                *(("f32", "f16"), ("f32", "bf16"), ("f16", "f32"), ("i32", "i16")),
            ),
            (("f32", "f32"), ("f16", "f16"), ("f32", "f16")),
            (("f32", "f32"), ("f16", "f16"), ("f32", "f16")),
        ),
        Decision(
            "Is the addend the old destination or a separate tile?",
            "The old destination.",
            f"{common.PAGES}; {common.SIMULATOR_VALUES}",
        ),
        Decision(
            "Is the product of f16 tiles rounded before the sum?",
            "On a2a3 where dst is f16, not where it is f32; never on a5; always on cpu_sim, as recorded.",
            f"pto-isa system tests of taxpy; {common.SIMULATOR_VALUES}",
        ),
        Contradiction(
            "Is the product of f32 tiles rounded before the sum?",
            "Yes.",
            common.SIMULATOR_VALUES,
            other="one rounding, from f64; 1e-3 apart is accepted, so both pass",
            other_source="pto-isa system tests of taxpy",
            profiles=("a5",),
        ),
        operands=(
            Operand("dst", "inout", dtype="D", note=common.ACCUMULATOR.note),
            Operand("src", "in", dtype="S"),
            Operand("scalar", "in", "scalar", dtype="S"),
        ),
        type_vars=("D", "S"),
        simulator=_FREE,
        # The product has a type of its own.
        formulas=(Formula("dst + src * scalar", complete=False),),
    ),
    common.tile_instruction(
        "texpands",
        "Fill a tile with a scalar.",
        "dst = scalar in every valid lane.",
        _EXPAND_OPERANDS,
        typesets.table(typesets.STANDARD, ("f32", "f16", "bf16", *typesets.INT32), typesets.A5_ARITHMETIC),
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
    common.tile_instruction(
        "tcmps",
        "Comparison of a tile with a scalar into a packed bit mask.",
        "Bit (i,j) is src0[i,j] <mode> src1. cpu_sim packs the physical rows densely into the mask's valid "
        "columns and treats values closer than 1e-9 as equal.",
        _CMPS_OPERANDS,
        typesets.pairs(
            elementwise_select.rows_by_mask(("u8", "u32"), typesets.STANDARD),
            elementwise_select.rows_by_mask(("u8", "i8"), ("f32", "f16", "i32", "i16", "u16")),
            elementwise_select.rows_by_mask(elementwise_select.HARDWARE_MASKS, typesets.STANDARD),
        ),
        cls="tile_scalar",
        type_vars=("M", "T"),
        attributes=(elementwise_select.CMP_MODE,),
        domain="src0",
        extra=(elementwise_select.equality_only, *regions.mask_receives(HARDWARE)),
        decisions=(
            elementwise_select.MASK_TYPES,
            Decision(
                "A second overload takes a tile instead of the scalar.",
                "Not offered: hardware uses its first element, the simulator does not compile it.",
                f"pto-isa headers; {common.SIMULATOR_VALUES}",
            ),
            elementwise_select.STREAMED_MASK,
        ),
        assembly=Assembly(inline=True),
    ),
    common.tile_instruction(
        "tsels",
        "Per-lane selection between a tile and a scalar by a packed mask.",
        "dst = src where the mask bit is 1, else scalar; bit j of row i is bit j mod W of mask word j / W.",
        _SELS_OPERANDS,
        typesets.table(
            typesets.STANDARD,
            typesets.TWO_FOUR_BYTES,
            tuple(d for d in typesets.A5_ARITHMETIC if d != "bf16"),
        ),
        cls="tile_scalar",
        forms=(("mask", "src", "scalar"), ("mask", "src", "tmp", "scalar")),
        reads=("src",),
        extra=(
            fixed_type("mask", elementwise_select.READ_MASKS, PROFILE_NAMES, "page tsels (mask encoding)"),
            *regions.mask_holds(stream=False),
            *rules.SELECTION_SCRATCH,
        ),
        decisions=(
            common.SCRATCH_OPTIONAL,
            Decision(
                "A group page selects between two tiles by a scalar predicate.",
                "A mask tile selects between a tile and a scalar.",
                f"page tsels; {common.SIMULATOR_VALUES}",
            ),
        ),
        moves="select",
    ),
    _three_operands("taddsc", "Tile plus scalar plus tile.", "+"),
    _three_operands("tsubsc", "Tile minus scalar plus tile.", "-"),
)
