"""Observers of an eager execution: a trace of instructions, and a breakpoint.

>>> import numpy as np, pto_jax as pto
>>> kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<1x8xf32>", file="add.pto"))
>>> tracer = Tracer(print)
>>> ones = np.ones((1, 8), np.float32)
>>> _ = kernel.observed(tracer, ones, 2 * ones)
[1] add.pto:1 tadd
      src0 %a  vec 1x8xf32  valid 1x8  min 1 max 1 nan 0
      src1 %b  vec 1x8xf32  valid 1x8  min 2 max 2 nan 0
      dst %c  vec 1x8xf32  valid 1x8  min 3 max 3 nan 0
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ... import isa
from ...analysis.provenance import GlobalTypes
from ...errors import ArgumentError
from ...interpreter import Execution, Operand, Scope, TileRef, needs_rule
from ...ir import DType, Op, Program, ScalarType
from ...isa.effects import loc_of, traits_of
from . import trace_text
from .trace_text import Words, operand_text, place, words_of, written_attributes

if TYPE_CHECKING:
    from ...lowering import JaxMachine
    from ...lowering.machine.program import Observer
    from ..state import State

Detail = Literal["instructions", "micro"]


def where(op: Op, block: int | None, core: str) -> str:
    """The place of an operation, with its block and core where there are several."""
    parts = [place(op)]
    if block is not None:
        parts.append(f"block {block}")
    if core:
        parts.append(core)
    return " ".join(parts)


@dataclass(frozen=True, eq=False)
class Step:
    """One executed instruction, with its operands before it and what it wrote.

    ``operands`` and ``written`` go by the names of the program. Their values are Tiles with the valid region
    of the moment, numbers, arrays (vectors), and for views and pointers the text that a trace shows.
    ``buffers`` are the names of the arguments that it wrote. ``number`` counts from 1 over all blocks and
    cores; ``block`` is None where there is one block only. ``str(step)`` is the text of ``run --trace``.
    """

    number: int
    instruction: str
    line: int | None
    location: str
    function: str = ""
    block: int | None = None
    core: str = ""
    operands: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Step {self.number}: {self.location} {self.instruction}>"


@dataclass(kw_only=True)
class Recorder(ABC):
    """An observer that makes a :class:`Step` of every instruction while :meth:`wants` says so.

    ``detail="micro"`` adds the micro-operations of the first ``lanes`` lanes to the text. ``functions`` are
    the names of the functions that operations stand in, by their place in the text.
    """

    detail: Detail = "instructions"
    lanes: int = 4
    functions: Mapping[Any, str] = field(default_factory=dict)
    executed: int = 0
    _block: int | None = None
    _sources: list[str] = field(default_factory=list)
    _words: dict[str, Words] = field(default_factory=dict)
    _operands: dict[str, Any] = field(default_factory=dict)
    _buffers: dict[str, Any] = field(default_factory=dict)

    @abstractmethod
    def wants(self) -> bool:
        """Whether the next instruction becomes a step."""

    @abstractmethod
    def take(self, step: Step) -> None:
        """Use a step."""

    def value(self, machine: JaxMachine, operand: Operand) -> Any:
        """What a step keeps of an operand."""
        return None

    def block(self, machine: JaxMachine) -> None:
        """Count the blocks of a grid, whose numbers stand in the lines."""
        self._block = 0 if self._block is None else self._block + 1

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Operations on handles, pipes and flags; instructions that compute come through ``before``."""
        instruction = isa.find(op.name)
        if op.regions or instruction is None or _is_quiet(op) or needs_rule(instruction):
            return
        self.executed += 1
        if not self.wants():
            return
        values = [v for v in (*op.ins, *op.outs) if v.name in _names(scope)]
        sources = [f"{v} {operand_text(scope[v])}" for v in values]
        results = [f"-> {v} {v.type}" for v in op.results]
        text = "; ".join([*sources, *results])
        line = f"{self._title(machine, op)}{'  ' if text else ''}{text}"
        operands = {v.name: self.value(machine, scope[v]) for v in values}
        self.take(self._step(machine, op, operands, {}, (), [line]))

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """Count an instruction and keep its sources as they are before it writes."""
        self.executed += 1
        self._words = {}
        if not self.wants():
            return
        for name in trace_text.reads(execution):
            operand = execution.operands.get(name)
            if isinstance(operand, TileRef):
                self._words[name] = words_of(machine, operand)
        lines = self._shown(execution)
        self._sources = [self._operand(execution, n, self._words.get(n)) for n in lines]
        self._operands = {_name(execution, n): self.value(machine, execution.operands[n]) for n in lines}
        self._buffers = dict(machine.buffers)

    def after(self, machine: JaxMachine, execution: Execution, outputs: Mapping[str, Operand]) -> None:
        """Make the step of an instruction: its place, its sources and what it wrote."""
        if not self.wants():
            return
        lines = [self._title(machine, execution.op), *(f"      {line}" for line in self._sources)]
        results: dict[str, Words] = {}
        written: dict[str, Any] = {}
        for declared in execution.instruction.destinations:
            operand = execution.operands.get(declared.name)
            if isinstance(operand, TileRef):
                results[declared.name] = words_of(machine, operand)
            if operand is not None:
                written[_name(execution, declared.name)] = self.value(machine, operand)
                lines.append(f"      {self._operand(execution, declared.name, results.get(declared.name))}")
        for name, vector in outputs.items():
            written[_name(execution, name)] = np.asarray(vector)
            lines.append(f"      {name}  {np.asarray(vector).tolist()}")
        if self.detail == "micro":
            lines += [f"        {line}" for line in self._micro(machine, execution, results)]
        changed = tuple(n for n, words in machine.buffers.items() if words is not self._buffers.get(n))
        self.take(self._step(machine, execution.op, self._operands, written, changed, lines))

    def _step(
        self,
        machine: JaxMachine,
        op: Op,
        operands: Mapping[str, Any],
        written: Mapping[str, Any],
        buffers: tuple[str, ...],
        lines: Sequence[str],
    ) -> Step:
        return Step(
            self.executed,
            op.name,
            op.span.line if op.span is not None else None,
            where(op, self._block, machine.core_name),
            self.functions.get(op.span, ""),
            self._block,
            machine.core_name,
            operands,
            written,
            buffers,
            tuple(lines),
        )

    def _micro(
        self, machine: JaxMachine, execution: Execution, results: Mapping[str, Words]
    ) -> Iterator[str]:
        if not trace_text.is_lanewise(execution):
            yield trace_text.summary(execution)
            return
        yield from trace_text.lanes(
            execution,
            self._words,
            _scalars(machine, execution),
            next(iter(results.values())),
            machine.semantics.out_of_region,
            self.lanes,
        )

    def _shown(self, execution: Execution) -> list[str]:
        """Operands that are described before execution: all that is not only written."""
        outs = {o.name for o in execution.instruction.destinations if o.role == "out"}
        return [n for n in _names_of(execution) if n in execution.operands and n not in outs]

    def _operand(self, execution: Execution, name: str, words: Words | None) -> str:
        value = execution.bound.values.get(name)
        d = value.type.dtype if value is not None and isinstance(value.type, ScalarType) else None
        label = f"{name} {value}" if value is not None else name
        return f"{label}  {operand_text(execution.operands[name], d, words)}"

    def _title(self, machine: JaxMachine, op: Op) -> str:
        at = where(op, self._block, machine.core_name)
        return f"[{self.executed}] {at} {op.name}{written_attributes(op)}"


