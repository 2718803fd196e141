"""Quantisation on the way out of an accumulator: values scaled by 64-bit parameter words.

The fields of a word and the modes are those of :mod:`pto_jax.isa.rules.block_scales`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.ir import BF16, F32, DType, Loc, ReluPreMode, RoundMode
from pto_jax.isa.rules import block_scales, fixpipe

from . import bits, convert, irregular, region
from .numerics import Integer
from .rules import Context, Inputs, compiled

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, UInt, UInt16, UInt32, UInt64

    from .bits import Words

U32, U64, F64 = np.uint32, np.uint64, np.float64


def has_relu(c: Context) -> bool:
    """Whether the instruction asks for a ReLU before the conversion."""
    return c.attrs.get("reluPreMode") == ReluPreMode.NORMAL_RELU


def relu(words: UInt[Array, "*shape"], dtype: DType) -> UInt[Array, "*shape"]:
    """Values above zero, else zero: NaN becomes zero, and so does -0."""
    if dtype.is_float:
        positive = bits.decode(words, dtype) > F64(0)
    else:
        native = convert.integer(words, dtype)
        positive = native > native.dtype.type(0)
    return jnp.where(positive, words, dtype.word.type(0))


def plain(c: Context, words: UInt[Array, "*shape"], dst: DType) -> UInt[Array, "*shape"]:
    """A conversion without parameters: what is not above zero becomes +0 first, where that is asked."""
    src = c.dtype("src")
    return convert.cast(relu(words, src) if has_relu(c) else words, src, dst)


def parameters(c: Context, words: UInt[Array, "*shape"], name: str) -> UInt64[Array, "*shape"]:
    """The 64-bit parameter words that an operand holds."""
    d = c.dtype(name)
    if d.bits != 64:
        message = f"{name} has element type {d}; parameter words of 64 bits are executed"
        raise NotExecutableError(Diagnostic("error", message, None, c.instruction))
    return words


def field(quant: UInt64[Array, "*shape"], bit: int, width: int) -> UInt64[Array, "*shape"]:
    """Bits of parameter words."""
    return (quant >> U64(bit)) & U64((1 << width) - 1)


def scale_of(quant: UInt64[Array, "*shape"], short: bool) -> UInt32[Array, "*shape"]:
    """float32 words of the scales."""
    low = lax.convert_element_type(quant, U32)
    if not short:
        return low
    sign, exponent, fraction = low & U32(1 << 31), (low >> U32(23)) & U32(0xFF), low & U32(0x7FE000)
    normal = sign | (exponent << U32(23)) | fraction
    # Exponent 0 is an ordinary binade, subnormal in float32, but for zero; exponent 255 is infinite.
    lowest = jnp.where(fraction == U32(0), U32(0), sign | U32(1 << 22) | (fraction >> U32(1)))
    beyond = sign | U32(0x7F800000)
    return jnp.where(exponent == U32(0), lowest, jnp.where(exponent == U32(0xFF), beyond, normal))


def quantise(
    c: Context, words: UInt[Array, "*#shape"], quant: UInt64[Array, "*#shape"], dst: DType, *, vector: bool
) -> UInt[Array, "*shape"]:
    """Words of the source as words of ``dst``; ``quant`` are 64-bit words that broadcast to the source.

    ``vector`` is the form with a word per column. Element types without a mode are only converted.
    """
    src = c.dtype("src")
    mode = block_scales.quant_mode(c.profile, src.name, dst.name, vector=vector)
    if mode is None:
        return plain(c, words, dst)
    if mode.rule == "shift":
        return _shifted(c, words, quant, wraps=mode.simulated)
    a = c.semantics.arithmetic(F32)
    assert not isinstance(a, Integer)
    single = words if src == F32 else bits.encode32(convert.to_float64(words, src))
    # In flush mode elements are flushed; the scale is a field of a word and has a value of its own.
    y = a.mul(a.decode(region.flush(c, single, F32)), a.decode(scale_of(quant, mode.short)))
    if mode.rule == "byte":
        signed = field(quant, block_scales.SIGNED_BIT, 1) == U64(1)
        if mode.simulated:
            y = a.add(y, a.decode(bits.encode32(offset_of(quant))))
        total = lax.convert_element_type(a.single(y), F64)
        whole = byte(total if mode.simulated else with_offset(total, quant), signed)
        code = lax.convert_element_type(whole, np.int32)
        return convert.integer_words(jnp.maximum(code, np.int32(0)) if has_relu(c) else code, dst)
    value = _limited(c, mode, bits.decode32(a.words32(y)), dst)
    if has_relu(c):
        value = jnp.where(value > F64(0), value, F64(0))
    return region.flush(c, bits.encode(value, dst), dst)


def _shifted(
    c: Context, words: UInt32[Array, "*#shape"], quant: UInt64[Array, "*#shape"], *, wraps: bool
) -> UInt16[Array, "*shape"]:
    """Arithmetic shift to the right, then the low 16 bits or the nearest number that has 16."""
    distance = lax.convert_element_type(
        field(quant, block_scales.SHIFT_BIT, block_scales.SHIFT_WIDTH), np.int32
    ) + np.int32(1)
    native = lax.bitcast_convert_type(words, np.int32)
    value = lax.shift_right_arithmetic(native, jnp.broadcast_to(distance, native.shape))
    if not wraps:
        value = lax.clamp(np.int32(-(1 << 15)), value, np.int32((1 << 15) - 1))
    low = lax.convert_element_type(value, np.int16)
    if has_relu(c):
        low = jnp.maximum(low, np.int16(0))
    return lax.bitcast_convert_type(low, np.uint16)


def offset_of(quant: UInt64[Array, "*shape"]) -> Float64[Array, "*shape"]:
    """The offsets of parameter words, as numbers without a sign."""
    return lax.convert_element_type(field(quant, block_scales.OFFSET_BIT, block_scales.OFFSET_WIDTH), F64)


def with_offset(
    value: Float64[Array, "*#shape"], quant: UInt64[Array, "*#shape"] | None
) -> Float64[Array, "*shape"]:
    """Values rounded to nine bits, and moved by the offsets of parameter words."""
    limit = F64(1 << (block_scales.OFFSET_WIDTH - 1))
    nine = jnp.clip(convert.round_whole(value, RoundMode.RINT), -limit, limit - F64(1))
    if quant is None:
        return nine
    offset = offset_of(quant)
    return nine + jnp.where(offset < limit, offset, offset - F64(2) * limit)


def byte(value: Float64[Array, "*#shape"], signed: Bool[Array, "*#shape"] | bool) -> Float64[Array, "*shape"]:
    """Values rounded to even and clamped to 8 bits, NaN as zero."""
    whole = convert.round_whole(value, RoundMode.RINT)
    low, high = jnp.where(signed, F64(-128), F64(0)), jnp.where(signed, F64(127), F64(255))
    return jnp.where(value == value, jnp.minimum(jnp.maximum(whole, low), high), F64(0))


def _limited(
    c: Context, mode: block_scales.QuantMode, value: Float64[Array, "*shape"], dst: DType
) -> Float64[Array, "*shape"]:
    """Finite values clamped to the range of ``dst``, infinities where mode or control bit say so."""
    # bfloat16 is limited as float32, so that the rounding may still overflow.
    limit = convert.largest(F32 if dst == BF16 else dst)
    clamped = jnp.minimum(jnp.maximum(value, F64(-limit)), F64(limit))
    if mode.infinities == "clamp":
        return clamped
    if c.attrs.get("saturateInf"):
        return jnp.where(value == value, clamped, F64(0))
    return jnp.where(lax.abs(value) == F64(np.inf), value, clamped)


def through(
    c: Context,
    inputs: Inputs,
    words: Words,
    dst: DType,
    *,
    first: Int32[Array, ""] | None = None,
    by_row: bool = False,
) -> Words:
    """Words of src as words of ``dst``, quantised where the form has parameters.

    ``first`` is the column of src (by default 0) that column 0 of ``words`` is; ``by_row`` takes the
    parameters of an fp tile by row instead.
    """
    if c.has("fp"):
        line = _line(c, inputs, words.shape[0 if by_row else 1], first)
        return quantise(c, words, line[:, None] if by_row else line, dst, vector=True)
    if c.has("preQuantScalar"):
        word = parameters(c, irregular.scalar(inputs, "preQuantScalar"), "preQuantScalar")
        return quantise(c, words, word, dst, vector=False)
    return plain(c, words, dst)


def _line(
    c: Context, inputs: Inputs, count: int, first: Int32[Array, ""] | None
) -> UInt64[Array, " {count}"]:
    """``count`` parameter words of row 0 of the fp tile; those beyond the tile are all ones."""
    extent = count if first is None else count + c.tile("src").cols
    line = irregular.source(c, inputs, "fp", (1, extent))[0]
    if first is not None:
        line = lax.dynamic_slice(line, (first,), (count,))
    return parameters(c, line, "fp")


def stored(c: Context, inputs: Inputs, dst: DType) -> Words:
    """What a store of src writes to global memory of another element type.

    The simulator converts from every place, hardware from accumulators; other transfers copy bits.
    """
    t = c.tile("src")
    converts = c.profile == "cpu_sim" or t.loc == Loc.ACC
    if c.has("fp") or c.has("preQuantScalar") or has_relu(c) or (converts and t.dtype != dst):
        return _jitted(c, dst)({n: v for n, v in inputs.items() if c.has(n)})
    return region.lanes(inputs, "src").valid


@lru_cache(maxsize=1024)
def _jitted(c: Context, dst: DType) -> Callable[[Inputs], Words]:
    by_row = fixpipe.indexed_by_row(c.tile("src"), c.profile)

    def convert_words(c: Context, inputs: Inputs) -> Words:
        return through(c, inputs, region.lanes(inputs, "src").valid, dst, by_row=by_row)

    return compiled(c, convert_words, "pto_convert_words")
