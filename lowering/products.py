"""Exact matrix products of floats: the ascending fold ``s = fma(a[i, k], b[k, j], s)`` from +0 or an addend.

Three ways give the same bits. The *careful* one forms every product and sum in float64 and rounds it to
the float32 grid; it is always right. The one *in order* multiplies and adds in float32, for operands whose
products float32 holds. The *native* one is XLA's own product: fast for narrow matrices too, but
its order is not promised (it changes with the shape, the batch and what the compiler fuses), it may
round products before it adds them, and it flushes subnormals. Its result is taken only where

* no operand, product or partial sum can be subnormal, which the exponents of the operands tell, and
* a *canary*, one more matrix pair in the very same batched product, comes out as the fold has it. Its
  elements are wide integers whose products and sums all round, so that any other order, a separately
  rounded product or a wider accumulator shows; and what the compiler made of this product depends on
  shapes only, which the canary shares.

Where either fails, another way computes that part of the batch again. An addend that starts the sums is
the product of an identity matrix and itself, whose columns and rows come first.

GPUs have a kernel of their own (:mod:`.merging_gpu`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

from pto_jax.ir import F8E8M0, F32, DType
from pto_jax.isa.rules.matrix import SCALE_GROUP

from . import bits, merging_gpu, slicing
from .bits import x64
from .platforms import by_platform

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Int32, Shaped, UInt, UInt8, UInt32

U32 = np.uint32
#: Operands as they are given to what :func:`_careful` takes: float32 words, and float64 values or none.
Prepare: TypeAlias = "Callable[..., tuple[Shaped[Array, 'batch _ _'], ...]]"
#: Multiplications of a batch from which the native way repays its checks and its compile time.
NATIVE_WORK = 1 << 18
#: Multiplications per native step: large enough to hide the loop, small enough to stay in the caches.
STEP_WORK = 1 << 24
#: Elements of the largest operand that gets a canary, which is a constant of the compiled program.
CANARY_ELEMENTS = 1 << 18
#: XLA's product of fewer columns takes other paths, which are no folds.
COLUMNS = 64
#: Columns from which on sums in order take no longer than XLA's product with its checks.
WIDE = 128
#: Elements of K from which on it is none either.
DEEP = 512
#: Columns of which a pass keeps the factors in the first cache.
BLOCK = 256
#: Sums that stay in the second cache from pass to pass.
CACHED = 1 << 17
#: Steps along K that one pass over the sums takes: XLA:CPU reads fewer slices again for every element.
STEPS = 16


@dataclass(frozen=True)
class Precision:
    """What is known about the operands of a product.

    ``fraction``: fraction bits of a product of two elements, or None where neither products nor sums
    can leave the normal float32 range. ``exact``: products have at most 24 significant bits, so that
    the float64 sum of a product and an accumulator rounds to float32 as the exact sum does.
    """

    fraction: int | None
    exact: bool


class Bounds(NamedTuple):
    """Exponent fields between which those of finite numbers that are not zero are, of both operands."""

    least: tuple[Int32[Array, ""], Int32[Array, ""]]
    largest: tuple[Int32[Array, ""], Int32[Array, ""]]

    def normal(self, precision: Precision) -> Bool[Array, ""]:
        """Whether no operand, product or sum of them is subnormal."""
        assert precision.fraction is not None
        first, second = self.least
        # Every product, hence every sum, is a multiple of the last place of the smallest product.
        normal = first + second >= np.int32(precision.fraction + 254 - 126)
        return normal & (jnp.minimum(first, second) > np.int32(0))

    def finite(self) -> Bool[Array, ""]:
        """Whether no product is beyond the range of float32, where a sum with it may be within."""
        return self.largest[0] + self.largest[1] < np.int32(254 + 126)


#: Bounds of the exponent fields of what operands stand for, as :func:`_exponents` gives them.
Exponents: TypeAlias = "Callable[..., Bounds]"


def fold(
    x: UInt[Array, "M K"],
    y: UInt[Array, "K N"],
    precision: Precision,
    types: tuple[DType, DType] = (F32, F32),
    wide: tuple[Float64[Array, "M K"], Float64[Array, "K N"]] | None = None,
    scales: tuple[UInt8[Array, "M groups"], UInt8[Array, "groups N"]] | None = None,
    start: UInt32[Array, "M N"] | None = None,
) -> UInt32[Array, "M N"]:
    """float32 words [M, N] of the fold over words x [M, K] and y [K, N] of two float types.

    ``wide`` are the operands as float64 where float32 words cannot hold them all; a word stands for an
    element that it cannot hold if it is subnormal. ``scales`` are f8e8m0 codes that elements of 8-bit types
    are multiplied by, each for ``SCALE_GROUP`` of them along K. ``start`` are float32 words that the sums
    start from; +0 by default.
    """
    operands = (x, y, *(wide or scales or ()), *(() if start is None else (start,)))
    run = _batched(precision, types, scales is not None, start is not None)
    result: Array = run(*(o[None] for o in operands))[0]
    return result


@cache
def _batched(
    precision: Precision, types: tuple[DType, DType], scaled: bool = False, started: bool = False
) -> Callable[..., UInt32[Array, "batch M N"]]:
    """The fold of batches; a further vmap only makes the batch larger."""

    @custom_vmap
    def run(*operands: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        # A user's vmap of a jitted kernel comes here outside of the 64-bit scope.
        with x64():
            factors, start = (operands[:-1], operands[-1:]) if started else (operands, ())
            return _evaluate(precision, types, scaled, factors, *start)

    @run.def_vmap
    def _(
        axis_size: int, batched: Sequence[bool], *operands: Shaped[Array, "..."]
    ) -> tuple[UInt32[Array, "..."], bool]:
        whole = [
            o if has else jnp.broadcast_to(o, (axis_size, *o.shape))
            for o, has in zip(operands, batched, strict=True)
        ]
        result = run(*(o.reshape(math.prod(o.shape[:2]), *o.shape[2:]) for o in whole))
        return result.reshape(*whole[0].shape[:2], *result.shape[1:]), True

    return run


def _evaluate(
    precision: Precision,
    types: tuple[DType, DType],
    scaled: bool,
    factors: Sequence[Shaped[Array, "batch _ _"]],
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    (batch, m, k), n = factors[0].shape, factors[1].shape[2]
    if 0 in (batch, m, k, n):
        # The sums of no products, whose NaNs are canonical too.
        return jnp.zeros((batch, m, n), U32) if start is None else bits.encode32(bits.decode32(start))
    prepare = partial(_prepared, types, scaled)
    wide = len(factors) > 2
    own = _own(precision, types, wide, _as_given if wide and not scaled else prepare)
    exponents = partial(_scaled_exponents, types) if scaled else None
    result: Array = by_platform(partial(_portable, precision, prepare, exponents), cuda=own)(factors, start)
    return result


def _own(
    precision: Precision, types: tuple[DType, DType], wide: bool, prepare: Prepare
) -> Callable[..., UInt32[Array, "batch M N"]]:
    """The way of GPUs."""

    def careful(
        factors: Sequence[Shaped[Array, "batch _ _"]], start: UInt32[Array, "batch M N"] | None
    ) -> UInt32[Array, "batch M N"]:
        return _careful(precision, *prepare(*factors), start=start, settle=bits.settle32_apart)

    def product(
        factors: Sequence[Shaped[Array, "batch _ _"]], start: UInt32[Array, "batch M N"] | None
    ) -> UInt32[Array, "batch M N"]:
        return merging_gpu.fold(factors[0], factors[1], types, start=start)

    return careful if wide else merging_gpu.kernel(product, careful)


def _as_given(*operands: Shaped[Array, "batch _ _"]) -> tuple[Shaped[Array, "batch _ _"], ...]:
    return operands


def _prepared(
    types: tuple[DType, DType], scaled: bool, *operands: Shaped[Array, "batch _ _"]
) -> tuple[Shaped[Array, "batch _ _"], ...]:
    """Operands as float32 words, with their float64 values where words cannot hold them all."""
    singles = [bits.to_single(o, d) for o, d in zip(operands, types, strict=False)]
    if not scaled:
        return (*singles, *operands[2:])
    spread = [
        jnp.repeat(s, SCALE_GROUP, axis=axis)[:, : o.shape[1], : o.shape[2]]
        for o, s, axis in zip(operands[:2], operands[2:], (2, 1), strict=True)
    ]
    wide = (
        bits.decode32(e) * bits.decode32(bits.to_single(s, F8E8M0))
        for e, s in zip(singles, spread, strict=True)
    )
    return (*map(_scaled, singles, spread), *wide)


def _scaled(single: UInt32[Array, "*shape"], scale: UInt8[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words, none of them subnormal, times powers of two; a subnormal where the exponent ends."""
    magnitude = single & U32(0x7FFFFFFF)
    power = lax.convert_element_type(scale, np.int32) - np.int32(127)
    field = lax.convert_element_type(magnitude >> U32(23), np.int32) + power
    moved = single + (lax.bitcast_convert_type(power, U32) << U32(23))
    moved = jnp.where((field > np.int32(0)) & (field < np.int32(255)), moved, U32(1))
    keeps = (magnitude == U32(0)) | (magnitude >= U32(0x7F800000))
    moved = jnp.where(keeps, single, moved)
    return jnp.where(power == np.int32(128), U32(F32.canonical_nan), moved)


