"""NumPy rules of elementwise instructions: lane-wise, fused, comparison, selection, conversion."""

from dataclasses import replace

import numpy as np

from ..ir import F16, F32, CmpMode, Loc, Precision, SaturationMode
from ..isa.common import divides_in_software
from . import arithmetic as lane, convert, storage
from .numbers import Array, decode, encode, is_small
from .step import (
    Lane,
    Step,
    compare,
    compare_within,
    lanewise,
    other_rule,
    places_in_rows,
    places_in_stream,
    rule,
    selected,
    write_rows,
    write_stream,
)

_PAIR = ("src0", "src1")
_lanewise = lanewise(__name__)

_lanewise("tadd", _PAIR, lane.add)
_lanewise("tsub", _PAIR, lane.subtract)
_lanewise("tmul", _PAIR, lane.multiply)
_lanewise("tmax", _PAIR, lane.larger)
_lanewise("tmin", _PAIR, lane.smaller)
_lanewise("tand", _PAIR, lane.bitwise(np.bitwise_and))
_lanewise("tor", _PAIR, lane.bitwise(np.bitwise_or))
_lanewise("txor", _PAIR, lane.bitwise(np.bitwise_xor))
_lanewise("tshl", _PAIR, lane.shift_left)
_lanewise("tshr", _PAIR, lane.shift_right)
_lanewise("tfmod", _PAIR, lane.truncated_remainder)
_lanewise("tpow", ("base", "exp"), lane.power)

_lanewise("tabs", ("src",), lane.absolute)
_lanewise("tneg", ("src",), lane.negate)
_lanewise("tnot", ("src",), lane.bitwise(np.bitwise_not))
_lanewise("trelu", ("src",), lane.relu)
_lanewise("texp", ("src",), lane.precise(np.exp))
_lanewise("tlog", ("src",), lane.precise(np.log))
_lanewise("tsqrt", ("src",), lane.precise(np.sqrt))
_ROOT = lane.precise(np.sqrt)
_RECIPROCAL_ROOT = lane.precise(lambda x: 1.0 / np.sqrt(x))


@rule("trsqrt")
def _trsqrt(step: Step) -> None:
    """The precise form of a5 rounds the root and then its reciprocal."""
    d, x = step.dtype(), step.words("src")
    if step.policy.profile.name == "a5" and step.attrs.get("precision") == Precision.HIGH_PRECISION:
        step.store(lane.reciprocal(d, _ROOT(d, x)))
    else:
        step.store(_RECIPROCAL_ROOT(d, x))


def _dividing(name: str, sources: tuple[str, ...], compute: Lane, routine: Lane) -> None:
    @rule(name)
    def execute(step: Step) -> None:
        """Of integers that a profile divides by a routine, the routine's result."""
        d = step.dtype()
        chosen = routine if divides_in_software(step.policy.profile.name, d) else compute
        step.store(chosen(d, *(step.words(n) for n in sources)))


_dividing("tdiv", _PAIR, lane.divide, lane.routine_divide)
_dividing("trem", _PAIR, lane.floored_remainder, lane.routine_remainder)
_dividing("trecip", ("src",), lane.reciprocal, lane.routine_reciprocal)


_FUSED = ("src0", "dst", "src1")


_lanewise("tprelu", _PAIR, lane.leaky)
_lanewise("taddrelu", _PAIR, lane.add_relu)
_lanewise("tsubrelu", _PAIR, lane.subtract_relu)
_lanewise("tmuladddst", ("src0", "src1", "dst"), lane.multiply_add_rounded)
_lanewise("tfusedmuladdrelu", _FUSED, lane.multiply_add_relu)


@rule("tfusedmuladd")
def _tfusedmuladd(step: Step) -> None:
    """The simulator evaluates f16 in f32 and rounds once; hardware rounds the product too."""
    compute = lane.multiply_add if step.policy.simulator else lane.multiply_add_rounded
    step.store(compute(step.dtype(), *(step.words(n) for n in _FUSED)))


rule("taddc")(lambda step: _with_carry(step, lane.add_saturating, lane.add_add))

