"""Reductions along one axis, in the order and with the roundings of the ISA.

All functions work on *lines*: words [n, m] whose first axis is the one reduced, or, where an ``axis`` may be
told, that axis. Lines beyond a valid region are replaced by the operation's identity before the fold
(:func:`mask_lines`), so that the fold itself needs no masks: x + -0 and x * 1 leave every x as it is.

Exact float32 sums are computed in float32 where a *certificate* tells that this changes nothing. If no line
has a nonzero number below 2^-102, all lines are multiples of 2^-125, and so are all sums, rounded or not:
none of them is subnormal, whatever the order. In place of a smaller number :data:`bits.DOUBT` is added,
which stays in the sum: one such sum, anywhere in a batch, and the batch is summed in float64. A sum that is
NaN for another reason is right with both. As the compiler cannot know what is added, it contracts no product
with the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F16, F32, DType

from . import bits, formulas, platforms, slicing
from .numerics import (
    FORMATS,
    DoubtingFloat,
    ExactFloat,
    FastFloat,
    Float,
    Integer,
    Lanewise,
    NativeFloat,
    Real,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float as Floating, Float32, Int, Int32, Shaped, UInt, UInt32

    from .bits import Size

Operation: TypeAlias = Literal["add", "mul"]
#: Takes the number so far and the words of one line, and gives the next number.
Step: TypeAlias = (
    "Callable[[Shaped[Array, '... lanes'], UInt[Array, '... lanes']], Shaped[Array, '... lanes']]"
)
#: Lines that one trip of a fold's loop takes: with more a program takes longer to compile.
STEP = 16
#: As STEP, of sums with a certificate, whose code is short, and where there is no other code for them.
CERTIFIED_STEP, ONLY_CERTIFIED_STEP = 16, 32
#: As STEP, of folds that are rarely executed.
RARE_STEP = 2
#: Parts of a row, at most, that are combined element by element.
PARTS = 8
#: As STEP on GPUs, where every trip is a kernel launch.
NATIVE_STEP = 128
#: Twice 2^-102 in words, less one: magnitudes from there on are certified.
_CERTAIN = np.uint32(((127 - 102) << 24) - 1)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_F16_LARGEST, _F32_INFINITY = np.uint32(0x477FE000), np.uint32(0x7F800000)


def mask_lines(
    lines: Shaped[Array, "_ _"], size: Size | int, fill: np.number[Any], axis: int = 0
) -> Shaped[Array, "_ _"]:
    """The lines before ``size``, ``fill`` in the others; a known size cuts them off instead."""
    count = lines.shape[axis]
    if isinstance(size, int):
        return lines if size >= count else lax.slice_in_dim(lines, 0, max(size, 0), axis=axis)
    shape = (count, 1) if axis == 0 else (1, count)
    return bits.where(lax.lt(lax.broadcasted_iota(np.int32, shape, axis), size), lines, fill)


def identity(operation: Operation, dtype: DType) -> np.unsignedinteger[Any]:
    """The word that changes nothing: -0 (0 for integers) in sums, 1 in products."""
    if operation == "add":
        return bits.dtype_sign(dtype) if dtype.is_float else dtype.word.type(0)
    return dtype.word.type(dtype.bias << dtype.mantissa if dtype.is_float else 1)


def left_fold(
    a: Float, source: Float, operation: Operation, lines: UInt[Array, "_ _"], axis: int = 0
) -> UInt[Array, " lanes"]:
    """``+0 + line0 + line1 ...`` or ``1 * line0 * line1 ...``, rounded to ``a``'s type after every step.

    The lines are words of ``source``: values of the whole tile would have to be kept, which takes longer
    than decoding line by line. Under fast numerics order and roundings are XLA's choice.
    """
    if isinstance(a, FastFloat):
        values = a.single(source.decode(lines))
        return a.encode((jnp.sum if operation == "add" else jnp.prod)(values, axis=axis))
    if isinstance(a, DoubtingFloat) and operation == "add":
        start = _start(lines, operation, axis, np.float32)
        total = _folded(partial(_certified_step, source.dtype), start, lines, axis, ONLY_CERTIFIED_STEP)
        return positive_zero(a.encode(Real(total)), F32)
    if isinstance(a, ExactFloat) and a.dtype == F32 and operation == "add" and source.dtype.name in FORMATS:
        return _certified_sums(source.dtype, axis)(lines[None])[0]
    return _careful_fold(a, source, operation, lines, axis)


def _careful_fold(
    a: ExactFloat | NativeFloat,
    source: Float,
    operation: Operation,
    lines: UInt[Array, "_ _"],
    axis: int,
    unroll: int = STEP,
) -> UInt[Array, " lanes"]:
    """:func:`left_fold` of any numbers."""
    native = isinstance(a, NativeFloat)
    half = not native and a.dtype == source.dtype == F16
    start = _start(lines, operation, axis, np.float32 if native or half else np.float64)
    step = _step_half(operation) if half else _step(a, source, operation)
    total = _folded(step, start, lines, axis, NATIVE_STEP if native else unroll, at_once=native)
    if half:
        words = bits.f32_to_f16(lax.bitcast_convert_type(total, np.uint32))
    else:
        words = a.encode(total if native else Real(total))
    return positive_zero(words, a.dtype) if operation == "add" else words


@cache
def _certified_sums(d: DType, axis: int) -> Callable[..., UInt32[Array, "batch lanes"]]:
    """float32 words of the sums of batches of lines, words of a type."""

    def careful(lines: UInt[Array, "batch _ _"], _: UInt32[Array, "batch lanes"]) -> UInt32[Array, "..."]:
        exact = ExactFloat(F32), ExactFloat(d)
        return jax.vmap(lambda lines: _careful_fold(*exact, "add", lines, axis, RARE_STEP))(lines)

    def sums(lines: UInt[Array, "batch _ _"]) -> UInt32[Array, "batch lanes"]:
        start = jax.vmap(lambda lines: _start(lines, "add", axis, np.float32))(lines)
        total = _folded(partial(_certified_step, d), start, lines, axis + 1, CERTIFIED_STEP)
        words = jax.vmap(lambda total: positive_zero(NativeFloat(F32).encode(total), F32))(total)
        magnitude = lax.bitwise_and(lax.bitcast_convert_type(total, np.uint32), _MAGNITUDE)
        doubt = jnp.any(lax.eq(magnitude, bits.DOUBT))
        result: Array = lax.cond(doubt, careful, lambda _, words: words, lines, words)
        return result

    return slicing.of_batches(sums, 1)


def _certified_step(
    d: DType, total: Float32[Array, "batch lanes"], line: UInt[Array, "batch lanes"]
) -> Float32[Array, "batch lanes"]:
    """One more line in sums; in place of a number that is too small, the NaN that says so."""
    words = bits.to_single(line, d)
    # Of a zero it is the largest integer.
    magnitude = lax.shift_left(words, np.uint32(1)) - np.uint32(1)
    # With the number's sign, as XLA would take a constant out of the choice, and contract a product then.
    doubt = lax.bitwise_or(lax.bitwise_and(words, np.uint32(1 << 31)), bits.DOUBT)
    words = lax.select(lax.lt(magnitude, _CERTAIN), doubt, words)
    return lax.add(total, lax.bitcast_convert_type(words, np.float32))


def _folded(
    step: Step,
    start: Shaped[Array, "... lanes"],
    lines: UInt[Array, "... _ _"],
    axis: int,
    unroll: int,
    at_once: bool = False,
) -> Shaped[Array, "... lanes"]:
    """``step`` over the lines one after another, ``unroll`` of them per trip of a loop.

    They are read ``at_once``, which is one kernel on GPUs, or each by itself: of several, XLA makes a copy
    first on CPUs.
    """
    count, shape = lines.shape[axis], lines.shape

    def some(first: Int32[Array, ""] | int, number: int) -> UInt[Array, "... _ _"]:
        starts = [first if i == axis else 0 for i in range(lines.ndim)]
        return slicing.slice_at(lines, starts, [number if i == axis else n for i, n in enumerate(shape)])

    def line(number: Int32[Array, ""] | int) -> UInt[Array, "... lanes"]:
        return lax.squeeze(some(number, 1), [axis])

    def trip(i: Int32[Array, ""], total: Shaped[Array, "... lanes"]) -> Shaped[Array, "... lanes"]:
        first = lax.mul(i, np.int32(unroll))
        part = some(first, unroll) if at_once else None
        for k in range(unroll):
            words = (
                line(lax.add(first, np.int32(k))) if part is None else lax.index_in_dim(part, k, axis, False)
            )
            total = step(total, words)
        return total

    trips = count // unroll if count > unroll else 0
    if trips:
        start = slicing.repeated(np.int32(trips), trip, start)
    return reduce(step, map(line, range(trips * unroll, count)), start)


def _start(
    lines: UInt[Array, "_ _"], operation: Operation, axis: int, kind: type[np.floating[Any]]
) -> Floating[Array, " lanes"]:
    """The identity in every lane, derived from an input: shard_map tracks over which axes a carry varies.

    Sums start from -0 because XLA takes +0 + x for x; :func:`positive_zero` makes up for it.
    """
    value = kind(-0.0 if operation == "add" else 1.0)
    if not lines.shape[axis]:
        return jnp.full(lines.shape[1 - axis], value)
    word = np.dtype(f"u{value.itemsize}")
    some = lax.index_in_dim(lines, 0, axis, keepdims=False)
    blank = lax.convert_element_type(lax.bitwise_and(some, some.dtype.type(0)), word)
    return lax.bitcast_convert_type(lax.bitwise_or(blank, value.view(word)), kind)


def positive_zero(words: UInt[Array, "*shape"], dtype: DType) -> UInt[Array, "*shape"]:
    """What adding to +0 leaves: -0 as +0, everything else as it is."""
    return bits.where(lax.eq(words, bits.dtype_sign(dtype)), words.dtype.type(0), words)


def _step(a: ExactFloat | NativeFloat, source: Float, operation: Operation) -> Step:
    """One operation on a number on the grid of ``a``'s type and one word, rounded back to that grid."""
    if isinstance(a, NativeFloat):
        return lambda x, word: a.round_to_type(getattr(a, operation)(x, source.decode(word)))
    assert isinstance(source, ExactFloat)
    if a.dtype != F32:
        return lambda x, word: a.round_to_type(getattr(a, operation)(Real(x), source.decode(word))).value
    if operation == "mul":
        return lambda x, word: bits.settle32(lax.mul(x, bits.decode(word, source.dtype)))
    return lambda x, word: bits.settle_sum(lax.add(x, bits.decode(word, source.dtype)))


