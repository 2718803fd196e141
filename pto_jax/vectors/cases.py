"""Recorded cases as programs of one instruction, and the stored bytes of tiles.

The operands of the instruction are the arguments of the program. A tile is a ``[rows, cols]`` array of raw
words (unsigned integers of the element's width); its stored form is a string of bytes in the order of its
layout, little-endian, two 4-bit elements per byte for packed types.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import ir, isa
from ..errors import ArgumentError, FileError, nearest
from ..ir import BLayout, Compact, DType, SLayout, TileType, unpack_pairs
from ..isa import sync_config, views
from ..oracle.memory import pad_word
from .manifest import Case, GmOperand, OtherOperand, ScalarOperand, TileOperand, VectorOperand

_Given: TypeAlias = TileOperand | GmOperand | ScalarOperand | VectorOperand

#: Attribute keys of vector files and the declared attributes they set.
ATTRIBUTES = {
    "cmpMode": "cmpMode",
    "roundMode": "rmode",
    "saturationMode": "sat_mode",
    "precision": "precision",
    "descending": "descending",
    "isUpperOrLower": "upperOrLower",
    "rounds": "rounds",
    "byte": "byte",
    "exhausted": "exhausted",
    "mask": "maskPattern",
    "axis": "axis",
    "quant_type": "quant_type",
    "mx_alg": "mx_alg",
    "grp_axis": "grp_axis",
    "relu": "reluPreMode",
    "acc_to_vec_mode": "accToVecMode",
    "atomic": "atomicType",
    "ctrl_bit48_saturate_inf": "saturateInf",
}
#: Declared attributes of some instructions, and the keys that set them there.
FURTHER_ATTRIBUTES = {
    "coalesce": "coalesce",
    "gatherOob": "oob",
    "scatterOob": "oob",
    "scatterAtomicOp": "atomic",
    "scatterConflict": "conflict",
}
#: Keys that describe a recorded form and set no attribute; so do those of operands, their bits and types.
DESCRIPTIVE = frozenset(
    "alias api atomic broadcast_mode coalesce conflict dst_aliases_src expanded_operand form grp_axis "
    "in_place isBinary left_layout lists oob order pad_val phase quant quant_sign_bit quant_type scalar "
    "scale_alg src_v_col src_v_row values variant".split()
)
#: Values of vector attributes that stand for the overload without that parameter.
UNSPECIFIED = frozenset({"unspecified", "default"})


def case_instruction(case: Case) -> isa.Instruction | None:
    """The declaration a case is executed by; block-scaled products carry their form as an attribute."""
    variant = case.attrs.get("variant")
    name = f"{case.instruction}_{variant}" if variant in ("acc", "bias") else case.instruction
    # Recorded forms may be instructions of their own.
    form = isa.instructions().get(f"{name}.{case.attrs.get('form')}")
    return form or isa.find(name)


def unsupported_reason(case: Case) -> str | None:
    """Why no program is built for a case, or None when it can be executed.

    This is the only place that decides which recorded forms are out of reach.
    """
    instruction = case_instruction(case)
    if instruction is None:
        return "the instruction is not declared"
    if not instruction.executable:
        return "the instruction is declared but not executed"
    for operand in case.operands:
        if isinstance(operand, OtherOperand):
            return f"operand {operand.name} is a {operand.kind} operand"
    return None


def case_program(case: Case) -> ir.Program:
    """The fragment that executes a case: the instruction in ``ins(..) outs(..)`` spelling.

    Arguments are the case's operands by their names in the vector file, in order of first use; global
    memory operands are pointers from which the program makes the recorded view. The result is named
    like the case's destination. Raises FileError when the operands fit no declared form.
    """
    instruction = case_instruction(case)
    if instruction is None:
        raise FileError(f"{case.file}: case {case.id}: unknown instruction {case.instruction!r}")
    outs = _destinations(case, instruction)
    ins = _read_operands(case, instruction)
    ops: list[ir.Op] = []
    args: list[ir.Value] = []

    def argument(operand: _Given) -> ir.Value:
        if not isinstance(operand, GmOperand):
            value = ir.Value(operand.name, _type(operand))
            if isinstance(operand, ScalarOperand) and operand.dtype == ir.INDEX:
                ops.append(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=operand.bits)))
                return value
            args.extend([value] if value not in args else [])
            return value
        args.append(ir.Value(operand.name, ir.PtrType(operand.dtype)))
        result, view = _view_ops(operand, args[-1])
        ops.extend(result)
        return view

    def alias(operand: _Given) -> ir.Value:
        """Where one buffer is recorded for source and destination: a handle with the source's region."""
        handle = argument(operand)
        if not case.attrs.get("dst_aliases_src") or not isinstance(operand, TileOperand):
            return handle
        rows, cols = (case.attrs.get(f"src_{size}") for size in ("v_row", "v_col"))
        if not isinstance(rows, int) or not isinstance(cols, int):
            raise FileError(f"{case.file}: case {case.id}: src_v_row and src_v_col are not given")
        source = ir.Value("src", operand.type.with_valid(rows, cols))
        ops.append(ir.Op(sync_config.TALIAS, ins=(handle,), results=(source,)))
        return source

    in_values = tuple(alias(o) for o in ins)
    attributes = ir.attrs(_attributes(case, instruction))
    if instruction.syntax == "custom":
        # A handle over the source's storage is made, not filled: it is a result and no argument.
        result = tuple(ir.Value(o.name, _type(o)) for o in outs if not isinstance(o, GmOperand))
        ops.append(ir.Op(instruction.name, ins=in_values, results=result, attributes=attributes))
    else:
        out_values = tuple(argument(o) for o in outs)
        ops.append(ir.Op(instruction.name, in_values, out_values, attributes=attributes, form="dps"))
    body = ir.Function(ir.FRAGMENT, tuple(args), ir.Region(tuple(ops)))
    results = tuple(o.name for o in outs)
    return ir.Program((body,), fragment=True, fragment_results=results, has_module=False, source=case.file)


