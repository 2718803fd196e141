"""Operations on logical registers (VMI): any number of lanes, a mask of a bit per lane.

They compute what the operations of the same name on registers compute; how lanes are placed in registers
changes no value. An absent mask means all lanes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..ir import I1, MaskType, Op, ScalarType, Type, VRegType, dtype
from . import registers, registers_reduce
from .declare import Decision
from .micro import Lanes, MicroCall, MicroOperation, Numbers, Place, micro
from .predicates import PATTERNS
from .registers_convert import PAIRS
from .rules.micro_types import fits_lanes, lane_scalar
from .rules.registers import listed

_ELEMENTWISE = "vmi-isa chapter 03"
_SFU = "vmi-isa chapter 07"
_MERGE = Decision(
    "What do inactive lanes keep under merge?",
    "It is read and verified; execution ends with an error.",
    "no operation names old values (PTOAS 1240); the appendix shows an emulation",
)
_SIGNLESS = Decision(
    "How do integers without a sign compare?",
    "As unsigned ones, other than in operations on registers.",
    "vmi-isa chapter 03, section 3.6",
)
_GROUPS = Decision(
    "In which order does a sum of a group add floats?",
    "Neighbours first, then neighbours among the sums, over the lanes of the group.",
    "reassoc permits any order; as the sum of a register",
)
_MASKED = Decision(
    "What do inactive lanes of a store become?",
    "They are not written.",
    "public cases mask-select-store and *-tail; vmi-isa chapter 01 says both this and that they are 0",
)
_MODES = {"pmode": "zero merge"}
_op = partial(micro, choices=_MODES, refused="merge", decisions=(_MERGE,))


def _like(operation: MicroOperation) -> MicroOperation:
    """The logical form of an operation on registers whose last operand is a mask."""
    text = operation.text.replace(" mask ", " mask? ").replace(' "part"', "")
    words = [w for w in operation.types.split() if w != "-"]
    logical = micro(
        f"vmi.{operation.name}",
        operation.summary,
        text,
        " ".join(words),
        choices=_MODES,
        refused="merge",
        decisions=(*operation.decisions, _MERGE),
        source=_ELEMENTWISE,
        ulp=operation.ulp,
    )
    return replace(logical, elements=operation.elements)


def _convertible(op: Op) -> Iterator[str]:
    """Floats become integers, and integers floats, of the pairs that conversions of registers have."""
    types = [v.type for v in (*op.ins[:1], *op.results[:1])]
    dtypes = [t.dtype for t in types if isinstance(t, VRegType)]
    if len(dtypes) < len(types) or len({d.is_float for d in dtypes}) < len(dtypes):
        return
    source, target = dtypes
    if (source.name, target.name) not in PAIRS:
        allowed = ", ".join(t for s, t in PAIRS if s == source.name and dtype(t).is_float == target.is_float)
        yield f"got {source} to {target}; allowed from {source}: {allowed or 'none of its kind'}"


def _ends(op: Op) -> tuple[Type | None, Type | None]:
    """The types of the first operand and of the first result."""
    operand, result = (next((v.type for v in values), None) for values in (op.ins, op.results))
    return operand, result


def _same_lanes(op: Op) -> Iterator[str]:
    """A conversion keeps the lanes."""
    match _ends(op):
        case VRegType() as source, VRegType() as result if source.lanes != result.lanes:
            yield f"got {source.lanes} lanes to {result.lanes}; allowed: equal numbers of lanes"


def _same_bits(op: Op) -> Iterator[str]:
    """The bits of a register are as many in other elements."""
    match _ends(op):
        case VRegType() as source, VRegType() as result:
            before, after = (t.lanes * t.dtype.storage_bits for t in (source, result))
            if before != after:
                yield f"got {before} bits as {after}; allowed: equal numbers of bits"


def _fits_result(op: Op) -> Iterator[str]:
    """What is in all lanes has the type of a lane."""
    match _ends(op):
        case VRegType() as source, VRegType() as result if source.dtype != result.dtype:
            yield f"got {source.dtype} in lanes of {result.dtype}; allowed: equal element types"
        case ScalarType() as scalar, VRegType() as result if not fits_lanes(scalar.dtype, result):
            yield f"got {scalar} in lanes of {result.dtype}; allowed: {lane_scalar(result)}"


def _listed_lanes(op: Op) -> Iterator[str]:
    """A mask that the text lists has a bit for every lane."""
    value, (_, result) = str(op.attrs.get("value", "")), _ends(op)
    if isinstance(result, MaskType):
        shape = re.search(r"(?:tensor|vector) ?< ?(\d+) ?x ?(\w+) ?>$", value)
        typed = shape is not None and shape.groups() == (str(result.lanes), "i1")
        if not typed or len(listed(value, result.lanes)) != result.lanes:
            yield f"got value = {value}; allowed: dense<...> : tensor<{result.lanes}xi1>"


def _whole_groups(op: Op) -> Iterator[str]:
    """Groups are all lanes of a mask."""
    match op.attrs.get("num_groups"), op.attrs.get("group_size"), _ends(op)[1]:
        case int(count), int(size), MaskType() as result if (
            min(count, size) < 1 or count * size != result.lanes
        ):
            yield f"got {count} groups of {size} in {result.lanes} lanes; allowed: groups of all lanes"


def _integers_by_sign(op: Op) -> Iterator[str]:
    """Comparisons of integers name no order of floats."""
    t, mode = op.ins[0].type if op.ins else None, str(op.attrs.get("cmp", "eq"))
    if isinstance(t, VRegType) and t.dtype.is_integer and mode not in SIX:
        yield f"got cmp = {mode} of {t.dtype}; allowed: {', '.join(SIX)}"


_BITS = ("vand", "vor", "vxor", "vnot")
_OTHER = ("vcmp", "vcmps", "vsel", *_BITS, "vabs")
_LIKE = tuple(_like(o) for o in registers.OPERATIONS if o.name not in _OTHER)
_NUMBERS = "i8 u8 i16 u16 i32 u32 f16 bf16 f32"
#: The comparisons of integers.
SIX = ("eq", "ne", "lt", "le", "gt", "ge")
_COMPARISONS = "eq ne lt le gt ge oeq one olt ole ogt oge ueq une ult ule ugt uge ord uno"

_LANES: tuple[MicroOperation, ...] = (
    *_LIKE,
    _op("vmi.vabs", "Absolute value.", "input mask? -> result", "T M -> T",
        T="i8 i16 i32 f16 bf16 f32", source=_ELEMENTWISE),
    *(_op(f"vmi.{n}", "Bitwise operation on registers or on masks.", "lhs rhs mask? -> result", "- - - -> -",
          source=_ELEMENTWISE) for n in _BITS[:3]),
    _op("vmi.vnot", "Bitwise complement of a register or of a mask.", "input mask? -> result", "- - -> -",
        source=_ELEMENTWISE),
    micro("vmi.vcmp", "Mask of the lanes for which a comparison holds.", "lhs rhs seed -> result",
          "T T M -> -", T=_NUMBERS, choices={"cmp": _COMPARISONS, **_MODES}, refused="merge",
          rules=(_integers_by_sign,), decisions=(_SIGNLESS, _MERGE), source=_ELEMENTWISE),
    micro("vmi.vcmps", "Mask of the lanes for which a comparison with a scalar holds.",
          "src scalar seed -> result", "T sT M -> -", T=_NUMBERS, choices={"cmp": _COMPARISONS, **_MODES},
          refused="merge", rules=(_integers_by_sign,), decisions=(_SIGNLESS, _MERGE), source=_ELEMENTWISE),
    micro("vmi.vsel", "Lanes of the first register where the mask is set, else of the second.",
          "mask true_val false_val -> result", "- T T -> T", choices=_MODES, source=_ELEMENTWISE),
    micro("vmi.vselr", "Lanes at the positions that a register has.", "source index -> result", "T U -> T",
          source=_ELEMENTWISE),
    *(_op(f"vmi.{n}", s, "lhs rhs mask? -> low high", "T T M -> T T", source="vmi-isa chapter 09")
      for n, s in (("vintlv", "Lanes of two registers by turns."),
                   ("vdintlv", "The even and the odd lanes of two registers."))),
    micro("vmi.vci", "Numbers that count up or down from a scalar, from anew in every group.",
          "base -> result", "- -> T", T="i8 u8 i16 u16 i32 u32 f16 f32", choices={"order": "ASC DESC"},
          source="vmi-isa chapter 02"),
    micro("vmi.vbrc", "A scalar, or the lane of each group, in all lanes.", "value -> result", "- -> T",
          rules=(_fits_result,), source="vmi-isa chapter 04"),
    micro("vmi.vcvt", "Conversion to another element type; the lanes stay.", "src mask? -> result",
          "T M -> D", choices={"rounding": "R A F C Z O H", "saturate": "NOSAT SAT"},
          rules=(_convertible, _same_lanes), source="vmi-isa chapter 06"),
    micro("vmi.vinterpret_cast", "The bits of a register as other elements.", "src -> result", "T -> D",
          rules=(_same_bits,), source="vmi-isa chapter 06"),
)  # fmt: skip

_REDUCTIONS: tuple[MicroOperation, ...] = (
    *(
        micro(f"vmi.{o.name}", f"{o.summary.split(' of ')[0].split(' in ')[0]} of the lanes of each group.",
              "src mask -> result", "T M -> D", T=_NUMBERS, D=_NUMBERS, choices=_MODES,
              refused="merge", decisions=(_GROUPS, _MERGE), source="vmi-isa chapter 05")
        for o in registers_reduce.OPERATIONS if o.name in ("vcadd", "vcmax", "vcmin")
    ),
    *(
        micro(f"vmi.{n}", s, "acc src mask -> result", "T U MU -> T", U="u8 i8", source=_SFU)
        for n, s in (("vdhist", "How often each value occurs, added to counts."),
                     ("vchist", "How many lanes are at most each value, added to counts."))
    ),
)  # fmt: skip

_MASKS: tuple[MicroOperation, ...] = (
    micro("vmi.create_mask", "Mask of the first lanes.", "count -> mask", "n -> -",
          source="vmi-isa chapter 08"),
    micro("vmi.constant_mask", "Mask of lanes that the text lists.", "-> mask", "-> -",
          rules=(_listed_lanes,), source="VMIOps.td (VMIConstantMaskOp)"),
    micro("vmi.create_group_mask", "Mask of the first lanes of every group.", "count -> mask", "n -> -",
          rules=(_whole_groups,), source="vmi-isa chapter 08"),
    *(micro(f"vmi.{n}", "Mask of a pattern.", '"pattern" -> mask', "- -> -", choices={"pattern": PATTERNS},
            source="vmi-isa chapter 08") for n in ("pset", "pge")),
    micro("vmi.plt", "Mask of the lanes below a count, and how many remain.", "count -> mask rest",
          "i32 -> - i32", source="vmi-isa chapter 08"),
)  # fmt: skip


def _whole(at: int) -> Place:
    """Where a load (0) or a store (1) accesses memory; groups and strides have gaps."""

    def span(call: MicroCall, numbers: Numbers) -> int | None:
        register = call.results[0] if at == 0 else call.types[0]
        strided = (
            call.attributes.get("group") or call.name == "vmi.vsstb" or (at == 0 and len(call.types) > 2)
        )
        if strided or not isinstance(register, Lanes):
            return None
        return register.lanes * _element_bytes(call, at)

    if at:
        aligned = partial(_element_bytes, at=at)
        return Place("dest", "write", "offset", span=span, masked=_obeys_mask, aligned=aligned)
    return Place("source", "read", "offset", span=span, aligned=lambda call: _element_bytes(call, at))


def _obeys_mask(call: MicroCall) -> bool:
    """Whether a store has a mask."""
    return any(isinstance(t, Lanes) and t.dtype == I1 for t in call.types)


def _element_bytes(call: MicroCall, at: int) -> int:
    pointer = call.types[at]
    return pointer.dtype.word_bits // 8 if isinstance(pointer, Lanes) else 1


_ACCESS = {"dist_mode": "continuous unpack brc"}
#: What stands behind an offset is written without its type, unless it is a mask.
_LOAD = "$source [ $offset ] (? , $stride ?) {} : !source -> ^*"
_STORE = "$value , $dest [ $offset ] (? , $extra ?) {} : !value , !dest (?m , !extra ?)"
_BLOCKS = "$value , $dest [ $offset ] , $stride , $mask {} : !value , !dest , !mask"

_MEMORY: tuple[MicroOperation, ...] = (
    micro("vmi.vload", "Load of lanes; of groups at a stride, or of blocks of 32 bytes at one.",
          "source[offset] stride? -> value", "p* n n -> T", kind="memory", choices=_ACCESS,
          places=(_whole(0),), written=_LOAD, source="vmi-isa chapter 01"),
    micro("vmi.vstore", "Store of lanes: of the active ones, of groups at a stride, of blocks at one.",
          "value dest[offset] extra?", "T p* n -", kind="memory",
          choices={"dist_mode": "continuous", "pmode": "zero merge"}, places=(_whole(1),),
          written=_STORE, decisions=(_MASKED,), source="vmi-isa chapter 01"),
    micro("vmi.vsstb", "Store of blocks of 32 bytes at a stride.", "value dest[offset] stride mask",
          "T p* n n M", kind="memory", choices=_MODES, places=(_whole(1),), written=_BLOCKS,
          decisions=(_MASKED,), source="vmi-isa chapter 01"),
    *(
        micro(f"vmi.{n}", s, "source offsets mask -> value", "p* D M -> T", kind="memory", choices=_MODES,
              refused="merge", places=(Place("source", "read"),), decisions=(_MERGE,), source=_SFU)
        for n, s in (("vgather", "Load of elements at offsets that a register has."),
                     ("vgatherb", "Load of elements at offsets in bytes that a register has."))
    ),
    micro("vmi.vscatter", "Store of lanes at offsets that a register has.", "value dest offsets mask",
          "T p* D M", kind="memory", places=(Place("dest", "write"),), source=_SFU),
)  # fmt: skip

_OLD = "names of operations before vmi-isa 0.60, which the assembler still reads"
#: Older names of conversions, and the sign that they give integers of their source.
OLD_CONVERSIONS = {
    "extf": "", "truncf": "", "fptosi": "", "fptoui": "", "sitofp": "i", "extsi": "i", "extui": "u",
    "trunci": "",
}  # fmt: skip
OLD_REDUCTIONS = {
    f"group_reduce_{name}": new
    for new, names in (("vcadd", "addf addi"), ("vcmax", "maxf maxi"), ("vcmin", "minf mini"))
    for name in names.split()
}

_OLDER: tuple[MicroOperation, ...] = (
    micro("vmi.load", "Load of lanes.", "source[offset] -> value", "p* n -> T", kind="memory",
          places=(_whole(0),), source=_OLD),
    micro("vmi.store", "Store of lanes.", "value dest[offset]", "T p* n", kind="memory", places=(_whole(1),),
          source=_OLD),
    *(micro(f"vmi.{n}", "Conversion to another element type; the lanes stay.", "src -> result", "T -> D",
            choices={"rounding": "R A F C Z O H", "saturate": "NOSAT SAT"}, rules=(_convertible, _same_lanes),
            source=_OLD)
      for n in OLD_CONVERSIONS),
    *(micro(f"vmi.{n}", "A number of the lanes of each group.", "src mask -> result", "T M -> D", T=_NUMBERS,
            D=_NUMBERS, source=_OLD)
      for n in OLD_REDUCTIONS),
    micro("vmi.group_broadcast", "The lane of each group, in all its lanes.", "value -> result", "T -> D",
          source=_OLD),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_LANES, *_REDUCTIONS, *_MASKS, *_MEMORY, *_OLDER)
