"""Operations on vector registers: what a rule sees of one, and the facts of patterns and parts.

A register is N lanes in raw words of its element type, 256 bytes in all. A mask is an image of 256 bits, one
per byte of a register: the lane that begins at byte i is governed by bit i. Logical registers have any number
of lanes, and logical masks a bit per lane.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ...ir import REGISTER_BYTES, DType, MaskType, RoundMode, ScalarType, VRegType

#: Bytes of the blocks that group operations work on.
BLOCK = 32

#: The type of an operand or a result of an operation on registers.
RegisterOperand: TypeAlias = "VRegType | MaskType | ScalarType"


class Call(Protocol):
    """One operation on registers, apart from the values of its operands."""

    @property
    def name(self) -> str:
        """The operation's name."""

    @property
    def types(self) -> Sequence[RegisterOperand]:
        """Types of the operands in the order of the text."""

    @property
    def results(self) -> Sequence[RegisterOperand]:
        """Types of the results."""

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """Attributes and string parameters by name."""


@dataclass(frozen=True)
class PlainCall:
    """A :class:`Call` written down."""

    name: str
    types: tuple[RegisterOperand, ...]
    results: tuple[RegisterOperand, ...]
    attributes: Mapping[str, str | int] = field(default_factory=dict)


def element(t: RegisterOperand) -> DType:
    """The element type of a register or scalar."""
    assert not isinstance(t, MaskType), t
    return t.dtype


def lanes_of(t: RegisterOperand) -> int:
    """The number of lanes of a register or mask."""
    if isinstance(t, MaskType):
        return t.lanes or REGISTER_BYTES * 8 // t.bits
    assert isinstance(t, VRegType), t
    return t.lanes


def governed(call: Call) -> int:
    """The number of lanes that the masks of an operation govern: those of the register of their width.

    64-bit lanes have masks of 32-bit ones, of which every other lane governs.
    """
    bits = next((t.bits for t in (*call.types, *call.results) if isinstance(t, MaskType)), 0)
    registers = [t for t in (*call.types, *call.results) if isinstance(t, VRegType)]
    return next((t.lanes for t in registers if min(t.dtype.word_bits, 32) == bits), registers[0].lanes)


#: Rounding of conversions by the letter of the text. H has no mode of its own: nearest, ties toward zero.
ROUNDING: Mapping[str, RoundMode] = {
    "R": RoundMode.RINT,
    "A": RoundMode.ROUND,
    "F": RoundMode.FLOOR,
    "C": RoundMode.CEIL,
    "Z": RoundMode.TRUNC,
    "O": RoundMode.ODD,
}
#: Which of the lanes that share the bytes of a wide one a conversion reads or writes.
PARTS: Mapping[str, int] = {"EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}
#: Patterns of masks that are no counts, as (lanes of a number of them that are set).
FRACTIONS: Mapping[str, int] = {"PAT_H": 2, "PAT_Q": 4}
MULTIPLES: Mapping[str, int] = {"PAT_M3": 3, "PAT_M4": 4}


def pattern(name: str, lanes: int) -> tuple[bool, ...]:
    """The lanes that a pattern sets.

    >>> sum(pattern("PAT_VL8", 64)), sum(pattern("PAT_H", 64)), pattern("PAT_M3", 5)
    (8, 32, (True, False, False, True, False))
    """
    if name in MULTIPLES:
        return tuple(i % MULTIPLES[name] == 0 for i in range(lanes))
    if name in FRACTIONS:
        count = lanes // FRACTIONS[name]
    elif name.startswith("PAT_VL"):
        count = int(name.removeprefix("PAT_VL"))
    else:
        count = {"PAT_ALL": lanes, "PAT_ALLF": 0}[name]
    return tuple(i < count for i in range(lanes))