def _scaled_exponents(
    types: tuple[DType, DType], x: UInt8[Array, "..."], y: UInt8[Array, "..."], *scales: UInt8[Array, "..."]
) -> Bounds:
    """:func:`_exponents` of scaled elements, from the scales, the least one of a nonzero element."""
    least, most = [], []
    for o, s, axis, d in zip((x, y), scales, (2, 1), types, strict=True):
        table = np.abs(bits.value_table(d))
        smallest, largest = (
            f(table[(table > 0) & (table < np.inf)]).astype(np.float32) for f in (np.min, np.max)
        )
        low, high = (int(v.view(U32) >> 23) for v in (smallest, largest))
        # Out of float32's range, as scales below are.
        scale = jnp.where(s > np.uint8(254 - high + 127), np.uint8(0), s)
        spread = jnp.repeat(scale, SCALE_GROUP, axis=axis)[:, : o.shape[1], : o.shape[2]]
        least.append(_smallest(jnp.where(_is_zero(o, d), np.uint8(255), spread)) + np.int32(low - 127))
        most.append(_largest(scale) + np.int32(high - 127))
    return Bounds((least[0], least[1]), (most[0], most[1]))


def _is_zero(words: UInt8[Array, "*shape"], d: DType) -> Bool[Array, "*shape"]:
    """Where codes of a type of at most 8 bits stand for zeros; HiFloat8 has one zero."""
    magnitude = np.uint8(0xFF if d.name == "hif8" else (1 << (d.bits - 1)) - 1)
    return (words & magnitude) == np.uint8(0)


