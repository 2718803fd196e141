"""Elementwise tile-tile instructions: arithmetic, bitwise, shifts, functions of one tile, fused ones.

Comparison, selection and conversion are in :mod:`.elementwise_select`.
"""

from dataclasses import replace
from functools import partial
from typing import Unpack

from . import changes, common
from .assembly import Assembly, segments
from .declare import Contradiction, Decision, Implied, Instruction, Operand, Site
from .rules import elementwise, typesets
from .rules.constraints import HARDWARE, HEADERS, equal_valid, fixed_type, in_vec, non_empty, row_major
from .rules.elementwise import region_of_dst, scratch, scratch_bytes
from .rules.forbid import edit
from .rules.typesets import HALVES, SIMULATED, STANDARD, pairs, table
from .semantics import (
    POSITIVE_NORMALS,
    QUOTIENT,
    Apart,
    Facts,
    Formula,
    Range,
    correctly_rounded,
    of_two,
    within,
)

_A5_POWER = ("f32", "f16", "bf16", *typesets.INT32)
_A2A3_POWER = ("f32", *typesets.INT32)

NAN_FIRST = common.formal(
    "Which operand is the result of a maximum or minimum when one is NaN?",
    "The first one: max(NaN, 1) = NaN, max(1, NaN) = 1.",
    common.SIMULATOR_VALUES,
    "the number, and the canonical NaN where both are NaN; in a third answer, of the micro-operations of a5, "
    "NaN wins, so that a tile and its loop of micro-operations differ",
    "decision 0050",
)
ZERO_FIRST = common.formal(
    "Which operand is the result of a maximum or minimum of zeros of both signs?",
    "The first one: max(-0, +0) = -0.",
    common.SIMULATOR_VALUES,
    "+0 of a maximum and -0 of a minimum, whatever the order, as the micro-operations of a5 have it",
    "decision 0050",
)
FP8_SIMULATED = Decision(
    "Small floats (f8e4m3, f8e5m2, hif8) on cpu_sim: the pto.tadd page simulates them, the overview "
    "excludes them.",
    "Legal on cpu_sim with a warning; exact decode, one rounding to nearest even, not the "
    "simulator's encoders.",
    "pto.tadd page; Tile Instruction Set overview; recorded vectors are marked experimental",
)


TADD = common.tile_instruction(
    "tadd",
    "Lane-wise sum of two tiles.",
    "dst[i,j] = src0[i,j] + src1[i,j] in the element type; floats round to nearest even once, integers wrap.",
    common.BINARY,
    typesets.table(
        typesets.SIMULATED,
        ("f32", "f16", "bf16", "i32", "i16"),
        ("f32", "f16", "bf16", "i32", "i16", "i8", "u8", "f8e4m3", "f8e5m2", "u16", "u32"),
    ),
    decisions=(
        Decision(
            "Element types: page, overview and headers give three different lists.",
            "The page's table; u16 and u32, which it does not mention, as the A5 header has them; "
            "hif8 on cpu_sim.",
            f"pto.tadd page (target-profile restrictions); {common.HEADER_LISTS}",
        ),
        Contradiction(
            "Does tadd take 64-bit integers on a5?",
            "No: the page's table does not list them.",
            "pto.tadd page (target-profile restrictions)",
            other="i64 and u64 are legal",
            other_source="pto-isa header and system tests of tadd",
            profiles=("a5",),
        ),
        FP8_SIMULATED,
        common.SIMULATOR_SAME_TYPE,
    ),
    formulas=(of_two("add"),),
    sources=("page pto.tadd", "Tile Instruction Set overview", common.SIMULATOR_VALUES),
)


def _lanes(
    name: str,
    summary: str,
    semantics: str,
    cpu_sim: tuple[str, ...],
    a2a3: tuple[str, ...],
    a5: tuple[str, ...],
    *decisions: Decision,
    operands: tuple[Operand, ...] = common.BINARY,
    **parts: Unpack[common.TileParts],
) -> Instruction:
    types = typesets.table(cpu_sim, a2a3, a5)
    return common.tile_instruction(name, summary, semantics, operands, types, decisions=decisions, **parts)


_unary = partial(_lanes, operands=common.UNARY)
_function = partial(_unary, attributes=(common.PRECISION,))


