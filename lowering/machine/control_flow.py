"""Branches and loops with run-time conditions, as ``lax`` control flow.

Such a region is a function of everything that it changes: memory cells, global buffers, handles of outer
names, its results, and the flags of its run-time rules. The changes appear when the region is traced: an
attempt that assumed too few raises :class:`Retry`, and the next attempt assumes more.

A *shape* is an operand with :class:`Hole` for a traced scalar, :class:`Words` for the contents of a tile, and
a :class:`Choice` where paths return different storage. ``leaves`` takes the arrays out of an operand of a
shape, ``fill`` puts arrays back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.analysis.addresses import scalar_dtype
from pto_jax.errors import NotExecutableError
from pto_jax.interpreter import UNSETTLED, Choice, Frame, Operand, Pointer, Scalar, TileRef, View
from pto_jax.interpreter.operands import LocalPointer, Register
from pto_jax.ir import I1, INDEX, DType, Op, ScalarType, TileType

from .. import scalars, slicing
from ..bits import from_words, moved_as, raw
from ..scalars import to_native
from . import predicted_writes, storage
from .storage import Carried, Slot, Window, slot_of
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Int64

    from pto_jax.interpreter.machine import Arm, Before, Body

    from ..bits import Leaf


@dataclass(frozen=True)
class Hole:
    """A scalar that is data."""

    dtype: DType


@dataclass(frozen=True)
class Elements:
    """A vector outside tile memory, whose elements travel as data."""


@dataclass(frozen=True)
class Contents:
    """A register, whose contents travel as data."""


@dataclass(frozen=True)
class Words:
    """Storage made on the way, whose contents travel as data."""

    type: TileType


#: An operand with holes.
Shape = Any


def opened(operand: Operand, dtype: DType) -> Shape:
    """The shape of an operand whose own value is data if it is a scalar."""
    if isinstance(operand, Register):
        return Contents()
    if operand is None or isinstance(operand, TileRef | View | Pointer | LocalPointer | tuple):
        return operand
    return Elements() if np.ndim(operand) else Hole(dtype)


def join(a: Shape, b: Shape, dtype: DType = INDEX) -> Shape:
    """The least shape that both operands (or shapes) have."""
    if a is b or isinstance(a, Hole | Elements | Contents):
        return a
    if isinstance(a, Register):
        return Contents()
    if isinstance(a, LocalPointer):
        tile = None if a.tile is None else join(a.tile, b.tile)
        return replace(a, address=join(a.address, b.address), tile=tile)
    if isinstance(a, TileRef):
        return replace(
            a,
            storage=_join_places(a.storage, b.storage),
            v_row=join(a.v_row, b.v_row),
            v_col=join(a.v_col, b.v_col),
        )
    if isinstance(a, View):
        a, b = _of_rank(a, len(b.shape)), _of_rank(b, len(a.shape))
        return replace(
            a,
            buffer=_join_places(a.buffer, b.buffer),
            offset=join(a.offset, b.offset),
            shape=_join_all(a.shape, b.shape),
            strides=_join_all(a.strides, b.strides),
        )
    if isinstance(a, Pointer):
        return replace(a, buffer=_join_places(a.buffer, b.buffer), offset=join(a.offset, b.offset))
    if isinstance(a, tuple):
        return _join_all(a, b)
    if np.ndim(a):
        return Elements()
    return a if _same_number(a, b) else Hole(dtype)


def _of_rank(view: View, rank: int) -> View:
    """A view in at least ``rank`` dimensions, of which the first ones have one element."""
    missing = (1,) * (rank - len(view.shape))
    return replace(view, shape=missing + view.shape, strides=missing + view.strides)


def _join_all(a: Sequence[Shape], b: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(join(x, y) for x, y in zip(a, b, strict=True))


def _same_number(a: Scalar, b: Scalar) -> bool:
    return isinstance(a, int | float) and type(a) is type(b) and a == b


def _options(place: Any) -> tuple[Any, ...]:
    return place.options if isinstance(place, Choice) else (place,)


def _alike(a: Any, b: Any) -> bool:
    """Whether two storages are one, up to an address or a place in it."""
    if isinstance(a, Slot) and isinstance(b, Slot):
        return a.cell.key == b.cell.key
    if isinstance(a, Window) and isinstance(b, Window):
        return a.tile.type == b.tile.type and _alike(a.tile.storage, b.tile.storage)
    if isinstance(a, Words | Carried):
        return isinstance(b, Words | Carried) and a.type.with_valid(None, None) == b.type.with_valid(
            None, None
        )
    return isinstance(a, str) and a == b


def _join_places(a: Any, b: Any) -> Any:
    places: list[Any] = []
    for place in (*_options(a), *_options(b)):
        at = next((i for i, other in enumerate(places) if _alike(other, place)), None)
        if at is None:
            places.append(_open_place(place))
        else:
            places[at] = _join_place(places[at], place)
    return places[0] if len(places) == 1 else Choice(Hole(INDEX), tuple(places))


def _open_place(place: Any) -> Any:
    """A storage whose contents or numbers travel as data where they are not known."""
    return _join_place(place, place)


def _join_place(a: Any, b: Any) -> Any:
    if isinstance(a, Words | Carried):
        return Words(a.type)
    if isinstance(a, Slot):
        address = a.address if _same_number(a.address, b.address) else Hole(INDEX)
        return replace(a, address=address, step=min(a.step, b.step))
    if isinstance(a, Window):
        tile = replace(a.tile, storage=_join_place(a.tile.storage, b.tile.storage))
        row, col = (m if _same_number(m, n) else Hole(INDEX) for m, n in zip(a.starts, b.starts, strict=True))
        return Window(tile, row, col)
    return a


def fits(operand: Any, shape: Shape) -> bool:
    """Whether an operand, or each of several, has the shape."""
    if isinstance(shape, Hole | Elements | Contents) or (
        operand is shape and not isinstance(shape, TileRef | View | Pointer | LocalPointer)
    ):
        return True
    if isinstance(shape, LocalPointer):
        same = operand.dtype == shape.dtype and (operand.tile is None) == (shape.tile is None)
        tiles = shape.tile is None or (same and fits(operand.tile, shape.tile))
        return same and fits(operand.address, shape.address) and tiles
    if isinstance(shape, TileRef):
        return (
            _place_fits(operand.storage, shape.storage)
            and fits(operand.v_row, shape.v_row)
            and fits(operand.v_col, shape.v_col)
        )
    if isinstance(shape, View | Pointer):
        scalar = fits(operand.offset, shape.offset) and _place_fits(operand.buffer, shape.buffer)
        if isinstance(shape, Pointer):
            return scalar
        operand = _of_rank(operand, len(shape.shape))
        return scalar and fits(operand.shape, shape.shape) and fits(operand.strides, shape.strides)
    if isinstance(shape, tuple):
        return all(fits(o, s) for o, s in zip(operand, shape, strict=True))
    return _same_number(operand, shape)


def _place_fits(place: Any, shape: Any) -> bool:
    options = _options(shape)
    return all(_position(p, options) is not None for p in _options(place))


def _position(place: Any, options: Sequence[Any]) -> int | None:
    at = next((i for i, option in enumerate(options) if _alike(place, option)), None)
    return at if at is None or _numbers_fit(place, options[at]) else None


def _numbers_fit(place: Any, shape: Any) -> bool:
    if isinstance(shape, Window):
        return _numbers_fit(place.tile.storage, shape.tile.storage) and fits(place.starts, shape.starts)
    return not isinstance(shape, Slot) or (fits(place.address, shape.address) and place.step >= shape.step)


def leaves(operand: Operand, shape: Shape) -> list[Leaf]:
    """The data of an operand that fits the shape."""
    if isinstance(shape, Hole):
        return [scalars.to_carried(operand, shape.dtype)]
    if isinstance(shape, Elements):
        return [jnp.asarray(operand)]
    if isinstance(shape, Contents):
        return [jnp.asarray(operand.contents)]
    if isinstance(shape, LocalPointer):
        tile = [] if shape.tile is None else leaves(operand.tile, shape.tile)
        return [*leaves(operand.address, shape.address), *tile]
    if isinstance(shape, TileRef):
        found = _place_leaves(operand.storage, shape.storage)
        return [*found, *leaves(operand.v_row, shape.v_row), *leaves(operand.v_col, shape.v_col)]
    if isinstance(shape, View | Pointer):
        found = _place_leaves(operand.buffer, shape.buffer)
        found += leaves(operand.offset, shape.offset)
        if isinstance(shape, View):
            operand = _of_rank(operand, len(shape.shape))
            found += leaves(operand.shape, shape.shape)
            found += leaves(operand.strides, shape.strides)
        return found
    if isinstance(shape, tuple):
        return [leaf for o, s in zip(operand, shape, strict=True) for leaf in leaves(o, s)]
    return []


def _place_leaves(place: Any, shape: Any) -> list[Leaf]:
    options = _options(shape)
    leaves: list[Leaf] = []
    if isinstance(shape, Choice):
        leaves.append(_index(place, options))
    for option in options:
        here = next((p for p in _options(place) if _alike(p, option)), None)
        leaves += _numbers_of(here, option)
    return leaves


def _numbers_of(place: Any, shape: Any) -> list[Leaf]:
    """The data of one storage; of none at all, if another one is handed on."""
    if isinstance(shape, Words):
        blank = jnp.zeros(shape.type.shape, shape.type.dtype.word)
        return [place.words if isinstance(place, Carried) else blank]
    if isinstance(shape, Slot):
        return _place_numbers((0 if place is None else place.address,), (shape.address,))
    if isinstance(shape, Window):
        inner = None if place is None else place.tile.storage
        starts = (0, 0) if place is None else place.starts
        return [*_numbers_of(inner, shape.tile.storage), *_place_numbers(starts, shape.starts)]
    return []


def _place_numbers(numbers: Sequence[Scalar], shapes: Sequence[Shape]) -> list[Leaf]:
    pairs = zip(numbers, shapes, strict=True)
    return [scalars.to_native(n, INDEX) for n, shape in pairs if isinstance(shape, Hole)]


def _index(place: Any, options: Sequence[Any]) -> Int64[Array, ""]:
    positions = [_position(p, options) for p in _options(place)]
    assert None not in positions
    numbers = [np.int64(p) for p in positions if p is not None]
    chosen = jnp.asarray(numbers[0])
    if isinstance(place, Choice):
        for i, number in enumerate(numbers[1:], 1):
            chosen = jnp.where(place.index == i, number, chosen)
    return chosen


def fill(machine: TileMemory, shape: Shape, data: Iterator[Leaf]) -> Operand:
    """The operand of a shape with this data."""
    if isinstance(shape, Hole):
        return scalars.of_carried(next(data), shape.dtype)
    if isinstance(shape, Elements):
        return next(data)
    if isinstance(shape, Contents):
        return Register(next(data))
    if isinstance(shape, LocalPointer):
        address = fill(machine, shape.address, data)
        tile = None if shape.tile is None else fill(machine, shape.tile, data)
        return replace(shape, address=address, tile=tile)
    if isinstance(shape, TileRef):
        storage = _fill_place(machine, shape.storage, data)
        rows, cols = fill(machine, shape.v_row, data), fill(machine, shape.v_col, data)
        return replace(shape, storage=storage, v_row=rows, v_col=cols)
    if isinstance(shape, View | Pointer):
        buffer = _fill_place(machine, shape.buffer, data)
        offset = fill(machine, shape.offset, data)
        if isinstance(shape, Pointer):
            return replace(shape, buffer=buffer, offset=offset)
        sizes, strides = fill(machine, shape.shape, data), fill(machine, shape.strides, data)
        return replace(shape, buffer=buffer, offset=offset, shape=sizes, strides=strides)
    if isinstance(shape, tuple):
        return tuple(fill(machine, s, data) for s in shape)
    return shape


def _fill_place(machine: TileMemory, shape: Any, data: Iterator[Leaf]) -> Any:
    index = next(data) if isinstance(shape, Choice) else None
    filled = tuple(_fill_option(machine, option, data) for option in _options(shape))
    return filled[0] if index is None else Choice(index, filled)


def _fill_option(machine: TileMemory, shape: Any, data: Iterator[Leaf]) -> Any:
    if isinstance(shape, Words):
        return machine.temporary(shape.type, next(data))
    if isinstance(shape, Slot):
        return replace(shape, address=_filled(shape.address, data))
    if isinstance(shape, Window):
        tile = replace(shape.tile, storage=_fill_option(machine, shape.tile.storage, data))
        row, col = (_filled(n, data) for n in shape.starts)
        return Window(tile, row, col)
    return shape


def _filled(shape: Shape, data: Iterator[Leaf]) -> Scalar:
    return next(data) if isinstance(shape, Hole) else shape


Key: TypeAlias = tuple[int, str]


class Retry(Exception):
    """The region changes more than was assumed; ``ends`` is what it hands on, ``which`` one it is.

    Only the exception holds arrays of the trace that it ends: nothing of a trace that is used outlives it.
    """

    def __init__(self, ends: tuple[Operand, ...], which: int = 0) -> None:
        self.ends, self.which = ends, which


@dataclass
class Effects:
    """What a region changes, as far as the attempts so far have shown."""

    cells: dict[str, None] = field(default_factory=dict)
    buffers: dict[str, None] = field(default_factory=dict)
    names: dict[Key, Shape] = field(default_factory=dict)
    modes: dict[str, None] = field(default_factory=dict)
    complete: bool = True

    def expect(self, holds: bool) -> None:
        """Note whether an assumption holds: an attempt is complete only where all do."""
        self.complete = self.complete and holds

    def note(
        self,
        machine: TileMemory,
        frame: Frame,
        before: Snapshot,
        saved: list[dict[str, Operand]],
        entry: Snapshot,
    ) -> None:
        """Add what changed since ``before``; ``complete`` tells whether all of it was assumed.

        Storage that a region makes for its own values is nobody else's: only its contents may leave.
        """
        own = machine.ending_with(frame.op)
        for record, now, old in (
            (self.cells, machine.cells, before.cells),
            (self.buffers, machine.buffers, before.buffers),
        ):
            for key, words in now.items():
                changed = key not in old or old[key] is not words
                if changed and key not in record and (key in entry.cells or key not in own):
                    record[key] = None
                    self.complete = False
        for mode, value in frame.modes.items():
            if value != saved[0][mode] and mode not in self.modes:
                self.modes[mode] = None
                self.complete = False
        for name, operand in frame.changed(saved).items():
            shape = self.names.get(name, saved[name[0]][name[1]])
            if name not in self.names or not fits(operand, shape):
                self.names[name] = join(shape, operand)
                self.complete = False

    def leaves(self, machine: TileMemory, frame: Frame) -> list[Leaf]:
        """The arrays that carry what the region changes, in the order in which :meth:`restore` takes them."""
        found = [machine.cells[k] for k in self.cells]
        found += [from_words(machine.buffers[k], moved_as(machine.dtypes[k])) for k in self.buffers]
        return found + [leaf for key, shape in self.names.items() for leaf in leaves(frame[key], shape)]

    def restore(self, machine: TileMemory, frame: Frame, data: Iterator[Leaf]) -> None:
        """Make the data what the region has changed; modes it changes are not known where it begins."""
        for mode in self.modes:
            frame.modes[mode] = UNSETTLED
        for key in self.cells:
            machine.set_cell(key, next(data))
        for key in self.buffers:
            machine.buffers[key] = raw(next(data))
        for name, shape in self.names.items():
            frame[name] = fill(machine, shape, data)


@dataclass
class RegionTraces:
    """What earlier traces of an operation's regions have shown; ``sites`` are the rules of each region.

    Regions around it may be traced again: then it needs one trace, not as many again.
    """

    cells: dict[str, None] = field(default_factory=dict)
    buffers: dict[str, None] = field(default_factory=dict)
    sites: tuple[list[Site], ...] = field(default_factory=lambda: ([], []))


@dataclass
class Attempts:
    """The state around a region, restored before every attempt to trace it."""

    machine: TileMemory
    frame: Frame

    def __post_init__(self) -> None:
        op = id(self.frame.op)
        # An operation that chooses among more than two branches is traced inside of its own branches: how
        # often tells their regions apart.
        place = (self.machine.core, op, self.machine.traced.count(op))
        self.traces: RegionTraces = self.machine.region_traces.setdefault(place, RegionTraces())
        self.effects = Effects(self.traces.cells, self.traces.buffers)
        cells, buffers = predicted_writes.changes(self.machine, self.frame)
        self.effects.cells.update(dict.fromkeys(cells))
        self.effects.buffers.update(dict.fromkeys(buffers))
        self.memory = self.entry = Snapshot.of(self.machine)
        self.names = self.frame.save()
        self.flags = list(self.machine.violations)
        self.numbers = self.machine.numbers

    def rewind(self) -> None:
        """Back to the beginning, with every cell there that the region is known to change."""
        self.memory.restore(self.machine)
        self.frame.restore(self.names)
        self.machine.violations[:] = self.flags
        for key in self.effects.cells:
            self.machine.touch(key)
        self.effects.complete = True
        self.entry = Snapshot.of(self.machine)

    @contextmanager
    def traced(self) -> Iterator[None]:
        """The trace of a region: its arrays do not outlive it."""
        self._begin()
        self.machine.traced.append(id(self.frame.op))
        try:
            yield
        finally:
            self.machine.traced.pop()
            self._begin()
            self.machine.numbers = self.numbers

    def _begin(self) -> None:
        self.entry.restore(self.machine)
        self.frame.restore(self.names)
        self.machine.violations.clear()
        self.machine.numbers = self.numbers.copy()

    def leave(self, sites: Sequence[Site], data: Iterator[Leaf]) -> None:
        """After the region: its run-time rules join those found before."""
        self.machine.violations[:] = [*self.flags, *(site.filled(data) for site in sites)]

    def handed(self, operands: Sequence[Operand]) -> tuple[Operand, ...]:
        """Operands that leave the region; tiles made inside it take their contents along."""
        machine, outside = self.machine, self.entry.cells

        def carried(operand: Operand) -> Operand:
            slot = storage.slot_of(operand.storage) if isinstance(operand, TileRef) else None
            if slot is not None:
                key = slot.cell.key
                if key in machine.temporaries and key not in outside:
                    return replace(operand, storage=storage.Carried(operand.type, machine.words(operand)))
            return operand

        return tuple(map(carried, operands))


def varying_axes(x: ArrayLike) -> frozenset[str]:
    """The mesh axes an array varies over inside shard_map."""
    return frozenset(jax.typeof(x).manual_axis_type.varying)


def alike(machine: TileMemory, leaves: Sequence[Leaf]) -> list[Leaf]:
    """Arrays that vary over the same mesh axes, as both ends of a loop or branch must."""

    def varied(x: Leaf) -> Leaf:
        missing = machine.axes - varying_axes(x)
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return [varied(jnp.asarray(x)) for x in leaves]


def carried_dtypes(op: Op, count: int) -> list[DType]:
    """Types of the scalars among the values an operation hands on."""
    dtypes = [scalar_dtype(v.type) for v in op.results]
    return dtypes if len(dtypes) == count else [INDEX] * count


def branch(machine: TileMemory, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
    """``lax.cond`` over two arms."""
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    sites = attempts.traces.sites
    shape = _scalars(frame.op)

    def run(which: int) -> list[Leaf]:
        with attempts.traced():
            before, names = Snapshot.of(machine), frame.save()
            results = attempts.handed(arms[which]())
            effects.note(machine, frame, before, names, attempts.entry)
            found = [v.site for v in machine.violations]
            effects.expect(sites[which] == found)
            effects.expect(len(shape or ()) == len(results) and all(map(fits, results, shape or ())))
            sites[which][:] = found
            if not effects.complete or shape is None:
                raise Retry(results, which)
            data = effects.leaves(machine, frame)
            data += [leaf for r, s in zip(results, shape, strict=True) for leaf in leaves(r, s)]
            for i, own in enumerate(sites):
                violations = machine.violations if i == which else [site.unbroken() for site in own]
                data += [leaf for v in violations for leaf in v.data]
            return alike(machine, data)

    def handed(which: int) -> tuple[Operand, ...] | None:
        """What an arm hands on, None where all that it changes is known."""
        attempts.rewind()
        try:
            jax.eval_shape(partial(run, which))
        except Retry as retry:
            return retry.ends
        return None

    predicate = to_native(condition, I1)
    while True:
        attempts.rewind()
        try:
            leaving = iter(lax.cond(predicate, partial(run, 0), partial(run, 1)))
        except Retry as retry:
            # An arm is traced after the one before it is found to be complete.
            ends = [retry.ends, handed(1) if retry.which == 0 else None]
            shape = _joined(frame.op, shape, [e for e in ends if e is not None])
            continue
        except NotExecutableError:
            attempts.rewind()
            raise
        attempts.rewind()
        effects.restore(machine, frame, leaving)
        results = tuple(fill(machine, s, leaving) for s in shape or ())
        attempts.leave([*sites[0], *sites[1]], leaving)
        return results


def _joined(op: Op, shape: tuple[Shape, ...] | None, ends: Sequence[tuple[Shape, ...]]) -> tuple[Shape, ...]:
    """The least shape of what the arms of a branch hand on, and of what was assumed."""
    assumed = [] if shape is None or len(shape) != len(ends[0]) else [shape]
    first, *others = [*assumed, *ends]
    for other in others:
        first = tuple(
            join(a, b, d) for a, b, d in zip(first, other, carried_dtypes(op, len(first)), strict=True)
        )
    return first


def _scalars(op: Op) -> tuple[Shape, ...] | None:
    """The shape of a branch's results where all of them are scalars, None where it has to show."""
    handed = op.results if op.name.startswith("scf.") else ()
    if not all(isinstance(v.type, ScalarType) for v in handed):
        return None
    return tuple(Hole(scalar_dtype(v.type)) for v in handed)


