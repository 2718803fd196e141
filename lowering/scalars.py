"""Scalar values of a program: run-time ``arith`` operations, and scalars as instruction operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Scalar
from pto_jax.ir import I1, I64, CmpMode, DType, RoundMode, dtype as find_dtype

from . import bits, canary, convert, numerics, platforms
from .numerics import Float, Integer
from .rules import Semantics

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped, UInt

    from .bits import Floats, Integers, Leaf, Word


def native(dtype: DType) -> np.dtype:
    """Array type of a scalar; ``index`` has 64 bits."""
    return np.dtype(dtype.numpy)


def to_native(value: Scalar, dtype: DType) -> Shaped[Array, ""]:
    """A Python number or traced scalar as an array of its type."""
    if isinstance(value, bool | int | float):
        return jnp.asarray(np.asarray(value).astype(native(dtype)))
    return lax.convert_element_type(value, native(dtype))


def to_carried(value: Scalar, dtype: DType) -> Shaped[Array, ""]:
    """A scalar as an array that XLA chooses between without a change: words of floats that it converts."""
    array = to_native(value, dtype)
    return array if bits.moves_intact(dtype) else bits.raw(array)


def of_carried(array: Shaped[Array, ""], dtype: DType) -> Shaped[Array, ""]:
    """The scalar that :func:`to_carried` gave such an array for."""
    return array if bits.moves_intact(dtype) else bits.from_words(array, native(dtype))


def converted(value: Scalar, source: DType | None, dtype: DType) -> Scalar:
    """A traced scalar of one type as one of another type of its kind, floats rounded once."""
    if source is None or source == dtype or isinstance(value, bool | int | float):
        return value
    if not dtype.is_float:
        return lax.convert_element_type(value, dtype.numpy)
    return _refloat(lax.convert_element_type(value, source.numpy), source, dtype)


def to_word(value: Scalar, dtype: DType) -> Word:
    """A scalar as a 0-d raw word of its element type."""
    if isinstance(value, bool | int | float):
        if dtype.is_integer:
            return jnp.asarray(dtype.word.type(int(value) & ((1 << dtype.word_bits) - 1)))
        return jnp.asarray(np.asarray(value).astype(dtype.numpy).view(dtype.word))
    if value.dtype == dtype.word:
        return jnp.asarray(value)
    return lax.bitcast_convert_type(lax.convert_element_type(value, dtype.numpy), dtype.word)


def compute(
    semantics: Semantics, name: str, args: Sequence[Scalar], source: DType, result: DType
) -> Shaped[Array, ""]:
    """One ``arith`` operation; raises NotExecutableError for operations this version lacks."""
    operation, _, predicate = name.removeprefix("arith.").partition(".")
    if operation == "select":
        chosen, other = (to_carried(a, result) for a in args[1:])
        return of_carried(jnp.where(to_native(args[0], I1), chosen, other), result)
    values = [to_native(a, source) for a in args]
    if operation == "cmpi":
        return _compare_integers(predicate, *values)
    if operation in _INTEGER:
        return _integer(operation, values, source)
    if operation in _CONVERSIONS:
        return _CONVERSIONS[operation](values[0], source, result)
    if operation == "cmpf" or operation in _FLOAT:
        if semantics.numerics == "exact":
            canary.require(platforms.expected())
        a = replace(semantics, doubting=False).arithmetic(source)
        assert not isinstance(a, Integer)
        words = [lax.bitcast_convert_type(v, source.word) for v in values]
        if operation == "cmpf":
            return _compare_floats(predicate, a, *words)
        return lax.bitcast_convert_type(_FLOAT[operation](a, *words), source.numpy)
    raise NotExecutableError(Diagnostic("error", "is not executed by this version", None, name))


_ORDER: dict[str, CmpMode] = {m.name.lower(): m for m in CmpMode}


def _compare_integers(predicate: str, x: Shaped[Array, ""], y: Shaped[Array, ""]) -> Bool[Array, ""]:
    if predicate.startswith("u"):
        x, y = _unsigned(x), _unsigned(y)
    return numerics.COMPARE[_ORDER[predicate[-2:]]](x, y)


def _compare_floats(predicate: str, a: Float, x: Word, y: Word) -> Bool[Array, ""]:
    """``o`` predicates are false and ``u`` predicates true where an operand is NaN."""
    u, v = a.decode(x), a.decode(y)
    unordered = a.is_nan(u) | a.is_nan(v)
    match predicate:
        case "true" | "false":
            return jnp.full(unordered.shape, predicate == "true")
        case "uno":
            return unordered
        case "ord":
            return ~unordered
    holds = a.compare(_ORDER[predicate[1:]], u, v)
    return holds | unordered if predicate[0] == "u" else holds & ~unordered


def _unsigned(x: Shaped[Array, ""]) -> UInt[Array, ""]:
    if x.dtype == np.bool_:
        return lax.convert_element_type(x, np.uint8)
    return lax.bitcast_convert_type(x, np.dtype(f"u{x.dtype.itemsize}"))


def _integer(operation: str, values: Sequence[Shaped[Array, ""]], source: DType) -> Shaped[Array, ""]:
    """An integer operation in the source type; booleans are computed in a byte, of which bit 0 counts."""
    target = native(source)
    if source == I1 or operation in _UNSIGNED:
        values = [_unsigned(v) for v in values]
    result = _INTEGER[operation](*values)
    if source == I1:
        return _truncate(result, source, I1)
    return result if result.dtype == target else lax.bitcast_convert_type(result, target)


def _floor(x: Integers, y: Integers) -> Integers:
    return _divide(x, y, towards=-1)


def _ceil(x: Integers, y: Integers) -> Integers:
    return _divide(x, y, towards=1)


def _divide(x: Integers, y: Integers, towards: int) -> Integers:
    """The quotient rounded down (-1) or up (1); what XLA gives for a division by zero."""
    zero = x.dtype.type(0)
    quotient, rest = lax.div(x, y), lax.rem(x, y)
    positive = lax.eq(lax.lt(rest, zero), lax.lt(y, zero))
    other_side = positive if towards > 0 else lax.bitwise_not(positive)
    inexact = lax.bitwise_and(lax.ne(y, zero), lax.ne(rest, zero))
    next_one = (lax.add if towards > 0 else lax.sub)(quotient, x.dtype.type(1))
    return lax.select(lax.bitwise_and(inexact, other_side), next_one, quotient)


def _shift(shift: numerics.Lanewise) -> numerics.Lanewise:
    """The count is taken modulo the width, as instructions take it."""

    def apply(x: Integers, y: Integers) -> Integers:
        return shift(x, y & y.dtype.type(x.dtype.itemsize * 8 - 1))

    return apply


#: Operations on the operands as unsigned numbers.
_UNSIGNED = frozenset({"divui", "ceildivui", "remui", "minui", "maxui", "shrui"})
_INTEGER: dict[str, numerics.Lanewise] = {
    "addi": lax.add,
    "subi": lax.sub,
    "muli": lax.mul,
    "divsi": lax.div,
    "divui": lax.div,
    "ceildivsi": _ceil,
    "ceildivui": _ceil,
    "floordivsi": _floor,
    "remsi": lax.rem,
    "remui": lax.rem,
    "minsi": lax.min,
    "minui": lax.min,
    "maxsi": lax.max,
    "maxui": lax.max,
    "andi": lax.bitwise_and,
    "ori": lax.bitwise_or,
    "xori": lax.bitwise_xor,
    "shli": _shift(lax.shift_left),
    "shrsi": _shift(lax.shift_right_arithmetic),
    "shrui": _shift(lax.shift_right_logical),
}


def _binary(operation: str, a: Float, x: Word, y: Word) -> Word:
    return a.encode(getattr(a, operation)(a.decode(x), a.decode(y)))


def _extreme(mode: CmpMode, keeps_nan: bool, a: Float, x: Word, y: Word) -> Word:
    """The operand that ``mode`` prefers; of two zeros the one with the preferred sign."""
    u, v = a.decode(x), a.decode(y)
    zeros = x & y if mode == CmpMode.GT else x | y
    result = jnp.where(a.compare(CmpMode.EQ, u, v), zeros, jnp.where(a.compare(mode, u, v), x, y))
    if keeps_nan:
        nan = a.dtype.word.type(a.dtype.canonical_nan)
        return jnp.where(a.is_nan(u) | a.is_nan(v), nan, result)
    return jnp.where(a.is_nan(u), y, jnp.where(a.is_nan(v), x, result))


def _negated(a: Float, x: Word) -> Word:
    return x ^ a.dtype.word.type(1 << (a.dtype.bits - 1))


_FLOAT: dict[str, Callable[..., Word]] = {
    "addf": partial(_binary, "add"),
    "subf": partial(_binary, "sub"),
    "mulf": partial(_binary, "mul"),
    "divf": partial(_binary, "div"),
    "remf": partial(_binary, "fmod"),
    "negf": _negated,
    "maximumf": partial(_extreme, CmpMode.GT, True),
    "minimumf": partial(_extreme, CmpMode.LT, True),
    "maxnumf": partial(_extreme, CmpMode.GT, False),
    "minnumf": partial(_extreme, CmpMode.LT, False),
}


def _resize(x: Shaped[Array, ""], result: DType) -> Shaped[Array, ""]:
    resized: Array = lax.convert_element_type(x, native(result))
    return resized


def _extend(x: Shaped[Array, ""], source: DType, result: DType) -> Shaped[Array, ""]:
    wide = _resize(x, result)
    return -wide if source == I1 else wide


def _extend_unsigned(x: Shaped[Array, ""], source: DType, result: DType) -> Shaped[Array, ""]:
    return _resize(_unsigned(x), result)


def _truncate(x: Shaped[Array, ""], source: DType, result: DType) -> Shaped[Array, ""]:
    if result == I1:
        return lax.ne(lax.bitwise_and(x, x.dtype.type(1)), x.dtype.type(0))
    return _resize(x, result)


def _refloat(x: Floats, source: DType, result: DType) -> Floats:
    words = lax.bitcast_convert_type(x, source.word)
    return lax.bitcast_convert_type(bits.encode(bits.decode(words, source), result), result.numpy)


def _to_float(x: Shaped[Array, ""], result: DType) -> Floats:
    """Integers of the array's own type, rounded once."""
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, np.uint8)
    element = find_dtype(f"{x.dtype.kind}{x.dtype.itemsize * 8}")
    value = convert.to_float64(lax.bitcast_convert_type(x, element.word), element)
    return lax.bitcast_convert_type(bits.encode(value, result), result.numpy)


