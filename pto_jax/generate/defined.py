"""What keeps every lane that a program reads defined: the preset ``defined``.

Tiles have contents before anything reads them, valid regions cover what is read of them, indices, divisors
and shift counts are in range. Operations for which that cannot be said in advance are left out.
"""

from collections.abc import Mapping

from ..ir import TileType
from ..isa.declare import Instruction
from ..isa.samples.operations import Sample
from .values import Recipe


def usable(sample: Sample) -> bool:
    """Whether it can be said in advance that an operation reads defined lanes only."""
    instruction = sample.instruction
    if instruction.lanes == "open" or any(
        isinstance(t, TileType) and t.conv is not None for t in sample.types.values()
    ):
        return False
    return all(instruction.operand(n).holds != "positions" for n in sample.form)


def takes_partial(instruction: Instruction) -> bool:
    """Whether the rules on valid regions say all about the lanes an instruction reads."""
    return instruction.lane_wise or instruction.lanes == "line"


def takes_sizes(instruction: Instruction, sizes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether an instruction reads valid lanes only; a reduction of nothing still reads a first element."""
    return instruction.lanes == "same" or all(0 not in region for region in sizes.values())


def fills_results(instruction: Instruction) -> bool:
    """Whether an instruction writes every valid lane of its result."""
    return instruction.lane_wise


def recipe_of(instruction: Instruction, operand: str) -> Recipe | None:
    """The recipe for an operand whose values decide whether the result is defined; None for any values."""
    if operand in instruction.divisor or operand in instruction.positive:
        return "positive"
    return "counts" if instruction.shift_count == operand else None
