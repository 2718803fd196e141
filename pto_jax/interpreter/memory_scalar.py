"""Instructions that make scalars of memory, and memory of scalars."""

from __future__ import annotations

from ..analysis.constant_folding import scalar_dtype
from ..ir.program import Op
from .interpreter import Interpreter, executes
from .operands import Operand, Pointer, Scalar
from .scope import Scope
from .windows import advanced, flat


@executes("tgetval")
def _tgetval(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = (scope[v] for v in op.ins)
    result, machine = op.results[0], interpreter.machine
    dtype = scalar_dtype(result.type)

    def read(one: Operand) -> tuple[Operand, ...]:
        return (machine.element(op, flat(interpreter.machine, op, one), position, dtype),)

    (value,) = interpreter.resolved(op, scope, ref, read)
    scope.bind(result, value)


@executes("tsetval")
def _tsetval(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    position, value = (scope[v] for v in op.ins)
    for result in op.results:
        scope.bind(result, interpreter.fresh(op, result, {}))

    def write(one: Operand) -> tuple[Operand, ...]:
        interpreter.machine.set_element(op, flat(interpreter.machine, op, one), position, value)
        return ()

    interpreter.resolved(op, scope, scope[op.destinations[0]], write)


@executes("load_scalar")
def _load_scalar(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    result, machine = op.results[0], interpreter.machine
    dtype, at = scalar_dtype(result.type), _moved(interpreter, pointer, offset)
    (value,) = interpreter.resolved(op, scope, at, lambda one: (machine.load(op, one, dtype),))
    scope.bind(result, value)


@executes("store_scalar")
def _store_scalar(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    value, pointer, offset = (scope[v] for v in op.ins)

    def write(one: Operand) -> tuple[Operand, ...]:
        interpreter.machine.store(op, one, value)
        return ()

    interpreter.resolved(op, scope, _moved(interpreter, pointer, offset), write)


def _moved(interpreter: Interpreter, pointer: Pointer, offset: Scalar) -> Pointer:
    return Pointer(pointer.buffer, pointer.dtype, advanced(interpreter.machine, pointer.offset, offset))
