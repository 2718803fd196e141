"""The plan of a program's tiles in memory, from an execution with addresses only.

That folds constants, follows calls and rebindings exactly as execution does, so that every address
that execution will know is known here too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pto_jax import errors, profiles
from pto_jax.interpreter import (
    Execution,
    Frame,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    abstract,
    launch,
)
from pto_jax.interpreter.operands import LocalPointer, Register
from pto_jax.ir import INDEX, AtomicType, DType, GlobalLayout, Loc, Op, Program, TileType, dtype
from pto_jax.isa import find_micro
from pto_jax.isa.micro import MicroCall, Place as BytesPlace

from ..memory_layouts import AXES, Window
from . import ranges, storage
from .ranges import Moved, Range

if TYPE_CHECKING:
    from pto_jax.interpreter.machine import Body, RunBlock

#: What tells an operation from others that compute addresses.
Key: TypeAlias = tuple[str, tuple[str, ...]]


def key_of(op: Op) -> Key:
    """What an operation with an address is known by, as equal programs have operations of their own."""
    return op.name, tuple(v.name for v in (*op.results, *op.outs, *op.ins))


@dataclass(frozen=True)
class Accesses:
    """The first and the last element of a buffer that every execution addresses.

    ``before`` and ``behind`` are the operations that address them.
    """

    first: int
    last: int
    before: Op
    behind: Op

    def joined(self, other: Accesses) -> Accesses:
        """The outermost elements of both; where they are equal, with this one's operations."""
        low = other if other.first < self.first else self
        high = other if other.last > self.last else self
        return Accesses(low.first, high.last, low.before, high.behind)


class Span(NamedTuple):
    """The elements of a buffer from ``first`` to ``last``, among which all are that some accesses address."""

    first: int
    last: int

    @classmethod
    def of(cls, view: View, tiles: Iterable[TileType]) -> Span:
        """What a transfer between a view and tiles may address, whatever its scalars are.

        Some instructions take the elements of a tile one after the other from where the view begins.
        """
        begin = Range.of(view.offset)
        first, last = begin.low, begin.high + max((t.elements - 1 for t in tiles), default=0)
        low = high = 0
        for size, stride in zip(view.shape, view.strides, strict=True):
            most, by = max(0, Range.of(size).high - 1), Range.of(stride)
            low, high = low + min(0, most * by.low), high + max(0, most * by.high)
        return cls(first + low, max(last, begin.high + high))

    def meets(self, other: Span) -> bool:
        """Whether both may have an element in common."""
        return self.first <= other.last and other.first <= self.last


#: Every element of a buffer.
EVERYWHERE = Span(-(1 << 63), 1 << 63)


#: Bytes of a memory space, from the first one to the one behind the last; None where they are not known.
Bytes: TypeAlias = "tuple[int, int] | None"
ANYWHERE: Bytes = None
#: Addresses above this one are in no memory.
_HIGHEST = 1 << 24
#: Positions farther from the beginning of a tile than this are not in its memory.
_WITHIN = 1 << 18


#: How scalars are loaded and stored.
SCALAR = BytesPlace("ptr", "write")


def _largest(value: Operand) -> int | None:
    """The largest number that an operand may be, where none is negative."""
    if isinstance(value, Register | Pointer | LocalPointer | TileRef | View):
        return None
    range = Range.of(value)
    return range.high if range.low >= 0 and range.high < _HIGHEST else None


