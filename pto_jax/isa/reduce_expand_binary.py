"""Arithmetic with one operand expanded: a value (or block) per row, or a row for all of them."""

from dataclasses import replace
from typing import Unpack

from ..profiles import PROFILE_NAMES
from .common import BINARY, DIVISION_TRAPS, ONE_ULP, PRECISION, SIMULATOR_VALUES, tile_instruction
from .declare import Attribute, Constraint, Contradiction, Decision, Instruction, Operand
from .elementwise import NAN_FIRST, ZERO_FIRST
from .rules import elementwise, regions
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, equal_valid, in_vec
from .rules.reduce_expand import first_line_covers, row_major_only, vector_room
from .rules.reduce_expand_modes import ROW_BROADCAST, TMP_MODE_OF_A5, tmp_size, uses_hidden_scratch
from .rules.regions import LARGER
from .rules.typesets import HALVES, table
from .samples.operations import column_broadcasts, row_broadcasts
from .semantics import Facts, Range, correctly_rounded, of_two, within

_PAGE = "page pto.trowexpandadd"
_TMP = Operand(
    "tmp",
    "tmp",
    dtype=None,
    optional=True,
    note="mode 1 only: blocks of the per-row scalars on A2/A3; ignored elsewhere",
    used_on=("a2a3",),
)
_ROW_OPERANDS = (replace(BINARY[0], extent=LARGER), *BINARY[1:], _TMP)
_SIMULATED = ("f32", "f16", "i16", "i32", "u16", "u32")
_A2A3 = ("f16", "f32", "i16", "i32")
_A5 = ("f16", "f32", "bf16", "i16", "i32", "u16", "u32", "i8", "u8")

_PAGES = f"instruction pages; {HEADERS}; simulator static checks"
_TITLES = {
    "add": "Sum",
    "sub": "Difference",
    "mul": "Product",
    "div": "Quotient",
    "max": "Maximum",
    "min": "Minimum",
    "expdif": "Exponential of the difference",
}
_EXPDIF = within({d: ONE_ULP[d] for d in HALVES}, Range(-7, 2), Range(-7, 2))
#: Measured with tdiv, of which each lane is one.
_QUOTIENT = correctly_rounded()

_MODES = Decision(
    "Which operand is expanded, and how?",
    "The one whose valid region is not dst's, keeping its side of the operation. Mode 1: a col_major column, "
    "one scalar per row. Mode 2: a row_major tile of 32 bytes of valid columns, repeated along the row. In "
    "all cases the value read is src(r, c mod validCol(src)).",
    f"{_PAGE}; {SIMULATOR_VALUES}",
)
_BOTH_MATCH = Contradiction(
    "Both sources have dst's valid region?",
    "An error on a2a3 and a5, a warning on cpu_sim; the value is that of the lane-wise operation.",
    f"{_PAGE} (exactly one); {SIMULATOR_VALUES}",
    other="legal, the lane-wise operation",
    other_source="pto-isa system tests of trowexpand* (21 cases)",
)
_TEMPLATE = Contradiction(
    "What is read of a row_major operand of mode 2?",
    "Its 32 bytes of valid columns, repeated along the row.",
    f"{_PAGE}; {HEADERS} and their system tests",
    other="column 0 of src1, one scalar per row",
    other_source="PTOAS tilelang system tests of trowexpand* (48 cases)",
    key="column-zero",
    profiles=("a5",),
)
_TMP_RULES = Decision(
    "What does tmp mean?",
    "Scratch of mode 1 on a2a3, where its size is checked: ceil(R / 8) * 256 bytes for R < 256 rows, else "
    "7680 (8192 always suffice). Accepted and ignored on cpu_sim and a5. With mode 2 an error everywhere.",
    f"{_PAGE} (temporary tile)",
)
_HIDDEN = Decision(
    "Where does A2/A3 keep the blocks of mode 1 without tmp?",
    "In bytes [188416, 196608) of the unified buffer: a tile with an address there is an error in the same "
    "kernel, and automatic allocation ends below.",
    f"{_PAGE} (internal 8 KB buffer); {HEADERS}",
)
_ADD_TYPES = Decision(
    "Which element types? Headers accept more on A5.",
    "The page's table: f16, f32, i16, i32 on a2a3 and a5, u16 and u32 on a5; cpu_sim what it executes.",
    f"{_PAGE}; {SIMULATOR_VALUES}",
)
_NO_INTEGERS = Decision(
    "Pages list integer division for A2/A3, the header does not take it.",
    "Floats only on a2a3.",
    HEADERS,
)
_TWO_STEPS = Decision(
    "Where is the exponential of a difference rounded?",
    "The difference to the element type, then the exponential once.",
    SIMULATOR_VALUES,
)
_ROW_ZERO = Decision(
    "Which source is the vector? The header also swaps them when src0's valid region is not dst's.",
    "Always src1, of which row 0 is read, as the pages state; on a2a3 and a5 src0 must have dst's valid "
    "region, so that the swap cannot happen.",
    f"instruction pages; {HEADERS}; {SIMULATOR_VALUES}",
)