def _step_half(operation: Operation) -> Step:
    """:func:`_step` of float16 in float32, which holds products exactly and has no subnormals among them."""
    combine = lax.add if operation == "add" else lax.mul

    def step(x: Float32[Array, " lanes"], word: UInt[Array, " lanes"]) -> Float32[Array, " lanes"]:
        y = lax.bitcast_convert_type(bits.f16_to_f32(word), np.float32)
        value = combine(x, y)
        words = lax.bitcast_convert_type(value, np.uint32)
        magnitude = lax.bitwise_and(words, _MAGNITUDE)
        odd = lax.bitwise_and(lax.shift_right_logical(magnitude, np.uint32(13)), np.uint32(1))
        rounded = lax.bitwise_and(magnitude + np.uint32(0xFFF) + odd, np.uint32(0xFFFFE000))
        rounded = bits.where(lax.gt(rounded, _F16_LARGEST), _F32_INFINITY, rounded)
        rounded = lax.select(lax.gt(magnitude, _F32_INFINITY), magnitude, rounded)
        sign = lax.bitwise_and(words, np.uint32(1 << 31))
        normal = lax.bitcast_convert_type(lax.bitwise_or(rounded, sign), np.float32)
        small = value
        if operation == "mul":
            # Sums below the normal range are on the grid already.
            small = lax.round(value * np.float32(2.0**24), lax.RoundingMethod.TO_NEAREST_EVEN)
            small = small * np.float32(2.0**-24)
        return lax.select(lax.lt(magnitude, np.uint32(113 << 23)), small, normal)

    return step


