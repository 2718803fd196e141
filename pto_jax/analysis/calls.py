"""How many calls an execution makes: few functions that call each other twice are an exponential tree."""

from ..errors import Diagnostic
from ..ir import Program
from .provenance import called

#: Calls of one execution, loops counted once. Every call is verified, traced and executed by itself.
MOST_CALLS = 10_000


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
            callees = (called(program, op) for op in function.walk())
            counts[name] = sum(1 + count(f.name, (*active, name)) for f in callees if f is not None)
        return counts[name]

    for function in program.functions:
        calls = count(function.name, ())
        if calls > MOST_CALLS:
            message = f"an execution of @{function.name} makes {calls} calls; allowed: {MOST_CALLS}"
            return Diagnostic("error", message, function.span, "call", rule="limits")
    return None
