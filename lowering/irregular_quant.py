"""Quantisation to 8-bit integers with row parameters, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, I8, U8, DType, QuantType, RoundMode

from . import convert, masks
from .irregular_storage import inside, iota, source
from .numerics import Integer
from .region import fit, flush, merge, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, UInt8, UInt32

    from .arrays import Words


def _row_parameter(c: Context, inputs: Inputs, name: str, rows: int) -> UInt32[Array, "rows 1"]:
    """Column 0 of a parameter tile over ``rows`` rows [rows, 1]; its last valid row serves all after it."""
    last = sizes(c.tile(name), masks.lanes(inputs, name))[0] - np.int32(1)
    row = jnp.maximum(jnp.minimum(iota((rows, 1), 0), last), np.int32(0))
    words = flush(c, source(c, inputs, name), F32)
    return words[:, 0].at[row].get(mode="clip")


@rule("tquant")
def _tquant(c: Context, inputs: Inputs) -> Outputs:
    src, t, a = c.tile("src"), c.tile("dst"), c.semantics.arithmetic(F32)
    assert not isinstance(a, Integer)
    old = masks.lanes(inputs, "dst").words
    x = flush(c, masks.lanes(inputs, "src").words, F32)
    scale = _row_parameter(c, inputs, "scale", src.rows)
    limits = U8 if c.attrs["quant_type"] == QuantType.INT8_ASYM else I8
    if not c.has("offset") and c.semantics.numerics == "exact":
        codes = _codes(_product(x, scale), limits)
        return {"dst": jnp.where(inside(c, inputs, "src", t.shape), fit(codes, t.shape, np.uint8(0)), old)}
    value = a.mul(a.decode(x), a.decode(scale))
    if c.has("offset"):
        value = a.add(value, a.decode(_row_parameter(c, inputs, "offset", src.rows)))
    single = a.decode(flush(c, a.encode(value), F32)) if c.semantics.subnormals == "flush" else value
    wide = lax.convert_element_type(a.single(single), np.float64)
    codes = convert.clamp_to_int(convert.round_whole(wide, RoundMode.RINT), limits, 0)
    return {"dst": jnp.where(inside(c, inputs, "src", t.shape), fit(codes, t.shape, np.uint8(0)), old)}


def _product(x: UInt32[Array, "rows cols"], scale: UInt32[Array, "rows 1"]) -> Float32[Array, "rows cols"]:
    """Products of float32 words, rounded once; below 2^-126, where every code is zero, any such number.

    CPUs take float32 subnormals for zeros, so of such words the fraction, as a whole number, is multiplied.
    """
    number, missing = _normal(x)
    factor, rest = _normal(scale)
    power = jnp.where(missing, np.float32(2.0**-74), np.float32(1))
    other = jnp.where(rest, np.float32(2.0**-74), np.float32(1))
    return number * factor * (power * other)


def _normal(words: UInt32[Array, "*shape"]) -> tuple[Float32[Array, "*shape"], Bool[Array, "*shape"]]:
    """The float32 values of words, of subnormal ones 2^74 times the value; and which ones these are."""
    magnitude = words & np.uint32(0x7FFFFFFF)
    tiny = magnitude < np.uint32(1 << 23)
    whole = lax.convert_element_type(lax.bitcast_convert_type(magnitude, np.int32), np.float32)
    value = jnp.where(tiny, whole * np.float32(2.0**-75), lax.bitcast_convert_type(magnitude, np.float32))
    sign = words & np.uint32(1 << 31)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(value, np.uint32) | sign, np.float32), tiny


def _codes(value: Float32[Array, "*shape"], limits: DType) -> UInt8[Array, "*shape"]:
    """Values rounded to nearest even and clamped to an integer type of 8 bits; NaN is 0."""
    whole = lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
    clamped = lax.clamp(np.float32(limits.min_int), whole, np.float32(limits.max_int))
    number = lax.convert_element_type(jnp.where(value == value, clamped, np.float32(0)), np.int32)
    return lax.convert_element_type(number, np.uint8)


@rule("tdequant")
def _tdequant(c: Context, inputs: Inputs) -> Outputs:
    t, d, a = c.tile("dst"), c.dtype("dst"), c.arithmetic()
    last = sizes(c.tile("scale"), masks.lanes(inputs, "scale"))[1] - np.int32(1)
    column = jnp.maximum(jnp.minimum(iota((1, t.cols), 1), last), np.int32(0))

    def parameter(name: str) -> Words:
        words = source(c, inputs, name, t.shape)
        found = jnp.take_along_axis(words, jnp.broadcast_to(column, t.shape), axis=1)
        return flush(c, convert.cast(flush(c, found, F32), F32, d), d)

    code = convert.cast(source(c, inputs, "src", t.shape), c.dtype("src"), d)
    difference = a.sub(a.decode(code), a.decode(parameter("offset")))
    new = flush(c, a.encode(a.mul(difference, a.decode(parameter("scale")))), d)
    return {"dst": merge(c, inputs, new)}
