"""Integers that differ from block to block: one NumPy array for all blocks at once.

Axis 0 counts the blocks, later axes the trips of the loops around an operation. Arithmetic is that of
:mod:`pto_jax.analysis.addresses`, of all lanes together; what is the same in every lane is a
Python number again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..interpreter import Scalar
from ..interpreter.abstract import Unknown
from ..ir import I1, DType

#: The offset of an address whose arithmetic left 64 bits.
NOWHERE = -(1 << 63)

S = TypeVar("S", bound=np.generic)
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lanes:
    """An integer scalar with a value for every block and trip."""

    values: Integers


def is_integer(value: Scalar) -> TypeGuard[int | Lanes]:
    """Whether a scalar is known in every lane."""
    return isinstance(value, int | Lanes)


def spread(value: int | Lanes, rank: int) -> Integers:
    """The values of a scalar, ready to meet arrays of ``rank`` axes."""
    if isinstance(value, int):
        return np.asarray(value, np.int64)
    return aligned(value.values, rank)


def aligned(values: NDArray[S], rank: int) -> NDArray[S]:
    """An array made outside of some loops, with an axis of length one for the trips of each."""
    return values.reshape(values.shape + (1,) * (rank - values.ndim))


def settled(values: Integers, dtype: DType | None = None) -> int | Lanes:
    """The lanes as one Python number where they agree."""
    first = values.flat[0]
    if (values == first).all():
        return bool(first) if dtype == I1 else int(first)
    return Lanes(values)


def compute(name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
    """An ``arith`` operation; unknown where an operand is, or is no integer."""
    operation = name.removeprefix("arith.")
    if operation == "select":
        return choose(*args)
    formula = _FORMULAS.get(operation)
    if formula is None or not all(is_integer(a) for a in args):
        return Unknown()
    with np.errstate(over="ignore"):
        values = formula(source, *_together(args))
        return settled(wrap(np.asarray(values).astype(np.int64), result), result)


def address(base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
    """``base + index * stride``; NOWHERE where the product or the sum leaves 64 bits."""
    if not all(map(is_integer, (base, index, stride))):
        return Unknown()
    first, steps, step = _together((base, index, stride))
    with np.errstate(over="ignore"):
        exact = first.astype(np.float64) + steps.astype(np.float64) * step.astype(np.float64)
        leaves = (first == NOWHERE) | (np.abs(exact) >= 2.0**63)
        return settled(np.where(leaves, np.int64(NOWHERE), first + steps * step))


def choose(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    """``yes`` in the lanes where a condition holds, ``no`` in the others."""
    if isinstance(condition, int):
        return yes if condition else no
    if yes is no or (isinstance(yes, int) and isinstance(no, int) and yes == no):
        return yes
    if isinstance(condition, Lanes) and is_integer(yes) and is_integer(no):
        which, first, second = _together((condition, yes, no))
        kind = I1 if isinstance(yes, bool) and isinstance(no, bool) else None
        return settled(np.where(which != 0, first, second), kind)
    return Unknown()


def wrap(values: Integers, dtype: DType) -> Integers:
    """Integers reduced to the range of their type, two's complement."""
    if dtype == I1:
        return values & 1
    if dtype.bits >= 64:
        return values
    low = values & np.int64((1 << dtype.bits) - 1)
    if dtype.kind == "uint":
        return low
    sign = np.int64(1 << (dtype.bits - 1))
    return (low ^ sign) - sign


def _together(args: Sequence[Scalar]) -> list[Integers]:
    rank = max((a.values.ndim for a in args if isinstance(a, Lanes)), default=0)
    return [spread(a, rank) for a in args]


_Formula = Callable[..., NDArray[np.generic]]


def _signed(formula: _Formula) -> _Formula:
    return lambda source, *args: formula(*args)


def _unsigned(formula: _Formula) -> _Formula:
    """A formula on the bit patterns of the operands."""

    def apply(source: DType, *args: Integers) -> NDArray[np.generic]:
        mask = np.uint64((1 << min(source.bits, 64)) - 1)
        return formula(*(a.astype(np.uint64) & mask for a in args))

    return apply


def _shift(formula: _Formula, *, unsigned: bool = False) -> _Formula:
    """Shift counts are taken modulo the width."""

    def apply(source: DType, value: Integers, count: Integers) -> NDArray[np.generic]:
        bits = min(source.bits, 64)
        if unsigned:
            places = (count % bits).astype(np.uint64)
            return formula(value.astype(np.uint64) & np.uint64((1 << bits) - 1), places)
        return formula(value, count % bits)

    return apply


def _divided(rounding: _Formula) -> _Formula:
    """A quotient; all ones for a divisor of zero."""

    def apply(a: Integers, b: Integers) -> NDArray[np.generic]:
        zero = b == 0
        return np.where(
            zero, np.full((), -1).astype(a.dtype), rounding(a, np.where(zero, a.dtype.type(1), b))
        )

    return apply


def _truncated(a: Any, b: Any) -> Any:
    down = a // b
    return down + ((down < 0) & (down * b != a))


def _remainder(a: Any, b: Any) -> Any:
    divisor = np.where(b == 0, a.dtype.type(1), b)
    return np.where(b == 0, a, a - divisor * _truncated(a, divisor))


def _up(a: Any, b: Any) -> Any:
    down = a // b
    return down + (down * b != a)


_COMPARISONS: dict[str, _Formula] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_FORMULAS: dict[str, _Formula] = {
    "addi": _signed(np.add),
    "subi": _signed(np.subtract),
    "muli": _signed(np.multiply),
    "divsi": _signed(_divided(_truncated)),
    "divui": _unsigned(_divided(np.floor_divide)),
    "ceildivsi": _signed(_divided(_up)),
    "ceildivui": _unsigned(_divided(_up)),
    "floordivsi": _signed(_divided(np.floor_divide)),
    "remsi": _signed(_remainder),
    "remui": _unsigned(_remainder),
    "minsi": _signed(np.minimum),
    "maxsi": _signed(np.maximum),
    "minui": _unsigned(np.minimum),
    "maxui": _unsigned(np.maximum),
    "andi": _signed(np.bitwise_and),
    "ori": _signed(np.bitwise_or),
    "xori": _signed(np.bitwise_xor),
    "shli": _shift(np.left_shift),
    "shrsi": _shift(np.right_shift),
    "shrui": _shift(np.right_shift, unsigned=True),
    "index_cast": _signed(lambda a: a),
    "trunci": _signed(lambda a: a),
    "index_castui": _unsigned(lambda a: a),
    "extui": _unsigned(lambda a: a),
    # A true i1 is the number -1.
    "extsi": lambda source, a: -a if source == I1 else a,
    "cmpi.eq": _signed(np.equal),
    "cmpi.ne": _signed(np.not_equal),
    **{f"cmpi.s{name}": _signed(formula) for name, formula in _COMPARISONS.items()},
    **{f"cmpi.u{name}": _unsigned(formula) for name, formula in _COMPARISONS.items()},
}
