"""Rules on the types of micro-operations that no word of a signature says; those of the assembler's verifier.

A rule takes an operation and yields what is wrong with it, one sentence each. Operands of other kinds than
the signature says are left to it.
"""

from collections.abc import Callable, Iterator

from ...ir import DType, MaskType, Op, PtrType, ScalarType, Type, Value, VRegType

Rule = Callable[[Op], Iterator[str]]
#: Element types that scalars have, too; others have their bits in an integer.
_SCALARS = frozenset("f16 bf16 f32".split())


def fits_lanes(scalar: DType, register: VRegType, *, wider: bool = False) -> bool:
    """Whether a scalar is one for the lanes of a register; ``wider``: an integer may have more bits.

    Integers without a sign fit all integers of their width.
    """
    d = register.dtype
    if d.is_integer:
        narrow = scalar.bits == d.bits or (wider and scalar.bits > d.bits)
        return scalar.is_integer and narrow and (not scalar.name.startswith("u") or d.name.startswith("u"))
    return scalar == d if d.name in _SCALARS else scalar.bits == d.word_bits


def lane_scalar(register: VRegType) -> str:
    """The scalar for the lanes of a register, for messages."""
    d = register.dtype
    return d.name if d.name in _SCALARS else f"i{d.word_bits}"


def _types(op: Op, *expected: type[Type]) -> tuple[Type, ...] | None:
    """The types of the first operands, where they are of these kinds."""
    types = tuple(v.type for v in op.ins[: len(expected)])
    fit = len(types) == len(expected) and all(isinstance(t, w) for t, w in zip(types, expected, strict=True))
    return types if fit else None


def _result(op: Op) -> VRegType | None:
    t = op.results[0].type if op.results else None
    return t if isinstance(t, VRegType) else None


def scalar_of_result(*, wider: bool = False) -> Rule:
    """The first operand is a scalar for the lanes of the result."""

    def rule(op: Op) -> Iterator[str]:
        target = _result(op)
        if target is None or not op.ins or isinstance(op.ins[0].type, VRegType):
            return
        t = op.ins[0].type
        if not isinstance(t, ScalarType) or not fits_lanes(t.dtype, target, wider=wider):
            yield f"got {t} for lanes of {target.dtype}; allowed: {lane_scalar(target)}"

    return rule


def no_register(op: Op) -> Iterator[str]:
    """The first operand is no register."""
    if op.ins and isinstance(op.ins[0].type, VRegType):
        yield f"got {op.ins[0].type}; allowed: a scalar; a lane of a register is taken by pto.vdup"


def duplicated(op: Op) -> Iterator[str]:
    """A register has the type of the result, and a scalar no position; the mask is one for the result."""
    target = _result(op)
    if target is None or len(op.ins) < 2:
        return
    source, mask = (v.type for v in op.ins[:2])
    if isinstance(source, VRegType):
        if source != target:
            yield f"got lanes of {source} in {target}; allowed: one type"
    elif "position" in op.attrs:
        yield "got position with a scalar; allowed: with a register"
    bits = min(32, target.dtype.word_bits)
    if isinstance(mask, MaskType) and mask.bits != bits:
        yield f"got {mask}; allowed: !pto.mask<b{bits}>, for elements of {target.dtype}"


def is_unsigned(t: VRegType) -> bool:
    """Whether a register has integers without a sign."""
    return t.dtype.is_integer and (t.signless or t.dtype.name.startswith("u"))


def _offsets(offsets: VRegType, width: int, lanes: int) -> Iterator[str]:
    """Whether a register has offsets of a width, one per lane."""
    if not offsets.dtype.is_integer or offsets.dtype.bits != width or offsets.lanes != lanes:
        yield f"got offsets in {offsets}; allowed: {lanes} integers of {width} bits"


