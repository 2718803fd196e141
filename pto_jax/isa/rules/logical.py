"""Rules on operations on logical registers; those of the assembler's verifier (lib/PTO/IR/VMI.cpp).

A rule takes an operation and yields what is wrong with it, one sentence each. Operands of other kinds than
the signature says are left to it.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...ir import DType, MaskType, MemRefType, Op, PtrType, ScalarType, Type, VRegType
from ...ir.registers import BF16_PAIR
from .micro_types import Rule, fits_lanes, is_unsigned, lane_scalar
from .registers import listed

#: Where a rule finds a type: an operand by its position, -1 for the first result.
RESULT = -1
_PAIRS = frozenset({"f4e2m1_pair", "f4e1m2_pair", "hif8_pair", "bf16_pair"})


def _type(op: Op, at: int) -> Type | None:
    values = op.results[:1] if at == RESULT else op.ins[at : at + 1]
    return values[0].type if values else None


def _is_float(d: DType) -> bool:
    return d.is_float or bool(d.pair_of)


def _is_integer(d: DType) -> bool:
    """Whether it is a number without a fraction; pairs of floats are kept as integers, too."""
    return d.is_integer and not d.pair_of


def _ends(op: Op) -> tuple[Type | None, Type | None]:
    """The types of the first operand and of the first result."""
    return _type(op, 0), _type(op, RESULT)


def mask_objection(mask: MaskType, register: VRegType) -> str:
    """What is allowed in place of a mask for a register, "" where it fits."""
    width = register.dtype.word_bits
    if mask.lanes != register.lanes:
        return f"a mask of {register.lanes} lanes"
    if mask.bits not in (0, width):
        return (
            f"!pto.vmi.mask<{mask.lanes}xpred> or <{mask.lanes}xb{width}>, for elements of {register.dtype}"
        )
    return ""


def without_sign(*positions: int) -> Rule:
    """Integers have no sign: ``ui16``, or ``i16``, which is taken for it."""

    def rule(op: Op) -> Iterator[str]:
        for t in (_type(op, at) for at in positions):
            if isinstance(t, VRegType) and t.dtype.kind == "int" and not t.signless:
                text = ", ".join(f"!pto.vmi.vreg<{t.lanes}x{p}{t.dtype.name}>" for p in ("u", ""))
                yield f"got lanes with a sign, {t}; allowed: {text}"

    return rule


def fits_mask(mask: int, register: int) -> Rule:
    """A mask is one for the lanes of a register."""

    def rule(op: Op) -> Iterator[str]:
        match _type(op, mask), _type(op, register):
            case MaskType() as t, VRegType() as data if allowed := mask_objection(t, data):
                yield f"got {t} for {data}; allowed: {allowed}"

    return rule


def lanes_of(*allowed: int) -> Rule:
    """The first operand has one of these numbers of lanes."""

    def rule(op: Op) -> Iterator[str]:
        t = _type(op, 0)
        if isinstance(t, VRegType) and t.lanes not in allowed:
            yield f"got {t.lanes} lanes; allowed: {', '.join(map(str, allowed))}"

    return rule


def bitwise(count: int) -> Rule:
    """All of them are registers of integers with an optional mask, or all are masks and nothing else."""

    def rule(op: Op) -> Iterator[str]:
        first, result = _ends(op)
        types = [v.type for v in op.ins]
        if isinstance(first, MaskType) and first.logical:
            if len(types) > count or "pmode" in op.attrs:
                yield "got an operation on masks with a mask or a pmode of its own; allowed: the masks alone"
            if any(t != first for t in (*types[:count], result)):
                yield f"got masks of several types; allowed: {first} in all places"
        elif isinstance(first, VRegType) and first.logical:
            if not _is_integer(first.dtype):
                yield f"got lanes of {first.dtype}; allowed: integers, as from pto.vmi.vinterpret_cast"
            if any(t != first for t in (*types[:count], result)):
                yield f"got registers of several types; allowed: {first} in all places"
            yield from fits_mask(count, RESULT)(op)
        elif first is not None:
            yield f"got {first}; allowed: a register or a mask, as in !pto.vmi.vreg<64xi32>"

    return rule


# -- conversions ---------------------------------------------------------------------------------------------


class Direction(NamedTuple):
    """The roundings that a conversion may have, "" for none, and whether it says how it saturates."""

    letters: str = ""
    saturates: bool = False


#: Which floats become which integers, and whether they saturate.
_TO_INTEGERS = {
    ("f32", "i32"): True, ("f32", "i16"): True, ("f16", "i32"): False, ("f16", "i16"): True,
    ("f16", "i8"): True, ("bf16", "i32"): True, ("f16", "u8"): True,
}  # fmt: skip
#: Roundings of floats that become narrower: those of the assembler that the operation on registers has too.
_NARROWER = {
    **dict.fromkeys([*(("f32", t) for t in ("f16", "bf16", "f8e4m3", "f8e5m2")), ("bf16", "f16")], "RAHZ"),
    **dict.fromkeys([(s, t) for s in ("f16", "bf16") for t in ("f8e4m3", "f8e5m2")], "RAZ"),
    ("f32", "hif8"): "AH", ("f16", "hif8"): "AH",
}  # fmt: skip
_WHOLE, _PACKED = "RAFCZ", "RAFZC"


def _number(t: VRegType) -> str:
    """The element type by which integers without a sign are unsigned ones."""
    return f"u{t.dtype.bits}" if t.dtype.is_integer and is_unsigned(t) else t.dtype.name


def direction_of(source: VRegType, target: VRegType) -> Direction | str:
    """What a conversion may say, or what is allowed in place of its element types."""
    before, after = source.dtype, target.dtype
    if _is_float(before) and _is_float(after):
        return _between_floats(before, after)
    if _is_float(before):
        saturates = _TO_INTEGERS.get((before.name, _number(target)))
        allowed = [f"s{t}" if t[0] == "i" else f"u{t}" for s, t in _TO_INTEGERS if s == before.name]
        none = ", ".join(allowed) or "floats"
        return none if saturates is None else Direction(_WHOLE, saturates)
    if _is_float(after):
        pairs = {("i16", "f16"), ("i8", "f16"), ("i16", "f32"), ("i32", "f32")}
        fit = not is_unsigned(source) and (before.name, after.name) in pairs
        return Direction() if fit else "si8 to f16, si16 to f16 or f32, si32 to f32"
    if before.bits == after.bits:
        return "integers of another width; bits as other elements are those of pto.vmi.vinterpret_cast"
    return Direction(saturates=after.bits < before.bits)


def _between_floats(before: DType, after: DType) -> Direction | str:
    """Packed floats of four bits are those of packed bf16 only."""
    if {before.name, after.name} & _PAIRS:
        pairs = (before, after) if before == BF16_PAIR else (after, before)
        if pairs[0] != BF16_PAIR or not pairs[1].name.startswith("f4"):
            return "bf16x2 to or from f4E1M2x2, f4E2M1x2"
        return Direction(_PACKED if before == BF16_PAIR else "")
    if before.bits < after.bits:
        return Direction()
    letters = _NARROWER.get((before.name, after.name))
    narrower = ", ".join(t for s, t in _NARROWER if s == before.name)
    if letters is None:
        return f"from {before}: {narrower or 'no narrower floats'}, and wider ones"
    return Direction(letters, saturates=True)


def converted(kind: Callable[[VRegType, VRegType], str] = lambda source, target: "") -> Rule:
    """A conversion keeps the lanes, and its attributes are those of its direction.

    ``kind`` says what is allowed in place of two registers, "" where they fit the name of the operation.
    """

    def rule(op: Op) -> Iterator[str]:
        source, target = _ends(op)
        if not isinstance(source, VRegType) or not isinstance(target, VRegType):
            return
        if source.lanes != target.lanes:
            yield f"got {source.lanes} lanes to {target.lanes}; allowed: equal numbers of lanes"
        direction = kind(source, target) or direction_of(source, target)
        if isinstance(direction, str):
            yield f"got {source} to {target}; allowed: {direction}"
            return
        narrow = (source.dtype.name, _number(target), op.attrs.get("saturate")) == ("i32", "i8", "SAT")
        if narrow and not is_unsigned(source) and op.name == "vmi.vcvt":
            yield 'got saturate = "SAT" from si32 to si8; allowed: NOSAT, or two conversions by way of si16'
        yield from _attributes(op, direction)

    return rule


def _attributes(op: Op, direction: Direction) -> Iterator[str]:
    letter, saturate = op.attrs.get("rounding"), op.attrs.get("saturate")
    if letter is not None and str(letter) not in tuple(direction.letters):
        allowed = ", ".join(direction.letters) or "no rounding"
        yield f'got rounding = "{letter}"; allowed between these element types: {allowed}'
    if saturate is None and direction.saturates:
        yield 'needs saturate between these element types; allowed: SAT, NOSAT; as in saturate = "SAT"'
    if saturate is not None and not direction.saturates:
        yield f'got saturate = "{saturate}"; allowed between these element types: no saturate'


def between(sources: str, targets: str, change: str = "") -> Callable[[VRegType, VRegType], str]:
    """Registers of these kinds (floats, signed and unsigned integers), the result wider or narrower."""

    def kind(source: VRegType, target: VRegType) -> str:
        before, after = source.dtype.word_bits, target.dtype.word_bits
        grows = {"wider": before < after, "narrower": before >= after}.get(change, True)
        if _kind(source) in sources.split() and _kind(target) in targets.split() and grows:
            return ""
        shown = {"floats": "floats", "signed unsigned": "integers"}
        first, second = (shown.get(words) or f"{words} integers" for words in (sources, targets))
        return f"{first} to {change} {second}" if change else f"{first} to {second}"

    return kind


def _kind(t: VRegType) -> str:
    return "floats" if _is_float(t.dtype) else "unsigned" if is_unsigned(t) else "signed"


def same_bits(op: Op) -> Iterator[str]:
    """The bits of a register are as many in other elements."""
    match _ends(op):
        case VRegType() as source, VRegType() as result:
            before, after = (t.lanes * t.dtype.storage_bits for t in (source, result))
            if before != after:
                yield f"got {before} bits as {after}; allowed: equal numbers of bits"


# -- groups --------------------------------------------------------------------------------------------------


def groups_of(op: Op, lanes: int, name: str = "group") -> Iterator[str]:
    """A number of groups divides the lanes."""
    groups = op.attrs.get(name)
    if groups is not None and (not isinstance(groups, int) or groups < 1 or lanes % groups):
        yield f"got {name} = {groups} of {lanes} lanes; allowed: a positive number that divides {lanes}"


def reduced(op: Op) -> Iterator[str]:
    """A lane of each group, of the same element type; sums of floats allow any order."""
    source, result = _ends(op)
    if not isinstance(source, VRegType) or not isinstance(result, VRegType):
        return
    name = "num_groups" if "num_groups" in op.attrs else "group"
    yield from groups_of(op, source.lanes, name)
    groups = op.attrs.get(name, 1)
    if result.lanes != groups:
        yield f"got {result.lanes} lanes of {groups} group(s); allowed: {groups}"
    if (source.dtype, source.signless) != (result.dtype, result.signless):
        yield f"got {source} in {result}; allowed: equal element types"


def reassociated(op: Op) -> Iterator[str]:
    """A sum of floats says that it may be added in any order."""
    source = _type(op, 0)
    if isinstance(source, VRegType) and source.dtype.is_float and not op.attrs.get("reassoc"):
        yield "got a sum of floats without reassoc; allowed: with it, as in {reassoc}"


def broadcast(op: Op) -> Iterator[str]:
    """A scalar of a lane's type, the only lane, or the lane of each group."""
    source, result = _ends(op)
    if not isinstance(result, VRegType):
        return
    name = "num_groups" if "num_groups" in op.attrs else "group"
    groups = op.attrs.get(name, 1)
    match source:
        case VRegType():
            if source.dtype != result.dtype:
                yield f"got {source.dtype} in lanes of {result.dtype}; allowed: equal element types"
            yield from groups_of(op, result.lanes, name)
            if source.lanes != groups:
                yield f"got {source.lanes} lanes for {groups} group(s); allowed: {groups}"
        case ScalarType():
            if not fits_lanes(source.dtype, result):
                yield f"got {source} in lanes of {result.dtype}; allowed: {lane_scalar(result)}"
            if name in op.attrs:
                yield f"got {name} with a scalar; allowed: with a register of a lane per group"


