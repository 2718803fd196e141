"""Matrix and matrix-vector products into an accumulator tile.

M and K are the valid rows and columns of ``a``, N the valid columns of ``b``; the M x N corner of the
destination is written, whatever its own valid region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import BF16, F16, F32, HIF8, RoundMode
from pto_jax.isa.matrix import ROUNDING_STATE, SHORT_MANTISSA, STARTED

from . import bits, masks, products
from .bits import dtype_sign
from .products import Precision
from .region import all_ones, fit, flush, mask
from .rules import Context, Inputs, Lanes, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import UInt, UInt32

    from .arrays import Mask, Size, Words

#: Computes the finished sums [m, n] as words of the destination's type; float sums start from words or +0.
Product: TypeAlias = "Callable[[Context, Inputs, UInt32[Array, 'M N'] | None], UInt32[Array, 'M N']]"
#: A valid size: static or traced.
Extent: TypeAlias = "int | Size"

_PRECISIONS = {F32: Precision(46, exact=False), BF16: Precision(14, exact=True)}
#: float16 and 8-bit floats: the smallest product is far above the subnormal range of float32.
_NARROW = Precision(None, exact=True)


class Extents(NamedTuple):
    """M, K and N of a multiplication."""

    m: Extent
    k: Extent
    n: Extent

    @classmethod
    def of(cls, c: Context, inputs: Inputs) -> Extents:
        """The extents by the valid regions of ``a`` and ``b``; traced where these are dynamic."""
        a, b = c.tile("a"), c.tile("b")
        left, right = masks.lanes(inputs, "a"), masks.lanes(inputs, "b")
        return cls(_size(a.v_row, left.v_row), _size(a.v_col, left.v_col), _size(b.v_col, right.v_col))

    def bounds(self, c: Context) -> tuple[int, int, int]:
        """The sizes where they are static, else the physical ones, which they cannot exceed."""
        physical = (*c.tile("a").shape, c.tile("b").cols)
        m, k, n = (s if isinstance(s, int) else p for s, p in zip(self, physical, strict=True))
        return m, k, n


def _size(static: int | None, traced: Size | None) -> Extent:
    size = traced if static is None else static
    assert size is not None
    return size


def within(c: Context, inputs: Inputs, shape: tuple[int, int], rows: Extent, cols: Extent) -> Mask | None:
    """Lanes of ``shape`` in the first ``rows`` and ``cols``, or None when that is every lane."""
    static = (s if isinstance(s, int) else None for s in (rows, cols))
    traced = (None if isinstance(s, int) else s for s in (rows, cols))
    return mask(c.tile("dst").with_valid(*static), Lanes(masks.lanes(inputs, "dst").words, *traced), shape)


def fetch(c: Context, inputs: Inputs, name: str, shape: tuple[int, int]) -> Words:
    """A source's words over ``shape``, with the profile's fill outside its valid region."""
    t, source = c.tile(name), masks.lanes(inputs, name)
    words, fill = source.words, all_ones(t.dtype)
    inside = mask(t, source) if c.semantics.out_of_region == "ones" else None
    if inside is not None:
        words = jnp.where(inside, words, fill)
    return flush(c, fit(words, shape, fill), t.dtype)


def _factors(c: Context, inputs: Inputs) -> tuple[UInt[Array, "M K"], UInt[Array, "K N"]]:
    """Words of a [m, k] and b [k, n]; products from K on are -0, which leaves every sum as it is.

    Words of hif8, which has no -0, are given as float32.
    """
    size = Extents.of(c, inputs)
    m, k, n = size.bounds(c)
    x, y = fetch(c, inputs, "a", (m, k)), fetch(c, inputs, "b", (k, n))
    d = c.dtype("a")
    if d == HIF8:
        d, x, y = F32, bits.to_single(x, HIF8), bits.to_single(y, HIF8)
    nothing = dtype_sign(d) if d.is_float else x.dtype.type(0)
    left, right = within(c, inputs, (m, k), size.m, size.k), within(c, inputs, (k, n), size.k, size.n)
    x = x if left is None else jnp.where(left, x, nothing)
    return x, y if right is None else jnp.where(right, y, y.dtype.type(0))


def _product(c: Context, inputs: Inputs, start: UInt32[Array, "M N"] | None = None) -> UInt32[Array, "M N"]:
    x, y = _factors(c, inputs)
    left, right = (F32 if c.dtype(n) == HIF8 else c.dtype(n) for n in "ab")
    if left.is_integer:
        return _integer_product(c, x, y)
    fast = c.semantics.numerics == "fast"
    if fast and left == right and left in (F16, BF16):
        halves = (lax.bitcast_convert_type(w, left.numpy) for w in (x, y))
        return lax.bitcast_convert_type(products.dot(*halves), np.uint32)
    if fast:
        words = (_shortened(c, bits.to_single(x, left)), _shortened(c, bits.to_single(y, right)))
        singles = (lax.bitcast_convert_type(w, np.float32) for w in words)
        return lax.bitcast_convert_type(products.dot(*singles), np.uint32)
    precision = _PRECISIONS.get(c.dtype("a"), _NARROW)
    return products.fold(_shortened(c, x), _shortened(c, y), precision, (left, right), start=start)


def _integer_product(c: Context, x: UInt[Array, "M K"], y: UInt[Array, "K N"]) -> UInt32[Array, "M N"]:
    """int8 products summed modulo 2^32; the order does not matter."""
    total = lax.dot_general(
        lax.bitcast_convert_type(x, c.dtype("a").numpy),
        lax.bitcast_convert_type(y, c.dtype("b").numpy),
        (((1,), (0,)), ((), ())),
        preferred_element_type=np.int32,
    )
    return lax.bitcast_convert_type(total, np.uint32)


def _shortened(c: Context, words: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """float32 operands rounded to the short format while an f32 mode is on."""
    mode, mantissa = c.attrs.get(ROUNDING_STATE), SHORT_MANTISSA.get(c.semantics.profile.name)
    if mode is None or mantissa is None or c.dtype("a") != F32:
        return words
    drop = 23 - mantissa
    rounded = words + np.uint32(1 << (drop - 1))
    if mode == RoundMode.RINT:
        rounded = rounded - ((~words >> np.uint32(drop)) & np.uint32(1))
    rounded = rounded & np.uint32(0x100000000 - (1 << drop))
    is_nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return jnp.where(is_nan, words, rounded)


def _write_corner(c: Context, inputs: Inputs, total: UInt[Array, "M N"]) -> Words:
    """``total`` in the M x N corner of the destination, its old words elsewhere."""
    t, old = c.tile("dst"), masks.lanes(inputs, "dst").words
    size = Extents.of(c, inputs)
    inside = within(c, inputs, t.shape, size.m, size.n)
    total = fit(total, t.shape, total.dtype.type(0))
    return total if inside is None else jnp.where(inside, total, old)


def _add(c: Context, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"]) -> UInt[Array, "*shape"]:
    """The sum rounded to the destination's type."""
    a = c.arithmetic()
    return flush(c, a.encode(a.add(a.decode(x), a.decode(y))), a.dtype)


