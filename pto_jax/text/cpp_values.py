"""What the names of a C++ kernel stand for while it is read: scalars, pointers, tiles, views."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from .. import ir


class CType(NamedTuple):
    """A scalar type of C++: the element type it becomes, and whether it is unsigned."""

    dtype: ir.DType
    unsigned: bool = False

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.dtype.is_float


BOOL, INT, INT64 = CType(ir.I1), CType(ir.I32), CType(ir.INDEX)
#: Scalar types by name: all 64-bit integers are ``index``, the type of sizes and offsets of programs.
SCALARS = {
    "bool": BOOL,
    "int": INT,
    "unsigned": CType(ir.I32, unsigned=True),
    "event_t": INT,
    "size_t": CType(ir.INDEX, unsigned=True),
    "int64_t": INT64,
    "uint64_t": CType(ir.INDEX, unsigned=True),
    **{f"int{d.bits}_t": CType(d) for d in (ir.I8, ir.I16, ir.I32)},
    **{f"uint{d.bits}_t": CType(d, unsigned=True) for d in (ir.I8, ir.I16, ir.I32)},
    **{d.cpp: CType(d) for d in (ir.F32, ir.F16, ir.BF16)},
}


def _elements() -> dict[str, ir.DType]:
    kinds = [d for d in vars(ir).values() if isinstance(d, ir.DType) and d.cpp]
    plain = [d for d in kinds if d not in (ir.INDEX, ir.I1) and not d.pair_of]
    return {d.cpp: d for d in plain} | {"bfloat16": ir.BF16, "bool": ir.I1}


#: Element types of tiles and of global memory by their C++ name.
ELEMENTS = _elements()


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar: a value of the program, or a constant that becomes one where it is used."""

    type: CType
    value: ir.Value | None = None
    number: int | float | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into global memory."""

    value: ir.Value


@dataclass(frozen=True, slots=True)
class Sizes:
    """The five extents or strides of a view."""

    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A view of global memory and the pointer to its first element."""

    value: ir.Value
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A tile without an address: type, run-time valid sizes, name, the word and depth of its declaration."""

    type: ir.TileType
    valid: tuple[Number, ...]
    word: int
    name: str
    depth: int


@dataclass(frozen=True, slots=True)
class Named:
    """A tile, an array, a vector: a value of the program."""

    value: ir.Value


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe between the cores: its number in the program."""

    id: int


def rounded(text: str) -> float:
    """The nearest number of single precision, from the decimal digits in one step.

    >>> rounded("0.1"), rounded("0.333333343")
    (0.10000000149011612, 0.3333333432674408)
    """
    try:
        near: float = struct.unpack("<f", struct.pack("<f", float(text)))[0]
    except OverflowError:
        return float("inf")
    exact, double = Fraction(text), Fraction(float(text))
    if exact == double or near in (float("inf"), 0.0):
        return near
    # Double precision may be half way between two numbers where the text is not.
    bits = struct.unpack("<i", struct.pack("<f", near))[0]
    others: list[float] = [struct.unpack("<f", struct.pack("<i", bits + step))[0] for step in (-1, 1)]
    return min((near, *(n for n in others if abs(n) < float("inf"))), key=lambda n: abs(Fraction(n) - exact))