def counted(op: Op) -> Iterator[str]:
    """Numbers begin at a scalar of a lane's type in every group."""
    base, result = _ends(op)
    if not isinstance(result, VRegType):
        return
    if base is not None and not (isinstance(base, ScalarType) and fits_lanes(base.dtype, result)):
        yield f"got {base} for lanes of {result.dtype}; allowed: {lane_scalar(result)}"
    yield from groups_of(op, result.lanes)


# -- masks ---------------------------------------------------------------------------------------------------


def listed_lanes(op: Op) -> Iterator[str]:
    """A mask that the text lists has a bit for every lane."""
    value, (_, result) = str(op.attrs.get("value", "")), _ends(op)
    if isinstance(result, MaskType):
        shape = re.search(r"(?:tensor|vector) ?< ?(\d+) ?x ?(\w+) ?>$", value)
        typed = shape is not None and shape.groups() == (str(result.lanes), "i1")
        if not typed or len(listed(value, result.lanes)) != result.lanes:
            yield f"got value = {value}; allowed: dense<...> : tensor<{result.lanes}xi1>"


def whole_groups(op: Op) -> Iterator[str]:
    """Groups are all lanes of a mask."""
    count, size, result = op.attrs.get("num_groups"), op.attrs.get("group_size"), _type(op, RESULT)
    if not isinstance(count, int) or not isinstance(size, int) or not isinstance(result, MaskType):
        return
    if min(count, size) < 1 or count * size != result.lanes:
        yield f"got {count} groups of {size} in {result.lanes} lanes; allowed: groups of all lanes"


