"""The class of handle that each type of value has."""

from typing import Any, NoReturn

from ..errors import Diagnostic
from ..ir import Loc, MemRefType, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type
from ..isa.memory_scalar import LOAD, STORE
from ..isa.views import ADDPTR
from . import arith, instructions
from .places import fail, here
from .values import Handle, NoAttributeError, Owner, Scope, TileHandle, View


class Pointer(Handle):
    """A pointer into memory; ``pointer + n`` moves it by elements."""

    type: PtrType

    def __add__(self, offset: Any) -> Any:
        return instructions.find(ADDPTR)(self, offset)

    def __getitem__(self, place: Any) -> NoReturn:
        fix = f"pto.{LOAD}({self.name}, {_offset(place)})" if _offset(place) else ""
        fail(f"{self.name}[...]: got the pointer {self.name}", allowed="loads of tiles and scalars", fix=fix)

    def __setitem__(self, place: Any, value: Any) -> NoReturn:
        text = value.label if isinstance(value, arith.Scalar) else repr(value)
        stored = _offset(place) and (isinstance(value, arith.Scalar) or arith.is_number(value))
        fix = f"pto.{STORE}({text}, {self.name}, {_offset(place)})" if stored else ""
        fail(
            f"{self.name}[...] = ...: got the pointer {self.name}",
            allowed="stores of tiles and scalars",
            fix=fix,
        )

    def __len__(self) -> NoReturn:
        fail(f"len({self.name}): got a pointer, which has no length", allowed="arguments of type index")

    def __iter__(self) -> NoReturn:
        fail(f"got the pointer {self.name} to iterate over", allowed="loads of tiles and scalars")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        message = f"got the attribute {name!r} of the pointer {self.name}, which has no shape"
        fix = f"pto.GlobalTensor({self.name}, (16, 64))"
        allowed = "type, name, and views of what it points to"
        raise NoAttributeError(Diagnostic("error", message, here().span, allowed=allowed, fix=fix))


def _offset(place: Any) -> str:
    """An offset as Python spells it, "" for other places."""
    if isinstance(place, arith.Scalar):
        return place.label if place.label.isidentifier() else ""
    return str(place) if isinstance(place, int) else ""


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
