"""Integer scalar operations on known operands.

The interpreter folds with them while it executes, the verifier to see addresses and sizes that a text spells
by constants. They are those of the scalars of every machine: a division by zero and a shift by more than the
width have a value.
"""

import operator
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


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else a


def _ceiling(a: int, b: int) -> int:
    return -(-a // b) if b else -1


_COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge
}  # fmt: skip
#: Formulas of operands as signed integers (those of an unsigned type have no sign).
_SIGNED: dict[str, Callable[..., int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _quotient,
    "ceildivsi": _ceiling,
    "floordivsi": lambda a, b: a // b if b else -1,
    "remsi": _remainder,
    "minsi": min,
    "maxsi": max,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "shli": operator.lshift,
    "shrsi": operator.rshift,
    "index_cast": int,
    "trunci": int,
    # A true i1 is the number -1.
    "extsi": lambda a: -int(a) if isinstance(a, bool) else a,
    "cmpi.eq": operator.eq,
    "cmpi.ne": operator.ne,
    **{f"cmpi.s{name}": formula for name, formula in _COMPARISONS.items()},
}
#: Formulas of the bit patterns of operands.
_UNSIGNED: dict[str, Callable[..., int]] = {
    "divui": _quotient,
    "ceildivui": _ceiling,
    "remui": _remainder,
    "minui": min,
    "maxui": max,
    "shrui": operator.rshift,
    "index_castui": int,
    "extui": int,
    **{f"cmpi.u{name}": formula for name, formula in _COMPARISONS.items()},
}
_SHIFTS = ("shli", "shrsi", "shrui")


def wrapped(value: int, d: DType) -> int:
    """An integer reduced to the range of its type, two's complement."""
    if d == I1:
        return bool(value & 1)
    bits = d.bits
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if d.kind != "uint" and low >> (bits - 1) else low


def fold(name: str, args: Sequence[object], source: DType, result: DType) -> int | None:
    """The result of an operation on operands of type ``source`` when all are Python integers, else None.

    Shift counts are taken modulo the width.

    >>> from ..ir import I8
    >>> fold("arith.shrui", (-2, 9), I8, I8), fold("arith.remui", (-1, 10), I8, I8)
    (127, 5)
    """
    operation = name.removeprefix("arith.")
    signed = _SIGNED.get(operation)
    formula = signed or _UNSIGNED.get(operation)
    numbers = [a for a in args if isinstance(a, int)]
    if len(numbers) < len(args) or (formula is None and operation != "select"):
        return None
    if formula is None:
        condition, yes, no = numbers
        return wrapped(yes if condition else no, result)
    operands = [wrapped(n, source) for n in numbers]
    if operation in _SHIFTS:
        operands[1] %= source.bits
    if signed is None:
        operands = [n & ((1 << source.bits) - 1) for n in operands]
    return wrapped(formula(*operands), result)


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
    return fold(operation(op), args, scalar_dtype(op.ins[-1].type), scalar_dtype(op.results[0].type))