def _portable(
    precision: Precision,
    prepare: Prepare,
    exponents: Exponents | None,
    factors: Sequence[Shaped[Array, "batch _ _"]],
    start: UInt32[Array, "batch M N"] | None,
) -> UInt32[Array, "batch M N"]:
    (batch, m, k), n = factors[0].shape, factors[1].shape[2]
    steps = k if start is None else k + m
    narrow = precision.fraction is None

    sure = partial(_sure, precision, prepare)

    def native(
        factors: Sequence[Shaped[Array, "batch _ _"]], start: UInt32[Array, "batch M N"] | None
    ) -> UInt32[Array, "batch M N"]:
        return _native(precision, *factors, prepare=prepare, exponents=exponents, start=start)

    def certified(
        factors: Sequence[Shaped[Array, "batch _ _"]], start: UInt32[Array, "batch M N"] | None
    ) -> UInt32[Array, "batch M N"]:
        def in_order(*operands: Any) -> UInt32[Array, "batch M N"]:
            x, y, *_ = prepare(*operands[0])
            return _in_order(x, y, operands[1])

        bounds = exponents(*factors) if exponents else _exponents(*prepare(*factors)[:2])
        certain = bounds.normal(precision) & bounds.finite()
        if start is not None:
            certain = certain & _every(_harmless(start))
        result: Array = lax.cond(certain, in_order, sure, factors, start)
        return result

    small = steps <= DEEP and max(m * steps, steps * n, m * n) <= CANARY_ELEMENTS
    # The size of a batch may be a symbol of jax.export.
    work = (batch if isinstance(batch, int) else 1) * m * k * n
    if work < NATIVE_WORK or not (small or precision.exact) or (narrow and (n >= WIDE or not small)):
        return sure(factors, start)
    on_cpu = certified if precision.exact and not narrow and (n >= WIDE or not small) else native
    result: Array = lax.platform_dependent(factors, start, cpu=on_cpu, default=sure)
    return result


