"""Micro-operations of arithmetic, logic, comparison and selection on vector registers."""

from functools import partial

from .declare import Decision
from .micro import MicroOperation, micro
from .rules import micro_types

_UNARY = "micro-isa chapter 06"
_BINARY = "micro-isa chapter 07"
_SCALAR = "micro-isa chapter 08"
_FUSED = "micro-isa chapter 13"
_COMPARE = "micro-isa chapter 11"

INTEGERS = "i8 u8 i16 u16 i32 u32"
FLOATS = "f16 bf16 f32"
REAL = "f16 f32"
_ANY = f"{INTEGERS} i64 u64 {FLOATS}"
_BITS = f"{_ANY} f8e4m3 f8e5m2 hif8 f4e2m1_pair f4e1m2_pair"

_EXTREMES = Decision(
    "What is the maximum or minimum of NaN and a number, and of zeros of both signs?",
    "NaN; +0 is above -0.",
    "public case vmin (NumPy's minimum); chapter 10 says it of zeros for the group reductions only",
)
_RELU = Decision(
    "What becomes of NaN and of -0?",
    "It is the maximum of the lane and +0: NaN stays, -0 becomes +0.",
    f"{_UNARY} (outputs), public case vrelu; its code gives 0 for NaN",
)
_SIGNS = Decision(
    "How do integers without a sign compare?",
    "As signed ones.",
    "public cases vcmps-i16-signed and vcmp-i16-signed, whose type is i16",
)
_SHIFT_RIGHT = Decision(
    "Does a shift to the right extend the sign?",
    "Of types with a sign (si32); not of types without (i32) nor of unsigned ones.",
    f"public case vshr; {_BINARY} leaves it open; review of PTOAS 835",
)
_SHIFT_COUNTS = Decision(
    "What does a count outside the width of the element give?",
    "Counts are taken modulo the width of the element, 32 bits or more; the sanitizer reports it.",
    f"{_BINARY}: target-defined; as the tile instruction",
)
_ONE_ROUNDING = Decision(
    "How many roundings have multiply-add operations?",
    "One: the product is exact.",
    f"{_FUSED} and {_BINARY} call them fused; goldens allow 1e-4",
)
_SAME_FUNCTION = Decision(
    "Which values do exponential, logarithm, root and quotient have?",
    "Those of the tile instructions: correctly rounded, or within 1 ULP of it.",
    "goldens allow 1e-4 of f32 and 1e-3 to 5e-3 of f16",
)
_DIFFERENCE = Decision(
    "Is the difference under the exponential rounded?",
    "To f32, like the result.",
    f"{_FUSED}; its golden allows 1e-4",
)
_ZERO_DIVISOR = Decision(
    "What is an integer quotient by zero?",
    "0; the sanitizer reports it.",
    f"{_BINARY}: undefined, computed by a routine",
)
_BORROW = Decision(
    "What does the carry of a difference say?",
    "That nothing was borrowed.",
    f"{_BINARY} and {_SCALAR}",
)
_LEAKY = Decision(
    "Which branch takes zero?",
    "The one that keeps the lane: x >= 0; NaN is multiplied.",
    f"{_FUSED}, public cases vlrelu-f32 and vprelu-f32; the tile instruction multiplies zeros",
)

_one = partial(micro, text="input mask -> result", types="T M -> T", source=_UNARY)
_two = partial(micro, text="lhs rhs mask -> result", types="T T M -> T", source=_BINARY)
_scaled = partial(micro, text="input scalar mask -> result", types="T sT M -> T", source=_SCALAR)
_three = partial(micro, text="acc lhs rhs mask -> result", types="T T T M -> T", decisions=(_ONE_ROUNDING,))
_INEXACT = (_SAME_FUNCTION,)
_CARRY = "T T M -> T M"
_CARRIED = "T T M M -> T M"

