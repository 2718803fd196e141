"""The valid sizes of tiles as numbers, and addresses as integers."""

from ..ir import Op, PtrType
from .interpreter import Interpreter, executes
from .pointers import address_of, pointer_at
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


@executes("ptrtoint")
def _ptrtoint(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], address_of(interpreter, scope[op.ins[0]]))


@executes("inttoptr")
def _inttoptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, PtrType)
    scope.bind(op.results[0], pointer_at(interpreter, op, scope[op.ins[0]], t.dtype))
