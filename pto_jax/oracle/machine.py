"""The reference machine: byte-addressed memories behind the program walker."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..dtypes import DType
from ..errors import Diagnostic, ExecutionError
from ..ir import Op, Value
from ..types import Loc, TileType
from ..walk import Execution, Pointer, Scalar, TileRef
from ..walk_memory import ScalarMemory
from . import (
    elementwise,
    elementwise_fused,
    elementwise_select,
    fixpipe,
    irregular,
    irregular_gather,
    irregular_index,
    irregular_partial,
    irregular_quant,
    irregular_quant_mx,
    irregular_sort,
    layout,
    layout_extract,
    layout_fill,
    layout_img2col,
    layout_rearrange,
    matrix,
    matrix_mx,
    memory,
    memory_indexed,
    memory_layouts,
    reduce_expand,
    reduce_expand_binary,
    reduce_expand_index,
    scalars,
    tile_scalar,
)
from .numbers import Array
from .step import RULES, Policy, Step, not_executable, scalar_word
from .storage import Buffer, Place, map_of, read_words, storage_size, write_words

#: Importing a class file registers its rules.
CLASS_FILES = (
    elementwise,
    elementwise_fused,
    elementwise_select,
    tile_scalar,
    reduce_expand,
    reduce_expand_index,
    reduce_expand_binary,
    memory,
    memory_indexed,
    memory_layouts,
    layout,
    layout_rearrange,
    layout_fill,
    layout_extract,
    layout_img2col,
    fixpipe,
    matrix,
    matrix_mx,
    irregular,
    irregular_sort,
    irregular_gather,
    irregular_index,
    irregular_quant,
    irregular_quant_mx,
    irregular_partial,
)


class ReferenceMachine(ScalarMemory):
    """Executes instructions one at a time.

    Tiles with an explicit address share the bytes of their memory space, whatever their shapes and
    types; tiles without one have bytes of their own. ``buffers`` holds global memory as bytes and is
    written in place; ``written`` names the buffers that were stored to.
    """

    def __init__(self, policy: Policy, buffers: Mapping[str, Array]) -> None:
        self.policy = policy
        self.buffers = buffers
        self.written: set[str] = set()
        self._fill = 0 if policy.profile.fresh_tile == "zero" else 0xFF
        self._spaces: dict[Loc, Buffer] = {}
        self._allocated: dict[int, Buffer] = {}

    def begin(self, op: Op) -> None:
        """Nothing to prepare: instructions leave no state outside memory."""

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        if address is not None:
            return self._at(type, address, op)
        buffer = self._allocated.setdefault(id(op), Buffer(self._fill))
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        return self.new(type)

    def new(self, type: TileType) -> Place:
        """Storage of its own for a tile."""
        buffer = Buffer(self._fill)
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def rebind(self, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        return self._at(type, address, None)

    def _at(self, t: TileType, address: Scalar, op: Op | None) -> Place:
        start, size = int(address), storage_size(t)
        capacity = self.policy.profile.capacity[t.loc]
        name, span = (op.name, op.span) if op else (None, None)
        if start < 0 or start + size > capacity:
            message = (
                f"a tile {t} at address {start} takes bytes [{start}, {start + size}); "
                f"{t.loc.name.lower()} memory of {self.policy.profile.name} has {capacity} bytes"
            )
            raise ExecutionError(Diagnostic("error", message, span, name, rule="capacity"))
        space = self._spaces.setdefault(t.loc, Buffer(self._fill))
        space.reserve(start + size)
        return Place(space, start)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        return scalars.compute(name, args, source, result)

    def region(self, op: Op, ref: TileRef) -> None:
        rows, cols = int(ref.v_row), int(ref.v_col)
        if not (0 <= rows <= ref.type.rows and 0 <= cols <= ref.type.cols):
            message = f"a valid region of {rows}x{cols} in a tile of {ref.type.rows}x{ref.type.cols}"
            raise ExecutionError(Diagnostic("error", message, op.span, op.name, rule="region"))

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        place, at = _in_tile(op, ref, position)
        return _scalar(read_words(place.buffer.bytes, at, ref.type.dtype, place.address), dtype)

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        place, at = _in_tile(op, ref, position)
        word = scalar_word(value, ref.type.dtype).reshape(1)
        write_words(place.buffer.bytes, at, word, ref.type.dtype, place.address)

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Scalar:
        memory = self.buffers[pointer.buffer]
        return _scalar(read_words(memory, _in_buffer(op, pointer, memory), pointer.dtype), dtype)

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        memory = self.buffers[pointer.buffer]
        at = _in_buffer(op, pointer, memory)
        write_words(memory, at, scalar_word(value, pointer.dtype).reshape(1), pointer.dtype)
        self.written.add(pointer.buffer)

    def execute(self, execution: Execution) -> dict[str, Array]:
        rule = RULES.get(execution.instruction.name)
        if rule is None:
            raise not_executable(execution.op, "has no rule in the reference interpreter")
        view = execution.operands.get("dst")
        if view is not None and not isinstance(view, TileRef):
            self.written.add(view.buffer)
        step = Step(
            self.policy,
            execution.op,
            execution.operands,
            execution.attrs,
            execution.form,
            self.buffers.__getitem__,
        )
        with np.errstate(all="ignore"):
            rule(step)
        return {name: step.made[name].view(t.dtype.numpy) for name, t in execution.vectors.items()}


def _in_tile(op: Op, ref: TileRef, position: Scalar) -> tuple[Place, Array]:
    assert isinstance(ref.storage, Place)
    if not (map_of(ref.type) == int(position)).any():
        raise _outside(op, position, f"a tile of {ref.type.elements} elements")
    return ref.storage, np.array([int(position)])


def _in_buffer(op: Op, pointer: Pointer, memory: Array) -> Array:
    count, position = len(memory) * 8 // pointer.dtype.storage_bits, int(pointer.offset)
    if not 0 <= position < count:
        raise _outside(op, position, f"buffer {pointer.buffer} of {count} elements")
    return np.array([position])


def _outside(op: Op, position: Scalar, what: str) -> ExecutionError:
    message = f"found offset {position} in {what}; allowed: an element of it"
    return ExecutionError(Diagnostic("error", message, op.span, op.name, rule="offset-range"))


def _scalar(words: Array, d: DType) -> Scalar:
    """A word as a scalar of the program; floats keep their bits."""
    value = words.view(d.numpy)[0]
    return int(value) if d.is_integer else value
