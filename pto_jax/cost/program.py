"""Walking a program: which instructions run, on what sizes, how often."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .. import api, errors, isa, profiles
from ..analysis import entries, parts, provenance
from ..analysis.facts import Entered, FunctionFacts, solve
from ..analysis.lattices import OperandFacts
from ..analysis.resolve import ResolvedProgram, resolve
from ..ir import Function, Loc, Op, Program, Region, TileType, Value
from ..isa import effects, issue, structure
from .cce_stub import CONTROL
from .instruction import figure_of, model_called
from .report import CostLine, CostReport
from .sizes import Size, at_least, ceil_div, fold
from .work import Figure, Model, Work, no_data

_PLACES = {loc: loc.name.capitalize() for loc in Loc}


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
    selected = api.resolve_profile(program, profile)
    chosen = model_called(model, selected)
    program = parts.with_entry(program)
    function = entries.select_entry(program, entry)
    unknown = sorted(set(arguments or ()) - {value.name for value in function.args})
    if unknown:
        names = ", ".join(value.name for value in function.args) or "none"
        raise errors.ArgumentError(f"@{function.name} has no argument {', '.join(unknown)}; it has: {names}")
    walk = _Walk(resolve(program, selected), chosen, selected)
    lines = walk.function(function, Entered(tuple((arguments or {}).items())), 1, ())
    return CostReport(chosen.name, selected.name, tuple(lines), tuple(walk.notes))


@dataclass
class _Frame:
    """The function that is walked, and what is known of its operations."""

    function: Function
    facts: FunctionFacts


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
        for op in region.ops:
            lines += self.op(op, frame, times, above)
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
        if structure.structural_traits(op.name) is not None or op.name.startswith("memref."):
            return []
        if control and (self.model.name != "cce_stub" or not _is_control(op)):
            return []
        pipe, notes = issue.pipe_of(op), tuple[str, ...]()
        if declared is None:
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
        sized = next((n for n in declared.sized_by if n in values), declared.sized_by[-1])
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


def _place(value: Value | None) -> str:
    t = None if value is None else value.type
    return _PLACES[t.loc] if isinstance(t, TileType) else "GM"