def _bitwise(name: str, word: str, formula: str) -> Instruction:
    text = f"{formula} on the raw bits"
    parts: common.TileParts = {"formulas": (Formula(formula, shown=text),)}
    bits = (*typesets.INT32, *typesets.FLOATS)
    return _lanes(name, f"Bitwise {word}.", f"dst = {text}.", typesets.INTS, bits, bits, **parts)


#: The real power of positive numbers, of moderate size.
POWER = within(common.ONE_ULP, Range(-3, 3, signed=False), Range(-3, 2))


_TWO_SOURCES = (
    TADD,
    _lanes(
        "tsub",
        "Lane-wise difference.",
        "dst = src0 - src1 in the element type; rounding and wrapping as tadd.",
        typesets.SIMULATED,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_ARITHMETIC,
        FP8_SIMULATED,
        formulas=(of_two("sub"),),
    ),
    _lanes(
        "tmul",
        "Lane-wise product.",
        "dst = src0 * src1 in the element type; integers keep the low bits.",
        typesets.SIMULATED,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_PRODUCTS,
        FP8_SIMULATED,
        formulas=(of_two("mul"),),
    ),
    _lanes(
        "tdiv",
        "Lane-wise quotient.",
        "dst = src0 / src1; floats are IEEE (x/0 = inf, 0/0 = NaN), integers truncate toward zero.",
        typesets.STANDARD,
        typesets.HALVES,
        typesets.A5_DIVISION,
        common.DIVISION_TRAPS,
        attributes=(common.PRECISION,),
        formulas=(of_two("div"),),
        accuracy=QUOTIENT,
        divisor=("src1",),
    ),
    _lanes(
        "tmax",
        "Lane-wise maximum.",
        "dst = src1 where src0 < src1, else src0; signed or unsigned by element type.",
        typesets.STANDARD,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_ARITHMETIC,
        NAN_FIRST,
        ZERO_FIRST,
        formulas=(of_two("max"),),
    ),
    _lanes(
        "tmin",
        "Lane-wise minimum.",
        "dst = src1 where src1 < src0, else src0; signed or unsigned by element type.",
        typesets.STANDARD,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_ARITHMETIC,
        NAN_FIRST,
        ZERO_FIRST,
        formulas=(of_two("min"),),
    ),
    _bitwise("tand", "AND", "src0 & src1"),
    _bitwise("tor", "OR", "src0 | src1"),
    common.tile_instruction(
        "txor",
        "Bitwise XOR.",
        "dst = src0 ^ src1 on the raw bits.",
        (*common.BINARY, elementwise.WHOLE_TMP),
        typesets.table(typesets.INTS, typesets.INT32, typesets.INT32),
        extra=elementwise.LANE_SCRATCH,
        decisions=(common.SCRATCH_OPTIONAL,),
        formulas=(Formula("src0 ^ src1", shown="src0 ^ src1 on the raw bits"),),
        apart=(Apart("dst", ("src0", "src1"), "page txor; a2a3/TXor.hpp (assertion)"),),
    ),
    _lanes(
        "tshl",
        "Shift left by a count per lane.",
        "dst = src0 << src1, low bits kept.",
        typesets.INTS,
        typesets.INT32,
        typesets.INTS,
        common.SHIFT_COUNTS,
        formulas=(Formula("src0 << src1"),),
        shift_count="src1",
    ),
    _lanes(
        "tshr",
        "Shift right by a count per lane.",
        "dst = src0 >> src1; arithmetic for signed types, logical for unsigned ones.",
        typesets.INTS,
        typesets.INT32,
        typesets.INTS,
        common.SHIFT_COUNTS,
        formulas=(Formula("src0 >> src1"),),
        shift_count="src1",
    ),
    _lanes(
        "trem",
        "Floored remainder: the result has the divisor's sign.",
        "r = truncated remainder; where r != 0 and the operands' signs differ, r += src1; dst = r.",
        typesets.STANDARD,
        ("f32", "i32"),
        typesets.A5_DIVISION,
        common.DIVISION_TRAPS,
        common.SOFTWARE_REMAINDER,
        common.SCRATCH_OPTIONAL,
        operands=(*common.BINARY, elementwise.TMP),
        attributes=(common.PRECISION,),
        extra=elementwise.REMAINDER_SCRATCH,
        divisor=("src1",),
        formulas=(Formula("rem(src0, src1)"),),
        # The simulator reads the divisor again after it wrote the truncated remainder.
        in_place={"cpu_sim": ("src0",)},
        apart=(Apart("dst", ("src0", "src1"), "a2a3/TRem.hpp: sources are read after dst is written"),),
    ),
    _lanes(
        "tfmod",
        "Truncated remainder: the result has the dividend's sign.",
        "dst = src0 - trunc(src0 / src1) * src1, exactly for floats.",
        typesets.STANDARD,
        ("f32",),
        ("f32", "f16", "i32", "u32", "i16", "u16"),
        common.DIVISION_TRAPS,
        attributes=(common.PRECISION,),
        divisor=("src1",),
        formulas=(Formula("fmod(src0, src1)"),),
        apart=(Apart("dst", ("src0", "src1"), "a2a3/TFmod.hpp: sources are read after dst is written"),),
    ),
    common.tile_instruction(
        "tpow",
        "Lane-wise power with a tile of exponents.",
        "dst = base ^ exp; integers by wrapping multiplication (x^0 = 1, negative exponents 0 "
        "except for base +-1), "
        "floats as C pow.",
        (common.DST, Operand("base", "in"), Operand("exp", "in"), elementwise.POWER_TMP),
        typesets.table(typesets.STANDARD, _A2A3_POWER, _A5_POWER),
        attributes=(common.PRECISION,),
        extra=(elementwise.precision_types, elementwise.precise_power, *elementwise.POWER_SCRATCH),
        decisions=(
            common.SCRATCH_OPTIONAL,
            Decision(
                "One page treats tpow as A5-only.",
                "It exists on every profile: the instruction page, the A2/A3 header and the "
                "simulator implement it.",
                f"{common.PAGES}; {common.HEADER_LISTS}",
            ),
        ),
        formulas=(Formula("pow(base, exp)", shown="base ^ exp"),),
        accuracy=POWER,
        positive=("base", "exp"),
    ),
)


