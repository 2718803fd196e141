"""Address binding, aliases, flags between cores, and synchronisation without an effect on values."""

from dataclasses import replace

from ..ir import Op, TileType
from . import cores, flags, reinterpret
from .interpreter import Interpreter, Steps, executes
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
    reinterpret.alias(interpreter, op, scope)


@executes("sync.set")
def _set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A flag of the cube core is seen by every vector core."""
    number = flags.flag_number(interpreter, op, scope)
    if number is not None:
        flags.set_flags(interpreter, number, _others(interpreter))


@executes("sync.wait")
def _wait(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """The cube core waits for all vector cores."""
    number = flags.flag_number(interpreter, op, scope)
    if number is not None:
        yield from flags.wait_for_flags(interpreter, op, number, _others(interpreter))


def _others(interpreter: Interpreter) -> list[cores.Core]:
    """The cores of the other kind."""
    cube = interpreter.core.kind == "cube"
    return [c for c in interpreter.shared.cores if (c.kind == "cube") != cube]
