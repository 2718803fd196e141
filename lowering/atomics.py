"""Stores whose lanes may share elements of global memory, in row-major order of the lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType

from . import canary, platforms
from .region import flush
from .rules import Context
from .words import elements_at

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Shaped, UInt

    from .arrays import Flat

#: ``combine(context, dtype, old, new)``: the words that stay where new words meet old ones.
Combine: TypeAlias = "Callable[[Context, DType, Flat, Flat], Flat]"


def add(
    c: Context, dtype: DType, old: UInt[Array, "*shape"], new: UInt[Array, "*shape"]
) -> UInt[Array, "*shape"]:
    """Words of the sums, in the element type: one rounding, integers wrap."""
    if dtype.is_float and c.semantics.numerics == "exact":
        canary.require(platforms.expected())
    a = c.semantics.arithmetic(dtype)
    total = a.add(a.decode(flush(c, old, dtype)), a.decode(flush(c, new, dtype)))
    return flush(c, a.encode(total), dtype)


def accumulate(
    c: Context,
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
    combine: Combine = add,
) -> Flat:
    """The buffer with every lane combined with its element, one after another where they share one.

    ``where`` and ``new`` are flat; positions at the buffer's end or beyond are not written. Lanes are
    taken in rounds, the n-th lane of every element together: one round where no two lanes meet.
    """
    result: Array = _accumulate(c, dtype, buffer, where, new, combine)
    return result


@partial(jax.jit, static_argnums=(0, 1, 5))
def _accumulate(
    c: Context,
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
    combine: Combine,
) -> Flat:
    beyond = np.int32(buffer.shape[0])
    positions, order, first = _sorted(where)
    words = new[order]

    def going(carry: tuple[Bool[Array, " lanes"], Flat]) -> Bool[Array, ""]:
        return jnp.any(carry[0])

    def step(carry: tuple[Bool[Array, " lanes"], Flat]) -> tuple[Bool[Array, " lanes"], Flat]:
        turn, current = carry
        target = jnp.where(turn, positions, beyond)
        old = elements_at(current, target)
        current = current.at[target].set(combine(c, dtype, old, words), mode="drop")
        return jnp.concatenate([turn[:1] & False, turn[:-1]]) & ~first, current

    return lax.while_loop(going, step, (first & (positions < beyond), varying(buffer, new, where)))[1]


def varying(buffer: Flat, *operands: Shaped[Array, "..."]) -> Flat:
    """The buffer as a loop's carry: one that varies over a mesh as results of the operands do."""
    for operand in operands:
        nothing = jnp.max(operand ^ operand, initial=operand.dtype.type(0))
        buffer = buffer | lax.convert_element_type(nothing, buffer.dtype)
    return buffer


def overwrite(buffer: Flat, where: Int32[Array, " lanes"], new: UInt[Array, " lanes"]) -> Flat:
    """The buffer with every lane stored; the last one stays where several share an element."""
    positions, order, first = _sorted(where)
    last = jnp.concatenate([first[1:], jnp.ones(1, np.bool_)])
    target = jnp.where(last, positions, np.int32(buffer.shape[0]))
    return buffer.at[target].set(new[order], mode="drop")


def _sorted(
    where: Int32[Array, " lanes"],
) -> tuple[Int32[Array, " lanes"], Int32[Array, " lanes"], Bool[Array, " lanes"]]:
    """Positions in order, the lanes they belong to, and whether a place is the first one of its position."""
    positions, order = lax.sort((where, lax.iota(np.int32, where.shape[0])), num_keys=1, is_stable=True)
    first = jnp.concatenate([jnp.ones(1, np.bool_), positions[1:] != positions[:-1]])
    return positions, order, first
