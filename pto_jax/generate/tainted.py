"""Which arguments the addresses, sizes and trips of an execution come from.

A program is followed with numbers for its integer arguments and for the elements of its integer buffers;
every number knows the arguments that it was computed from. Tiles are not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..interpreter import Execution, Frame, Operand, Pointer, Scalar, Scope, TileRef, View
from ..interpreter.abstract import AbstractMachine, Unknown
from ..interpreter.machine import Body
from ..ir.dtypes import DType
from ..ir.program import Op, Value
from ..ir.types import ScalarType
from ..launches.numbers import address, compute
from ..profiles import ProfileName

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
class TaintMachine(AbstractMachine):
    """Follows one execution; :class:`Broken` at the first run-time rule that is broken.

    ``scalars`` are the integer arguments, ``elements`` gives the elements of integer buffers. ``reached`` is
    the number of elements of each buffer that are accessed, ``unsized`` the buffers that are accessed where
    only execution knows it; ``tables`` are those whose elements were read as scalars. ``work`` counts
    executed instructions, ``trips`` the trips of each loop whose number depends on arguments; ``far`` are the
    arguments that decide on accesses to large buffers.
    """

    profile: ProfileName
    scalars: Mapping[str, int]
    read_element: Callable[[str, int], int]
    checks: bool = True
    reached: dict[str, int] = field(default_factory=dict)
    unsized: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    work: int = 0
    trips: dict[Origins, int] = field(default_factory=dict)
    far: Origins = frozenset()
    _stored: dict[tuple[str, int], Scalar] = field(default_factory=dict)
    _times: int = 1
    _operations: int = MAX_OPERATIONS

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

    def _of(self, found: Scalar, args: Sequence[Scalar]) -> Scalar:
        return Tainted(int(found), origins_of(*args)) if isinstance(found, int) else found

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
            known = self.known(size)
            if known is not None and not 0 <= known <= extent and not self.depth:
                raise _outside(size, known)

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

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """Unknown, at a position inside the tile."""
        self._within(ref, position)
        return self.unknown()

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Nothing is written, at a position inside the tile."""
        self._within(ref, position)

    def _within(self, ref: TileRef, position: Scalar) -> None:
        at = self.known(position)
        if at is not None and not 0 <= at < ref.type.rows * ref.type.cols and not self.depth:
            raise _outside(position, at)

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Scalar:
        """The element of a buffer that is not written by instructions before."""
        at = self._reach(pointer)
        if at is None or dtype.is_float or dtype.packed or (pointer.buffer, at) in self._stored:
            return self._stored.get((pointer.buffer, at or 0), Unknown())
        if pointer.buffer in self.written:
            return Unknown()
        self.tables.add(pointer.buffer)
        return Tainted(self.read_element(pointer.buffer, at), frozenset((pointer.buffer,)))

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        """Remember the element."""
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
        if last is None or self.depth:
            self.unsized.add(buffer)
        if last is not None:
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
        return super().execute(execution)

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
            if last >= FAR:
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
        known = {n: (self.known(ref.v_row), self.known(ref.v_col)) for n, ref in tiles.items()}
        if self.depth or any(None in pair for pair in known.values()):
            return
        sizes = {n: (r or 0, c or 0) for n, (r, c) in known.items()}
        for c in execution.instruction.constraints:
            if c.region is None or c.severity != "error" or self.profile not in c.profiles:
                continue
            if c.region.applies(sizes) and c.region.broken(sizes, types):
                raise Broken(origins_of(*(n for ref in tiles.values() for n in (ref.v_row, ref.v_col))))


def _outside(value: Scalar, known: int) -> Broken:
    """The error of a number that is negative, or too large."""
    origins = origins_of(value)
    return Broken(small=origins) if known < 0 else Broken(origins)


def _followed(count: int, operations: int) -> Sequence[int]:
    """The trips of a loop that are followed: all of few, else those where a bound in the text may lie."""
    if count * operations <= LOOP:
        return range(count)
    powers = [1 << k for k in range(count.bit_length())]
    return sorted({0, count - 1, *(n for p in powers for n in (p - 1, p) if n < count)})
