"""Elements on their way out of an accumulator: parameter words, quantisation, ReLU and plain conversion."""

import numpy as np

from ..ir import BF16, F32, DType, ReluPreMode
from ..isa.rules import block_scales, fixpipe
from .arithmetic import truncated
from .convert import range_of
from .numbers import Array, decode, encode, flush
from .step import Step, not_executable


def outgoing(step: Step, words: Array, target: DType, parameters: Array | None = None) -> Array:
    """Words of the source as words of the destination's type.

    ``parameters`` are the words that quantise, one per element (they broadcast). Without a mode for the
    element types, and without parameters, values are clamped and converted.
    """
    source, mode = step.dtype("src"), None
    if parameters is not None:
        name = step.policy.profile.name
        mode = block_scales.quant_mode(name, source.name, target.name, vector=step.is_tile("fp"))
    if mode is None or parameters is None:
        return cast_words(clamped(words, source) if has_relu(step) else words, source, target)
    saturate = bool(step.attrs.get("saturateInf", False))
    x = decode(step.flushed(words, "src"), source)
    result = encode(_quantised(x, parameters, mode, target, saturate, has_relu(step)), target)
    return flush(result, target) if step.policy.flush_subnormals else result


def cast_words(words: Array, source: DType, target: DType) -> Array:
    """A plain conversion of values: floats round to nearest even, integers truncate and wrap.

    Equal types keep their bits.
    """
    if source == target:
        return words
    values = decode(words, source)
    if target.is_float:
        if source.bits == 64 and target.bits == 32:
            return encode(values.astype(np.float32), target)
        return encode(values.astype(np.float64), target)
    return truncated(values.astype(np.float64), target) if source.is_float else encode(values, target)


def has_relu(step: Step) -> bool:
    """Whether the instruction asks for a ReLU before the conversion."""
    return step.attrs.get("reluPreMode") == ReluPreMode.NORMAL_RELU


def clamped(words: Array, d: DType) -> Array:
    """What is not greater than zero becomes +0; NaN is not."""
    return np.where(decode(words, d) > 0, words, np.zeros_like(words))


def scalar_parameter(step: Step) -> Array | None:
    """The one word of an operation, where it has one."""
    if "preQuantScalar" not in step.operands:
        return None
    return np.full((1, 1), int(step.operands["preQuantScalar"]) & ((1 << 64) - 1), np.uint64)


def row_parameters(step: Step, columns: Array) -> Array:
    """Words of the parameter row at some columns."""
    d = step.dtype("fp")
    if d.name not in fixpipe.WORDS:
        raise not_executable(step.op, f"is not executed with parameters of type {d}; 64-bit words are")
    return step.gather("fp", np.zeros((1, 1), np.int64), columns).astype(np.uint64)


def _field(words: Array, bit: int, width: int) -> Array:
    return ((words >> np.uint64(bit)) & np.uint64((1 << width) - 1)).astype(np.int64)


def scale(words: Array, *, short: bool) -> Array:
    """The scale in parameter words, as float32."""
    if not short:
        return _field(words, 0, 32).astype(np.uint32).view(np.float32)
    bits = _field(words, block_scales.SHORT_SCALE_BIT, 19)
    sign, exponent, mantissa = bits >> 18, (bits >> 10) & 255, bits & 1023
    size = np.ldexp(1.0 + mantissa / 1024.0, exponent - 127)
    size = np.where((exponent == 0) & (mantissa == 0), 0.0, size)
    size = np.where((sign == 1) & (size != 0.0), -size, size)
    with np.errstate(over="ignore"):
        return size.astype(np.float32)


def _quantised(
    x: Array, words: Array, mode: block_scales.QuantMode, target: DType, saturate: bool, relu: bool
) -> Array:
    """Values before the cast to the destination's type."""
    if mode.rule == "shift":
        shift = _field(words, block_scales.SHIFT_BIT, block_scales.SHIFT_WIDTH) + 1
        result = x.astype(np.int64) >> shift
        result = (result if mode.simulated else np.clip(result, -32768, 32767)).astype(np.int16)
        return np.where(result > 0, result, np.int16(0)) if relu else result
    with np.errstate(all="ignore"):
        y = x.astype(np.float32) * scale(words, short=mode.short)
        y = _byte(y, words, mode) if mode.rule == "byte" else _limited(y, mode, target, saturate)
        y = np.where(y > 0, y, np.float32(0)) if relu else y
    return y.astype(np.int64) if target.is_integer else y


def _byte(y: Array, words: Array, mode: block_scales.QuantMode) -> Array:
    offset = _field(words, block_scales.OFFSET_BIT, block_scales.OFFSET_WIDTH)
    signed = _field(words, block_scales.SIGNED_BIT, 1) == 1
    low, high = np.where(signed, -128, 0), np.where(signed, 127, 255)
    if mode.simulated:
        result = np.rint(y + offset.astype(np.float32))
    else:
        sign = 1 << (block_scales.OFFSET_WIDTH - 1)
        result = np.rint(y).clip(-256, 255) + ((offset ^ sign) - sign)
    return np.where(np.isnan(result), 0, result.clip(low, high)).astype(np.float32)


def _limited(y: Array, mode: block_scales.QuantMode, target: DType, saturate: bool) -> Array:
    limit = np.float32(range_of(F32 if target == BF16 else target)[1])
    everything = saturate or mode.infinities == "clamp"
    y = np.where(np.isfinite(y) | everything, np.clip(y, -limit, limit), y)
    return np.where(np.isnan(y), np.float32(0), y) if saturate and mode.infinities == "keep" else y
