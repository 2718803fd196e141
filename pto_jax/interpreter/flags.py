"""Flags between the cores of a block: how often each was set, and not waited for yet."""

from collections.abc import Sequence

from ..errors import Diagnostic, NotExecutableError
from ..ir import Op
from .cores import Core
from .interpreter import Interpreter, Steps, Waiting
from .scope import Scope


def flag_number(interpreter: Interpreter, op: Op, scope: Scope) -> int | None:
    """The number of an operation's flag; None where the block has no two kinds of cores."""
    shared = interpreter.shared
    if interpreter.machine.abstract or not (shared.has("cube") and shared.has("vector")):
        return None
    event = scope[op.ins[0]] if op.ins else op.attrs["event"]
    number = interpreter.machine.known(event)
    if number is None or interpreter.machine.depth != shared.depth:
        message = (
            "found a flag between cores under control flow that only execution knows; "
            "allowed: known conditions, trip counts and events"
        )
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="cores"))
    return number


def set_flags(interpreter: Interpreter, number: int, others: Sequence[Core]) -> None:
    """Set a flag for other cores."""
    shared = interpreter.shared
    for other in others:
        key = (number, interpreter.core, other)
        shared.flags[key] = shared.flags.get(key, 0) + 1
    shared.changes += 1


def wait_for_flags(interpreter: Interpreter, op: Op, number: int, others: Sequence[Core]) -> Steps[None]:
    """Wait until all of some other cores have set a flag, and take it back."""
    shared = interpreter.shared
    keys = [(number, other, interpreter.core) for other in others]
    while not all(shared.flags.get(key) for key in keys):
        yield Waiting(op, f"flag {number}")
    for key in keys:
        shared.flags[key] -= 1
