"""Operations on logical registers (VMI): any number of lanes, a mask of a bit per lane.

They compute what the operations of the same name on registers compute; how lanes are placed in registers
changes no value. An absent mask means all lanes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..ir import I1, Op, VRegType
from . import registers, registers_reduce
from .declare import Decision
from .micro import Lanes, MicroCall, MicroOperation, Place, micro
from .rules import logical, micro_types

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
_ACCESS = "vmi-isa chapter 01"
_VERIFIER = "lib/PTO/IR/VMI.cpp"
_MODES = {"pmode": "zero merge"}
_CONVERTED = {"rounding": "R A F C Z O H", "saturate": "NOSAT SAT"}
_op = partial(micro, choices=_MODES, refused="merge", decisions=(_MERGE,))


#: Operations whose mask may be absent; others need one.
_UNMASKED = "vadd vsub vmul vdiv vmax vmin vneg vrelu vexp vln vsqrt vmula vshl vshr".split()
_SHIFTS = ("vshl", "vshr")
_WHOLE = "i8 u8 i16 u16 i32 u32"
_NUMBERS = f"{_WHOLE} f16 bf16 f32"
#: Element types that are others than those of the operation on registers.
_TYPES = {
    **dict.fromkeys("vadd vsub vmula".split(), _NUMBERS),
    **dict.fromkeys("vshl vshr".split(), _WHOLE),
    "vdiv": "f16 f32",
    "vrelu": "si32 f16 f32",
    "vmuls": "i16 u16 i32 u32 f16 f32",
}
_RULES = {"vmull": (logical.without_sign(0), logical.lanes_of(64, 128, 256))}


def _like(operation: MicroOperation) -> MicroOperation:
    """The logical form of an operation on registers whose last operand is a mask."""
    name, text = operation.name, operation.text.replace(' "part"', "")
    words = [w for w in operation.types.split() if w != "-"]
    form = micro(
        f"vmi.{name}",
        operation.summary,
        text.replace(" mask ", " mask? ") if name in _UNMASKED else text,
        "T T M -> T" if name in _SHIFTS else " ".join(words),
        choices={"pmode": "zero"} if name == "vmull" else _MODES,
        refused="merge",
        rules=_RULES.get(name, ()),
        decisions=(*operation.decisions, _MERGE),
        source=f"{_ELEMENTWISE}; {_VERIFIER}",
        ulp=operation.ulp,
    )
    types = {"T": tuple(_TYPES[name].split())} if name in _TYPES else operation.elements
    return replace(form, elements=types)


def _integers_by_sign(op: Op) -> Iterator[str]:
    """Comparisons of integers name no order of floats."""
    t, mode = op.ins[0].type if op.ins else None, str(op.attrs.get("cmp", "eq"))
    if isinstance(t, VRegType) and t.dtype.is_integer and mode not in SIX:
        yield f"got cmp = {mode} of {t.dtype}; allowed: {', '.join(SIX)}"


_BITS = ("vand", "vor", "vxor", "vnot")
#: Operations that have another form here, and those that there are on registers only.
_OTHER = ("vcmp", "vcmps", "vsel", *_BITS, "vabs", "vrsqrt", "vmadd", "vsubc", "vsubcs")
_LIKE = tuple(_like(o) for o in registers.OPERATIONS if o.name not in _OTHER)
#: Operations that are executed as those on registers; of the exponential f16 lanes have no parts.
SAME = (*(o.name.removeprefix("vmi.") for o in _LIKE if o.name != "vmi.vexpdif"), "vselr")
#: The comparisons of integers.
SIX = ("eq", "ne", "lt", "le", "gt", "ge")
_COMPARED = {"cmp": "eq ne lt le gt ge oeq one olt ole ogt oge", "pmode": "zeroing merge"}

_LANES: tuple[MicroOperation, ...] = (
    *_LIKE,
    _op("vmi.vabs", "Absolute value.", "input mask? -> result", "T M -> T",
        T="si8 si16 si32 f16 bf16 f32", source=_ELEMENTWISE),
    *(_op(f"vmi.{n}", "Bitwise operation on registers or on masks.", "lhs rhs mask? -> result", "- - - -> -",
          rules=(logical.bitwise(2),), source=_ELEMENTWISE) for n in _BITS[:3]),
    _op("vmi.vnot", "Bitwise complement of a register or of a mask.", "input mask? -> result", "- - -> -",
        rules=(logical.bitwise(1),), source=_ELEMENTWISE),
    micro("vmi.vcmp", "Mask of the lanes for which a comparison holds.", "lhs rhs seed -> result",
          "T T M -> M", T=_NUMBERS, choices=_COMPARED, refused="merge",
          rules=(_integers_by_sign,), decisions=(_SIGNLESS, _MERGE), source=_ELEMENTWISE),
    micro("vmi.vcmps", "Mask of the lanes for which a comparison with a scalar holds.",
          "src scalar seed -> result", "T sT M -> M", T=_NUMBERS, choices=_COMPARED,
          refused="merge", rules=(_integers_by_sign,), decisions=(_SIGNLESS, _MERGE), source=_ELEMENTWISE),
    micro("vmi.vsel", "Lanes of the first register where the mask is set, else of the second.",
          "mask true_val false_val -> result", "m T T -> T", choices=_MODES,
          rules=(logical.fits_mask(0, 1),), source=_ELEMENTWISE),
    micro("vmi.vselr", "Lanes at the positions that a register has.", "source index -> result", "T U -> T",
          U=_WHOLE, rules=(micro_types.one_width,), source=_ELEMENTWISE),
    *(_op(f"vmi.{n}", s, "lhs rhs mask -> low high", "T T M -> T T", source="vmi-isa chapter 09")
      for n, s in (("vintlv", "Lanes of two registers by turns."),
                   ("vdintlv", "The even and the odd lanes of two registers."))),
    micro("vmi.vci", "Numbers that count up or down from a scalar, from anew in every group.",
          "base -> result", "- -> T", T=f"{_WHOLE} f16 f32", choices={"order": "ASC DESC"},
          rules=(logical.counted,), source="vmi-isa chapter 02"),
    micro("vmi.vbrc", "A scalar, or the lane of each group, in all lanes.", "value -> result", "- -> T",
          rules=(logical.broadcast,), source="vmi-isa chapter 04"),
    micro("vmi.vcvt", "Conversion to another element type; the lanes stay.", "src -> result",
          "T -> D", choices=_CONVERTED, rules=(logical.converted(),),
          source=f"vmi-isa chapter 06; {_VERIFIER} (VMICvtOp)"),
    micro("vmi.vinterpret_cast", "The bits of a register as other elements.", "src -> result", "T -> D",
          rules=(logical.same_bits,), source="vmi-isa chapter 06"),
)  # fmt: skip

_REDUCTIONS: tuple[MicroOperation, ...] = (
    *(
        micro(f"vmi.{o.name}", f"{o.summary.split(' of ')[0].split(' in ')[0]} of the lanes of each group.",
              "src mask -> result", "T M -> D", T=_NUMBERS, D=_NUMBERS, choices=_MODES, flags=flags,
              refused="merge", rules=(logical.reduced, *rules), decisions=(_GROUPS, _MERGE),
              source="vmi-isa chapter 05")
        for o in registers_reduce.OPERATIONS if o.name in ("vcadd", "vcmax", "vcmin")
        for flags, rules in [("reassoc", (logical.reassociated,)) if o.name == "vcadd" else ("", ())]
    ),
    *(
        micro(f"vmi.{n}", s, "acc src mask -> result", "T U MU -> D", T="u16 i16", U="u8 i8", D="u16 i16",
              rules=(logical.without_sign(0, 1, logical.RESULT), logical.lanes_of(128, 256)), source=_SFU)
        for n, s in (("vdhist", "How often each value occurs, added to counts."),
                     ("vchist", "How many lanes are at most each value, added to counts."))
    ),
)  # fmt: skip

_pattern = partial(micro, text='"pattern" -> mask', types="- -> m", rules=(logical.layout_with_width,),
                   source=f"vmi-isa chapter 08; {_VERIFIER}")  # fmt: skip

_MASKS: tuple[MicroOperation, ...] = (
    micro("vmi.create_mask", "Mask of the first lanes.", "count -> mask", "n -> m",
          source="vmi-isa chapter 08"),
    micro("vmi.constant_mask", "Mask of lanes that the text lists.", "-> mask", "-> m",
          rules=(logical.listed_lanes,), source="VMIOps.td (VMIConstantMaskOp)"),
    micro("vmi.create_group_mask", "Mask of the first lanes of every group.", "count -> mask", "n -> m",
          rules=(logical.whole_groups,), source="vmi-isa chapter 08"),
    _pattern("vmi.pset", "Mask of all lanes.", choices={"pattern": "PAT_ALL"}),
    _pattern("vmi.pge", "Mask of the first lanes.", rules=(logical.first_lanes, logical.layout_with_width)),
    micro("vmi.plt", "Mask of the lanes below a count, and how many remain.", "count -> mask rest",
          "i32 -> m i32", rules=(logical.layout_with_width,), source="vmi-isa chapter 08"),
)  # fmt: skip


def _pointer(call: MicroCall, stores: bool) -> int:
    """Where the pointer is among the operands: a store has its registers in front of it."""
    return stores + (stores and call.attributes.get("dist_mode") == "dintlv")


def _element_bytes(call: MicroCall, stores: bool) -> int:
    pointer = call.types[_pointer(call, stores)]
    return pointer.dtype.word_bits // 8 if isinstance(pointer, Lanes) else 1


def _is_mask(t: Lanes | int | None) -> bool:
    return isinstance(t, Lanes) and t.dtype == I1


def _span(call: MicroCall, stores: bool) -> int | None:
    """The bytes of a run of lanes; groups and strides have gaps."""
    at = _pointer(call, stores)
    registers = call.types[:at] if stores else call.results
    behind, size = call.types[at + 2 :], _element_bytes(call, stores)
    if call.attributes.get("group") or not all(_is_mask(t) for t in behind):
        return None
    lanes = (r.lanes for r in registers if isinstance(r, Lanes))
    return size if call.attributes.get("dist_mode") == "brc" else sum(lanes) * size


def _place(*, stores: bool) -> Place:
    """Where a load or a store accesses memory."""
    return Place(
        "dest" if stores else "source",
        "write" if stores else "read",
        "offset",
        span=lambda call, numbers: _span(call, stores),
        masked=lambda call: any(_is_mask(t) for t in call.types),
        aligned=lambda call: _element_bytes(call, stores),
    )


#: What stands behind an offset is written without its type, unless it is a mask.
_LOAD = "$source [ $offset ] (? , $stride (? , $repeat ?) ?) {} : !source -> ^*"
_STORE = (
    "$value , (? $high , ?) $dest [ $offset ] (? , $extra (? , $repeat (? , $mask ?) ?) ?) {} "
    ": !value , (?t !high , ?) !dest (?m , !extra ?) (?m , !repeat ?) (?m , !mask ?)"
)
_BLOCKS = "$value , $dest [ $offset ] , $stride , $mask {} : !value , !dest , !mask"
_REPEATED = Decision(
    "What is the second stride of blocks?",
    "A number of blocks that is added to the address; without it none is.",
    "VMIToVPTO.cpp lowers it to the repeat stride of vsldb and vsstb; chapter 01 has the first stride only, "
    "the verifier both",
)

_LOADS = partial(micro, kind="memory", places=(_place(stores=False),))
_STORES = partial(micro, kind="memory", places=(_place(stores=True),))
_MEMORY: tuple[MicroOperation, ...] = (
    _LOADS("vmi.vload", "Load of lanes, of groups or blocks of 32 bytes at a stride, or by turns.",
           "source[offset] stride? repeat? -> value high?", "p* n n n -> T T",
           choices={"dist_mode": "continuous unpack brc dintlv"},
           rules=(logical.accessed, logical.same_memory(logical.RESULT)), written=_LOAD,
           decisions=(_REPEATED,), source=_ACCESS),
    _STORES("vmi.vstore", "Store of lanes, of groups or blocks of 32 bytes at a stride, or by turns.",
            "value high? dest[offset] extra? repeat? mask?", "T T p* n - - -",
            choices={"dist_mode": "continuous dintlv", "pmode": "zero"},
            rules=(logical.accessed, logical.same_memory(0)), written=_STORE,
            decisions=(_MASKED, _REPEATED), source=_ACCESS),
    _STORES("vmi.vsstb", "Store of blocks of 32 bytes at a stride.", "value dest[offset] stride mask",
            "T p* n i16 M", choices={"pmode": "zero"}, rules=(logical.same_memory(0),), written=_BLOCKS,
            decisions=(_MASKED,), source=_ACCESS),
    *(
        micro(f"vmi.{n}", s, "source offsets mask -> value", "p* D m -> T", kind="memory", choices=_MODES,
              refused="merge", places=(Place("source", "read"),), decisions=(_MERGE,), source=_SFU,
              rules=(logical.same_memory(logical.RESULT), logical.offsets(1, logical.RESULT),
                     logical.fits_mask(2, logical.RESULT)))
        for n, s in (("vgather", "Load of elements at offsets that a register has."),
                     ("vgatherb", "Load of elements at offsets in bytes that a register has."))
    ),
    micro("vmi.vscatter", "Store of lanes at offsets that a register has.", "value dest offsets mask",
          "T p* D MT", kind="memory", places=(Place("dest", "write"),), source=_SFU, choices=_MODES,
          refused="merge", decisions=(_MERGE,),
          rules=(logical.same_memory(0), logical.offsets(2, 0))),
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

#: What the ends of an older conversion are.
_OLD_KINDS: dict[str, tuple[str, ...]] = {
    "extf": ("floats", "floats", "wider"), "truncf": ("floats", "floats", "narrower"),
    "fptosi": ("floats", "signed"), "fptoui": ("floats", "unsigned"), "sitofp": ("signed", "floats"),
    "extsi": ("signed", "signed", "wider"), "extui": ("unsigned", "unsigned", "wider"),
    "trunci": ("signed unsigned", "signed unsigned", "narrower"),
}  # fmt: skip
_OLD_ELEMENTS = {"sitofp": {"T": ("i32",), "D": ("f32",)}}
#: Element types of older reductions by their last letter; sums of integers have 32 bits.
_OLD_TYPES = {"f": "f16 f32", "i": _WHOLE}


def _old_reduction(name: str) -> MicroOperation:
    sums = name.endswith(("addf", "addi"))
    types = "i32 u32" if name.endswith("addi") else _OLD_TYPES[name[-1]]
    rules = (logical.reduced, *([logical.reassociated] if sums else []))
    return micro(f"vmi.{name}", "A number of the lanes of each group.", "src mask -> result", "T M -> D",
                 T=types, D=types, flags="reassoc" if name.endswith("addf") else "", rules=rules,
                 source=_OLD)  # fmt: skip


_OLDER: tuple[MicroOperation, ...] = (
    _LOADS("vmi.load", "Load of lanes.", "source[offset] -> value", "p* n -> T",
           rules=(logical.same_memory(logical.RESULT),), source=_OLD),
    _STORES("vmi.store", "Store of lanes.", "value dest[offset]", "T p* n",
            rules=(logical.same_memory(0),), source=_OLD),
    *(replace(micro(f"vmi.{n}", "Conversion to another element type; the lanes stay.", "src -> result",
                    "T -> D", choices=_CONVERTED, rules=(logical.converted(logical.between(*ends)),),
                    source=_OLD), elements=_OLD_ELEMENTS.get(n, {}))
      for n, ends in _OLD_KINDS.items()),
    *(_old_reduction(n) for n in OLD_REDUCTIONS),
    micro("vmi.group_broadcast", "The lane of each group, in all its lanes.", "value -> result", "T -> D",
          rules=(logical.broadcast,), source=_OLD),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_LANES, *_REDUCTIONS, *_MASKS, *_MEMORY, *_OLDER)
