"""Block-scaled (MX) products: every 32 elements along K share a power-of-two scale.

The scales are multiplied into the elements first: exact, as is the product of two scaled elements in
float64. With so few significant bits the float64 sum of a product and the accumulator, rounded to
float32, is the exact sum rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.ir import DType
from pto_jax.isa.rules.matrix import SCALE_GROUP, groups
from pto_jax.isa.rules.matrix_scales import SCALE_PLACES, unstored

from . import bits, platforms, products, products_gpu, slicing
from .matrix import Extent, Extents, accumulated, biased, fetch, plain, within
from .products import Precision
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Shaped, UInt8, UInt32

#: Elements have at most three fraction bits.
_PRECISION = Precision(6, exact=True)


class Factor(NamedTuple):
    """Words of a small float type, and words of the scale of every :data:`SCALE_GROUP` of them along K."""

    words: UInt8[Array, "*batch rows cols"]
    scales: UInt8[Array, "*batch _ _"]


def _factor(c: Context, inputs: Inputs, name: str, shape: tuple[int, int], sizes: Extents) -> Factor:
    """One factor over ``shape``; from K on elements and scales make products of -0, which leave every sum."""
    axis, scale = (1 if name == "a" else 0), f"{name}_scale"
    if c.tile(scale).loc not in SCALE_PLACES:
        raise NotExecutableError(Diagnostic("error", unstored(scale, c.tile(scale)), None, c.instruction))
    d, few = c.dtype(name), (groups(s) if i == axis else s for i, s in enumerate(shape))
    grouped, extents = tuple(few), (sizes.m, sizes.k) if name == "a" else (sizes.k, sizes.n)
    in_groups = [_groups(n) if i == axis else n for i, n in enumerate(extents)]
    factor = Factor(fetch(c, inputs, name, shape), fetch(c, inputs, scale, (grouped[0], grouped[1])))
    nothing = bits.dtype_sign(d) if name == "a" else d.word.type(0)
    masks = within(c, inputs, shape, *extents), within(c, inputs, (grouped[0], grouped[1]), *in_groups)
    fills = nothing, np.uint8(c.dtype(scale).bias)
    return Factor(
        *(
            w if inside is None else jnp.where(inside, w, fill)
            for w, inside, fill in zip(factor, masks, fills, strict=True)
        )
    )


def _groups(k: Extent) -> Extent:
    """Groups that ``k`` elements are in."""
    return groups(k) if isinstance(k, int) else (k + np.int32(SCALE_GROUP - 1)) // np.int32(SCALE_GROUP)


def _product(c: Context, inputs: Inputs, start: UInt32[Array, "M N"] | None = None) -> UInt32[Array, "M N"]:
    sizes = Extents.of(c, inputs)
    m, k, n = sizes.bounds(c)
    a, b = _factor(c, inputs, "a", (m, k), sizes), _factor(c, inputs, "b", (k, n), sizes)
    types = c.dtype("a"), c.dtype("b"), c.dtype("a_scale")
    words = (*a, *b, *(() if start is None else (start,)))
    found: Array = _fold(types, start is not None)(*(w[None] for w in words))[0]
    return found


@cache
def _fold(
    types: tuple[DType, DType, DType], started: bool = False
) -> Callable[..., UInt32[Array, "batch M N"]]:
    """The exact fold of batches; types are those of the elements of both factors and of their scales.

    A fifth array are the words that the sums start from, where they are ``started``.
    """

    def portable(*words: Shaped[Array, "_ _"]) -> UInt32[Array, "M N"]:
        a, b, start = Factor(*words[:2]), Factor(*words[2:4]), words[4] if started else None
        scales = a.scales, b.scales
        return products.fold(a.words, b.words, _PRECISION, types[:2], scales=scales, start=start)

    def own(*words: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        x, x_scales, y, y_scales, *start = words
        first = start[0] if started else None
        return products_gpu.fold_scaled(x, x_scales, y, y_scales, types, SCALE_GROUP, start=first)

    def fold(*words: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        if 0 in words[0].shape + words[2].shape:
            return jax.vmap(portable)(*words)
        found: Array = platforms.by_platform(jax.vmap(portable), cuda=own)(*words)
        return found

    return slicing.of_batches(fold, 5 if started else 4)


@rule("tmatmul.mx", "tgemv.mx")
def _plain(c: Context, inputs: Inputs) -> Outputs:
    return plain(c, inputs, _product)


@rule("tmatmul.mx.acc", "tgemv.mx.acc")
def _accumulated(c: Context, inputs: Inputs) -> Outputs:
    return accumulated(c, inputs, _product)


@rule("tmatmul.mx.bias", "tgemv.mx.bias")
def _biased(c: Context, inputs: Inputs) -> Outputs:
    return biased(c, inputs, _product)
