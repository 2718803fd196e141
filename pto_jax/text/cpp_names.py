"""How C++ spells instructions, enumerations and element types: one table for writing and for reading.

An intrinsic has the instruction's name in capitals and its operands in the declared order, destinations
first. The tables below hold the exceptions.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import cache

from .. import ir, isa
from ..isa.declare import Instruction

_LOCS = {ir.Loc.SCALELEFT: "ScaleLeft", ir.Loc.SCALERIGHT: "ScaleRight"}
#: C++ enumerations whose members are spelled as in program text.
_AS_THEY_ARE = (
    ir.CmpMode,
    ir.GatherAxis,
    ir.MaskPattern,
    ir.Precision,
    ir.SaturationMode,
    ir.ScatterAxis,
    ir.WaitCmp,
)
_RENAMED = {"StPhase": "STPhase", "GatherOob": "GatherOOB", "ScatterOob": "ScatterOOB", "Loc": "TileType"}
_RENAMED |= {"Pad": "PadValue", "Compact": "CompactMode"}
# Instructions by name: how the C++ interface spells each of them is no property of the instruction.
_NAMES = {
    **{f"{n}.mx{s}": f"{n.upper()}_MX" for n in ("tgemv", "tmatmul") for s in ("", ".acc", ".bias")},
    "tconcatidx": "TCONCAT",
    "tquant_dn": "TQUANT",
    "tquant.mx": "TQUANT",
}
#: Operands in the order of the intrinsic where it is not the declared one.
_ORDERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("tpartargmax", "tpartargmin"), ("dst", "src0", "src1", "dstIdx", "src0Idx", "src1Idx")),
    "tconcat": ("dst", "src0", "src1", "dstIdx", "src0Idx", "src1Idx"),
    "tinterleave": ("dst1", "dst0", "src1", "src0"),
    "tdeinterleave": ("dst1", "dst0", "src1", "src0"),
    "tmrgsort": ("dst", "executed", "tmp", "src0", "src1", "src2", "src3", "blockLen"),
    "tgather": ("dst", "src", "indices", "kValue", "cdst", "tmp"),
}


def intrinsic(instruction: Instruction) -> str:
    """The C++ name of an instruction.

    >>> intrinsic(isa.instructions()["tmatmul.acc"]), intrinsic(isa.instructions()["tmatmul.mx.acc"])
    ('TMATMUL_ACC', 'TMATMUL_MX')
    """
    name = instruction.name
    return instruction.intrinsic or _NAMES.get(name) or name.upper().replace(".", "_")


def ordered(instruction: Instruction) -> tuple[str, ...]:
    """The operands of an instruction in the order of its intrinsic, optional ones included."""
    return _ORDERS.get(instruction.name) or tuple(o.name for o in instruction.operands)


def plain(name: str) -> str:
    """A name of the C++ interface without its namespaces.

    >>> plain("pto::comm::WaitCmp::GE"), plain("TADD")
    ('WaitCmp::GE', 'TADD')
    """
    return name.removeprefix("pto::").removeprefix("comm::")


def member(value: IntEnum) -> str:
    """A member of an enumeration.

    >>> member(ir.AtomicType.ATOMIC_ADD), member(ir.CmpMode.GE), member(ir.RoundMode.RINT)
    ('AtomicType::AtomicAdd', 'CmpMode::GE', 'RoundMode::CAST_RINT')
    """
    kind = _RENAMED.get(type(value).__name__, type(value).__name__)
    if isinstance(value, ir.RoundMode):
        return f"{kind}::CAST_{value.name}"
    if isinstance(value, ir.GlobalLayout):
        return f"Layout::{value.name}"
    if isinstance(value, ir.Pipe):
        return f"PIPE_{value.name}"
    if isinstance(value, ir.Loc):
        return f"{kind}::{location(value)}"
    if isinstance(value, _AS_THEY_ARE) or kind in ("HistByte", "QuantType"):
        return f"{kind}::{value.name}"
    return f"{kind}::{camel(value.name)}"


def location(loc: ir.Loc) -> str:
    """The member of ``TileType`` for the place of a tile.

    >>> location(ir.Loc.VEC), location(ir.Loc.SCALELEFT)
    ('Vec', 'ScaleLeft')
    """
    return _LOCS.get(loc, loc.name.capitalize())


def camel(name: str) -> str:
    """The name of a member in the style of C++.

    >>> camel("ROW_MAJOR")
    'RowMajor'
    """
    return name.title().replace("_", "")


@cache
def members() -> Mapping[str, IntEnum]:
    """The members of all enumerations by their C++ spelling, without namespaces.

    >>> members()["SLayout::NoneBox"], members()["PIPE_MTE2"].name
    (<SLayout.NONE_BOX: 0>, 'MTE2')
    """
    declared = {a.type for i in isa.instructions().values() for a in i.attributes}
    kinds = {k for k in declared if isinstance(k, type) and issubclass(k, IntEnum)}
    kinds |= {ir.Loc, ir.BLayout, ir.SLayout, ir.Pad, ir.Compact, ir.GlobalLayout, ir.Pipe}
    return {member(m): m for k in sorted(kinds, key=lambda k: k.__name__) for m in k}


@cache
def intrinsics() -> Mapping[str, tuple[Instruction, ...]]:
    """The instructions that each C++ name stands for.

    >>> [i.name for i in intrinsics()["TSTORE"]], [i.name for i in intrinsics()["TPUT"]]
    (['tstore'], ['tput'])
    """
    by_name: dict[str, list[Instruction]] = {}
    for instruction in isa.instructions().values():
        if instruction.syntax == "tile" or instruction.cls == "communication":
            by_name.setdefault(intrinsic(instruction), []).append(instruction)
    return {name: tuple(forms) for name, forms in by_name.items()}
