"""Memory as micro-operations access it: places in cells of on-chip memory, or in buffers.

A place is an address in flat words of some width. Its alignment says how wide the words may be that an access
is made of; reads give words of the width that is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import NotExecutableError
from pto_jax.interpreter import Operand, Pointer, Scalar, TileRef
from pto_jax.interpreter.cores import memory_core
from pto_jax.interpreter.operands import LocalPointer, Register
from pto_jax.ir import U64, Loc, Op, ScalarType, TileType, Value
from pto_jax.isa import find_micro
from pto_jax.isa.micro import Lanes, MicroCall
from pto_jax.profiles import PART

from .. import scalars, slicing
from ..bits import nibbles, recast, restored
from ..micro import MEMORY_RULES, RULES, computed, load_rules, regrouped
from . import planning, storage
from .addresses import wide
from .planning import key_of
from .storage import Slot

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt

    from .tile_memory import TileMemory


#: Constant positions are a run with gaps where it has at most this many times as many words.
MAX_GAPS = 8
#: The special registers, in the order of their words in the cell that has them.
SPECIAL = ("AR", "SQZN", "VMS4_0", "VMS4_1", "VMS4_2", "VMS4_3")
_SPECIAL_TYPE = TileType(U64, 1, len(SPECIAL))


@dataclass(frozen=True)
class Place(ABC):
    """Where a pointer of an operation is; ``aligned`` are bytes of which its address is a multiple."""

    machine: TileMemory
    op: Op
    pointer: Operand
    aligned: int

    @property
    def dtype(self) -> Any:
        """The element type of the pointer."""
        return self.pointer.dtype

    @property
    @abstractmethod
    def start(self) -> Scalar:
        """The address in the flat words, in bytes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits of the words that the place is in."""

    @abstractmethod
    def flat(self, unit: int) -> UInt[Array, " n"]:
        """The flat words, of ``unit`` bits."""

    @abstractmethod
    def replace(self, words: UInt[Array, " n"]) -> None:
        """Replace the flat words by others of any width."""

    def unit(self, *counts: int) -> int:
        """The widest words between which an access begins and ends, whose sizes in bytes are given."""
        start = self.start
        alignment = start if isinstance(start, int) else self.aligned
        unit = self.width
        while any(n * 8 % unit for n in (alignment, *counts)):
            unit //= 2
        return unit

    def first(self, unit: int) -> Scalar:
        """Where the place is among the words of ``unit`` bits."""
        start = self.start
        return start * 8 // unit if isinstance(start, int) else wide(start) * 8 // unit

    def read(self, count: int, width: int, at: int = 0) -> UInt[Array, " {count}"]:
        """``count`` words of ``width`` bits from ``at`` such words behind the pointer on."""
        size = count * width // 8
        unit = self.unit(width // 8, at * width // 8)
        flat, first = self.flat(unit), self.first(unit)
        self.require_inside(first, at * width // unit, size * 8 // unit, flat.shape[0], unit)
        words = self.taken(flat, first, at * width // unit, size * 8 // unit)
        return regrouped(words, width)

    def taken(self, flat: UInt[Array, " n"], first: Scalar, at: int, count: int) -> UInt[Array, " {count}"]:
        """``count`` of the flat words from ``at`` words behind the first one on."""
        return storage.read(_padded(flat, count), first + at, count)

    def put(
        self,
        flat: UInt[Array, " n"],
        first: Scalar,
        at: Scalar,
        words: UInt[Array, " m"],
        active: Bool[Array, " lanes"] | None,
    ) -> None:
        """Replace flat words from ``at`` words behind the first one on, where their lanes are active."""
        self.machine.one_by_one()
        size = words.shape[0]
        if active is not None:
            active = jnp.repeat(active, size // active.shape[0])
            words = jnp.where(active, words, storage.read(_padded(flat, size), first + at, size))
        self.replace(storage.write(_padded(flat, size), words, first + at)[: flat.shape[0]])

    def write(
        self, words: UInt[Array, " n"], active: Bool[Array, " n"] | None = None, at: Scalar = 0
    ) -> None:
        """Replace words from ``at`` such words behind the pointer on, where they are active."""
        width, count = words.dtype.itemsize * 8, words.shape[0]
        if not count:
            return
        unit = self.unit(width // 8, at * width // 8 if isinstance(at, int) else width // 8)
        flat = self.flat(unit)
        first, behind = self.first(unit), at * width // unit
        if active is None:
            self.require_inside(first, behind, count * width // unit, flat.shape[0], unit)
        elif self.machine.follows("in-bounds"):
            each = jnp.repeat(active, width // unit)
            self.require_all(wide(first) + behind + np.arange(each.size), each, flat.shape[0], unit)
        self.put(flat, first, behind, regrouped(words, unit), active)

    def gather(
        self, positions: Int64[Array, "..."] | Int64[np.ndarray, "..."], unit: int
    ) -> UInt[Array, "..."]:
        """The words of ``unit`` bits at positions behind the pointer; zero outside."""
        flat, first = self.flat(unit), self.first(unit)
        at = wide(first) + positions
        self.require_all(at, jnp.ones(at.shape, bool), flat.shape[0], unit)
        run = _run(positions)
        if run is not None:
            return self.taken(flat, first, *run)[positions - run[0]]
        self.anywhere()
        return flat.at[_inside(at, flat.shape[0])].get(mode="fill", fill_value=0)

    def scatter(
        self,
        positions: Int64[Array, "..."] | Int64[np.ndarray, "..."],
        words: UInt[Array, "..."],
        active: Bool[Array, "..."],
        unique: bool = True,
    ) -> None:
        """Replace words at positions behind the pointer, where they are active; the last of equal ones."""
        unit = words.dtype.itemsize * 8
        flat, first = self.flat(unit), self.first(unit)
        at = jnp.broadcast_to(wide(first) + positions, words.shape)
        self.require_all(at, active, flat.shape[0], unit)
        run = _run(positions)
        if run is not None and np.unique(positions).size == words.size:
            low, count = run
            sources = np.full(count, -1)
            sources[positions.reshape(-1) - low] = np.arange(words.size)
            mask = active.reshape(-1)[sources] & (sources >= 0)
            self.put(flat, first, low, words.reshape(-1)[sources], mask)
            return
        self.machine.one_by_one()
        at = jnp.where(active, _inside(at, flat.shape[0]), flat.shape[0])
        self.replace(flat.at[at].set(words, mode="drop") if unique else _last_of_each(flat, at, words))

    def anywhere(self) -> None:  # noqa: B027 - a buffer has nothing to note
        """Called before any of the words may be read."""

    def require_inside(self, first: Scalar, at: Scalar, count: int, size: int, unit: int) -> None:
        """The run-time rule that a run of words is inside."""
        if not self.machine.follows("in-bounds"):
            return
        begin, (low, end) = first + at, self.memory(size * unit // 8)
        broken = (begin < 0) | (begin > _least(size, (end - low) * 8 // unit) - count)
        actual, values = "bytes from {} on", (begin * (unit // 8) + low,)
        self.machine.require(self.op, "in-bounds", self.allowed(end), broken, actual, values)

    def require_all(self, at: Array, active: Array, size: int, unit: int) -> None:
        """The run-time rule that words are inside, each where it is active."""
        if not self.machine.follows("in-bounds") or not at.size:
            return
        low, end = self.memory(size * unit // 8)
        outside = active & ((at < 0) | (at >= _least(size, (end - low) * 8 // unit)))
        which = jnp.argmax(outside.reshape(-1))
        # Positions may be numbers of the text, while the active ones are traced.
        values = (jnp.asarray(at).reshape(-1)[which] * (unit // 8) + low,)
        self.machine.require(self.op, "in-bounds", self.allowed(end), outside.any(), "byte {}", values)

    def memory(self, size: int) -> tuple[int, Scalar]:
        """The address of the first of ``size`` flat bytes, and where the memory ends that they are in."""
        return 0, size

    def allowed(self, end: Scalar) -> str:
        """What a message says of where accesses may be."""
        if isinstance(end, int):
            return f"bytes 0 to {end - 1} of the memory"
        return "bytes of one part of the memory"


def _least(size: int, other: Scalar) -> Scalar:
    return min(size, other) if isinstance(other, int) else jnp.minimum(size, other)


def _run(positions: Int64[Array, "..."] | Int64[np.ndarray, "..."]) -> tuple[int, int] | None:
    """Where constant positions begin, and how many words lie between them; None where these are many more."""
    if not isinstance(positions, np.ndarray) or not positions.size:
        return None
    low, count = int(positions.min()), int(np.ptp(positions)) + 1
    return (low, count) if count <= MAX_GAPS * positions.size else None


def _inside(at: Int64[Array, "..."], size: int) -> Array:
    """Positions that are inside, others behind the end: JAX counts negative ones from the end."""
    return jnp.where((at >= 0) & (at < size), at, size)


def _last_of_each(flat: Array, at: Array, words: Array) -> Array:
    """Words with others at positions, of equal ones the last one: JAX leaves the order of writes open."""
    numbers = np.arange(at.size, dtype=np.int32)
    last = jnp.full(flat.shape, -1, np.int32).at[at.reshape(-1)].max(numbers, mode="drop")
    return jnp.where(last >= 0, words.reshape(-1)[jnp.maximum(last, 0)], flat)


def _padded(flat: Array, count: int) -> Array:
    missing = count - flat.shape[0]
    return jnp.pad(flat, (0, missing)) if missing > 0 else flat


@dataclass(frozen=True)
class GlobalPlace(Place):
    """A place in a buffer of global memory."""

    @property
    def start(self) -> Scalar:
        """The byte of the buffer."""
        return self.pointer.offset * (self.pointer.dtype.storage_bits // 8)

    @property
    def width(self) -> int:
        """Bits of the buffer's words, and of the pointer's elements where these are smaller."""
        if self.machine.packed[self.pointer.buffer]:
            return 8
        words = self.machine.buffers[self.pointer.buffer].dtype.itemsize * 8
        return int(min(words, self.pointer.dtype.word_bits))

    def flat(self, unit: int) -> Array:
        """The words of the buffer."""
        memory = self.machine.buffers[self.pointer.buffer]
        if self.machine.packed[self.pointer.buffer]:
            pairs = memory[: memory.shape[0] // 2 * 2].reshape(-1, 2)
            memory = pairs[:, 0] | pairs[:, 1] << np.uint8(4)
        return recast(memory, np.dtype(f"u{unit // 8}"))

    def replace(self, words: Array) -> None:
        """Replace the buffer's words."""
        memory = self.machine.buffers[self.pointer.buffer]
        if self.machine.packed[self.pointer.buffer]:
            flat = regrouped(words, 8)
            words = nibbles(flat)
        self.machine.buffers[self.pointer.buffer] = restored(memory, words)


