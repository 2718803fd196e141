"""Branches and loops whose course only execution knows, as ``lax`` control flow.

Such a region is a function of everything it changes: memory cells, global buffers, handles of the names
around it, the values it hands on, and the flags of its run-time rules. What that is shows when the region
is walked; an attempt that assumed too little raises :class:`_Retry`, and the next one assumes more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.dtypes import I1, INDEX, DType
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.fold import scalar_dtype
from pto_jax.ir import Op
from pto_jax.types import ScalarType
from pto_jax.walk import UNSETTLED, Frame, Operand, Scalar, TileRef

from . import guess
from .scalars import to_native
from .shapes import Carried, Hole, Shape, fill, fits, join, leaves, opened
from .storage import slot_of

if TYPE_CHECKING:
    from pto_jax.walk.machine import Arm, Before, Body

    from .tile_memory import Violation
from .program import JaxMachine

Key: TypeAlias = tuple[int, str]


class _Retry(Exception):
    """The region changes more than was assumed."""


@dataclass
class Effects:
    """What a region changes, as far as the attempts so far have shown."""

    cells: dict[str, None] = field(default_factory=dict)
    buffers: dict[str, None] = field(default_factory=dict)
    names: dict[Key, Shape] = field(default_factory=dict)
    modes: dict[str, None] = field(default_factory=dict)
    complete: bool = True

    def expect(self, holds: bool) -> None:
        self.complete = self.complete and holds

    def note(
        self,
        machine: JaxMachine,
        frame: Frame,
        before: Memory,
        saved: list[dict[str, Operand]],
        entry: Memory,
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

    def leaves(self, machine: JaxMachine, frame: Frame) -> list[Array]:
        found = [machine.cells[k] for k in self.cells] + [machine.buffers[k] for k in self.buffers]
        return found + [leaf for key, shape in self.names.items() for leaf in leaves(frame[key], shape)]

    def restore(self, machine: JaxMachine, frame: Frame, data: Iterator[Array]) -> None:
        """Make the data what the region has changed; modes it changes are not known where it begins."""
        for mode in self.modes:
            frame.modes[mode] = UNSETTLED
        for key in self.cells:
            machine.set_cell(key, next(data))
        for key in self.buffers:
            machine.buffers[key] = next(data)
        for name, shape in self.names.items():
            frame[name] = fill(machine, shape, data)


@dataclass(frozen=True)
class Memory:
    """A machine's arrays at one moment."""

    cells: dict[str, Array]
    buffers: dict[str, Array]
    values: dict[str, Array]

    @classmethod
    def of(cls, machine: JaxMachine) -> Memory:
        return cls(dict(machine.cells), dict(machine.buffers), dict(machine.values))

    def restore(self, machine: JaxMachine) -> None:
        machine.cells.clear()
        machine.cells.update(self.cells)
        machine.buffers.clear()
        machine.buffers.update(self.buffers)
        machine.values.clear()
        machine.values.update(self.values)


@dataclass
class Attempts:
    """The state around a region, restored before every attempt to trace it."""

    machine: JaxMachine
    frame: Frame
    effects: Effects = field(default_factory=Effects)

    def __post_init__(self) -> None:
        cells, buffers = guess.changes(self.machine, self.frame)
        self.effects.cells.update(dict.fromkeys(cells))
        self.effects.buffers.update(dict.fromkeys(buffers))
        self.memory = self.entry = Memory.of(self.machine)
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
        self.entry = Memory.of(self.machine)

    def enter(self) -> None:
        """Begin the trace of a region."""
        self.entry.restore(self.machine)
        self.frame.restore(self.names)
        self.machine.violations.clear()

    def leave(self, flags: Sequence[Violation], broken: Sequence[Array]) -> None:
        """After the region: its run-time rules join those found before."""
        found = [replace(v, broken=b) for v, b in zip(flags, broken, strict=True)]
        self.machine.violations[:] = [*self.flags, *found]

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


def _alike(machine: JaxMachine, found: Sequence[Array]) -> list[Array]:
    """Arrays that vary over the same mesh axes, as both ends of a loop or branch must."""

    def varied(x: Array) -> Array:
        missing = machine.axes - varying_axes(x)
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return [varied(jnp.asarray(x)) for x in found]


def _dtypes(op: Op, count: int) -> list[DType]:
    """Types of the scalars among the values an operation hands on."""
    found = [scalar_dtype(v.type) for v in op.results]
    return found if len(found) == count else [INDEX] * count


