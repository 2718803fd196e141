"""What the names of a program stand for while it executes: handles, views, pointers, scalars."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from .. import isa
from ..ir import AttrValue, DType, GlobalLayout, Op, TileType, VectorType

#: A Python number, or whatever the machine computes scalars with.
Scalar: TypeAlias = Any


#: The name of a global buffer, or a Choice of names.
Buffer: TypeAlias = Any

#: The offset of an address whose arithmetic left 64 bits: outside every buffer, whatever is added to it.
NOWHERE = -(1 << 63)


@dataclass(frozen=True)
class Choice:
    """One of several storages or buffers, by a number that only execution knows."""

    index: Scalar
    options: tuple[Hashable, ...]


@dataclass(frozen=True)
class Pointer:
    """A position in a global-memory buffer, ``offset`` in elements.

    The elements of a ``cast`` pointer may have another size than those that the buffer was given as.
    """

    buffer: Buffer
    dtype: DType
    offset: Scalar = 0
    cast: bool = False


@dataclass(frozen=True)
class View:
    """A strided window of a buffer: element (i0, i1, ...) is at ``offset + sum(i_k * strides[k])``.

    ``root`` is the view that it is a window of, None where it is a whole one.
    """

    buffer: Buffer
    dtype: DType
    offset: Scalar
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    layout: GlobalLayout | None = None
    root: View | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TileRef:
    """A tile handle: a typed view of storage, with its run-time valid region.

    Handles are values: changing one (``set_validshape``, ``tassign``) leaves copies of it alone. The
    positions that instructions count in a ``pitched`` window are those of the tile it is a window of.
    """

    type: TileType
    storage: Hashable
    v_row: Scalar
    v_col: Scalar
    pitched: bool = field(default=False, compare=False, repr=False)


#: A TileRef, View, Pointer or Scalar.
Operand: TypeAlias = Any


@dataclass(frozen=True)
class Execution:
    """One instruction about to execute: its operands by declared name, attributes with defaults.

    ``bound`` gives the values of the text that they are. ``vectors`` gives the types of destinations outside
    tile memory, which are no operands.
    """

    op: Op
    bound: isa.Bound
    operands: Mapping[str, Operand]
    attrs: Mapping[str, AttrValue]
    vectors: Mapping[str, VectorType] = field(default_factory=dict)

    @property
    def instruction(self) -> isa.Instruction:
        """The declaration."""
        return self.bound.instruction

    @property
    def form(self) -> tuple[str, ...]:
        """The source operands of the overload, by name."""
        return self.bound.form

    def tile(self, name: str) -> TileRef:
        """The tile handle of an operand."""
        ref = self.operands[name]
        assert isinstance(ref, TileRef), name
        return ref

    def dtype(self, name: str) -> DType:
        """Element type of a tile, view or pointer operand, or of a scalar's declared type."""
        operand = self.operands[name]
        if isinstance(operand, TileRef):
            return operand.type.dtype
        assert isinstance(operand, View | Pointer), name
        return operand.dtype


def chosen(operand: Operand) -> Choice | None:
    """The choice behind a handle, view or pointer."""
    place = operand.storage if isinstance(operand, TileRef) else getattr(operand, "buffer", None)
    return place if isinstance(place, Choice) else None


def with_storage(operand: Operand, place: Hashable) -> Operand:
    """A handle, view or pointer with another storage or buffer."""
    key = "storage" if isinstance(operand, TileRef) else "buffer"
    return replace(operand, **{key: place})


def region_of(t: TileType, row: Scalar | None = None, col: Scalar | None = None) -> tuple[Scalar, Scalar]:
    """Valid sizes of a new handle: static ones from its type, others as given, else the whole tile."""
    rows = t.v_row if t.v_row is not None else t.rows if row is None else row
    cols = t.v_col if t.v_col is not None else t.cols if col is None else col
    return rows, cols
