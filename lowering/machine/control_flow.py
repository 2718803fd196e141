"""Branches and loops whose course only execution knows, as ``lax`` control flow.

Such a region is a function of everything it changes: memory cells, global buffers, handles of the names
around it, the values it hands on, and the flags of its run-time rules. What that is shows when the region
is executed; an attempt that assumed too little raises :class:`_Retry`, and the next one assumes more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.analysis.constant_folding import scalar_dtype
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import UNSETTLED, Frame, Operand, Scalar, TileRef
from pto_jax.ir.dtypes import I1, INDEX, DType
from pto_jax.ir.program import Op
from pto_jax.ir.types import ScalarType

from ..scalars import to_native
from . import predicted_writes
from .shapes import Hole, Shape, fill, fits, join, leaves, opened
from .storage import Carried, slot_of
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from pto_jax.interpreter.machine import Arm, Before, Body

Key: TypeAlias = tuple[int, str]


class _Retry(Exception):
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
        for known, now, old in (
            (self.cells, machine.cells, before.cells),
            (self.buffers, machine.buffers, before.buffers),
        ):
            for key, words in now.items():
                changed = key not in old or old[key] is not words
                if changed and key not in known and (key in entry.cells or key not in own):
                    known[key] = None
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

    def leaves(self, machine: TileMemory, frame: Frame) -> list[Array]:
        """The arrays that carry what the region changes, in the order in which :meth:`restore` takes them."""
        found = [machine.cells[k] for k in self.cells] + [machine.buffers[k] for k in self.buffers]
        return found + [leaf for key, shape in self.names.items() for leaf in leaves(frame[key], shape)]

    def restore(self, machine: TileMemory, frame: Frame, data: Iterator[Array]) -> None:
        """Make the data what the region has changed; modes it changes are not known where it begins."""
        for mode in self.modes:
            frame.modes[mode] = UNSETTLED
        for key in self.cells:
            machine.set_cell(key, next(data))
        for key in self.buffers:
            machine.buffers[key] = next(data)
        for name, shape in self.names.items():
            frame[name] = fill(machine, shape, data)


@dataclass
class Attempts:
    """The state around a region, restored before every attempt to trace it."""

    machine: TileMemory
    frame: Frame
    effects: Effects = field(default_factory=Effects)

    def __post_init__(self) -> None:
        cells, buffers = predicted_writes.changes(self.machine, self.frame)
        self.effects.cells.update(dict.fromkeys(cells))
        self.effects.buffers.update(dict.fromkeys(buffers))
        self.memory = self.entry = Snapshot.of(self.machine)
        self.names = self.frame.save()
        self.flags = list(self.machine.violations)

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
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        self.entry.restore(self.machine)
        self.frame.restore(self.names)
        self.machine.violations.clear()

    def leave(self, sites: Sequence[Site], data: Iterator[Array]) -> None:
        """After the region: its run-time rules join those found before."""
        self.machine.violations[:] = [*self.flags, *(site.filled(data) for site in sites)]

    def handed(self, operands: Sequence[Operand]) -> tuple[Operand, ...]:
        """Operands that leave the region; tiles made inside it take their contents along."""
        machine, outside = self.machine, self.entry.cells

        def carried(operand: Operand) -> Operand:
            slot = slot_of(operand.storage) if isinstance(operand, TileRef) else None
            if slot is not None:
                key = slot.cell.key
                if key in machine.temporaries and key not in outside:
                    return replace(operand, storage=Carried(operand.type, machine.words(operand)))
            return operand

        return tuple(map(carried, operands))


def varying_axes(x: Array) -> frozenset[str]:
    """The mesh axes an array varies over inside shard_map."""
    return frozenset(jax.typeof(x).manual_axis_type.varying)


def _alike(machine: TileMemory, found: Sequence[Array]) -> list[Array]:
    """Arrays that vary over the same mesh axes, as both ends of a loop or branch must."""

    def varied(x: Array) -> Array:
        missing = machine.axes - varying_axes(x)
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return [varied(jnp.asarray(x)) for x in found]


def _dtypes(op: Op, count: int) -> list[DType]:
    """Types of the scalars among the values an operation hands on."""
    found = [scalar_dtype(v.type) for v in op.results]
    return found if len(found) == count else [INDEX] * count


def branch(machine: TileMemory, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
    """``lax.cond`` over two arms."""
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    sites: list[list[Site]] = [[], []]
    shape = _scalars(frame.op)

    def run(which: int) -> list[Array]:
        with attempts.traced():
            before, names = Snapshot.of(machine), frame.save()
            results = attempts.handed(arms[which]())
            effects.note(machine, frame, before, names, attempts.entry)
            found = [v.site for v in machine.violations]
            effects.expect(sites[which] == found)
            effects.expect(len(shape or ()) == len(results) and all(map(fits, results, shape or ())))
            sites[which] = found
            if not effects.complete or shape is None:
                raise _Retry(results, which)
            data = effects.leaves(machine, frame)
            data += [leaf for r, s in zip(results, shape, strict=True) for leaf in leaves(r, s)]
            for i, own in enumerate(sites):
                kept = machine.violations if i == which else [site.unbroken() for site in own]
                data += [leaf for v in kept for leaf in v.data]
            return _alike(machine, data)

    def handed(which: int) -> tuple[Operand, ...] | None:
        """What an arm hands on, None where all that it changes is known."""
        attempts.rewind()
        try:
            jax.eval_shape(partial(run, which))
        except _Retry as retry:
            return retry.ends
        return None

    predicate = to_native(condition, I1)
    while True:
        attempts.rewind()
        try:
            leaving = iter(lax.cond(predicate, partial(run, 0), partial(run, 1)))
        except _Retry as retry:
            # An arm is traced after the one before it is found to be complete.
            ends = [retry.ends, handed(1) if retry.which == 0 else None]
            shape = _joined(frame.op, shape, [e for e in ends if e is not None])
            continue
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
        first = tuple(join(a, b, d) for a, b, d in zip(first, other, _dtypes(op, len(first)), strict=True))
    return first


def _scalars(op: Op) -> tuple[Shape, ...] | None:
    """The shape of a branch's results where all of them are scalars, None where it has to show."""
    handed = op.results if op.name.startswith("scf.") else ()
    if not all(isinstance(v.type, ScalarType) for v in handed):
        return None
    return tuple(Hole(scalar_dtype(v.type)) for v in handed)


