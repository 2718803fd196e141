"""Arrays of events, and asynchronous prefetches."""

from ..errors import Diagnostic, NotExecutableError
from ..ir import I1, INDEX, Op, OpaqueType
from .interpreter import Interpreter, executes
from .scope import Scope

#: What a prefetch gives: it changes no data, and has completed at once.
COMPLETED = ("completed",)


@executes("set_ffts")
def _set_ffts(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Where flags between cores lie has no effect on values."""


@executes("make_prefetch_async_context", "tprefetch_async", "get_prefetch_async_session")
def _prefetch(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    for result in op.results:
        scope.bind(result, COMPLETED)


@executes("wait_async_event", "test_async_event")
def _event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    if scope[op.ins[0]] != COMPLETED:
        message = "is not executed by this version for copies between processors; allowed: for prefetches"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="executable"))
    scope.bind(op.results[0], True)


@executes("declare_eventid_array")
def _declare_events(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, OpaqueType)
    scope.bind(op.results[0], (0,) * int(t.params))


@executes("eventid_array_get")
def _get_event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    array, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, array))


@executes("eventid_array_set")
def _set_event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    array, index, value = (scope[v] for v in op.ins)
    hits = [interpreter.scalar("arith.cmpi.eq", (index, i), INDEX, I1) for i in range(len(array))]
    chosen = [
        interpreter.scalar("arith.select", (hit, value, old), INDEX, INDEX)
        for hit, old in zip(hits, array, strict=True)
    ]
    scope.update(op.ins[0], tuple(chosen))
