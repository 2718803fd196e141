"""Address binding, aliases, flags between cores, and synchronisation without an effect on values."""

from __future__ import annotations

from dataclasses import replace

from ..errors import Diagnostic, NotExecutableError
from ..ir.program import Op
from ..ir.types import TileType
from .interpreter import Interpreter, Steps, Waiting, executes
from .reinterpret import alias
from .scope import Scope


@executes("tsync", "record_event", "wait_event", "set_flag", "wait_flag", "set_flag_dyn", "wait_flag_dyn")
@executes("barrier", "barrier_sync", "get_buf", "rls_buf")
def _order(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Instructions take effect in program order: there is nothing to wait for."""


@executes("tassign")
def _tassign(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, address = scope[op.ins[0]], scope[op.ins[1]]
    t = op.results[0].type if op.results else ref.type
    assert isinstance(t, TileType)
    moved = replace(ref, type=t, storage=interpreter.machine.rebind(op, ref, t, address))
    if op.results:
        scope.bind(op.results[0], moved)
    else:
        scope.update(op.ins[0], moved)


@executes("talias")
def _talias(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    alias(interpreter, op, scope)


@executes("sync.set", "sync.wait")
def _flag(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """Flags between the cube core and the vector cores of a block; on one core the order is given.

    A flag of the cube core is seen by every vector core; the cube core waits for all vector cores.
    """
    shared, core = interpreter.shared, interpreter.core
    if interpreter.machine.abstract or not (shared.has("cube") and shared.has("vector")):
        return
    event = scope[op.ins[0]] if op.ins else op.attrs["event"]
    number = interpreter.machine.known(event)
    if number is None or interpreter.machine.depth != shared.depth:
        message = (
            "found a flag between cores under control flow that only execution knows; "
            "allowed: known conditions, trip counts and events"
        )
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="cores"))
    cube = core.kind == "cube"
    others = [c for c in shared.cores if (c.kind == "cube") != cube]
    if op.name == "sync.set":
        for other in others:
            key = (number, core, other)
            shared.flags[key] = shared.flags.get(key, 0) + 1
        shared.changes += 1
        return
    keys = [(number, other, core) for other in others]
    while not all(shared.flags.get(key) for key in keys):
        yield Waiting(op, f"flag {number}")
    for key in keys:
        shared.flags[key] -= 1
