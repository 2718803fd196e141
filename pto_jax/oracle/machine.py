"""The reference machine: byte-addressed memories behind the interpreter."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..interpreter import (
    Execution,
    Frame,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    address,
    printed,
    step_by_step,
)
from ..interpreter.cores import memory_core
from ..interpreter.machine import After, Arm, Before, Body, RunBlock
from ..interpreter.operands import Buffer as GlobalBuffer, LocalPointer
from ..ir import DType, Loc, Op, TileType, Value
from ..isa import load_families
from ..isa.micro import MicroCall
from ..isa.rules.handles import ALIGNMENT
from ..profiles import ProfileName
from . import micro as micro_operations, scalars
from .numbers import Array, require_subnormals
from .step import RULES, Policy, Rule, Step, not_executable, scalar_word
from .storage import Buffer, Place, Window, map_of, read_words, storage_size, write_words

load_families("pto_jax.oracle")


class ReferenceMachine:
    """Executes instructions one at a time.

    Tiles with an explicit address share the bytes of their memory space, whatever their shapes and
    types; tiles without one have bytes of their own. ``buffers`` holds global memory as bytes and is
    written in place.
    """

    #: Rules that are executed in place of those of the instructions.
    instead: Mapping[str, Rule] = MappingProxyType({})

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        require_subnormals()
        self.policy = policy
        self.buffers = buffers
        self.max_steps = max_steps
        self.depth = 0
        self.abstract = False
        self.checks = True
        self.in_order = True
        self._core = ""
        self._fill = 0 if policy.profile.fresh_tile == "zero" else 0xFF
        self._spaces: dict[tuple[str, Loc], Buffer] = {}
        self._allocated: dict[tuple[str, int], Buffer] = {}
        #: Special registers of the vector core.
        self.special: dict[str, Any] = dict.fromkeys(("AR", "SQZN", *(f"VMS4_{k}" for k in range(4))), 0)

    @property
    def profile_name(self) -> ProfileName:
        """The profile by whose rules pipes and flags between cores work."""
        return self.policy.profile.name

    def begin(self, op: Op, scope: Scope) -> None:
        """Nothing to prepare: instructions leave no state outside memory."""

    def finish(self) -> None:
        """Nothing is left to do at the end of an execution."""

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Bytes of its own for a tile, the same at every execution of the operation, or those at its address.

        ExecutionError where the address is not aligned or the tile does not fit into the memory.
        """
        if address is not None:
            return self._at(type, address, op)
        key = (self._core, id(op))
        if key not in self._allocated:
            self._allocated[key] = self.buffer()
        buffer = self._allocated[key]
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def buffer(self) -> Buffer:
        """An empty run of bytes."""
        return Buffer(self._fill)

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        """New bytes for a result that no allocation names."""
        return self.new(type)

    def new(self, type: TileType) -> Place:
        """Storage of its own for a tile."""
        buffer = self.buffer()
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        """The bytes at another address of the type's memory space; errors as for :meth:`allocate`."""
        return self._at(type, address, op)

    def copy(self, op: Op, dst: View, src: View) -> bool:
        """It is loaded and stored: False."""
        return False

    def enter(self, core: str) -> None:
        """Turn to the local memory of a core."""
        self._core = core

    def leave(self) -> None:
        """Nothing ends with a kernel."""

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """Execute the blocks one after the other, each with fresh local memory."""
        for number in range(grid):
            self._spaces.clear()
            self._allocated.clear()
            run(number, operands)

    def alias(self, op: Op, ref: TileRef, type: TileType) -> Hashable:
        """The tile's own storage; NotExecutableError for a window that the type would order differently."""
        if isinstance(ref.storage, Window):
            same = ref.type.shape == type.shape and ref.type.dtype.word == type.dtype.word
            if not same or not np.array_equal(map_of(ref.type), map_of(type)):
                raise _pitched(op)
        return ref.storage

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Place:
        """The place ``elements`` elements behind the tile's first byte; NotExecutableError for a window."""
        if isinstance(ref.storage, Window):
            raise _pitched(op)
        place = self._plain(ref)
        start = place.address + int(elements) * ref.type.dtype.storage_bits // 8
        place.buffer.reserve(start + storage_size(type))
        return Place(place.buffer, start)

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Window:
        """The part of a tile from (row, col) on."""
        return Window(ref, int(row), int(col))

    def window_of(self, ref: TileRef) -> tuple[TileRef, Scalar, Scalar] | None:
        """The tile, the row and the column that a window begins at; None for other handles."""
        window = ref.storage
        return (window.tile, window.row, window.col) if isinstance(window, Window) else None

    def _plain(self, ref: TileRef) -> Place:
        assert isinstance(ref.storage, Place), ref.storage
        return ref.storage

    def contents(self, ref: TileRef) -> Any:
        """The words of a whole tile, [rows, cols]."""
        return self.stored(ref)

    def stored(self, ref: TileRef) -> Array:
        """The words of a whole tile."""
        t = ref.type
        if isinstance(ref.storage, Window):
            return self.stored(ref.storage.tile)[ref.storage.slices(t)]
        place = self._plain(ref)
        return read_words(place.buffer.bytes, map_of(t), t.dtype, place.address)

    def overwrite(self, ref: TileRef, contents: Any) -> None:
        """Replace the words of a whole tile."""
        if isinstance(ref.storage, Window):
            whole = self.stored(ref.storage.tile)
            whole[ref.storage.slices(ref.type)] = contents
            self.overwrite(ref.storage.tile, whole)
            return
        place = self._plain(ref)
        write_words(place.buffer.bytes, map_of(ref.type), contents, ref.type.dtype, place.address)

    def receive(self, op: Op | None, name: str, type: TileType, contents: Any) -> Place:
        """New storage that holds the words [rows, cols]."""
        place = self.new(type)
        write_words(place.buffer.bytes, map_of(type), contents, type.dtype)
        return place

    def gives(self, name: str, ref: TileRef) -> None:
        """Called with each tile that a fragment gives, at its end."""

    def concatenate(self, parts: Sequence[Any], axis: int) -> Any:
        """Word arrays joined along an axis."""
        return np.concatenate(parts, axis)

    def splice(self, first: Any, second: Any, axis: int, at: Scalar) -> Any:
        """What is before a position of two arrays, and then the rest of both."""
        ranges = slice(0, int(at)), slice(int(at), None)
        parts = [a[r] if axis == 0 else a[:, r] for r in ranges for a in (first, second)]
        return self.concatenate([part for part in parts if part.shape[axis]], axis)

    def known(self, value: Scalar) -> int | None:
        """The number itself: every scalar is known."""
        return int(value)

    def unrolls(self, op: Op, trips: int) -> bool:
        """Always: loops are executed trip by trip."""
        return True

    def counter(self, value: int) -> Scalar:
        """The number itself."""
        return value

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """The results of the first arm where the condition is true, else of the second."""
        return arms[0 if condition else 1]()

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What is carried after ``trips`` trips of ``body``."""
        carried = tuple(inits)
        for trip in range(int(trips)):
            carried = body(trip, carried)
        return carried

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """What is carried after a while loop of at most ``max_steps`` trips."""
        return step_by_step(self, frame.op, inits, before, after)

    def show(self, op: Op, format: str, value: Scalar, dtype: DType) -> None:
        """Print a scalar by a C format."""
        print(printed(format, float(value) if dtype.is_float else int(value)))

    def trap(self, op: Op) -> None:
        """End the execution with ExecutionError."""
        raise ExecutionError(op.error("trap", "the program stops here"))

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Raise ExecutionError where a run-time rule is broken."""
        if broken:
            what = f"got {found.format(*values)}" if found else "a run-time rule is broken"
            message = f"{what}; allowed: {allowed}"
            raise ExecutionError(op.error(rule, message))

    def _at(self, t: TileType, address: Scalar, op: Op) -> Place:
        start, size = int(address), storage_size(t)
        capacity = self.policy.profile.capacity[t.loc]
        name, span = op.name, op.span
        if start % ALIGNMENT:
            message = f"got address {start}; allowed: a multiple of {ALIGNMENT} bytes"
            raise ExecutionError(Diagnostic("error", message, span, name, rule="address"))
        if start < 0 or start + size > capacity:
            message = (
                f"a tile {t} at address {start} takes bytes [{start}, {start + size}); "
                f"{t.loc.name.lower()} memory of {self.policy.profile.name} has {capacity} bytes"
            )
            raise ExecutionError(Diagnostic("error", message, span, name, rule="capacity"))
        key = (self._core, t.loc)
        if key not in self._spaces:
            self._spaces[key] = self.buffer()
        space = self._spaces[key]
        space.reserve(start + size)
        return Place(space, start)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The result of an ``arith`` operation on numbers."""
        return scalars.compute(name, args, source, result)

    def elements(self, buffer: GlobalBuffer, dtype: DType) -> int | None:
        """How many elements of a type the buffer's bytes hold; None for a buffer that execution chooses."""
        return len(self.buffers[buffer]) * 8 // dtype.storage_bits if isinstance(buffer, str) else None

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> int:
        """``base + index * stride``, NOWHERE where that leaves 64 bits."""
        return address(int(base), int(index), int(stride))

    def region(self, op: Op, ref: TileRef) -> None:
        """Raise ExecutionError where a handle's valid sizes are not within its shape."""
        rows, cols = int(ref.v_row), int(ref.v_col)
        if not (0 <= rows <= ref.type.rows and 0 <= cols <= ref.type.cols):
            message = f"a valid region of {rows}x{cols} in a tile of {ref.type.rows}x{ref.type.cols}"
            raise ExecutionError(op.error("region", message))

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """The element at a position in a tile's storage; ExecutionError outside the tile."""
        place, at = _in_tile(op, ref, position)
        return _scalar(read_words(place.buffer.bytes, at, ref.type.dtype, place.address), dtype)

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to the element at a position in a tile's storage; ExecutionError outside it."""
        place, at = _in_tile(op, ref, position)
        word = scalar_word(value, ref.type.dtype).reshape(1)
        write_words(place.buffer.bytes, at, word, ref.type.dtype, place.address)

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """The results of a micro-operation; errors as for the elements that it accesses."""
        return micro_operations.execute(self, op, call, operands)

    def memory_of(self, op: Op) -> micro_operations.Memory:
        """The memory as a micro-operation accesses it."""
        return micro_operations.Memory(self, op)

    def local(self, pointer: LocalPointer, op: Op) -> Place:
        """Where a pointer into on-chip memory is."""
        if pointer.tile is not None:
            place = self._plain(pointer.tile)
            if pointer.tile.address is not None:
                # A register that is loaded at the end of a tile goes on behind it.
                place.buffer.reserve(self.policy.profile.end(pointer.tile.type.loc, place.address))
            return Place(place.buffer, place.address + int(pointer.address))
        loc = Loc[pointer.space.name]
        space = self._spaces.setdefault((memory_core(self._core, pointer), loc), self.buffer())
        space.reserve(self.policy.profile.end(loc, int(pointer.address)))
        return Place(space, int(pointer.address))

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """The element that a pointer is at; ExecutionError outside the buffer."""
        if isinstance(pointer, LocalPointer):
            data = self.memory_of(op).read(pointer, np.arange(pointer.dtype.word.itemsize))
            return _scalar(data.view(pointer.dtype.word), dtype)
        memory = self.buffers[pointer.buffer]
        return _scalar(read_words(memory, _in_buffer(op, pointer, memory), pointer.dtype), dtype)

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar to the element that a pointer is at; ExecutionError outside the buffer."""
        if isinstance(pointer, LocalPointer):
            data = scalar_word(value, pointer.dtype).reshape(1).view(np.uint8)
            self.memory_of(op).write(pointer, np.arange(len(data)), data)
            return
        memory = self.buffers[pointer.buffer]
        at = _in_buffer(op, pointer, memory)
        write_words(memory, at, scalar_word(value, pointer.dtype).reshape(1), pointer.dtype)

    def execute(self, execution: Execution) -> dict[str, Array]:
        """Execute an instruction's rule; returns the values of vectors outside tile memory by name."""
        windows = {
            name: ref
            for name, ref in execution.operands.items()
            if isinstance(ref, TileRef) and isinstance(ref.storage, Window)
        }
        if windows:
            return self._execute_on_copies(execution, windows)
        step = self.step(execution)
        self.compute(execution, step)
        return {name: step.made[name].view(t.dtype.numpy) for name, t in execution.vectors.items()}

    def compute(self, execution: Execution, step: Step) -> None:
        """Execute the rule of an instruction."""
        name = execution.instruction.name
        rule = self.instead.get(name, RULES.get(name))
        if rule is None:
            raise not_executable(execution.op, "has no rule in the reference interpreter")
        with np.errstate(all="ignore"):
            rule(step)

    def step(self, execution: Execution) -> Step:
        """An instruction's operands as its rule sees them."""
        return Step(
            self.policy,
            execution.op,
            execution.operands,
            execution.attrs,
            execution.form,
            self.buffers.__getitem__,
        )

    def _execute_on_copies(self, execution: Execution, windows: Mapping[str, TileRef]) -> dict[str, Array]:
        """Rules see windows as tiles of their own; what they write goes back."""
        copies = {
            name: replace(ref, storage=self.receive(execution.op, name, ref.type, self.contents(ref)))
            for name, ref in windows.items()
        }
        results = self.execute(replace(execution, operands={**execution.operands, **copies}))
        for name, ref in windows.items():
            if execution.instruction.operand(name).role in ("out", "inout"):
                self.overwrite(ref, self.contents(copies[name]))
        return results


def _pitched(op: Op) -> NotExecutableError:
    return not_executable(op, "got an alias of a window with its own pitch; allowed: of a whole tile")


def _in_tile(op: Op, ref: TileRef, position: Scalar) -> tuple[Place, Array]:
    if not isinstance(ref.storage, Place):
        raise not_executable(op, "got an element of a window; allowed: of a whole tile")
    if not (map_of(ref.type) == int(position)).any():
        raise _outside(op, position, f"a tile of {ref.type.elements} elements")
    return ref.storage, np.array([int(position)])


def _in_buffer(op: Op, pointer: Pointer, memory: Array) -> Array:
    count, position = len(memory) * 8 // pointer.dtype.storage_bits, int(pointer.offset)
    if not 0 <= position < count:
        raise _outside(op, position, f"buffer {pointer.buffer} of {count} elements")
    return np.array([position])


def _outside(op: Op, position: Scalar, what: str) -> ExecutionError:
    message = f"got offset {position} in {what}; allowed: an element of it"
    return ExecutionError(op.error("offset-range", message))


def _scalar(words: Array, d: DType) -> Scalar:
    """A word as a scalar of the program; floats keep their bits."""
    value = words.view(d.numpy)[0]
    return int(value) if d.is_integer else value