def integer_fold(operation: Operation, lines: UInt[Array, "_ _"], axis: int = 0) -> UInt[Array, " lanes"]:
    """Words of the sum or product modulo 2^bits; its order does not matter."""
    combine, start = (lax.add, 0) if operation == "add" else (lax.mul, 1)
    return _reduced(lines, lines.dtype.type(start), combine, axis)


def tree_sum(
    a: Float, lines: UInt[Array, "lines lanes"], size: Size | int, odd: Literal["first", "last"]
) -> UInt[Array, " lanes"]:
    """Words of the sum of the first ``size`` lines: neighbouring pairs, then pairs of those sums.

    At every level an odd last line is added to the first or the last sum. A single line is copied when
    odd lines go to the first sum, else added to +0.
    """
    if isinstance(size, int):
        lines = lines[: max(size, 1)]
    count: Array = jnp.asarray(size, np.int32)
    alone, single = lines[0], count == 1
    while lines.shape[0] > 1:
        lines = platforms.apart(partial(_pair_sums, a, odd, count), lines, size)
        count = jnp.where(count > 1, lax.shift_right_logical(count, np.int32(1)), count)
    if odd == "last":
        alone = positive_zero(a.encode(a.decode(alone)), a.dtype)
    return jnp.where(single, alone, lines[0])


