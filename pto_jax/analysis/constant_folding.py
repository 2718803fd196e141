"""Integer scalar operations on known operands.

The interpreter folds with them while it executes, the verifier to see addresses and sizes that a text spells
by constants.
"""

from collections.abc import Callable, Mapping, Sequence

from ..ir import I1, INDEX, DType, Op, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type
from ..isa.structure import CAST


def scalar_dtype(t: Type) -> DType:
    """Element type of a scalar value's type."""
    if isinstance(t, ScalarType):
        return t.dtype
    if isinstance(t, PtrType | TensorViewType | PartitionViewType | TileType):
        return t.dtype
    return INDEX


def _quotient(a: int, b: int) -> int:
    """Truncated towards zero; all ones for a zero divisor, as instructions give it."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: dict[str, Callable[..., int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _quotient,
    "arith.remsi": lambda a, b: a - b * _quotient(a, b) if b else a,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.index_cast": lambda a: a,
    "arith.extsi": lambda a: -int(a) if isinstance(a, bool) else a,
    "arith.trunci": lambda a: a,
    "arith.select": lambda c, a, b: a if c else b,
    "arith.cmpi.eq": lambda a, b: a == b,
    "arith.cmpi.ne": lambda a, b: a != b,
    "arith.cmpi.slt": lambda a, b: a < b,
    "arith.cmpi.sle": lambda a, b: a <= b,
    "arith.cmpi.sgt": lambda a, b: a > b,
    "arith.cmpi.sge": lambda a, b: a >= b,
}


def wrapped(value: int, d: DType) -> int:
    """An integer reduced to the range of its type, two's complement."""
    if d == I1:
        return bool(value & 1)
    bits = d.bits
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if d.kind != "uint" and low >> (bits - 1) else low


def fold(name: str, args: Sequence[object], result: DType) -> int | None:
    """The result of an operation when every operand is a Python integer, else None."""
    function = _INTEGER.get(name)
    if function is None or not all(isinstance(a, int) for a in args):
        return None
    return wrapped(function(*args), result)


def operation(op: Op) -> str:
    """The name of a scalar operation, comparisons with their predicate."""
    return f"{op.name}.{op.attrs['predicate']}" if op.name in ("arith.cmpi", "arith.cmpf") else op.name


def fold_op(op: Op, constants: Mapping[str, int]) -> int | None:
    """The integer an operation yields when ``constants`` give its operands, else None."""
    if len(op.results) != 1 or not op.name.startswith(("arith.", CAST)):
        return None
    if op.name == "arith.constant":
        value = op.attrs.get("value")
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    args = [constants[v.name] for v in op.ins if v.name in constants]
    if len(args) != len(op.ins):
        return None
    if op.name == CAST:
        return wrapped(args[0], scalar_dtype(op.results[0].type)) if len(args) == 1 else None
    return fold(operation(op), args, scalar_dtype(op.results[0].type))
