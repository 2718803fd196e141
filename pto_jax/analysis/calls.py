"""How many calls and trips an execution makes: functions or loops in each other multiply."""

from collections.abc import Callable

from ..errors import Diagnostic
from ..ir import Op, Program, Region, Value
from ..isa.effects import traits_in, traits_of
from .facts import OperandFacts
from .provenance import called, calls
from .resolve import ResolvedProgram

#: Calls of one execution, loops counted once. Every call is verified, traced and executed by itself.
MOST_CALLS = 10_000
#: Trips of the loops of one execution: at a microsecond for each a day.
MOST_TRIPS = 1 << 36


def too_many_calls(program: Program) -> Diagnostic | None:
    """An error at the first function whose execution makes too many calls.

    Calls that lead back to where they are count once; they are errors of their own.
    """
    counts: dict[str, int] = {}

    def count(name: str, active: tuple[str, ...]) -> int:
        function = program.function(name)
        if name in active or function is None:
            return 0
        if name not in counts:
            counts[name] = sum(1 + count(f.name, (*active, name)) for _, f in calls(program, function))
        return counts[name]

    for function in program.functions:
        made = count(function.name, ())
        if made > MOST_CALLS:
            message = f"an execution of @{function.name} makes {made} calls; allowed: {MOST_CALLS}"
            return Diagnostic("error", message, function.span, "call", rule="limits")
    return None


def too_many_trips(resolved: ResolvedProgram) -> Diagnostic | None:
    """An error at the first function whose loops of constant bounds make too many trips, calls included."""
    program = resolved.program
    trips: dict[str, int] = {}

    def of_function(name: str, active: tuple[str, ...]) -> int:
        function = program.function(name)
        if name in active or function is None:
            return 0
        if name not in trips:
            facts = resolved.facts(function)
            steered = any(traits.calls or traits.regions is not None for traits in traits_in(function))
            trips[name] = of_region(function.body, facts.of, (*active, name)) if steered else 0
        return trips[name]

    def of_region(region: Region, facts: Callable[[Op], OperandFacts], active: tuple[str, ...]) -> int:
        return sum(of_op(op, facts, active) for op in region.ops)

    def of_op(op: Op, facts: Callable[[Op], OperandFacts], active: tuple[str, ...]) -> int:
        callee = called(program, op)
        if callee is not None:
            return of_function(callee.name, active)
        inside = sum(of_region(region, facts, active) for region in op.regions)
        regions = traits_of(op).regions
        return (
            _trips(op, facts(op)) * (1 + inside) if regions is not None and regions.runs == "for" else inside
        )

    for function in program.functions:
        count = of_function(function.name, ())
        if count > MOST_TRIPS:
            message = f"the loops of @{function.name} make {count} trips; allowed: {MOST_TRIPS}"
            return Diagnostic("error", message, function.span, rule="limits")
    return None


def _trips(loop: Op, known: OperandFacts) -> int:
    """How often a loop runs, once where only execution knows it."""
    low, high, step = (known.number(_first(loop, name)) for name in ("lb", "ub", "step"))
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0):
        return 1
    return max(0, -((low - high) // step))


def _first(op: Op, group: str) -> Value | None:
    return next(iter(op.group(group)), None)
