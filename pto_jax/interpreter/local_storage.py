"""Arrays and structures of scalars: kept in storage of their own, as tiles without a place are."""

from ..analysis.constant_folding import scalar_dtype
from ..ir import I64, U8, DType, LocalArrayType, Op, StructType, TileType, dtype
from .interpreter import Interpreter, executes
from .operands import Scalar, TileRef
from .scope import Scope
from .windows import advanced, require_inside, scalar


def _row(d: DType, elements: int) -> TileType:
    return TileType(U8 if d.bits < 8 else d, 1, elements)


@executes("declare_local_array")
def _declare_local_array(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, LocalArrayType)
    _declare(interpreter, op, scope, _row(t.dtype, t.elements))


@executes("declare_struct")
def _declare_struct(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Each scalar has a word of 64 bits."""
    t = op.results[0].type
    assert isinstance(t, StructType)
    _declare(interpreter, op, scope, _row(I64, len(list(t.leaves()))))


def _declare(interpreter: Interpreter, op: Op, scope: Scope, t: TileType) -> None:
    storage = interpreter.machine.allocate(op, t, None)
    scope.bind(op.results[0], TileRef(t, storage, *t.shape))


@executes("local_array_get")
def _local_array_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = _element(interpreter, op, scope)
    d = scalar_dtype(op.results[0].type)
    scope.bind(op.results[0], interpreter.machine.element(op, ref, position, d))


@executes("local_array_set")
def _local_array_set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = _element(interpreter, op, scope)
    interpreter.machine.set_element(op, ref, position, scope[op.group("value")[0]])


def _element(interpreter: Interpreter, op: Op, scope: Scope) -> tuple[TileRef, Scalar]:
    (array,) = op.group("array")
    assert isinstance(array.type, LocalArrayType)
    machine, dims = interpreter.machine, array.type.dims
    indices, ones = [scope[v] for v in op.group("indices")], [1] * len(dims)
    require_inside(machine, op, f"%{array.name}", indices, ones, dims)
    position: Scalar = 0
    for index, extent in zip(indices, dims, strict=True):
        position = advanced(machine, advanced(machine, 0, position, extent), index)
    ref = scope[array]
    assert isinstance(ref, TileRef)
    return ref, position


@executes("struct_get")
def _struct_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    machine, (position, d) = interpreter.machine, _field(op)
    word = machine.element(op, scope[op.ins[0]], position, I64)
    whole = _word(d)
    value = word if whole == I64 else scalar(machine, "arith.trunci", (word,), I64, whole)
    scope.bind(op.results[0], scalar(machine, "arith.bitcast", (value,), whole, d) if whole != d else value)


@executes("struct_set")
def _struct_set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    machine, (position, d) = interpreter.machine, _field(op)
    value, whole = scope[op.ins[1]], _word(d)
    if whole != d:
        value = scalar(machine, "arith.bitcast", (value,), d, whole)
    if whole != I64:
        value = scalar(machine, "arith.extsi", (value,), whole, I64)
    machine.set_element(op, scope[op.ins[0]], position, value)


def _word(d: DType) -> DType:
    """The integer that a scalar is kept as, before it takes 64 bits."""
    return dtype(f"i{d.bits}")


def _field(op: Op) -> tuple[int, DType]:
    """The number of the scalar that a path leads to, and its type."""
    t, path = op.ins[0].type, op.attrs["path"]
    assert isinstance(t, StructType)
    leaves = list(t.leaves())
    return next((i, d) for i, (found, d) in enumerate(leaves) if found == path)