#: Runs a loop over flat data: the step maps trip and data, ``position`` is where the first value that the
#: loop carries stands in the data.
Runner: TypeAlias = Callable[[Callable[[Array, list[Array]], list[Array]], list[Array], int], list[Array]]


def loop(
    machine: TileMemory, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
) -> tuple[Operand, ...]:
    """``lax.fori_loop`` over the trips."""
    count = np.int64(trips) if isinstance(trips, int) else to_native(trips, INDEX)

    def run(
        step: Callable[[Array, list[Array]], list[Array]], data: list[Array], position: int
    ) -> list[Array]:
        found: list[Array] = lax.fori_loop(np.int64(0), count, step, data)
        return found

    return _looped(machine, frame, inits, _dtypes(frame.op, len(inits)), body, run)


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

    def run(
        step: Callable[[Array, list[Array]], list[Array]], data: list[Array], position: int
    ) -> list[Array]:
        nonlocal stopped
        zero = _alike(machine, [jnp.zeros((), np.int64)])[0]
        trips, found = lax.while_loop(
            lambda state: state[1][position] & (state[0] < machine.max_steps),
            lambda state: (state[0] + np.int64(1), step(*state)),
            (zero, data),
        )
        stopped = found[position] & (trips >= machine.max_steps)
        return list(found)

    condition, passed = before(tuple(inits))
    dtypes = [I1, *_dtypes(frame.op, len(passed))]
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
    sites: list[Site] = []
    in_place = False

    def step(trip: Array, data: list[Array]) -> list[Array]:
        nonlocal sites, in_place
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
            known, sites = sites, [v.site for v in machine.violations]
            effects.expect(known == sites)
            effects.expect(all(map(fits, ends, shape)))
            if not effects.complete:
                raise _Retry(ends)
            found = effects.leaves(machine, frame)
            found += [leaf for e, s in zip(ends, shape, strict=True) for leaf in leaves(e, s)]
            for site, new in zip(sites, machine.violations, strict=True):
                found += new.after(site.filled(given)).data
            return _alike(machine, found)

    while True:
        attempts.rewind()
        data = effects.leaves(machine, frame)
        position = len(data)
        data += [leaf for i, s in zip(starts, shape, strict=True) for leaf in leaves(i, s)]
        data += [leaf for site in sites for leaf in site.unbroken().data]
        try:
            data = run(step, _alike(machine, data), position)
        except _Retry as retry:
            starts = [_by_value(machine, i, e) for i, e in zip(starts, retry.ends, strict=True)]
            shape = [
                join(s if fits(i, s) else opened(i, d), e, d)
                for i, s, e, d in zip(starts, shape, retry.ends, dtypes, strict=True)
            ]
            continue
        _check_by_value(effects, frame, inits, starts, in_place)
        attempts.rewind()
        given = iter(data)
        effects.restore(machine, frame, given)
        results = tuple(fill(machine, s, given) for s in shape)
        attempts.leave(sites, given)
        return results


def _by_value(machine: TileMemory, start: Operand, end: Operand) -> Operand:
    """The first value of what a loop carries, as contents where its body hands contents on."""
    made = isinstance(end, TileRef) and isinstance(end.storage, Carried)
    if not made or isinstance(start.storage, Carried):
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
        raise NotExecutableError(
            Diagnostic("error", message, frame.op.span, frame.op.name, rule="carried-tile")
        )
