"""Element types of operands of any kind."""

from dataclasses import replace

from ...ir import DType, MemRefType, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type

_Typed = TileType | ScalarType | PtrType | TensorViewType | PartitionViewType | MemRefType


def element_type(t: Type | None) -> DType | None:
    """The element type of any typed value, None where it has none or it is not known."""
    return t.dtype if isinstance(t, _Typed) else None


def with_dtype(t: Type, d: DType) -> Type:
    """The same kind of value with another element type."""
    return replace(t, dtype=d) if isinstance(t, _Typed) else t


def same_element(a: DType, b: DType) -> bool:
    """Equal types, or a signless integer of the text (``i32``) standing for an unsigned one."""
    return a == b or (a.is_integer and b.is_integer and a.bits == b.bits and "i1" not in (a.name, b.name))
