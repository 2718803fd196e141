"""One instruction of a program as its C++ intrinsic sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ... import isa
from ...analysis.constant_folding import scalar_dtype
from ...ir import DType, Op, TileType
from .spelling import refuse


@dataclass(frozen=True)
class Call:
    """One instruction: C++ names and types of its operands by declared name, attributes with defaults."""

    op: Op
    bound: isa.Bound
    names: Mapping[str, str]
    types: Mapping[str, str]
    #: How tiles are placed: auto or manual.
    mode: str

    def __contains__(self, operand: str) -> bool:
        return operand in self.names

    def attribute(self, name: str) -> Any:
        """The value of an attribute, its default where the operation gives none."""
        return self.bound.attrs.get(name)

    def chosen(self, name: str) -> IntEnum | None:
        """The member of an attribute that is a choice; None where it is left out and has no default."""
        value = self.attribute(name)
        assert value is None or isinstance(value, IntEnum)
        return value

    def tile(self, name: str) -> TileType:
        """The type of an operand that is a tile."""
        t = self.bound.values[name].type
        assert isinstance(t, TileType)
        return t

    def element(self, name: str) -> DType:
        """The element type of a tile, or the type of a scalar."""
        t = self.bound.values[name].type
        return t.dtype if isinstance(t, TileType) else scalar_dtype(t)

    def listed(self, *operands: str) -> str:
        """Arguments in an order, those left out by the operation left out here too."""
        return ", ".join(self.names[n] for n in operands if n in self.names)

    def refuse(self, message: str) -> Exception:
        """The error for what is not written in C++, with the operation's place."""
        return refuse(self.op, message)
