"""Micro-operations that reduce vector registers, and histograms."""

from collections.abc import Iterator
from functools import partial

from ..ir import Op, VRegType
from .declare import Decision
from .micro import MicroOperation, micro

_CHAPTER = "micro-isa chapter 10"
_TYPES = "i8 u8 i16 u16 i32 u32 f16 f32"

_ORDER = Decision(
    "In which order are floats added?",
    "Neighbours first, then neighbours among the sums: ((s0+s1)+(s2+s3))+...; inactive lanes are 0.",
    "Ascend C 9.0, pages 0078, 0081 and 0084; the chapter gives none, goldens allow 1e-4; pto-isa 304 says "
    "that the simulator's order, from left to right, is not the hardware's",
)
_SATURATED = Decision(
    "Do partial sums of f16 saturate?",
    "No: they overflow to infinity.",
    "page 0078 says that they stop at 65504; no micro-operation's page does",
)
_NAN = Decision(
    "What is the extreme of lanes with a NaN, and where is it?",
    "NaN, in the first lane that has one.",
    f"{_CHAPTER} says nothing; as the maximum of lanes",
)
_INDEX = Decision(
    "How is the position of an extreme kept?",
    "As an integer in the bits of an element; inactive lanes count as an infinity or as the integer limit.",
    "public case vcmax",
)
_BLOCKS = Decision(
    "Where are the results of the blocks?",
    "In the first 8 lanes; the others are zero.",
    f"public case vcg-group, {_CHAPTER}, PTOAS 889; a guide says the first lane of each block",
)
_PAIRS = Decision(
    "What does vcpadd add?",
    "Neighbouring pairs, into the low half.",
    f"Ascend C 9.0, page 0418, PTOAS 1552; {_CHAPTER} says sums of prefixes",
)
_HALVES = Decision(
    "Which values does a histogram count?",
    "128 values from 128 times the number on; a cumulative one counts all values up to each, from 0.",
    "Ascend C 9.0, page 0425; the chapter does not say",
)


def _widened(op: Op) -> Iterator[str]:
    """The sum of narrow integers has twice the width."""
    source, target = op.ins[0].type, op.results[0].type
    if not isinstance(source, VRegType) or not isinstance(target, VRegType):
        return
    d = source.dtype
    wide = {"i8": "i16", "u8": "u16", "i16": "i32", "u16": "u32"}.get(d.name, d.name)
    if target.dtype.name != wide:
        yield f"got a sum of {d} in {target.dtype}; allowed: {wide}"


_reduced = partial(micro, text="input mask -> result", types="T M -> T", T=_TYPES, source=_CHAPTER)
_found = partial(micro, text="input mask -> value lanes", types="T M -> T M", T=_TYPES, source=_CHAPTER)
_histogram = partial(
    micro,
    text="acc source mask bin -> result",
    types="T U m8 i32 -> T",
    T="u16",
    U="u8",
    decisions=(_HALVES,),
    source=_CHAPTER,
)

OPERATIONS: tuple[MicroOperation, ...] = (
    _reduced("vcadd", "Sum of the active lanes in lane 0.", types="T M -> D", D=_TYPES, rules=(_widened,),
             decisions=(_ORDER, _SATURATED)),
    _reduced("vcmax", "Maximum in lane 0 and its position in lane 1.", decisions=(_NAN, _INDEX)),
    _reduced("vcmin", "Minimum in lane 0 and its position in lane 1.", decisions=(_NAN, _INDEX)),
    _reduced("vcgadd", "Sum of each block of 32 bytes.", decisions=(_ORDER, _SATURATED, _BLOCKS)),
    _reduced("vcgmax", "Maximum of each block of 32 bytes.", decisions=(_NAN, _BLOCKS)),
    _reduced("vcgmin", "Minimum of each block of 32 bytes.", decisions=(_NAN, _BLOCKS)),
    _reduced("vcpadd", "Sums of neighbouring lanes.", T="f16 f32", decisions=(_PAIRS,)),
    _found("vcbmax", "Maximum in lane 0, and a mask of the lanes that have it.", decisions=(_NAN,)),
    _found("vcbmin", "Minimum in lane 0, and a mask of the lanes that have it.", decisions=(_NAN,)),
    _histogram("dhistv2", "How often each value of a half occurs, added to counts."),
    _histogram("chistv2", "How many lanes are at most each value of a half, added to counts."),
)  # fmt: skip