@dataclass
class Tracer(Recorder):
    """Writes every executed instruction as lines of text, at most ``limit`` of them."""

    write: Callable[[str], object] = print
    limit: int = 1000
    _lines: int = 0
    _cut: bool = False
    _last: int = 0

    def wants(self) -> bool:
        """Whether a line is left."""
        return self._lines < self.limit

    def take(self, step: Step) -> None:
        """Write the lines of a step as far as the limit goes."""
        self._last = step.number
        lines = step.lines[: self.limit - self._lines]
        self._lines += len(lines)
        self._cut = len(lines) < len(step.lines)
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        """Write how many instructions the limit left out."""
        unseen = self.executed - self._last
        if self._cut or (unseen and not self.wants()):
            more = f"{unseen} more instructions" if unseen else "the rest of the last instruction"
            self.write(f"... {more}; only {self.limit} lines are shown")


def _is_quiet(op: Op) -> bool:
    """Whether an operation only names memory or numbers: its results show where instructions use them."""
    traits = traits_of(op)
    if not traits.pure or traits.effects or not op.results:
        return False
    return all(isinstance(v.type, GlobalTypes | ScalarType) and loc_of(v.type) is None for v in op.results)


def _name(execution: Execution, declared: str) -> str:
    """The program's name of an operand, its declared name where it has none."""
    value = execution.bound.values.get(declared)
    return declared if value is None else value.name