@dataclass(frozen=True)
class LocalPlace(Place):
    """A place in on-chip memory: in the cell that the plan has for the operation's addresses."""

    slot: Slot

    @property
    def start(self) -> Scalar:
        """The byte of the cell."""
        return self.slot.address - self.slot.cell.begin

    @property
    def width(self) -> int:
        """Bits of the cell's words."""
        return min(self.slot.cell.width, self.slot.step)

    @property
    def address_parts(self) -> tuple[Scalar, ...]:
        """Numbers of bytes whose sum is where the place is in its cell."""
        tile = self.pointer.tile
        slot = None if tile is None else storage.slot_of(tile.storage)
        return (-self.slot.cell.begin, self.pointer.address, 0 if slot is None else slot.address)

    def memory(self, size: int) -> tuple[int, Scalar]:
        """The address of the cell, and the end of its memory space; of a tile without one its own bytes."""
        address, loc = self.pointer.address, Loc[self.pointer.space.name]
        if self.pointer.tile is not None:
            address = self.pointer.tile.address
            if not isinstance(address, int):
                return 0, size
        profile = self.machine.semantics.profile
        if isinstance(address, int):
            return self.slot.cell.begin, profile.end(loc, address)
        first, second = profile.end(loc, 0), profile.end(loc, PART)
        if first == second:
            return self.slot.cell.begin, first
        return self.slot.cell.begin, jnp.where((address >= PART) & (address < 2 * PART), second, first)

    def allowed(self, end: Scalar) -> str:
        """What a message says of where accesses may be; nothing is behind a tile without an address."""
        if self.pointer.tile is None or self.pointer.tile.address is not None:
            return super().allowed(end)
        return f"bytes 0 to {end - 1} of the tile, also those behind it with addr at its pto.alloc_tile"

    def taken(self, flat: Array, first: Scalar, at: int, count: int) -> Array:
        """The words, of a loop whose trips are executed at once those of all trips."""
        if self.machine.together is None:
            return super().taken(flat, first, at, count)
        found: Array = self.machine.together.read(self, at, count, flat.dtype.itemsize * 8)
        return found

    def put(self, flat: Array, first: Scalar, at: Scalar, words: Array, active: Array | None) -> None:
        """Replace words, in a loop whose trips are executed at once those of all trips."""
        if self.machine.together is None or not isinstance(at, int):
            super().put(flat, first, at, words, active)
            return
        active = None if active is None else jnp.repeat(active, words.shape[0] // active.shape[0])
        self.machine.together.write(self, at, words, active)

    def anywhere(self) -> None:
        """Note that any word of the cell may be read."""
        if self.machine.together is not None:
            self.machine.together.read_anywhere(self)

    def flat(self, unit: int) -> Array:
        """The words of the cell in the order of memory."""
        cell = self.slot.cell
        words = self.machine.cells[cell.key]
        return storage.regroup(
            words if cell.logical is None else storage.to_physical(words, cell.logical), unit
        )

    def replace(self, words: Array) -> None:
        """Replace the words of the cell."""
        cell = self.slot.cell
        flat = storage.regroup(words, 8 if cell.logical and cell.logical.dtype.packed else cell.width)
        logical = flat if cell.logical is None else storage.to_logical(flat, cell.logical)
        self.machine.set_cell(cell.key, logical)


class Special:
    """The special registers of a machine as numbers."""

    def __init__(self, machine: TileMemory) -> None:
        self.machine = machine
        place = machine.special()
        self.ref = TileRef(_SPECIAL_TYPE, place, *_SPECIAL_TYPE.shape)

    def __getitem__(self, name: str) -> Int64[Array, ""]:
        return self.machine.words(self.ref)[0, SPECIAL.index(name)].astype(np.int64)

    def __setitem__(self, name: str, value: Scalar) -> None:
        words = self.machine.words(self.ref)
        new = words.at[0, SPECIAL.index(name)].set(jnp.asarray(value).astype(np.uint64))
        self.machine.write(self.ref, new)


def execute(
    machine: TileMemory, op: Op, call: MicroCall, operands: Mapping[str, Operand]
) -> tuple[Operand, ...]:
    """The results of a micro-operation; NotExecutableError without a rule."""
    load_rules()
    operation = find_micro(op.name)
    values = operation.values(op) if operation is not None else {}
    arguments = {name: _given(machine, op, call, name, o, values.get(name)) for name, o in operands.items()}
    if op.name in RULES:
        words = (v.word if isinstance(v, Number) else v for v in arguments.values())
        results = computed(call, machine.semantics, *words)
    elif op.name in MEMORY_RULES:
        results = _moved(op, call, machine, arguments)
    else:
        message = "is not executed by this version"
        raise NotExecutableError(op.error("executable", message))
    if operation is not None and operation.squeezes:
        Special(machine)["SQZN"] = _squeezed(call, arguments[operation.squeezes])
    return tuple(_result(v, words) for v, words in zip(op.results, results, strict=False))


def _moved(op: Op, call: MicroCall, machine: TileMemory, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The results of an operation on memory; its errors say where it stands."""
    try:
        return MEMORY_RULES[op.name](call, machine, **values)
    except NotExecutableError as error:
        (finding,) = error.diagnostics
        if finding.span is not None:
            raise
        raise NotExecutableError(replace(finding, span=op.span)) from None


def _squeezed(call: MicroCall, mask: Bool[Array, " bits"]) -> Int64[Array, ""]:
    """The bytes of the active lanes of a result."""
    result = call.results[0]
    assert isinstance(result, Lanes)
    active = jnp.sum(mask[:: mask.shape[0] // result.lanes], dtype=np.int64)
    return active * np.int64(result.dtype.word_bits // 8)


def _given(
    machine: TileMemory, op: Op, call: MicroCall, name: str, operand: Operand, value: Value | None
) -> Any:
    """What a rule gets for an operand."""
    if isinstance(operand, Register):
        return operand.contents
    if isinstance(operand, Pointer | LocalPointer):
        return place_of(machine, op, call, name, operand)
    assert value is not None and isinstance(value.type, ScalarType), value
    d = value.type.dtype
    constant = machine.known(operand) if not d.is_float else None
    if constant is not None:
        return Number(constant, d.bits)
    return scalars.to_native(operand, d) if d.kind == "index" else scalars.to_word(operand, d)


class Number(int):
    """A scalar whose number is known; ``word`` are its raw bits."""

    bits: int

    def __new__(cls, value: int, bits: int) -> Number:
        """A number as a scalar of so many bits."""
        number = super().__new__(cls, value)
        number.bits = bits
        return number

    @property
    def word(self) -> Any:
        """The number as the raw word of its type."""
        kind = np.dtype(f"u{max(8, self.bits) // 8}").type
        return jnp.asarray(kind(int(self) & ((1 << max(8, self.bits)) - 1)))


def _result(value: Value, words: Any) -> Operand:
    if not isinstance(value.type, ScalarType):
        return Register(words)
    d = value.type.dtype
    return slicing.as_scalar(jnp.asarray(words), d)


def place_of(machine: TileMemory, op: Op, call: MicroCall, name: str, pointer: Operand) -> Place:
    """Where a pointer of an operation is."""
    operation = find_micro(op.name)
    places = operation.places if operation is not None else ()
    aligned = next((p.aligned(call) for p in places if p.key == name), 1)
    if isinstance(pointer, Pointer):
        return GlobalPlace(machine, op, pointer, pointer.dtype.storage_bits // 8)
    return LocalPlace(machine, op, pointer, aligned, _slot(machine, op, name, pointer))


def scalar_place(machine: TileMemory, op: Op, pointer: LocalPointer) -> Place:
    """Where a scalar is loaded or stored."""
    name = planning.SCALAR.key
    return LocalPlace(machine, op, pointer, pointer.dtype.word_bits // 8, _slot(machine, op, name, pointer))


def _slot(machine: TileMemory, op: Op, name: str, pointer: LocalPointer) -> Slot:
    if pointer.tile is not None:
        slot = storage.slot_of(pointer.tile.storage)
        if slot is None or not isinstance(pointer.tile.storage, Slot):
            message = "got a pointer into a window of a tile; allowed: into a whole tile"
            raise NotExecutableError(op.error("window", message))
        return Slot(slot.cell, slot.address + pointer.address, slot.step)
    span, width = machine.spans.get((key_of(op), name), (planning.ANYWHERE, 8))
    placement = planning.placement(span, width, Loc[pointer.space.name])
    return machine.placed_slot(placement, pointer.address, memory_core(machine.core, pointer))
