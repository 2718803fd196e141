"""The cost of a program: its instructions with sizes and counts, totals per pipe, and unknown parts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .. import api, errors, isa, profiles
from ..analysis import entries, provenance
from ..analysis.facts import Entered, FunctionFacts, OperandFacts, solve
from ..analysis.resolve import ResolvedProgram, resolve, with_entry
from ..errors import Span
from ..ir import DType, Function, Loc, Op, Pipe, Program, Region, ScalarType, TileType, Value
from ..isa import effects, traits
from . import vfsim
from .cce_stub import CONTROL
from .instruction import figure_of, model_called
from .work import Figure, Model, ModelName, Path, Size, Work, at_least, ceil_div, fold, is_number, no_data

#: Where notes about instructions without a figure name the instruction.
_NO_FIGURE = " has no figure for "


@dataclass(frozen=True, eq=False)
class CostLine:
    """One instruction of the program.

    ``times`` is how often it runs, None where the program does not say (its loop then counts once);
    ``notes`` qualify sizes and counts.

    >>> import pto_jax as pto
    >>> line, = pto.cost(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>")).lines
    >>> line.instruction, line.pipe.name, line.times, line.total
    ('tadd', 'V', 1, 2575)
    """

    instruction: str
    function: str
    pipe: Pipe
    figure: Figure
    times: Size | None = 1
    span: Span | None = None
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Size | None:
        """Cycles of all its executions that are known to take place."""
        if self.figure.cycles is None:
            return None
        return self.figure.cycles * (1 if self.times is None else self.times)


@dataclass(frozen=True, eq=False)
class CostReport:
    """What a model says about a program, in cycles.

    ``complete`` is False when a line has no figure or runs an unknown number of times; totals then cover
    the known part. ``serial`` adds all pipes up, ``overlapped`` is the busiest pipe: real time lies
    between them.

    >>> import pto_jax as pto
    >>> report = pto.cost(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>"))
    >>> report.complete, report.serial, report.overlapped
    (True, 2575, 2575)
    """

    model: ModelName
    profile: str
    lines: tuple[CostLine, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def totals(self) -> Mapping[Pipe, Size]:
        """Known cycles per pipe."""
        totals: dict[Pipe, Size] = {}
        for line in self.lines:
            if line.total is not None:
                totals[line.pipe] = totals.get(line.pipe, 0) + line.total
        return {p: totals[p] for p in sorted(totals)}

    @property
    def serial(self) -> Size:
        """Known cycles of all pipes, one after another."""
        return sum(self.totals.values())

    @property
    def overlapped(self) -> Size:
        """Known cycles of the busiest pipe."""
        most: Size = 0
        for total in self.totals.values():
            most = at_least(total, most)
        return most

    @property
    def complete(self) -> bool:
        """Whether every line has a figure and a known number of executions."""
        return all(line.figure.cycles is not None and line.times is not None for line in self.lines)

    def to_json(self) -> str:
        """The report as JSON; arrays become lists."""
        return json.dumps(
            {
                "model": self.model,
                "profile": self.profile,
                "complete": self.complete,
                "totals": {p.name: _plain(t) for p, t in self.totals.items()},
                "serial": _plain(self.serial),
                "overlapped": _plain(self.overlapped),
                "notes": list(self.notes),
                "lines": [_line_record(line) for line in self.lines],
            },
            indent=2,
        )

    def __str__(self) -> str:
        return "\n".join(_text(self))


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name.lower()
    return value.tolist() if hasattr(value, "tolist") else value


def _line_record(line: CostLine) -> dict[str, Any]:
    figure = line.figure
    return {
        "instruction": line.instruction,
        "function": line.function,
        "line": line.span.line if line.span else None,
        "pipe": line.pipe.name,
        "model": figure.model,
        "cycles": _plain(figure.cycles),
        "times": _plain(line.times),
        "total": _plain(line.total),
        "terms": {k: _plain(v) for k, v in figure.terms.items()},
        "path": _plain(figure.path),
        "layout": figure.layout,
        "lower_bound": _plain(figure.lower_bound),
        "notes": [n for n in (figure.note, *line.notes) if n],
    }


def _shown(value: Size | None) -> str:
    if value is None:
        return "?"
    return str(value) if is_number(value) else "array"


def _text(report: CostReport) -> Iterator[str]:
    yield f"model {report.model}, profile {report.profile}"
    header = ("line", "instruction", "pipe", "cycles", "times", "total", "")
    rows = [header, *(_row(line, report.model) for line in report.lines)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(header) - 1)]
    left = (1, 2)
    for row in rows:
        cells = [
            c.ljust(w) if i in left else c.rjust(w)
            for i, (c, w) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        yield "  ".join([*cells, row[-1]]).rstrip()
    for pipe, total in report.totals.items():
        yield f"pipe {pipe.name}: {_shown(total)} cycles ({report.model})"
    if report.totals:
        yield f"all pipes, one after the other: {_shown(report.serial)} cycles ({report.model})"
        yield f"busiest pipe: {_shown(report.overlapped)} cycles ({report.model})"
    missing = [line.figure for line in report.lines if line.figure.cycles is None]
    unknown = sum(line.times is None for line in report.lines)
    if missing:
        counted = f"{len(missing)} of {len(report.lines)} instructions"
        yield f"not in the totals, {counted}: {_reasons(figure.note for figure in missing)}"
    if unknown:
        yield f"counted once: {unknown} instructions run an unknown number of times"
    yield from report.notes


def _reasons(notes: Iterable[str]) -> str:
    """The notes of figures that are missing, with what they have in common said once.

    >>> _reasons(["m has no figure for tmuls", "m has no figure for tcvt", "sizes are unknown"])
    'm has no figure for tmuls, tcvt; sizes are unknown'
    """
    listed: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        head, separator, rest = note.partition(_NO_FIGURE)
        listed.setdefault(head + separator, []).append(rest)
    return "; ".join(head + ", ".join(rest for rest in parts if rest) for head, parts in listed.items())


def _row(line: CostLine, model: str) -> tuple[str, ...]:
    figure = line.figure
    said: list[str] = [] if figure.model == model else [figure.model]
    if isinstance(figure.path, Path):
        said.append(f"{figure.path.name.lower()} {figure.layout}")
    if figure.lower_bound is True:
        said.append("lower bound")
    # What has no figure is named once, below the rows.
    said += [n for n in ("" if figure.cycles is None else figure.note, *line.notes) if n]
    return (
        str(line.span.line) if line.span else "",
        line.instruction,
        line.pipe.name,
        "no data" if figure.cycles is None else _shown(figure.cycles),
        _shown(line.times),
        "" if line.total is None else _shown(line.total),
        "; ".join(said),
    )


_PLACES = {loc: loc.name.capitalize() for loc in Loc}


def require_numbers(arguments: object) -> None:
    """ArgumentError for what is not whole numbers by the names of arguments."""
    if arguments is not None and not isinstance(arguments, Mapping):
        got, fix = f"arguments: got {errors.one_of(arguments)}", 'arguments={"rows": 200}'
        raise errors.ArgumentError(got, allowed="numbers by the names of arguments", fix=fix)
    for name, value in (arguments or {}).items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise errors.ArgumentError(f"argument {name}: got {value!r}", allowed="an integer")


def cost(
    program: Program,
    profile: str | profiles.Profile | None = None,
    model: str | None = None,
    *,
    entry: str | None = None,
    arguments: Mapping[str, Size] | None = None,
) -> CostReport:
    """The cycles a model gives a program: per instruction, and per pipe.

    Loops with constant bounds count their body as often as it runs. ``arguments`` gives scalar arguments
    of the entry by name, which sizes and loop bounds may depend on; they may be arrays, for a whole
    search space at once. Synchronisation, addresses and scalar operations cost nothing in models without
    a figure for them and are not listed. Without ``model`` it is the first one that describes the profile.
    ArgumentError for an unknown profile, model, entry or argument.

    >>> import pto_jax as pto
    >>> report = cost(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>"))
    >>> report.serial, report.model
    (2575, 'doc_formula')
    """
    require_numbers(arguments)
    selected = api.resolve_profile(program, profile)
    cost_model = model_called(model, selected)
    program = with_entry(program)
    function = entries.select_entry(program, entry)
    scalars = [value.name for value in function.args if isinstance(value.type, ScalarType)]
    unknown = sorted(set(arguments or ()) - set(scalars))
    if unknown:
        names = ", ".join(scalars) or "no scalar arguments"
        raise errors.ArgumentError(f"@{function.name}: got the argument {', '.join(unknown)}", allowed=names)
    walk = _Walk(resolve(program, selected), cost_model, selected)
    lines = walk.function(function, Entered(tuple((arguments or {}).items())), 1, ())
    return CostReport(cost_model.name, selected.name, tuple(lines), tuple(walk.notes))


@dataclass
class _Frame:
    """The function that is walked, and what is known of its operations."""

    function: Function
    facts: FunctionFacts
    chains: vfsim.Chains = field(default_factory=vfsim.Chains)


class _Walk:
    def __init__(self, resolved: ResolvedProgram, model: Model, profile: profiles.Profile) -> None:
        self.resolved = resolved
        self.model = model
        self.profile = profile
        self.notes: dict[str, None] = {}

    def function(
        self, function: Function, entered: Entered, times: Size | None, above: tuple[str, ...]
    ) -> list[CostLine]:
        if function.name in above:
            self.notes[f"@{function.name} calls itself; the inner call is not counted"] = None
            return []
        frame = _Frame(function, solve(function, self.resolved.values, entered, fold))
        return self.region(function.body, frame, times, (*above, function.name))

    def region(
        self, region: Region, frame: _Frame, times: Size | None, above: tuple[str, ...]
    ) -> list[CostLine]:
        lines: list[CostLine] = []
        chains, frame.chains = frame.chains, vfsim.Chains()
        for op in region.ops:
            lines += self.op(op, frame, times, above)
        frame.chains, chains = chains, frame.chains
        if len(chains.before) and chains.last is not None:
            span = chains.last.span
            place = f"line {span.line}: " if span else ""
            self.notes[f"{place}one pass of {chains.longest()} takes {chains.end} cycles ({vfsim.VFSIM})"] = (
                None
            )
        return lines

    def op(self, op: Op, frame: _Frame, times: Size | None, above: tuple[str, ...]) -> list[CostLine]:
        traits = effects.traits_of(op)
        match traits.regions.runs if traits.regions is not None else None:
            case "for":
                return self.loop(op, frame, times, above)
            case "while":
                place = f"line {op.span.line}: " if op.span else ""
                self.notes[f"{place}the number of iterations of {op.name} is not known"] = None
                return [line for r in op.regions for line in self.region(r, frame, None, above)]
            case "if":
                return self.branch(op, frame, times, above)
        if traits.calls:
            return self.call(op, frame, times, above)
        if op.regions:
            return [line for r in op.regions for line in self.region(r, frame, times, above)]
        return self.instruction(op, frame, times)

    def loop(self, op: Op, frame: _Frame, times: Size | None, above: tuple[str, ...]) -> list[CostLine]:
        known, trips = frame.facts.of(op), None
        lower, upper, step = (known.number(op.group(g)[0]) for g in ("lb", "ub", "step"))
        if lower is None or upper is None or step is None:
            place = f"line {op.span.line}: " if op.span else ""
            self.notes[f"{place}the bounds of scf.for are not known; its body counts once"] = None
        else:
            trips = at_least(ceil_div(upper - lower, at_least(step, 1)), 0)
        total = None if trips is None or times is None else times * trips
        return self.region(op.regions[0], frame, total, above)

    def branch(self, op: Op, frame: _Frame, times: Size | None, above: tuple[str, ...]) -> list[CostLine]:
        """The dearer branch, as far as its figures are plain numbers."""
        branches = [self.region(r, frame, times, above) for r in op.regions]
        spent = [sum(line.total for line in b if isinstance(line.total, int)) for b in branches]
        dearest = spent.index(max(spent))
        lines: list[CostLine] = []
        for i, listed in enumerate(branches):
            if i == dearest:
                lines += [_noted(line, "in a branch, counted as taken") for line in listed]
            else:
                lines += [replace(_noted(line, "in the cheaper branch"), times=0) for line in listed]
        return lines

    def call(self, op: Op, frame: _Frame, times: Size | None, above: tuple[str, ...]) -> list[CostLine]:
        function = provenance.called(self.resolved.program, op)
        if function is None:
            return []
        return self.function(function, frame.facts.entering(op, function), times, above)

    def instruction(self, op: Op, frame: _Frame, times: Size | None) -> list[CostLine]:
        resolved = self.resolved.of(op)
        declared = resolved.instruction
        control = declared is not None and (
            declared.cls == "sync_config" or declared.traits.alias is not None
        )
        if traits.structural_traits(op.name) is not None or op.name.startswith("memref."):
            return []
        if control and (self.model.name != "cce_stub" or not _is_control(op)):
            return []
        pipe, notes = effects.pipe_of(op), tuple[str, ...]()
        micro = isa.find_micro(op.name)
        if micro is not None and micro.kind in ("order", "scalar"):
            return []
        if micro is not None:
            pipe, figure = micro.pipe, vfsim.figure(op, frame.chains.add(op))
        elif declared is None:
            figure = no_data(self.model.name, f"{op.name} is not declared")
        elif control:
            figure = Figure(self.model.name, CONTROL, note="control call")
        elif resolved.bound is None:
            figure = no_data(self.model.name, str(resolved.problems[0].message))
        else:
            figure, notes = self.figure(op, declared, resolved.values, frame.facts.of(op))
        return [CostLine(op.name, frame.function.name, pipe, figure, times, op.span, notes)]

    def figure(
        self, op: Op, declared: isa.Instruction, values: Mapping[str, Value], known: OperandFacts
    ) -> tuple[Figure, tuple[str, ...]]:
        names = declared.sized_by if declared.destinations else tuple(o.name for o in declared.operands)
        sized = next((n for n in names if n in values), names[-1])
        value = values.get(sized)
        t = value.type if value is not None else None
        if value is None or not isinstance(t, TileType):
            return no_data(self.model.name, f"the tile type of {sized} is not given"), ()
        (row, col), notes = _valid(value, t, known)
        work = Work(
            op.name,
            t.dtype,
            row,
            col,
            t.rows,
            t.cols,
            t.layout,
            route=f"{_place(values.get('src'))}->{_place(values.get('dst'))}",
            static=t.is_static,
            binary=bool(op.attrs.get("isBinary")),
            block=_block(values, known),
            lists=sum(name.startswith("src") for name in values),
            source=_element(values.get("src")),
        )
        if declared.cls == "matrix":
            work, more = _product(work, values, known)
            notes += more
        return figure_of(self.model, work, self.profile), notes


def _noted(line: CostLine, note: str) -> CostLine:
    return replace(line, notes=(*line.notes, note))


def _is_control(op: Op) -> bool:
    """Whether an operation is a control call; tools turn events and waits for operations into such calls."""
    order = effects.traits_of(op).order
    return order is not None and order.through not in ("event", "operation")


def _valid(value: Value, t: TileType, known: OperandFacts) -> tuple[tuple[Size, Size], tuple[str, ...]]:
    """Valid sizes of a tile; the physical ones where the program does not say."""
    dynamic_sizes = known.valid.get(value.name, (None, None))
    sizes: list[Size] = []
    unknown = False
    for static, dynamic, physical in zip(t.valid, dynamic_sizes, t.shape, strict=True):
        unknown = unknown or (static is None and dynamic is None)
        sizes.append(static if static is not None else physical if dynamic is None else dynamic)
    note = (f"valid size of {value} not known, physical size taken",) if unknown else ()
    return (sizes[0], sizes[1]), note


def _product(work: Work, values: Mapping[str, Value], known: OperandFacts) -> tuple[Work, tuple[str, ...]]:
    """Rows and reduced size from the left operand, columns from the right one."""
    right = values["b"]
    if not isinstance(right.type, TileType):
        return work, ()
    (_, columns), notes = _valid(right, right.type, known)
    return replace(work, k=work.valid_col, valid_col=columns), notes


def _block(values: Mapping[str, Value], known: OperandFacts) -> Size:
    length = known.number(values.get("blockLen"))
    return 64 if length is None else length


def _element(value: Value | None) -> DType | None:
    return value.type.dtype if value is not None and isinstance(value.type, TileType) else None


def _place(value: Value | None) -> str:
    t = None if value is None else value.type
    return _PLACES[t.loc] if isinstance(t, TileType) else "GM"