def branch(machine: JaxMachine, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
    """``lax.cond`` over two arms."""
    attempts = Attempts(machine, frame)
    effects = attempts.effects
    flags: list[list[Violation]] = [[], []]
    ends: list[tuple[Operand, ...]] = [(), ()]
    shape = _scalars(frame.op)

    def run(which: int) -> list[Array]:
        attempts.enter()
        before, names = Memory.of(machine), frame.save()
        results = ends[which] = attempts.handed(arms[which]())
        effects.note(machine, frame, before, names, attempts.entry)
        effects.expect(_sites(flags[which]) == _sites(machine.violations))
        effects.expect(shape is not None and len(shape) == len(results) and all(map(fits, results, shape)))
        flags[which] = list(machine.violations)
        if not effects.complete:
            if which == 1:
                raise _Retry
            return []
        found = effects.leaves(machine, frame)
        found += [leaf for r, s in zip(results, shape or (), strict=True) for leaf in leaves(r, s)]
        for i, own in enumerate(flags):
            found += [v.broken if i == which else jnp.zeros((), bool) for v in own]
        return _alike(machine, found)

    predicate = to_native(condition, I1)
    while True:
        attempts.rewind()
        try:
            data = iter(lax.cond(predicate, partial(run, 0), partial(run, 1)))
        except _Retry:
            dtypes = _dtypes(frame.op, len(ends[0]))
            shape = tuple(join(a, b, d) for a, b, d in zip(*ends, dtypes, strict=True))
            continue
        attempts.rewind()
        effects.restore(machine, frame, data)
        results = tuple(fill(machine, s, data) for s in shape or ())
        attempts.leave([*flags[0], *flags[1]], list(data))
        return results


def _scalars(op: Op) -> tuple[Shape, ...] | None:
    """The shape of a branch's results where all of them are scalars, None where it has to show."""
    handed = op.results if op.name.startswith("scf.") else ()
    if not all(isinstance(v.type, ScalarType) for v in handed):
        return None
    return tuple(Hole(scalar_dtype(v.type)) for v in handed)


def _sites(flags: Sequence[Violation]) -> list[tuple[int, str]]:
    return [(id(v.op), v.rule) for v in flags]


#: Runs a loop over flat data: the step maps trip and data, ``position`` is where the first value that the
#: loop carries stands in the data.
Runner: TypeAlias = Callable[[Callable[[Array, list[Array]], list[Array]], list[Array], int], list[Array]]


def loop(
    machine: JaxMachine, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body
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
    machine: JaxMachine,
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
    machine: JaxMachine,
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
    flags: list[Violation] = []
    ends: tuple[Operand, ...] = ()
    in_place = False

    def step(trip: Array, data: list[Array]) -> list[Array]:
        nonlocal flags, ends, in_place
        attempts.enter()
        given = iter(data)
        effects.restore(machine, frame, given)
        operands = tuple(fill(machine, s, given) for s in shape)
        before, names = Memory.of(machine), frame.save()
        ends = attempts.handed(body(trip, operands))
        effects.note(machine, frame, before, names, attempts.entry)
        in_place = any(
            machine.cells.get(k) is not words
            for k, words in before.cells.items()
            if k not in attempts.entry.cells
        )
        effects.expect(_sites(flags) == _sites(machine.violations))
        effects.expect(all(map(fits, ends, shape)))
        flags = list(machine.violations)
        if not effects.complete:
            raise _Retry
        found = effects.leaves(machine, frame)
        found += [leaf for e, s in zip(ends, shape, strict=True) for leaf in leaves(e, s)]
        found += [old | v.broken for old, v in zip(given, flags, strict=True)]
        return _alike(machine, found)

    while True:
        attempts.rewind()
        data = effects.leaves(machine, frame)
        position = len(data)
        data += [leaf for i, s in zip(starts, shape, strict=True) for leaf in leaves(i, s)]
        data += [jnp.zeros((), bool)] * len(flags)
        try:
            data = run(step, _alike(machine, data), position)
        except _Retry:
            starts = [_by_value(machine, i, e) for i, e in zip(starts, ends, strict=True)]
            shape = [
                join(s if fits(i, s) else opened(i, d), e, d)
                for i, s, e, d in zip(starts, shape, ends, dtypes, strict=True)
            ]
            continue
        _check_by_value(effects, frame, inits, starts, in_place)
        attempts.rewind()
        given = iter(data)
        effects.restore(machine, frame, given)
        results = tuple(fill(machine, s, given) for s in shape)
        attempts.leave(flags, list(given))
        return results


def _by_value(machine: JaxMachine, start: Operand, end: Operand) -> Operand:
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