def gathered(op: Op) -> Iterator[str]:
    """Memory, result, offsets and mask of a gather of elements; bytes become lanes of 16 bits."""
    types, target = _types(op, PtrType, VRegType, MaskType), _result(op)
    if types is None or target is None:
        return
    source, offsets, mask = types
    assert isinstance(source, PtrType) and isinstance(offsets, VRegType) and isinstance(mask, MaskType)
    width, d = target.dtype.word_bits, source.dtype
    bytes_of = d.is_integer and d.bits == 8
    same = (
        d.is_integer and target.dtype.is_integer and d.name[0] == target.dtype.name[0]
    ) or d == target.dtype
    if width not in (16, 32) or not same or d.storage_bits != (8 if bytes_of and width == 16 else width):
        yield f"got {target.dtype} gathered from {d}; allowed: elements of 16 or 32 bits, or bytes in 16 bits"
        return
    yield from _offsets(offsets, width, target.lanes)
    if offsets.dtype.is_integer and not is_unsigned(offsets):
        yield f"got offsets with a sign, {offsets}; allowed: !pto.vreg<{offsets.lanes}xui{width}>"
    if mask.bits != width:
        yield f"got {mask}; allowed: !pto.mask<b{width}>"


def gathered_wide(op: Op) -> Iterator[str]:
    """A gather whose offsets have 32 bits: lanes of 32 bits."""
    types, target = _types(op, PtrType, VRegType), _result(op)
    if types is not None and target is not None:
        assert isinstance(types[1], VRegType)
        yield from _offsets(types[1], 32, target.lanes)


