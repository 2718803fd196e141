"""The table of recorded cases that are not a requirement, with a reason for each entry.

An *excluded* case records a plain defect of the C++ simulator; the engine follows the documented rule and
differs. A case with a *not required* tag records additional information; it is compared and reported
separately, and it fails nothing.

For whole programs, the interpreter executes a program and reports the entries that apply to each instruction,
with its values and regions at that moment. Defects that recorded cases show too have the same ids.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..interpreter import Execution
from ..ir import DType
from ..isa.rules.typesets import BYTE_FLOATS, FIRST_SPECIAL, FLOATS
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Step
from . import compare, executed
from .cases import to_logical
from .manifest import Case, ScalarOperand, TileOperand


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


@dataclass(frozen=True)
class ProgramExclusion:
    """Instructions excluded for one property of the simulator. ``id`` names the entry in reports.

    ``contained``: only what the instruction writes is affected; otherwise the process may end, or other
    memory may change. ``lanes`` says which lanes of the destination are, all of them without it.
    """

    id: str
    applies: Callable[[executed.Executed], bool]
    reason: str
    contained: bool = True
    lanes: Callable[[executed.Executed], executed.Array] | None = None


_RECORDED = {x.id: x.reason for x in EXCLUSIONS}
PROGRAM_EXCLUSIONS: tuple[ProgramExclusion, ...] = (
    *(
        ProgramExclusion(id, applies, _RECORDED[id])
        for id, applies in (
            ("fp8-arithmetic-encoder", executed.computes_with_eight_bit_floats),
            ("fp8-conversion-encoder", executed.encodes_eight_bits),
            ("fp8-source-saturation", executed.saturates_from_eight_bits),
            ("sort-16-bit-blocks", executed.overlapping_blocks),
            ("u64-to-i64-saturation", executed.wraps_at_the_limit),
        )
    ),
    ProgramExclusion(
        "mx-decoder",
        executed.multiplies_special_codes,
        f"{_RECORDED['mx-decoder']}; negative zero reads as positive zero",
    ),
    ProgramExclusion(
        "fp8-decoder",
        executed.converts_special_codes,
        "the simulator's decoders of f8e4m3 and f8e5m2 know no NaN, infinity or negative zero",
        lanes=executed.special_codes,
    ),
    ProgramExclusion(
        "four-bit-conversion",
        executed.converts_four_bits,
        "the simulator's 4-bit encoders round to an integer first, and its decoders know no negative zero",
    ),
    ProgramExclusion(
        "conversion-range",
        executed.converts_out_of_range,
        "the conversion of a number that the integer type cannot hold is undefined in C++",
        lanes=executed.lanes_out_of_range,
    ),
    ProgramExclusion(
        "integer-division",
        executed.divides_out_of_range,
        "integer division by zero, or of the smallest number by -1, is undefined in C++ and ends the process",
        contained=False,
    ),
    ProgramExclusion(
        "integer-power",
        executed.integer_power,
        "the simulator computes powers of integers in float64, whose conversion back is undefined where the "
        "power does not fit",
    ),
    ProgramExclusion(
        "shift-count",
        executed.shifts_too_far,
        "a shift by as many bits as there are or more is undefined in C++",
    ),
    ProgramExclusion(
        "overlapping-operands",
        executed.overlapping,
        "the simulator reads and writes element by element, so that what it wrote is read again where a "
        "destination shares bytes with another operand",
    ),
    ProgramExclusion(
        "quantisation-parameters",
        executed.runs_out_of_parameters,
        "the simulator lists as many parameters as one of the tiles has rows or columns and reads past the "
        "end of the list",
        contained=False,
    ),
    ProgramExclusion(
        "refused-regions",
        executed.refused_regions,
        "the simulator's assertions forbid these valid regions",
        contained=False,
    ),
    ProgramExclusion(
        "concatenation-range",
        executed.concatenates_out_of_range,
        "the simulator copies as many columns as the index tile says, past the ends of the tiles",
        contained=False,
    ),
    ProgramExclusion(
        "index-range",
        executed.index_out_of_range,
        "the simulator uses an index that picks nothing as an address",
        contained=False,
    ),
    ProgramExclusion(
        "prefetch-size",
        executed.prefetches_past_the_end,
        "the simulator prefetches as many elements as the whole tile has, past the end of the buffer",
        contained=False,
    ),
    ProgramExclusion(
        "four-bit-quantisation",
        executed.quantises_to_four_bits,
        "the simulator clears twice the bytes of a packed destination, those of whatever lies behind it too",
        contained=False,
    ),
    ProgramExclusion(
        "triangle-diagonal", executed.diagonal_overflows, "the simulator's sum of row and diagonal overflows"
    ),
    ProgramExclusion(
        "sort-nan",
        executed.sorts_nan,
        "the simulator sorts by a comparison that is no order when there is a NaN",
    ),
    ProgramExclusion(
        "sort-row",
        executed.sorts_past_the_row,
        "the simulator writes the records of a row one after another, past the end of the "
        "destination's rows, and past its last one",
        contained=False,
    ),
)


class OtherNans(ReferenceMachine):
    """The interpreter with other bits for the NaNs that instructions write.

    Which NaN an operation gives is the host's choice. What differs between this machine and the
    interpreter depends on that choice: bits of a NaN that were read as another type.
    """

    def other(self, d: DType) -> int:
        """The bits that a NaN has."""
        return (1 << d.bits) - 1

    def compute(self, execution: Execution, step: Step) -> None:
        """Compute an instruction, then overwrite the NaNs of its float destinations."""
        super().compute(execution, step)
        for ref in executed.Executed(execution, self).tiles("out", "inout"):
            d = ref.type.dtype
            if d.name not in FLOATS:
                continue
            words = self.stored(ref).view(d.word)
            nan = compare.is_nan(d, words)
            if nan.any():
                self.overwrite(ref, np.where(nan, d.word.type(self.other(d)), words))


class LeastNans(OtherNans):
    """The same with positive NaNs of the least bits."""

    def other(self, d: DType) -> int:
        """Infinity and one bit more."""
        return (((1 << d.exponent) - 1) << d.mantissa) + 1


#: Choices of NaNs that are as far from each other as NaNs can be.
OTHER_NANS = (OtherNans, LeastNans)
