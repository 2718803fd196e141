"""Types of the vector-register level: registers, predicates and alignment state."""

import re
from dataclasses import dataclass

from .dtypes import DType

#: Bytes of a vector register, and bits of a predicate.
REGISTER_BYTES = 256
#: Element types that only registers and pointers have: two numbers, the first one in the low half.
BF16_PAIR = DType("bf16_pair", "uint", 32, pair_of="bf16")
HIF8_PAIR = DType("hif8_pair", "uint", 16, pair_of="hif8")
REGISTER_PAIRS = {"bf16x2": BF16_PAIR, "hif8x2": HIF8_PAIR}


@dataclass(frozen=True)
class VRegType:
    """A vector register of ``lanes`` elements.

    Integers that the text gives no sign (``i16``, not ``si16``) are ``signless``. A ``logical`` register
    (``!pto.vmi.vreg``) has any number of lanes; ``layout`` is what its text says about their places.

    >>> from pto_jax.ir import F32
    >>> VRegType(64, F32).fits, VRegType(32, F32).fits, VRegType(32, F32, logical=True).fits
    (True, False, True)
    """

    lanes: int
    dtype: DType
    signless: bool = False
    logical: bool = False
    layout: str = ""

    @property
    def fits(self) -> bool:
        """Whether the lanes fill a register, as those of a physical one have to."""
        return self.logical or self.lanes * self.dtype.word_bits == REGISTER_BYTES * 8

    def __str__(self) -> str:
        element = f"s{self.dtype.name}" if self.dtype.kind == "int" and not self.signless else self.dtype.name
        return f"{'vmi.' if self.logical else ''}vreg<{self.lanes}x{element}>"


@dataclass(frozen=True)
class MaskType:
    """A predicate for lanes of ``bits`` bits, or a logical one (``!pto.vmi.mask``) of ``lanes`` lanes.

    ``bits`` of a logical predicate is 0 where its text leaves the width open.
    """

    bits: int
    lanes: int = 0
    layout: str = ""

    @property
    def logical(self) -> bool:
        """Whether the predicate has a bit per lane, not one per byte."""
        return self.lanes > 0

    def __str__(self) -> str:
        width = f"b{self.bits}" if self.bits else "pred"
        return f"vmi.mask<{self.lanes}x{width}>" if self.logical else f"mask<{width}>"


@dataclass(frozen=True)
class AlignType:
    """What an unaligned stream of loads or stores keeps between its operations."""

    def __str__(self) -> str:
        return "align"


#: The layout of a logical register or mask: its kind, a number of it, and further numbers.
_LAYOUT = re.compile(
    r"#pto\.vmi\.layout<\s*([a-z_]+)(?:\s*=\s*(-?\d+))?((?:\s*,\s*[a-z_]+\s*=\s*-?\d+)*)\s*>"
)
_FIELD = re.compile(r"([a-z_]+)\s*=\s*(-?\d+)")
#: Kinds of layouts with the numbers that they may have; None: any above 0, of a register its lanes.
_LAYOUTS: dict[str, tuple[tuple[str, ...] | None, tuple[str, ...]]] = {
    "contiguous": (("",), ("lane_stride",)),
    "deinterleaved": (("2", "4"), ("lane_stride",)),
    "block_deinterleaved": (("2", "4"), ()),
    "num_groups": (None, ("slots", "lane_stride")),
}


def layout_objection(t: VRegType | MaskType) -> str:
    """What is allowed in place of the layout of a logical type; "" where it is one, or a name for one.

    >>> from pto_jax.ir import F32
    >>> layout_objection(VRegType(8, F32, logical=True, layout="#pto.vmi.layout<deinterleaved = 3>"))
    'deinterleaved = 2 or 4'
    """
    if isinstance(t, MaskType) and not t.bits:
        return "none for a mask without a width"
    match = _LAYOUT.fullmatch(t.layout)
    kind, number, rest = (match[1], match[2] or "", match[3]) if match else ("", "", "")
    if not t.layout.startswith("#pto."):
        return ""
    if kind not in _LAYOUTS:
        return f"#pto.vmi.layout<...> of {', '.join(_LAYOUTS)}"
    numbers, fields = _LAYOUTS[kind]
    groups = str(t.lanes) if isinstance(t, VRegType) else number
    if number not in (numbers or (groups,)) or number.startswith(("-", "0")):
        text = " or ".join(numbers) if numbers else groups.lstrip("-")
        return f"{kind} = {text}".removesuffix(" = ")
    if any(name not in fields or int(value) < (name != "slots") for name, value in _FIELD.findall(rest)):
        return f"{kind} with " + (", ".join(f"{f} = a positive number" for f in fields) or "nothing else")
    return ""
