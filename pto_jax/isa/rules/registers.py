"""Facts that the rules of register operations share: lanes, parts and roundings.

A register is N lanes in raw words of its element type, 256 bytes in all. A mask is an image of 256 bits, one
per byte of a register: the lane that begins at byte i is governed by bit i. Logical registers have any number
of lanes, and logical masks a bit per lane.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...ir import DType, RoundMode
from ..micro import Lanes

#: Bytes of the blocks that group operations work on.
BLOCK = 32


class Typed(Protocol):
    """What has types of operands and results: a call."""

    @property
    def types(self) -> Sequence[Lanes | int | None]:
        """Types of the operands in the order of the text."""

    @property
    def results(self) -> Sequence[Lanes | int | None]:
        """Types of the results."""


class Attributed(Protocol):
    """What has attributes: a call."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes and strings by name."""


def lanes(t: Lanes | int | None) -> Lanes:
    """The type of what is a register or a scalar."""
    assert isinstance(t, Lanes), t
    return t


def element(t: Lanes | int | None) -> DType:
    """The element type of a register or scalar."""
    return lanes(t).dtype


def governed(call: Typed) -> int:
    """The number of lanes that the masks of an operation govern: those of the register of their width.

    64-bit lanes have masks of 32-bit ones, of which every other lane governs.
    """
    types = (*call.types, *call.results)
    bits = next((t for t in types if isinstance(t, int)), 0)
    registers = [t for t in types if isinstance(t, Lanes) and t.lanes > 1]
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
_FLAGS = re.compile(r"true|false|[01]\b")


def listed(text: str, count: int) -> tuple[bool, ...]:
    """The truth values of a dense attribute, one for all lanes or one for each.

    >>> listed("dense<[true, false]> : vector<2xi1>", 2), listed("dense<true> : vector<2xi1>", 2)
    ((True, False), (True, True))
    """
    flags = tuple(word in ("true", "1") for word in _FLAGS.findall(text.partition(">")[0]))
    return flags * count if len(flags) == 1 else flags


_SATURATING = ("SAT", "RS_ENABLE")


def part(call: Attributed) -> int:
    """The number of the part that a conversion reads or writes."""
    return PARTS[str(call.attributes.get("part") or "EVEN").removeprefix("PART_")]


def rounding(call: Attributed) -> str:
    """The letter of a conversion's rounding; to nearest even where there is none to choose."""
    return str(call.attributes.get("rnd") or "R").removeprefix("ROUND_")


def saturates(call: Attributed) -> bool:
    """Whether a conversion clamps to the range of its type."""
    return call.attributes.get("sat") in _SATURATING
