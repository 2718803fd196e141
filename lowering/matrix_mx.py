"""Block-scaled (MX) products: every 32 elements along K share a power-of-two scale.

The scales are multiplied into the elements first: exact, as is the product of two scaled elements in
float64. With so few significant bits the float64 sum of a product and the accumulator, rounded to
float32, is the exact sum rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.isa.rules.matrix import SCALE_GROUP, groups
from pto_jax.isa.rules.matrix_scales import SCALE_PLACES, unstored

from . import bits, products
from .matrix import Extents, accumulated, biased, fetch, plain, within
from .products import Precision
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, UInt32

    from .arrays import Mask, Values

#: Elements have at most three fraction bits.
_PRECISION = Precision(6, exact=True)


def _elements(
    c: Context, inputs: Inputs, name: str, shape: tuple[int, int]
) -> tuple[UInt32[Array, "rows cols"], UInt32[Array, "rows cols"]]:
    """float32 words of the elements of a or b over ``shape``, and of the scale of each (exact)."""
    axis = 1 if name == "a" else 0
    rows, cols = (groups(s) if i == axis else s for i, s in enumerate(shape))
    scale = f"{name}_scale"
    if c.tile(scale).loc not in SCALE_PLACES:
        raise NotExecutableError(Diagnostic("error", unstored(scale, c.tile(scale)), None, c.instruction))
    scales = jnp.repeat(fetch(c, inputs, scale, (rows, cols)), SCALE_GROUP, axis=axis)
    return (
        bits.to_single(fetch(c, inputs, name, shape), c.dtype(name)),
        bits.to_single(scales[: shape[0], : shape[1]], c.dtype(scale)),
    )


def _product(c: Context, inputs: Inputs) -> UInt32[Array, "M N"]:
    size = Extents.of(c, inputs)
    m, k, n = size.bounds(c)
    left, right = within(c, inputs, (m, k), size.m, size.k), within(c, inputs, (k, n), size.k, size.n)
    a, b = _elements(c, inputs, "a", (m, k)), _elements(c, inputs, "b", (k, n))
    if c.semantics.numerics == "fast":
        x, y = _fast(a, left), _fast(b, right)
        return lax.bitcast_convert_type(products.dot(x, y), np.uint32)
    # From K on products are -0, which leaves every sum as it is.
    x, y = _scaled(a, left, -0.0), _scaled(b, right, 0.0)
    return products.fold(_single(x), _single(y), _PRECISION, wide=(x, y))


def _fast(
    pair: tuple[UInt32[Array, "rows cols"], UInt32[Array, "rows cols"]], inside: Mask | None
) -> Float32[Array, "rows cols"]:
    element, scale = (lax.bitcast_convert_type(w, np.float32) for w in pair)
    value = element * scale
    return value if inside is None else jnp.where(inside, value, np.float32(0))


def _scaled(
    pair: tuple[UInt32[Array, "rows cols"], UInt32[Array, "rows cols"]], inside: Mask | None, outside: float
) -> Values:
    """Scaled elements in float64."""
    value = bits.decode32(pair[0]) * bits.decode32(pair[1])
    return value if inside is None else jnp.where(inside, value, np.float64(outside))


def _single(x: Float64[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """float32 words of scaled elements; a subnormal one for a finite value beyond float32."""
    words = bits.encode32(x)
    lost = ((words << np.uint32(1)) == np.uint32(0xFF000000)) & (lax.abs(x) < np.float64(np.inf))
    return jnp.where(lost, np.uint32(1), words)


@rule("tmatmul.mx", "tgemv.mx")
def _plain(c: Context, inputs: Inputs) -> Outputs:
    return plain(c, inputs, _product)


@rule("tmatmul.mx.acc", "tgemv.mx.acc")
def _accumulated(c: Context, inputs: Inputs) -> Outputs:
    return accumulated(c, inputs, _product)


@rule("tmatmul.mx.bias", "tgemv.mx.bias")
def _biased(c: Context, inputs: Inputs) -> Outputs:
    return biased(c, inputs, _product)
