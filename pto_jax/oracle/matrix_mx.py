"""Block-scaled products: each step scales in float64 and rounds the running sum to f32."""

import numpy as np

from ..isa.rules.matrix import SCALE_GROUP, groups
from ..isa.rules.matrix_scales import SCALE_PLACES, unstored
from .matrix import accumulate, add_bias, extents, finish
from .numbers import Array
from .step import Step, not_executable, rule

rule("tmatmul.mx", "tgemv.mx")(lambda step: finish(step, scaled_products(step)))

rule("tmatmul.mx.acc", "tgemv.mx.acc")(lambda step: accumulate(step, scaled_products))


@rule("tmatmul.mx.bias", "tgemv.mx.bias")
def _with_bias(step: Step) -> None:
    finish(step, scaled_products(step))
    add_bias(step)


def scaled_products(step: Step, first: Array | None = None) -> Array:
    """The M x N sums from ``first`` (zeros), as f32 values."""
    m, k, n = extents(step)
    for name in ("a_scale", "b_scale"):
        if step.type(name).loc not in SCALE_PLACES:
            raise not_executable(step.op, unstored(name, step.type(name)))
    return scaled_sum(
        step.values("a", (m, k)),
        step.values("b", (k, n)),
        step.values("a_scale", (m, groups(k))),
        step.values("b_scale", (groups(k), n)),
        first,
    )


def scaled_sum(a: Array, b: Array, a_scale: Array, b_scale: Array, first: Array | None = None) -> Array:
    """``a @ b`` with one scale of each side per 32 consecutive k; every value is a float64.

    >>> half = np.full((1, 1), 0.5)
    >>> scaled_sum(np.ones((1, 3)), np.ones((3, 1)), half, half)
    array([[0.75]], dtype=float32)
    """
    total = np.zeros((len(a), b.shape[1]), np.float32) if first is None else first
    for k in range(len(b)):
        g = k // SCALE_GROUP
        scale = a_scale[:, g : g + 1] * b_scale[g : g + 1]
        total = (total + a[:, k : k + 1] * b[k : k + 1] * scale).astype(np.float32)
    return total
