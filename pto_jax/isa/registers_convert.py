"""Micro-operations that convert the elements of vector registers."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import Op, VRegType
from .declare import Decision
from .micro import MicroOperation, micro

_CHAPTER = "micro-isa chapter 09"
_NEAREST = "RAFCZOH"


@dataclass(frozen=True)
class Pair:
    """What a conversion between two element types has: the letters of its rounding, saturation, parts."""

    letters: str = ""
    saturates: bool = False
    parts: int = 1


def _pairs() -> dict[tuple[str, str], Pair]:
    table: dict[tuple[str, str], Pair] = {}

    def add(sources: str, targets: str, letters: str = "", saturates: bool = False, parts: int = 1) -> None:
        for s in sources.split():
            for t in targets.split():
                table[s, t] = Pair(letters, saturates, parts)

    add("f32", "f8e4m3 f8e5m2", "RAHZ", True, 4)
    add("f32", "hif8", "AH", True, 4)
    add("f32", "f16 bf16 i16 i64", _NEAREST, True, 2)
    add("f32", "i32", _NEAREST, True)
    add("f16 bf16", "f8e4m3 f8e5m2", "RAFZC", True, 2)
    add("f16", "hif8", "AH", True, 2)
    add("f16 bf16", "f32", "", False, 2)
    add("f16", "i32", _NEAREST, False, 2)
    add("f16", "i16", _NEAREST, True)
    add("f16", "i8 u8", _NEAREST, True, 2)
    add("bf16", "f4e1m2_pair f4e2m1_pair", "RAFZC", False, 4)
    add("bf16", "f16", _NEAREST, True)
    add("bf16", "i32", _NEAREST, True, 2)
    add("u8", "f16 u16", "", False, 2)
    add("u8", "u32", "", False, 4)
    add("i8", "f16 i16", "", False, 2)
    add("i8", "i32", "", False, 4)
    add("u16", "u8", "", True, 2)
    add("u16", "u32", "", False, 2)
    add("i16", "f16", _NEAREST)
    add("i16", "f32 u32 i32", "", False, 2)
    add("i16", "u8", "", True, 2)
    add("u32 i32", "u8", "", True, 4)
    add("u32 i32", "u16 i16", "", True, 2)
    add("i32", "f32", _NEAREST)
    add("i32", "i64", "", False, 2)
    add("i64", "f32", _NEAREST, False, 2)
    add("i64", "i32", "", True, 2)
    add("f8e4m3 f8e5m2 hif8", "f32", "", False, 4)
    add("f4e1m2_pair f4e2m1_pair", "bf16", "", False, 4)
    return table


#: The conversions of registers by source and target.
PAIRS = _pairs()
_SATURATION = ("SAT", "NOSAT", "RS_ENABLE", "RS_DISABLE")
_PARTS = {1: (), 2: ("EVEN", "ODD"), 4: ("P0", "P1", "P2", "P3")}


def _fits(op: Op) -> Iterator[str]:
    """The attributes that a pair of element types has are given, and no others."""
    source, target = op.ins[0].type, op.results[0].type
    if not isinstance(source, VRegType) or not isinstance(target, VRegType):
        return
    pair = PAIRS.get((source.dtype.name, target.dtype.name))
    if pair is None:
        to = ", ".join(t for s, t in PAIRS if s == source.dtype.name)
        yield f"got {source.dtype} to {target.dtype}; allowed from {source.dtype}: {to or 'nothing'}"
        return
    yield from _attribute(op, "rnd", "ROUND_", tuple(pair.letters))
    yield from _attribute(op, "sat", "", _SATURATION if pair.saturates else ())
    yield from _attribute(op, "part", "PART_", _PARTS[pair.parts])


def _attribute(op: Op, name: str, prefix: str, allowed: tuple[str, ...]) -> Iterator[str]:
    value, words = op.attrs.get(name), ", ".join(allowed) or f"no {name}"
    if value is None and allowed:
        yield f'needs {name} between these element types; allowed: {words}; as in {name} = "{allowed[0]}"'
    elif value is not None and str(value).removeprefix(prefix) not in allowed:
        yield f'got {name} = "{value}"; allowed between these element types: {words}'


_HALF = Decision(
    "Where do ties go under rounding H?",
    "Toward zero, to the nearest otherwise.",
    "public case vcvt-f32-to-f8-rahz: 1.0625 becomes 0x38 and 1.1875 0x39; VMI chapter 06 says half up",
)
_AWAY = Decision(
    "What is rounding A?",
    "To nearest, ties away from zero.",
    "public case vcvt-f32-to-f8-rahz: 1.0625 becomes 0x39; chapter 09 says away from zero",
)
_NAN = Decision(
    "What does a saturating conversion make of NaN and of infinities?",
    "0, and the largest finite number of the sign.",
    "public cases vcvt-f32-special, vcvt-low-precision-special, fptosi-*-sat, compared exactly",
)
_OVERFLOW = Decision(
    "What does a conversion to integers make of what does not fit, without saturation?",
    "The low bits of the integer; floats go through the nearest integer of 32 or 64 bits.",
    "public cases trunci-*-nosat; undefined for floats, which the sanitizer reports",
)
_MASKED = Decision(
    "Which lanes does the mask of a conversion govern?",
    "Those of the source, whatever the part.",
    f"{_CHAPTER} and the assembler's verifier; page 0398 says the lanes of the wider type, which differs "
    "for widening conversions of later parts under partial masks",
)
_SIGN = Decision(
    "What do negative numbers become in wider unsigned integers?",
    "0.",
    "as the tile instruction; no public case converts si16 to ui32 with one",
)
_PRODUCT = Decision(
    "How many roundings has a product that is converted?",
    "Two: the product to f32, then the conversion.",
    "micro-isa chapter 13 calls it a single step; unverified",
)

OPERATIONS: tuple[MicroOperation, ...] = (
    micro("vcvt", "Conversion to another element type.", "input mask -> result", "T M -> D",
          choices={"rnd": "R A F C Z O H ROUND_R ROUND_A ROUND_F ROUND_C ROUND_Z ROUND_O ROUND_H",
                   "sat": "NOSAT SAT RS_DISABLE RS_ENABLE",
                   "part": "EVEN ODD P0 P1 P2 P3 PART_EVEN PART_ODD PART_P0 PART_P1 PART_P2 PART_P3"},
          rules=(_fits,), decisions=(_HALF, _AWAY, _NAN, _OVERFLOW, _MASKED, _SIGN),
          source=f"{_CHAPTER}; lib/PTO/IR/VPTO.cpp (lookupVcvtContract)"),
    micro("vtrc", "Rounding to a whole number that stays a float.", 'input mask "rnd" -> result',
          "T M - -> T", T="f16 bf16 f32", decisions=(_AWAY,), source=_CHAPTER,
          choices={"rnd": "R A F C Z ROUND_R ROUND_A ROUND_F ROUND_C ROUND_Z"}),
    micro("vmulscvt", "Product with a scalar, converted.", 'input scalar mask "rnd" "part" -> result',
          "T sT M - - -> D", T="f32", D="f16",
          choices={"rnd": "A ROUND_A", "part": "EVEN ODD PART_EVEN PART_ODD"}, decisions=(_PRODUCT,),
          source="micro-isa chapter 13; lib/PTO/IR/VPTO.cpp (one rounding)"),
)  # fmt: skip
