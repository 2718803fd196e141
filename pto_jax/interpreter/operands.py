"""Operands at execution: handles, views, pointers, scalars, and the scope that binds names to them.

A scope also has the state besides memory that a region may change, such as the registers of image-to-column.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from .. import isa
from ..analysis.resolve import ResolvedProgram
from ..ir import (
    AddressSpace,
    AttrValue,
    DType,
    FmatrixMode,
    Geometry,
    GlobalLayout,
    Loc,
    Op,
    OpaqueType,
    Registers,
    TileType,
    Type,
    Value,
    VectorType,
    read_config,
    registers,
)

#: A Python number, or whatever the machine computes scalars with.
Scalar: TypeAlias = Any


#: Arguments that are the number of the block, how many there are, and the number of the vector core.
BLOCK_NUMBERS = ("__pypto_spmd_block_idx", "__pypto_spmd_block_num", "__pypto_spmd_subblock_idx")

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
    ``address`` is the one that the program gives it.
    """

    type: TileType
    storage: Hashable
    v_row: Scalar
    v_col: Scalar
    pitched: bool = field(default=False, compare=False, repr=False)
    address: Scalar | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class LocalPointer:
    """A position in on-chip memory: a byte address in a memory space, or in a tile that has none.

    ``space`` is a :class:`Loc` for memories that no pointer of a text is into. ``subblock`` is the vector
    core whose unified buffer is meant, where it is not the one that executes.
    """

    dtype: DType
    space: AddressSpace | Loc
    address: Scalar = 0
    tile: TileRef | None = None
    subblock: int | None = None


@dataclass(frozen=True, eq=False)
class Register:
    """The contents of a vector register, a mask or an align state, as the machine has them."""

    contents: Any


#: The control register when a kernel begins: conversions and products keep what is beyond their range.
INITIAL_CONTROL = 1 << 48


@dataclass(frozen=True)
class TransferState:
    """What configuration operations have set for transfers of bytes.

    The mode and the type of atomic stores ("" for none), sizes and strides of loops by the name of the
    operation that sets them, the padding value, and the control register.
    """

    atomic: str = ""
    atomic_type: str = ""
    loops: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pad: int = 0
    control: int = INITIAL_CONTROL


#: A TileRef, View, Pointer, LocalPointer, Register or Scalar.
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


_AUTOMATIC = (FmatrixMode.FMATRIX_A_AUTO, FmatrixMode.FMATRIX_B_AUTO)


def _is_b(mode: FmatrixMode) -> bool:
    return mode in (FmatrixMode.FMATRIX_B_AUTO, FmatrixMode.FMATRIX_B_MANUAL)


@dataclass(frozen=True)
class ImageState:
    """Sizes and paddings of the feature maps A and B, and the padding value of both; None: not loaded."""

    a: tuple[int, ...] | None = None
    b: tuple[int, ...] | None = None
    pad_value: int | None = None

    def configured(
        self, loads: Literal["sizes", "padding"] | None, mode: FmatrixMode, source: Type
    ) -> ImageState:
        """After the sizes of a feature map or the padding value are loaded from a tile or a configuration.

        A configuration without the sizes of a feature map loads none.
        """
        loaded = _loaded(source)
        if mode in _AUTOMATIC or loaded is None:
            return self
        if loads == "sizes" and loaded[0] and loaded[1]:
            return self._with_sizes(mode, loaded[:6])
        return replace(self, pad_value=loaded[6]) if loads == "padding" else self

    def _with_sizes(self, mode: FmatrixMode, sizes: tuple[int, ...]) -> ImageState:
        return replace(self, b=sizes) if _is_b(mode) else replace(self, a=sizes)

    def registers(self, mode: FmatrixMode, source: Type) -> tuple[ImageState, Registers | None]:
        """What an image-to-column of a feature map sees; automatic modes load its geometry first."""
        if not isinstance(source, TileType) or source.conv is None:
            return self, None
        own = registers(source.conv)
        loaded = replace(self._with_sizes(mode, own[:6]), pad_value=own[6]) if mode in _AUTOMATIC else self
        sizes = (loaded.b if _is_b(mode) else loaded.a) or own[:6]
        height, width, left, right, top, bottom = sizes
        value = own[6] if loaded.pad_value is None else loaded.pad_value
        return loaded, (height, width, left, right, top, bottom, value)