_INTEGER_FUNCTIONS = Decision(
    "Do exponential and logarithm exist for integers?",
    "On cpu_sim for i32, i16 and u8, as recorded: evaluated in double and truncated.",
    common.SIMULATOR_VALUES,
)
_FUNCTION_TYPES = (*typesets.FLOATS, "i32", "i16", "u8")

_ONE_SOURCE = (
    _unary(
        "tabs",
        "Absolute value.",
        "dst = -src where src < 0, else src: -0 stays -0, NaN keeps its sign, the integer minimum "
        "wraps to itself.",
        (*typesets.FLOATS, "i32", "i16", "i8"),
        typesets.HALVES,
        ("f32", "f16", "i32", "i16", "i8"),
        common.formal(
            "What becomes of -0 and of a NaN with its sign bit set?",
            "Both stay.",
            common.SIMULATOR_VALUES,
            "the sign bit is cleared",
            "asl/tile/model/execution/unary.asl",
        ),
        formulas=(Formula("-src if src < 0 else src"),),
    ),
    _unary(
        "tneg",
        "Negation.",
        "dst = -src; floats flip the sign bit, integers wrap.",
        typesets.STANDARD,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_PRODUCTS,
        formulas=(Formula("-src"),),
    ),
    _unary(
        "tnot",
        "Bitwise complement.",
        "dst = ~src.",
        typesets.INTS,
        typesets.INT32,
        typesets.INT32,
        formulas=(Formula("~src"),),
    ),
    _unary(
        "trelu",
        "Maximum with zero.",
        "dst = 0 where src < 0, else src: NaN and -0 pass through.",
        typesets.STANDARD,
        ("f32", "f16", "i32"),
        ("f32", "f16", "i32"),
        common.formal(
            "What becomes of -0 and NaN?",
            "Both pass with their bits.",
            common.SIMULATOR_VALUES,
            "+0, and the canonical NaN",
            "asl/tile/model/execution/unary.asl",
        ),
        formulas=(Formula("0 if src < 0 else src"),),
    ),
    _function(
        "texp",
        "Exponential.",
        "dst = e^src; overflow gives inf, exp(-inf) = 0.",
        _FUNCTION_TYPES,
        typesets.HALVES,
        typesets.HALVES,
        _INTEGER_FUNCTIONS,
        formulas=(Formula("exp(src)"),),
        accuracy=within(common.ONE_ULP, Range(-14, 3.2)),
    ),
    _function(
        "tlog",
        "Natural logarithm.",
        "dst = ln(src); ln(0) = -inf, negative values give NaN.",
        _FUNCTION_TYPES,
        typesets.HALVES,
        typesets.HALVES,
        _INTEGER_FUNCTIONS,
        formulas=(Formula("log(src)"),),
        accuracy=within(common.ONE_ULP, POSITIVE_NORMALS),
        positive=("src",),
    ),
    _function(
        "tsqrt",
        "Square root.",
        "dst = sqrt(src), correctly rounded.",
        typesets.FLOATS,
        typesets.HALVES,
        typesets.HALVES,
        formulas=(Formula("sqrt(src)"),),
        accuracy=correctly_rounded(POSITIVE_NORMALS),
        positive=("src",),
    ),
    common.tile_instruction(
        "trsqrt",
        "Reciprocal square root.",
        "dst = 1 / sqrt(src), rounded once from the exact value; on a5 with HIGH_PRECISION the root is "
        "rounded and then its reciprocal.",
        (common.DST, common.SRC, replace(elementwise.TMP, implied=None, used_on=("a2a3",))),
        typesets.table(typesets.HALVES, typesets.HALVES, typesets.HALVES),
        attributes=(common.PRECISION,),
        extra=(elementwise.precise_with_tmp,),
        decisions=(
            Decision(
                "A2/A3 has an approximate form without tmp and an accurate one with tmp.",
                "Both give the correctly rounded value; tmp only selects the overload.",
                f"{common.PAGES}; {common.SIMULATOR_VALUES}",
            ),
            Decision(
                "How often does the precise form round?",
                "Twice on a5, whose header divides by a rounded root; once elsewhere.",
                f"pto-isa header and system tests of trsqrt; {common.SIMULATOR_VALUES}",
            ),
        ),
        formulas=(Formula("rsqrt(src)"),),
        accuracy=correctly_rounded(POSITIVE_NORMALS),
        positive=("src",),
        assembly=Assembly(generic=segments("src dst tmp")),
    ),
    _function(
        "trecip",
        "Reciprocal.",
        "dst = 1 / src in the element type; integers truncate, so the result is 0 except for +-1.",
        typesets.STANDARD,
        typesets.A2A3_ARITHMETIC,
        typesets.A5_DIVISION,
        common.DIVISION_TRAPS,
        formulas=(Formula("recip(src)"),),
        accuracy=correctly_rounded(Range(-14, 14)),
        divisor=("src",),
        apart=(Apart("dst", ("src",), "page trecip (constraints)"),),
    ),
)


