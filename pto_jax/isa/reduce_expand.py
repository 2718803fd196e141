"""Reductions of rows and columns to one value each, and expansions of one column or row.

Positions of extreme values are in :mod:`.reduce_expand_index`, expansions combined with arithmetic in
:mod:`.reduce_expand_binary`.
"""

from dataclasses import replace
from functools import partial

from .assembly import AS_DECLARED, Assembly
from .common import (
    DST,
    OUT_OF_REGION,
    PAGES,
    SCRATCH_OPTIONAL,
    SIMULATOR_SAME_TYPE,
    SIMULATOR_VALUES,
    SRC,
    formal,
    tile_instruction,
)
from .declare import Attribute, Constraint, Contradiction, Decision, Implied, Instruction, Operand, Site
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, equal_valid, in_vec, no_half, same_as
from .rules.elementwise import TMP, scratch
from .rules.reduce_expand import (
    PAIR_SCRATCH,
    column_vector,
    equal_extent,
    filled_source,
    first_line_covers,
    holds,
    in_pairs,
    no_boxes,
    plain,
    row_major_only,
    vector_room,
)
from .rules.regions import COLUMN, OPEN, ROW
from .rules.typesets import FLOATS, HALVES, STANDARD, Rows, TypeTable, pairs, table
from .samples.operations import expansions, pair_sums, reductions

