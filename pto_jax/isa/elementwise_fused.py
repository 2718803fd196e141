"""Elementwise instructions with three inputs or a fused second step."""

from dataclasses import replace
from typing import Unpack

from . import changes, common
from .declare import Decision, Implied, Instruction, Operand, Site
from .rules.constraints import HARDWARE, HEADERS, equal_valid, fixed_type, in_vec, non_empty, row_major
from .rules.elementwise import scratch, scratch_bytes, valid_region
from .rules.forbid import edit
from .rules.typesets import HALVES, SIMULATED, STANDARD, pairs, table
from .semantics import Apart, Facts, Formula

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

INSTRUCTIONS: tuple[Instruction, ...] = (
    common.tile_instruction(
        "tprelu",
        "ReLU with a slope per lane.",
        "dst = src0 where src0 > 0, else src0 * src1.",
        (common.DST, common.SRC0, common.SRC1, _PRELU_TMP),
        table(STANDARD, HALVES, HALVES),
        extra=(
            fixed_type("tmp", ("u8", "i8"), ("a2a3",), "page tprelu (A2/A3 implementation checks)"),
            scratch("tmp", _bits_of_rows, "a bit for each valid element of dst", HEADERS),
            scratch_bytes(
                "tmp",
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
            scratch("tmp", valid_region("dst"), "the valid region of dst", HEADERS, severity="warning"),
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