rule("tsubc")(lambda step: _with_carry(step, lane.subtract_saturating, lane.subtract_add))


def _with_carry(step: Step, saturating: Lane, three: Lane) -> None:
    """Two sources saturate, three wrap."""
    sources = [step.words(n) for n in ("src0", "src1", "src2") if n in step.operands]
    step.store((three if len(sources) == 3 else saturating)(step.dtype(), *sources))


rule("taddreluconv")(lambda step: _narrow_relu(step, step.values("src0"), step.values("src1"), 1))

rule("tsubreluconv")(lambda step: _narrow_relu(step, step.values("src0"), step.values("src1"), -1))


def _narrow_relu(step: Step, a: Array, b: Array, sign: int) -> None:
    """Sum in the source type (i16 unwrapped), ReLU that keeps NaN, saturating narrowing."""
    source, target = step.dtype("src0"), step.dtype()
    if source.is_integer:
        step.store(encode(np.clip(a.astype(np.int32) + sign * b.astype(np.int32), 0, target.max_int), target))
        return
    total = decode(encode(a + sign * b, source), source)
    positive = np.where((total > 0) | np.isnan(total), total, total.dtype.type(0))
    if target.is_float:
        step.store(encode(positive, target, saturate=True))
        return
    nearest = np.rint(np.nan_to_num(positive, nan=0.0, posinf=target.max_int))
    step.store(encode(np.minimum(nearest, target.max_int).astype(np.int64), target))


@rule("tadddeqrelu")
def _tadddeqrelu(step: Step) -> None:
    """Sum, scale in f32, narrow, ReLU; hardware scales by powers of two around it and saturates."""
    source, target = step.dtype("src0"), step.dtype()
    scale = decode(step.scalar("deqScale", F32), F32)
    a, b = step.values("src0"), step.values("src1")
    if source.is_integer:
        wide = np.int32 if source.bits <= 32 else np.int64
        a, b = a.astype(wide), b.astype(wide)
    total = decode(encode(a + b, source), source) if source.is_float else a + b
    total = total.astype(np.float32)
    if step.policy.simulator:
        step.store(lane.strict_relu(target, encode(total * scale, target)))
        return
    scaled = ((total * np.float32(2**-17)) * scale) * np.float32(2**17)
    positive = np.where(scaled > 0, scaled, np.float32(0))
    step.store(encode(positive, target, saturate=True))


@rule("tcmp")
def _tcmp(step: Step) -> None:
    mode = step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src0")
    a, b = step.values("src0", region), step.values("src1", region)
    write_rows(step, compare(mode, a, b), clear=step.policy.simulator)


@rule("tsel")
def _tsel(step: Step) -> None:
    places = places_in_stream if step.policy.simulator else places_in_rows
    step.put(np.where(selected(step, places(step)), step.raw("src0"), step.raw("src1")))


rule("tcvt")(lambda step: convert.convert_tile(step))


@other_rule("always-saturates", "tcvt")
def _saturating(step: Step) -> None:
    """Out of range gives the limit without being asked for, NaN gives 0 in 8-bit floats."""
    nan = np.isnan(step.values("src").astype(np.float64))
    convert.convert_tile(replace(step, attrs={**step.attrs, "sat_mode": SaturationMode.ON}))
    if is_small(step.dtype()):
        words = step.gather("dst", *np.ogrid[tuple(map(slice, step.region))])
        step.put(np.where(nan, words.dtype.type(0), words))


_SCALED = ("src", "scalar")


_lanewise("tadds", _SCALED, lane.add)
_lanewise("tsubs", _SCALED, lane.subtract)
_lanewise("tmuls", _SCALED, lane.multiply)
_lanewise("tmaxs", _SCALED, lane.larger)
_lanewise("tmins", _SCALED, lane.smaller)
_lanewise("tands", _SCALED, lane.bitwise(np.bitwise_and))
_lanewise("tors", _SCALED, lane.bitwise(np.bitwise_or))
_lanewise("txors", _SCALED, lane.bitwise(np.bitwise_xor))
_lanewise("tshls", _SCALED, lane.shift_left)
_lanewise("tshrs", _SCALED, lane.shift_right)
_lanewise("tlrelu", _SCALED, lane.leaky)
_lanewise("taddsc", ("src0", "scalar", "src1"), lane.add_add)
_lanewise("tsubsc", ("src0", "scalar", "src1"), lane.subtract_add)


