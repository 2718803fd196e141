"""The operands of every operation of a case when it executes, from the reference interpreter.

Operations of a program are known by a number, which stands in the line of their span and stays with them
through edits.

>>> from pto_jax.generate.programs import generate
>>> recording = record(numbered(generate(1, 0)))
>>> {event.op.name for event in recording.events} <= {op.name for op in recording.case.program.walk()}
True
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from .. import errors, ir, isa
from ..analysis.resolve import resolve
from ..generate.programs import Case
from ..generate.state import Input
from ..interpreter import Execution, Operand, Scope, TileRef, View
from ..interpreter.interpreter import needs_rule
from ..isa.effects import traits_of
from ..oracle import machine, storage
from ..oracle.step import Policy, scalar_word
from ..oracle.storage import elements_of
from .targets import Oracle

#: Executions of one operation that are kept, and bytes of operands that are kept in all.
MAX_EXECUTIONS = 6
MAX_BYTES = 1 << 28
#: Operations that a smaller case may execute.
MAX_OPERATIONS = 20_000
#: A buffer of tile memory, or the name of one of global memory.
Key: TypeAlias = storage.Buffer | str
Values: TypeAlias = tuple[Input | None, ...]


def numbered(case: Case) -> Case:
    """The case with a number for every operation of its program."""
    return replace(case, program=renumbered(case.program))


def renumbered(program: ir.Program) -> ir.Program:
    """The program with a place of its own for every operation: lines of a file ``case``, from 1 on."""
    count = itertools.count(1)

    def op(o: ir.Op) -> ir.Op:
        span = errors.Span("case", next(count), 1)
        return replace(o, span=span, regions=tuple(region(r) for r in o.regions))

    def region(r: ir.Region) -> ir.Region:
        return replace(r, ops=tuple(map(op, r.ops)))

    return replace(program, functions=tuple(replace(f, body=region(f.body)) for f in program.functions))


def number(op: ir.Op) -> int:
    """The number of an operation; 0 for one that was made since."""
    return op.span.line if op.span is not None else 0


@dataclass(eq=False)
class Event:
    """One execution of an operation that computes: its operands before it, and the memory it touches.

    ``modes`` are the operations that have set modes before.
    """

    op: ir.Op
    values: Values
    modes: tuple[ir.Op, ...] = ()
    reads: set[Key] = field(default_factory=set)
    writes: set[Key] = field(default_factory=set)


@dataclass(eq=False)
class Recording:
    """What was seen of one case.

    ``events`` are in the order of execution. ``used`` and ``made`` give the operands (sources, then
    destinations) and the results of every operation at its first execution. ``finished`` says that the
    interpreter came to the end.
    """

    case: Case
    events: list[Event] = field(default_factory=list)
    used: dict[int, Values] = field(default_factory=dict)
    made: dict[int, Values] = field(default_factory=dict)
    outputs: dict[str, Key] = field(default_factory=dict)
    finished: bool = False

    def influencing(self, output: str | None) -> Iterator[Event]:
        """Executions that may have a part in an output, the last one first; then all others in order."""
        live = {self.outputs[output]} if output in self.outputs else set[Key]()
        related: dict[int, Event] = {}
        for event in reversed(self.events):
            if event.writes & live:
                live |= event.reads
                related[id(event)] = event
        yield from related.values()
        yield from (e for e in self.events if id(e) not in related)


def record(case: Case) -> Recording:
    """Execute a case whose operations are numbered, and keep what they find."""
    recording = Recording(case)
    watcher: list[_Watcher] = []

    def make(*arguments: Any) -> machine.ReferenceMachine:
        watcher.append(_Watcher(recording, *arguments))
        return watcher[0]

    try:
        Oracle(machine=make).run(case)
        recording.finished = True
    except Exception:
        # What was seen until here is of use, whatever stopped the interpreter.
        recording.finished = False
    for one in watcher:
        one.end()
    return recording


class _Endless(Exception):
    """More operations than a smaller case may execute."""


class _Counting(machine.ReferenceMachine):
    """Executes like its base, up to a number of operations."""

    executed = 0

    def begin(self, op: ir.Op, scope: Scope) -> None:
        self.executed += 1
        if self.executed > MAX_OPERATIONS:
            raise _Endless


def ends(case: Case) -> bool:
    """Whether a case comes to its end, or to an error, within :data:`MAX_OPERATIONS` operations.

    Programs without loops are not executed to find out.
    """
    if not any(map(_repeats, case.program.walk())):
        return True
    try:
        Oracle(machine=_Counting).run(case)
    except _Endless:
        return False
    except Exception:
        # What else is wrong with the case is for the machines to say.
        return True
    return True


class _Watcher(machine.ReferenceMachine):
    """Executes like its base, and keeps what operations find."""

    def __init__(self, recording: Recording, policy: Policy, buffers: Mapping[str, Any], steps: int) -> None:
        super().__init__(policy, buffers, steps)
        self.recording = recording
        self._open: list[tuple[ir.Op, Scope]] = []
        self._counts: dict[int, int] = {}
        self._bytes = 0
        self._event: Event | None = None
        self._outermost: Scope | None = None
        self._modes: dict[str, ir.Op] = {}

    def begin(self, op: ir.Op, scope: Scope) -> None:
        self._close()
        self._outermost = self._outermost or scope
        self._open.append((op, scope))
        n, count = number(op), self._counts.get(number(op), 0)
        self._counts[n] = count + 1
        self._event = None
        if not op.ins and traits_of(op).has("write", "mode"):
            self._modes[op.name] = op
        if count >= MAX_EXECUTIONS or self._bytes > MAX_BYTES:
            return
        operands = [scope.find(v) for v in (*op.ins, *op.outs)]
        values = self._values((*op.ins, *op.outs), operands)
        if not count:
            self.recording.used[n] = values
        if _computes(op):
            keys = [set(_keys(o)) for o in operands]
            reads, writes = set[Key]().union(*keys), set[Key]().union(*keys[len(op.ins) :])
            for value in resolve(self.recording.case.program).of(op).written("global"):
                writes.update(_keys(scope.find(value)))
            self._event = Event(op, values, tuple(self._modes.values()), reads, writes)
            self.recording.events.append(self._event)

    def execute(self, execution: Execution) -> dict[str, Any]:
        if self._event is not None:
            for operand in execution.instruction.destinations:
                self._event.writes.update(_keys(execution.operands.get(operand.name)))
        return super().execute(execution)

    def end(self) -> None:
        self._close()
        if self._outermost is not None:
            names = self._outermost.chain()[-1]
            self.recording.outputs.update((n, k) for n, o in names.items() for k in _keys(o))
        self.recording.outputs.update((name, name) for name in self.buffers)

    def _close(self) -> None:
        """Keep the results of operations that have ended since."""
        still = []
        for op, scope in self._open:
            operands = [scope.find(v) for v in op.results]
            if any(o is None for o in operands):
                still.append((op, scope))
            elif op.results:
                result = self.recording.made
                if number(op) not in result:
                    result[number(op)] = self._values(op.results, operands)
        # A result that stays unbound belongs to an operation that is still executing.
        self._open = [(op, scope) for op, scope in still if op.regions or traits_of(op).calls]

    def _values(self, values: Sequence[ir.Value], operands: Sequence[Operand]) -> Values:
        inputs = tuple(self._value(v, o) for v, o in zip(values, operands, strict=True))
        self._bytes += sum(i.words.nbytes for i in inputs if i is not None)
        return inputs

    def _value(self, value: ir.Value, operand: Operand) -> Input | None:
        """An operand as the input of a program, where it can be one."""
        if isinstance(operand, TileRef):
            return _tile(value, operand, np.array(self.contents(operand)))
        if isinstance(operand, View):
            return _view(value, operand, self.buffers)
        if isinstance(value.type, ir.ScalarType) and operand is not None:
            d = value.type.dtype
            return Input(value.type, scalar_word(operand, d).reshape(()).copy())
        if isinstance(value.type, ir.VectorType) and isinstance(operand, np.ndarray):
            return Input(value.type, np.ascontiguousarray(operand).view(value.type.dtype.word))
        return None


def _computes(op: ir.Op) -> bool:
    """Whether an operation computes: by a rule, or because scalars come from memory or go to it."""
    if op.name.startswith("arith."):
        return op.name != "arith.constant"
    instruction, traits = isa.find(op.name), traits_of(op)
    if instruction is not None and needs_rule(instruction):
        return True
    return traits.fifo is None and any(effect.resource in ("tile", "global") for effect in traits.effects)


def _repeats(op: ir.Op) -> bool:
    regions = traits_of(op).regions
    return regions is not None and regions.repeats


def _tile(value: ir.Value, ref: TileRef, words: Any) -> Input:
    """A tile with its contents; its type is the written one where that gives the same sizes."""
    valid = (int(ref.v_row), int(ref.v_col))
    t = value.type if isinstance(value.type, ir.TileType) else ref.type
    if t.is_static and t.valid != valid:
        t = t.with_valid(None, None)
    return Input(t, words, None if t.is_static else valid)


def _view(value: ir.Value, view: View, buffers: Mapping[str, Any]) -> Input | None:
    shape = tuple(int(n) for n in view.shape)
    if view.layout is not None or not shape or 0 in shape:
        return None
    at = elements_of(view)
    memory = buffers[view.buffer]
    if at.min() < 0 or at.max() >= len(memory) * 8 // view.dtype.storage_bits:
        return None
    kind = ir.TensorViewType if isinstance(value.type, ir.TensorViewType) else ir.PartitionViewType
    return Input(kind(shape, view.dtype), storage.read_words(memory, at, view.dtype))


def _keys(operand: Operand) -> Iterator[Key]:
    if isinstance(operand, TileRef):
        place = operand.storage
        while isinstance(place, storage.Window):
            place = place.tile.storage
        if isinstance(place, storage.Place):
            yield place.buffer
    elif isinstance(getattr(operand, "buffer", None), str):
        yield operand.buffer
