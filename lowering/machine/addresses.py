"""Addresses of global memory in 64 bits, with arithmetic that cannot wrap into a buffer.

Buffers have fewer than 2**31 elements. What is farther away than that is outside whatever is added to it, so
sums are kept where they cannot come back by wrapping.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import NOWHERE, Scalar, address
from pto_jax.ir import INDEX

from ..scalars import to_native

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64

#: Positions or distances of elements, int64.
Positions: TypeAlias = "Int64[Array, '...'] | Int64[np.ndarray, '...'] | np.int64"
#: Elements of a buffer are nearer than this.
NEAR = 1 << 31
#: Run-time strides are kept within this: tiles have fewer than 2**20 rows or columns.
_FAR_STRIDE = 1 << 40
#: Products of run-time indices and strides are kept within this distance: sums of them stay in 64 bits.
FAR = 1 << 60


def near(base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
    """``base + index * stride`` where that is known to be near."""
    factors = [n for n in (index, stride) if not (isinstance(n, int) and n == 1)]
    product = wide(factors[0]) if factors else np.int64(1)
    for n in factors[1:]:
        product = product * wide(n)
    return product if isinstance(base, int) and base == 0 else wide(base) + product


def followed(base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
    """``base + index * stride`` in int64 where that is near a buffer, elsewhere a position far outside.

    One comparison each way is all that a position costs, as XLA repeats it for every element of a slice;
    two numbers that are both kept within limits may cancel each other. :func:`advanced` is exact.
    """
    if isinstance(index, int):
        index, stride = stride, index
    if isinstance(index, int):
        base, index, stride = address(0, index, stride), base, 1
    if isinstance(stride, int):
        limit = FAR // max(1, abs(stride))
        product = lax.mul(_kept(index, limit), np.int64(min(max(stride, -FAR), FAR)))
    else:
        product = lax.mul(_kept(index, NEAR), _kept(stride, NEAR))
    return product if isinstance(base, int) and base == 0 else lax.add(wide(base), product)


def _kept(n: Scalar, limit: int) -> Int64[Array, ""]:
    return lax.clamp(np.int64(-limit), to_native(n, INDEX), np.int64(limit))


def advanced(base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
    """``base + index * stride`` in int64, NOWHERE where the product or the sum leaves it."""
    if isinstance(index, int):
        index, stride = stride, index
    if isinstance(index, int):
        # The product is known, so the base is not.
        base, index, stride = address(0, index, stride), base, 1
    numbers = (base, stride)
    constants = tuple(n if isinstance(n, int) else None for n in numbers)
    if NOWHERE in constants[:1]:
        return NOWHERE
    place: Array = _advanced(
        *constants, *(to_native(n, INDEX) for n in (index, *numbers) if not isinstance(n, int))
    )
    return place


@partial(jax.jit, static_argnums=(0, 1))
def _advanced(
    start: int | None, step: int | None, index: Int64[Array, ""], *unknown: Int64[Array, ""]
) -> Int64[Array, ""]:
    """The base and the stride are given as numbers where they are known: those are cheap to compare with."""
    rest = list(unknown)
    base = np.int64(start) if start is not None else rest.pop(0)
    product, inside = _product(index, rest.pop(0)) if step is None else _multiple(index, step)
    total = lax.add(base, product)
    if start is None:
        # A sum has left 64 bits where its sign is that of neither part.
        fits = lax.ge((base ^ total) & (product ^ total), np.int64(0))
        inside = inside & fits & lax.ne(base, np.int64(NOWHERE))
    elif start > 0:
        inside = inside & lax.le(product, np.int64((1 << 63) - 1 - start))
    elif start < 0:
        inside = inside & lax.ge(product, np.int64(-(1 << 63) - start))
    return lax.select(inside, total, lax.full_like(total, NOWHERE))


def _multiple(index: Int64[Array, ""], step: int) -> tuple[Int64[Array, ""], Bool[Array, ""]]:
    """``index * step``, and whether that is in 64 bits."""
    if step == 1:
        return index, lax.ne(index, np.int64(NOWHERE))
    low, high = sorted((_truncated(-(1 << 63), step), _truncated((1 << 63) - 1, step)))
    low, high = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
    inside = lax.ge(index, np.int64(low)) & lax.le(index, np.int64(high))
    return lax.mul(index, np.int64(step)), inside


def _truncated(n: int, divisor: int) -> int:
    return abs(n) // abs(divisor) * (1 if (n < 0) == (divisor < 0) else -1)


def _product(index: Int64[Array, ""], stride: Int64[Array, ""]) -> tuple[Int64[Array, ""], Bool[Array, ""]]:
    """The product of two numbers that only execution knows, and whether that is in 64 bits."""
    product = index * stride
    divisor = jnp.where(lax.eq(stride, np.int64(0)), np.int64(1), stride)
    exact = lax.eq(lax.div(product, divisor), index) | lax.eq(stride, np.int64(0))
    overflows = lax.eq(stride, np.int64(-1)) & lax.eq(index, np.int64(-(1 << 63)))
    return product, exact & ~overflows


def wide(n: Scalar) -> Scalar:
    """A number of elements in 64 bits."""
    if isinstance(n, int):
        return np.int64(max(-(1 << 63), min(n, (1 << 63) - 1)))
    return lax.convert_element_type(n, np.int64)


def limited(n: Scalar, limit: int) -> Int32[Array, ""]:
    """A number of lines or lanes, at most ``limit`` and at least 0, in 32 bits."""
    return lax.convert_element_type(lax.clamp(np.int64(0), wide(n), np.int64(limit)), np.int32)


def is_near(stride: Scalar) -> bool:
    """Whether a stride is known to be followed."""
    return isinstance(stride, int) and abs(stride) <= NEAR


def begin(offset: Scalar, strides: tuple[Scalar, ...]) -> Scalar:
    """Where lanes with these strides are counted from, int64.

    Sums of a start and near strides wrap past every buffer; a stride that leads far away could bring a
    start back that is itself far away.
    """
    if isinstance(offset, int):
        return np.int64(offset if abs(offset) <= FAR // 2 else NOWHERE)
    return wide(offset) if all(map(is_near, strides)) else _kept(offset, FAR // 2)


def distance(index: Positions, stride: Scalar) -> Positions:
    """``index * stride`` for indices of lanes; far outside where a stride is not near."""
    if is_near(stride):
        return index * np.int64(stride)
    if isinstance(stride, int):
        none = index == np.int64(0)
        where = np.where if isinstance(index, np.ndarray | np.integer) else jnp.where
        farthest: Positions = where(none, np.int64(0), np.int64(FAR))
        return farthest
    return index * _kept(stride, _FAR_STRIDE)


def product(extents: tuple[Scalar, ...]) -> Scalar:
    """How many elements some extents have together; 2**31 or more where that is more than 64 bits hold."""
    constant = 1
    for n in extents:
        constant *= n if isinstance(n, int) else 1
    unknown = [wide(n) for n in extents if not isinstance(n, int)]
    if not unknown:
        return constant
    total = wide(constant)
    for n in unknown:
        if len(unknown) == 1 and constant == 1:
            return n
        total = jnp.minimum(total, np.int64(NEAR)) * jnp.minimum(n, np.int64(NEAR))
    return total


def reach(
    where: Positions, moved: Bool[Array, "..."] | Bool[np.ndarray, "..."] | bool = True
) -> tuple[Int64[Array, ""], Int64[Array, ""]]:
    """The first and the last of some positions; the last one is less where there is none."""
    limits = np.iinfo(np.int64)
    positions = jnp.asarray(where, np.int64)
    mask = jnp.broadcast_to(moved, positions.shape)
    first = jnp.min(positions, initial=limits.max, where=mask)
    return first, jnp.max(positions, initial=limits.min, where=mask)
