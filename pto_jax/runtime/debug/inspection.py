"""Executions for people: steps of a kernel as objects, also on several ranks, and its state before a line.

>>> import numpy as np, pto_jax as pto
>>> kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<1x8xf32>", file="add.pto"))
>>> ones = np.ones((1, 8), np.float32)
>>> kernel.trace(ones, 2 * ones)[0].written["c"].array[0, 0].item()
3.0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, overload

import jax
import numpy as np
from jax.core import Tracer

from ...analysis.entries import Argument
from ...analysis.provenance import GlobalTypes
from ...errors import ArgumentError, ExecutionError
from ...interpreter import Operand, Scope, TileRef
from ...interpreter.ranks import part
from ...ir import DType, Op, Program
from ...lowering import Buffers, Plan, RankMachine, Semantics
from ...lowering.bits import x64
from ...lowering.canary import cached_code
from ...lowering.machine.program import Observer
from ...lowering.machine.ranks import ObservedRankMachine
from ..execution import contents
from ..state import Report, State, tile_of
from .trace_text import operand_text
from .tracer import Breakpoint, Observers, Recorder, Scopes, Step, Stopped, functions_of, where

if TYPE_CHECKING:
    from ...interpreter import Execution
    from ...lowering import JaxMachine


@dataclass(frozen=True, eq=False)
class Trace(Sequence[Step]):
    """The steps of one execution, in order.

    ``executed`` is the number of all its steps, of which ``limit`` may have left some out. ``outputs`` are
    the results of the kernel; where a run-time rule was broken, ``error`` says which, and asking for
    ``outputs`` raises it. ``print(trace)`` writes what ``pto-jax run --trace`` writes.

    >>> import numpy as np, pto_jax as pto
    >>> kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<1x8xf32>", file="add.pto"))
    >>> trace = kernel.trace(np.ones((1, 8), np.float32), np.ones((1, 8), np.float32))
    >>> trace
    <Trace: 1 of 1 steps>
    >>> print(trace)
    [1] add.pto:1 tadd
          src0 %a  vec 1x8xf32  valid 1x8  min 1 max 1 nan 0
          src1 %b  vec 1x8xf32  valid 1x8  min 1 max 1 nan 0
          dst %c  vec 1x8xf32  valid 1x8  min 2 max 2 nan 0
    """

    steps: tuple[Step, ...]
    executed: int
    error: ExecutionError | None = None
    _outputs: dict[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> dict[str, Any]:
        """The results by name; raises ``error`` where there is one."""
        if self.error is not None:
            raise self.error
        return self._outputs

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...

    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        return self.steps[index]

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def at(self, line: int) -> tuple[Step, ...]:
        """The steps of a line."""
        return tuple(s for s in self.steps if s.line == line)

    def __repr__(self) -> str:
        ended = f", {type(self.error).__name__}" if self.error is not None else ""
        return f"<Trace: {len(self.steps)} of {self.executed} steps{ended}>"

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        left_out = self.executed - len(self.steps)
        if left_out:
            lines.append(f"... {left_out} more instructions; start= and limit= choose others")
        if self.error is not None:
            lines.append(f"error: {self.error}")
        return "\n".join(lines)


@dataclass(kw_only=True)
class Collector(Recorder):
    """Keeps the steps from number ``start`` on, at most ``limit`` of them."""

    start: int = 1
    limit: int = 1000
    steps: list[Step] = field(default_factory=list)
    #: An operation on handles, scalars or pipes whose results are there when the next one begins.
    _pending: tuple[JaxMachine, Op, Scope, dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        for name, n in (("start", self.start), ("limit", self.limit)):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise ArgumentError(f"trace: {name}: got {n!r}", allowed="an integer of 1 or more")

    def wants(self) -> bool:
        """Whether the next step is one of those that are kept."""
        return self.executed >= self.start and len(self.steps) < self.limit

    def take(self, step: Step) -> None:
        """Keep a step."""
        self.steps.append(step)

    def value(self, machine: JaxMachine, operand: Operand) -> Any:
        """A Tile, a number, a vector, or the text of a view or pointer."""
        return tile_of(machine, operand) if isinstance(operand, TileRef) else number(operand)

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Make steps of operations without rule, whose results follow before the next operation."""
        self.finish()
        count = len(self.steps)
        super().begin(machine, op, scope)
        if len(self.steps) > count:
            self._pending = machine, op, scope, dict(machine.buffers)

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """Keep the operands of an instruction."""
        self.finish()
        super().before(machine, execution)

    def finish(self) -> None:
        """Add to the last step the results of its operation."""
        if self._pending is None:
            return
        machine, op, scope, before = self._pending
        self._pending = None
        names = {n for level in scope.chain() for n in level}
        results = {v.name: scope[v] for v in op.results if v.name in names}
        values = {n: number(o) for n, o in results.items() if not isinstance(o, TileRef)}
        changed = tuple(n for n, words in machine.buffers.items() if words is not before.get(n))
        plain = {n: v for n, v in values.items() if not isinstance(v, str)}
        self.steps[-1] = replace(self.steps[-1], written=plain, buffers=changed)


