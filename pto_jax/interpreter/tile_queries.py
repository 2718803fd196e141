"""The valid sizes of tiles as numbers."""

from __future__ import annotations

from ..ir.program import Op
from .interpreter import Interpreter, executes
from .scope import Scope


@executes("get_validshape")
def _get_validshape(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref = scope[op.ins[0]]
    for result, size in zip(op.results, (ref.v_row, ref.v_col), strict=True):
        scope.bind(result, size)


@executes("tile_valid_rows")
def _tile_valid_rows(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], scope[op.ins[0]].v_row)


@executes("tile_valid_cols")
def _tile_valid_cols(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], scope[op.ins[0]].v_col)