def first_lanes(op: Op) -> Iterator[str]:
    """A pattern of the first lanes, of as many as there are at most."""
    result, (prefix, _, count) = _type(op, RESULT), str(op.attrs.get("pattern", "")).partition("VL")
    if not isinstance(result, MaskType):
        return
    if prefix != "PAT_" or not count.isdigit() or not 0 < int(count) <= result.lanes:
        yield f'got pattern = "{op.attrs.get("pattern")}"; allowed: PAT_VL1 to PAT_VL{result.lanes}'


def layout_with_width(op: Op) -> Iterator[str]:
    """A mask whose text names a width has a layout too."""
    result = _type(op, RESULT)
    if isinstance(result, MaskType) and result.bits and not result.layout:
        yield f"got {result} without a layout; allowed: !pto.vmi.mask<{result.lanes}xpred>"


# -- memory --------------------------------------------------------------------------------------------------


def same_memory(register: int) -> Rule:
    """Memory has the elements of a register, but for what is widened on the way or stored in low bytes."""

    def rule(op: Op) -> Iterator[str]:
        where = next((v.type for v in op.ins if isinstance(v.type, PtrType | MemRefType)), None)
        t = _type(op, register)
        if where is None or not isinstance(t, VRegType):
            return
        widened = op.attrs.get("dist_mode") == "unpack"
        low_bytes = (
            "group" in op.attrs
            and register != RESULT
            and where.dtype.is_integer
            and t.dtype.is_integer
            and (where.dtype.bits, t.dtype.bits) == (8, 32)
        )
        if where.dtype != t.dtype and not widened and not low_bytes:
            yield f"got lanes of {t.dtype} in memory of {where.dtype}; allowed: a pointer to {t.dtype}"

    return rule


