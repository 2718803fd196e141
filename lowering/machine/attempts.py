"""What a region of control flow changes, and the state around it while it is traced again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from pto_jax.interpreter import UNSETTLED, Frame, Operand, TileRef

from ..words import from_words, moved_as, raw
from . import predicted_writes, storage
from .shapes import Shape, fill, fits, join, leaves
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from jax.typing import ArrayLike

    from ..arrays import Leaf

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


def alike(machine: TileMemory, found: Sequence[Leaf]) -> list[Leaf]:
    """Arrays that vary over the same mesh axes, as both ends of a loop or branch must."""

    def varied(x: Leaf) -> Leaf:
        missing = machine.axes - varying_axes(x)
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return [varied(jnp.asarray(x)) for x in found]
