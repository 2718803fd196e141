"""Strides and addresses of views."""

from __future__ import annotations

from ..ir.program import Op
from .interpreter import Interpreter, executes
from .operands import Pointer
from .scope import Scope


@executes("get_tensor_view_stride")
def _get_tensor_view_stride(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, view.strides))


@executes("tensor_view_addr")
def _tensor_view_addr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view = scope[op.ins[0]]
    scope.bind(op.results[0], Pointer(view.buffer, view.dtype, view.offset))
