"""``tcvt``: rounding modes, saturation and small floats, per profile."""

import numpy as np

from ..errors import ArgumentError, Diagnostic, ExecutionError
from ..ir import DType, RoundMode, SaturationMode, unpaired
from ..isa.rules.conversions import conversion
from .arithmetic import truncated
from .numbers import Array, decode, encode, infinity, integral, is_small, small_float, ties_to_odd
from .step import Step


def convert_tile(step: Step) -> None:
    """Convert over the source's valid region on the simulator, the destination's on hardware."""
    source, target = unpaired(step.dtype("src")), unpaired(step.dtype())
    asked, saturation = step.attrs["rmode"], step.attrs.get("sat_mode")
    assert isinstance(asked, RoundMode)
    assert saturation is None or isinstance(saturation, SaturationMode)
    try:
        row = conversion(step.policy.profile.name, source.name, target.name)
    except ArgumentError as error:
        raise ExecutionError(Diagnostic("error", str(error), step.op.span, step.op.name)) from None
    saturate = row.saturation(saturation, tmp="tmp" in step.operands) == SaturationMode.ON
    mode = row.rounding(asked)
    rows, cols = step.valid("src") if step.policy.simulator else step.region
    if step.policy.simulator:
        rows, cols = min(rows, step.type().rows), min(cols, step.type().cols)
    elif target == step.dtype() and target.packed:
        cols -= cols % 2
    values = _numbers(step, rows, cols)
    if not step.policy.simulator:
        words = _hardware(values, source, target, mode, saturate)
    elif source == target and _copies(source, saturate, step.policy.flush_subnormals):
        words = step.raw("src", (rows, cols))
    else:
        words = _simulated(values, source, target, mode, saturate)
    if target != step.dtype():
        words = words[:, 0::2] | words[:, 1::2] << np.uint8(4)
    step.store(words, region=(rows, cols))


def _numbers(step: Step, rows: int, cols: int) -> Array:
    """The numbers that are converted: those of whole elements of the destination."""
    source, target = step.dtype("src"), step.dtype()
    if not source.pair_of:
        return step.values("src", (rows, cols * target.numbers))
    words = step.words("src", (rows, -(-cols // source.numbers)))
    both = np.stack([words & np.uint8(15), words >> np.uint8(4)], axis=2)
    return decode(both.reshape(rows, 2 * words.shape[1])[:, :cols], unpaired(source))


def _copies(d: DType, saturate: bool, flush_subnormals: bool) -> bool:
    """Whether the simulator's conversion to the same type keeps all bits."""
    return d.packed or not (saturate or (flush_subnormals and not is_small(d)))


def range_of(d: DType) -> tuple[float, float]:
    """Smallest and largest finite value of an element type, as float64."""
    if d.is_integer:
        return float(d.min_int), float(d.max_int)
    if is_small(d):
        table = small_float(d)
        return -float(table.magnitudes[-2]), float(table.magnitudes[-2])
    largest = decode(np.array([infinity(d) - 1], d.word), d)[0]
    return -float(largest), float(largest)


def extreme(d: DType, *, largest: bool) -> int:
    """The word of the largest or the smallest finite number; float64 would round that of 64-bit integers."""
    if d.is_integer:
        return (d.max_int if largest else d.min_int) & ((1 << d.bits) - 1)
    return int(encode(np.array([range_of(d)[largest]]), d)[0])


def _simulated(values: Array, source: DType, target: DType, mode: RoundMode | None, saturate: bool) -> Array:
    if saturate and not is_small(target):
        return _clamped_first(values, source, target, mode)
    if target.is_float:
        return encode(values.astype(np.float64), target, saturate=saturate)
    if source.is_float:
        return truncated(_whole(values, mode), target, width=64 if target.name == "u8" else 32)
    return encode(values, target)


def _clamped_first(values: Array, source: DType, target: DType, mode: RoundMode | None) -> Array:
    """The simulator saturates the source value, NaN to the upper limit, before it converts."""
    (low_s, high_s), (low_t, high_t) = range_of(source), range_of(target)
    low, high = max(low_s, low_t), min(high_s, high_t)
    x = values.astype(np.float64)
    clamped = np.where(np.isnan(x), high, np.clip(x, low, high))
    if target.is_float:
        return encode(clamped, target)
    whole = _whole(clamped, mode) if source.is_float else clamped
    return _saturated(whole, target)


def _hardware(values: Array, source: DType, target: DType, mode: RoundMode | None, saturate: bool) -> Array:
    if target.is_float:
        x = _sticky(values)
        if source == target:
            return encode(x if mode is None else integral(x, mode), target)
        return encode(x, target, mode=RoundMode.RINT if mode is None else mode, saturate=saturate)
    if source.is_integer:
        if saturate or target.bits > source.bits:
            return _limited(values, target)
        return encode(values, target)
    whole = np.nan_to_num(_whole(values, mode), nan=0.0, posinf=np.inf, neginf=-np.inf)
    if saturate:
        return _saturated(whole, target)
    through = np.int64 if target.bits == 64 else np.int32
    return encode(_saturated_to(whole, np.iinfo(through).min, np.iinfo(through).max), target)


def _whole(values: Array, mode: RoundMode | None) -> Array:
    """Rounded to an integral value; ODD means halves to odd here."""
    x = values.astype(np.float64)
    if mode == RoundMode.ODD:
        return ties_to_odd(x)
    return integral(x, RoundMode.TRUNC if mode is None else mode)


def _sticky(values: Array) -> Array:
    """Float64 values that round to 32 bits and less as the exact ones do.

    64-bit integers beyond 53 bits keep an odd last bit in place of the bits that do not fit.
    """
    if values.dtype != np.int64:
        return values.astype(np.float64)
    odd = (values & ~np.int64(1023)) | np.where(values & 1023 != 0, np.int64(1024), np.int64(0))
    large = (values >= 2**53) | (values <= -(2**53))
    return np.where(large, odd, values).astype(np.float64)


def _saturated(whole: Array, d: DType) -> Array:
    """Words of integral float64 values, clamped to the integer type's exact limits."""
    return encode(_saturated_to(whole, d.min_int, d.max_int), d)


def _saturated_to(whole: Array, low: int, high: int) -> Array:
    kind = np.uint64 if high > 2**63 else np.int64
    inside = (whole > float(low)) & (whole < float(high))
    result = np.where(inside, whole, 0.0).astype(kind)
    return np.where(inside, result, np.where(whole >= float(high), kind(high), kind(low)))


def _limited(values: Array, d: DType) -> Array:
    """Integer values clamped to another integer type."""
    wide = values.astype(np.int64)
    return encode(np.clip(wide, max(d.min_int, -(2**63)), min(d.max_int, 2**63 - 1)), d)
