"""Exact matrix products of floats: the ascending fold ``s = fma(a[i, k], b[k, j], s)`` from +0.

Two ways give the same bits. The *careful* one forms every product and sum in float64 and rounds it to
the float32 grid; it is always right. The *native* one is XLA's own product: several times faster, but
its order is not promised (it changes with the shape, the batch and what the compiler fuses), it may
round products before it adds them, and it flushes subnormals. Its result is taken only where

* no operand, product or partial sum can be subnormal, which the exponents of the operands tell, and
* a *canary*, one more matrix pair in the very same batched product, comes out as the fold has it. Its
  elements are wide integers whose products and sums all round, so that any other order, a separately
  rounded product or a wider accumulator shows; and what the compiler made of this product depends on
  shapes only, which the canary shares.

Where either fails, the careful way computes that part of the batch again.

GPUs have a kernel of their own (:mod:`products_gpu`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

from pto_jax.ir.dtypes import F32, DType

from . import bits, products_gpu
from .platforms import by_platform
from .words import x64

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Float64, Int, Shaped, UInt, UInt32

U32 = np.uint32
#: Multiplications of a batch from which the native way repays its checks and its compile time.
NATIVE_WORK = 1 << 18
#: Multiplications per native step: large enough to hide the loop, small enough to stay in the caches.
STEP_WORK = 1 << 24
#: Elements of the largest operand that gets a canary, which is a constant of the compiled program.
CANARY_ELEMENTS = 1 << 18
#: XLA's product of fewer columns takes other paths, which are no folds.
COLUMNS = 64


@dataclass(frozen=True)
class Precision:
    """What is known about the operands of a product.

    ``fraction``: fraction bits of a product of two elements, or None where neither products nor sums
    can leave the normal float32 range. ``exact``: products have at most 24 significant bits, so that
    the float64 sum of a product and an accumulator rounds to float32 as the exact sum does.
    """

    fraction: int | None
    exact: bool


def fold(
    x: UInt[Array, "M K"],
    y: UInt[Array, "K N"],
    precision: Precision,
    types: tuple[DType, DType] = (F32, F32),
    wide: tuple[Float64[Array, "M K"], Float64[Array, "K N"]] | None = None,
) -> UInt32[Array, "M N"]:
    """float32 words [M, N] of the fold over words x [M, K] and y [K, N] of two float types.

    ``wide`` are the operands as float64 where float32 words cannot hold them all; a word stands for an
    element that it cannot hold if it is subnormal.
    """
    operands = (x, y, *(wide or ()))
    result: Array = _batched(precision, types)(*(o[None] for o in operands))[0]
    return result


@cache
def _batched(precision: Precision, types: tuple[DType, DType]) -> Callable[..., UInt32[Array, "batch M N"]]:
    """The fold of batches; a further vmap only makes the batch larger."""

    @custom_vmap
    def run(*operands: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        # A user's vmap of a jitted kernel comes here outside of the 64-bit scope.
        with x64():
            return _evaluate(precision, types, *operands)

    @run.def_vmap
    def _(
        axis_size: int, batched: Sequence[bool], *operands: Shaped[Array, "..."]
    ) -> tuple[UInt32[Array, "..."], bool]:
        whole = (
            o if has else jnp.broadcast_to(o, (axis_size, *o.shape))
            for o, has in zip(operands, batched, strict=True)
        )
        result = run(*(o.reshape(-1, *o.shape[2:]) for o in whole))
        return result.reshape(axis_size, -1, *result.shape[1:]), True

    return run


def _evaluate(
    precision: Precision, types: tuple[DType, DType], *operands: Shaped[Array, "batch _ _"]
) -> UInt32[Array, "batch M N"]:
    (batch, m, k), n = operands[0].shape, operands[1].shape[2]
    if 0 in (batch, m, k, n):
        return jnp.zeros((batch, m, n), U32)
    own = _own(precision, types, len(operands) > 2)
    result: Array = by_platform(partial(_portable, precision, types), cuda=own)(*operands)
    return result


def _own(
    precision: Precision, types: tuple[DType, DType], wide: bool
) -> Callable[..., UInt32[Array, "batch M N"]]:
    """The way of GPUs."""
    return (
        partial(_careful, precision, settle=bits.settle32_apart)
        if wide
        else partial(products_gpu.fold, types=types)
    )


def _portable(
    precision: Precision, types: tuple[DType, DType], *operands: Shaped[Array, "batch _ _"]
) -> UInt32[Array, "batch M N"]:
    singles = (bits.to_single(o, d) for o, d in zip(operands, types, strict=False))
    operands = (*singles, *operands[2:])
    (batch, m, k), n = operands[0].shape, operands[1].shape[2]
    careful = partial(_careful, precision)
    small = max(m * k, k * n, m * n) <= CANARY_ELEMENTS
    if batch * m * k * n < NATIVE_WORK or not small:
        return careful(*operands)
    result: Array = lax.platform_dependent(*operands, cpu=partial(_native, precision), default=careful)
    return result


def _careful(
    precision: Precision,
    *operands: Shaped[Array, "batch _ _"],
    settle: Callable[[Float64[Array, "*shape"]], Float64[Array, "*shape"]] = bits.settle32,
) -> UInt32[Array, "batch M N"]:
    """The fold in float64, rounded to the float32 grid after every step."""
    x, y = operands[2:] if len(operands) > 2 else (bits.decode32(o) for o in operands)
    rows, columns = x.transpose(2, 0, 1), y.transpose(1, 0, 2)
    add = lax.add if precision.exact else odd_sum

    def step(k: Int[Array, ""], total: Float64[Array, "batch M N"]) -> Float64[Array, "batch M N"]:
        u = lax.dynamic_index_in_dim(rows, k, 0, keepdims=False, allow_negative_indices=False)
        v = lax.dynamic_index_in_dim(columns, k, 0, keepdims=False, allow_negative_indices=False)
        return settle(add(u[:, :, None] * v[:, None, :], total))

    # Derived from the operands: shard_map tracks over which axes a loop carry varies.
    start = _zero(rows[0])[:, :, None] + _zero(columns[0])[:, None, :]
    return bits.encode32(lax.fori_loop(np.int32(0), np.int32(rows.shape[0]), step, start))


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


def _native(precision: Precision, *operands: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
    """XLA's product, in steps over the batch, each with a canary; failed steps are done again."""
    batch, n = operands[0].shape[0], operands[1].shape[2]
    m, k = operands[0].shape[1:]
    padding = ((0, 0), (0, 0), (0, -n % COLUMNS))
    operands = tuple(o if i % 2 == 0 else jnp.pad(o, padding) for i, o in enumerate(operands))
    columns = operands[1].shape[2]
    size = min(batch, max(1, STEP_WORK // (m * k * columns)))

    def store(
        out: UInt32[Array, "batch M N"], at: Int[Array, ""], words: UInt32[Array, "part M _"]
    ) -> UInt32[Array, "batch M N"]:
        return lax.dynamic_update_slice_in_dim(out, words[:, :, :n], at, 0)

    def step(i: Int[Array, ""], out: UInt32[Array, "batch M N"]) -> UInt32[Array, "batch M N"]:
        at = jnp.minimum(i * np.int32(size), np.int32(batch - size))
        part = partial(_part, operands, at, size)
        words, right = _attempt(precision, part())

        def again(
            carry: tuple[UInt32[Array, "batch M N"], Bool[Array, ""]],
        ) -> tuple[UInt32[Array, "batch M N"], Bool[Array, ""]]:
            return store(carry[0], at, _careful(precision, *part())), jnp.ones_like(carry[1])

        # A loop of no or one turn: its carry is updated in place, the result of a cond is copied.
        result: Array = lax.while_loop(lambda c: ~c[1], again, (store(out, at, words), right))[0]
        return result

    blank = jnp.zeros((batch, m, n), U32) | (operands[0][:, :, :1] & operands[1][:, :1, :1] & U32(0))
    done: Array = lax.fori_loop(np.int32(0), np.int32(-(-batch // size)), step, blank)
    return done


def _part(
    operands: Sequence[Shaped[Array, "..."]], at: Int[Array, ""], size: int
) -> tuple[Shaped[Array, "..."], ...]:
    return tuple(lax.dynamic_slice_in_dim(o, at, size, 0) for o in operands)


def _attempt(
    precision: Precision, operands: Sequence[Shaped[Array, "part _ _"]]
) -> tuple[UInt32[Array, "part M N"], Bool[Array, ""]]:
    """Words of XLA's products, and whether they are known to be the fold's."""
    x, y = operands[:2]
    *canary, expected = _canary(x.shape[1], x.shape[2], y.shape[2])
    pairs = (jnp.concatenate([o, c[None]]) for o, c in zip((x, y), canary, strict=True))
    words = lax.bitcast_convert_type(dot(*(lax.bitcast_convert_type(p, np.float32) for p in pairs)), U32)
    right = jnp.all(words[-1] == expected)
    if precision.fraction is not None:
        least, other = _exponent(x), _exponent(y)
        # Every product, hence every sum, is a multiple of the last place of the smallest product.
        normal = least + other >= U32(precision.fraction + 254 - 126)
        right = right & normal & (jnp.minimum(least, other) > U32(0))
    return _tidy(words[:-1]), right


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


def _exponent(words: UInt32[Array, "batch _ _"]) -> UInt32[Array, ""]:
    """A lower bound of the exponent fields of the nonzero words; 255 if there are none."""
    keys = (words << U32(1)) - U32(1)
    # A reduction is a scalar loop, minima of slices are vector instructions.
    slices = next(s for s in (32, 16, 8, 4, 2, 1) if words[0].size % s == 0)
    keys = keys.reshape(words.shape[0], slices, -1)
    least = keys[:, 0]
    for i in range(1, slices):
        least = jnp.minimum(least, keys[:, i])
    smallest: Array = lax.reduce(least, U32(0xFFFFFFFF), lax.min, (0, 1))
    return smallest >> U32(24)


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