def _pair_sums(
    a: Float, odd: Literal["first", "last"], count: Int32[Array, ""], lines: UInt[Array, "lines lanes"]
) -> UInt[Array, "sums lanes"]:
    """One level of :func:`tree_sum`; a single line stays as it is."""
    lines = jnp.pad(lines, ((0, lines.shape[0] % 2), (0, 0)))
    sums = formulas.binary(a, "add", lines[0::2], lines[1::2])
    target = np.int32(0) if odd == "first" else lax.shift_right_logical(count, np.int32(1)) - np.int32(1)
    more = formulas.binary(a, "add", sums, pick(lines, count - np.int32(1)))
    line = lax.broadcasted_iota(np.int32, sums.shape, 0)
    sums = jnp.where((line == target) & (count & np.int32(1) == 1), more, sums)
    return jnp.where(count > 1, sums, lines[: sums.shape[0]])


def first_extreme(
    lines: UInt[Array, "lines lanes"], dtype: DType, largest: bool, size: Size | int
) -> tuple[Int32[Array, " lanes"], UInt[Array, " lanes"]]:
    """Line number (int32) and word of the first strict extreme of the first ``size`` lines.

    A NaN in line 0 stays the extreme, no other NaN becomes one, and zeros of both signs are equal. Line 0
    takes part even where ``size`` is 0.
    """
    keys, lowest = _keys(dtype, lines, largest)
    size = max(size, 1) if isinstance(size, int) else lax.max(size, np.int32(1))
    keys = mask_lines(keys, size, lowest)
    lines = mask_lines(lines, keys.shape[0], lines.dtype.type(0))
    best, index, negative = _best(keys, lines, dtype)
    word = _unordered(best if largest else lax.bitwise_not(best), negative, dtype)
    if dtype.is_float:
        first = lax.index_in_dim(lines, 0, 0, keepdims=False)
        first_is_nan = bits.is_nan(first, dtype)
        index = bits.where(first_is_nan, np.int32(0), index)
        word = lax.select(first_is_nan, first, word)
    return index, word


def extreme(
    a: Float | Integer, lines: UInt[Array, "_ _"], largest: bool, size: Size | int, axis: int
) -> UInt[Array, " lanes"]:
    """The word that :func:`first_extreme` finds; under fast numerics any of two equal zeros.

    It takes no wider integers, as only zeros need to know which of them comes first.
    """
    dtype, size = a.dtype, max(size, 1) if isinstance(size, int) else lax.max(size, np.int32(1))
    if isinstance(a, FastFloat):
        fill, combine = (-np.inf, lax.max) if largest else (np.inf, lax.min)
        values = a.single(a.decode(lines))
        values = mask_lines(
            bits.where(a.is_nan(values), np.float32(fill), values), size, np.float32(fill), axis
        )
        # A choice, as XLA calls a library for a maximum, with every part in an array of its own.
        beyond = lax.lt if largest else lax.gt
        values = _joined(values, lambda x, y: lax.select(beyond(x, y), y, x), axis)
        word = a.encode(lax.reduce(values, np.float32(fill), combine, (axis,)))
    elif dtype.is_float and 2 * lines.shape[axis] <= _spare(dtype) and platforms.expected() == "cpu":
        # GPUs compute both reductions of the other way in one kernel.
        word = _one_reduction(dtype, lines, largest, size, axis)
    else:
        keys, lowest = _keys(dtype, lines, largest)
        keys = mask_lines(keys, size, lowest, axis)
        best = _reduced(keys, lowest, lax.max, axis)
        best = best if largest else lax.bitwise_not(best)
        negative = lax.lt(best, best.dtype.type(0))
        if dtype.is_float:
            first_is_negative = _first_zero(mask_lines(lines, size, lines.dtype.type(1), axis), dtype, axis)
            negative = bits.where(lax.eq(best, best.dtype.type(0)), first_is_negative, negative)
        word = _unordered(best, negative, dtype)
    if not dtype.is_float:
        return word
    first = lax.index_in_dim(lines, 0, axis, keepdims=False)
    return lax.select(bits.is_nan(first, dtype), first, word)


