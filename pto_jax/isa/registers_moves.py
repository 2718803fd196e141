"""Micro-operations that make, move and count lanes of registers and bits of masks."""

from functools import partial

from .declare import Decision
from .micro import MicroOperation, micro
from .rules import micro_types

_REARRANGE = "micro-isa chapter 12"
_MATERIAL = "micro-isa chapter 05"
_ANY = "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f8e4m3 f8e5m2 hif8 f4e2m1_pair f4e1m2_pair"
_HALF = {"part": "LOWER HIGHER"}

#: The part, an index, is written without its type.
_UNPACK = "$src , $part {} : !src -> ^*"

_OUTSIDE = Decision(
    "What does a position beyond the last lane pick?",
    "The lane of the position modulo the number of lanes; the sanitizer reports it.",
    "micro-isa chapter 11 leaves it undefined",
)
_COUNT = Decision(
    "Which types may counts have?",
    "Those without a sign too.",
    "public case vusqz, whose type is i32; chapter 12 lists si8, si16 and si32",
)
_BYTES = Decision(
    "What does the special register SQZN hold afterwards?",
    "The bytes of the active lanes, which vstur stores.",
    "micro-isa chapter 03: a squeeze establishes the byte count",
)
_LANE = Decision(
    "Which lane does vdup take from a register?",
    "The first or the last lane of the register, active or not.",
    "public case vdup-lane",
)
_IMAGES = Decision(
    "Do ppack and punpack count lanes or bits of the image?",
    "Bits: every other one of 256 is kept, so that a mask for 16-bit lanes becomes one for 32-bit lanes.",
    f"{_MATERIAL} and page 0315",
)

_pair = partial(micro, text="lhs rhs -> low high", types="T T -> T T", T=_ANY, source=_REARRANGE)
_half = partial(
    micro, text='lhs rhs "part" -> result', types="T T - -> T", T=_ANY, choices=_HALF, source=_REARRANGE
)

_REGISTERS: tuple[MicroOperation, ...] = (
    _pair("vintlv", "Lanes of two registers by turns."),
    _pair("vdintlv", "The even and the odd lanes of two registers."),
    _half("vintlvv2", "Half of the lanes of two registers by turns."),
    _half("vdintlvv2", "The even or the odd lanes of two registers."),
    micro("vselr", "Lanes at the positions that a register has.", "src idx -> result", "T U -> T", T=_ANY,
          U="i8 u8 i16 u16 i32 u32", rules=(micro_types.one_width,), decisions=(_OUTSIDE,),
          source="micro-isa chapter 11"),
    micro("vsqz", "The active lanes, moved to the front.", "src mask -> result", "T M -> T", T=_ANY,
          decisions=(_BYTES,), squeezes="mask", source=_REARRANGE),
    micro("vusqz", "How many active lanes there are below each lane.", "src mask -> result", "T M -> T",
          T="i8 i16 i32", decisions=(_COUNT, _BYTES), squeezes="mask", source=_REARRANGE),
    micro("vpack", "The low halves of lanes, in one half of the result.", 'src "part" -> result', "T - -> D",
          T="i32 u32 i16 u16", D="u16 u8", choices=_HALF, rules=(micro_types.half_as_wide,),
          source=_REARRANGE),
    micro("vsunpack", "Half of the lanes, widened with their sign.", "src part -> result", "T x -> D",
          T="i8 u8 i16 u16", D="i16 u16 i32 u32", written=_UNPACK, rules=(micro_types.twice_as_wide,),
          limits={"part": (0, 1)}, source=_REARRANGE),
    micro("vzunpack", "Half of the lanes, widened with zeros.", "src part -> result", "T x -> D",
          T="i8 u8 i16 u16", D="i16 u16 i32 u32", written=_UNPACK, rules=(micro_types.twice_as_wide,),
          limits={"part": (0, 1)}, source=_REARRANGE),
    micro("vbitcast", "The bits of a register as other elements.", "input -> result", "T -> D",
          source="micro-isa chapter 09"),
    micro("vbr", "A scalar in every lane; of a wider one the low bits.", "value -> result", "- -> T",
          rules=(micro_types.no_register, micro_types.scalar_of_result(wider=True)), source=_MATERIAL),
    micro("vdup", "A scalar, or one lane of a register, in every active lane.", "input mask -> result",
          "- m -> T", choices={"position": "LOWEST HIGHEST"}, decisions=(_LANE,),
          rules=(micro_types.duplicated, micro_types.scalar_of_result()), source=_MATERIAL),
    micro("vci", "Numbers that count up or down from a scalar.", "index -> result", "- -> T",
          T="i8 i16 i32 f16 f32", choices={"order": "ASC DESC"},
          rules=(micro_types.no_register, micro_types.scalar_of_result()),
          source="micro-isa chapters 09 and 13"),
)  # fmt: skip

_joined = partial(micro, text="src0 src1 mask -> result", types="m m m -> m", source=_MATERIAL)
_repacked = partial(
    micro,
    text='input "part" -> result',
    types="m - -> m",
    choices=_HALF,
    decisions=(_IMAGES,),
    source=_MATERIAL,
)

_MASKS: tuple[MicroOperation, ...] = (
    _repacked("ppack", "Every other bit of a mask, in one half of the result.",
              rules=(micro_types.repacked(2),)),
    _repacked("punpack", "The bits of half a mask, with zeros between.", rules=(micro_types.repacked(1),)),
    micro("pbitcast", "The image of a mask for lanes of another width.", "input -> result", "m -> m",
          source="micro-isa chapter 09"),
    _joined("pand", "AND of masks; zero where the last one is not set."),
    _joined("por", "OR of masks; zero where the last one is not set."),
    _joined("pxor", "XOR of masks; zero where the last one is not set."),
    micro("pnot", "Complement of a mask; zero where the last one is not set.", "input mask -> result",
          "m m -> m", source=_MATERIAL),
    _joined("psel", "Bits of the first mask where the last one is set, else of the second."),
    *(
        micro(f"{name}_b{width}", summary, "src0 src1 -> low high", f"m{width} m{width} -> m{width} m{width}",
              source=_MATERIAL)
        for width in (8, 16, 32)
        for name, summary in (("pintlv", "Lanes of two masks by turns."),
                              ("pdintlv", "The even and the odd lanes of two masks."))
    ),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_REGISTERS, *_MASKS)
