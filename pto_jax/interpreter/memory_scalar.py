"""Instructions that make scalars of memory, and memory of scalars."""

from dataclasses import replace

from ..analysis.constant_folding import scalar_dtype
from ..ir import Op
from .interpreter import Interpreter, executes
from .operands import Operand, Pointer, Scalar, TileRef
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
    dtype = scalar_dtype(result.type)

    def read(one: Operand) -> tuple[Operand, ...]:
        if isinstance(one, TileRef):
            return (machine.element(op, one, offset, dtype),)
        return (machine.load(op, _moved(interpreter, one, offset), dtype),)

    (value,) = interpreter.resolved(op, scope, pointer, read)
    scope.bind(result, value)


@executes("store_scalar")
def _store_scalar(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    value, pointer, offset = (scope[v] for v in op.ins)

    def write(one: Operand) -> tuple[Operand, ...]:
        if isinstance(one, TileRef):
            interpreter.machine.set_element(op, one, offset, value)
        else:
            interpreter.machine.store(op, _moved(interpreter, one, offset), value)
        return ()

    interpreter.resolved(op, scope, pointer, write)


def _moved(interpreter: Interpreter, pointer: Pointer, offset: Scalar) -> Pointer:
    return replace(pointer, offset=advanced(interpreter.machine, pointer.offset, offset))