_ARITHMETIC: tuple[MicroOperation, ...] = (
    _two("vadd", "Sum of lanes.", T=_ANY),
    _two("vsub", "Difference of lanes.", T=_ANY),
    _two("vmul", "Product of lanes.", T=f"i16 u16 i32 u32 {FLOATS}"),
    _two("vdiv", "Quotient of lanes.", T=f"i16 i32 {REAL}", decisions=(_ZERO_DIVISOR, *_INEXACT)),
    _two("vmax", "Maximum of lanes.", T=f"{INTEGERS} {FLOATS}", decisions=(_EXTREMES, _SIGNS)),
    _two("vmin", "Minimum of lanes.", T=f"{INTEGERS} {FLOATS}", decisions=(_EXTREMES, _SIGNS)),
    _one("vabs", "Absolute value.", T=f"i8 i16 i32 {REAL}"),
    _one("vneg", "Negation.", T=f"i8 i16 i32 {REAL}"),
    _one("vrelu", "Maximum of the lane and zero.", T=f"i32 {REAL}", decisions=(_RELU,)),
    _one("vexp", "Exponential.", T=REAL, decisions=_INEXACT, ulp=1),
    _one("vln", "Natural logarithm.", T=REAL, decisions=_INEXACT, ulp=1),
    _one("vsqrt", "Square root.", T=REAL, decisions=_INEXACT),
    _one("vrsqrt", "Reciprocal of the square root.", T=REAL, decisions=_INEXACT),
    _scaled("vadds", "Sum of lanes and a scalar.", T=f"{INTEGERS} {FLOATS}"),
    _scaled("vmuls", "Product of lanes and a scalar.", T=f"{INTEGERS} {FLOATS}"),
    _scaled("vmaxs", "Maximum of lanes and a scalar.", T=f"{INTEGERS} {FLOATS}", decisions=(_EXTREMES,)),
    _scaled("vmins", "Minimum of lanes and a scalar.", T=f"{INTEGERS} {FLOATS}", decisions=(_EXTREMES,)),
    _scaled("vlrelu", "Lanes, times a slope where below zero.", T=REAL, decisions=(_LEAKY,)),
    _two("vprelu", "Lanes, times a lane of slopes where below zero.", T=REAL, decisions=(_LEAKY,)),
    _three("vmula", "acc + lhs * rhs.", source=_FUSED, T=f"i16 u16 i32 u32 i64 u64 {FLOATS}"),
    _three("vmadd", "acc * lhs + rhs.", source=_BINARY, T=FLOATS),
    micro("vaxpy", "src0 * alpha + src1.", "src0 src1 alpha mask -> result", "T T sT M -> T", T=REAL,
          decisions=(_ONE_ROUNDING,), source=_FUSED),
    micro("vexpdif", "Exponential of a difference, of f16 lanes a part of them, in f32.",
          'input max mask "part" -> result', "T T M - -> D",
          choices={"part": "EVEN ODD PART_EVEN PART_ODD"}, T=REAL, D="f32",
          decisions=(_DIFFERENCE, *_INEXACT), source=_FUSED, ulp=1),
    _two("vaddc", "Sum and carry.", types=_CARRY, text="lhs rhs mask -> result carry", T="i32 u32"),
    _two("vsubc", "Difference and carry.", types=_CARRY, text="lhs rhs mask -> result carry", T="i32 u32",
         decisions=(_BORROW,)),
    _two("vaddcs", "Sum with a carry, and the next carry.", types=_CARRIED, source=_SCALAR,
         text="lhs rhs carry_in mask -> result carry", T="i32 u32"),
    _two("vsubcs", "Difference with a carry, and the next carry.", types=_CARRIED, source=_SCALAR,
         text="lhs rhs carry_in mask -> result carry", T="i32 u32", decisions=(_BORROW,)),
    _two("vmull", "The halves of the whole product.", types="T T M -> T T", source=_FUSED,
         text="lhs rhs mask -> low high", T="i32 u32"),
)  # fmt: skip

_COUNTED = (micro_types.one_width, micro_types.signed_counts)

_LOGIC: tuple[MicroOperation, ...] = (
    _two("vand", "Bitwise AND.", T=_BITS),
    _two("vor", "Bitwise OR; it joins the parts of a conversion.", T=_BITS),
    _two("vxor", "Bitwise XOR.", T=_BITS),
    _one("vnot", "Bitwise complement.", T=f"{INTEGERS} i64 u64"),
    _two("vshl", "Shift to the left by lanes.", types="T U M -> T", T=f"{INTEGERS} i64 u64",
         U="i8 i16 i32 i64", rules=_COUNTED, decisions=(_SHIFT_COUNTS,)),
    _two("vshr", "Shift to the right by lanes.", types="T U M -> T", T=f"{INTEGERS} i64 u64",
         U="i8 i16 i32 i64", rules=_COUNTED, decisions=(_SHIFT_COUNTS, _SHIFT_RIGHT)),
    _scaled("vshls", "Shift to the left by a scalar.", types="T i16 M -> T", T=INTEGERS,
            decisions=(_SHIFT_COUNTS,)),
    _scaled("vshrs", "Shift to the right by a scalar.", types="T i16 M -> T", T=INTEGERS,
            decisions=(_SHIFT_COUNTS, _SHIFT_RIGHT)),
)  # fmt: skip

_MODES = {"mode": "eq ne lt le gt ge"}
_NAN = Decision(
    "How does NaN compare?",
    "It is unequal to everything, itself included; every other comparison with it is false.",
    f"{_COMPARE} says nothing",
)

_SELECTION: tuple[MicroOperation, ...] = (
    micro("vcmp", "Mask of the lanes for which a comparison holds.", 'src0 src1 seed "mode" -> result',
          "T T M - -> M", T=f"{INTEGERS} i64 u64 {FLOATS}", choices=_MODES, decisions=(_SIGNS, _NAN),
          source=_COMPARE),
    micro("vcmps", "Mask of the lanes for which a comparison with a scalar holds.",
          'src scalar seed "mode" -> result', "T sT M - -> M", T=f"{INTEGERS} i64 u64 {FLOATS}",
          choices=_MODES, decisions=(_SIGNS, _NAN), source=_COMPARE),
    micro("vsel", "Lanes of the first register where the mask is set, else of the second.",
          "src0 src1 mask -> result", "T T M -> T", T=_ANY, source=_COMPARE),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_ARITHMETIC, *_LOGIC, *_SELECTION)
