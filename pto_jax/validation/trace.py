"""Traces of executions, values without names, and the instruction where two executions diverge.

A value is a number that stands for contents: of a tile's valid region, of a window of global memory, of a
scalar. Equal contents have equal numbers in all traces of a process. Instructions of two executions are
partners where they write the same contents; of the rest, those of the same name and sizes in the same order.
The search goes from the store that differs back through partners with different contents, until they differ
in more than contents.

The reference interpreter executes the kernels: without compilation, few inputs cost little.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import errors, isa, oracle
from ..analysis.provenance import GlobalTypes
from ..analysis.resolve import ResolvedProgram, resolve
from ..interpreter import Operand, Scope, TileRef, View, needs_rule
from ..ir import DType, Op, TileType, Type, Value, pack_pairs, unpack_pairs
from ..isa.effects import traits_of
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from ..oracle.storage import Buffer, Place, Window, elements_of, read_words, storage_size
from ..runtime.kernel import Kernel
from .translation import Executed, fitted, valid_part

#: Operations that an execution may have.
MAX_OPERATIONS = 200_000


class Bounded(ReferenceMachine):
    """Executes like its base, up to a number of operations."""

    executed = 0

    def begin(self, op: Op, scope: Scope) -> None:
        """Count an operation; ExecutionError beyond the last one that is allowed."""
        self.executed += 1
        if self.executed > MAX_OPERATIONS:
            message = f"more than {MAX_OPERATIONS} operations are executed"
            raise errors.ExecutionError([errors.Diagnostic("error", message, op.span, op.name)])
        super().begin(op, scope)


def execute(
    kernel: Kernel,
    arguments: Mapping[str, NDArray[Any]],
    machine: Callable[..., ReferenceMachine] = Bounded,
) -> dict[str, Any]:
    """What the interpreter gives for a kernel's arguments by name; ExecutionError for a broken rule."""
    values = {a.name: _given(a.type, fitted(a, arguments[a.name])) for a in kernel.arguments}
    return oracle.run(
        kernel.program,
        values,
        profile=kernel.profile,
        entry=kernel.entry,
        grid=kernel.grid,
        partial_launch=True,
        machine=machine,
    )


def run(kernel: Kernel, inputs: Mapping[str, NDArray[Any]]) -> Executed:
    """Written buffers by name in the form of the inputs, and the run-time rules that were broken."""
    try:
        outputs = execute(kernel, inputs)
    except errors.ExecutionError as error:
        return {}, list(error.diagnostics)
    types = {a.name: a.type for a in kernel.arguments}
    return {name: _found(types.get(name), value) for name, value in outputs.items()}, []


def _given(t: Type, array: NDArray[Any]) -> Any:
    if isinstance(t, TileType):
        return oracle.OracleTile(t, array.copy())
    if isinstance(t, GlobalTypes) and t.dtype.packed:
        return unpack_pairs(array)
    d = getattr(t, "dtype", None)
    same = isinstance(d, DType) and array.dtype in (d.numpy, d.word, np.dtype(np.bool_))
    return array if same or not isinstance(d, DType) else array.view(d.numpy)


def _found(t: Type | None, value: Any) -> NDArray[Any]:
    if isinstance(value, oracle.OracleTile):
        return valid_part(np.ascontiguousarray(value.data).view(value.type.dtype.word), value.valid)
    array = np.asarray(value)
    if isinstance(t, GlobalTypes) and t.dtype.packed:
        return pack_pairs(array)
    return array


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
        arguments: tuple[Policy, Mapping[str, Any], int],
    ) -> None:
        super().__init__(*arguments)
        self._kept, self._order, self._resolved = kept, order, resolved
        self._open: tuple[Event, tuple[Value, ...], Scope] | None = None

    def begin(self, op: Op, scope: Scope) -> None:
        self.finish()
        super().begin(op, scope)
        if len(self._kept.events) >= MAX_EVENTS or not _computes(op):
            return
        result = self._resolved.of(op)
        sources: Iterable[Value] = op.ins
        if result.instruction is not None and result.bound is not None:
            declared, bound = result.instruction, result.bound
            sources = [v for n, v in bound.values.items() if declared.operand(n).role in ("in", "inout")]
        read = (scope.find(v) for v in sources)
        event = Event(op, tuple((self._contents(o), self._span(o)) for o in read))
        self._kept.events.append(event)
        written = {v.name: v for v in (*op.outs, *op.results, *result.written())}
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
            result = np.asarray(read_words(memory, at, operand.dtype)) if inside else memory
            return hash((result.shape, result.tobytes()))
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