def number(operand: Operand) -> Any:
    """A Python number, an array of several, or the text of a view, pointer or pipe."""
    if isinstance(operand, bool | int | float):
        return operand
    if hasattr(operand, "dtype") and hasattr(operand, "shape") and not hasattr(operand, "buffer"):
        array = np.asarray(operand)
        return array.item() if array.shape == () else array
    return operand_text(operand)


class Inspected(Protocol):
    """The kernel that is executed."""

    @property
    def entry(self) -> str:
        """The name of the function that is executed."""

    @property
    def program(self) -> Program:
        """The program with its functions."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the function, in order."""

    def observed(self, observer: Any, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """Execute instruction by instruction and notify an observer."""


class Prepared(Inspected, Protocol):
    """A kernel on one processor."""

    def prepared(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Checked arguments by name."""


def trace(kernel: Inspected, args: Sequence[Any], kwargs: Mapping[str, Any], start: int, limit: int) -> Trace:
    """The trace of an execution; an error of the execution ends it."""
    _concrete(kernel, "trace", args, kwargs)
    collector = Collector(start=start, limit=limit, functions=functions_of(kernel.program))
    error, outputs = None, {}
    try:
        outputs = kernel.observed(collector, *args, **kwargs)[0]
    except ExecutionError as raised:
        error = raised
    collector.finish()
    return Trace(tuple(collector.steps), collector.executed, error, outputs)


def _concrete(kernel: Inspected, what: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((args, dict(kwargs)))):
        raise ArgumentError(
            f"{kernel.entry}: {what}: got arrays that jit, vmap or scan traces",
            allowed="arrays with values",
            fix=f"kernel.{what} outside of the transformation, for a batch X on one entry, X[0]",
        )


@dataclass(frozen=True)
class StopAt:
    """The execution of a kernel up to a line: called with the kernel's arguments it gives a :class:`State`.

    Raises ArgumentError where no operation begins on the line, and, when called, where the line is executed
    fewer times.
    """

    kernel: Prepared
    line: int | str
    count: int = 1

    def __post_init__(self) -> None:
        self._breakpoint()

    @property
    def _subject(self) -> str:
        return f"{self.kernel.entry}: stop_at({self.line!r}, {self.count})"

    def _breakpoint(self) -> Breakpoint:
        file, _, line = str(self.line).rpartition(":")
        whole = type(self.count) is int and type(self.line) in (int, str) and line.isdecimal()
        if not whole or self.count < 1:
            raise ArgumentError(
                f"{self._subject}: got line {self.line!r} and count {self.count!r}",
                allowed="a line or 'FILE:LINE', and a count of 1 or more",
            )
        return Breakpoint.at(self.kernel.program, int(line), self.count, file or None, self._subject)

    def __call__(self, /, *args: Any, **kwargs: Any) -> State:
        """The state before the line; arguments as those of the kernel."""
        _concrete(self.kernel, "stop_at", args, kwargs)
        point = self._breakpoint()
        try:
            self.kernel.observed(point, *args, **kwargs)
        except Stopped as stopped:
            return self._typed(stopped.state, self.kernel.prepared(args, kwargs))
        times = "never" if not point.reached else f"{point.reached} time{'s' if point.reached > 1 else ''}"
        allowed = f"; allowed: counts up to {point.reached}" if point.reached else ""
        raise ArgumentError(f"{self._subject}: the program reached that line {times}{allowed}")

    def _typed(self, state: State, prepared: Mapping[str, Any]) -> State:
        """The state with plain numbers, and buffers in the shape and type they were passed in."""
        buffers = dict(state.buffers)
        with x64():
            for a in self.kernel.arguments:
                if isinstance(a.type, GlobalTypes) and a.name in buffers:
                    packed = a.type.dtype.packed
                    buffers[a.name] = contents(buffers[a.name], prepared[a.name], packed=packed)
        scalars = {name: number(value) for name, value in state.scalars.items()}
        return replace(state, scalars=scalars, buffers=buffers)

    def __repr__(self) -> str:
        point = self._breakpoint()
        return f"<{self._subject}: stops before {where(point.op, None, '')} {point.op.name}>"


# -- several ranks -----------------------------------------------------------------------------------


class Ranked(Protocol):
    """A kernel on several ranks."""

    @property
    def program(self) -> Program:
        """The functions of all kernels."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    @property
    def buffers(self) -> dict[str, DType | None]:
        """The buffers of a call, with the types that arguments give them."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The buffers that are written."""

    @property
    def semantics(self) -> Semantics:
        """Numerics, fills and subnormals."""

    @property
    def max_steps(self) -> int:
        """Trips after which a while loop is stopped."""

    @property
    def seed(self) -> int | None:
        """The order of the ranks, None for that of the text."""

    def execute(
        self,
        machine: RankMachine,
        arrays: Mapping[str, Any],
        values: Mapping[str, Sequence[Any]],
        seed: int | None = None,
    ) -> None:
        """Execute all ranks on a machine."""

    def gathered(self, machine: RankMachine, name: str, source: Any) -> Any:
        """The parts of a buffer as one array."""


def observed(
    kernel: Ranked,
    observer: Observer,
    arrays: Mapping[str, Any],
    numbers: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, Any], State]:
    """The outputs of a kernel, and the tiles that names of each core stand for in the end."""
    scopes = Scopes(functions_of(kernel.program))
    machine = ObservedRankMachine(
        kernel.semantics,
        Plan([], {}),
        Buffers(),
        checks=True,
        whole=False,
        max_steps=kernel.max_steps,
        observer=Observers((scopes, observer)),
    )
    with x64(), cached_code():
        there = {n: jax.numpy.asarray(a) for n, a in arrays.items()}
        kernel.execute(machine, there, numbers, kernel.seed)
        outputs = {name: kernel.gathered(machine, name, there[name]) for name in kernel.outputs}
        state = State.at(machine, scopes.names())
    Report.of(machine.violations).raise_if_broken()
    return outputs, replace(state, scalars={}, buffers={})


def buffers_of(
    kernel: Ranked, words: Mapping[str, Any], arrays: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Buffers [ranks, ...] of the raw words of their parts, in the shape and type of ``arrays``."""
    buffers = {}
    with x64():
        for name, d in kernel.buffers.items():
            array = np.asarray(arrays[name])
            packed = d is not None and d.packed
            parts = [contents(words[part(name, r)], array[r], packed=packed) for r in range(kernel.ranks)]
            buffers[name] = np.stack(parts)
    return buffers
