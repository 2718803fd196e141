"""``arith`` on concrete numbers: Python integers and floats in, the same out."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..errors import ArgumentError
from ..ir import I1, DType
from .numbers import decode, encode

Number: TypeAlias = int | float


def compute(name: str, args: Sequence[Any], source: DType, result: DType) -> Number:
    """One ``arith`` operation on operands of type ``source``."""
    operation, _, predicate = name.removeprefix("arith.").partition(".")
    if operation == "select":
        condition, yes, no = args
        chosen: Number = yes if condition else no
        # Not a Python number, which has one NaN.
        return _number(chosen, result) if isinstance(chosen, int | float) else chosen
    operands = [_number(a, source) for a in args]
    if operation == "cmpi":
        return _compare_integers(predicate, int(operands[0]), int(operands[1]), source)
    if operation == "cmpf":
        return _compare_floats(predicate, operands[0], operands[1])
    if operation in _INTEGER:
        return wrap(_INTEGER[operation](source, *map(int, operands)), result)
    if operation in _FLOAT:
        return _rounded(_FLOAT[operation](*map(np.float64, operands)), result)
    if operation in _CONVERT:
        return _CONVERT[operation](operands[0], source, result)
    raise ArgumentError(f"the scalar operation {name} is not executed", allowed=", ".join(_known()))


def wrap(value: int, d: DType) -> int:
    """An integer reduced to the range of its type.

    >>> from pto_jax.ir import I8, U8
    >>> wrap(200, I8), wrap(-1, U8)
    (-56, 255)
    """
    if d == I1:
        return bool(int(value) & 1)
    low = int(value) & ((1 << d.bits) - 1)
    return low - (1 << d.bits) if d.kind != "uint" and low >> (d.bits - 1) else low


def _number(value: Any, d: DType) -> Number:
    """A Python number of what a caller passed for a scalar of type ``d``."""
    array = np.asarray(value)
    if d.is_float:
        if array.dtype == d.word and d.numpy != d.word and d.word_bits < 32:
            array = decode(array.reshape(1), d)
            return float(array[0])
        return _rounded(array.reshape(-1)[0], d)
    return wrap(int(array.reshape(-1)[0]), d)


def _rounded(value: Any, d: DType) -> float:
    with np.errstate(all="ignore"):
        return float(decode(encode(np.full(1, value, np.float64), d), d)[0])


def _sticky(value: int) -> int:
    """An integer that fits float64 and rounds to narrower types as ``value`` does."""
    if abs(value) < 2**53:
        return value
    return value & ~2047 | (2048 if value & 2047 else 0)


def _unsigned(value: int, d: DType) -> int:
    return value & ((1 << d.bits) - 1)


def _divide(a: int, b: int) -> int:
    """Toward zero; by zero all ones."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _divide(a, b)