def _names_of(execution: Execution) -> list[str]:
    """Declared names of an instruction's operands, those the text reads first."""
    return list(dict.fromkeys([*execution.form, *execution.operands]))


def _names(scope: Scope) -> set[str]:
    return {name for names in scope.chain() for name in names}


def _scalars(machine: JaxMachine, execution: Execution) -> dict[str, tuple[DType, Words]]:
    """Raw words of the scalar operands, by name."""
    context, scalars = machine.context(execution), {}
    for name, value in machine.inputs(execution, context).items():
        if name in trace_text.reads(execution) and not isinstance(execution.operands[name], TileRef):
            scalars[name] = (context.dtype(name), np.asarray(value))
    return scalars


class Stopped(Exception):
    """An execution that a breakpoint ended, with everything it had at that moment."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


@dataclass
class Scopes:
    """The names that every core sees, as operations begin; ``functions`` as of a :class:`Recorder`."""

    functions: Mapping[Any, str] = field(default_factory=dict)
    #: Per core, the functions it is in: the scope of each function and the innermost one in it.
    _calls: dict[str, list[tuple[dict[str, Operand], Scope, str]]] = field(default_factory=dict)

    def block(self, machine: JaxMachine) -> None:
        """Every block of a grid has calls of its own."""
        self._calls.clear()

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Note the scope that an operation sees, and forget functions that have returned."""
        calls = self._calls.setdefault(machine.core_name, [])
        root = scope.chain()[-1]
        while calls and any(r is root for r, _, _ in calls):
            calls.pop()
        calls.append((root, scope, self.functions.get(op.span, "")))

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """Nothing changes the names."""

    def after(self, machine: JaxMachine, execution: Execution, outputs: Mapping[str, Operand]) -> None:
        """Nothing changes the names."""

    def names(self, current: str = "") -> dict[str, Operand]:
        """Names of the innermost function of one core as they are, others behind their core and function."""
        names: dict[str, Operand] = {}
        for core, calls in self._calls.items():
            for _, scope, function in calls:
                is_current = core == current and scope is calls[-1][1]
                prefix = "" if is_current else "/".join(p for p in (core, function) if p) + "/"
                for level in reversed(scope.chain()):
                    names.update((prefix + name, operand) for name, operand in level.items())
        return names


