"""Recorded cases that are not a requirement: the one table, with a reason for each entry.

Two kinds. An *excluded* case records a plain defect of the C++ simulator, so the engine follows the
documented rule and differs. A case with a *not required* tag records something the vectors give for
information; it is compared and reported separately, and it fails nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..isa.rules.typesets import BYTE_FLOATS, FIRST_SPECIAL
from .manifest import Case, ScalarOperand, TileOperand
from .physical import to_logical


@dataclass(frozen=True)
class Exclusion:
    """Cases excluded for one defect of the simulator. ``id`` names the entry in reports."""

    id: str
    applies: Callable[[Case], bool]
    reason: str


# Instructions by name: recorded files are what they are, whatever is declared.
#: Instructions whose recorded form has operands that an operation does not name, or handles for results.
OTHER_FORMS = frozenset("tmrgsort tfillpad_inplace trandom timg2col tprefetch tsetval".split())
#: Tags of cases that are reported but not required, and why.
NOT_REQUIRED: dict[str, str] = {
    "host-undefined": "the C++ operation is undefined for this input, the host's answer is recorded",
    "experimental-dtype": (
        "the simulator's 4-bit encoders round to an integer first, and its 8-bit and 4-bit decoders know "
        "no NaN, infinity or negative zero"
    ),
}

_ARITHMETIC = frozenset({"tadd", "tsub", "tmul"})


def _dtypes(case: Case) -> tuple[str, ...]:
    return tuple(o.dtype.name for o in case.operands if isinstance(o, TileOperand | ScalarOperand))


def _encodes_eight_bits(case: Case) -> bool:
    return (
        case.instruction == "tcvt" and _dtypes(case)[0] in BYTE_FLOATS and _dtypes(case)[1] not in BYTE_FLOATS
    )


def _saturates_from_eight_bits(case: Case) -> bool:
    return (
        case.instruction == "tcvt"
        and _dtypes(case)[1] in BYTE_FLOATS
        and case.attrs.get("saturationMode") == "ON"
    )


def _wraps_at_the_limit(case: Case) -> bool:
    return (
        case.instruction == "tcvt"
        and _dtypes(case)[:2] == ("i64", "u64")
        and case.attrs.get("saturationMode") == "ON"
    )


def _multiplies_special_codes(case: Case) -> bool:
    """A block-scaled product whose valid operands hold a code for NaN or infinity."""
    if case.instruction not in ("tmatmul_mx", "tgemv_mx"):
        return False
    tiles = [o for o in case.operands if isinstance(o, TileOperand) and o.dtype.name in FIRST_SPECIAL]
    return any(_has_special(o) for o in tiles)


def _has_special(operand: TileOperand) -> bool:
    t = operand.type
    words = to_logical(t, operand.before)[: t.v_row, : t.v_col]
    magnitude = words if t.dtype.name == "f8e8m0" else words & 0x7F
    return bool((magnitude >= FIRST_SPECIAL[t.dtype.name]).any())


def _overlapping_blocks(case: Case) -> bool:
    """A sort of 16-bit data with several blocks of 32 columns."""
    sources = [o.type for o in case.operands if isinstance(o, TileOperand) and o.name == "src"]
    return case.instruction == "tsort32" and any(t.dtype.bits == 16 and (t.v_col or 0) > 32 for t in sources)


EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "fp8-arithmetic-encoder",
        lambda case: case.instruction in _ARITHMETIC and _dtypes(case)[0] in BYTE_FLOATS,
        "the simulator's f8/hif8 encoder cuts the mantissa off and lets the exponent wrap",
    ),
    Exclusion(
        "fp8-conversion-encoder",
        _encodes_eight_bits,
        "the simulator's f8/hif8 encoder cuts the mantissa off and lets the exponent wrap; with saturation "
        "it writes 0, because the limits of these types are missing",
    ),
    Exclusion(
        "fp8-source-saturation",
        _saturates_from_eight_bits,
        "saturating conversions from f8/hif8 give 0, because the limits of these types are missing",
    ),
    Exclusion(
        "sort-16-bit-blocks",
        _overlapping_blocks,
        "the simulator places the records of 16-bit blocks 64 elements apart although they take 128, so "
        "that a block overwrites half of the one before",
    ),
    Exclusion(
        "u64-to-i64-saturation",
        _wraps_at_the_limit,
        "the simulator's clamp rounds the largest i64 up to 2^63, which wraps to the smallest i64",
    ),
    Exclusion(
        "mx-decoder",
        _multiplies_special_codes,
        "the simulator's decoders of f8e4m3, f8e5m2 and f8e8m0 know no NaN or infinity: 7F reads as 480, "
        "7C to 7F as an ordinary binade and FF as 2^128",
    ),
)


def exclusion(case: Case) -> Exclusion | None:
    """The table entry that excludes a case, or None."""
    return next((e for e in EXCLUSIONS if e.applies(case)), None)


def not_required(case: Case) -> str | None:
    """Why a case is only reported, from its tags, or None when it must pass."""
    return next((reason for tag, reason in NOT_REQUIRED.items() if tag in case.tags), None)