def _ceil(a: int, b: int) -> int:
    return -1 if b == 0 else -(-a // b)


def _floor(a: int, b: int) -> int:
    return -1 if b == 0 else a // b


_INTEGER: dict[str, Callable[..., int]] = {
    "addi": lambda d, a, b: a + b,
    "subi": lambda d, a, b: a - b,
    "muli": lambda d, a, b: a * b,
    "divsi": lambda d, a, b: _divide(a, b),
    "divui": lambda d, a, b: _divide(_unsigned(a, d), _unsigned(b, d)),
    "ceildivsi": lambda d, a, b: _ceil(a, b),
    "ceildivui": lambda d, a, b: _ceil(_unsigned(a, d), _unsigned(b, d)),
    "floordivsi": lambda d, a, b: _floor(a, b),
    "remsi": lambda d, a, b: _remainder(a, b),
    "remui": lambda d, a, b: _remainder(_unsigned(a, d), _unsigned(b, d)),
    "minsi": lambda d, a, b: min(a, b),
    "maxsi": lambda d, a, b: max(a, b),
    "minui": lambda d, a, b: min(_unsigned(a, d), _unsigned(b, d)),
    "maxui": lambda d, a, b: max(_unsigned(a, d), _unsigned(b, d)),
    "andi": lambda d, a, b: a & b,
    "ori": lambda d, a, b: a | b,
    "xori": lambda d, a, b: a ^ b,
    "shli": lambda d, a, b: a << (b % d.bits),
    "shrsi": lambda d, a, b: a >> (b % d.bits),
    "shrui": lambda d, a, b: _unsigned(a, d) >> (b % d.bits),
}


def _larger(a: np.float64, b: np.float64, *, keeps_nan: bool) -> np.float64:
    if np.isnan(a) or np.isnan(b):
        return a + b if keeps_nan else (b if np.isnan(a) else a)
    if a == b:
        return a if not np.signbit(a) else b
    return max(a, b)


def _float(formula: Callable[..., np.float64]) -> Callable[..., np.float64]:
    def quiet(*args: np.float64) -> np.float64:
        with np.errstate(all="ignore"):
            return formula(*args)

    return quiet


_FLOAT: dict[str, Callable[..., np.float64]] = {
    "addf": _float(lambda a, b: a + b),
    "subf": _float(lambda a, b: a - b),
    "mulf": _float(lambda a, b: a * b),
    "divf": _float(lambda a, b: a / b),
    "remf": _float(np.fmod),
    "negf": _float(lambda a: -a),
    "maximumf": _float(lambda a, b: _larger(a, b, keeps_nan=True)),
    "minimumf": _float(lambda a, b: -_larger(-a, -b, keeps_nan=True)),
    "maxnumf": _float(lambda a, b: _larger(a, b, keeps_nan=False)),
    "minnumf": _float(lambda a, b: -_larger(-a, -b, keeps_nan=False)),
}


def _to_integer(value: Number, result: DType, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return wrap(low if value < 0 else high, result)
    return wrap(max(low, min(high, math.trunc(value))), result)


_CONVERT: dict[str, Callable[[Any, DType, DType], Number]] = {
    "index_cast": lambda a, s, r: wrap(a, r),
    "index_castui": lambda a, s, r: wrap(_unsigned(a, s), r),
    "extsi": lambda a, s, r: wrap(-1 if s == I1 and a else a, r),
    "extui": lambda a, s, r: wrap(_unsigned(int(a), s), r),
    "trunci": lambda a, s, r: wrap(a, r),
    "extf": lambda a, s, r: _rounded(a, r),
    "truncf": lambda a, s, r: _rounded(a, r),
    "sitofp": lambda a, s, r: _rounded(_sticky(int(a)), r),
    "uitofp": lambda a, s, r: _rounded(_sticky(_unsigned(int(a), s)), r),
    "fptosi": lambda a, s, r: _to_integer(a, r, -(1 << (r.bits - 1)), (1 << (r.bits - 1)) - 1),
    "fptoui": lambda a, s, r: _to_integer(a, r, 0, (1 << r.bits) - 1),
    "bitcast": lambda a, s, r: _bitcast(a, s, r),
}


def _bitcast(value: Number, source: DType, result: DType) -> Number:
    if source.is_float:
        word = encode(np.full(1, value, np.float64), source)
    else:
        word = np.full(1, _unsigned(int(value), source), source.word)
    bits = int(word[0])
    if result.is_float:
        return float(decode(np.full(1, bits, result.word), result)[0])
    return wrap(bits, result)


def _compare_integers(predicate: str, a: int, b: int, d: DType) -> bool:
    if predicate.startswith("u"):
        a, b = _unsigned(a, d), _unsigned(b, d)
    return {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b
    }[predicate.removeprefix("s").removeprefix("u")]  # fmt: skip


def _compare_floats(predicate: str, a: float, b: float) -> bool:
    unordered = math.isnan(a) or math.isnan(b)
    fixed = {"false": False, "true": True, "ord": not unordered, "uno": unordered}
    if predicate in fixed:
        return fixed[predicate]
    if unordered:
        return predicate.startswith("u")
    return {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b
    }[predicate[1:]]  # fmt: skip


def _known() -> list[str]:
    return sorted({*_INTEGER, *_FLOAT, *_CONVERT, "cmpi", "cmpf", "select"})
