"""What keeps every lane that a program reads defined: the preset ``defined``.

Tiles have contents before anything reads them, valid regions cover what is read of them, indices, divisors
and shift counts are in range. Operations for which that cannot be said in advance are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.types import TileType
from ..isa.declare import Instruction
from ..isa.samples.operations import Sample
from .values import Recipe

#: Instructions that read at positions found in data, or lanes that depend on more than valid regions.
_LEFT_OUT = frozenset("mgather mscatter tgatherb thistogram tprefetch timg2col tget_scale_addr".split())
#: Operands that choose positions by their data.
_POSITIONS = frozenset(("indices", "indexes", "src0Idx", "src1Idx", "kValue", "offset"))
#: Instructions without positions in data, although an operand has the name of one.
_NO_POSITIONS = frozenset(("tquant", "tdequant", "tpartargmax", "tpartargmin"))
_BY_REGION = frozenset(("elementwise", "tile_scalar", "reduce_expand"))
_BOUND = frozenset(("elementwise", "tile_scalar"))
#: Read and written packed: the valid columns of a mask are not those of the tiles it belongs to.
_MASKS = frozenset(("tcmp", "tcmps", "tsel", "tsels"))

_POSITIVE: Mapping[str, frozenset[str]] = {
    name: frozenset(operands.split())
    for names, operands in (
        ("tdiv trem tfmod tcolexpanddiv", "src1"),
        ("trowexpanddiv", "src0 src1"),
        ("tdivs", "src scalar"),
        ("trems tfmods", "scalar"),
        ("trecip trsqrt tsqrt tlog", "src"),
        ("tpow tpows", "base exp"),
        ("tquant", "scale"),
    )
    for name in names.split()
}
_COUNTS: Mapping[str, str] = {"tshl": "src1", "tshr": "src1", "tshls": "scalar", "tshrs": "scalar"}


def usable(sample: Sample) -> bool:
    """Whether it can be said in advance that an operation reads defined lanes only."""
    name = sample.instruction.name
    if name in _LEFT_OUT or any(
        isinstance(t, TileType) and t.conv is not None for t in sample.types.values()
    ):
        return False
    return name in _NO_POSITIONS or not _POSITIONS & set(sample.form)


def takes_partial(instruction: Instruction) -> bool:
    """Whether the rules on valid regions say all about the lanes an instruction reads."""
    return instruction.cls in _BY_REGION and instruction.name not in _MASKS


def takes_sizes(instruction: Instruction, sizes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether an instruction reads valid lanes only; a reduction of nothing still reads a first element."""
    return instruction.cls in _BOUND or all(0 not in region for region in sizes.values())


def fills_results(instruction: Instruction) -> bool:
    """Whether an instruction writes every valid lane of its result."""
    return instruction.cls in _BOUND and instruction.name not in _MASKS


def recipe_of(instruction: Instruction, operand: str) -> Recipe | None:
    """The recipe for an operand whose values decide whether the result is defined; None for any values."""
    if operand in _POSITIVE.get(instruction.name, ()):
        return "positive"
    return "counts" if _COUNTS.get(instruction.name) == operand else None
