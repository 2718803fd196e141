"""Movement between tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.ir import DType

from . import bits, convert, quantise, region
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt


@rule("tmov")
def move(c: Context, inputs: Inputs) -> Outputs:
    """A logical copy; differing element types convert as a C++ cast does.

    The simulator moves with a scalar parameter as without one.
    """
    words, d = region.read(c, inputs, "src"), c.dtype("dst")
    if c.has("fp") or (c.has("preQuantScalar") and c.profile != "cpu_sim"):
        return {"dst": region.merge(c, inputs, quantise.through(c, inputs, words, d))}
    new = convert.cast(words, c.dtype("src"), d)
    if quantise.has_relu(c):
        new = jnp.where(_negative(new, d), d.word.type(0), new)
    return {"dst": region.merge(c, inputs, new)}


def _negative(words: UInt[Array, "*shape"], dtype: DType) -> Bool[Array, "*shape"]:
    """Values below zero: neither NaN nor -0."""
    if dtype.is_float:
        return bits.decode(words, dtype) < np.float64(0)
    native = convert.integer(words, dtype)
    below: Array = native < native.dtype.type(0)
    return below