# -- three inputs, or a fused second step ------------------------------------------------------------

_ACCUMULATE = (common.ACCUMULATOR, common.SRC0, common.SRC1)
_RELU_TO_ZERO = Decision(
    "What does this ReLU make of NaN and -0?",
    "x > 0 ? x : 0, so NaN becomes +0 and -0 becomes +0 (unlike trelu).",
    common.SIMULATOR_VALUES,
)


def _fused(
    name: str,
    summary: str,
    semantics: str,
    *decisions: Decision,
    accumulates: bool = True,
    **facts: Unpack[Facts],
) -> Instruction:
    return common.tile_instruction(
        name,
        summary,
        semantics,
        _ACCUMULATE if accumulates else common.BINARY,
        table(STANDARD, HALVES, HALVES),
        decisions=decisions,
        **facts,
    )


def _three_source(name: str, summary: str, sign: str) -> Instruction:
    two = f"src0 {sign} src1"
    return common.tile_instruction(
        name,
        summary,
        f"Three sources: dst = (src0 {sign} src1) + src2, integers wrap; {common.ROUNDED_SUMS}. Two sources: "
        f"dst = src0 {sign} src1 clamped to the finite range of the element type.",
        (*common.BINARY, Operand("src2", "in", optional=True)),
        table(SIMULATED, STANDARD, SIMULATED),
        decisions=(
            Decision(
                "The overview calls it a saturating operation, the instruction page and the "
                "simulator a sum of three.",
                "The number of sources decides. Two: one rounding to nearest even, then integers "
                "clamp to min/max and "
                "float overflow and infinities become the largest finite value, NaN stays. Three: wrapping.",
                f"Tile Instruction Set overview (saturating variants); {common.PAGES}; "
                f"{common.SIMULATOR_VALUES}",
            ),
            Decision(
                "No per-profile type list exists and no hardware kernel.",
                "Every standard type on every profile, one-byte floats where the profile has them; "
                "scale and 4-bit "
                "types have no arithmetic.",
                "Tile Instruction Set overview (type support by profile)",
            ),
        ),
        formulas=(
            Formula(f"clamp({two})", shown=f"{two} clamped to the finite range of the element type"),
            Formula(f"({two}) + src2", "f32"),
        ),
    )


