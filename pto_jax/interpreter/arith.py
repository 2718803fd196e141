"""Scalar arithmetic of the text: constants, and operations of the ``arith`` dialect."""

from ..analysis.constant_folding import operation, scalar_dtype, wrapped
from ..errors import Diagnostic, NotExecutableError
from ..ir import Op
from ..isa.structure import CAST
from .interpreter import Interpreter, executes
from .operands import Pointer, View
from .scope import Scope


@executes("arith.constant")
def _constant(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], op.attrs["value"])


@executes(CAST)
def _cast(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source, result = (scalar_dtype(v.type) for v in (*op.ins, *op.results))
    value = scope[op.ins[0]]
    if isinstance(value, View):
        scope.bind(op.results[0], Pointer(value.buffer, value.dtype, value.offset))
        return
    known = wrapped(value, result) if isinstance(value, int) else None
    scope.bind(
        op.results[0],
        interpreter.machine.scalar("arith.bitcast", [value], source, result) if known is None else known,
    )


@executes("arith")
def _arith(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    args = [scope[v] for v in op.ins]
    source = scalar_dtype(op.ins[-1].type)
    result = scalar_dtype(op.results[0].type)
    try:
        value = interpreter.scalar(operation(op), args, source, result)
    except NotExecutableError:
        finding = Diagnostic("error", "is not executed by this version", op.span, op.name, rule="executable")
        raise NotExecutableError(finding) from None
    scope.bind(op.results[0], value)
