"""NumPy rules of quantisation: 8-bit integers with row parameters, and groups of 32 elements in turn."""

import numpy as np

from ..ir import BF16, F4E2M1, F8E4M3, DType, MxQuantAlg, QuantType
from ..isa.irregular_quant import FP4_ALGS, GROUP, REORDERED, algorithm, along_rows
from . import storage
from .numbers import Array, decode, encode
from .step import Step, not_executable, rule


@rule("tquant")
def _tquant(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    rows, cols = min(rows, t.rows), min(cols, t.cols)
    scaled = step.values("src", (rows, cols)) * _parameter(step, "scale", rows)
    low, high = -128.0, 127.0
    if step.attrs["quant_type"] == QuantType.INT8_ASYM:
        scaled = scaled + _parameter(step, "offset", rows)
        low, high = 0.0, 255.0
    rounded = np.where(np.isnan(scaled), np.float32(0.0), np.clip(np.rint(scaled), low, high))
    step.put(rounded.astype(np.int16).astype(t.dtype.word), region=(rows, cols))


def _parameter(step: Step, name: str, rows: int) -> Array:
    """Column 0 of a parameter tile, whose last valid row serves all rows from there on."""
    last = max(step.valid(name)[0] - 1, 0)
    words = step.gather(name, np.minimum(np.arange(rows), last)[:, None], np.zeros((1, 1), np.int64))
    return decode(step.flushed(words, name), step.dtype(name))


@rule("tdequant")
def _tdequant(step: Step) -> None:
    d, (rows, cols) = step.dtype(), step.region
    last = max(step.valid("scale")[1] - 1, 0)
    at = np.arange(rows)[:, None], np.minimum(np.arange(cols), last)[None, :]
    scale, offset = (
        decode(encode(decode(step.flushed(step.gather(n, *at), n), step.dtype(n)), d), d)
        for n in ("scale", "offset")
    )
    code = decode(encode(step.values("src").astype(np.float64), d), d)
    step.store(encode((code - offset) * scale, d))


_NV = (MxQuantAlg.NV_MX_FP8_E4M3, MxQuantAlg.NV_MX_FP4_E2M1)


@rule("tquant.mx", "tquant_dn")
def _tquant_mx(step: Step) -> None:
    alg, down = algorithm(step.attrs), along_rows(step.attrs)
    if step.is_tile("exp_zz"):
        raise not_executable(step.op, REORDERED)
    lines, groups = group_counts(step, down=down)
    pitch = lines if step.policy.simulator else step.type("src").cols
    quantised = []
    for line in range(lines):
        for group in range(groups):
            inner = np.arange(group * GROUP, (group + 1) * GROUP)
            at = (inner, np.full(GROUP, line)) if down else (np.full(GROUP, line), inner)
            flat = group * pitch + line if down else line * groups + group
            quantised.append(((line, group), flat, at, _quantise(step, alg, at)))
    # The source, which may be in the place of a result, has been read.
    if step.policy.simulator and alg in FP4_ALGS:
        everything = np.arange(step.type().elements)
        step.scatter(np.zeros(everything.shape, np.uint8), everything)
    for place, flat, at, (exponent, largest, factor, codes) in quantised:
        put_codes(step, at, codes)
        for name, value in (("max", largest), ("scaling", factor)):
            put_flat(step, name, flat, encode(np.array([value]), step.dtype(name)))
        put_exponent(step, exponent, place, flat, down=down)


def group_counts(step: Step, *, down: bool) -> tuple[int, int]:
    """Lines of the source and groups of each: the valid ones, on the simulator all."""
    source, (rows, cols) = step.type("src"), step.valid("src")
    lines, valid, physical = (cols, rows, source.rows) if down else (rows, cols, source.cols)
    return lines, physical // GROUP if step.policy.simulator else -(-valid // GROUP)


def _quantise(
    step: Step, alg: MxQuantAlg, at: tuple[Array, Array]
) -> tuple[int, np.float32, np.float32, Array]:
    """Exponent, largest magnitude, factor and codes of one group."""
    d = step.dtype("src")
    values = decode(step.flushed(step.gather("src", *at), "src"), d).astype(np.float32)
    largest = _largest(values, alg)
    exponent = _shared_exponent(largest, alg)
    factor = largest if exponent == 255 else np.float32(np.ldexp(1.0, 127 - exponent))
    scaled = values * factor
    if alg in FP4_ALGS:
        return exponent, largest, factor, _fp4_codes(scaled, factor, d)
    return exponent, largest, factor, _fp8_codes(scaled, nv=alg in _NV)


def _largest(values: Array, alg: MxQuantAlg) -> np.float32:
    size = np.abs(values)
    if alg == MxQuantAlg.OCP_MX_FP4_E2M1:
        cut = (size.view(np.uint32) >> np.uint32(16)).max()
        return np.float32(decode(np.array([cut], np.uint16), BF16)[0])
    if alg == MxQuantAlg.NV_MX_FP4_E2M1 and np.isnan(size).any():
        return np.float32(np.nan)
    return np.float32(np.fmax.reduce(size, initial=np.float32(0.0)))


def _fields(value: np.float32) -> tuple[int, int]:
    """Exponent field and mantissa of an f32."""
    bits = int(np.float32(value).view(np.uint32))
    return (bits >> 23) & 255, bits & 0x7FFFFF


def _shared_exponent(largest: np.float32, alg: MxQuantAlg) -> int:
    if np.isnan(largest):
        return 255
    if alg not in _NV:
        return max(_fields(largest)[0] - (2 if alg in FP4_ALGS else 8), 0)
    if largest == 0:
        return 0
    limit = np.float32(6.0) if alg in FP4_ALGS else np.float32(448.0)
    field, mantissa = _fields(np.float32(largest * (np.float32(1.0) / limit)))
    if field == 255:
        return 254
    exact = mantissa == 0 or field == 254 or (field == 0 and mantissa <= 0x400000)
    return field if exact else field + 1


def _fp8_codes(scaled: Array, *, nv: bool) -> Array:
    codes = encode(scaled, F8E4M3, saturate=True)
    codes = np.where(codes == 0x80, np.uint8(0), codes)
    if nv:
        tiny = np.abs(scaled) < np.float32(2.0**-10)
        codes = np.where(tiny, np.where(np.signbit(scaled), np.uint8(0x80), np.uint8(0)), codes)
    return codes


def _fp4_codes(scaled: Array, factor: np.float32, source: DType) -> Array:
    if np.isinf(factor):
        return np.full(scaled.shape, 7 if factor > 0 else 15, np.uint8)
    if source == BF16:
        scaled = decode(encode(scaled, BF16), BF16)
    codes = encode(scaled, F4E2M1, saturate=True)
    return np.where(np.isnan(scaled) | np.isnan(factor), np.uint8(7), codes)


def put_codes(step: Step, at: tuple[Array, Array], codes: Array) -> None:
    """Write the codes of source elements; two that are side by side share an element of pairs."""
    t, (rows, cols) = step.type(), at
    if not t.dtype.pair_of:
        put_lanes(step, "dst", at, codes)
        return
    inside = (rows < t.rows) & (cols < t.cols * 2)
    rows, cols, codes = rows[inside], cols[inside], codes[inside]
    for half in (0, 1):
        mask = cols % 2 == half
        place = storage.map_of(t)[rows[mask], cols[mask] // 2]
        old = storage.read_words(*step.cells("dst", place))
        other_half = old & np.uint8(0xF0 if half == 0 else 0x0F)
        step.scatter(other_half | codes[mask].astype(np.uint8) << np.uint8(4 * half), place)


def put_lanes(step: Step, name: str, at: tuple[Array, Array], words: Array) -> None:
    """Write single elements; those outside the physical tile are dropped."""
    t, (rows, cols) = step.type(name), at
    inside = (rows < t.rows) & (cols < t.cols)
    step.scatter(words[inside], storage.map_of(t)[rows[inside], cols[inside]], name)


def put_flat(step: Step, name: str, index: int, words: Array) -> None:
    """Write a word at a storage position of a destination; nothing beyond the tile."""
    if index < step.type(name).elements:
        step.scatter(words, np.array([index]), name)


def put_exponent(step: Step, exponent: int, at: tuple[int, int], flat: int, *, down: bool) -> None:
    """Write the exponent byte of the group ``at`` = (line, group) where the destination ``exp`` has it.

    ``down`` says that groups run down the columns; ``flat`` is the group's number in exponent tiles of
    one row, which hardware fills in that order.
    """
    line, group = at
    word = np.array([exponent], np.uint8)
    if down and step.attrs.get("interleave"):
        put_lanes(step, "exp", (np.array([group // 2]), np.array([2 * line + group % 2])), word)
        groups = group_counts(step, down=True)[1]
        if group == groups - 1 and groups % 2:
            zero = np.zeros(1, np.uint8)
            put_lanes(step, "exp", (np.array([group // 2]), np.array([2 * line + 1])), zero)
    elif down:
        put_lanes(step, "exp", (np.array([group]), np.array([line])), word)
    elif not step.policy.simulator and step.type("exp").rows == 1:
        put_flat(step, "exp", flat, word)
    else:
        put_lanes(step, "exp", (np.array([line]), np.array([group])), word)