def _loaded(source: Type) -> Registers | None:
    """The registers that a source stands for, None where it carries no geometry."""
    if isinstance(source, TileType):
        return None if source.conv is None else registers(source.conv)
    geometry = read_config(source.params) if isinstance(source, OpaqueType) and source.params else ""
    if not isinstance(geometry, Geometry):
        return None
    height, width = geometry.fmap or (0, 0)
    return (height, width, *geometry.padding, geometry.pad_value)


#: A mode that different paths have left differently.
UNSETTLED = object()


class Scope:
    """Names visible in a region; handles are updated where they are bound."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._names: dict[str, Operand] = {}

    def bind(self, value: Value, operand: Operand) -> None:
        """Give a name of this scope a meaning."""
        self._names[value.name] = operand

    def names(self) -> Mapping[str, Operand]:
        """The names bound in this scope itself."""
        return self._names

    def find(self, value: Value) -> Operand:
        """What a name stands for here, None for one that is not visible."""
        return next((names[value.name] for names in self.chain() if value.name in names), None)

    def __getitem__(self, value: Value) -> Operand:
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                return scope._names[value.name]
            scope = scope._parent
        raise KeyError(value.name)

    def chain(self) -> list[dict[str, Operand]]:
        """The names of this scope and of those around it."""
        return [self._names, *(self._parent.chain() if self._parent else [])]

    def update(self, value: Value, operand: Operand) -> None:
        """Change what an existing name stands for, in the scope that owns it."""
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                scope._names[value.name] = operand
                return
            scope = scope._parent
        raise KeyError(value.name)


class Frame:
    """Everything besides memory that the operations of a region may change: names around it, and modes.

    ``reading`` is the resolved program of the operation, None for one that stands in no program.
    """

    def __init__(
        self,
        op: Op,
        modes: dict[str, Any] | None = None,
        scope: Scope | None = None,
        reading: ResolvedProgram | None = None,
    ) -> None:
        self.op = op
        self.reading = reading
        self.modes: dict[str, Any] = {} if modes is None else modes
        self._places = [self.modes, *(scope.chain() if scope else [])]
        #: The frames of the cores that enter a region together, by name; none where one core does.
        self.members: Mapping[str, Frame] = {}

    @classmethod
    def joined(cls, members: Mapping[str, Frame], op: Op) -> Frame:
        """The frame of an operation that stands for one of each core."""
        first = next(iter(members.values()))
        frame = cls(op, first.modes, None, first.reading)
        frame._places = [first.modes, *(names for own in members.values() for names in own._places[1:])]
        frame._places += [own.modes for own in members.values() if own is not first]
        frame.members = members
        return frame

    def save(self) -> list[dict[str, Operand]]:
        """A copy of all modes and names, for :meth:`restore`."""
        return [dict(names) for names in self._places]

    def restore(self, saved: list[dict[str, Operand]]) -> None:
        """Make all modes and names what they were."""
        for names, old in zip(self._places, saved, strict=True):
            names.clear()
            names.update(old)

    def changed(self, saved: list[dict[str, Operand]]) -> dict[tuple[int, str], Operand]:
        """The names that differ from a saved state, by place and name; modes are no names."""
        pairs = list(enumerate(zip(self._places, saved, strict=True)))[1:]
        return {
            (i, name): operand
            for i, (names, old) in pairs
            for name, operand in names.items()
            if name in old and old[name] is not operand
        }

    def names(self) -> dict[str, Operand]:
        """What the names around the region stand for."""
        operands: dict[str, Operand] = {}
        for names in reversed(self._places[1:]):
            operands.update(names)
        return operands

    def __getitem__(self, key: tuple[int, str]) -> Operand:
        return self._places[key[0]][key[1]]

    def __setitem__(self, key: tuple[int, str], operand: Operand) -> None:
        self._places[key[0]][key[1]] = operand
