"""What the arithmetics of element types share: numbers, and operations on arrays that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import Array, lax

from pto_jax.ir import CmpMode

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Shaped

    from .arrays import Integers


class Real(NamedTuple):
    """A float64 value of the exact arithmetic.

    ``pending`` is the rounding it still needs: "none" for a decoded or settled value, "single" for the
    result of an operation that hardware does in float32, "direct" for a float64 evaluation that is
    rounded once, to the element type.
    """

    value: Float64[Array, "..."]
    pending: Literal["none", "single", "direct"] = "none"


#: A number of some arithmetic: Real, a float32 array or an integer array.
Num: TypeAlias = "Real | Float32[Array, '...'] | Integers"

#: An operation on arrays of one type and shape, lane by lane.
Lanewise: TypeAlias = "Callable[[Shaped[Array, '*shape'], Shaped[Array, '*shape']], Shaped[Array, '*shape']]"

COMPARE: dict[CmpMode, Lanewise] = {
    CmpMode.EQ: lax.eq,
    CmpMode.NE: lax.ne,
    CmpMode.LT: lax.lt,
    CmpMode.LE: lax.le,
    CmpMode.GT: lax.gt,
    CmpMode.GE: lax.ge,
}


def broadcast(op: Lanewise) -> Lanewise:
    """An operation on arrays of one shape, on arrays of shapes that broadcast."""

    def apply(x: Shaped[Array, "*#shape"], y: Shaped[Array, "*#shape"]) -> Shaped[Array, "*shape"]:
        return op(x, y) if jnp.shape(x) == jnp.shape(y) else op(*jnp.broadcast_arrays(x, y))

    return apply