@dataclass
class Breakpoint:
    """Stops before the first operation on a line, the ``count``-th time it is reached."""

    op: Op
    count: int = 1
    functions: Mapping[Any, str] = field(default_factory=dict)
    reached: int = 0
    _block: int | None = None
    scopes: Scopes = field(init=False)

    def __post_init__(self) -> None:
        self.scopes = Scopes(self.functions)

    @classmethod
    def named(cls, program: Program, text: str) -> Breakpoint:
        """The breakpoint that ``--break [FILE:]LINE[:COUNT]`` names; ArgumentError as of :meth:`at`."""
        match = re.fullmatch(r"(?:(?P<file>.+):)?(?P<line>\d+)(?::(?P<count>\d+))?", text)
        if match and match["file"] and match["count"] is None and match["file"].isdigit():
            # Two numbers: a line and a count.
            match = re.fullmatch(r"(?P<file>)(?P<line>\d+):(?P<count>\d+)", text)
        if match is None or int(match["count"] or 1) < 1:
            raise ArgumentError(
                f"--break: got {text}", allowed="LINE, LINE:COUNT, FILE:LINE or FILE:LINE:COUNT"
            )
        return cls.at(
            program, int(match["line"]), int(match["count"] or 1), match["file"] or None, f"--break {text}"
        )

    @classmethod
    def at(cls, program: Program, line: int, count: int, file: str | None, what: str) -> Breakpoint:
        """The breakpoint before the ``count``-th execution of the first operation on a line.

        Raises ArgumentError, with the nearest lines that have one, when no operation begins there; ``what``
        is the subject of its message. A file is needed where a program comes from several.
        """
        ops = _by_place(program)
        files = {f for f, _ in ops if file is None or Path(f).name == Path(file).name}
        if not files:
            sources = ", ".join(sorted({Path(f).name for f, _ in ops})) or program.source
            raise ArgumentError(f"{what}: got the file {file}", allowed=sources)
        places = sorted(f for f in files if (f, line) in ops)
        if not places:
            near = sorted(sorted((n, f) for f, n in ops if f in files), key=lambda at: abs(at[0] - line))[:5]
            text = ", ".join(f"{n} ({ops[f, n].name})" for n, f in sorted(near))
            source = program.source if len(files) != 1 else next(iter(files))
            raise ArgumentError(
                f"{what}: no operation begins on line {line} of {source}",
                allowed=f"nearby {text or 'none'}",
            )
        if len(places) > 1:
            names = " or ".join(f"{Path(f).name}:{line}" for f in places)
            raise ArgumentError(f"{what}: several files have a line {line}", allowed=f"{names}")
        return cls(ops[places[0], line], count, functions_of(program))

    def block(self, machine: JaxMachine) -> None:
        """Count the blocks of a grid, each with calls of its own."""
        self._block = 0 if self._block is None else self._block + 1
        self.scopes.block(machine)

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Raise :class:`Stopped`, with the machine's state, at the execution that is asked for."""
        self.scopes.begin(machine, op, scope)
        if op.span is None or op.span != self.op.span or op.name != self.op.name:
            return
        self.reached += 1
        if self.reached == self.count:
            again = f", reached {self.count} times" if self.count > 1 else ""
            message = f"stopped before {where(op, self._block, machine.core_name)} {op.name}{again}"
            raise Stopped(message, self._state(machine))

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """Operations are counted where they begin."""

    def after(self, machine: JaxMachine, execution: Execution, outputs: Mapping[str, Operand]) -> None:
        """Nothing changes the names."""

    def _state(self, machine: JaxMachine) -> State:
        """Names of the function that is stopped as they are, others behind their core and function."""
        from ..state import State

        return State.at(machine, self.scopes.names(machine.core_name))


def functions_of(program: Program) -> dict[Any, str]:
    """The name of the function that each operation stands in, by its place in the text."""
    return {op.span: f.name for f in program.functions for op in f.walk()}


def _by_place(program: Program) -> dict[tuple[str, int], Op]:
    """The first operation that begins on each line of each file.

    Numbers of Python code are constants at the beginning of a function, wherever their line is.
    """
    operations: dict[tuple[str, int], Op] = {}
    columns: dict[tuple[str, int], tuple[bool, int]] = {}
    for op in program.walk():
        if op.span is not None and not traits_of(op).terminator:
            place = op.span.file, op.span.line
            column = (op.span.python and op.name == "arith.constant", op.span.col)
            if place not in columns or column < columns[place]:
                operations[place], columns[place] = op, column
    return operations


@dataclass(frozen=True)
class Observers:
    """Several observers as one; they are told in order."""

    each: Sequence[Observer]

    def block(self, machine: JaxMachine) -> None:
        """Tell all that a block of a grid of several begins."""
        for observer in self.each:
            observer.block(machine)

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Tell all that an operation begins."""
        for observer in self.each:
            observer.begin(machine, op, scope)

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """Tell all that an instruction is about to compute."""
        for observer in self.each:
            observer.before(machine, execution)

    def after(self, machine: JaxMachine, execution: Execution, outputs: Mapping[str, Operand]) -> None:
        """Tell all that an instruction has written its destinations."""
        for observer in self.each:
            observer.after(machine, execution, outputs)