def _spare(dtype: DType) -> int:
    """How many integers of a word's size are above the key of infinity."""
    return (1 << dtype.mantissa) - 1


def _one_reduction(
    dtype: DType, lines: UInt[Array, "_ _"], largest: bool, size: Size | int, axis: int
) -> UInt[Array, " lanes"]:
    """:func:`extreme` of floats; the keys of zeros have room for where they are and for their sign."""
    signed = np.dtype(f"i{lines.dtype.itemsize}").type
    count, sign = lines.shape[axis], bits.dtype_sign(dtype)
    words = lax.bitcast_convert_type(lines, signed)
    magnitude = lax.bitwise_and(words, signed(np.iinfo(signed).max))
    negative = lax.lt(words, signed(0))
    place = lax.broadcasted_iota(np.int32, lines.shape, axis)
    zero = lax.shift_left(lax.sub(np.int32(count - 1), place), np.int32(1))
    zero = lax.bitwise_or(lax.convert_element_type(zero, signed), lax.convert_element_type(negative, signed))
    above, room = lax.ne(negative, np.bool_(largest)), signed(2 * count)
    keys = lax.select(above, lax.add(magnitude, room), lax.neg(magnitude))
    keys = lax.select(lax.eq(magnitude, signed(0)), zero, keys)
    infinity, lowest = signed(((1 << dtype.exponent) - 1) << dtype.mantissa), signed(np.iinfo(signed).min)
    keys = bits.where(lax.gt(magnitude, infinity), lowest, keys)
    best = _reduced(mask_lines(keys, size, lowest, axis), lowest, lax.max, axis)
    high, low = lax.ge(best, room), lax.lt(best, signed(0))
    extreme = lax.bitcast_convert_type(lax.select(high, lax.sub(best, room), lax.neg(best)), dtype.word)
    extreme = bits.where(lax.bitwise_or(high, low), extreme, extreme.dtype.type(0))
    odd = lax.eq(lax.bitwise_and(best, signed(1)), signed(1))
    # Which end of the order the negative numbers are at depends on what is looked for.
    minus = (low | ~high & odd) if largest else (high | ~low & odd)
    return lax.bitwise_or(extreme, bits.where(minus, sign, sign.dtype.type(0)))


def _reduced(
    lines: Shaped[Array, "_ _"], start: np.integer[Any], combine: Lanewise, axis: int
) -> Shaped[Array, " lanes"]:
    """The integers of every row (axis 1) or column combined in any order, from the identity on."""
    total: Array = lax.reduce(_joined(lines, combine, axis), start, combine, (axis,))
    return total


