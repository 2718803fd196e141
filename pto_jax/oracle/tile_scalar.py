"""Tile-scalar instructions."""

import numpy as np

from ..ir import F16, CmpMode, Loc
from ..isa.common import divides_in_software
from . import arithmetic as lane, step as masks, storage
from .numbers import decode, encode
from .step import Lane, Step, lanewise, other_rule, rule

_SCALED = ("src", "scalar")
_lanewise = lanewise(__name__)

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
        bits[: region[0], : region[1]] = masks.compare_within(mode, a, step.values("src1", region))
        masks.write_stream(step, bits, t.cols)
        return
    masks.write_rows(step, masks.compare(mode, a, step.values("src1", (1, 1))), clear=False)


@other_rule("streamed-mask", "tcmps")
def _streamed(step: Step) -> None:
    """One run of bits for elements of four bytes; else rows of whole predicates behind each other."""
    mode, region = step.attrs["cmpMode"], step.valid("src0")
    assert isinstance(mode, CmpMode)
    bits = masks.compare(mode, step.values("src0", region), step.values("src1", (1, 1)))
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
    step.put(np.where(masks.selected(step, masks.places_in_rows(step)), step.raw("src"), step.raw("scalar")))