#: Instructions without a partner of the same contents that are aligned by their names.
_ALIGNED = 3000


@dataclass(frozen=True)
class Parting:
    """Where two programs part: an operation of each, or of one where the other has no counterpart."""

    before: Op | None
    after: Op | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{place(self.after)} has no counterpart before"
        if self.after is None:
            return f"{place(self.before)} has no counterpart after"
        return f"{place(self.after)} computes something else than {place(self.before)}"


def parting(before: Trace, after: Trace, ends: tuple[Span, Span]) -> Parting | None:
    """Where two executions part whose memory differs in a part of it (of the one, and of the other).

    None where nothing that was seen explains it.
    """
    search = _Search(before, after, *_partners(before.events, after.events))
    start = search.last_difference(*ends)
    return start if start is None or isinstance(start, Parting) else search.back(*start)


@dataclass(frozen=True)
class _Search:
    """Two executions, with the numbers of the instructions that are partners."""

    before: Trace
    after: Trace
    there: dict[int, int]
    here: dict[int, int]

    def last_difference(self, ours: Span, theirs: Span) -> tuple[int, int] | Parting | None:
        """The first partners that write different contents to some memory, or what has no partner there."""
        first = [n for n, e in enumerate(self.before.events) if _writes(e, ours)]
        second = [n for n, e in enumerate(self.after.events) if _writes(e, theirs)]
        for number in first:
            if number not in self.there:
                return Parting(self.before.events[number].op, None)
            other = self.there[number]
            if _exactly(self.before.events[number]) != _exactly(self.after.events[other]):
                return number, other
        extra = next((n for n in second if n not in self.here), None)
        return None if extra is None else Parting(None, self.after.events[extra].op)

    def back(self, a: int, b: int) -> Parting:
        """From partners that differ to those that made the difference."""
        while True:
            ours, theirs = self.before.events[a], self.after.events[b]
            parted = Parting(ours.op, theirs.op)
            if ours.op.name != theirs.op.name or len(ours.sources) != len(theirs.sources):
                return parted
            pairs = zip(ours.sources, theirs.sources, strict=True)
            other = next(((x, y) for (m, x), (n, y) in pairs if m != n), None)
            if other is None or other[0] is None or other[1] is None:
                return parted
            writer, also = self.before.writer(other[0], a), self.after.writer(other[1], b)
            if writer is not None and writer not in self.there:
                return Parting(self.before.events[writer].op, None)
            if also is not None and also not in self.here:
                return Parting(None, self.after.events[also].op)
            if writer is None or also is None or self.there[writer] != also or not self._differ(writer, also):
                return parted
            a, b = writer, also

    def _differ(self, a: int, b: int) -> bool:
        return self.before.events[a].contents != self.after.events[b].contents


def _writes(event: Event, span: Span) -> bool:
    return any(span.overlaps(written) for _, written in event.results)


def _partners(ours: Sequence[Event], theirs: Sequence[Event]) -> tuple[dict[int, int], dict[int, int]]:
    """The numbers of partners, both ways: equal contents in their order, then equal names in theirs."""
    waiting: defaultdict[Any, deque[int]] = defaultdict(deque)
    for number, event in enumerate(theirs):
        waiting[_exactly(event)].append(number)
    pairs: dict[int, int] = {}
    for number, event in enumerate(ours):
        if same := waiting[_exactly(event)]:
            pairs[number] = same.popleft()
    taken = set(pairs.values())
    left = [n for n in range(len(ours)) if n not in pairs][:_ALIGNED]
    right = [n for n in range(len(theirs)) if n not in taken][:_ALIGNED]
    names = [ours[n].token for n in left], [theirs[n].token for n in right]
    for kind, a, end, b, last in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - a == last - b):
            pairs.update(zip(left[a:end], right[b:last], strict=True))
    return pairs, {b: a for a, b in pairs.items()}


def _exactly(event: Event) -> tuple[Any, ...]:
    """What an instruction is called and wrote, with the place of what is in global memory."""
    places = (span if isinstance(span.memory, int) else None for _, span in event.results)
    return (event.token, event.contents, *places)


def place(op: Op | None) -> str:
    """An operation with its file and line; nothing for none."""
    if op is None:
        return ""
    return op.name if op.span is None else f"{op.span.file}:{op.span.line}: {op.name}"
