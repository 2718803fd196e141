"""Addresses of global memory in 64 bits: arithmetic that leaves them reaches nothing.

Buffers have fewer than 2**31 elements. What is farther away than that is outside whatever is added to it, so
sums are kept where they cannot come back by wrapping.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.dtypes import INDEX
from pto_jax.walk import NOWHERE, Scalar, address

from .scalars import to_native

#: Positions or distances of elements, int64.
Positions: TypeAlias = "Array | np.ndarray | np.integer"
#: Strides up to here are followed; the elements of a larger one are all outside but the first.
NEAR = 1 << 31
#: A distance that leads outside every buffer, several times also; starts are followed within half of it.
FAR = 1 << 60


def advanced(base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
    """``base + index * stride`` in int64, NOWHERE where the product or the sum leaves it."""
    if isinstance(index, int):
        index, stride = stride, index
    if isinstance(index, int):
        # The product is known, so the base is not.
        base, index, stride = address(0, index, stride), base, 1
    numbers = (base, stride)
    known = tuple(n if isinstance(n, int) else None for n in numbers)
    if NOWHERE in known[:1]:
        return NOWHERE
    found: Array = _advanced(
        *known, *(to_native(n, INDEX) for n in (index, *numbers) if not isinstance(n, int))
    )
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _advanced(start: int | None, step: int | None, index: Array, *unknown: Array) -> Array:
    """The base and the stride are given as numbers where they are known: those are cheap to compare with."""
    given = list(unknown)
    base = np.int64(start) if start is not None else given.pop(0)
    product, inside = _product(index, given.pop(0)) if step is None else _multiple(index, step)
    total = lax.add(base, product)
    if start is None:
        # A sum has left 64 bits where its sign is that of neither part.
        kept = lax.ge((base ^ total) & (product ^ total), np.int64(0))
        inside = inside & kept & lax.ne(base, np.int64(NOWHERE))
    elif start > 0:
        inside = inside & lax.le(product, np.int64((1 << 63) - 1 - start))
    elif start < 0:
        inside = inside & lax.ge(product, np.int64(-(1 << 63) - start))
    return lax.select(inside, total, lax.full_like(total, NOWHERE))


def _multiple(index: Array, step: int) -> tuple[Array, Array]:
    """``index * step``, and whether that is in 64 bits."""
    if step == 1:
        return index, lax.ne(index, np.int64(NOWHERE))
    low, high = sorted((_truncated(-(1 << 63), step), _truncated((1 << 63) - 1, step)))
    low, high = max(low, -(1 << 63)), min(high, (1 << 63) - 1)
    inside = lax.ge(index, np.int64(low)) & lax.le(index, np.int64(high))
    return lax.mul(index, np.int64(step)), inside


def _truncated(n: int, divisor: int) -> int:
    return abs(n) // abs(divisor) * (1 if (n < 0) == (divisor < 0) else -1)


def _product(index: Array, stride: Array) -> tuple[Array, Array]:
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
    start = wide(offset)
    if all(map(is_near, strides)):
        return start
    followed = lax.le(lax.abs(start), np.int64(FAR // 2)) & lax.ne(start, np.int64(NOWHERE))
    return jnp.where(followed, start, np.int64(NOWHERE))


def distance(index: Positions, stride: Scalar) -> Positions:
    """``index * stride`` for indices of lanes, FAR where a stride is not followed."""
    if is_near(stride):
        return index * np.int64(stride)
    if isinstance(stride, int):
        none = index == np.int64(0)
        chosen = np.where if isinstance(index, np.ndarray | np.integer) else jnp.where
        found: Positions = chosen(none, np.int64(0), np.int64(FAR))
        return found
    step = wide(stride)
    followed = lax.le(lax.abs(step), np.int64(NEAR)) & lax.ne(step, np.int64(NOWHERE))
    return jnp.where(followed | (index == np.int64(0)), index * step, np.int64(FAR))


def product(extents: tuple[Scalar, ...]) -> Scalar:
    """How many elements some extents have together; 2**31 or more where that is more than 64 bits hold."""
    known = 1
    for n in extents:
        known *= n if isinstance(n, int) else 1
    unknown = [wide(n) for n in extents if not isinstance(n, int)]
    if not unknown:
        return known
    found = wide(known)
    for n in unknown:
        if len(unknown) == 1 and known == 1:
            return n
        found = jnp.minimum(found, np.int64(NEAR)) * jnp.minimum(n, np.int64(NEAR))
    return found


def reach(where: Positions, moved: Array | np.ndarray | bool = True) -> tuple[Array, Array]:
    """The first and the last of some positions; the last one is less where there is none."""
    limits = np.iinfo(np.int64)
    positions = jnp.asarray(where, np.int64)
    chosen = jnp.broadcast_to(moved, positions.shape)
    first = jnp.min(positions, initial=limits.max, where=chosen)
    return first, jnp.max(positions, initial=limits.min, where=chosen)