#: Runs a loop over flat data: the step maps trip and data, ``position`` is where the first value that the
#: loop carries stands in the data.
Step: TypeAlias = "Callable[[Int64[Array, ''], list[Leaf]], list[Leaf]]"
Runner: TypeAlias = "Callable[[Step, list[Leaf], int], list[Leaf]]"


def loop(
    machine: TileMemory, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
) -> tuple[Operand, ...]:
    """``lax`` control flow over the trips."""
    count = np.int64(trips) if isinstance(trips, int) else to_native(trips, INDEX)

    def run(step: Step, data: list[Leaf], position: int) -> list[Leaf]:
        return slicing.repeated(count, step, data)

    return _looped(machine, frame, inits, carried_dtypes(frame.op, len(inits)), body, run)


def repeat(
    machine: TileMemory,
    frame: Frame,
    inits: Sequence[Operand],
    before: Before,
    after: Callable[[tuple[Operand, ...]], tuple[Operand, ...]],
) -> tuple[Operand, ...]:
    """``lax.while_loop``; after ``machine.max_steps`` trips it stops and the rule ``steps`` is broken."""

    def body(trip: Scalar, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        again, passed = before(after(operands[1:]))
        return (again, *passed)

    stopped = jnp.zeros((), bool)

    def run(step: Step, data: list[Leaf], position: int) -> list[Leaf]:
        nonlocal stopped
        zero = alike(machine, [jnp.zeros((), np.int64)])[0]
        trips, found = lax.while_loop(
            lambda state: state[1][position] & (state[0] < machine.max_steps),
            lambda state: (state[0] + np.int64(1), step(*state)),
            (zero, data),
        )
        stopped = found[position] & (trips >= machine.max_steps)
        return list(found)

    condition, passed = before(tuple(inits))
    dtypes = [I1, *carried_dtypes(frame.op, len(passed))]
    results = _looped(machine, frame, (condition, *passed), dtypes, body, run)
    machine.stop(frame.op, "steps", f"at most {machine.max_steps} trips", stopped)
    return results[1:]


def _looped(
    machine: TileMemory,
    frame: Frame,
    inits: Sequence[Operand],
    dtypes: Sequence[DType],
    body: Body,
    run: Runner,
) -> tuple[Operand, ...]:
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    starts = list(inits)
    shape = [opened(i, d) for i, d in zip(starts, dtypes, strict=True)]
    sites = attempts.traces.sites[0]
    in_place = False

    def step(trip: Int64[Array, ""], data: list[Leaf]) -> list[Leaf]:
        nonlocal in_place
        with attempts.traced():
            given = iter(data)
            effects.restore(machine, frame, given)
            operands = tuple(fill(machine, s, given) for s in shape)
            before, names = Snapshot.of(machine), frame.save()
            ends = attempts.handed(body(trip, operands))
            effects.note(machine, frame, before, names, attempts.entry)
            in_place = any(
                machine.cells.get(k) is not words
                for k, words in before.cells.items()
                if k not in attempts.entry.cells
            )
            sites_before, sites[:] = list(sites), [v.site for v in machine.violations]
            effects.expect(sites_before == sites)
            effects.expect(all(map(fits, ends, shape)))
            if not effects.complete:
                raise Retry(ends)
            found = effects.leaves(machine, frame)
            found += [leaf for e, s in zip(ends, shape, strict=True) for leaf in leaves(e, s)]
            for site, new in zip(sites, machine.violations, strict=True):
                found += new.after(site.filled(given)).data
            return alike(machine, found)

    while True:
        attempts.rewind()
        data = effects.leaves(machine, frame)
        position = len(data)
        data += [leaf for i, s in zip(starts, shape, strict=True) for leaf in leaves(i, s)]
        data += [leaf for site in sites for leaf in site.unbroken().data]
        try:
            data = run(step, alike(machine, data), position)
        except Retry as retry:
            starts = [_by_value(machine, i, e) for i, e in zip(starts, retry.ends, strict=True)]
            shape = [
                join(s if fits(i, s) else opened(i, d), e, d)
                for i, s, e, d in zip(starts, shape, retry.ends, dtypes, strict=True)
            ]
            continue
        except NotExecutableError:
            attempts.rewind()
            raise
        _check_by_value(effects, frame, inits, starts, in_place)
        attempts.rewind()
        given = iter(data)
        effects.restore(machine, frame, given)
        results = tuple(fill(machine, s, given) for s in shape)
        attempts.leave(sites, given)
        return results


def _by_value(machine: TileMemory, start: Operand, end: Operand) -> Operand:
    """The first value of what a loop carries, as contents where its body hands contents on."""
    carries = isinstance(end, TileRef) and isinstance(end.storage, Carried)
    if not carries or isinstance(start.storage, Carried):
        return start
    return replace(start, storage=Carried(start.type, machine.words(start)))


def _check_by_value(
    effects: Effects, frame: Frame, inits: Sequence[Operand], starts: Sequence[Operand], in_place: bool
) -> None:
    """A tile carried by value must not be written through its handle, nor the tile it started as."""
    copied = [i for i, s in zip(inits, starts, strict=True) if i is not s]
    written = any(
        (slot := slot_of(p)) is not None and slot.cell.key in effects.cells
        for i in copied
        for p in (getattr(i.storage, "options", (i.storage,)))
    )
    if copied and (written or in_place):
        message = (
            "carries a new tile from trip to trip and also writes it in place; "
            "allowed: one of the two (give the new tile storage with alloc_tile)"
        )
        raise NotExecutableError(frame.op.error("carried-tile", message))
