"""Arithmetic on sizes that are numbers or arrays of numbers (NumPy, JAX, traced).

Formulas use these and operators only, never a Python branch on a size, so that a whole search space is
one evaluation.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..analysis.addresses import fold_op
from ..ir import Op

#: A size: an integer, or an array of integers.
Size: TypeAlias = Any


def ceil_div(a: Size, b: Size) -> Size:
    """Quotient rounded up.

    >>> ceil_div(9, 8), ceil_div(0, 8)
    (2, 0)
    """
    return -(-a // b)


def where(condition: Size, yes: Size, no: Size) -> Size:
    """``yes`` where the condition holds, else ``no``, in the array library of the arguments.

    >>> where(True, 1, 2)
    1
    """
    for value in (condition, yes, no):
        namespace = getattr(value, "__array_namespace__", None)
        if namespace is not None:
            return namespace().where(condition, yes, no)
    return yes if condition else no


def at_most(size: Size, limit: Size) -> Size:
    """The smaller of two sizes."""
    return where(size < limit, size, limit)


def at_least(size: Size, limit: Size) -> Size:
    """The larger of two sizes."""
    return where(size > limit, size, limit)


def nearest(value: Size) -> Size:
    """A cycle count from a real figure: rounded to nearest, halves up, never negative.

    >>> nearest(56.95), nearest(-0.2)
    (57, 0)
    """
    return at_least(whole((value + 0.5) // 1), 0)


def whole(value: Size) -> Size:
    """An integer from a real figure, its fraction cut off."""
    if isinstance(value, int | float | np.number):
        return int(value)
    return value.astype(int)


def is_number(value: Size) -> bool:
    """Whether a size is a plain number and not an array."""
    return isinstance(value, int | float | np.number)


#: Operations that have a result for arrays, too, by the numbers of their operands.
_OF_ARRAYS: Mapping[str, Callable[..., Size]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": at_most,
    "arith.maxsi": at_least,
    "arith.ceildivsi": ceil_div,
    **dict.fromkeys(("arith.index_cast", "arith.extsi", "arith.trunci", "arith.extui"), lambda a: a),
}


def fold(op: Op, known: Mapping[str, Size]) -> Size | None:
    """The size that an operation yields, as far as ``known`` gives its operands.

    Numbers as everywhere (:func:`pto_jax.analysis.addresses.fold_op`), arrays element by element.
    """
    number = fold_op(op, known)
    function = _OF_ARRAYS.get(op.name)
    if number is not None or function is None or not all(v.name in known for v in op.ins):
        return number
    return function(*(known[v.name] for v in op.ins))
