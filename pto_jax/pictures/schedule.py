"""When the instructions of a program begin and end on their pipes, by the figures of a cost model.

Each pipe of a core executes in program order. In functions with flags or events only these and barriers hold
a pipe back; in others an instruction waits for those whose data it uses, as the assembler orders them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple, TypeAlias

from ..analysis.addresses import Bytes
from ..analysis.entries import select_entry
from ..analysis.pipes import number_of
from ..analysis.provenance import AliasClasses, called
from ..analysis.resolve import ResolvedProgram, resolve, with_entry
from ..analysis.roots import cores_of, is_as_written
from ..cost import CostReport, cost
from ..errors import ArgumentError, Span
from ..ir import Function, KernelKind, Op, Pipe, PipeEventType, Program
from ..isa.effects import ends_of, pipe_named, pipe_of, traits_of
from ..order import ASSUMED, LISTED, Listed, listing
from ..profiles import Profile

#: The assumed numbers that are tried until an instruction is executed, by their places.
_COURSES = tuple(sorted(range(len(ASSUMED)), key=lambda i: (i != 3, i)))
#: Cycles of an instruction without a figure, where none has one.
_NOMINAL = 100


class Row(NamedTuple):
    """A pipe of a core; the core is "" where the program does not name one."""

    core: str
    pipe: Pipe

    def __str__(self) -> str:
        return f"{self.core} {self.pipe.name}".strip()


@dataclass(frozen=True)
class Run:
    """One execution of an instruction, in cycles; ``figure``: its length is a figure of the model."""

    name: str
    row: Row
    start: float
    end: float
    figure: bool
    span: Span | None


@dataclass(frozen=True)
class Wait:
    """A run that another one waits for, by their positions in the schedule."""

    source: int
    target: int


@dataclass(eq=False)
class Schedule:
    """The runs of a program with the waits between them.

    ``missing`` of the ``instructions`` in the text have no figure and count ``nominal`` cycles. ``notes``
    are the assumptions.
    """

    function: str
    model: str
    profile: str
    runs: list[Run] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    instructions: int = 0
    missing: int = 0
    nominal: float = _NOMINAL
    notes: list[str] = field(default_factory=list)

    @property
    def end(self) -> float:
        """The cycles until the last run has ended."""
        return max((run.end for run in self.runs), default=0)

    @property
    def busy(self) -> Mapping[Row, float]:
        """The cycles of each pipe by figures, in the order of cores and pipes."""
        total: dict[Row, float] = dict.fromkeys(sorted({run.row for run in self.runs}), 0.0)
        for run in self.runs:
            total[run.row] += run.end - run.start if run.figure else 0
        return total


def schedule(
    program: Program,
    profile: Profile,
    model: str | None,
    entry: str | None,
    arguments: Mapping[str, int],
) -> Schedule:
    """The schedule of one block of a program; errors as for :func:`pto_jax.cost`."""
    for name, value in arguments.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"timeline: argument {name}: got {value!r}", allowed="an integer")
    program = with_entry(program)
    report = cost(program, profile, model, entry=entry, arguments=arguments)
    if not report.lines:
        raise ArgumentError(f"{program.source}: got no instruction of a pipe", allowed="one or more")
    resolved = resolve(program, profile)
    function = select_entry(resolved.program, entry)
    result = Schedule(function.name, report.model, report.profile)
    for number in _COURSES:
        result = Schedule(function.name, report.model, report.profile)
        listed = listing(resolved, function, arguments, number)
        _Execution(resolved, report, result).follow(listed.listed)
        if listed.cut:
            result.notes.append(f"the first {LISTED:,} operations")
        if listed.number is not None:
            result.notes.append(f"run-time numbers count as {listed.number}")
        if result.runs or listed.number is None:
            break
    if not result.runs:
        result.notes.append("no instruction is executed with these numbers")
    return result


_Data: TypeAlias = tuple[Hashable, Bytes | None]


class _Token(NamedTuple):
    """The moment from which a wait may go on, and the run that ends then."""

    time: float
    run: int | None


_START = _Token(0, None)


class _Execution:
    """One block: the streams of its cores, executed side by side."""

    def __init__(self, resolved: ResolvedProgram, report: CostReport, found: Schedule) -> None:
        self.resolved, self.found = resolved, found
        self.functions = {id(op): f for f in resolved.program.functions for op in f.walk()}
        self.written = {f.name: is_as_written(f) for f in resolved.program.functions}
        self.cores = dict(_cores(resolved.program))
        self.classes = AliasClasses(resolved.program)
        self.cycles = dict(_cycles(resolved.program, report))
        found.instructions, found.missing = len(self.cycles), list(self.cycles.values()).count(None)
        known = [n for n in self.cycles.values() if n]
        found.nominal = median(known) if known else _NOMINAL
        self.ready: dict[Row, _Token] = defaultdict(lambda: _START)
        self.pending: dict[Row, list[int]] = defaultdict(list)
        self.tokens: dict[Hashable, deque[_Token]] = defaultdict(deque)
        self.uses: dict[Hashable, dict[tuple[Bytes | None, bool, Row], _Token]] = defaultdict(dict)

    def follow(self, listed: Sequence[Listed]) -> None:
        """Execute operations; of cores that wait for each other for ever the first one goes on."""
        streams: dict[str, deque[Listed]] = {}
        for step in listed:
            # Both vector cores execute alike.
            if step.core != "vector1":
                streams.setdefault(self.core(step), deque()).append(step)
        while any(streams.values()):
            moved = False
            for core, steps in streams.items():
                while steps and self.step(core, steps[0]):
                    steps.popleft()
                    moved = True
            if not moved:
                core, steps = next((c, s) for c, s in streams.items() if s)
                self.step(core, steps.popleft(), forced=True)

    def core(self, step: Listed) -> str:
        """The name of the core that executes an operation: its kind."""
        if step.core:
            return step.core.rstrip("0123456789")
        kind = traits_of(step.op).core or self.cores.get(id(step.op))
        return kind.name.lower() if kind is not None else ""

    def step(self, core: str, step: Listed, *, forced: bool = False) -> bool:
        """Execute an operation; False where it has to wait for another core first."""
        op, traits = step.op, traits_of(step.op)
        order = traits.order
        if order is not None:
            if order.through in ("flag", "event", "token", "core", "cores"):
                return self.synchronise(core, step, order.role, order.through, forced=forced)
            self.drain(core, op)
            return True
        queue = ("fifo", number_of(op), "cube" if (core == "vector") == (traits.fifo == "pop") else "vector")
        after = _START
        if traits.fifo == "pop" and not forced:
            if not self.tokens[queue]:
                return False
            after = self.tokens[queue].popleft()
        if id(op) in self.cycles:
            self.run(core, op, after)
        elif after.run is not None:
            self.hold(Row(core, pipe_of(op)), after)
        if traits.fifo == "push":
            self.tokens[queue].append(self.ready[Row(core, pipe_of(op))])
        return True

    def synchronise(self, core: str, step: Listed, role: str, through: str, *, forced: bool) -> bool:
        """Flags, events, buffer tokens and flags between cores."""
        op = step.op
        source, target = ends_of(op)
        named = next((v for v in op.attrs.values() if isinstance(v, Pipe | PipeEventType)), None)
        own = pipe_named(named) or Pipe.S
        event = op.attrs.get("event", op.attrs.get("buf_id", op.attrs.get("id")))
        number: Hashable = step.number if event is None and step.op.ins else event
        between = through in ("core", "cores")
        key: Hashable = (through, number) if between or through == "token" else (core, source, target, number)
        if role == "signal":
            given = self.ready[Row(core, own if between or through == "token" else source or own)]
            if through == "token":
                self.tokens[key].clear()
            self.tokens[key].append(given)
            return True
        if not self.tokens[key]:
            # Only another core can still give this one.
            return forced or not between
        token = self.tokens[key][0] if through == "token" else self.tokens[key].popleft()
        self.hold(Row(core, own if between or through == "token" else target or own), token)
        return True

    def drain(self, core: str, op: Op) -> None:
        """Wait for all pipes where the operation names all; one pipe is in program order anyway."""
        if Pipe.ALL in op.attrs.values():
            last = max((t for row, t in self.ready.items() if row.core == core), default=_START)
            for pipe in Pipe:
                self.hold(Row(core, pipe), last)

    def hold(self, row: Row, token: _Token) -> None:
        """Let later instructions of a pipe begin after a token."""
        if token.run is not None and self.found.runs[token.run].row != row:
            self.pending[row].append(token.run)
        if token.time > self.ready[row].time:
            self.ready[row] = token

    def run(self, core: str, op: Op, after: _Token) -> None:
        """Execute an instruction on its pipe."""
        row, function = Row(core, pipe_of(op)), self.functions[id(op)]
        self.hold(row, after)
        used = [] if self.written[function.name] else list(self.data(function, op))
        for (key, where), write in used:
            for (other, wrote, _), token in self.uses[key].items():
                if (write or wrote) and (where is None or other is None or where.overlaps(other)):
                    self.hold(row, token)
        known, start = self.cycles[id(op)], self.ready[row].time
        end = start + (self.found.nominal if known is None else known)
        number = len(self.found.runs)
        self.found.runs.append(Run(op.name, row, start, end, known is not None, op.span))
        self.found.waits += [Wait(source, number) for source in dict.fromkeys(self.pending.pop(row, ()))]
        self.ready[row] = _Token(end, number)
        for (key, where), write in used:
            self.uses[key][where, write, row] = self.ready[row]

    def data(self, function: Function, op: Op) -> Iterator[tuple[_Data, bool]]:
        """The memory that an instruction uses, and whether it writes it."""
        facts = self.resolved.facts(function)
        for effect, value in self.resolved.of(op).accesses():
            where = facts.of(op).bytes.get(value.name)
            where = where if where is not None and where.range is not None else None
            yield (self.classes.of(function.name, value.name), where), effect.access != "read"


def _cycles(program: Program, report: CostReport) -> Iterator[tuple[int, float | None]]:
    """The cycles of each instruction by the identity of its operation; None without a figure."""
    lines = defaultdict[tuple[str, str, Span | None], list[float | None]](list)
    for line in report.lines:
        cycles = line.figure.cycles
        lines[line.function, line.instruction, line.span].append(None if cycles is None else float(cycles))
    for function in program.functions:
        at: dict[tuple[str, str, Span | None], int] = defaultdict(int)
        for op in function.walk():
            key = function.name, op.name, op.span
            if key in lines and traits_of(op).fifo in (None, "push", "pop"):
                yield id(op), lines[key][at[key] % len(lines[key])]
                at[key] += 1


def _cores(program: Program) -> Iterator[tuple[int, KernelKind]]:
    """The core of each operation by its identity; functions without one take that of their only caller."""
    known = dict(cores_of(program))
    for _ in program.functions:
        callers = defaultdict[str, set[KernelKind | None]](set)
        for op in program.walk():
            if (callee := called(program, op)) is not None:
                callers[callee.name].add(known.get(id(op)))
        for function in program.functions:
            kinds = callers[function.name]
            if len(kinds) == 1 and (kind := next(iter(kinds))) is not None:
                known = {id(op): kind for op in function.walk()} | known
    yield from known.items()


def binding(found: Schedule) -> Iterator[Wait]:
    """The waits that decide when a run begins: those for the run that ends last."""
    for wait in found.waits:
        if found.runs[wait.source].end == found.runs[wait.target].start:
            yield wait


def shortened(found: Schedule, most: int) -> Schedule:
    """The first runs of a schedule and the waits among them."""
    waits = [w for w in found.waits if w.target < most]
    return replace(found, runs=found.runs[:most], waits=waits)
