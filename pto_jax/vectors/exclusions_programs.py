"""Instructions of a program for which the public CPU simulator is no reference, with the reasons.

The counterpart of :mod:`.exclusions` for whole programs: the interpreter executes a program and says which
entries apply to what it executed, with the values and regions of that moment. Defects that the recorded
cases show too have the same ids.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..interpreter import Execution
from ..ir import DType
from ..isa.rules.typesets import FLOATS
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Step
from . import compare, executed
from .exclusions import EXCLUSIONS


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