def _sure(
    precision: Precision,
    prepare: Prepare,
    factors: Sequence[Shaped[Array, "batch _ _"]],
    start: UInt32[Array, "batch M N"] | None,
) -> UInt32[Array, "batch M N"]:
    """The fold, whatever the numbers are."""
    x, y, *wide = prepare(*factors)
    return (
        _narrow(x, y, start) if precision.fraction is None else _careful(precision, x, y, *wide, start=start)
    )


def _narrow(
    x: UInt32[Array, "batch M K"], y: UInt32[Array, "batch K N"], start: UInt32[Array, "batch M N"] | None
) -> UInt32[Array, "batch M N"]:
    """The fold of elements that are multiples of 2^-24, of whose products no sum can be subnormal.

    A subnormal addend, which a CPU takes for zero, is what is left where all products are zero, and else
    has no part in the sums. Until this shows, a number stands for it that is less than any product.
    """
    if start is None:
        return _in_order(x, y, None)
    magnitude = start & U32(0x7FFFFFFF)
    tiny = magnitude < U32(1 << 23)
    fraction = lax.convert_element_type(lax.bitcast_convert_type(magnitude, np.int32), np.float32)
    other = lax.bitcast_convert_type(fraction * np.float32(2.0**-126), U32) | (start & U32(1 << 31))
    total = _in_order(x, y, jnp.where(tiny, other, start))
    rest = total & U32(0x7FFFFFFF)
    return jnp.where(tiny & (rest != U32(0)) & (rest < U32((127 - 100) << 23)), start, total)


def _in_order(
    x: UInt32[Array, "batch M K"], y: UInt32[Array, "batch K N"], start: UInt32[Array, "batch M N"] | None
) -> UInt32[Array, "batch M N"]:
    """The fold in float32, which holds all products, so that their contraction with sums changes nothing."""
    k = x.shape[2]
    count = min(k, STEPS)
    # Products of -0 leave every sum.
    padding = ((0, 0), (0, 0), (0, -k % count)), ((0, 0), (0, -k % count), (0, 0))
    words = jnp.pad(x, padding[0], constant_values=U32(1 << 31)), jnp.pad(y, padding[1])
    u, v = (lax.bitcast_convert_type(w, np.float32) for w in words)
    # Derived from the operands: shard_map tracks over which axes a loop carry varies.
    blank = (x[:, :, :1] & U32(0)) | (y[:, :1] & U32(0))
    first = lax.bitcast_convert_type(blank if start is None else blank | start, np.float32)
    total = _blocks(count, u, v, first)
    result = lax.bitcast_convert_type(total, U32)
    return jnp.where(total == total, result, U32(F32.canonical_nan))