def plain(c: Context, inputs: Inputs, product: Product) -> Outputs:
    """A product alone."""
    return {"dst": _write_corner(c, inputs, flush(c, product(c, inputs, None), c.dtype("dst")))}


def accumulated(c: Context, inputs: Inputs, product: Product) -> Outputs:
    """A product added to an accumulator, which starts float sums or is added to the finished ones."""
    m, _, n = Extents.of(c, inputs).bounds(c)
    acc, d = fetch(c, inputs, "acc" if c.has("acc") else "dst", (m, n)), c.dtype("dst")
    if d.is_float and c.profile in STARTED and c.semantics.numerics == "exact":
        return {"dst": _write_corner(c, inputs, flush(c, product(c, inputs, acc), d))}
    total = flush(c, product(c, inputs, None), d)
    return {"dst": _write_corner(c, inputs, _add(c, acc, total))}


def biased(c: Context, inputs: Inputs, product: Product) -> Outputs:
    """A product with a row added to each of its rows."""
    t = c.tile("dst")
    total = _write_corner(c, inputs, flush(c, product(c, inputs, None), t.dtype))
    result = _add(c, flush(c, total, t.dtype), fetch(c, inputs, "bias", (1, t.cols)))
    inside = mask(t, masks.lanes(inputs, "dst"))
    return {"dst": result if inside is None else jnp.where(inside, result, total)}


@rule("tmatmul", "tgemv")
def _plain(c: Context, inputs: Inputs) -> Outputs:
    return plain(c, inputs, _product)


@rule("tmatmul.acc", "tgemv.acc")
def _accumulated(c: Context, inputs: Inputs) -> Outputs:
    return accumulated(c, inputs, _product)


@rule("tmatmul.bias", "tgemv.bias")
def _biased(c: Context, inputs: Inputs) -> Outputs:
    return biased(c, inputs, _product)
