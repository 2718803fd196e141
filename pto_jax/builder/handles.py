"""The class of handle that each type of value has."""

from typing import Any

from ..ir import Loc, MemRefType, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type
from ..isa.views import ADDPTR
from . import arith, instructions
from .values import Handle, Owner, Scope, TileHandle, View


class Pointer(Handle):
    """A pointer into memory; ``pointer + n`` moves it by elements."""

    type: PtrType

    def __add__(self, offset: Any) -> Any:
        return instructions.find(ADDPTR)(self, offset)


def is_local(t: Type) -> bool:
    """Whether a type is that of bytes in an on-chip buffer."""
    if isinstance(t, MemRefType):
        return t.space is not None and t.space.name in Loc.__members__
    return isinstance(t, TileType)


def wrap(owner: Owner, block: Scope, t: Type, name: str | None) -> Handle:
    """A handle of the class that the type asks for."""
    kind: type[Handle] = Handle
    if isinstance(t, ScalarType):
        kind = arith.Scalar
    elif is_local(t):
        kind = TileHandle
    elif isinstance(t, PtrType):
        kind = Pointer
    elif isinstance(t, TensorViewType | PartitionViewType | MemRefType):
        kind = View
    return kind(owner, block, t, name)
