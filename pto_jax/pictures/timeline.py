"""The pipes of a program over time: the schedule of its instructions, a picture, a trace for Perfetto.

>>> import pto_jax as pto
>>> from pto_jax.examples import example
>>> timeline(pto.load(example("vector_add").path))
<Timeline: @vector_add on a2a3, model doc_formula: 1 of 4 instructions without a figure>
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from ..analysis.addresses import Bytes
from ..analysis.entries import select_entry
from ..analysis.pipes import number_of
from ..analysis.provenance import AliasClasses, called
from ..analysis.resolve import ResolvedProgram, resolve, with_entry
from ..analysis.roots import cores_of, is_as_written
from ..cost import CostReport, cost
from ..cost.program import require_numbers
from ..errors import ArgumentError, Span
from ..files import write_text
from ..files.read import require_name
from ..ir import Function, KernelKind, Op, Pipe, PipeEventType, Program
from ..isa.effects import ends_of, pipe_named, pipe_of, traits_of
from ..order import ASSUMED, LISTED, Listed, listing
from ..profiles import Profile
from .memory import subject
from .svg import Canvas, Picture, num

#: Runs that are drawn; the trace has all.
RUNS = 400
_LEFT, _ROW, _BAR = 92.0, 30.0, 20.0


@dataclass(frozen=True, repr=False)
class Timeline(Picture):
    """A picture of pipes; ``trace`` is the same as Chrome trace events in JSON, with one cycle as 1 us.

    >>> import json, pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> picture = pto.pictures.timeline(pto.load(EXAMPLES["vector_add"].path))
    >>> picture.svg.startswith("<svg "), len(json.loads(picture.trace)["traceEvents"]) > 4
    (True, True)
    """

    trace: str = ""

    def __repr__(self) -> str:
        return f"<Timeline: {self.label}>"

    def save(self, path: str | Path) -> None:
        """Write the picture to a file in .svg, or the trace to one in .json; errors as for a picture."""
        require_name(path)
        if Path(path).suffix.lower() == ".json":
            write_text(path, self.trace)
        elif Path(path).suffix.lower() == ".svg":
            super().save(path)
        else:
            fix = f"{Path(path).stem or 'timeline'}.svg"
            raise ArgumentError(
                f"timeline: got the file name {path}", allowed="names in .svg or .json", fix=fix
            )


def timeline(
    program: Any,
    profile: str | Profile | None = None,
    model: str | None = None,
    *,
    entry: str | None = None,
    arguments: Mapping[str, int] | None = None,
) -> Timeline:
    """When the pipes of a block execute the instructions of a program or kernel, in cycles of a model.

    A row per pipe and core has a bar for each execution and arrows from what it waits for. The pipe with
    the most cycles is bold. Instructions without a figure are hatched, counted in the title and drawn with
    the median of the others. ``arguments`` gives scalar arguments by name, as for :func:`pto_jax.cost`;
    run-time numbers count as 3, or as another number where 3 executes nothing, and conditions as true.
    This is a picture of the model's figures and the program's order, not a measurement. VerifyError for a
    program with errors, ArgumentError for an unknown profile, model, entry or argument and for a program
    without instructions.

    >>> import pto_jax as pto
    >>> picture = timeline(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>"))
    >>> '"name": "tadd", "ph": "X", "ts": 0, "dur": 2575.0' in picture.trace
    True
    """
    program, target = subject(program, profile)
    require_numbers(arguments)
    result = schedule(program, target, model, entry, arguments or {})
    label = f"@{result.function} on {result.profile}, model {result.model}: {_missing(result)}"
    return _draw(shortened(result, RUNS), label, len(result.runs), trace(result))


def _missing(schedule: Schedule) -> str:
    if not schedule.missing:
        return f"{schedule.end:,.0f} cycles"
    return f"{schedule.missing} of {schedule.instructions} instructions without a figure"


def trace(schedule: Schedule) -> str:
    """The schedule as Chrome trace events: a process per core, a thread per pipe, a flow per wait."""
    rows = list(schedule.busy)
    cores = list(dict.fromkeys(row.core for row in rows))
    events: list[dict[str, Any]] = []
    for row in rows:
        where = {"pid": cores.index(row.core), "tid": int(row.pipe)}
        name = row.core or f"@{schedule.function}"
        events.append({"name": "process_name", "ph": "M", **where, "args": {"name": name}})
        events.append({"name": "thread_name", "ph": "M", **where, "args": {"name": row.pipe.name}})
    for run in schedule.runs:
        where = {"pid": cores.index(run.row.core), "tid": int(run.row.pipe)}
        args = {"line": run.span.line if run.span else None, "figure": run.figure}
        times = {"ts": run.start, "dur": run.end - run.start}
        events.append({"name": run.name, "ph": "X", **times, **where, "args": args})
    for number, wait in enumerate(schedule.waits):
        for run, phase in ((schedule.runs[wait.source], "s"), (schedule.runs[wait.target], "f")):
            where = {"pid": cores.index(run.row.core), "tid": int(run.row.pipe)}
            at = run.end if phase == "s" else run.start
            events.append(
                {"name": "wait", "cat": "wait", "ph": phase, "bp": "e", "id": number, "ts": at, **where}
            )
    other = {
        "unit": "1 us is 1 cycle",
        "model": schedule.model,
        "profile": schedule.profile,
        "without_figure": f"{schedule.missing} of {schedule.instructions}, {schedule.nominal:g} cycles each",
    }
    return json.dumps({"traceEvents": events, "otherData": other}) + "\n"


# -- drawing -------------------------------------------------------------------------------------------


def _draw(schedule: Schedule, label: str, runs: int, text: str) -> Timeline:
    width = min(max(640.0, _LEFT + 26 * len(schedule.runs)), 1200.0)
    canvas = Canvas(width, label)
    canvas.text(12, 22, f"@{schedule.function} on {schedule.profile}", "title")
    canvas.text(12, 38, f"model {schedule.model}, {_missing(schedule)}", "soft small")
    busy = schedule.busy
    rows = {row: 64 + _ROW * i for i, row in enumerate(busy)}
    scale = (width - _LEFT - 16) / max(schedule.end, 1)
    most = max(busy.values(), default=0)
    bottom = 64 + _ROW * len(rows)
    for row, y in rows.items():
        canvas.rect(_LEFT, y - 2, width - _LEFT - 16, _BAR + 4, "row", radius=3)
        bold = "bold" if busy[row] == most and most else ""
        canvas.text(_LEFT - 8, y + 14, str(row), bold, anchor="end")
    _grid(canvas, schedule.end, scale, bottom)
    for run in schedule.runs:
        _bar(canvas, run, rows[run.row], scale)
    for wait in binding(schedule):
        source, target = schedule.runs[wait.source], schedule.runs[wait.target]
        x0, x1 = _LEFT + source.end * scale, _LEFT + target.start * scale
        y0, y1 = rows[source.row] + _BAR / 2, rows[target.row] + _BAR / 2
        edge = (_BAR / 2 - 1) * (1 if y1 > y0 else -1)
        canvas.path(f"M{num(x0)} {num(y0 + edge)}L{num(x1)} {num(y1 - edge)}", "arrow", "waits")
    return _closed(canvas, schedule, runs, bottom, text)


def _closed(canvas: Canvas, schedule: Schedule, runs: int, bottom: float, trace: str) -> Timeline:
    """The notes below the rows, and the picture."""
    entries = [
        ("", words) for words in ("bold: the busiest pipe", "arrows: the waits that delay", *schedule.notes)
    ]
    if schedule.missing:
        entries.insert(0, ("outside", f"no figure in this model, drawn as {schedule.nominal:,.0f} cycles"))
    if runs > len(schedule.runs):
        entries.append(("", f"the first {len(schedule.runs)} of {runs} executions"))
    picture = canvas.picture(canvas.legend(entries, bottom + 24) + 4)
    return Timeline(picture.svg, picture.label, trace)


def _grid(canvas: Canvas, end: float, scale: float, bottom: float) -> None:
    """Lines at round numbers of cycles."""
    step = _round(end / 6)
    at = 0.0
    while at <= end:
        x = _LEFT + at * scale
        canvas.path(f"M{num(x)} 58V{num(bottom)}", "thin")
        canvas.text(x, bottom + 12, f"{at:,.0f}", "soft small", anchor="middle")
        at += step
    canvas.text(_LEFT - 8, bottom + 12, "cycles", "soft small", anchor="end")


def _round(x: float) -> float:
    """The next number that is 1, 2 or 5 times a power of ten."""
    return next(float(s * 10**n) for n in range(16) for s in (1, 2, 5) if s * 10**n >= x)


def _bar(canvas: Canvas, run: Run, y: float, scale: float) -> None:
    x, width = _LEFT + run.start * scale, max((run.end - run.start) * scale, 1.5)
    line = f"line {run.span.line}, " if run.span else ""
    cycles = f"{run.end - run.start:,.0f} cycles" if run.figure else "no figure"
    title = f"{run.name}: {line}{cycles}, from {run.start:,.0f} to {run.end:,.0f}"
    gap = 0.5 if width > 4 else 0
    canvas.rect(x, y, width - gap, _BAR, "first" if run.figure else "outside", title=title, radius=2)
    if width > 6 * len(run.name) + 6:
        look = "on small" if run.figure else "small"
        canvas.text(x + width / 2, y + 14, run.name, look, anchor="middle")


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

    def __init__(self, resolved: ResolvedProgram, report: CostReport, schedule: Schedule) -> None:
        self.resolved, self.found = resolved, schedule
        self.functions = {id(op): f for f in resolved.program.functions for op in f.walk()}
        self.written = {f.name: is_as_written(f) for f in resolved.program.functions}
        self.cores = dict(_cores(resolved.program))
        self.classes = AliasClasses(resolved.program)
        self.cycles = dict(_cycles(resolved.program, report))
        schedule.instructions, schedule.missing = len(self.cycles), list(self.cycles.values()).count(None)
        known = [n for n in self.cycles.values() if n]
        schedule.nominal = median(known) if known else _NOMINAL
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
        pipe = next((v for v in op.attrs.values() if isinstance(v, Pipe | PipeEventType)), None)
        own = pipe_named(pipe) or Pipe.S
        event = op.attrs.get("event", op.attrs.get("buf_id", op.attrs.get("id")))
        number: Hashable = step.number if event is None and step.op.ins else event
        between = through in ("core", "cores")
        key: Hashable = (through, number) if between or through == "token" else (core, source, target, number)
        if role == "signal":
            time = self.ready[Row(core, own if between or through == "token" else source or own)]
            if through == "token":
                self.tokens[key].clear()
            self.tokens[key].append(time)
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
        accesses = [] if self.written[function.name] else list(self.data(function, op))
        for (key, where), write in accesses:
            for (other, wrote, _), token in self.uses[key].items():
                if (write or wrote) and (where is None or other is None or where.overlaps(other)):
                    self.hold(row, token)
        known, start = self.cycles[id(op)], self.ready[row].time
        end = start + (self.found.nominal if known is None else known)
        number = len(self.found.runs)
        self.found.runs.append(Run(op.name, row, start, end, known is not None, op.span))
        self.found.waits += [Wait(source, number) for source in dict.fromkeys(self.pending.pop(row, ()))]
        self.ready[row] = _Token(end, number)
        for (key, where), write in accesses:
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


def binding(schedule: Schedule) -> Iterator[Wait]:
    """The waits that decide when a run begins: those for the run that ends last."""
    for wait in schedule.waits:
        if schedule.runs[wait.source].end == schedule.runs[wait.target].start:
            yield wait


def shortened(schedule: Schedule, most: int) -> Schedule:
    """The first runs of a schedule and the waits among them."""
    waits = [w for w in schedule.waits if w.target < most]
    return replace(schedule, runs=schedule.runs[:most], waits=waits)
