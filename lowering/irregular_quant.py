"""Rules of quantisation: 8-bit integers with row parameters, and groups of 32 elements with one exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.ir import BF16, F4E2M1, F8E4M3, F32, I8, U8, DType, MxQuantAlg, QuantType, RoundMode
from pto_jax.isa.irregular_quant import FP4_ALGS, GROUP, REORDERED, algorithm, along_rows

from . import bits, convert, irregular, region
from .irregular import inside, iota, source
from .machine import storage
from .numerics import FastFloat, Integer, Numerics, arithmetic
from .region import fit, flush, merge, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, UInt, UInt8, UInt32

    from .bits import Size, Words


def _row_parameter(c: Context, inputs: Inputs, name: str, rows: int) -> UInt32[Array, "rows 1"]:
    """Column 0 of a parameter tile over ``rows`` rows [rows, 1]; its last valid row serves all after it."""
    t, words = c.tile(name), flush(c, source(c, inputs, name), F32)
    if t.v_row is not None and t.v_row >= rows:
        return words[:rows, :1]
    last = sizes(t, region.lanes(inputs, name))[0] - np.int32(1)
    row = jnp.maximum(jnp.minimum(iota((rows, 1), 0), last), np.int32(0))
    return words[:, 0].at[row].get(mode="clip")


@rule("tquant")
def _tquant(c: Context, inputs: Inputs) -> Outputs:
    src, t, a = c.tile("src"), c.tile("dst"), c.semantics.arithmetic(F32)
    assert not isinstance(a, Integer)
    old = region.lanes(inputs, "dst").words
    x = flush(c, region.lanes(inputs, "src").words, F32)
    scale = _row_parameter(c, inputs, "scale", src.rows)
    limits = U8 if c.attrs["quant_type"] == QuantType.INT8_ASYM else I8
    if c.has("offset"):
        offset = a.decode(_row_parameter(c, inputs, "offset", src.rows))
        value = a.add(a.mul(a.decode(x), a.decode(scale)), offset)
        single = a.decode(flush(c, a.encode(value), F32)) if c.semantics.subnormals == "flush" else value
        wide = lax.convert_element_type(a.single(single), np.float64)
        codes = convert.clamp_to_int(convert.round_whole(wide, RoundMode.RINT), limits, 0)
    else:
        codes = scaled_codes(c.semantics.numerics, x, scale, limits)
    return {"dst": jnp.where(inside(c, inputs, "src", t.shape), fit(codes, t.shape, np.uint8(0)), old)}


def scaled_codes(
    numerics: Numerics, x: UInt32[Array, "*#shape"], scale: UInt32[Array, "*#shape"], limits: DType = I8
) -> UInt8[Array, "*shape"]:
    """Products of float32 words as codes of 8 bits: nearest, ties to even, clamped; NaN is the integer 0."""
    a = FastFloat(F32)
    fast = numerics == "fast"
    product = a.single(a.mul(a.decode(x), a.decode(scale))) if fast else _product(x, scale)
    if limits.is_float:
        return bits.narrow(lax.bitcast_convert_type(product, np.uint32), limits, saturate=True)
    return _codes(product, limits)


def _product(x: UInt32[Array, "*#shape"], scale: UInt32[Array, "*#shape"]) -> Float32[Array, "*shape"]:
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
    last = sizes(c.tile("scale"), region.lanes(inputs, "scale"))[1] - np.int32(1)
    column = jnp.maximum(jnp.minimum(iota((1, t.cols), 1), last), np.int32(0))

    def parameter(name: str) -> Words:
        words = source(c, inputs, name, t.shape)
        parameters = jnp.take_along_axis(words, jnp.broadcast_to(column, t.shape), axis=1)
        return flush(c, convert.cast(flush(c, parameters, F32), F32, d), d)

    code = convert.cast(source(c, inputs, "src", t.shape), c.dtype("src"), d)
    difference = a.sub(a.decode(code), a.decode(parameter("offset")))
    new = flush(c, a.encode(a.mul(difference, a.decode(parameter("scale")))), d)
    return {"dst": merge(c, inputs, new)}


_U32 = np.uint32
_ABS, _INF = _U32(0x7FFFFFFF), _U32(0x7F800000)
_MANTISSA, _NAN = _U32(0x7FFFFF), _U32(F32.canonical_nan)
_NV = (MxQuantAlg.NV_MX_FP8_E4M3, MxQuantAlg.NV_MX_FP4_E2M1)


class _Groups(NamedTuple):
    """Results per group, [rows, groups] or [groups, columns], and per element.

    ``largest`` magnitudes and ``factor`` are float32 words, ``exponent`` bytes; ``codes`` are
    [rows, columns].
    """

    largest: UInt32[Array, "group_rows group_columns"]
    exponent: UInt8[Array, "group_rows group_columns"]
    factor: UInt32[Array, "group_rows group_columns"]
    codes: UInt8[Array, "rows columns"]


def _largest(single: UInt32[Array, "a b c"], alg: MxQuantAlg, axis: int) -> UInt32[Array, "rows columns"]:
    """float32 words of the largest magnitude of each group, which is an axis of three."""
    magnitude = single & _ABS
    if alg == MxQuantAlg.OCP_MX_FP4_E2M1:
        # The largest bit pattern cut to bf16: a NaN is larger than infinity.
        return _maximum(magnitude & _U32(0xFFFF0000), axis)
    nan = magnitude > _INF
    largest = _maximum(jnp.where(nan, _U32(0), magnitude), axis)
    if alg == MxQuantAlg.NV_MX_FP4_E2M1:
        return jnp.where(jnp.any(nan, axis=axis), _NAN, largest)
    return largest


def _maximum(words: UInt32[Array, "a b c"], axis: int) -> UInt32[Array, "rows columns"]:
    maximum: Array = lax.reduce(words, _U32(0), lax.max, (axis,))
    return maximum


def _exponent(largest: UInt32[Array, "*shape"], alg: MxQuantAlg) -> UInt32[Array, "*shape"]:
    """The shared exponents (biased by 127) as 32-bit words; 255 where the magnitude is NaN."""
    nan = largest > _INF
    if alg not in _NV:
        below = _U32(2 if alg in FP4_ALGS else 8)
        field = largest >> _U32(23)
        return jnp.where(nan, _U32(255), jnp.maximum(field, below) - below)
    # Exact under fast numerics too: a subnormal taken for zero would halve the scale of its group.
    a = arithmetic(F32)
    assert not isinstance(a, Integer)
    inverse = np.float32(1) / np.float32(6 if alg in FP4_ALGS else 448)
    scaled = a.encode(a.mul(a.decode(largest), a.const(float(inverse))))
    field, mantissa = scaled >> _U32(23), scaled & _MANTISSA
    stays = (field == _U32(254)) | ((field == _U32(0)) & (mantissa <= _U32(0x400000)))
    up = (mantissa != _U32(0)) & ~stays
    exponent = jnp.where(scaled == _INF, _U32(254), field + lax.convert_element_type(up, _U32))
    return jnp.where(nan, _U32(255), exponent)


def _factor(exponent: UInt32[Array, "*shape"], largest: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """2^(127 - exponent), subnormal for 254; the magnitude itself where the exponent is 255."""
    field = jnp.where(exponent < _U32(254), (_U32(254) - exponent) << _U32(23), _U32(0x400000))
    return jnp.where(exponent == _U32(255), largest, field)


def _encode(single: UInt32[Array, "*shape"], alg: MxQuantAlg) -> UInt8[Array, "*shape"]:
    """Codes of float32 words: nearest, ties to even, clamped to the largest finite value."""
    magnitude = single & _ABS
    if alg in FP4_ALGS:
        codes = bits.narrow(single, F4E2M1, saturate=True)
        return jnp.where(magnitude > _INF, np.uint8(7), codes)
    codes = bits.narrow(single, F8E4M3, saturate=True)
    codes = jnp.where((codes & np.uint8(0x7F)) == np.uint8(0), np.uint8(0), codes)
    if alg not in _NV:
        return codes
    sign = lax.convert_element_type((single >> _U32(24)) & _U32(0x80), np.uint8)
    return jnp.where(magnitude < _U32(0x3A800000), sign, codes)


def _scaled(single: UInt32[Array, "*#shape"], exponent: UInt32[Array, "*#shape"]) -> UInt32[Array, "*shape"]:
    """float32 words times 2^(127 - exponent) of exponents up to 247; exact where a code is not zero.

    CPUs take float32 subnormals for zeros: of such a word the fraction, as a whole number, is multiplied.
    """
    # Not the expression of :func:`_largest`, whose result GPUs would keep beside the words for both.
    sign = single & ~_ABS
    magnitude = single ^ sign
    tiny = magnitude < _U32(1 << 23)
    fraction = lax.convert_element_type(lax.bitcast_convert_type(magnitude, np.int32), np.float32)
    number = jnp.where(tiny, fraction, lax.bitcast_convert_type(magnitude, np.float32))
    power = (_U32(254) - exponent) << _U32(23)
    low = jnp.where(exponent < _U32(254 - 149), power - _U32(149 << 23), _U32(0))
    product = number * lax.bitcast_convert_type(jnp.where(tiny, low, power), np.float32)
    return lax.bitcast_convert_type(product, _U32) | sign


def grouped_codes(
    words: UInt32[Array, "*shape"], axis: int
) -> tuple[UInt8[Array, "*shape"], UInt8[Array, "..."]]:
    """e4m3 codes of float32 words, and the exponent of each group, which is an axis and has extent 1 then.

    What OCP_MX_FP8_E4M3 asks for; the largest exponent field is found among float32 numbers, for which
    XLA:CPU has a function of a library.
    """
    magnitude = words & _ABS
    fields = jnp.where(magnitude > _INF, _U32(0), magnitude >> _U32(23))
    numbers = lax.convert_element_type(lax.bitcast_convert_type(fields, np.int32), np.float32)
    largest = lax.expand_dims(lax.reduce(numbers, np.float32(8), lax.max, (axis,)), (axis,))
    exponent = lax.convert_element_type(largest - np.float32(8), _U32)
    codes = _encode(_scaled(words, exponent), MxQuantAlg.OCP_MX_FP8_E4M3)
    return codes, lax.convert_element_type(exponent, np.uint8)


def _quantise(c: Context, words: UInt[Array, "rows columns"], alg: MxQuantAlg, down: bool) -> _Groups:
    """Codes of the words of a source, whose groups lie along its rows, or ``down`` its columns."""
    a, d = c.semantics.arithmetic(F32), c.dtype("src")
    assert not isinstance(a, Integer)
    (rows, columns), axis = words.shape, 1 if down else 2
    shape = (rows // GROUP, GROUP, columns) if down else (rows, columns // GROUP, GROUP)
    single = bits.to_single(flush(c, words, d), d).reshape(shape)
    largest = _largest(single, alg, axis)
    exponent = _exponent(largest, alg)
    factor = _factor(exponent, largest)
    if alg == MxQuantAlg.OCP_MX_FP8_E4M3:
        scaled = _scaled(single, lax.expand_dims(exponent, (axis,)))
    else:
        # 2^-127, the factor of a group with an infinity, is multiplied as 2^-126 and a half, since fast
        # numerics take a subnormal for zero. The codes of products below 2^-126 are zero in any case.
        lowest = lax.expand_dims(exponent == _U32(254), (axis,))
        power = a.decode(jnp.where(lowest, _U32(1 << 23), lax.expand_dims(factor, (axis,))))
        half = a.decode(jnp.where(lowest, _U32(126 << 23), _U32(127 << 23)))
        scaled = flush(c, a.encode(a.mul(a.mul(a.decode(single), power), half)), F32)
    if d == BF16 and alg in FP4_ALGS:
        scaled = bits.bf16_to_f32(bits.f32_to_bf16(scaled))
    codes = _encode(scaled, alg).reshape(rows, columns)
    return _Groups(largest, lax.convert_element_type(exponent, np.uint8), factor, codes)


@rule("tquant.mx", "tquant_dn")
def _tquant_mx(c: Context, inputs: Inputs) -> Outputs:
    """Groups are computed over the static extent of the grouped axis, and so are the codes."""
    if c.has("exp_zz"):
        raise NotExecutableError(Diagnostic("error", REORDERED, None, c.instruction))
    alg, src, t = algorithm(c.attrs), c.tile("src"), c.tile("dst")
    down = along_rows(c.attrs)
    v_row, v_col = sizes(src, region.lanes(inputs, "src"))
    words = irregular.source(c, inputs, "src")
    blocks = _quantise(c, words, alg, down)
    groups = _count(c, v_row if down else v_col, blocks.exponent.shape[0 if down else 1])
    rows, cols = (groups * np.int32(GROUP), v_col) if down else (v_row, groups * np.int32(GROUP))
    old = region.lanes(inputs, "dst").words
    if c.profile == "cpu_sim" and t.dtype.packed:
        old = jnp.zeros_like(old)
    results = (_place_columns if down else _place_rows)(c, inputs, blocks, groups, v_col if down else v_row)
    # Of a last pair only the valid number is written.
    shape = t.rows, t.cols * t.dtype.numbers
    numbers = bits.unpack(old) if t.dtype.pair_of else old
    mask = (irregular.iota(shape, 0) < rows) & (irregular.iota(shape, 1) < cols)
    numbers = jnp.where(mask, fit(blocks.codes, shape, np.uint8(0)), numbers)
    return {"dst": bits.pack(numbers) if t.dtype.pair_of else numbers, **results}


def _count(c: Context, valid: Size, physical: int) -> Size:
    """Groups of a line: the valid ones, on the simulator all."""
    groups = (
        np.int32(physical) if c.profile == "cpu_sim" else (valid + np.int32(GROUP - 1)) // np.int32(GROUP)
    )
    return jnp.asarray(groups)


def _place_rows(c: Context, inputs: Inputs, blocks: _Groups, groups: Size, rows: Size) -> Outputs:
    """Group g of row r: exponent at (r, g), the others at element r * groups + g."""
    t, old = c.tile("exp"), region.lanes(inputs, "exp").words
    results = {n: _store(c, inputs, n, w, groups, (rows, groups)) for n, w in _converted(c, blocks)}
    if c.profile == "a5" and t.rows == 1:
        return results | {"exp": _store(c, inputs, "exp", blocks.exponent, groups, (rows, groups))}
    mask = (irregular.iota(t.shape, 0) < rows) & (irregular.iota(t.shape, 1) < groups)
    return results | {"exp": jnp.where(mask, fit(blocks.exponent, t.shape, np.uint8(0)), old)}


def _place_columns(c: Context, inputs: Inputs, blocks: _Groups, groups: Size, cols: Size) -> Outputs:
    """Group g of column j: exponent at (g, j), the others at element g * (columns) + j."""
    t, old = c.tile("exp"), region.lanes(inputs, "exp").words
    pitch = cols if c.profile == "cpu_sim" else jnp.asarray(np.int32(c.tile("src").cols))
    results = {n: _store(c, inputs, n, w, pitch, (groups, cols)) for n, w in _converted(c, blocks)}
    exponents, rows = blocks.exponent, groups
    if c.attrs.get("interleave"):
        # The partner of a last valid group without one is zero.
        valid = irregular.iota(exponents.shape, 0) < groups
        exponents = jnp.where(valid, exponents, np.uint8(0))
        pairs = jnp.pad(exponents, ((0, exponents.shape[0] % 2), (0, 0)))
        pairs = pairs.reshape(-1, 2, pairs.shape[1]).transpose(0, 2, 1)
        exponents, cols = pairs.reshape(pairs.shape[0], -1), cols * np.int32(2)
        rows = (groups + np.int32(1)) // np.int32(2)
    mask = (irregular.iota(t.shape, 0) < rows) & (irregular.iota(t.shape, 1) < cols)
    return results | {"exp": jnp.where(mask, fit(exponents, t.shape, np.uint8(0)), old)}


def _converted(c: Context, blocks: _Groups) -> list[tuple[str, UInt[Array, "rows columns"]]]:
    """Magnitudes and factors in the element types of their tiles."""
    pairs = (("max", blocks.largest), ("scaling", blocks.factor))
    return [(n, convert.cast(w, F32, c.dtype(n))) for n, w in pairs]


def _store(
    c: Context,
    inputs: Inputs,
    name: str,
    values: UInt[Array, "lines columns"],
    pitch: Size,
    region: tuple[Size, Size],
) -> Words:
    """A tile whose storage has the ``region`` of ``values`` in rows of ``pitch`` elements."""
    old = irregular.flat(c, inputs, name)
    place, divisor = irregular.iota(old.shape, 0), jnp.maximum(pitch, np.int32(1))
    row, col = place // divisor, place % divisor
    elements = values.at[row, col].get(mode="fill", fill_value=0)
    mask = (row < region[0]) & (col < region[1])
    return storage.to_logical(jnp.where(mask, elements, old), c.tile(name))