def _to_integer(x: Floats, source: DType, result: DType, signed: bool) -> Shaped[Array, ""]:
    """Truncated and clamped to the signed or unsigned range; NaN gives zero."""
    value = bits.decode(lax.bitcast_convert_type(x, source.word), source)
    width = native(result).itemsize * 8
    target = find_dtype(f"{'i' if signed else 'u'}{width}") if result != I1 else I64
    words = convert.clamp_to_int(convert.round_whole(value, RoundMode.TRUNC), target, 0)
    whole = lax.bitcast_convert_type(words, target.numpy)
    if result == I1:
        whole = lax.clamp(whole.dtype.type(-signed), whole, whole.dtype.type(not signed))
    return _truncate(whole, target, result)


def _bitcast(x: Shaped[Array, ""], source: DType, result: DType) -> Shaped[Array, ""]:
    return lax.bitcast_convert_type(x, native(result))


_CONVERSIONS: dict[str, Callable[[Leaf, DType, DType], Leaf]] = {
    "index_cast": _truncate,
    "index_castui": _extend_unsigned,
    "extsi": _extend,
    "extui": _extend_unsigned,
    "trunci": _truncate,
    "extf": _refloat,
    "truncf": _refloat,
    "sitofp": lambda x, s, r: _to_float(x, r),
    "uitofp": lambda x, s, r: _to_float(_unsigned(x), r),
    "fptosi": partial(_to_integer, signed=True),
    "fptoui": partial(_to_integer, signed=False),
    "bitcast": _bitcast,
}