def placement(place: Bytes, width: int, loc: Loc) -> storage.Placement:
    """Bytes that an operation accesses as a row of words that a tile has."""
    word = dtype(f"u{width}")
    if place is None:
        return storage.Placement(TileType(word, 1, 1, loc=loc), None)
    low, high = place[0] // 32 * 32, -(-max(place[1], place[0] + 1) // 32) * 32
    return storage.Placement(TileType(word, 1, (high - low) * 8 // width, loc=loc), low)


@dataclass
class Surveyor(abstract.AbstractMachine):
    """Computes ranges only, and notes where a program puts and addresses things.

    ``found`` are the addresses of tiles, ``accesses`` the constant accesses to global memory outside control
    flow that only execution knows; ``near`` tells of operations that compute addresses whether these are
    always near the beginning of global memory, ``offsets`` of transfers where their windows begin, ``inside``
    of operations whether their windows are always inside what they are windows of. ``spans_read`` are the
    elements of buffers that are read, None standing for any buffer; ``spans_written`` those that each
    instruction writes.
    """

    checks: bool = True

    found: list[storage.Placement] = field(default_factory=list)
    accesses: dict[str, Accesses] = field(default_factory=dict)
    near: dict[Key, bool] = field(default_factory=dict)
    offsets: dict[tuple[Key, str], Range] = field(default_factory=dict)
    spans_read: dict[str | None, set[Span]] = field(default_factory=dict)
    spans_written: dict[tuple[Key, str], set[Span]] = field(default_factory=dict)
    inside: dict[Key, bool] = field(default_factory=dict)
    #: The bytes of on-chip memory that operations access through a pointer, and the width of its elements.
    local: dict[tuple[Key, str], tuple[Bytes, int]] = field(default_factory=dict)
    local_spaces: dict[tuple[Key, str], Loc] = field(default_factory=dict)
    current: Key = ("", ())

    def unknown(self, dtype: DType | None = None) -> Scalar:
        """The range of all numbers of the type, of 64 bits by default."""
        return Range() if dtype is None else Range.of_type(dtype)

    def begin(self, op: Op, scope: Scope) -> None:
        """Note the operation: addresses are computed for it from here on."""
        self.current = key_of(op)

    def execute(self, execution: Execution) -> dict[str, None]:
        """Note the elements that a transfer addresses, where they are known; every vector result is None."""
        for name, operand in execution.operands.items():
            if isinstance(operand, View | Pointer):
                self._note_uses(execution, name, operand)
        transfer = execution.instruction.traits.transfer
        if transfer is not None:
            view = execution.operands[transfer[1]]
            if isinstance(view.buffer, str):
                place, found = (key_of(execution.op), view.buffer), Range.of(view.offset)
                self.offsets[place] = self.offsets.get(place, found).joined(found)
            if self.depth == 0:
                self._note(execution, *transfer)
        return dict.fromkeys(execution.vectors)

    def _note_uses(self, execution: Execution, name: str, operand: View | Pointer) -> None:
        """Note the elements that an instruction reads and writes through an operand."""
        uses = [e for e in execution.instruction.traits.effects if e.operand == name]
        buffer = operand.buffer if isinstance(operand.buffer, str) else None
        tiles = [o.type for o in execution.operands.values() if isinstance(o, TileRef)]
        layout = execution.attrs.get("layout", getattr(operand, "layout", None))
        moved = any(t.conv for t in tiles) or any(e.indexed for e in uses)
        plain = layout in (None, *AXES) and not moved
        span = Span.of(operand, tiles) if plain and isinstance(operand, View) else EVERYWHERE
        if any(e.access == "read" for e in uses) or _adds(execution):
            self.spans_read.setdefault(buffer, set()).add(span)
        if buffer is not None:
            self.spans_written.setdefault((key_of(execution.op), buffer), set()).add(span)

    def _note(self, execution: Execution, tile: str, view: str) -> None:
        ref, memory = execution.tile(tile), execution.operands[view]
        layout = execution.attrs.get("layout")
        layout = layout if isinstance(layout, GlobalLayout) else memory.layout
        sizes = (ref.v_row, ref.v_col)
        constant = all(isinstance(n, int) for n in (*sizes, memory.offset, *memory.shape, *memory.strides))
        if not constant or ref.type.conv is not None or layout not in (None, *AXES):
            return
        window = Window.of(memory, layout)
        lanes = tuple(map(min, sizes, window.lanes()))
        if all(n > 0 for n in lanes) and prod(lanes) <= ref.type.elements:
            where = window.addresses(lanes)
            self._access(execution.op, memory.buffer, int(where.min()), int(where.max()))

    def _access(self, op: Op, buffer: Any, first: Scalar, last: Scalar) -> None:
        if self.depth == 0 and isinstance(buffer, str) and isinstance(first, int) and isinstance(last, int):
            accesses = Accesses(first, last, op, op)
            self.accesses[buffer] = self.accesses.get(buffer, accesses).joined(accesses)

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """One block stands for all: its number is the range [0, grid - 1]."""
        run(Range(0, grid - 1), operands)

    def counter(self, value: int) -> Scalar:
        """The range of one number."""
        return Range.of(value)

    def one_of(self, count: int) -> Scalar:
        """The range of the numbers."""
        return Range(0, count - 1)

    def trip(self, frame: Frame, trips: Scalar) -> Scalar:
        """The range of a loop's trip numbers, by the ranges of its bounds and its step."""
        if isinstance(trips, int):
            return Range(0, max(0, trips - 1))
        names = frame.names()
        if not frame.op.group("lb"):
            return Range(0, max(0, Range.of(trips).high - 1))
        lower, upper, step = (Range.of(names.get(frame.op.group(n)[0].name)) for n in ("lb", "ub", "step"))
        return Range(0, max(0, (upper.high - lower.low - 1) // max(1, step.low)))

    def below(self, counter: Scalar, upper: Scalar) -> Scalar:
        """The range of what is in one and less than a number of the other."""
        return Range.of(counter).below(Range.of(upper))

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What may be carried after a loop; pointers that each trip moves as far are known.

        A first trip shows how far.
        """
        starts = {
            k: replace(i, address=Moved.starting(i.address))
            for k, i in enumerate(inits)
            if isinstance(i, LocalPointer) and i.tile is None
        }
        if not starts or not isinstance(trips, int) or trips <= 0:
            return super().loop(frame, trips, inits, body)
        carried = [starts.get(k) or self.opened(i) for k, i in enumerate(inits)]
        ends = list(body(self.trip(frame, trips), tuple(carried)))
        steps = {k: by for k, start in starts.items() if (by := _moved_by(start, ends[k])) is not None}
        for k, start in starts.items():
            carried[k] = _until(start, steps[k], trips - 1) if k in steps else self.opened(inits[k])
        ends = [
            self.either(a, b)
            for a, b in zip(carried, body(self.trip(frame, trips), tuple(carried)), strict=True)
        ]
        for k, by in steps.items():
            before = inits[k].address if isinstance(inits[k].address, Moved) else starts[k].address
            ends[k] = replace(inits[k], address=before.further(by * trips))
        return tuple(ends)

    def opened(self, operand: Operand) -> Operand:
        """What a loop carries: where it points to changes from trip to trip."""
        if isinstance(operand, View | Pointer):
            return replace(operand, offset=Range())
        return super().opened(operand)

    def either(self, first: Operand, second: Operand) -> Operand:
        """The smallest range that has both, for scalars that are numbers or ranges."""
        if isinstance(first, int | Range) and isinstance(second, int | Range):
            return first if first == second else Range.of(first).joined(Range.of(second))
        return super().either(first, second)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The range of an operation's results, by those of its operands."""
        return ranges.scalar(name, args, source, result)

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """The range of ``base + index * stride``; notes whether it and its parts are near."""
        product = ranges.scalar("arith.muli", (index, stride), INDEX, INDEX)
        address = ranges.scalar("arith.addi", (base, product), INDEX, INDEX)
        near = Range.of(base).is_near and product.is_near and address.is_near
        self.near[self.current] = self.near.get(self.current, True) and near
        if isinstance(base, Moved) and near and product.low == product.high:
            return base.further(product.low)
        return address

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Note whether a window is inside, by the ranges of its offset, its size and the extent."""
        if rule == "window":
            holds = broken is False or ranges.holds(*values)
            self.inside[key_of(op)] = self.inside.get(key_of(op), True) and holds

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Note the bytes that a micro-operation accesses."""
        operation = find_micro(op.name)
        numbers = {name: _largest(value) for name, value in operands.items()}
        for place in operation.places if operation is not None else ():
            self._note_bytes(op, place, operands.get(place.key), place.span(call, numbers))
        return super().micro(op, call, operands)

    def _note_bytes(self, op: Op, place: BytesPlace, pointer: Operand, size: int | None) -> None:
        if isinstance(pointer, Pointer):
            buffer = pointer.buffer if isinstance(pointer.buffer, str) else None
            self.spans_read.setdefault(buffer, set()).add(EVERYWHERE)
            if buffer is not None:
                self.spans_written.setdefault((key_of(op), buffer), set()).add(EVERYWHERE)
        elif isinstance(pointer, LocalPointer) and pointer.tile is not None:
            self._note_overrun(pointer.tile, Range.of(pointer.address), size)
        elif isinstance(pointer, LocalPointer):
            at, key = Range.of(pointer.address), (key_of(op), place.key)
            extent: Bytes = None
            if size is not None and at.low >= 0 and at.high + size <= _HIGHEST:
                extent = at.low, at.high + size
            width = pointer.dtype.word_bits
            if key in self.local:
                before, narrow = self.local[key]
                if before is None or extent is None:
                    extent = None
                else:
                    extent = min(before[0], extent[0]), max(before[1], extent[1])
                width = min(width, narrow)
            self.local[key] = extent, width
            self.local_spaces[key] = Loc[pointer.space.name]

    def _note_overrun(self, tile: TileRef, at: Range, size: int | None) -> None:
        """Note that an access through a pointer into a tile goes on behind it, or begins before it.

        One that begins at a place that is not known begins inside.
        """
        t, begin = tile.type, tile.address
        if size is None or not isinstance(begin, int) or (at.low >= 0 and at.high + size <= t.bytes):
            return
        low, high = max(at.low, -begin), at.high
        if at.low < -_WITHIN or high > _WITHIN:
            low, high = 0, t.bytes - 1
        bytes_of = begin + min(0, low), begin + max(t.bytes, high + size)
        self.found.append(placement(bytes_of, t.dtype.word_bits, t.loc))

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """Note the access; any number may be there."""
        if isinstance(pointer, LocalPointer):
            self._note_bytes(op, SCALAR, pointer, pointer.dtype.word_bits // 8)
            return self.unknown()
        at = Range.of(pointer.offset)
        buffer = pointer.buffer if isinstance(pointer.buffer, str) else None
        self.spans_read.setdefault(buffer, set()).add(EVERYWHERE if pointer.cast else Span(at.low, at.high))
        self.store(op, pointer, None)
        return self.unknown()

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Note the access."""
        if isinstance(pointer, LocalPointer):
            self._note_bytes(op, SCALAR, pointer, pointer.dtype.word_bits // 8)
            return
        if not pointer.cast:
            self._access(op, pointer.buffer, pointer.offset, pointer.offset)

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Note where a tile with an address is placed; a tile has no storage here, so the result is None."""
        if address is not None:
            self.found.append(storage.Placement(type, address if isinstance(address, int) else None))
        return None


def _moved_by(start: LocalPointer, end: Operand) -> int | None:
    """How many bytes a trip moves a pointer that a loop carries, None where that is not known."""
    if not isinstance(end, LocalPointer) or not isinstance(end.address, Moved):
        return None
    return end.address.by if end.address.origin is start.address.origin else None


def _until(start: LocalPointer, by: int, trips: int) -> LocalPointer:
    """A pointer that none, some or all of some trips have moved."""
    first, last = start.address, start.address.further(by * trips)
    low, high = min(first.low, last.low), max(first.high, last.high)
    return replace(start, address=Range(low, high, gcd(first.step, by)))


def _adds(execution: Execution) -> bool:
    """Whether an instruction combines what it writes with what was there."""
    return execution.attrs.get("atomicType") not in (None, AtomicType.ATOMIC_NONE)


@lru_cache(maxsize=1024)
def plan(program: Program, entry: str, profile: profiles.Profile, grid: int = 1) -> storage.Plan:
    """The memory plan of a function executed on some blocks, which may take different paths.

    A program that execution will stop in is planned up to the place where it stops.
    """
    survey = _survey(program, entry, grid)
    local = [placement(*found, survey.local_spaces[key]) for key, found in survey.local.items()]
    ends = {loc: profile.end(loc, profiles.PART) for loc in profile.capacity}
    return storage.Plan([*survey.found, *local], ends)


def spans(program: Program, entry: str, grid: int = 1) -> Mapping[tuple[Key, str], tuple[Bytes, int]]:
    """The bytes of on-chip memory that operations access through a pointer, and the width of its elements."""
    return _survey(program, entry, grid).local


def accesses(program: Program, entry: str, grid: int = 1) -> Mapping[str, Accesses]:
    """What every execution accesses of global memory, by buffer, where that is constant."""
    return _survey(program, entry, grid).accesses


def near(program: Program, entry: str, grid: int = 1) -> frozenset[Key]:
    """The operations whose addresses need no care: they cannot leave 64 bits."""
    return frozenset(key for key, is_near in _survey(program, entry, grid).near.items() if is_near)


def inside(program: Program, entry: str, grid: int = 1) -> frozenset[Key]:
    """The operations whose windows are always inside what they are windows of."""
    return frozenset(key for key, is_inside in _survey(program, entry, grid).inside.items() if is_inside)


def offsets(program: Program, entry: str, grid: int = 1) -> Mapping[tuple[Key, str], Range]:
    """Where the windows of transfers begin in their buffers, by operation and buffer."""
    return _survey(program, entry, grid).offsets


def independent(program: Program, entry: str, grid: int = 1) -> frozenset[tuple[Key, str]]:
    """Instructions and buffers of which they write nothing that the program reads, in any execution."""
    survey = _survey(program, entry, grid)
    anywhere = survey.spans_read.get(None, set())
    return frozenset(
        (key, buffer)
        for (key, buffer), spans in survey.spans_written.items()
        if not anywhere and not any(a.meets(b) for a in spans for b in survey.spans_read.get(buffer, ()))
    )


@lru_cache(maxsize=1024)
def _survey(program: Program, entry: str, grid: int) -> Surveyor:
    surveyor, function = Surveyor(), program.function(entry)
    assert function is not None, entry
    try:
        launch(program, surveyor, function, [surveyor.argument(a) for a in function.args], grid=grid)
    except errors.NotExecutableError:
        surveyor.inside.clear()  # Of operations that are executed again where nobody has been.
    return surveyor
