"""Elementwise tile-tile instructions: arithmetic, bitwise, shifts and functions of one tile.

Fused and three-source instructions are in :mod:`.elementwise_fused`, comparison, selection and
conversion in :mod:`.elementwise_select`.
"""

from dataclasses import replace
from functools import partial
from typing import Unpack

from . import common
from .assembly import Assembly, segments
from .declare import Contradiction, Decision, Instruction, Operand
from .rules import elementwise, typesets
from .semantics import POSITIVE_NORMALS, QUOTIENT, Apart, Formula, Range, correctly_rounded, of_two, within

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

INSTRUCTIONS: tuple[Instruction, ...] = (*_TWO_SOURCES, *_ONE_SOURCE)
