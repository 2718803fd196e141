"""Pipes by handle, and handles without storage."""

from ..analysis.pipes import Key
from ..ir import Op, TileType
from . import fifo
from .fifo import Ring
from .interpreter import Interpreter, Steps, executes
from .operands import TileRef, region_of
from .pipes import end_at, pop, push
from .scope import Scope


@executes("initialize_l2l_pipe", "initialize_l2g2l_pipe")
def _ring(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    end = end_at(interpreter, op)
    keys: tuple[Key, Key] = (("flag", "0"), ("flag", "0"))
    if end.buffers or "flag_base" in op.attrs:
        keys = (end.key(1), end.key(2))
    memory = scope[end.memory] if end.memory is not None else None
    scope.bind(op.results[0], fifo.ring_of(interpreter, op, keys, memory, None))


@executes("declare_tile")
def _declare(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, TileType)
    scope.bind(op.results[0], TileRef(t, interpreter.machine.fresh(op, op.results[0], t), *region_of(t)))


@executes("declare_global")
def _declare_global(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A name that slots are bound to; before that it names nothing."""
    scope.bind(op.results[0], None)


@executes("talloc")
def _allocate(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    target = op.results[0] if op.results else op.ins[0]
    view = yield from fifo.allocate(interpreter, op, target.type, fifo.ring(op, scope))
    (scope.bind if op.results else scope.update)(target, view)


@executes("tpush")
def _push(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    entry, *more = (scope[v] for v in op.ins if not isinstance(scope[v], Ring))
    fifo.own_half(interpreter, op, more[0] if more else None)
    push(interpreter, op, entry, fifo.ring(op, scope), scope)


@executes("tpop")
def _pop(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    others = [v for v in op.ins if not isinstance(scope[v], Ring)]
    target = op.results[0] if op.results else others.pop(0)
    fifo.own_half(interpreter, op, scope[others[0]] if others else None)
    popped = yield from pop(interpreter, op, target, fifo.ring(op, scope))
    (scope.bind if op.results else scope.update)(target, popped)


@executes("tfree")
def _free(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    fifo.free(interpreter, op, fifo.ring(op, scope))