def _blocks(
    count: int,
    x: Float32[Array, "batch M K"],
    y: Float32[Array, "batch K N"],
    total: Float32[Array, "batch M N"],
) -> Float32[Array, "batch M N"]:
    """:func:`_passes` over blocks of the sums that stay in a processor's caches, one after the other."""
    batch, m, n = total.shape
    if not isinstance(batch, int) or batch * m * n <= CACHED:
        return _passes(count, x, y, total)
    if batch > 1:
        one = x[:, None], y[:, None], total[:, None]
        single: Array = lax.map(lambda a: _blocks(count, *a), one)
        return single[:, 0]
    if n > BLOCK:
        columns = -n % BLOCK
        right = (jnp.pad(a[0], ((0, 0), (0, columns))).reshape(len(a[0]), -1, BLOCK) for a in (y, total))
        parts: Array = lax.map(
            lambda a: _blocks(count, x, *a), tuple(a.transpose(1, 0, 2)[:, None] for a in right)
        )
        return parts[:, 0].transpose(1, 0, 2).reshape(1, m, -1)[:, :, :n]
    rows = CACHED // n
    left = (jnp.pad(a[0], ((0, -m % rows), (0, 0))).reshape(-1, 1, rows, a.shape[2]) for a in (x, total))
    blocks: Array = lax.map(lambda a: _passes(count, a[0], y, a[1]), tuple(left))
    return blocks.reshape(1, -1, n)[:, :m]


def _passes(
    count: int,
    x: Float32[Array, "batch M K"],
    y: Float32[Array, "batch K N"],
    total: Float32[Array, "batch M N"],
) -> Float32[Array, "batch M N"]:
    """The sums of K products, of which a pass takes ``count``."""

    def step(i: Any, total: Float32[Array, "batch M N"]) -> Float32[Array, "batch M N"]:
        at = i * np.int32(count)
        left = lax.dynamic_slice_in_dim(x, at, count, 2, allow_negative_indices=False)
        right = lax.dynamic_slice_in_dim(y, at, count, 1, allow_negative_indices=False)
        for j in range(count):
            total = left[:, :, j, None] * right[:, j, None, :] + total
        return total

    trips = x.shape[2] // count
    return step(np.int32(0), total) if trips == 1 else slicing.repeated(np.int32(trips), step, total)


def _careful(
    precision: Precision,
    *operands: Shaped[Array, "batch _ _"],
    start: UInt32[Array, "batch M N"] | None = None,
    settle: Callable[[Float64[Array, "*shape"]], Float64[Array, "*shape"]] = bits.settle32,
) -> UInt32[Array, "batch M N"]:
    """The fold in float64, rounded to the float32 grid after every step."""
    x, y = operands[2:] if len(operands) > 2 else (bits.decode32(o) for o in operands)
    add = lax.add if precision.exact else odd_sum

    def step(k: Int[Array, ""], total: Float64[Array, "batch M N"]) -> Float64[Array, "batch M N"]:
        u = lax.dynamic_index_in_dim(x, k, 2, allow_negative_indices=False)
        v = lax.dynamic_index_in_dim(y, k, 1, allow_negative_indices=False)
        return settle(add(u * v, total))

    # Derived from the operands: shard_map tracks over which axes a loop carry varies.
    first = _zero(x[:, :, :1]) + _zero(y[:, :1])
    if start is not None:
        first = jnp.where(first == 0, bits.decode32(start), first)
    return bits.encode32(slicing.repeated(np.int32(x.shape[2]), step, first))