def scattered(op: Op) -> Iterator[str]:
    """Memory, register, offsets and mask of a scatter; two bytes share an offset."""
    types = _types(op, VRegType, PtrType, VRegType, MaskType)
    if types is None:
        return
    value, dest, offsets, mask = types
    assert isinstance(value, VRegType) and isinstance(dest, PtrType)
    assert isinstance(offsets, VRegType) and isinstance(mask, MaskType)
    width = value.dtype.word_bits
    if width not in (8, 16, 32):
        yield f"got lanes of {width} bits; allowed: 8, 16, 32"
        return
    if dest.dtype != value.dtype and not value.dtype.pair_of:
        yield f"got {value.dtype} stored to {dest}; allowed: a pointer to {value.dtype}"
    wide = max(16, width)
    yield from _offsets(offsets, wide, 2048 // wide)
    if mask.bits != wide:
        yield f"got {mask}; allowed: !pto.mask<b{wide}>"


def one_width(op: Op) -> Iterator[str]:
    """The second register has lanes as wide as those of the first."""
    types = _types(op, VRegType, VRegType)
    if types is not None:
        first, second = types
        assert isinstance(first, VRegType) and isinstance(second, VRegType)
        width = first.dtype.word_bits
        if second.dtype.word_bits != width:
            yield f"got {second} for lanes of {width} bits; allowed: integers of {width} bits"


def signed_counts(op: Op) -> Iterator[str]:
    """The second register has integers with a sign."""
    types = _types(op, VRegType, VRegType)
    if types is not None and isinstance(types[1], VRegType) and is_unsigned(types[1]):
        counts = types[1]
        yield f"got counts in {counts}; allowed: !pto.vreg<{counts.lanes}xsi{counts.dtype.bits}>"


def half_as_wide(op: Op) -> Iterator[str]:
    """Lanes of the result are half as wide as those of the operand."""
    yield from _widths(op, 2, 1)


def twice_as_wide(op: Op) -> Iterator[str]:
    """Lanes of the result are twice as wide as those of the operand."""
    yield from _widths(op, 1, 2)


def _widths(op: Op, before: int, after: int) -> Iterator[str]:
    types, target = _types(op, VRegType), _result(op)
    if types is None or target is None:
        return
    (source,) = types
    assert isinstance(source, VRegType)
    width = source.dtype.word_bits
    if target.dtype.word_bits * before != width * after:
        yield f"got {target} from {source}; allowed: lanes of {width * after // before} bits"


def repacked(ratio: int) -> Rule:
    """A mask for lanes of the same width or of a neighbouring one: ``ratio`` 2 becomes a narrower one."""

    def rule(op: Op) -> Iterator[str]:
        types = _types(op, MaskType)
        target = op.results[0].type if op.results else None
        if types is None or not isinstance(target, MaskType):
            return
        (source,) = types
        assert isinstance(source, MaskType)
        near = source.bits // 2 if ratio == 2 else source.bits * 2
        if target.bits not in (source.bits, near):
            also = f", !pto.mask<b{near}>" if near in (8, 16, 32) else ""
            yield f"got {target} from {source}; allowed: {source}{also}"

    return rule


def _pointer(value: Value) -> PtrType | None:
    return value.type if isinstance(value.type, PtrType) else None


def words_of_32_bits(op: Op) -> Iterator[str]:
    """The pointer is one to integers of 32 bits without a sign."""
    pointer = next((p for v in op.ins if (p := _pointer(v)) is not None), None)
    if pointer is not None and pointer.dtype.name not in ("i32", "u32"):
        yield f"got {pointer}; allowed: !pto.ptr<i32, ub>, !pto.ptr<ui32, ub>"


def stream_of_bits(op: Op) -> Iterator[str]:
    """The pointer has elements as wide as the lanes of the mask, 16 or 32 bits."""
    mask = next((v.type for v in op.ins if isinstance(v.type, MaskType)), None)
    pointer = next((p for v in op.ins if (p := _pointer(v)) is not None), None)
    if mask is None or pointer is None:
        return
    allowed = [w for w in (16, 32) if mask.bits in (8, w)]
    if not pointer.dtype.is_integer or pointer.dtype.bits not in allowed:
        yield f"got {pointer}; allowed: {', '.join(f'!pto.ptr<ui{w}, ub>' for w in allowed)}"


def records(op: Op) -> Iterator[str]:
    """All pointers have the same scores, f16 or f32."""
    pointers = [p for v in op.ins if (p := _pointer(v)) is not None]
    if any(p.dtype.name not in ("f16", "f32") or p.dtype != pointers[0].dtype for p in pointers):
        yield f"got pointers to {', '.join(str(p.dtype) for p in pointers)}; allowed: all f16, or all f32"


def scalar_in_memory(op: Op) -> Iterator[str]:
    """A scalar has the type of the element that it is or becomes, and no cache is chosen on the way."""
    pointer = next((p for v in op.ins if (p := _pointer(v)) is not None), None)
    ends = (op.results or op.ins)[:1]
    scalar = ends[0].type if ends else None
    if pointer is not None and isinstance(scalar, ScalarType) and scalar.dtype != pointer.dtype:
        yield f"got {scalar} at {pointer}; allowed: {pointer.dtype}"
    for name in ("l1cache", "l2cache"):
        if name in op.attrs:
            yield f"got {name}; allowed: none, as it goes past the caches"


def moves_by_increment(op: Op) -> Iterator[str]:
    """The increment and the moved pointer appear together."""
    increment = any(isinstance(v.type, ScalarType) for v in op.ins)
    moved = any(isinstance(v.type, PtrType) for v in op.results)
    if increment != moved:
        what = "an increment without base_out" if increment else "base_out without an increment"
        yield f"got {what}; allowed: both, or none of them"


def packed_mask(op: Op) -> Iterator[str]:
    """A store that packs has a mask for lanes of the width that its distribution names."""
    dist = str(op.attrs.get("dist", ""))
    if not dist.startswith("PK"):
        return
    bits = min(32, int(dist.partition("_B")[2]))
    mask = next((v.type for v in op.ins if isinstance(v.type, MaskType)), None)
    if mask is not None and mask.bits != bits:
        yield f"got {mask} with {dist}; allowed: !pto.mask<b{bits}>"