def _joined(lines: Shaped[Array, "_ _"], combine: Lanewise, axis: int) -> Shaped[Array, "_ _"]:
    """Numbers of which the combination is that of the lines."""
    size = lines.shape[axis]
    if axis == 1 and platforms.expected() == "cpu":
        # A CPU reduces rows in a scalar loop, and combines equal parts of them by vector instructions.
        count = next((n for n in range(min(size // 8, PARTS), 1, -1) if size % n == 0), 1)
        width = size // count
        parts = [lax.slice_in_dim(lines, i * width, (i + 1) * width, axis=1) for i in range(count)]
        lines = reduce(combine, parts)
    return lines


def _keys(
    dtype: DType, lines: UInt[Array, "_ _"], largest: bool
) -> tuple[Shaped[Array, "_ _"], np.integer[Any]]:
    """Integers of which the largest belongs to the extreme, NaNs below all numbers, and the least integer."""
    keys = bits.ordered(lines, dtype)
    keys = keys if largest else lax.bitwise_not(keys)
    lowest = keys.dtype.type(np.iinfo(keys.dtype).min)
    if dtype.is_float:
        keys = bits.where(bits.is_nan(lines, dtype), lowest, keys)
    return keys, lowest


def _first_zero(lines: UInt[Array, "_ _"], dtype: DType, axis: int) -> Bool[Array, " lanes"]:
    """Whether the first zero among the lines is -0; of lanes without one, nothing."""
    code = lax.shift_left(lax.broadcasted_iota(np.int32, lines.shape, axis), np.int32(1))
    sign = bits.dtype_sign(dtype)
    code = lax.bitwise_or(code, lax.convert_element_type(lax.eq(lines, sign), np.int32))
    none = np.int32(np.iinfo(np.int32).max)
    is_zero = lax.eq(lax.bitwise_and(lines, ~sign), lines.dtype.type(0))
    first = lax.reduce(bits.where(is_zero, code, none), none, lax.min, (axis,))
    return lax.eq(lax.bitwise_and(first, np.int32(1)), np.int32(1))


def _best(
    keys: Int[Array, "lines lanes"], lines: UInt[Array, "lines lanes"], dtype: DType
) -> tuple[Int[Array, " lanes"], Int32[Array, " lanes"], Bool[Array, " lanes"]]:
    """The largest key, the first line that has it, and that line's sign bit.

    One reduction finds all three where a wider integer holds them: the key above the position counted
    from the end, above the sign.
    """
    count = keys.shape[0]
    position = lax.broadcasted_iota(np.int32, keys.shape, 0)
    if dtype.bits == 64:
        best = lax.reduce(keys, np.int64(np.iinfo(np.int64).min), lax.max, (0,))
        candidates = jnp.where(keys == best, position, np.int32(count))
        return best, lax.reduce(candidates, np.int32(count), lax.min, (0,)), lax.lt(best, np.int64(0))
    wide, shift = (np.int32, 16) if dtype.bits <= 16 and count <= 1 << 15 else (np.int64, 32)
    sign = lax.shift_right_logical(lines, lines.dtype.type(dtype.bits - 1))
    from_end = lax.shift_left(lax.sub(np.int32(count - 1), position), np.int32(1))
    low = lax.bitwise_or(from_end, lax.convert_element_type(sign, np.int32))
    high = lax.shift_left(lax.convert_element_type(keys, wide), wide(shift))
    packed = lax.bitwise_or(high, lax.convert_element_type(low, wide))
    best = lax.reduce(packed, wide(np.iinfo(wide).min), lax.max, (0,))
    low = lax.convert_element_type(lax.bitwise_and(best, wide((1 << shift) - 1)), np.int32)
    index = lax.sub(np.int32(count - 1), lax.shift_right_logical(low, np.int32(1)))
    key = lax.convert_element_type(lax.shift_right_arithmetic(best, wide(shift)), keys.dtype)
    return key, index, lax.eq(lax.bitwise_and(low, np.int32(1)), np.int32(1))


def _unordered(
    keys: Int[Array, " lanes"], negative: Bool[Array, " lanes"], dtype: DType
) -> UInt[Array, " lanes"]:
    """The words with the given keys of :func:`bits.ordered` and signs (NaN apart)."""
    sign = bits.dtype_sign(dtype)
    if dtype.is_integer:
        flip = sign.dtype.type(0) if dtype.is_signed else sign
        return lax.bitwise_xor(lax.bitcast_convert_type(keys, dtype.word), flip)
    magnitude = lax.bitcast_convert_type(lax.abs(keys), dtype.word)
    return lax.bitwise_or(magnitude, bits.where(negative, sign, sign.dtype.type(0)))


def pick(lines: UInt[Array, "lines lanes"], index: Int32[Array, "..."]) -> UInt[Array, " lanes"]:
    """The word of line ``index[lane]`` in every lane."""
    line = lax.broadcasted_iota(np.int32, lines.shape, 0)
    zero = lines.dtype.type(0)
    picked: Array = lax.reduce(jnp.where(line == index, lines, zero), zero, lax.bitwise_or, (0,))
    return picked