def _zero(x: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    return jnp.where(x == x, np.float64(0), np.float64(0))


def odd_sum(x: Float64[Array, "*shape"], y: Float64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """The float64 sum ``x + y`` rounded to odd.

    Rounding it to float32 is then as if it were the only rounding.
    """
    t = x + y
    z = t - x
    error = (x - (t - z)) + (y - z)
    word = lax.bitcast_convert_type(t, np.int64)
    # The sum was rounded away from zero if the error's sign is not its own.
    opposite = (lax.bitcast_convert_type(error, np.int64) ^ word) >> np.int64(63)
    odd = lax.bitcast_convert_type((word + opposite) | np.int64(1), np.float64)
    return jnp.where((error != 0) & (error == error), odd, t)


def _native(
    precision: Precision,
    *operands: Shaped[Array, "batch _ _"],
    prepare: Prepare = _as_given,
    exponents: Exponents | None = None,
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    """XLA's product, in steps over the batch, each with a canary; failed steps are done again.

    Operands are prepared in the steps: what one needs only to be done again is not computed before.
    ``exponents`` are :func:`_exponents` of operands as they are given.
    """
    batch, n = operands[0].shape[0], operands[1].shape[2]
    m, k = operands[0].shape[1:]
    padding = ((0, 0), (0, 0), (0, -n % COLUMNS))
    operands = tuple(o if i % 2 == 0 else jnp.pad(o, padding) for i, o in enumerate(operands))
    first = None if start is None else jnp.pad(start, padding)
    columns, steps = operands[1].shape[2], k if start is None else k + m
    size = min(batch, max(1, STEP_WORK // (m * steps * columns))) if isinstance(batch, int) else 1

    def store(
        out: UInt32[Array, "batch M N"], at: Int[Array, ""], words: UInt32[Array, "part M _"]
    ) -> UInt32[Array, "batch M N"]:
        return lax.dynamic_update_slice_in_dim(out, words[:, :, :n], at, 0)

    def step(i: Int[Array, ""], out: UInt32[Array, "batch M N"]) -> UInt32[Array, "batch M N"]:
        at = jnp.minimum(i * np.int32(size), _int32(batch - size))
        part = partial(_part, operands, at, size)
        begin = None if first is None else _part((first,), at, size)[0]
        bounds = None if exponents is None else exponents(*part())
        words, right = _attempt(precision, prepare(*part()), bounds, begin)

        def again(
            carry: tuple[UInt32[Array, "batch M N"], Bool[Array, ""]],
        ) -> tuple[UInt32[Array, "batch M N"], Bool[Array, ""]]:
            words = _sure(precision, prepare, part(), begin)
            return store(carry[0], at, words), jnp.ones_like(carry[1])

        # A loop of no or one turn: its carry is updated in place, the result of a cond is copied.
        result: Array = lax.while_loop(lambda c: ~c[1], again, (store(out, at, words), right))[0]
        return result

    some = (lax.convert_element_type(o, U32) for o in (operands[0][:, :, :1], operands[1][:, :1, :1]))
    blank = jnp.zeros((batch, m, n), U32) | (next(some) & next(some) & U32(0))
    return slicing.repeated(_int32(-(-batch // size)), step, blank)


def _int32(size: int) -> np.int32 | Array:
    """A size as a number of the program, also where it is a symbol of ``jax.export``."""
    return np.int32(size) if isinstance(size, int) else jnp.asarray(size, np.int32)


def _part(
    operands: Sequence[Shaped[Array, "..."]], at: Int[Array, ""], size: int
) -> tuple[Shaped[Array, "..."], ...]:
    return tuple(lax.dynamic_slice_in_dim(o, at, size, 0) for o in operands)


def _attempt(
    precision: Precision,
    operands: Sequence[Shaped[Array, "part _ _"]],
    bounds: Bounds | None = None,
    begin: UInt32[Array, "part M N"] | None = None,
) -> tuple[UInt32[Array, "part M N"], Bool[Array, ""]]:
    """Words of XLA's products, and whether they are known to be the fold's.

    ``bounds`` are :func:`_exponents` of the operands, where they are known; ``begin`` starts the sums.
    """
    x, y = operands[:2]
    if precision.fraction is not None and bounds is None:
        bounds = _exponents(x, y)
    if begin is not None:
        identity = np.eye(x.shape[1], dtype=np.float32).view(U32)
        x = jnp.concatenate([jnp.broadcast_to(identity, (len(x), *identity.shape)), x], axis=2)
        y = jnp.concatenate([begin, y], axis=1)
    *canary, expected = _canary(x.shape[1], x.shape[2], y.shape[2])
    pairs = (jnp.concatenate([o, c[None]]) for o, c in zip((x, y), canary, strict=True))
    words = lax.bitcast_convert_type(dot(*(lax.bitcast_convert_type(p, np.float32) for p in pairs)), U32)
    right = _every(words[-1:] == expected)
    if begin is not None:
        right = right & _every(_harmless(begin))
    if bounds is not None:
        right = right & bounds.normal(precision)
    return _tidy(words[:-1]), right


def _harmless(begin: UInt32[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Addends of which no sum with normal products is subnormal, that zeros times them leave, and no -0."""
    magnitude = begin & U32(0x7FFFFFFF)
    return (begin == U32(0)) | ((magnitude >= U32(24 << 23)) & (magnitude < U32(0x7F800000)))


def dot(x: Float[Array, "*batch m k"], y: Float[Array, "*batch k n"]) -> Float32[Array, "*batch m n"]:
    """XLA's product of the last two axes, batched over the others, accumulated in float32."""
    lead = tuple(range(x.ndim - 2))
    axes = (((x.ndim - 1,), (y.ndim - 2,)), (lead, lead))
    product: Array = lax.dot_general(
        x, y, axes, precision=lax.Precision.HIGHEST, preferred_element_type=np.float32
    )
    return product


def _tidy(words: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """NaNs canonical; the fold, which starts from +0 and never underflows here, has no -0."""
    magnitude = words & U32(0x7FFFFFFF)
    words = jnp.where(magnitude == U32(0), U32(0), words)
    return jnp.where(magnitude > U32(0x7F800000), U32(F32.canonical_nan), words)


def _exponents(x: UInt32[Array, "batch _ _"], y: UInt32[Array, "batch _ _"]) -> Bounds:
    """Bounds of the exponent fields of float32 words; the lower ones are 255 if all of them are zeros."""
    first, second = (_smallest(((o << U32(1)) - U32(1)) >> U32(24)) for o in (x, y))
    fields = ((o << U32(1)) >> U32(24) for o in (x, y))
    third, fourth = (_largest(jnp.where(f < U32(255), f, U32(0))) for f in fields)
    return Bounds((first, second), (third, fourth))


def _every(mask: Bool[Array, "batch _ _"]) -> Bool[Array, ""]:
    return _smallest(mask) == np.int32(1)


def _smallest(numbers: Shaped[Array, "batch _ _"]) -> Int32[Array, ""]:
    """The smallest of whole numbers of 0 to 255.

    XLA:CPU has a function of a library for float32, and for integers three loops to compile.
    """
    singles = lax.convert_element_type(numbers, np.float32)
    smallest = lax.reduce(singles, np.float32(255), lax.min, tuple(range(singles.ndim)))
    return lax.convert_element_type(smallest, np.int32)


def _largest(numbers: Shaped[Array, "batch _ _"]) -> Int32[Array, ""]:
    """The largest of such numbers."""
    singles = lax.convert_element_type(numbers, np.float32)
    largest = lax.reduce(singles, np.float32(0), lax.max, tuple(range(singles.ndim)))
    return lax.convert_element_type(largest, np.int32)


@lru_cache(maxsize=64)
def _canary(m: int, k: int, n: int) -> tuple[UInt32[np.ndarray, "_ _"], ...]:
    """float32 words of two matrices and of their fold.

    Elements are 15-bit integers: products need 30 bits, and float64 holds every sum exactly.
    """
    draw = np.random.default_rng(0)
    x, y = (draw.integers(-(1 << 15), 1 << 15, shape).astype(np.float64) for shape in ((m, k), (k, n)))
    total = np.zeros((m, n))
    for u, v in zip(x.T, y, strict=True):
        total = (u[:, None] * v + total).astype(np.float32).astype(np.float64)
    return tuple(a.astype(np.float32).view(U32) for a in (x, y, total))
