"""Quantisation of accumulators on their way out: modes, the parameter word, and the legal conversions.

A parameter is a 64-bit word, one for the whole tile or one per column. Its fields:

====== =====================================================
bits   meaning
====== =====================================================
31:13  scale as a short float (sign, 8 exponent bits, 10 mantissa bits)
31:0   scale as f32, in the one word for a tile on cpu_sim
35:32  shift minus one
45:37  offset, two's complement; unsigned on cpu_sim
46     signed target
====== =====================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ...profiles import PROFILE_NAMES, ProfileName
from .typesets import Rows

SHORT_SCALE_BIT = 13
SHIFT_BIT, SHIFT_WIDTH = 32, 4
OFFSET_BIT, OFFSET_WIDTH = 37, 9
SIGNED_BIT = 46


@dataclass(frozen=True)
class QuantMode:
    """How an accumulator element x and a parameter word become an element of the destination.

    ``byte``: y = f32(x) * scale, rounded half to even and saturated to nine bits, [-256, 255], plus the
    offset, clamped to [-128, 127] if the word says signed, else to [0, 255], whatever the destination's
    sign; NaN gives 0; the low 8 bits are stored. ``simulated`` modes add the offset, unsigned, to y as f32
    and round then. ``value``: y = f32(x) * scale, clamped to the finite range of the destination (of f32 for
    bf16), then one rounding to nearest even; NaN stays. Infinite products are clamped too where
    ``infinities`` says so, else they become what a conversion makes of an infinity. ``shift``: x is
    shifted right by the shift field plus one and saturated to 16 bits, of which simulated modes keep the
    low ones; scale and offset are not used. Every product and sum is one f32 operation. ReLU comes last,
    before the conversion to the destination's type: y if y > 0, else +0.

    With control bit 48 set (attribute ``saturateInf``), ``value`` modes that keep infinities clamp them,
    and make 0 of NaN. ``short`` modes take the scale from bits 31 to 13: zero if exponent and mantissa
    are zero, else (-1)^s * (1 + m / 1024) * 2^(e - 127), so that e = 0 is no special case and e = 255
    overflows to an infinity.
    """

    name: str
    rule: Literal["byte", "value", "shift"]
    short: bool = False
    infinities: Literal["clamp", "keep"] = "keep"
    simulated: bool = False


_BYTE = ("i8", "u8")


def _scalar_modes(profile: ProfileName) -> dict[tuple[str, str], QuantMode]:
    simulated = profile == "cpu_sim"
    mode = partial(QuantMode, short=not simulated, simulated=simulated)
    modes = {("f32", d): mode("QF322B8_PRE", "byte") for d in _BYTE}
    modes |= {("i32", d): mode("REQ8", "byte") for d in _BYTE}
    modes |= {("i32", "f16"): mode("DEQF16", "value", infinities="clamp")}
    modes |= {("f32", "f16"): mode("QF322F16_PRE", "value")}
    modes |= {("f32", "bf16"): mode("QF322BF16_PRE", "value")}
    if profile != "a5":
        return modes | {("i32", "i16"): mode("SHIFTS322S16", "shift")}
    return modes | {
        ("i32", "bf16"): mode("QS322BF16_PRE", "value"),
        ("f32", "hif8"): mode("QF322HIF8_PRE", "value"),
        ("f32", "f8e4m3"): mode("QF322FP8_PRE", "value"),
        ("f32", "f32"): mode("QF322F32_PRE", "value"),
    }


def _vector_modes(profile: ProfileName) -> dict[tuple[str, str], QuantMode]:
    """A word per column; float targets have no such mode on a2a3."""
    mode = partial(QuantMode, short=True, simulated=profile == "cpu_sim")
    modes = {("f32", d): mode("VQF322B8_PRE", "byte") for d in _BYTE}
    modes |= {("i32", d): mode("VREQ8", "byte") for d in _BYTE}
    modes |= {("i32", "f16"): mode("VDEQF16", "value", infinities="clamp")}
    if profile != "a5":
        modes |= {("i32", "i16"): mode("VSHIFTS322S16", "shift")}
    if profile == "a2a3":
        return modes
    modes |= {
        ("f32", "f16"): mode("VQF322F16_PRE", "value"),
        ("f32", "bf16"): mode("VQF322BF16_PRE", "value"),
    }
    if profile == "cpu_sim":
        return modes
    return modes | {
        ("i32", "bf16"): mode("VQS322BF16_PRE", "value"),
        ("f32", "hif8"): mode("VQF322HIF8_PRE", "value"),
        ("f32", "f8e4m3"): mode("VQF322FP8_PRE", "value"),
        ("f32", "f32"): mode("VQF322F32_PRE", "value"),
    }


_MODES: Mapping[tuple[str, bool], Mapping[tuple[str, str], QuantMode]] = {
    (name, vector): (_vector_modes if vector else _scalar_modes)(name)
    for name in PROFILE_NAMES
    for vector in (False, True)
}


def quant_mode(profile: str, source: str, target: str, *, vector: bool) -> QuantMode | None:
    """The mode that element types select; None where a conversion with a parameter word ignores it.

    >>> quant_mode("a2a3", "i32", "f16", vector=True).name
    'VDEQF16'
    >>> quant_mode("cpu_sim", "f32", "f32", vector=False) is None
    True
    """
    return _MODES[profile, vector].get((source, target))


def _pairs(targets: str, source: str) -> Rows:
    return tuple((t, source) for t in targets.split())


#: Element types (destination, accumulator) of moves between tiles, without and with parameter words.
MOVED_PLAIN: Mapping[ProfileName, Rows] = {
    "a2a3": _pairs("f16 bf16", "f32"),
    "a5": (*_pairs("f32 f16 bf16", "f32"), ("i32", "i32")),
}
MOVED_QUANTISED: Mapping[ProfileName, Rows] = {
    "a2a3": (("i8", "f32"), *_pairs("i8 u8 f16 i16", "i32")),
    "a5": (*_pairs("i8 u8 hif8 f16 bf16 f8e4m3 f32", "f32"), *_pairs("i8 u8 f16 bf16", "i32")),
}
#: The same of stores to global memory.
STORED_PLAIN: Mapping[ProfileName, Rows] = {
    name: (*_pairs("f32 f16 bf16 i32", "f32"), *_pairs("i32 f32 f16 bf16", "i32")) for name in ("a2a3", "a5")
}
STORED_QUANTISED: Mapping[ProfileName, Rows] = {
    "a2a3": (*_pairs("i8 u8", "f32"), *_pairs("i8 u8 f16", "i32")),
    "a5": MOVED_QUANTISED["a5"],
}
#: What the simulator quantises, with one word or with one per column.
SIMULATED_SCALAR: Rows = (*_pairs("i8 u8 f16 bf16", "f32"), *_pairs("i8 u8 f16 i16", "i32"))
SIMULATED_VECTOR: Rows = (
    *_pairs("i8 u8", "f32"),
    *_pairs("i8 u8 f16 i16", "i32"),
    *_pairs("f16 bf16", "f32"),
)
