"""A call of an instruction from Python, as far as types go."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from .. import isa, profiles
from ..ir import Attrs, DType, TileType


@dataclass(frozen=True)
class ArrayType:
    """An array that stands for a tile: its element type and shape."""

    dtype: DType
    rows: int
    cols: int


@dataclass(frozen=True)
class NumberType:
    """A number; ``dtype`` is None for those of Python, which take the type the instruction asks for."""

    dtype: DType | None


#: What a call gives for a source; for a destination (None: nothing, a DType: its element type).
SourceType: TypeAlias = TileType | ArrayType | NumberType
DestinationType: TypeAlias = TileType | ArrayType | DType | None


@dataclass(frozen=True)
class Request:
    """A call as far as types go: sources in the order of ``form``, destinations by name."""

    name: str
    form: tuple[str, ...]
    sources: tuple[SourceType, ...]
    destinations: tuple[tuple[str, DestinationType], ...]
    attributes: Attrs
    profile: profiles.Profile

    @cached_property
    def instruction(self) -> isa.Instruction:
        """The declaration of the instruction."""
        return isa.instructions()[self.name]

    @cached_property
    def is_open(self) -> bool:
        """Whether anything is left to the instruction."""
        arguments = (*self.sources, *(d for n, d in self.destinations if not self.is_vector(n)))
        return not all(isinstance(t, TileType | NumberType) for t in arguments)

    def is_vector(self, name: str) -> bool:
        """Whether an operand is a vector of the declaration's own type, not a tile."""
        return self.instruction.operand(name).kind == "vector"
