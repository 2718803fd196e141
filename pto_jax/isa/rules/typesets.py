"""Element types of operands, and sets of them that declarations share as rows of a type table."""

from collections.abc import Mapping
from dataclasses import replace

from ...ir import DType, MemRefType, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type
from ...profiles import ProfileName

Row = tuple[str, ...]
Rows = tuple[Row, ...]
TypeTable = Mapping[ProfileName, Rows]

INT32 = ("i8", "u8", "i16", "u16", "i32", "u32")
INTS = (*INT32, "i64", "u64")
FLOATS = ("f32", "f16", "bf16")
STANDARD = (*FLOATS, *INTS)
BYTE_FLOATS = ("f8e4m3", "f8e5m2", "hif8")
#: The first magnitude that is no finite number, of types of one byte that have such codes.
FIRST_SPECIAL = {"f8e4m3": 0x7F, "f8e5m2": 0x7C, "f8e8m0": 0xFF}
NIBBLE_FLOATS = ("f4e2m1x2", "f4e1m2x2")
#: Bytes of two 4-bit floats, as the assembler counts them in vec and global memory of A5.
PAIRS = ("f4e2m1_pair", "f4e1m2_pair")
#: Types that scalar arithmetic of the CPU simulator computes in, small floats included.
SIMULATED = (*STANDARD, *BYTE_FLOATS)
HALVES = ("f32", "f16")
A2A3_ARITHMETIC = ("f32", "f16", "i32", "i16")
A5_ARITHMETIC = ("f32", "f16", "bf16", "i32", "u32", "i16", "u16", "i8", "u8", "i64", "u64")
#: Products and negations have no types of one byte.
A5_PRODUCTS = tuple(d for d in A5_ARITHMETIC if d not in ("i8", "u8"))
TWO_FOUR_BYTES = ("f32", "f16", "bf16", "i32", "u32", "i16", "u16")
A5_DIVISION = ("f32", "f16", "i32", "u32", "i16", "u16", "i64", "u64")


def rows(names: tuple[str, ...]) -> Rows:
    """One row per type, for instructions with one type variable.

    >>> rows(("f32", "f16"))
    (('f32',), ('f16',))
    """
    return tuple((name,) for name in names)


def table(cpu_sim: tuple[str, ...], a2a3: tuple[str, ...], a5: tuple[str, ...]) -> TypeTable:
    """A type table with one type variable."""
    return {"cpu_sim": rows(cpu_sim), "a2a3": rows(a2a3), "a5": rows(a5)}


def pairs(cpu_sim: Rows, a2a3: Rows, a5: Rows) -> TypeTable:
    """A type table with several type variables."""
    return {"cpu_sim": cpu_sim, "a2a3": a2a3, "a5": a5}


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