@rule("tdivs")
def _tdivs(step: Step) -> None:
    """The order of the operands says which one divides."""
    first, second = [n for n in step.form if n in _SCALED]
    divide = lane.routine_divide if _by_routine(step) else lane.divide
    step.store(divide(step.dtype(), step.words(first), step.words(second)))


@rule("trems")
def _trems(step: Step) -> None:
    _remainder(step, lane.routine_remainder if _by_routine(step) else lane.floored_remainder)


rule("tfmods")(lambda step: _remainder(step, lane.truncated_remainder))


def _by_routine(step: Step) -> bool:
    return divides_in_software(step.policy.profile.name, step.dtype())


def _remainder(step: Step, remainder: Lane) -> None:
    """The simulator leaves the destination alone when the divisor is zero."""
    if step.policy.simulator and not step.values("scalar").any():
        return
    step.store(remainder(step.dtype(), step.words("src"), step.words("scalar")))


@rule("tpows")
def _tpows(step: Step) -> None:
    """The simulator takes integers through float64, hardware as the tile-tile form."""
    power = lane.double_power if step.policy.simulator else lane.power
    step.store(power(step.dtype(), step.words("base"), step.words("exp")))


@rule("taxpy")
def _taxpy(step: Step) -> None:
    """``dst + src * scalar``; the product takes the source type unless both tiles are bf16.

    A2/A3 takes the destination's type for it, and A5 rounds f16 once, from f64. Integer products are at least
    32 bits wide.
    """
    source, target = step.dtype("src"), step.dtype()
    x, factor = step.values("src"), step.values("scalar")
    if source.is_integer and source.bits < 32:
        x = x.astype(np.int32)
    if step.policy.profile.name == "a5" and target == F16:
        old, x, factor = (v.astype(np.float64) for v in (step.values("dst"), x, factor))
        step.store(encode(old + x * factor, target))
        return
    product = x * factor.astype(x.dtype)
    widened = source != target and not step.policy.simulator
    if source.is_float and not widened and not (source.name == target.name == "bf16"):
        product = decode(encode(product, source), source)
    step.store(encode(step.values("dst") + product, target))


@rule("texpands")
def _texpands(step: Step) -> None:
    """Hardware fills a whole Mat tile, everything else only the valid region."""
    t = step.type()
    whole = t.loc == Loc.MAT and not step.policy.simulator
    step.put(step.scalar("scalar", t.dtype), region=t.shape if whole else step.region)


@rule("tcmps")
def _tcmps(step: Step) -> None:
    mode = step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src0")
    a = step.values("src0", region)
    if step.policy.simulator:
        t = step.type("src0")
        bits = np.zeros(t.shape, np.bool_)
        bits[: region[0], : region[1]] = compare_within(mode, a, step.values("src1", region))
        write_stream(step, bits, t.cols)
        return
    write_rows(step, compare(mode, a, step.values("src1", (1, 1))), clear=False)


@other_rule("streamed-mask", "tcmps")
def _streamed(step: Step) -> None:
    """One run of bits for elements of four bytes; else rows of whole predicates behind each other."""
    mode, region = step.attrs["cmpMode"], step.valid("src0")
    assert isinstance(mode, CmpMode)
    bits = compare(mode, step.values("src0", region), step.values("src1", (1, 1)))
    width = step.dtype("src0").bits
    predicate = 256 if width == 8 else 128
    if width != 32:
        bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % predicate)))
    stream = bits.reshape(-1)
    octets = np.packbits(np.pad(stream, (0, -stream.size % predicate)), bitorder="little")
    positions = storage.map_of(step.type()).reshape(-1)[: octets.size]
    step.scatter(octets[: positions.size].view(step.dtype().word), positions)


@rule("tsels")
def _tsels(step: Step) -> None:
    step.put(np.where(selected(step, places_in_rows(step)), step.raw("src"), step.raw("scalar")))
