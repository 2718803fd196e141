"""The arguments that determine the addresses, sizes and iterations of an execution.

A program is followed with numbers for its integer arguments and for the elements of its integer buffers;
every number carries the arguments that it was computed from. Tiles are not computed. A tile has the buffers
of its integers, by ranges of bytes of local memory, and its elements if it is a copy of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..grids.numbers import address, compute
from ..interpreter import Execution, Frame, Operand, Pointer, Scalar, Scope, TileRef, View, abstract
from ..interpreter.machine import Body
from ..interpreter.operands import LocalPointer
from ..ir import BLayout, DType, GlobalLayout, Op, ScalarType, TileType, Value, element_offset
from ..isa.rules.memory_indexed import coalescing, places
from ..profiles import ProfileName

#: Names of buffers.
Names = frozenset[str]


@dataclass(frozen=True)
class Spot:
    """Where the bytes of a tile begin: a memory and an address in it, None where that is not known.

    A tile whose rows do not follow each other without gaps has its bytes before ``end``.
    """

    memory: Hashable
    address: int | None = 0
    end: int | None = None

    @property
    def dense(self) -> bool:
        """Whether it is known which bytes the tile has: all of a range."""
        return self.address is not None and self.end is None

    def moved(self, count: int | None, end: int | None = None) -> Spot:
        """The place some bytes further on."""
        if self.address is None or count is None:
            return Spot(self.memory, None)
        return Spot(self.memory, self.address + count, end)


@dataclass(frozen=True)
class Window:
    """A window of a buffer whose place and sizes are known."""

    buffer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: GlobalLayout | None

    def element(self, row: int, col: int) -> int | None:
        """The element of the buffer that is in a row and a column, None where the layout does not say it."""
        if self.layout not in (None, GlobalLayout.ND) or not self.shape:
            return None
        at = self.offset + col * self.strides[-1]
        for extent, stride in zip(self.shape[-2::-1], self.strides[-2::-1], strict=True):
            row, index = divmod(row, extent) if extent else (0, 0)
            at += index * stride
        return at


@dataclass(frozen=True)
class _Piece:
    """Bytes that hold integers from some buffers.

    Where the tile that begins at byte ``start`` is a copy of a window, that is given.
    """

    begin: int
    end: int
    names: Names
    type: TileType
    start: int
    window: Window | None = None

    def without(self, begin: int, end: int, certain: bool) -> Iterator[_Piece]:
        """What is left of it where other bytes are overwritten, or may have been."""
        if self.begin >= end or self.end <= begin:
            yield self
        elif not certain:
            yield replace(self, window=None)
        else:
            if self.begin < begin:
                yield replace(self, end=begin)
            if self.end > end:
                yield replace(self, begin=end)


@dataclass
class TileOrigins:
    """The origins of what tiles hold."""

    _pieces: dict[Hashable, list[_Piece]] = field(default_factory=dict)

    def write(
        self, ref: TileRef, names: Names, window: Window | None = None, *, certain: bool = True
    ) -> None:
        """A tile holds integers from some buffers; uncertain ones may be what was there before."""
        spot = ref.storage
        if not isinstance(spot, Spot):
            return
        begin, end = _range(spot, ref.type)
        certain &= spot.dense
        kept = [left for p in self._pieces.get(spot.memory, ()) for left in p.without(begin, end, certain)]
        piece = _Piece(begin, end, names, ref.type, begin, window if certain else None)
        self._pieces[spot.memory] = [*kept, piece] if names and piece not in kept else kept

    def names(self, ref: TileRef) -> Names:
        """The buffers that a tile's integers come from."""
        return frozenset().union(*(piece.names for piece in self._overlapping(ref)))

    def source(self, ref: TileRef, position: int) -> tuple[str, int] | None:
        """The buffer and its element that an element of a tile is a copy of, None where that is not known."""
        spot, size = ref.storage, ref.type.dtype.storage_bits // 8
        if not isinstance(spot, Spot) or not spot.dense or not size:
            return None
        at = (spot.address or 0) + position * size
        results = [p for p in self._pieces.get(spot.memory, ()) if p.begin < at + size and p.end > at]
        if len(results) != 1 or (window := results[0].window) is None:
            return None
        t = results[0].type
        same = t.dtype.storage_bits == 8 * size
        place = _row_and_column(t, (at - results[0].start) // size) if same else None
        element = window.element(*place) if place is not None else None
        return None if element is None else (window.buffer, element)

    def _overlapping(self, ref: TileRef) -> Sequence[_Piece]:
        if not isinstance(ref.storage, Spot):
            return ()
        begin, end = _range(ref.storage, ref.type)
        return [p for p in self._pieces.get(ref.storage.memory, ()) if p.begin < end and p.end > begin]


def window_spot(ref: TileRef, type: TileType, row: int | None, col: int | None) -> Spot | None:
    """The place of the part of a tile that begins at a row and a column."""
    spot, bits = ref.storage, ref.type.dtype.storage_bits
    if not isinstance(spot, Spot):
        return None
    constant = row is not None and col is not None and not ref.type.boxed
    first = element_offset(ref.type, row or 0, col or 0) * bits // 8 if constant else None
    lines = type.rows == 1 or type.cols == ref.type.cols
    if ref.type.blayout == BLayout.COL_MAJOR:
        lines = type.cols == 1 or type.rows == ref.type.rows
    return spot.moved(first, spot.end if lines or spot.end is not None else _range(spot, ref.type)[1])


def _range(spot: Spot, t: TileType) -> tuple[int, int]:
    """The bytes that a tile may have; all where its address is not known."""
    if spot.address is None:
        return 0, 1 << 62
    whole = spot.address + max(1, t.elements * t.dtype.storage_bits // 8)
    return spot.address, whole if spot.end is None else spot.end


def _row_and_column(t: TileType, position: int) -> tuple[int, int] | None:
    if t.boxed:
        return None
    if t.blayout == BLayout.ROW_MAJOR:
        return divmod(position, element_offset(t, 1, 0)) if t.cols else None
    column, row = divmod(position, t.rows)
    return row, column


#: Names of arguments.
Origins: TypeAlias = frozenset[str]
#: Operations up to which a program is followed.
MAX_OPERATIONS = 60_000
#: Operations of a loop up to which all trips are followed; else those around powers of two, and the last one.
LOOP = 4_000
#: Elements of a buffer beyond which accesses are noted that arguments decide on.
FAR = 1 << 22
#: Elements of a view up to which its buffer holds all of them where not every access was followed.
WHOLE = 1 << 22


@dataclass(frozen=True, eq=False)
class Tainted:
    """A number, and the arguments that it was computed from."""

    value: int
    origins: Origins


class Broken(Exception):
    """A run-time rule is broken: numbers from some arguments are too large, or others too small."""

    def __init__(self, large: Origins = frozenset(), small: Origins = frozenset()) -> None:
        self.large, self.small = large, small


class TooLong(Exception):
    """The program is not followed to its end."""


def origins_of(*values: Scalar) -> Origins:
    """The arguments that some scalars were computed from."""
    return frozenset().union(*(v.origins for v in values if isinstance(v, Tainted)))


@dataclass(eq=False)
class TaintMachine(abstract.AbstractMachine):
    """Follows one execution; :class:`Broken` at the first run-time rule that is broken.

    ``scalars`` are the integer arguments, ``read_element`` gives the elements of integer buffers, a buffer
    of ``limit`` elements is large. ``reached`` is the number of elements of each buffer that are accessed,
    ``unsized`` the buffers that are accessed where only execution knows it; ``tables`` are those whose
    elements were read as scalars, ``positions`` those whose elements name one of so many places. ``work``
    counts executed instructions, ``trips`` the trips of each loop whose number depends on arguments; ``far``
    are the arguments that decide on accesses to large buffers.
    """

    profile: ProfileName
    scalars: Mapping[str, int]
    read_element: Callable[[str, int], int]
    checks: bool = True
    limit: int = FAR
    reached: dict[str, int] = field(default_factory=dict)
    unsized: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    positions: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    work: int = 0
    trips: dict[Origins, int] = field(default_factory=dict)
    far: Origins = frozenset()
    _stored: dict[tuple[str, int], Scalar] = field(default_factory=dict)
    _tiles: TileOrigins = field(default_factory=TileOrigins)
    _times: int = 1
    _operations: int = MAX_OPERATIONS

    @property
    def followed(self) -> int:
        """How many operations were followed."""
        return MAX_OPERATIONS - self._operations

    # -- scalars -------------------------------------------------------------------------------------

    def argument(self, argument: Value) -> Operand:
        """An integer argument as its number; of the others nothing but the type is known."""
        if argument.name in self.scalars and isinstance(argument.type, ScalarType):
            return Tainted(self.scalars[argument.name], frozenset((argument.name,)))
        return super().argument(argument)

    def known(self, value: Scalar) -> int | None:
        """The number, where there is one."""
        return value.value if isinstance(value, Tainted) else super().known(value)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The number that an operation gives, with the origins of all operands."""
        return self._of(compute(name, [self._plain(a) for a in args], source, result), args)

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """``base + index * stride`` with the origins of all three."""
        numbers = (base, index, stride)
        return self._of(address(*(self._plain(n) for n in numbers)), numbers)

    def _plain(self, value: Scalar) -> Scalar:
        return value.value if isinstance(value, Tainted) else value

    def _of(self, number: Scalar, args: Sequence[Scalar]) -> Scalar:
        return Tainted(int(number), origins_of(*args)) if isinstance(number, int) else number

    def trap(self, op: Op) -> None:
        """The execution ends with an error."""
        if not self.depth:
            raise Broken

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Blame the numbers that a rule names."""
        if not self.known(broken) or self.depth:
            return
        negative = [v for v in values if (n := self.known(v)) is not None and n < 0]
        if negative:
            raise Broken(small=origins_of(*negative))
        *moved, extent = values if rule == "window" else (*values, 0)
        raise Broken(origins_of(*moved) or origins_of(broken), origins_of(extent))

    def region(self, op: Op, ref: TileRef) -> None:
        """Valid sizes lie within the tile."""
        for size, extent in zip((ref.v_row, ref.v_col), ref.type.shape, strict=True):
            number = self.known(size)
            if number is not None and not 0 <= number <= extent and not self.depth:
                raise _outside(size, number)

    # -- control flow --------------------------------------------------------------------------------

    def begin(self, op: Op, scope: Scope) -> None:
        """Count the operation."""
        self._operations -= 1
        if self._operations < 0:
            raise TooLong

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """Follow the first trips and the last one."""
        count = self.known(trips)
        if count is None:
            return super().loop(frame, trips, inits, body)
        names = frame.names()
        bounds = [names.get(v.name) for group in ("lb", "ub", "step") for v in frame.op.group(group)]
        origins = origins_of(trips, *bounds)
        if origins:
            self.trips[origins] = max(count, self.trips.get(origins, 0))
        followed = _followed(count, sum(1 for _ in frame.op.walk()))
        times, self._times = self._times, self._times * max(1, count // max(1, len(followed)))
        carried = tuple(inits)
        for trip in followed:
            carried = body(Tainted(trip, origins) if origins else trip, carried)
        self._times = times
        return carried

    # -- memory --------------------------------------------------------------------------------------

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """The bytes at an address, or those of an operation."""
        return Spot(id(op)) if address is None else Spot(type.loc, self.known(address))

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        """Bytes of their own."""
        return Spot(id(result))

    def alias(self, op: Op, ref: TileRef, type: TileType) -> Hashable:
        """The same bytes."""
        return ref.storage

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Hashable:
        """Bytes further on."""
        count = self.known(elements)
        bits = ref.type.dtype.storage_bits
        spot = ref.storage
        return spot.moved(None if count is None else count * bits // 8) if isinstance(spot, Spot) else None

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Hashable:
        """The bytes of a part of a tile."""
        return window_spot(ref, type, self.known(row), self.known(col))

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """The element of the buffer that is there, if that is known; a position inside the tile."""
        self._within(ref, position)
        at = self.known(position)
        result = None if at is None or dtype.is_float or self.depth else self._tiles.source(ref, at)
        if result is None or result[0] in self.written:
            return self.unknown()
        self.tables.add(result[0])
        return Tainted(self.read_element(*result), frozenset((result[0],)))

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Something of this origin is in the tile; a position inside it."""
        self._within(ref, position)
        names = self._tiles.names(ref) | origins_of(value) - self.scalars.keys()
        self._tiles.write(ref, names, certain=False)

    def _within(self, ref: TileRef, position: Scalar) -> None:
        at = self.known(position)
        if at is not None and not 0 <= at < ref.type.rows * ref.type.cols and not self.depth:
            raise _outside(position, at)

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """The element of a buffer that is not written by instructions before."""
        if isinstance(pointer, LocalPointer):
            return abstract.Unknown()
        at = self._reach(pointer)
        if at is None or dtype.is_float or dtype.packed or (pointer.buffer, at) in self._stored:
            return self._stored.get((pointer.buffer, at or 0), abstract.Unknown())
        if pointer.buffer in self.written:
            return abstract.Unknown()
        self.tables.add(pointer.buffer)
        return Tainted(self.read_element(pointer.buffer, at), frozenset((pointer.buffer,)))

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Remember the element."""
        if isinstance(pointer, LocalPointer):
            return
        at = self._reach(pointer)
        if at is not None:
            self._stored[pointer.buffer, at] = value
        self._count(frozenset((pointer.buffer,)))

    def _reach(self, pointer: Pointer) -> int | None:
        """The element that a pointer is at, None where it is not known."""
        at = self.known(pointer.offset)
        if at is not None and at < 0 and not self.depth:
            raise _outside(pointer.offset, at)
        self._extend(pointer.buffer, at)
        return at

    def _extend(self, buffer: str, last: int | None) -> None:
        if last is None or (self.depth and last >= self.limit):
            self.unsized.add(buffer)
        elif last >= 0:
            self.reached[buffer] = max(self.reached.get(buffer, 0), last + 1)

    def _count(self, written: Origins) -> None:
        self.work += self._times
        self.written |= written

    def execute(self, execution: Execution) -> dict[str, None]:
        """Note the elements of views that an instruction accesses, and follow its rules on regions."""
        self._follow_regions(execution)
        changed: set[str] = set()
        for operand in execution.instruction.operands:
            place = execution.operands.get(operand.name)
            if isinstance(place, Pointer):
                self.unsized.add(place.buffer)
            elif isinstance(place, View):
                self._transfer(place)
            effects = [e for e in execution.instruction.traits.effects if e.operand == operand.name]
            if isinstance(place, View | Pointer) and any(e.access != "read" for e in effects):
                changed.add(place.buffer)
        self._count(frozenset(changed))
        self._follow_tiles(execution)
        return super().execute(execution)

    def _follow_tiles(self, execution: Execution) -> None:
        """Note where the integers of tiles come from, and which of them name places."""
        operands, instruction = execution.operands, execution.instruction
        sources: set[str] = set()
        for o in instruction.operands:
            place = operands.get(o.name)
            if not o.is_read or not isinstance(place, TileRef | View) or _dtype(place).is_float:
                continue
            names = self._tiles.names(place) if isinstance(place, TileRef) else frozenset((place.buffer,))
            sources |= names - self.written
            size = self._places(execution, o.within) if o.within else None
            for name in names - self.written if size else ():
                self.positions[name] = min(size or 0, self.positions.get(name, size or 0))
        for o in instruction.operands:
            place = operands.get(o.name)
            if isinstance(place, TileRef) and any(
                e.operand == o.name and e.access == "write" for e in instruction.traits.effects
            ):
                kept = frozenset[str]() if place.type.dtype.is_float else frozenset(sources)
                self._tiles.write(place, kept, self._copied(execution, o.name), certain=not self.depth)

    def _places(self, execution: Execution, name: str) -> int | None:
        """How many places an operand has that positions name: elements, or rows of a window."""
        place = execution.operands.get(name)
        if isinstance(place, TileRef):
            return place.type.elements
        if not isinstance(place, View):
            return None
        shape = [self.known(n) for n in place.shape]
        types = {n: r.type for n, r in execution.operands.items() if isinstance(r, TileRef)}
        data = next((t for n, t in types.items() if n in ("src", "dst")), None)
        picked = coalescing(execution.attrs, self.profile, types.get("indexes"), data)
        known = [n for n in shape if n is not None]
        return places(picked, known) if len(known) == len(shape) else None

    def _copied(self, execution: Execution, name: str) -> Window | None:
        """The window that a transfer copies into a tile, None where it is another instruction."""
        transfer = execution.instruction.traits.transfer
        view = execution.operands.get(transfer[1]) if transfer is not None and transfer[0] == name else None
        if not isinstance(view, View):
            return None
        shape, strides = ([self.known(n) for n in part] for part in (view.shape, view.strides))
        first = self.known(view.offset)
        if first is None or None in (*shape, *strides):
            return None
        whole = tuple(n or 0 for n in shape), tuple(n or 0 for n in strides)
        return Window(view.buffer, first, *whole, view.layout)

    def _transfer(self, view: View) -> None:
        numbers = [self.known(n) for n in (view.offset, *view.shape, *view.strides)]
        if None in numbers:
            self._extend(view.buffer, None)
            return
        first, *rest = (n or 0 for n in numbers)
        shape, strides = rest[: len(view.shape)], rest[len(view.shape) :]
        if first < 0 and not self.depth:
            raise _outside(view.offset, first)
        if all(n > 0 for n in shape):
            last = first + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            self._extend(view.buffer, last)
            self._extend_to_whole(view)
            if last >= self.limit:
                self.far |= origins_of(view.offset, *view.shape)

    def _extend_to_whole(self, view: View) -> None:
        """An access that a table decides on, or a trip that was left out, may be anywhere in a view."""
        whole = view.root or view
        numbers = [self.known(n) for n in (whole.offset, *whole.shape, *whole.strides)]
        if None in numbers or (self._times == 1 and not origins_of(view.offset) & self.tables):
            return
        first, *rest = (n or 0 for n in numbers)
        pairs = zip(rest[: len(whole.shape)], rest[len(whole.shape) :], strict=True)
        last = first + sum((n - 1) * s for n, s in pairs)
        if last < WHOLE:
            self._extend(view.buffer, last)

    def _follow_regions(self, execution: Execution) -> None:
        tiles = {n: ref for n, ref in execution.operands.items() if isinstance(ref, TileRef)}
        types = {n: ref.type for n, ref in tiles.items()}
        regions = {n: (self.known(ref.v_row), self.known(ref.v_col)) for n, ref in tiles.items()}
        if self.depth or any(None in pair for pair in regions.values()):
            return
        sizes = {n: (r or 0, c or 0) for n, (r, c) in regions.items()}
        origins = origins_of(*(n for ref in tiles.values() for n in (ref.v_row, ref.v_col)))
        if not origins:
            # No argument changes sizes of the text.
            return
        for c in execution.instruction.constraints:
            if c.region is None or c.severity != "error" or self.profile not in c.profiles:
                continue
            if c.region.applies(sizes) and c.region.broken(sizes, types):
                raise Broken(origins)


def _dtype(place: TileRef | View) -> DType:
    return place.type.dtype if isinstance(place, TileRef) else place.dtype


def _outside(value: Scalar, number: int) -> Broken:
    """The error of a number that is negative, or too large."""
    origins = origins_of(value)
    return Broken(small=origins) if number < 0 else Broken(origins)


def _followed(count: int, operations: int) -> Sequence[int]:
    """The trips of a loop that are followed: all of few, else those where a bound in the text may lie."""
    if count * operations <= LOOP:
        return range(count)
    powers = [1 << k for k in range(count.bit_length())]
    return sorted({0, count - 1, *(n for p in powers for n in (p - 1, p) if n < count)})