def _relu_convert(name: str, summary: str, sign: str, page: str) -> Instruction:
    rows = (("f16", "f32"), ("i8", "f16"), ("i8", "i16"))
    src = (Operand("src0", "in", dtype="S"), Operand("src1", "in", dtype="S"))
    operands = (Operand("dst", "out", dtype="D"), *src)
    every = ("cpu_sim", *HARDWARE)
    return common.tile_instruction(
        name,
        summary,
        f"dst = convert(max(0, src0 {sign} src1)); the conversion rounds to nearest even and saturates.",
        operands,
        pairs(rows, rows, rows),
        type_vars=("D", "S"),
        placement=(in_vec(operands, every), row_major(operands, every)),
        extra=(equal_valid(("dst", "src0", "src1"), page), non_empty(("dst",), page)),
        reads=("src0", "src1"),
        decisions=(
            Decision(
                "The simulator declares the instruction without implementing it; is it legal on cpu_sim?",
                "Yes, with the page's formula.",
                page,
            ),
            Decision(
                "In which precision is the sum formed?",
                "Rounded to the source type for f32 and f16; not wrapped for i16 (a sum of 32768 gives 127).",
                f"{page} (A5 sequence, saturating conversion)",
            ),
            Decision(
                "ReLU and conversion of special values?",
                "ReLU is x > 0 ? x : +0 with NaN kept; f16 clamps to 65504 including +inf, NaN stays; "
                "int8 clamps to [0, 127] and NaN becomes 0.",
                page,
            ),
        ),
        sources=(page, "pto-isa headers"),
    )


