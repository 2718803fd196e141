"""Rules of products into an accumulator tile, plain and block-scaled, and of stores through a parameter row.

M and K are the valid rows and columns of ``a``, N the valid columns of ``b``; the M x N corner of the
destination is written, independent of its valid region.

In block-scaled (MX) products every 32 elements along K share a power-of-two scale, which is multiplied into
the elements first: exact, as is the product of two scaled elements in float64. With so few significant bits
the float64 sum of a product and the accumulator, rounded to float32, is the exact sum rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.ir import BF16, F16, F32, HIF8, DType, RoundMode, dtype
from pto_jax.isa.matrix import ROUNDING_STATE, SHORT_MANTISSA, STARTED
from pto_jax.isa.rules.block_scales import SCALE_PLACES, unstored
from pto_jax.isa.rules.matrix import SCALE_GROUP, groups

from . import bits, layout, merging_gpu, platforms, products, region, slicing
from .bits import dtype_sign
from .memory import tstore
from .products import Precision
from .region import all_ones, fit, flush, mask
from .rules import Context, GlobalMemory, Inputs, Lanes, Output, Outputs, Semantics, memory_rule, rule

if TYPE_CHECKING:
    from jaxtyping import Shaped, UInt, UInt8, UInt32

    from .bits import Flat, Mask, Size, Words


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
        left, right = region.lanes(inputs, "a"), region.lanes(inputs, "b")
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
    v_row, v_col = (None if isinstance(s, int) else s for s in (rows, cols))
    lanes = Lanes(region.lanes(inputs, "dst").words, v_row, v_col)
    return mask(c.tile("dst").with_valid(*static), lanes, shape)


def fetch(c: Context, inputs: Inputs, name: str, shape: tuple[int, int]) -> Words:
    """A source's words over ``shape``, with the profile's fill outside its valid region."""
    t, source = c.tile(name), region.lanes(inputs, name)
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
    return sums(c.semantics, _shortened(c, x), _shortened(c, y), (c.dtype("a"), c.dtype("b")), start)


def sums(
    semantics: Semantics,
    x: UInt[Array, "M K"],
    y: UInt[Array, "K N"],
    types: tuple[DType, DType],
    start: UInt32[Array, "M N"] | None = None,
) -> UInt32[Array, "M N"]:
    """The sums of factors, given as words: float ones from ``start`` or +0, integer ones from 0.

    Words of hif8 are given as float32.
    """
    left, right = (F32 if d == HIF8 else d for d in types)
    if left.is_integer:
        return _integer_sums(x, y, (left, right))
    fast = semantics.numerics == "fast"
    if fast and left == right and left in (F16, BF16):
        halves = (lax.bitcast_convert_type(w, left.numpy) for w in (x, y))
        return lax.bitcast_convert_type(products.dot(*halves), np.uint32)
    if fast:
        words = (bits.to_single(x, left), bits.to_single(y, right))
        singles = (lax.bitcast_convert_type(w, np.float32) for w in words)
        return lax.bitcast_convert_type(products.dot(*singles), np.uint32)
    precision = _PRECISIONS.get(types[0], _NARROW)
    return products.fold(x, y, precision, (left, right), start=start)


def _integer_sums(
    x: UInt[Array, "M K"], y: UInt[Array, "K N"], types: tuple[DType, DType]
) -> UInt32[Array, "M N"]:
    """int8 products summed modulo 2^32; the order does not matter."""
    total = lax.dot_general(
        lax.bitcast_convert_type(x, types[0].numpy),
        lax.bitcast_convert_type(y, types[1].numpy),
        (((1,), (0,)), ((), ())),
        preferred_element_type=np.int32,
    )
    return lax.bitcast_convert_type(total, np.uint32)


def _shortened(c: Context, words: UInt[Array, "*shape"]) -> UInt[Array, "*shape"]:
    """float32 operands rounded to the short format while an f32 mode is on."""
    mode, mantissa = c.attrs.get(ROUNDING_STATE), SHORT_MANTISSA.get(c.semantics.profile.name)
    if not isinstance(mode, RoundMode) or mantissa is None or c.dtype("a") != F32:
        return words
    return shortened(words, mantissa, mode)


def shortened(words: UInt32[Array, "*shape"], mantissa: int, mode: RoundMode) -> UInt32[Array, "*shape"]:
    """float32 words with fewer bits of fraction: to nearest, ties to even (RINT) or away."""
    drop = 23 - mantissa
    rounded = words + np.uint32(1 << (drop - 1))
    if mode == RoundMode.RINT:
        rounded = rounded - ((~words >> np.uint32(drop)) & np.uint32(1))
    rounded = rounded & np.uint32(0x100000000 - (1 << drop))
    is_nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return jnp.where(is_nan, words, rounded)


def _write_corner(c: Context, inputs: Inputs, total: UInt[Array, "M N"]) -> Words:
    """``total`` in the M x N corner of the destination, its old words elsewhere."""
    t, old = c.tile("dst"), region.lanes(inputs, "dst").words
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
    inside = mask(t, region.lanes(inputs, "dst"))
    return {"dst": result if inside is None else jnp.where(inside, result, total)}


@rule("tmov.fp")
def _move(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout.move(c, inputs)


@rule("textract_fp")
def _extract(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout.extract(c, inputs)


@rule("tinsert_fp")
def _insert(c: Context, inputs: Inputs) -> Mapping[str, Output]:
    return layout.insert(c, inputs)


@memory_rule("tstore_fp")
def _store(c: Context, inputs: Inputs, memory: GlobalMemory) -> Flat:
    return tstore(c, inputs, memory)


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


def _mx_product(
    c: Context, inputs: Inputs, start: UInt32[Array, "M N"] | None = None
) -> UInt32[Array, "M N"]:
    sizes = Extents.of(c, inputs)
    m, k, n = sizes.bounds(c)
    a, b = _factor(c, inputs, "a", (m, k), sizes), _factor(c, inputs, "b", (k, n), sizes)
    types = c.dtype("a"), c.dtype("b"), c.dtype("a_scale")
    words = (*a, *b, *(() if start is None else (start,)))
    product: Array = _fold(types, start is not None)(*(w[None] for w in words))[0]
    return product


def scaled_sums(
    x: UInt8[Array, "M K"],
    y: UInt8[Array, "K N"],
    scales: Sequence[UInt8[Array, "_ _"]],
    types: tuple[DType, DType],
    start: UInt32[Array, "M N"] | None = None,
) -> UInt32[Array, "M N"]:
    """The exact sums of factors with f8e8m0 scales [M, groups] and [groups, N], from ``start`` or +0."""
    words = (x, scales[0], y, scales[1], *(() if start is None else (start,)))
    result: Array = _fold((*types, dtype("f8e8m0")), start is not None)(*(w[None] for w in words))[0]
    return result


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

    def scaled_product(*words: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        x, x_scales, y, y_scales, *start = words
        first = start[0] if started else None
        return merging_gpu.fold_scaled(x, x_scales, y, y_scales, types, SCALE_GROUP, start=first)

    def fold(*words: Shaped[Array, "batch _ _"]) -> UInt32[Array, "batch M N"]:
        if 0 in words[0].shape + words[2].shape:
            return jax.vmap(portable)(*words)
        every = jax.vmap(portable)
        product: Array = platforms.by_platform(every, cuda=merging_gpu.kernel(scaled_product, every))(*words)
        return product

    return slicing.of_batches(fold, 5 if started else 4)


def _family(suffix: str, product: Product) -> None:
    """Register the products of one kind: alone, added to an accumulator, with a bias."""
    for base in ("tmatmul", "tgemv"):
        rule(f"{base}{suffix}")(lambda c, inputs: plain(c, inputs, product))
        rule(f"{base}{suffix}.acc")(lambda c, inputs: accumulated(c, inputs, product))
        rule(f"{base}{suffix}.bias")(lambda c, inputs: biased(c, inputs, product))


_family("", _product)
_family(".mx", _mx_product)
