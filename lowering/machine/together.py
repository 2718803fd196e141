"""The trips of a loop of micro-operations at once.

A loop whose trips hand on nothing but counters and pointers, and of which no trip reads what another one has
written, is one ``vmap`` over its trips. A first trace records what is accessed, in numbers that follow from
the trips (:mod:`.affine`). Where these prove that the trips are independent, all loads are taken at once, the
body is computed for all trips, and then the stores are made in the order of the program. Loops inside are
axes of the same computation. Loops whose number of trips only execution knows are executed in chunks; trips
of the last one that are too many store nothing. Everything else is executed trip by trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import NotExecutableError
from pto_jax.interpreter import Frame, Operand, Scalar
from pto_jax.interpreter.operands import LocalPointer, Register
from pto_jax.interpreter.windows import advanced, scalar as folded
from pto_jax.ir import I1, INDEX, DType, Op
from pto_jax.isa import find_micro

from ..scalars import to_native
from . import control_flow
from .affine import Access, Affine, Carried, Fixed, Trip, Unproven, are_independent
from .ranges import Range
from .strided import Windows
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, Shaped, UInt

    from pto_jax.interpreter.machine import Body, Machine

    from .local_memory import LocalPlace

#: Trips of nested loops that are computed at once.
MAX_TRIPS = 1 << 13
#: Trips that are computed at once where only execution knows how many there are: the first number that is
#: proven. Buffers of so many registers follow each other in most kernels.
CHUNKS = (256, 64, 16)
#: Shifts by fewer bits are products and quotients.
SHIFTS = 31


def _itself(number: Array) -> Array:
    return number


@dataclass(frozen=True)
class Countdown:
    """What is left of a number that a loop carries: ``by`` less, and at least 0."""

    carried: Carried
    by: int


#: What is known of a scalar.
Form: TypeAlias = "Affine | Countdown"


@dataclass(frozen=True)
class Move:
    """How a number that a loop carries changes from trip to trip: by a step, down to 0, or not at all."""

    step: int = 0
    down: int = 0

    def after(self, first: Shaped[Array, ""], trips: Int64[Array, "*trips"]) -> Shaped[Array, "*trips"]:
        """The number after some trips."""
        if self.down:
            # The count has no sign.
            start = first.astype(np.int64) & np.int64((1 << first.dtype.itemsize * 8) - 1)
            return jnp.maximum(start - trips * np.int64(self.down), np.int64(0)).astype(first.dtype)
        return first + (trips * np.int64(self.step)).astype(first.dtype) if self.step else first


@dataclass
class Course:
    """What the record of a loop has shown: its trips, how what it carries moves, its loads from-to."""

    trip: Trip
    moves: list[Move | None] = field(default_factory=list)
    loads: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Noted:
    """An access of a record, with its place and the bits of its words."""

    access: Access
    place: LocalPlace
    unit: int

    def is_before(self, other: Noted) -> bool:
        """Whether the windows of another access begin where those of this one end, in every trip."""
        a, b = self.access, other.access
        assert a.start is not None
        assert b.start is not None
        ends = Affine(a.start.constant + a.size, a.start.terms)
        return (a.cell, self.unit, a.trips, ends) == (b.cell, other.unit, b.trips, b.start)

    def with_more(self, other: Noted) -> Noted:
        """The access with the windows of another one behind its own."""
        return replace(self, access=replace(self.access, size=self.access.size + other.access.size))

    def windows(self, machine: TileMemory) -> Windows:
        """The elements of the cell that are accessed in all trips."""
        start, size = self.access.start, self.unit // 8
        assert start is not None
        factors = start.factors(self.access.trips)
        if any(n % size for n in factors):
            raise Unproven
        distances = tuple(n // size for n in factors)
        first = _number(machine, start.base)
        at = first // size if isinstance(first, int) else first // np.int64(size)
        return Windows(at, tuple(t.count for t in self.access.trips), distances, self.access.size // size)


def _computing(machine: TileMemory) -> Machine:
    """The machine as one that computes scalars."""
    return cast("Machine", machine)


def _number(machine: TileMemory, n: Affine) -> Scalar:
    """A number that is the same in all trips, outside of them."""
    number: Scalar = n.constant
    for symbol, factor in n.terms:
        assert isinstance(symbol, Fixed)
        number = advanced(_computing(machine), number, symbol.value(), factor)
    return number


# -- the record --------------------------------------------------------------------------------------------


def _fits(n: Affine, dtype: DType) -> bool:
    """Whether a number is one of its type in all trips: sums and products may wrap."""
    limits, whole = n.limits, Range.of_type(dtype)
    return limits is not None and whole.low <= limits[0] and limits[1] <= whole.high


@dataclass
class Recording:
    """Notes what the trips of a loop access, and what follows from the trip."""

    machine: TileMemory
    spare: Int64[Array, ""]
    forms: dict[int, tuple[Scalar, Form]] = field(default_factory=dict)
    fixed: dict[Any, Fixed] = field(default_factory=dict)
    starts: dict[Carried, Affine | None] = field(default_factory=dict)
    accesses: list[Noted] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)
    loads: int = 0

    def know(self, operands: Mapping[str, Operand]) -> None:
        """Note the numbers around the loop: they are the same in all trips."""
        for operand in operands.values():
            number = operand.address if isinstance(operand, LocalPointer) else operand
            if isinstance(number, Array) and number.ndim == 0:
                self.note(number, Affine.of(Fixed(partial(_itself, number))))

    def note(self, scalar: Scalar, form: Form | None) -> None:
        """Remember what is known of an array of shape ()."""
        if form is not None and isinstance(scalar, Array):
            self.forms[id(scalar)] = scalar, form

    def form(self, scalar: Scalar) -> Form | None:
        """What is known of a scalar."""
        if isinstance(scalar, int | np.integer):
            return Affine(int(scalar))
        return self.forms[id(scalar)][1] if id(scalar) in self.forms else None

    def affine(self, scalar: Scalar) -> Affine | None:
        """The scalar as a number that follows from the trips."""
        form = self.form(scalar)
        return form if isinstance(form, Affine) else None

    def computed(
        self, value: Scalar, name: str, args: Sequence[Scalar], source: DType, result: DType
    ) -> Scalar:
        """Note what is known of the result of an ``arith`` operation."""
        forms = [self.affine(a) for a in args]
        affine = [f for f in forms if f is not None]
        if len(affine) == len(forms):
            if all(f.is_fixed for f in affine):
                self.note(value, self._fixed(name, affine, source, result))
            else:
                self.note(value, self._linear(name, affine, source, result))
        return value

    def _linear(self, name: str, args: Sequence[Affine], source: DType, result: DType) -> Affine | None:
        """The result of an ``arith`` operation as a sum, modulo the type; None for other operations."""
        match name.removeprefix("arith."), [*args]:
            case "addi", [a, b]:
                return self._sum(a, b, 1, result)
            case "subi", [a, b]:
                return self._sum(a, b, -1, result)
            case "muli", [a, b]:
                factor, other = (a, b) if not a.terms else (b, a)
                return None if factor.terms else self._multiple(other, factor.constant, result)
            case (("divsi" | "divui"), [a, b]) if not b.terms and b.constant > 0:
                return a.divided(b.constant) if _fits(a, source) else None
            case (("shrsi" | "shrui"), [a, b]) if not b.terms and 0 <= b.constant < SHIFTS:
                return a.divided(1 << b.constant) if _fits(a, source) else None
            case "shli", [a, b] if not b.terms and 0 <= b.constant < SHIFTS:
                return self._multiple(a, 1 << b.constant, result)
            case (("index_cast" | "extsi" | "trunci"), [a]) if source != I1:
                return a if result.bits <= source.bits or _fits(a, source) else None
        return None

    def _sum(self, a: Affine, b: Affine, sign: int, dtype: DType) -> Affine:
        """The sum or difference; numbers that are the same in all trips are one."""
        b = b.times(sign)
        if a.base.terms and b.base.terms:
            both = self._fixed("arith.addi", (a.base, b.base), dtype, dtype)
            a, b = a.plus(a.base.times(-1)), b.plus(b.base.times(-1)).plus(both)
        return a.plus(b)

    def _multiple(self, a: Affine, n: int, dtype: DType) -> Affine | None:
        """The product with a number; that of what is the same in all trips may wrap."""
        if not a.base.terms:
            carried = [self.starts.get(s) for s, _ in a.terms if isinstance(s, Carried)]
            return a.times(n) if all(c is not None and not c.base.terms for c in carried) else None
        product = self._fixed("arith.muli", (a.base, Affine(n)), dtype, dtype)
        rest = self._multiple(a.plus(a.base.times(-1)), n, dtype)
        return None if rest is None else rest.plus(product)

    def _fixed(self, name: str, args: Sequence[Affine], source: DType, result: DType) -> Affine:
        """An operation on numbers that are the same in all trips."""
        key = name, tuple(args), source, result

        def value() -> Scalar:
            return folded(
                _computing(self.machine), name, [_number(self.machine, a) for a in args], source, result
            )

        return Affine.of(self.fixed.setdefault(key, Fixed(value)))

    def addressed(self, value: Scalar, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """Note what is known of ``base + index * stride``."""
        first, second = self.affine(base), self.affine(index)
        if first is not None and second is not None and isinstance(stride, int):
            self.note(value, first.plus(second.times(stride)))
        return value

    def counted(self, op: Op, operands: Mapping[str, Operand], results: Sequence[Operand]) -> None:
        """Note what is known of the scalar that an operation counts down."""
        operation = find_micro(op.name)
        if operation is None or not operation.counts_down:
            return
        mask = operation.call(op).results[0]
        assert isinstance(mask, int)
        before = self.form(operands[operation.counts_down])
        if isinstance(before, Affine) and before.constant == 0 and len(before.terms) == 1:
            (symbol, factor), *_ = before.terms
            before = Countdown(symbol, 0) if isinstance(symbol, Carried) and factor == 1 else before
        if isinstance(before, Countdown):
            self.note(results[-1], Countdown(before.carried, before.by + 2048 // mask))

    # -- accesses --

    def read(self, place: LocalPlace, at: int, count: int, unit: int) -> UInt[Array, " {count}"]:
        """Note that words are read from ``at`` words behind a place on."""
        self._access(place, at * unit // 8, count * unit // 8, unit, writes=False)
        self.loads += 1
        return jnp.zeros(count, f"u{unit // 8}")

    def read_anywhere(self, place: LocalPlace) -> None:
        """Note that any word of the cell of a place may be read."""
        access = Access(place.slot.cell.key, False, None, 0, tuple(self.trips))
        self.accesses.append(Noted(access, place, 8))

    def write(
        self, place: LocalPlace, at: int, words: UInt[Array, " n"], active: Bool[Array, " n"] | None
    ) -> None:
        """Note that words are replaced from ``at`` words behind a place on."""
        unit = words.dtype.itemsize * 8
        self._access(place, at * unit // 8, words.shape[0] * unit // 8, unit, writes=True)

    def _access(self, place: LocalPlace, offset: int, size: int, unit: int, *, writes: bool) -> None:
        parts = [self.affine(n) for n in place.address_parts]
        start = Affine(offset)
        for part in parts:
            if part is None:
                raise Unproven
            start = start.plus(part)
        self.accesses.append(
            Noted(Access(place.slot.cell.key, writes, start, size, tuple(self.trips)), place, unit)
        )

    # -- loops --

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """Follow one trip of a loop, whose number of trips has to be known."""
        count = self.machine.known(trips)
        if count is None or count <= 0:
            raise Unproven
        trip = Trip(count)
        course = Course(trip)
        self.courses.append(course)
        loads, accessed = self.loads, len(self.accesses)
        dtypes = control_flow.carried_dtypes(frame.op, len(inits))
        numbers = [_scalar(i) for i in inits]
        symbols = [None if n is None else Carried() for n in numbers]
        starts = [None if n is None else self.affine(n) for n in numbers]
        self.starts.update((s, start) for s, start in zip(symbols, starts, strict=True) if s is not None)
        self.trips.append(trip)
        number = self._new(INDEX, Affine.of(trip))
        ends = body(number, tuple(map(self._opened, inits, symbols, dtypes)))
        self.trips.pop()
        course.loads = loads, self.loads
        course.moves = list(map(self._move, inits, ends, symbols, dtypes))
        for symbol, start, move in zip(symbols, starts, course.moves, strict=True):
            self._settle(accessed, trip, symbol, start, move)
        return tuple(map(self._closed, inits, starts, course.moves, dtypes, [count] * len(inits)))

    def _new(self, dtype: DType, form: Form | None) -> Shaped[Array, ""]:
        """A new array of shape () of which something is known."""
        number = lax.convert_element_type(lax.add(self.spare, np.int64(0)), dtype.numpy)
        self.note(number, form)
        return number

    def _opened(self, init: Operand, symbol: Carried | None, dtype: DType) -> Operand:
        """What a loop carries, where any of its trips begins."""
        if symbol is None:
            return init
        return _with_scalar(init, self._new(_carried_type(init, dtype), Affine.of(symbol)))

    def _move(self, init: Operand, end: Operand, symbol: Carried | None, dtype: DType) -> Move | None:
        """How what a loop carries changes in a trip."""
        if symbol is None:
            if end is not init:
                raise Unproven
            return None
        if isinstance(init, LocalPointer) and not _same_place(init, end):
            raise Unproven
        form, own = self.form(_scalar(end)), Affine.of(symbol)
        if isinstance(form, Countdown) and form.carried is symbol:
            return Move(down=form.by)
        moves = isinstance(init, LocalPointer) or dtype == INDEX or (dtype.is_integer and dtype != I1)
        if isinstance(form, Affine) and form.terms == own.terms and (moves or not form.constant):
            return Move(step=form.constant)
        raise Unproven

    def _settle(
        self, accessed: int, trip: Trip, symbol: Carried | None, start: Affine | None, move: Move | None
    ) -> None:
        """Say in the accesses of a loop what it carries by its trips."""
        for i in range(accessed, len(self.accesses)):
            access = self.accesses[i].access
            if symbol is None or access.start is None or not any(s is symbol for s, _ in access.start.terms):
                continue
            if start is None or move is None or move.down:
                raise Unproven
            begin = access.start.replaced(symbol, start.plus(Affine.of(trip, move.step)))
            self.accesses[i] = replace(self.accesses[i], access=replace(access, start=begin))

    def _closed(
        self, init: Operand, start: Affine | None, move: Move | None, dtype: DType, count: int
    ) -> Operand:
        """What a loop has carried after its last trip."""
        if move is None:
            return init
        form = None if start is None or move.down else start.plus(Affine(move.step * count))
        return _with_scalar(init, self._new(_carried_type(init, dtype), form))


def _scalar(operand: Operand) -> Scalar | None:
    """The number that an operand is, or the address of a pointer."""
    if isinstance(operand, LocalPointer):
        return operand.address
    if isinstance(operand, Register):
        raise Unproven
    number = isinstance(operand, bool | int | float | np.number) or (
        isinstance(operand, Array) and not operand.ndim
    )
    return operand if number else None


def _with_scalar(operand: Operand, number: Scalar) -> Operand:
    return replace(operand, address=number) if isinstance(operand, LocalPointer) else number


def _carried_type(operand: Operand, dtype: DType) -> DType:
    return INDEX if isinstance(operand, LocalPointer) else dtype


def _same_place(init: LocalPointer, end: Operand) -> bool:
    return isinstance(end, LocalPointer) and (end.dtype, end.space, end.tile) == (
        init.dtype,
        init.space,
        init.tile,
    )


# -- the computation ---------------------------------------------------------------------------------------


@dataclass
class Stored:
    """What a store of a trip, or of all trips, writes."""

    words: UInt[Array, "*trips n"]
    active: Bool[Array, "*trips n"] | None

    def with_more(self, other: Stored) -> Stored:
        """The words with those of another store behind them."""
        active = None
        if self.active is not None or other.active is not None:
            active = jnp.concatenate([self._certain, other._certain], axis=-1)
        return Stored(jnp.concatenate([self.words, other.words], axis=-1), active)

    def only(self, exists: Bool[Array, ""]) -> Stored:
        """The words, active only where a trip exists."""
        return Stored(self.words, self._certain & exists)

    @property
    def _certain(self) -> Bool[Array, "*trips n"]:
        return jnp.ones(self.words.shape, bool) if self.active is None else self.active


@dataclass
class Replay:
    """Computes all trips of recorded loops, with what their loads take."""

    machine: TileMemory
    courses: Iterator[Course]
    loads: Iterator[UInt[Array, "..."]] = field(default_factory=lambda: iter(()))
    stores: list[Stored] = field(default_factory=list)
    number: Int64[Array, ""] | None = None
    #: How many of the trips of the outermost loop there are, where not all of them.
    count: Int64[Array, ""] | None = None

    def computed(self, value: Scalar, *operation: Any) -> Scalar:
        """A scalar as it is: what follows from the trips is recorded."""
        return value

    addressed = computed

    def counted(self, op: Op, operands: Mapping[str, Operand], results: Sequence[Operand]) -> None:
        """Nothing: what follows from the trips is recorded."""

    def read(self, place: LocalPlace, at: int, count: int, unit: int) -> UInt[Array, " {count}"]:
        """The words that the next load of a trip takes."""
        words = next(self.loads)
        assert words.shape == (count,)
        return words

    def read_anywhere(self, place: LocalPlace) -> None:
        """Nothing: no trip writes the cell."""

    def write(
        self, place: LocalPlace, at: int, words: UInt[Array, " n"], active: Bool[Array, " n"] | None
    ) -> None:
        """Keep what a store of a trip writes."""
        self.stores.append(Stored(words, active))

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """All trips of a loop."""
        course = next(self.courses)
        begin, last = course.loads
        batches = [next(self.loads) for _ in range(last - begin)]
        starts = _starts(frame.op, inits, course.moves)
        outside = self.loads, self.stores, self.number
        flags = list(self.machine.violations)
        courses = list(self.courses)
        rest: list[Iterator[Course]] = []
        sites: list[Site] = []
        count = self.count if self.number is None else None

        def trip(number: Int64[Array, ""], loads: list[Array]) -> tuple[list[Any], list[Any]]:
            self.loads, self.stores, self.courses, self.number = iter(loads), [], iter(courses), number
            self.machine.violations.clear()
            body(number, _after(inits, course.moves, starts, number, self._unknown))
            rest[:] = [self.courses]
            exists = None if count is None else number < count
            violations, stored = self.machine.violations, self.stores
            if exists is not None:
                violations = [replace(v, broken=v.broken & exists) for v in violations]
                stored = [s.only(exists) for s in stored]
            sites[:] = [v.site for v in violations]
            return [(s.words, s.active) for s in stored], [x for v in violations for x in v.data]

        numbers = jnp.arange(course.trip.count, dtype=np.int64)
        stores, data = jax.vmap(trip)(numbers, batches)
        self.loads, self.stores, self.number = outside
        self.courses, data_leaves = rest[0], iter(data)
        self.machine.violations[:] = [*flags, *(site.filled(data_leaves).of_batch() for site in sites)]
        self.stores += [Stored(*s) for s in stores]
        trip_count = jnp.asarray(np.int64(course.trip.count)) if count is None else count
        return _after(inits, course.moves, starts, trip_count, self._unknown)

    def _unknown(self, n: Shaped[Array, ""]) -> Shaped[Array, ""]:
        """A number inside of a loop as one that only execution knows, as it was when it was recorded."""
        return n if self.number is None else lax.select(self.number >= np.int64(0), n, n)


def _after(
    inits: Sequence[Operand],
    moves: Sequence[Move | None],
    starts: Sequence[Shaped[Array, ""] | None],
    trips: Int64[Array, ""],
    seen: Callable[[Array], Array] = _itself,
) -> tuple[Operand, ...]:
    """What a loop carries after some trips; ``seen`` is what becomes of its numbers."""
    return tuple(
        i if m is None or s is None else _with_scalar(i, seen(m.after(s, trips)))
        for i, m, s in zip(inits, moves, starts, strict=True)
    )


def _starts(op: Op, inits: Sequence[Operand], moves: Sequence[Move | None]) -> list[Shaped[Array, ""] | None]:
    """The numbers that a loop begins with."""
    dtypes = control_flow.carried_dtypes(op, len(inits))
    return [
        None if m is None else to_native(_scalar(i), _carried_type(i, d))
        for i, d, m in zip(inits, dtypes, moves, strict=True)
    ]


# -- the choice --------------------------------------------------------------------------------------------


def loop(
    machine: TileMemory, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
) -> tuple[Operand, ...] | None:
    """What a loop carries after its trips, all executed at once; None where that is not proven right."""
    if not _has_registers(frame.op):
        return None
    at_once = _in_chunks if machine.known(trips) is None else _at_once
    memory, names, modes = Snapshot.of(machine), frame.save(), dict(frame.modes)
    flags, numbers, written = list(machine.violations), machine.numbers.copy(), machine.written_out
    traces = dict(machine.region_traces)
    try:
        return at_once(machine, frame, trips, inits, body)
    except (Unproven, NotExecutableError):
        machine.together = None
        memory.restore(machine)
        frame.restore(names)
        frame.modes.update(modes)
        machine.violations[:] = flags
        machine.numbers, machine.written_out = numbers, written
        machine.region_traces = traces
        return None


def _has_registers(op: Op) -> bool:
    """Whether there are operations on registers in a loop."""
    declared = (find_micro(inner.name) for inner in op.walk())
    return any(d is not None and d.kind == "memory" for d in declared)


@dataclass(frozen=True)
class Chunk:
    """Trips from a ``first`` one on, of which there are ``count``, and what the loop carries before them.

    ``moves`` say how that follows from the first trip.
    """

    first: Int64[Array, ""]
    count: Int64[Array, ""]
    moves: Sequence[Move | None]
    inits: Sequence[Operand]
    carried: Sequence[Operand]

    def note(self, record: Recording) -> None:
        """Say what the numbers at the beginning are."""
        first = Affine.of(Fixed(partial(_itself, self.first)))
        record.note(self.first, first)
        for init, move, carried in zip(self.inits, self.moves, self.carried, strict=True):
            start = None if move is None or move.down else record.affine(_scalar(init))
            if start is not None and move is not None:
                record.note(_scalar(carried), start.plus(first.times(move.step)))

    def body(self, machine: TileMemory, body: Body) -> Body:
        """The body for trips that are counted from the first one of the chunk on."""

        def trip(number: Scalar, carried: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return body(_computing(machine).scalar("arith.addi", (self.first, number), INDEX, INDEX), carried)

        return trip


def _in_chunks(
    machine: TileMemory, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
) -> tuple[Operand, ...]:
    """A loop in chunks of trips at once; Unproven where that may be wrong."""
    count = lax.max(to_native(trips, INDEX), np.int64(0))
    size, moves = _provable(machine, frame, inits, body)
    starts = _starts(frame.op, inits, moves)
    chunks = lax.div(count + np.int64(size - 1), np.int64(size))

    def run(number: Scalar, nothing: tuple[Operand, ...]) -> tuple[Operand, ...]:
        first = to_native(number, INDEX) * np.int64(size)
        left = lax.min(count - first, np.int64(size))
        chunk = Chunk(first, left, moves, inits, _after(inits, moves, starts, first))
        _at_once(machine, frame, size, chunk.carried, chunk.body(machine, body), chunk)
        return ()

    control_flow.loop(machine, frame, chunks, (), run)
    return _after(inits, moves, starts, count)


def _provable(
    machine: TileMemory, frame: Frame, inits: Sequence[Operand], body: Body
) -> tuple[int, Sequence[Move | None]]:
    """A number of trips from the first one on that are independent, and how what they carry moves."""
    for size in CHUNKS:
        memory, names = Snapshot.of(machine), frame.save()
        try:
            record, _ = _recorded(machine, frame, size, inits, body)
        finally:
            memory.restore(machine)
            frame.restore(names)
        if are_independent([n.access for n in record.accesses]):
            return size, record.courses[0].moves
    raise Unproven


def _at_once(
    machine: TileMemory,
    frame: Frame,
    trips: Scalar,
    inits: Sequence[Operand],
    body: Body,
    chunk: Chunk | None = None,
) -> tuple[Operand, ...]:
    """All trips of a loop, or those of a chunk, at once; Unproven where that may be wrong."""
    record, cells = _recorded(machine, frame, trips, inits, body, chunk)
    noted = record.accesses
    many = any(prod(t.count for t in n.access.trips) > MAX_TRIPS for n in noted)
    if many or not are_independent([n.access for n in noted]):
        raise Unproven
    for key in cells:
        machine.touch(key)
    reads = [n for n in noted if not n.access.writes and n.access.start is not None]
    loads = [n.windows(machine).taken(n.place.flat(n.unit)) for n in reads]
    replay = Replay(machine, iter(record.courses), iter(loads), count=None if chunk is None else chunk.count)
    memory = Snapshot.of(machine)
    machine.together = replay
    try:
        results = replay.loop(frame, trips, inits, body)
    finally:
        machine.together = None
    memory.restore(machine)
    for n, stored in _merged([n for n in noted if n.access.writes], replay.stores):
        n.place.replace(n.windows(machine).put(n.place.flat(n.unit), stored.words, stored.active))
    return results


def _merged(writes: Sequence[Noted], stores: Sequence[Stored]) -> Iterator[tuple[Noted, Stored]]:
    """Stores one after the other, those to neighbouring windows as one."""
    last: tuple[Noted, Stored] | None = None
    for n, stored in zip(writes, stores, strict=True):
        if last is not None and last[0].is_before(n):
            last = last[0].with_more(n), last[1].with_more(stored)
            continue
        if last is not None:
            yield last
        last = n, stored
    if last is not None:
        yield last


def _recorded(
    machine: TileMemory,
    frame: Frame,
    trips: Scalar,
    inits: Sequence[Operand],
    body: Body,
    chunk: Chunk | None = None,
) -> tuple[Recording, list[str]]:
    """The record of a loop, and the cells that it uses first."""
    memory, names, modes = Snapshot.of(machine), frame.save(), dict(frame.modes)
    flags, numbers, written = list(machine.violations), machine.numbers, machine.written_out
    around, records = frame.names(), []

    def follow(spare: Int64[Array, ""]) -> None:
        machine.numbers = numbers.copy()
        record = Recording(machine, spare)
        machine.together = record
        record.know({**around, **{f"#{i}": x for i, x in enumerate(inits)}})
        if chunk is not None:
            chunk.note(record)
        record.loop(frame, trips, inits, body)
        records.append(record)

    try:
        jax.eval_shape(follow, jax.ShapeDtypeStruct((), np.int64))  # type: ignore[no-untyped-call]
    finally:
        machine.together = None
        machine.numbers, machine.written_out = numbers, written
        machine.violations[:] = flags
    changed = frame.changed(names) or frame.modes != modes or not _unchanged(machine, memory)
    cells = [key for key in machine.cells if key not in memory.cells]
    memory.restore(machine)
    if changed:
        raise Unproven
    return records[0], cells


def _unchanged(machine: TileMemory, before: Snapshot) -> bool:
    """Whether no cell and no buffer has other contents than before."""
    return all(machine.cells[k] is v for k, v in before.cells.items()) and all(
        machine.buffers[k] is v for k, v in before.buffers.items()
    )