A2A3_REDUCED = ("f16", "f32", "i32", "i16")
_A5_COLUMNS = ("f16", "f32", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
_WIDENED: Rows = (("f32", "f16"), ("f32", "bf16"))
_DST = Operand("dst", "out", dtype="D", note="one value per row (column) of src, in column (row) 0")
_SRC = Operand("src", "in", dtype="S")
_ROW_OPERANDS = (replace(_DST, extent=COLUMN, default=("S",)), _SRC)
_COLUMN_OPERANDS = (replace(_DST, extent=ROW, default=("S",)), _SRC)
_EXPANDED_OPERANDS = (Operand("dst", "out", dtype="D", extent=OPEN, default=("S",)), _SRC)

#: Scratch that tools make of the source's size.
SOURCE_TMP = replace(TMP, implied=Implied("src", whole=True))

WHOLE_SOURCE = Decision(
    "Which valid region is iterated, and what is written?",
    "The source's. Only column 0 (rows reduced) or row 0 (columns reduced) of dst is written, one lane per "
    "valid row (column) of src, whatever dst's valid region is; every other lane keeps its bytes.",
    SIMULATOR_VALUES,
)
FOLD_ORDER = Decision(
    "In which order are floats accumulated? Hardware uses block instructions in an order no page gives.",
    "Ascending left fold on every profile, in the recorded accumulator type.",
    f"{SIMULATOR_VALUES}; pto-spec (architectural left fold)",
)
_GROUPS = Contradiction(
    "Does a row sum add groups of lanes first?",
    "No: the left fold, as no public source gives the order inside a group instruction.",
    f"{SIMULATOR_VALUES}; PTO-ISA/pto-spec decision 0082",
    other="sums of groups of lanes, added up; the orders of a2a3 and a5 differ, and NPU_MEMORY_INIT selects "
    "one in the simulator",
    other_source="hw-native-sys/pto-isa issue 304; simpler issue 2215",
)
EMPTY_SOURCE = Decision(
    "What does an empty source give?",
    "Hardware writes nothing; rows without columns, or columns without rows, are an error. cpu_sim: a sum is "
    "0, a product 1, a maximum the stored first lane, a minimum writes nothing.",
    f"{HEADERS}; simulator source",
)
FIRST_WINS = formal(
    "NaN and ties among extreme values?",
    "The first element is replaced by strictly larger (smaller) ones only: a NaN in first place stays, "
    "later ones are ignored; the first of equal values, +0 and -0 included, is kept with its bits.",
    SIMULATOR_VALUES,
    "NaN is ignored wherever it stands, and +0 wins in a maximum, -0 in a minimum",
    "decision 0082",
)


def _same(names: tuple[str, ...]) -> Rows:
    return tuple((d, d) for d in names)


def _row_scratch(site: Site) -> tuple[int, int] | None:
    """A2/A3 reduces integers, and products, into one 32-byte block, and folds wide rows of floats at once."""
    src = site.tile("src")
    if src is None:
        return None
    if not src.dtype.is_float or site.instruction.name == "trowprod":
        return 1, 256 // src.dtype.storage_bits
    (rows, cols), repeat = site.region("src"), 2048 // src.dtype.storage_bits
    return (rows, repeat) if rows is not None and cols is not None and cols > repeat else None


def _row_reduction(
    name: str,
    summary: str,
    semantics: str,
    cpu_sim: Rows,
    a2a3: tuple[str, ...],
    a5: tuple[str, ...],
    *decisions: Decision,
) -> Instruction:
    operands = (*_ROW_OPERANDS, SOURCE_TMP)
    return tile_instruction(
        name,
        summary,
        semantics,
        operands,
        pairs(cpu_sim, _same(a2a3), _same(a5)),
        cls="reduce_expand",
        type_vars=("D", "S"),
        domain="src",
        reads=(),
        placement=(in_vec(_ROW_OPERANDS), plain(("src",)), column_vector(("dst",))),
        extra=(
            holds(("dst",), "rows"),
            equal_extent(("src", "dst"), "rows"),
            filled_source("cols"),
            same_as("src", ("a2a3",), HEADERS),
            scratch(
                _row_scratch,
                "one 32-byte block, for floats in rows of more than 256 bytes that much for each row",
                f"page {name} (temporary space); a2a3/TRowReduceOps.hpp",
                severity="warning",
            ),
        ),
        decisions=(WHOLE_SOURCE, *decisions, EMPTY_SOURCE, SCRATCH_OPTIONAL, SIMULATOR_SAME_TYPE),
        sampler=partial(reductions, rowwise=True),
    )


def _column_reduction(
    name: str,
    summary: str,
    semantics: str,
    types: TypeTable,
    *decisions: Decision,
    operands: tuple[Operand, ...] = _COLUMN_OPERANDS,
    attributes: tuple[Attribute, ...] = (),
    extra: tuple[Constraint, ...] = (),
    assembly: Assembly = AS_DECLARED,
) -> Instruction:
    return tile_instruction(
        name,
        summary,
        semantics,
        operands,
        types,
        cls="reduce_expand",
        type_vars=("D", "S"),
        attributes=attributes,
        assembly=assembly,
        domain="src",
        reads=(),
        placement=(in_vec(_COLUMN_OPERANDS), plain(("dst", "src"))),
        extra=(holds(("dst",), "cols"), equal_extent(("src", "dst"), "cols"), *extra),
        decisions=(WHOLE_SOURCE, *decisions, EMPTY_SOURCE, SIMULATOR_SAME_TYPE),
        sampler=partial(reductions, rowwise=False),
    )


_ROUNDS_EACH_STEP = Decision(
    "Where are float results rounded?",
    "Every step, to the destination's type.",
    SIMULATOR_VALUES,
)
_SUM_IN_F32 = Decision(
    "Where are float results rounded?",
    "Sums of f16 and bf16 accumulate in f32 and round once at the end.",
    SIMULATOR_VALUES,
)
_BINARY_TREE = Decision(
    "Does isBinary change the result?",
    "Not on cpu_sim. On a2a3 and a5 rows are added in neighbouring pairs and the partial sums again until "
    "one is left, each addition rounded to the element type; at every level an odd last row is added to "
    "the first partial sum on a2a3 and to the last one on a5. One row is copied (a5 adds it to +0).",
    f"page tcolsum (temporary space); {HEADERS}; {SIMULATOR_VALUES}",
)
_EVERY_TYPE = (*_same(STANDARD), *_WIDENED)
_A5_EXTREMA = ("f16", "f32", "i32", "i16", "i8", "u8", "i64", "u64")

_ROWS = (
    _row_reduction(
        "trowsum",
        "Sum of each row.",
        "dst(r, 0) = +0 + src(r, 0) + src(r, 1) + ... from left to right; integers wrap in dst's type.",
        (*_same((*FLOATS, "i16", "i32")), *_WIDENED, ("i32", "i16")),
        A2A3_REDUCED,
        (*A2A3_REDUCED, "i64", "u64"),
        FOLD_ORDER,
        _GROUPS,
        _SUM_IN_F32,
    ),
    _row_reduction(
        "trowprod",
        "Product of each row.",
        "dst(r, 0) = 1 * src(r, 0) * src(r, 1) * ... from left to right in dst's type; integers wrap.",
        _EVERY_TYPE,
        A2A3_REDUCED,
        A2A3_REDUCED,
        FOLD_ORDER,
        _ROUNDS_EACH_STEP,
    ),
    _row_reduction(
        "trowmax",
        "Maximum of each row.",
        "dst(r, 0) = the first largest value of row r of src, converted to dst's type.",
        _EVERY_TYPE,
        A2A3_REDUCED,
        _A5_EXTREMA,
        FIRST_WINS,
    ),
    _row_reduction(
        "trowmin",
        "Minimum of each row.",
        "dst(r, 0) = the first smallest value of row r of src, converted to dst's type.",
        _EVERY_TYPE,
        A2A3_REDUCED,
        _A5_EXTREMA,
        FIRST_WINS,
    ),
)

_COLUMNS = (
    _column_reduction(
        "tcolsum",
        "Sum of each column.",
        "dst(0, c) = +0 + src(0, c) + src(1, c) + ... from top to bottom; integers wrap.",
        pairs((*_same(FLOATS), *_WIDENED), _same(A2A3_REDUCED), _same(_A5_COLUMNS)),
        FOLD_ORDER,
        _ROUNDS_EACH_STEP,
        _BINARY_TREE,
        operands=(*_COLUMN_OPERANDS, replace(TMP, implied=Implied("src", HARDWARE, in_pairs))),
        attributes=(Attribute("isBinary", bool, False, "add in pairs through tmp instead of one by one"),),
        extra=(
            same_as("src", ("a2a3",), "page tcolsum (A2/A3 implementation checks)"),
            *PAIR_SCRATCH,
        ),
        assembly=Assembly(inline=True),
    ),
    _column_reduction(
        "tcolprod",
        "Product of each column.",
        "dst(0, c) = 1 * src(0, c) * src(1, c) * ... from top to bottom in dst's type; integers wrap.",
        pairs(
            _EVERY_TYPE,
            _same(A2A3_REDUCED),
            _same(("f16", "f32", "bf16", "i16", "u16", "i32", "u32")),
        ),
        FOLD_ORDER,
        _ROUNDS_EACH_STEP,
    ),
    _column_reduction(
        "tcolmax",
        "Maximum of each column.",
        "dst(0, c) = the first largest value of column c of src, converted to dst's type.",
        pairs((*_same((*FLOATS, "i8", "u8")), *_WIDENED), _same(A2A3_REDUCED), _same(_A5_COLUMNS)),
        FIRST_WINS,
    ),
    _column_reduction(
        "tcolmin",
        "Minimum of each column.",
        "dst(0, c) = the first smallest value of column c of src, converted to dst's type.",
        pairs(_EVERY_TYPE, _same(A2A3_REDUCED), _same(_A5_COLUMNS)),
        FIRST_WINS,
    ),
)

TPAIRREDUCESUM = tile_instruction(
    "tpairreducesum",
    "Sums of neighbouring columns in the lower half of each row.",
    "For C valid columns: dst(r, k) = src(r, 2k) + src(r, 2k + 1) for 2k + 1 < C; dst(r, k) = 0 for the "
    "columns after them up to C, but a last column without a partner is added to 0 on cpu_sim.",
    (DST, SRC),
    table(STANDARD, HALVES, HALVES),
    cls="reduce_expand",
    placement=(in_vec((DST, SRC)), row_major_only(("dst", "src"), (*SIMULATOR, *HARDWARE), PAGES)),
    extra=(equal_valid(("dst", "src"), "page tpairreducesum (implementation checks)"),),
    decisions=(
        Decision(
            "What do lanes outside dst's valid region hold?",
            "0 in the whole physical tile on cpu_sim; unchanged on a2a3 and a5.",
            f"{SIMULATOR_VALUES}; page tpairreducesum",
        ),
        Decision(
            "What does a last column without a partner give?",
            "On cpu_sim its value plus 0, so +0 for -0. On a2a3 and a5 0: the headers count whole pairs.",
            f"{SIMULATOR_VALUES}; a2a3 and a5 headers and system tests",
        ),
    ),
    sampler=pair_sums,
    sized_by=("src",),
)

_CONVERTED: Rows = (("f32", "f16"), ("f16", "f32"), ("f32", "i32"))
_A2A3_EXPANDED = ("i8", "u8", "i16", "u16", "i32", "u32", "f16", "bf16", "f32")
_EXPANDED = pairs(
    (*_same(STANDARD), *_CONVERTED), _same(_A2A3_EXPANDED), _same((*_A2A3_EXPANDED, "i64", "u64"))
)
_COPIES = Decision(
    "Are values converted when the element types differ?",
    "Only cpu_sim allows it, as a plain cast (tcvt without saturation, floats truncated to integers). Equal "
    "types copy bits.",
    SIMULATOR_VALUES,
)


def _expansion(
    name: str, summary: str, semantics: str, extra: tuple[Constraint, ...], *decisions: Decision
) -> Instruction:
    return tile_instruction(
        name,
        summary,
        semantics,
        _EXPANDED_OPERANDS,
        _EXPANDED,
        cls="reduce_expand",
        type_vars=("D", "S"),
        reads=(),
        extra=extra,
        placement=(in_vec(_EXPANDED_OPERANDS), plain(("dst",) if name == "trowexpand" else ("dst", "src"))),
        decisions=(_COPIES, OUT_OF_REGION, *decisions),
        sampler=partial(expansions, rowwise=name == "trowexpand"),
        moves="select",
    )


_EMPTY_EXPANSION = Decision(
    "Pages disagree on empty regions: an early return or an assertion.",
    "An empty region of dst writes nothing (of trowexpand: 0x0 only); a vector without the elements "
    "dst needs is an error on a2a3 and a5.",
    PAGES,
)

_EXPANSIONS = (
    _expansion(
        "trowexpand",
        "Copy of column 0 over every column.",
        "dst(r, c) = src(r, 0) for the valid lanes of dst.",
        (
            no_boxes(("src",), HARDWARE),
            vector_room("src", "rows"),
            equal_extent(("dst", "src"), "rows", f"page trowexpand; {HEADERS}"),
            replace(no_half(("src", "dst"), "PTOAS verifier"), profiles=HARDWARE),
            first_line_covers("src", "rows", SIMULATOR, "warning"),
        ),
        _EMPTY_EXPANSION,
        Decision(
            "The page requires a row_major source; headers and the assembler accept a column too.",
            "Both are legal.",
            f"{HEADERS}; PTOAS verifier",
        ),
    ),
    _expansion(
        "tcolexpand",
        "Copy of row 0 over every row.",
        "dst(r, c) = src(0, c) for the valid lanes of dst.",
        (
            vector_room("src", "cols"),
            equal_extent(("dst", "src"), "cols", f"page tcolexpand; {HEADERS}"),
            first_line_covers("src", "cols", SIMULATOR, "warning"),
        ),
        _EMPTY_EXPANSION,
    ),
)

INSTRUCTIONS: tuple[Instruction, ...] = (*_ROWS, *_COLUMNS, TPAIRREDUCESUM, *_EXPANSIONS)
