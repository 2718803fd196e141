"""The machine that follows a course of a program: numbers are assumed, handles are bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from .. import ir
from ..interpreter import (
    Buffer,
    Execution,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    chosen,
    memref_view,
    with_storage,
)
from ..interpreter.abstract import NoStorage
from ..interpreter.cores import memory_core
from ..interpreter.machine import After, Arm, Before, Body, RunBlock
from ..interpreter.operands import Frame, LocalPointer, Register
from ..interpreter.views import in_words, local_pointer
from ..isa import find_micro
from ..isa.micro import MicroCall
from ..profiles import ProfileName
from .numbers import Assumed, Guesses
from .regions import GENERIC, Region, Space, Storage, tile_region
from .scopes import VectorScope, after_of, results_of, touched


class OrderMachine(NoStorage):
    """Every scalar is an integer of the text or an assumed number; a storage says which bytes a tile is."""

    abstract: bool = False

    def __init__(
        self,
        guesses: Guesses,
        inputs: Mapping[str, Any] = MappingProxyType({}),
        profile: ProfileName | None = None,
    ) -> None:
        self.guesses = guesses
        self.profile_name: ProfileName | None = profile
        self.inputs = inputs
        self.core = ""
        #: The operands of the instruction that was executed last, by declared name.
        self.executed: Execution | None = None
        #: What is popped next: the pipe and its slots; and how often each core has popped from it.
        self.popping: tuple[Hashable, int] = ("", 1)
        self._popped: Counter[tuple[str, Hashable]] = Counter()
        #: The elements of global memory that the scalar unit has read or written since then.
        self.touched: list[tuple[bool, Pointer]] = []
        #: The bytes that the last micro-operation writes or reads, by the names of its pointers.
        self.accessed: list[tuple[bool, str, Region]] = []
        #: The first elements of the memory in which numbers of registers say what it writes or reads.
        self.indexed: list[tuple[bool, str, Region]] = []
        #: The vector scope that is executed, and what the last operation in it comes behind.
        self.scope: VectorScope | None = None
        self.after = 0
        #: The bytes on chip that the scalar unit has read or written.
        self.scalars: list[tuple[bool, Region]] = []

    # -- numbers -------------------------------------------------------------------------------------

    def known(self, value: Scalar) -> int | None:
        """What a number is in this course."""
        return self.guesses.value(value)

    def scalar(self, name: str, args: Sequence[Scalar], source: ir.DType, result: ir.DType) -> Scalar:
        """A scalar operation of which an operand is assumed."""
        return self.guesses.computed(name, args, source, result)

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """``base + index * stride``."""
        return self.guesses.address(base, index, stride)

    def counter(self, value: int) -> Scalar:
        """The number itself."""
        return value

    def unrolls(self, op: ir.Op, trips: int) -> bool:
        """The loops of programs; what one inside an instruction touches is all of its operands."""
        return bool(op.regions)

    def elements(self, buffer: Buffer, dtype: ir.DType) -> int | None:
        """Not known: None."""
        return None

    def number(self, dtype: ir.DType) -> Scalar:
        """A number that is assumed."""
        return self.guesses.leaf(dtype)

    def micro(self, op: ir.Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Note the bytes that a micro-operation accesses, where they are known."""
        operation = find_micro(op.name)
        results = super().micro(op, call, operands)
        if operation is None:
            return results
        numbers = {name: self._number(value) for name, value in operands.items()}
        for place in operation.places:
            start = self._first_byte(operands.get(place.key))
            if start is not None:
                regions = touched(*start, place, call, numbers, operands.get("mask", operands.get("extra")))
                if regions is not None:
                    self.accessed.append((place.access == "write", place.pointer, regions))
                elif place.rows is None and place.span(call, numbers) is None:
                    first = self._element(operands.get(place.key), *start)
                    self.indexed += [] if first is None else [(place.access == "write", place.pointer, first)]
        self.after = after_of(operands)
        loads = self.scope is not None and any(not write for write, _, _ in self.accessed)
        own = self.scope.load if self.scope is not None and loads else 0
        return results_of(op, operation, call, numbers, results, self.after | own)

    def selected(self, operand: Operand) -> Operand:
        """A handle that is over one of several tiles, over the one that it is over now."""
        choice = chosen(operand)
        if choice is None:
            return operand
        return with_storage(operand, choice.options[self.known(choice.index) or 0])

    def _number(self, value: Operand) -> int | None:
        plain = value is None or isinstance(value, TileRef | View | Pointer | LocalPointer | Register | tuple)
        return None if plain else self.known(value)

    def _element(self, pointer: Operand, space: Space, start: int) -> Region | None:
        if not isinstance(pointer, LocalPointer | TileRef):
            return None
        return Region.of(space, start, max(1, local_pointer(pointer).dtype.storage_bits // 8), [])

    def _first_byte(self, pointer: Operand) -> tuple[Space, int] | None:
        """The memory and the byte that a pointer is at; None where they are not known."""
        if isinstance(pointer, LocalPointer | TileRef):
            pointer = local_pointer(pointer)
            address = self.known(pointer.address)
            space = Space(ir.Loc[pointer.space.name], memory_core(self.core, pointer))
            if pointer.tile is not None:
                tile = self.selected(pointer.tile)
                first = tile_region(tile, (1, 1)) if isinstance(tile, TileRef) else None
                if first is None:
                    return None
                space, address = first.space, None if address is None else first.start + address
            return None if address is None else (space, address)
        if isinstance(pointer, Pointer) and isinstance(pointer.buffer, str):
            offset = self.known(pointer.offset)
            space = Space(None, "", pointer.buffer)
            return None if offset is None else (space, offset * pointer.dtype.storage_bits // 8)
        return None

    def element(self, op: ir.Op, ref: TileRef, position: Scalar, dtype: ir.DType) -> Scalar:
        """A number of a tile is assumed."""
        return self.guesses.leaf(dtype)

    def load(self, op: ir.Op, pointer: Pointer | LocalPointer, dtype: ir.DType) -> Scalar:
        """A number of global memory, which is assumed where nobody gives it."""
        if isinstance(pointer, LocalPointer):
            self._scalar(pointer, dtype, write=False)
            return self.guesses.leaf(dtype)
        self.touched.append((False, pointer))
        data = self.inputs.get(pointer.buffer) if not dtype.is_float else None
        if data is not None and isinstance(pointer.offset, int) and 0 <= pointer.offset < np.size(data):
            return int(np.ravel(data)[pointer.offset])
        return self.guesses.leaf(dtype)

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """The arm that the condition says."""
        return arms[0 if self.known(condition) else 1]()

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """A loop inside an instruction: its first trip."""
        return body(0, tuple(inits)) if self.known(trips) else tuple(inits)

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """A while loop inside an instruction: its first trip."""
        return before(tuple(inits))[1]

    # -- operands ------------------------------------------------------------------------------------

    def argument(self, argument: ir.Value) -> Operand:
        """An argument of which nothing but its type is known."""
        t = in_words(argument.type)
        if isinstance(t, ir.TileType):
            valid = argument.type.slot.valid if isinstance(argument.type, ir.MultiTileType) else t.valid
            rows, cols = (self.guesses.leaf(ir.INDEX) if n is None else n for n in valid)
            return TileRef(t, self._own(t, ("argument", argument.name)), rows, cols)
        if isinstance(t, ir.PtrType):
            return Pointer(argument.name, t.dtype)
        if isinstance(t, ir.MemRefType) and None not in t.dims:
            return memref_view(argument.name, t, ())
        if isinstance(t, ir.TensorViewType | ir.PartitionViewType | ir.MemRefType):
            have = np.shape(self.inputs[argument.name]) if argument.name in self.inputs else t.dims
            sizes = [self.guesses.leaf(ir.INDEX) if n is None else n for n in have]
            strides: list[Scalar] = [1]
            for size in reversed(sizes[1:]):
                strides.insert(0, self.address(0, strides[0], size))
            return View(argument.name, t.dtype, 0, tuple(sizes), tuple(strides))
        if isinstance(t, ir.ScalarType) and argument.name in self.inputs and not t.dtype.is_float:
            value = int(np.asarray(self.inputs[argument.name]))
            return bool(value) if t.dtype == ir.I1 else value
        return self.guesses.leaf(t.dtype if isinstance(t, ir.ScalarType) else None)

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """The blocks one after the other."""
        for number in range(grid):
            run(number, operands)

    def execute(self, execution: Execution) -> dict[str, None]:
        """Note the operands."""
        self.executed = execution
        return dict.fromkeys(execution.vectors)

    def enter(self, core: str) -> None:
        """Turn to the memory of a core."""
        self.core = core

    # -- storage -------------------------------------------------------------------------------------

    def _own(self, t: ir.TileType, root: Hashable) -> Storage:
        return Storage(Space(t.loc, self.core, root), 0, None)

    def allocate(self, op: ir.Op, type: ir.TileType, address: Scalar | None) -> Hashable:
        """The bytes at an address, or own ones."""
        if address is None:
            return self._own(type, ("tile", op.results[0].name if op.results else "", id(op)))
        if isinstance(address, Assumed):
            return Storage(Space(type.loc, self.core), address.generic, made=id(op))
        start = self.known(address)
        return Storage(Space(type.loc, self.core), start, made=id(op)) if start is not None else None

    def rebind(self, op: ir.Op, ref: TileRef, type: ir.TileType, address: Scalar) -> Hashable:
        """The bytes at an address."""
        return self.allocate(op, replace(type, loc=ref.type.loc), address)

    def fresh(self, op: ir.Op, result: ir.Value, type: ir.TileType) -> Hashable:
        """The bytes of a result that no allocation names, the same ones at every execution."""
        return self._own(type, ("tile", result.name, id(op)))

    def receive(self, op: ir.Op, name: str, type: ir.TileType, contents: Any) -> Hashable:
        """The bytes of the slot that comes out of a pipe, in turns."""
        pipe, slots = self.popping
        number = self._popped[self.core, pipe] % slots
        self._popped[self.core, pipe] += 1
        return self._own(type, ("slot", pipe, number))

    def alias(self, op: ir.Op, ref: TileRef, type: ir.TileType) -> Hashable:
        """The same bytes."""
        return ref.storage

    def offset(self, op: ir.Op, ref: TileRef, type: ir.TileType, elements: Scalar) -> Hashable:
        """The bytes some elements further on."""
        storage, further = ref.storage, self._generic(elements)
        if not isinstance(storage, Storage) or further is None:
            return storage
        # A window of a tile keeps the rows of it; one of several tiles begins behind the first one.
        first, whole = tile = storage.tile or (storage.start, storage.whole or ref.type)
        start = storage.start + further * ref.type.dtype.bits // 8
        inside = first <= start < first + whole.bytes or not 0 <= start < GENERIC
        return replace(storage, start=start, tile=tile if inside else None)

    def window(self, op: ir.Op, ref: TileRef, type: ir.TileType, row: Scalar, col: Scalar) -> Hashable:
        """The bytes of a part of a tile, in the order of the whole."""
        storage, at = ref.storage, (self._generic(row), self._generic(col))
        if not isinstance(storage, Storage) or at[0] is None or at[1] is None:
            return storage
        whole = storage.whole or ref.type
        return replace(storage, whole=whole, row=storage.row + at[0], col=storage.col + at[1])

    def contents(self, ref: TileRef) -> Any:
        """An array of the right shape."""
        return np.broadcast_to(np.zeros((), ref.type.dtype.word), ref.type.shape)

    def concatenate(self, parts: Sequence[Any], axis: int) -> Any:
        """Such arrays side by side."""
        return np.concatenate(parts, axis)

    def splice(self, first: Any, second: Any, axis: int, at: Scalar) -> Any:
        """An array as large as both."""
        return np.concatenate([first, second], axis)

    def _generic(self, number: Scalar) -> int | None:
        return number.generic if isinstance(number, Assumed) else self.known(number)

    def view_numbers(self, view: View) -> list[int] | None:
        """The offset of a window in generic numbers, its extents and its strides; None where one is open."""
        extents = [self.known(n) for n in view.shape]
        numbers = [self._generic(view.offset), *extents, *map(self._generic, view.strides)]
        return None if None in numbers else [n for n in numbers if n is not None]

    def sizes(self, ref: TileRef) -> tuple[int | None, int | None]:
        """The valid sizes of a handle that the text says; None where they are assumed."""
        rows, cols = (n if isinstance(n, int) else None for n in (ref.v_row, ref.v_col))
        return rows, cols

    def begin(self, op: ir.Op, scope: Scope) -> None:
        """Forget what was executed last."""
        self.executed = None
        self.touched.clear()
        self.scalars.clear()

    def store(self, op: ir.Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Note the place in global memory or on chip."""
        if isinstance(pointer, Pointer):
            self.touched.append((True, pointer))
        else:
            self._scalar(pointer, pointer.dtype, write=True)

    def _scalar(self, pointer: LocalPointer, dtype: ir.DType, *, write: bool) -> None:
        """Note the bytes of an element on chip."""
        start = self._first_byte(pointer)
        region = None if start is None else Region.of(*start, max(1, dtype.storage_bits // 8), [])
        if region is not None:
            self.scalars.append((write, region))

    def unknown(self, value: ir.Value) -> Operand:
        """What a name stands for that an operation gives which nothing executes."""
        if isinstance(value.type, ir.TileType | ir.ScalarType | ir.PartitionViewType | ir.TensorViewType):
            return self.argument(value)
        return None
