"""Scalar values of a program: run-time ``arith`` operations, and scalars as instruction operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.dtypes import I1, DType
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.types import CmpMode
from pto_jax.walk import Scalar

from .numerics import Integer
from .rules import Semantics


def native(dtype: DType) -> np.dtype:
    """Array type of a scalar; ``index`` is 32 bits wide, as buffers have fewer than 2^31 elements."""
    return np.dtype(np.int32) if dtype.kind == "index" else np.dtype(dtype.numpy)


def to_native(value: Scalar, dtype: DType) -> Array:
    """A Python number or traced scalar as an array of its type."""
    if isinstance(value, bool | int | float):
        return jnp.asarray(np.asarray(value).astype(native(dtype)))
    return lax.convert_element_type(value, native(dtype))


def to_word(value: Scalar, dtype: DType) -> Array:
    """A scalar as a 0-d raw word of its element type."""
    if isinstance(value, bool | int | float):
        if dtype.is_integer:
            return jnp.asarray(dtype.word.type(int(value) & ((1 << dtype.word_bits) - 1)))
        return jnp.asarray(np.asarray(value).astype(dtype.numpy).view(dtype.word))
    if value.dtype == dtype.word:
        return jnp.asarray(value)
    return lax.bitcast_convert_type(lax.convert_element_type(value, dtype.numpy), dtype.word)


_COMPARISONS = {
    "eq": CmpMode.EQ, "ne": CmpMode.NE,
    "slt": CmpMode.LT, "sle": CmpMode.LE, "sgt": CmpMode.GT, "sge": CmpMode.GE,
    "ult": CmpMode.LT, "ule": CmpMode.LE, "ugt": CmpMode.GT, "uge": CmpMode.GE,
    "oeq": CmpMode.EQ, "une": CmpMode.NE,
    "olt": CmpMode.LT, "ole": CmpMode.LE, "ogt": CmpMode.GT, "oge": CmpMode.GE,
}  # fmt: skip
_COMPARE: dict[CmpMode, Callable[[Array, Array], Array]] = {
    CmpMode.EQ: lax.eq, CmpMode.NE: lax.ne, CmpMode.LT: lax.lt,
    CmpMode.LE: lax.le, CmpMode.GT: lax.gt, CmpMode.GE: lax.ge,
}  # fmt: skip
_INTEGER: dict[str, Callable[..., Array]] = {
    "addi": lax.add,
    "subi": lax.sub,
    "muli": lax.mul,
    "divsi": lax.div,
    "remsi": lax.rem,
    "minsi": lax.min,
    "maxsi": lax.max,
    "andi": lax.bitwise_and,
    "ori": lax.bitwise_or,
    "xori": lax.bitwise_xor,
    "shli": lax.shift_left,
    "shrsi": lax.shift_right_arithmetic,
    "shrui": lax.shift_right_logical,
}
_FLOAT = {"addf": "add", "subf": "sub", "mulf": "mul", "divf": "div"}
_CASTS = ("index_cast", "extsi", "trunci")


def compute(semantics: Semantics, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Array:
    """One ``arith`` operation; raises NotExecutableError for operations this version lacks."""
    operation = name.removeprefix("arith.")
    if operation.startswith("cmp"):
        return _compare(operation, args, source)
    if operation == "select":
        chosen, other = (to_native(a, result) for a in args[1:])
        return jnp.where(to_native(args[0], I1), chosen, other)
    if operation in _CASTS:
        return to_native(args[0], result)
    values = [to_native(a, source) for a in args]
    if operation in _INTEGER:
        return _INTEGER[operation](*values)
    if operation in _FLOAT:
        a = semantics.arithmetic(source)
        assert not isinstance(a, Integer)
        x, y = (a.num(lax.bitcast_convert_type(v, source.word)) for v in values)
        words = a.out(getattr(a, _FLOAT[operation])(x, y))
        return lax.bitcast_convert_type(words, source.numpy)
    raise NotExecutableError(Diagnostic("error", "is not executed by this version", None, name))


def _compare(operation: str, args: Sequence[Scalar], source: DType) -> Array:
    predicate = operation.split(".")[1]
    x, y = (to_native(a, source) for a in args)
    if predicate.startswith("u") and source.kind != "float":
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        x, y = (lax.bitcast_convert_type(v, unsigned) for v in (x, y))
    return _COMPARE[_COMPARISONS[predicate]](x, y)
