"""Layers whose products are PTO instructions, with straight-through gradients."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap

from .. import ops, profiles
from ..errors import ArgumentError
from . import gradients, scaling
from .formats import GROUP, Block, Name as FormatName, Numerics, Settings, block_of, settings
from .quantisation import Quantised, floats, lanewise, quantise, scale_of, single
from .sharding import names, of_sizes, on_each_part, partition, spec_of, whole_along
from .tiling import cut, each, joined, stored


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    format: FormatName = "int8",
    profile: profiles.ProfileName | None = None,
    scale: Any = None,
    w_scale: Any = None,
    numerics: Numerics = "exact",
) -> Array:
    """``x @ w + bias`` in a number format of the hardware, computed by PTO instructions.

    ``x`` [..., K] and ``w`` [K, N] are arrays of float32, float16 or bfloat16, ``bias`` [N]; the result is
    [..., N] in the type of x. All sizes are allowed: matrices are padded with zeros and cut into tiles of at
    most 128 rows, 256 bytes along K and 256 columns, which every profile's buffers hold.

    ``format``
        "int8": codes with a scale, int32 sums. "fp8": e4m3 codes with a scale, float32 sums. "mx": MXFP8,
        e4m3 codes whose groups of 32 along K share a power of two, float32 sums. "f16", "bf16", "f32":
        converted, float32 sums. Float sums of several tiles along K are added in float32, in order.
        What is beyond the largest number of f16, bf16 or the codes, an infinity included, becomes that
        number; under a given scale NaN is 0 in "int8".
    ``profile``
        The first of "a2a3", "a5", "cpu_sim" that has the format; "fp8" is one of a5.
    ``scale``, ``w_scale``
        Scales of x and w for "int8" and "fp8", as :func:`calibrate` gives them: of x one number, or
        [..., 1] for one per row (the default, from the magnitudes); of w one number, or [1, N] for one per
        column (the default, at least 2^-100 over the largest code: 6.2e-33 for "int8"; NaN and infinity
        where the values have one). They count as constants.
    ``numerics``
        "exact" or "fast", as for :func:`pto_jax.compile`.

    The gradient is that of ``x @ w + bias`` (:func:`pto_jax.straight_through`). Under vmap over x alone the
    batch is more rows of one product. Over explicit mesh axes rows of x and columns of w may be sharded, and
    the result is as they are; K is whole. Raises ArgumentError for shapes and shardings that do not fit,
    formats that the profile does not have, and scales of formats without.

    >>> x, w = jnp.ones((3, 5)), jnp.full((5, 2), 0.5)
    >>> linear(x, w, format="bf16").tolist()
    [[2.5, 2.5], [2.5, 2.5], [2.5, 2.5]]
    """
    how = settings("linear", format, profile, numerics)
    x, w = floats("linear: x", x), floats("linear: w", w)
    if x.ndim < 1 or w.ndim != 2 or x.shape[-1] != w.shape[0] or 0 in w.shape:
        raise ArgumentError(
            f"linear: found x {list(x.shape)} and w {list(w.shape)}; allowed: x [..., K] and w [K, N]"
            + ("; usual fix: w.T" if w.ndim == 2 and x.ndim and x.shape[-1] == w.shape[1] else "")
        )
    if bias is not None:
        bias = floats("linear: bias", bias)
        if bias.shape != w.shape[1:]:
            raise ArgumentError(f"linear: found bias {list(bias.shape)}, allowed: [N], here {[w.shape[1]]}")
    if how.format.largest is None and (scale is not None or w_scale is not None):
        raise ArgumentError(f"linear: format {format!r} has no scales of its own; allowed: scale=None")
    scales = (
        None if scale is None else scale_of("linear: scale", scale, (*x.shape[:-1], 1)),
        None if w_scale is None else scale_of("linear: w_scale", w_scale, (1, w.shape[1])),
    )
    whole_along("linear: x", x, (-1,), "K")
    whole_along("linear: w", w, (0,), "K")
    if both := sorted(names(spec_of(x)) & names(spec_of(w))):
        raise ArgumentError(
            f"linear: found x {jax.typeof(x)} and w {jax.typeof(w)}, both sharded over {', '.join(both)}; "
            "allowed: rows of x and columns of w over different mesh axes; usual fix: "
            "jax.sharding.reshard(w, jax.P(None, None))"
        )
    return _layer(how)(x, w, bias, *scales)


@lru_cache
def _layer(how: Settings) -> Callable[..., Array]:
    """The layer as a function of arrays."""

    def whole(x: Array, w: Array, *others: Array | None) -> Any:
        *rows, _ = spec_of(x)
        columns = spec_of(w)[1]
        wide = ((columns,), (*rows, None), (None, columns))  # bias, scale, w_scale
        specs = (
            partition(()) if a is None else of_sizes(s, a.shape) for a, s in zip(others, wide, strict=True)
        )
        inputs = (partition((*rows, None)), partition((None, columns)), *specs)
        return on_each_part(partial(_forward, how), (x, w, *others), inputs, partition((*rows, columns)))

    forward = custom_vmap(whole)

    @forward.def_vmap
    def _(axis_size: int, batched: Sequence[Any], x: Array, *others: Any) -> tuple[Array, bool]:
        """A batch of x is more rows of one product: by itself each would be padded to a tile."""
        w, bias, scale, w_scale = others
        if not batched[0] or any(batched[i] for i in (1, 2, 4)):
            axes = tuple(0 if b else None for b in batched)
            return jax.vmap(whole, axes)(x, *others), True
        if batched[3] and scale is not None:
            scale = scale.reshape(axis_size, *(1,) * (x.ndim - scale.ndim), *scale.shape[1:])
        return forward(x, w, bias, scale, w_scale), True

    return jax.jit(gradients.straight_through(forward, _reference))


def _reference(x: Array, w: Array, bias: Array | None, scale: Array | None, w_scale: Array | None) -> Array:
    product = jnp.matmul(x, w.astype(x.dtype))
    return product if bias is None else product + bias.astype(x.dtype)


def _forward(
    how: Settings, x: Array, w: Array, bias: Array | None, scale: Array | None, w_scale: Array | None
) -> Array:
    x = stored(x)
    rows = x.reshape(-1, x.shape[-1])
    if not len(rows):
        return jnp.zeros((*x.shape[:-1], w.shape[1]), x.dtype)
    if scale is not None:
        scale = jnp.broadcast_to(scale, (*x.shape[:-1], 1)).reshape(-1, 1)
    a, b = stored((_operand(how, rows, scale, 1), _operand(how, w, w_scale, 0)))
    block = block_of(how.format, rows.shape[0], rows.shape[1], w.shape[1])
    left, right = _sides(how, a, block, 0), _sides(how, b, block, 1)
    tiles = each(partial(_total, how, len(left)), *left, *right)
    line = None if bias is None else cut(single(how, bias)[None], 1, block.n)
    if how.format.largest is not None:
        # Rows and columns that only pad have no scale of their own.
        row = cut(jnp.broadcast_to(a.scale, (len(rows), 1)), block.m, 1)
        column = cut(jnp.broadcast_to(b.scale, (1, w.shape[1])), 1, block.n)
        tiles = scaling.scaled(how, tiles, row, column, line)
    elif line is not None:
        tiles = each(lambda t, b: ops.tcolexpandadd(t, b, **how.options).array, tiles, line)
    result = joined(tiles, len(rows), w.shape[1])
    if x.dtype != np.float32:
        to = {"float16": "f16", "bfloat16": "bf16"}[str(x.dtype)]
        result = lanewise(lambda t: ops.tcvt(t, dst=to, **how.options), result)
    layer: Array = stored(result).reshape(*x.shape[:-1], w.shape[1])
    return layer


def _operand(how: Settings, x: Array, scale: Array | None, axis: int) -> Quantised:
    """Codes of a matrix whose scales are shared along ``axis``; in formats without scales a conversion."""
    if how.format.name in ("int8", "fp8", "mx"):
        return quantise(x, scale, format=how.format.name, axis=axis, **how.options)
    if how.format.name == "f32":
        return Quantised(single(how, x), x)
    codes = lanewise(lambda t: ops.tcvt(t, dst=how.format.element, **how.options), single(how, x))
    return Quantised(codes, x)


def _sides(how: Settings, x: Quantised, block: Block, side: int) -> tuple[Array, ...]:
    """Tiles of codes, in format mx also of exponents: [rows, 1, K, ...] at the left, [1, columns, K, ...]."""
    parts = [(x.codes, block.k)]
    if how.format.name == "mx":
        parts.append((lax.bitcast_convert_type(x.scale, np.uint8), block.k // GROUP))
    if side == 0:
        return tuple(cut(p, block.m, k)[:, None] for p, k in parts)
    return tuple(cut(p, k, block.n).swapaxes(0, 1)[None] for p, k in parts)


def _total(how: Settings, count: int, *operands: Array) -> Array:
    """The sums of one tile of the result: products along K, added up."""
    left, right = operands[:count], operands[count:]
    sources = [*left, *right]
    multiply, add = (
        (ops.tmatmul_mx, ops.tmatmul_mx_acc) if how.format.name == "mx" else (ops.tmatmul, ops.tmatmul_acc)
    )
    total: Array = multiply(*(s[0] for s in sources), **how.options).array
    if len(sources[0]) > 1:
        total = lax.scan(
            lambda t, s: (add(t, *s, **how.options).array, None), total, tuple(s[1:] for s in sources)
        )[0]
    return total