def offsets(register: int, result: int | None = None) -> Rule:
    """Offsets are unsigned numbers of 16 or 32 bits, one for each lane."""

    def rule(op: Op) -> Iterator[str]:
        t, data = _type(op, register), None if result is None else _type(op, result)
        if not isinstance(t, VRegType):
            return
        if not _is_integer(t.dtype) or not is_unsigned(t) or t.dtype.bits not in (16, 32):
            yield f"got offsets in {t}; allowed: !pto.vmi.vreg<{t.lanes}xui32>, <{t.lanes}xui16>"
        if isinstance(data, VRegType) and data.lanes != t.lanes:
            yield f"got {t.lanes} offsets of {data.lanes} lanes; allowed: one for each lane"
        short = t.dtype.bits == 16 and result == RESULT
        if short and isinstance(data, VRegType) and data.dtype.name != "u16":
            yield f"got {data.dtype} at offsets of 16 bits; allowed: ui16, or offsets of 32 bits"

    return rule


def accessed(op: Op) -> Iterator[str]:
    """Groups, blocks and modes of loads and stores exclude each other; each has the numbers that it needs."""
    types = [v.type for v in op.ins]
    registers = [t for t in (*types, *(v.type for v in op.results)) if isinstance(t, VRegType)]
    behind = types[next((i for i, t in enumerate(types) if isinstance(t, PtrType | MemRefType)), 0) + 2 :]
    strides, masks = ([t for t in behind if isinstance(t, MaskType) == masked] for masked in (False, True))
    groups, mode = "group" in op.attrs, op.attrs.get("dist_mode")
    if groups and mode not in (None, "brc"):
        yield f'got group with dist_mode = "{mode}"; allowed: one of them'
    if groups and [str(t) for t in strides] != ["index"]:
        text = ", ".join(map(str, strides)) or "none"
        yield f"got group with the strides {text}; allowed: one, an index"
    if groups and masks:
        yield "got group with a mask; allowed: no mask"
    if not groups and any(str(t) != "i16" for t in strides):
        yield "got a stride of elements without group; allowed: group = N, or strides of blocks, i16"
    if not groups and strides and mode is not None:
        yield f'got strides of blocks with dist_mode = "{mode}"; allowed: one of them'
    count = 2 if mode == "dintlv" else 1
    if len(registers) != count:
        text = "without dist_mode" if mode is None else f'with dist_mode = "{mode}"'
        yield f"got {len(registers)} register(s) {text}; allowed: {count}"
    for t in registers[:1]:
        yield from groups_of(op, t.lanes)
        wrong = (m for m in masks if isinstance(m, MaskType) and mask_objection(m, t))
        yield from (f"got {m} for {t}; allowed: {mask_objection(m, t)}" for m in wrong)
