"""What every instruction of an execution read and wrote, as values without names.

A value is a number that stands for contents: of a tile's valid region, of a window of global memory, of a
scalar. Equal contents have equal numbers in all traces of a process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import errors, isa
from ...analysis.resolve import ResolvedProgram, resolve
from ...interpreter import Operand, Scope, TileRef, View, needs_rule
from ...ir import Op, Value
from ...isa.effects import traits_of
from ...oracle.machine import ReferenceMachine
from ...oracle.step import Policy
from ...oracle.storage import Buffer, Place, Window, elements_of, read_words, storage_size
from ...runtime.kernel import Kernel
from .interpreted import execute

#: Instructions of an execution that are kept.
MAX_EVENTS = 20_000
#: Contents as a number.
Number: TypeAlias = int


@dataclass(frozen=True)
class Span:
    """A part of a memory, in bits: of tile bytes, or of the argument in a position."""

    memory: Buffer | int
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Whether two parts have a bit in common."""
        return self.memory == other.memory and self.start < other.end and other.start < self.end


@dataclass(eq=False)
class Event:
    """One execution of an instruction: the contents that it read and wrote, and where in memory they stand.

    Numbers have no place. ``shapes`` are the sizes of what it wrote.
    """

    op: Op
    sources: tuple[tuple[Number, Span | None], ...]
    results: tuple[tuple[Number, Span], ...] = ()
    shapes: tuple[Any, ...] = ()

    @property
    def token(self) -> tuple[Any, ...]:
        """What an instruction is called and the sizes of what it writes."""
        return (self.op.name, *self.shapes)

    @property
    def contents(self) -> tuple[Number, ...]:
        """What it wrote, wherever that stands."""
        return tuple(n for n, _ in self.results)


@dataclass(eq=False)
class Trace:
    """The instructions of an execution in order, and the tile memory of a fragment's results by name."""

    events: list[Event] = field(default_factory=list)
    tiles: dict[str, Span] = field(default_factory=dict)

    def writer(self, span: Span, before: int | None = None) -> int | None:
        """The last instruction that wrote a part of some memory, before one of a number; None for none."""
        for number in range((len(self.events) if before is None else before) - 1, -1, -1):
            if any(span.overlaps(written) for _, written in self.events[number].results):
                return number
        return None


def trace(kernel: Kernel, arguments: Mapping[str, NDArray[Any]]) -> Trace:
    """The trace of an execution by the interpreter, up to the rule that it breaks where it breaks one.

    Places in memory have the number of their argument in ``arguments``.
    """
    kept = Trace()
    watchers: list[_Watcher] = []
    order = {name: number for number, name in enumerate(arguments)}

    def make(policy: Policy, buffers: Mapping[str, Any], steps: int) -> ReferenceMachine:
        watchers.append(_Watcher(kept, order, resolve(kernel.program), (policy, buffers, steps)))
        return watchers[0]

    # What is seen until a rule is broken shows where the programs part.
    with contextlib.suppress(errors.PtoError):
        execute(kernel, arguments, make)
    for watcher in watchers:
        watcher.finish()
    return kept


class _Watcher(ReferenceMachine):
    """Executes like its base, and keeps what instructions read and wrote."""

    def __init__(
        self,
        kept: Trace,
        order: Mapping[str, int],
        resolved: ResolvedProgram,
        given: tuple[Policy, Mapping[str, Any], int],
    ) -> None:
        super().__init__(*given)
        self._kept, self._order, self._resolved = kept, order, resolved
        self._open: tuple[Event, tuple[Value, ...], Scope] | None = None

    def begin(self, op: Op, scope: Scope) -> None:
        self.finish()
        super().begin(op, scope)
        if len(self._kept.events) >= MAX_EVENTS or not _computes(op):
            return
        found = self._resolved.of(op)
        sources: Iterable[Value] = op.ins
        if found.instruction is not None and found.bound is not None:
            declared, bound = found.instruction, found.bound
            sources = [v for n, v in bound.values.items() if declared.operand(n).role in ("in", "inout")]
        read = (scope.find(v) for v in sources)
        event = Event(op, tuple((self._contents(o), self._span(o)) for o in read))
        self._kept.events.append(event)
        written = {v.name: v for v in (*op.outs, *op.results, *found.written())}
        self._open = (event, tuple(written.values()), scope)

    def finish(self) -> None:
        """Keep what the last instruction wrote."""
        if self._open is None:
            return
        event, written, scope = self._open
        self._open = None
        operands = [o for v in written if isinstance(o := scope.find(v), TileRef | View)]
        placed = [(self._contents(o), self._span(o)) for o in operands]
        event.results = tuple((n, span) for n, span in placed if span is not None)
        event.shapes = tuple(_shape(o) for o in operands)

    def gives(self, name: str, ref: TileRef) -> None:
        """Keep where a result of a fragment stands."""
        span = self._span(ref)
        if span is not None:
            self._kept.tiles[name] = span

    def _contents(self, operand: Operand) -> Number:
        """What a tile, a window of memory or a number holds."""
        if isinstance(operand, TileRef):
            rows, cols = int(operand.v_row), int(operand.v_col)
            words = np.ascontiguousarray(self.stored(operand)[:rows, :cols])
            return hash((rows, cols, words.tobytes()))
        if isinstance(operand, View):
            at, bits = elements_of(operand), operand.dtype.storage_bits
            memory = self.buffers[operand.buffer]
            inside = not at.size or (at.min() >= 0 and (at.max() + 1) * bits <= len(memory) * 8)
            found = np.asarray(read_words(memory, at, operand.dtype)) if inside else memory
            return hash((found.shape, found.tobytes()))
        if isinstance(operand, bool | int | float | np.generic | np.ndarray):
            return hash(np.asarray(operand).tobytes())
        return 0

    def _span(self, operand: Operand) -> Span | None:
        """Where a tile or a window of memory stands."""
        if isinstance(operand, TileRef):
            place = operand.storage
            whole = operand
            while isinstance(place, Window):
                whole, place = place.tile, place.tile.storage
            if not isinstance(place, Place):
                return None
            return Span(place.buffer, place.address * 8, (place.address + storage_size(whole.type)) * 8)
        if isinstance(operand, View):
            at, bits = elements_of(operand), operand.dtype.storage_bits
            first, last = (int(at.min()), int(at.max()) + 1) if at.size else (0, 0)
            return Span(self._order.get(operand.buffer, -1), first * bits, last * bits)
        return None


def _computes(op: Op) -> bool:
    """Whether an operation reads or writes tiles or memory; numbers show in what uses them."""
    if op.regions or op.name.startswith("arith."):
        return False
    instruction, traits = isa.find(op.name), traits_of(op)
    if instruction is not None and needs_rule(instruction):
        return True
    return traits.fifo is not None or any(e.resource in ("tile", "global") for e in traits.effects)


def _shape(operand: Operand) -> tuple[Any, ...]:
    if isinstance(operand, TileRef):
        return (operand.type.dtype.bits, int(operand.v_row), int(operand.v_col))
    return tuple(int(n) for n in operand.shape) if isinstance(operand, View) else ()