def _common(operation: str) -> Facts:
    """The simulator reads an operand that is not expanded in step with what it writes."""
    return {"formulas": (of_two(operation),), "in_place": {"cpu_sim": ("src0", "src1")}}


def _row(
    operation: str,
    formula: str,
    cpu_sim: tuple[str, ...],
    a2a3: tuple[str, ...],
    a5: tuple[str, ...],
    *decisions: Decision,
    attributes: tuple[Attribute, ...] = (),
    extra: tuple[Constraint, ...] = (),
    **facts: Unpack[Facts],
) -> Instruction:
    name = f"trowexpand{operation}"
    facts |= _common(operation)
    instruction = tile_instruction(
        name,
        f"{_TITLES[operation]} with one operand expanded along rows.",
        f"dst(r, c) = {formula} with a = src0(r, c mod validCol(src0)), b = src1(r, c mod validCol(src1)).",
        _ROW_OPERANDS,
        table(cpu_sim, a2a3, a5),
        cls="reduce_expand",
        attributes=attributes,
        forms=(("src0", "src1"), ("src0", "src1", "tmp")),
        reads=(),
        placement=(in_vec(BINARY), row_major_only(("dst",), PROFILE_NAMES, _PAGE)),
        extra=(*ROW_BROADCAST, tmp_size, *extra),
        decisions=(_MODES, _TEMPLATE, _BOTH_MATCH, _TMP_RULES, _HIDDEN, *decisions),
        sources=tuple(dict.fromkeys((f"page pto.{name}", _PAGE, "pto-isa headers", SIMULATOR_VALUES))),
        sampler=row_broadcasts,
        **facts,
    )
    return replace(instruction, hidden_scratch=uses_hidden_scratch)


def _column(
    operation: str,
    formula: str,
    cpu_sim: tuple[str, ...],
    a2a3: tuple[str, ...],
    a5: tuple[str, ...],
    *decisions: Decision,
    attributes: tuple[Attribute, ...] = (),
    **facts: Unpack[Facts],
) -> Instruction:
    name = f"tcolexpand{operation}"
    facts |= _common(operation)
    same_region = equal_valid(("dst", "src0"), HEADERS)
    return tile_instruction(
        name,
        f"{_TITLES[operation]} with a row expanded over all rows.",
        f"dst(r, c) = {formula} with a = src0(r, c), b = src1(0, c).",
        BINARY,
        table(cpu_sim, a2a3, a5),
        cls="reduce_expand",
        attributes=attributes,
        reads=("src0",),
        placement=(in_vec(BINARY), row_major_only(("dst", "src0", "src1"), PROFILE_NAMES, _PAGES)),
        extra=(
            replace(same_region, profiles=HARDWARE),
            *(replace(c, profiles=SIMULATOR) for c in regions.covers(("src0",), "dst")[1:]),
            vector_room("src1", "cols"),
            first_line_covers("src1", "cols", HARDWARE, "error"),
            first_line_covers("src1", "cols", SIMULATOR, "warning"),
        ),
        decisions=(_ROW_ZERO, *decisions),
        sampler=column_broadcasts,
        **facts,
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _row("add", "a + b", _SIMULATED, _A2A3, (*_A2A3, "u16", "u32"), _ADD_TYPES, extra=(TMP_MODE_OF_A5,)),
    _row("sub", "a - b", _SIMULATED, _A2A3, _A5),
    _row("mul", "a * b", (*_SIMULATED, "u8"), _A2A3, _A5),
    _row(
        "div",
        "a / b",
        _SIMULATED,
        ("f16", "f32"),
        _A5,
        DIVISION_TRAPS,
        _NO_INTEGERS,
        attributes=(PRECISION,),
        extra=(elementwise.precise_with_tmp,),
        accuracy=_QUOTIENT,
        divisor=("src1",),
        # Either source may be the expanded one.
        positive=("src0",),
    ),
    _row("max", "b where a < b, else a,", _SIMULATED, _A2A3, _A5, NAN_FIRST, ZERO_FIRST),
    _row("min", "b where b < a, else a,", _SIMULATED, _A2A3, _A5, NAN_FIRST, ZERO_FIRST),
    _row("expdif", "exp(a - b)", HALVES, HALVES, HALVES, _TWO_STEPS, accuracy=_EXPDIF),
    _column("add", "a + b", _SIMULATED, _A2A3, _A5),
    _column("sub", "a - b", _SIMULATED, _A2A3, _A5),
    _column("mul", "a * b", (*_SIMULATED, "u8"), _A2A3, _A5),
    _column(
        "div",
        "a / b",
        _SIMULATED,
        ("f16", "f32"),
        _A5,
        DIVISION_TRAPS,
        _NO_INTEGERS,
        attributes=(PRECISION,),
        accuracy=_QUOTIENT,
        divisor=("src1",),
    ),
    _column("max", "b where a < b, else a,", _SIMULATED, _A2A3, _A5, NAN_FIRST, ZERO_FIRST),
    _column("min", "b where b < a, else a,", _SIMULATED, _A2A3, _A5, NAN_FIRST, ZERO_FIRST),
    _column("expdif", "exp(a - b)", HALVES, HALVES, HALVES, _TWO_STEPS, accuracy=_EXPDIF),
)