def written_operands(case: Case) -> frozenset[str]:
    """Names of the recorded operands that the instruction writes."""
    instruction = case_instruction(case)
    return frozenset(o.name for o in _destinations(case, instruction)) if instruction else frozenset()


def _destinations(
    case: Case, instruction: isa.Instruction
) -> tuple[TileOperand | GmOperand | VectorOperand, ...]:
    """The recorded operands that are written; some that are recorded as inout are only read."""
    read = {o.name for o in instruction.operands if o.role in ("in", "tmp")}
    written = [
        o
        for o in case.operands
        if isinstance(o, TileOperand | GmOperand | VectorOperand)
        and (o.role == "out" or (o.role == "inout" and o.name not in read))
    ]
    declared = [o.name for o in instruction.destinations]
    if all(o.name in declared for o in written):
        written.sort(key=lambda o: declared.index(o.name))
    return tuple(written)


def _type(operand: TileOperand | ScalarOperand | VectorOperand) -> ir.Type:
    if isinstance(operand, VectorOperand):
        return ir.VectorType((operand.before.size // operand.dtype.word.itemsize,), operand.dtype)
    return operand.type if isinstance(operand, TileOperand) else ir.ScalarType(operand.dtype)


def _read_operands(
    case: Case, instruction: isa.Instruction
) -> tuple[TileOperand | GmOperand | ScalarOperand, ...]:
    """The operands a declared form reads, in the form's order.

    A form that also reads the tile it writes takes it as a source too.
    """
    written = {o.name for o in _destinations(case, instruction)}
    operands = [o for o in case.operands if not isinstance(o, OtherOperand | VectorOperand)]
    operands += _recorded_indices(case, instruction)
    recorded = [o for o in operands if o.name not in written]
    in_place = [o for o in operands if isinstance(o, ScalarOperand) or o.role != "out"]
    for candidates in (recorded, in_place):
        fitting = _as_form(candidates, instruction)
        if fitting is not None:
            return fitting
    forms = " or ".join("(" + ", ".join(f) + ")" for f in instruction.forms)
    names = ", ".join(o.name for o in recorded)
    raise FileError(f"{case.file}: case {case.id}: {case.instruction} reads {forms}, recorded are ({names})")


def _recorded_indices(case: Case, instruction: isa.Instruction) -> list[ScalarOperand]:
    """Index operands and offsets of handles, which vector files keep among the attributes."""
    kinds = ("index", "scalar") if instruction.syntax == "custom" else ("index",)
    values = ((o.name, case.attrs.get(o.name)) for o in instruction.operands if o.kind in kinds)
    return [ScalarOperand(name, ir.INDEX, value) for name, value in values if isinstance(value, int)]


def _as_form(
    recorded: Sequence[TileOperand | GmOperand | ScalarOperand], instruction: isa.Instruction
) -> tuple[TileOperand | GmOperand | ScalarOperand, ...] | None:
    """The operands in the order of a form that reads exactly them, scratch tiles aside."""
    names = _declared_names(recorded, instruction)
    by_name = dict(zip(names, recorded, strict=True))
    tmp = {o.name for o in instruction.operands if o.role == "tmp"}
    for operands in (names, [n for n in names if n not in tmp]):
        fitting = [f for f in instruction.forms if sorted(f) == sorted(operands)]
        if fitting:
            form = next((f for f in fitting if list(f) == operands), fitting[0])
            return tuple(by_name[n] for n in form)
    return None


def _declared_names(
    recorded: Sequence[TileOperand | GmOperand | ScalarOperand], instruction: isa.Instruction
) -> list[str]:
    """The declared name of each recorded operand: the same name, else the next free one of its kind."""
    reads = [o for o in instruction.operands if o.role in ("in", "tmp")]
    taken = {o.name for o in recorded} & {o.name for o in reads}
    free = [o for o in reads if o.name not in taken]
    names = []
    for operand in recorded:
        if operand.name in taken:
            names.append(operand.name)
            continue
        kinds = _KINDS[type(operand)]
        match = next((o for o in free if o.kind in kinds), None)
        if match:
            free.remove(match)
        names.append(match.name if match else operand.name)
    return names


_KINDS: dict[type, tuple[str, ...]] = {
    TileOperand: ("tile",),
    GmOperand: ("gm", "ptr"),
    ScalarOperand: ("scalar", "index"),
}


def attributes_of(instruction: isa.Instruction) -> dict[str, str]:
    """Attribute keys of vector files and the declared attributes of an instruction that they set."""
    further = {key: name for name, key in FURTHER_ATTRIBUTES.items() if instruction.attribute(name)}
    return {**ATTRIBUTES, **further}


def _attributes(case: Case, instruction: isa.Instruction) -> dict[str, ir.AttrValue]:
    result: dict[str, ir.AttrValue] = {}
    keys = {k: a for k, name in attributes_of(instruction).items() if (a := instruction.attribute(name))}
    named = {*keys, *DESCRIPTIVE, *(o.name for o in instruction.operands)}
    for key, value in case.attrs.items():
        if key.removesuffix("_bits").removesuffix("_dtype") not in named:
            names = ", ".join(sorted(keys)) or "none"
            got = f"{case.file}: case {case.id}: attrs: got {key!r}"
            raise FileError(got, allowed=f"those of {instruction.name}: {names}", fix=nearest(key, keys))
        attribute = keys.get(key)
        if attribute is not None and value is not None and str(value) not in UNSPECIFIED:
            result[attribute.name] = _attribute(f"{case.file}: case {case.id}: {key}", attribute.type, value)
    pads = [o.pad_bits for o in case.operands if isinstance(o, TileOperand) and o.pad_bits is not None]
    if pads and instruction.attribute("padValue"):
        result["padValue"] = pads[0]
    if "pad_val" in case.attrs:
        result["padValue"] = _pad_bits(case, str(case.attrs["pad_val"]))
    return result


def _attribute(place: str, kind: type, value: str | int | float | bool) -> ir.AttrValue:
    """The value that an attribute of some type has in a vector file."""
    if issubclass(kind, IntEnum):
        member = _member(kind, str(value).removeprefix("CAST_"))
        if member is None:
            raise FileError(f"{place}: got {value!r}", allowed=", ".join(kind.__members__))
        return member
    if kind in (bool, int) and not (isinstance(value, int) and (kind is int or value in (0, 1))):
        raise FileError(f"{place}: got {value!r}", allowed=kind.__name__)
    converted: ir.AttrValue = kind(value) if kind in (bool, int) else str(value)
    return converted


def _pad_bits(case: Case, pad: str) -> int:
    """The bits of a pad value that is recorded beside the destination's type."""
    member, dst = _member(ir.Pad, pad), case.operand("dst")
    if not isinstance(member, ir.Pad) or not isinstance(dst, TileOperand):
        names = ", ".join(ir.Pad.__members__)
        raise FileError(f"{case.file}: case {case.id}: pad_val: got {pad!r}", allowed=f"{names}")
    return int(pad_word(replace(dst.type, pad=member), wide=False))


def _member(kind: type[IntEnum], text: str) -> IntEnum | None:
    """The member of an enumeration, whatever the case and underscores of its name."""
    name = text.replace("_", "").lower()
    return next((m for m in kind if m.name.replace("_", "").lower() == name), None)


def _view_ops(operand: GmOperand, pointer: ir.Value) -> tuple[list[ir.Op], ir.Value]:
    """Operations that make the recorded view from a pointer, and the view."""
    ops: list[ir.Op] = []

    def constants(kind: str, values: Sequence[int]) -> tuple[ir.Value, ...]:
        results = []
        for i, value in enumerate(values):
            result = ir.Value(f"{operand.name}_{kind}{i}", ir.ScalarType(ir.INDEX))
            ops.append(ir.Op("arith.constant", results=(result,), attributes=ir.attrs(value=value)))
            results.append(result)
        return tuple(results)

    rank = len(operand.shape)
    shape, strides = constants("size", operand.shape), constants("stride", operand.strides)
    zeros = constants("zero", (0,)) * rank
    tensor = ir.Value(f"{operand.name}_tensor", ir.TensorViewType(operand.shape, operand.dtype))
    ops.append(
        ir.Op(
            views.MAKE_TENSOR_VIEW,
            ins=(pointer, *shape, *strides),
            results=(tensor,),
            attributes=ir.attrs(layout=operand.layout),
            groups=(("ptr", 1), ("shape", rank), ("strides", rank)),
        )
    )
    view = ir.Value(f"{operand.name}_view", ir.PartitionViewType(operand.shape, operand.dtype))
    ops.append(
        ir.Op(
            views.PARTITION_VIEW,
            ins=(tensor, *zeros, *shape),
            results=(view,),
            groups=(("view", 1), ("offsets", rank), ("sizes", rank)),
        )
    )
    return ops, view


@lru_cache(maxsize=512)
def element_offsets(t: TileType) -> NDArray[np.int64]:
    """Position of every logical element in the tile's storage, in elements; shape ``[rows, cols]``.

    >>> from pto_jax.ir import F32
    >>> element_offsets(TileType(F32, 2, 8, blayout=BLayout.COL_MAJOR))[:, 3]
    array([6, 7])
    """
    r, c = np.indices(t.shape, dtype=np.int64)
    if not t.boxed:
        pitch = t.cols + (1 if t.compact == Compact.ROW_PLUS_ONE else 0)
        offsets = r * pitch + c if t.blayout == BLayout.ROW_MAJOR else c * t.rows + r
    else:
        box_r, box_c = t.stored_box
        inner_r, inner_c = r % box_r, c % box_c
        inner = inner_r * box_c + inner_c if t.slayout == SLayout.ROW_MAJOR else inner_c * box_r + inner_r
        if t.blayout == BLayout.ROW_MAJOR:
            offsets = (r // box_r) * t.cols * box_r + (c // box_c) * box_r * box_c + inner
        else:
            offsets = (c // box_c) * t.rows * box_c + (r // box_r) * box_r * box_c + inner
    offsets.flags.writeable = False
    return offsets


def storage_elements(t: TileType) -> int:
    """Elements the stored tile spans: rows * cols, more where rows are padded."""
    last = int(element_offsets(t).max()) + 1 if t.elements else 0
    return max(last, t.elements)


def unpack_elements(d: DType, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """Stored bytes as words, one per element, in storage order.

    >>> from pto_jax.ir import F4E2M1
    >>> unpack_elements(F4E2M1, np.array([0x21], np.uint8))
    array([1, 2], dtype=uint8)
    """
    raw = np.ascontiguousarray(raw, dtype=np.uint8)
    if d.packed:
        return unpack_pairs(raw).reshape(-1)
    if raw.size % d.word.itemsize:
        raise ArgumentError(
            f"got {raw.size} bytes", allowed=f"multiples of {d.word.itemsize}, the size of {d}"
        )
    return raw.view(d.word.newbyteorder("<")).astype(d.word)


def pack_elements(d: DType, words: NDArray[Any]) -> NDArray[np.uint8]:
    """Words in storage order as stored bytes; the inverse of :func:`unpack_elements`."""
    flat = np.ascontiguousarray(words, dtype=d.word).reshape(-1)
    if d.packed:
        if flat.size % 2:
            flat = np.append(flat, np.uint8(0))
        return ((flat[0::2] & 15) | (flat[1::2] << 4)).astype(np.uint8)
    return flat.astype(d.word.newbyteorder("<")).view(np.uint8)


def to_logical(t: TileType, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """The ``[rows, cols]`` words of a tile from its stored bytes."""
    stored = unpack_elements(t.dtype, raw)
    if stored.size < storage_elements(t):
        raise ArgumentError(f"got {raw.size} bytes for a tile {t}", allowed=f"{t.bytes}")
    return stored[element_offsets(t)]


def to_physical(t: TileType, words: NDArray[Any], into: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """The stored bytes of a tile from its ``[rows, cols]`` words.

    ``into`` gives the bytes of places that hold no element (row padding); they are zero without it.

    >>> from pto_jax.ir import I16
    >>> to_physical(TileType(I16, 1, 2), np.array([[1, 2]]))
    array([1, 0, 2, 0], dtype=uint8)
    """
    if words.shape != t.shape:
        raise ArgumentError(f"got words of shape {words.shape} for a tile {t}", allowed=f"{t.shape}")
    size = storage_elements(t)
    stored = np.zeros(size, t.dtype.word) if into is None else unpack_elements(t.dtype, into).copy()
    stored[element_offsets(t)] = words
    return pack_elements(t.dtype, stored)