def _bits_of_rows(site: Site) -> tuple[int, int] | None:
    """A bit for each valid element of dst."""
    rows, cols = site.region("dst")
    return None if rows is None or cols is None else (rows, -(-cols // 8))


def _whole_bits(site: Site) -> int | None:
    """A line of whole blocks more than the bits of dst."""
    rows, cols = site.region("dst")
    return None if rows is None or cols is None else (rows + 1) * max(32, -(-cols // 256) * 32)


_PRELU_TMP = Operand(
    "tmp",
    "tmp",
    optional=True,
    dtype=None,
    note="mask buffer of A2/A3 (u8); ignored elsewhere",
    default=("u8",),
    implied=Implied("dst"),
)
_DEQ_OPERANDS = (
    Operand("dst", "out", dtype="D"),
    Operand("src0", "in", dtype="S", note="destroyed on A2/A3"),
    Operand("src1", "in", dtype="S", note="destroyed on A2/A3"),
    Operand("deqScale", "in", "scalar", dtype="f32"),
    Operand(
        "tmp",
        "tmp",
        dtype=None,
        optional=True,
        note="scratch of A2/A3; ignored elsewhere",
        default=("i32",),
        used_on=("a2a3",),
    ),
)
_DEQ_SIMULATED = (
    ("f16", "i32"), ("f32", "i32"), ("bf16", "i32"), ("f16", "i16"), ("f16", "f32"), ("f32", "f16"),
)  # fmt: skip

_FUSED_INSTRUCTIONS: tuple[Instruction, ...] = (
    common.tile_instruction(
        "tprelu",
        "ReLU with a slope per lane.",
        "dst = src0 where src0 > 0, else src0 * src1.",
        (common.DST, common.SRC0, common.SRC1, _PRELU_TMP),
        table(STANDARD, HALVES, HALVES),
        extra=(
            fixed_type("tmp", ("u8", "i8"), ("a2a3",), "page tprelu (A2/A3 implementation checks)"),
            scratch(_bits_of_rows, "a bit for each valid element of dst", HEADERS),
            scratch_bytes(
                _whole_bits,
                "a row of whole blocks more than the valid rows of dst",
                edit("tmp", lambda t: replace(t, rows=t.v_row or 0, cols=32, v_col=8)),
            ),
        ),
        decisions=(common.SCRATCH_OPTIONAL,),
        formulas=(Formula("src0 if src0 > 0 else src0 * src1"),),
        apart=(Apart("dst", ("src0", "src1"), "page tprelu (A2/A3 implementation checks)"),),
    ),
    _three_source("taddc", "Saturating add of two tiles, or sum of three.", "+"),
    _three_source("tsubc", "Saturating subtraction of two tiles, or difference plus a third.", "-"),
    _fused(
        "tmuladddst",
        "Multiply the sources and add into the destination.",
        "dst = src0 * src1 + dst, the product rounded to the element type first.",
        Decision(
            "One rounding or two?",
            "Two: the product is rounded before the sum on every profile.",
            common.SIMULATOR_VALUES,
        ),
        formulas=(Formula("src0 * src1 + dst"),),
    ),
    _fused(
        "tfusedmuladd",
        "Multiply the destination by src0 and add src1.",
        "dst = src0 * dst + src1, the product rounded to the element type first; on cpu_sim f16 and bf16 "
        "round once, from an f32 expression.",
        Decision(
            "Where does f16 round?",
            "The product before the sum on a2a3 and a5; on cpu_sim once at the end, as recorded.",
            f"pto-isa system tests of tfusedmuladd; {common.SIMULATOR_VALUES}",
        ),
        # Of cpu_sim, where 16-bit types round once.
        formulas=(Formula("src0 * dst + src1", "f32", complete=False),),
    ),
    _fused(
        "tfusedmuladdrelu",
        "Multiply the destination by src0, add src1, ReLU.",
        "t = src0 * dst + src1 with the product rounded first; dst = t where t > 0, else 0.",
        _RELU_TO_ZERO,
        formulas=(Formula("relu(src0 * dst + src1)"),),
    ),
    _fused(
        "tsubrelu",
        "Difference, then ReLU.",
        "t = src0 - src1; dst = t where t > 0, else 0.",
        _RELU_TO_ZERO,
        Decision(
            "Do narrow integers wrap before or after the ReLU?",
            "8- and 16-bit differences are compared as exact integers and then wrap; 32- and 64-bit "
            "ones wrap first.",
            common.SIMULATOR_VALUES,
        ),
        accumulates=False,
        # Narrow integers do not wrap between the two steps.
        formulas=(Formula("relu(src0 - src1)", complete=False),),
    ),
    common.tile_instruction(
        "taddrelu",
        "Sum, then ReLU.",
        "t = src0 + src1; dst = t where t > 0, else 0.",
        common.BINARY,
        table(("f32", "f16", "i16"), ("f32", "f16", "i16"), ()),
        decisions=(
            _RELU_TO_ZERO,
            Decision(
                "The simulator lacks the instruction; is it legal on cpu_sim?",
                "Yes, with the same formula.",
                changes.DIALECT,
            ),
            Decision(
                "No page gives the steps. Do narrow integers wrap before or after the ReLU?",
                "After it, as in tsubrelu: 16-bit sums are compared as exact integers and then wrap.",
                f"{changes.DIALECT}; {common.SIMULATOR_VALUES} of tsubrelu",
            ),
        ),
        formulas=(Formula("relu(src0 + src1)", complete=False),),
        changes=(changes.new("max(src0 + src1, 0) on a2a3"),),
        sources=(changes.DIALECT,),
    ),
    _relu_convert("taddreluconv", "Sum, ReLU and narrowing conversion.", "+", "page TADDReluConv"),
    _relu_convert(
        "tsubreluconv",
        "Difference, ReLU and narrowing conversion.",
        "-",
        "page TADDReluConv, applied to subtraction",
    ),
    common.tile_instruction(
        "tadddeqrelu",
        "Integer sum, dequantisation by a scalar, ReLU.",
        "dst = relu(convert(f32(src0 + src1) * deqScale)); the integer sum wraps.",
        _DEQ_OPERANDS,
        pairs(_DEQ_SIMULATED, (("f16", "i32"),), (("f16", "i32"),)),
        type_vars=("D", "S"),
        extra=(
            fixed_type("tmp", ("i32",), HARDWARE, "page tadddeqrelu; headers"),
            scratch(region_of_dst, "the valid region of dst", HEADERS, severity="warning"),
        ),
        decisions=(
            common.SCRATCH_OPTIONAL,
            _RELU_TO_ZERO,
            Decision(
                "Does an f16 overflow saturate?",
                "No: it becomes inf, as recorded.",
                common.SIMULATOR_VALUES,
            ),
            Decision(
                "The page scales by 2^-17 and back around the product.",
                "Not done: the product is formed in f32 directly, as recorded.",
                common.SIMULATOR_VALUES,
            ),
        ),
    ),
)

INSTRUCTIONS: tuple[Instruction, ...] = (*_TWO_SOURCES, *_ONE_SOURCE, *_FUSED_INSTRUCTIONS)
