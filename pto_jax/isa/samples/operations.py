"""Legal sample operations from declarations, for tests, generators and documentation.

Loads and stores have samples of every layout, reductions and expansions small tiles in every layout and mode.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

from ... import ir, profiles
from ...ir import BLayout, DType, SLayout, TileType, Type, dtype
from ...profiles import Profile
from ..declare import Attribute, Instruction, Operand, Sample
from ..rules.constraints import element_type
from ..rules.typesets import Row

__all__ = ["Sample", "legal_samples", "to_program"]


ROWS, COLS = 32, 64
_MASK_BYTES = 32


def legal_samples(instruction: Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """One legal operation per row of the type table, optional operands given; then one without them.

    Instructions without a type table have one sample.

    >>> from pto_jax.isa import instructions
    >>> from pto_jax.profiles import profile
    >>> len(list(legal_samples(instructions()["trelu"], profile("a5"))))
    3
    """
    if instruction.sampler is not None:
        yield from instruction.sampler(instruction, profile)
        return
    if not instruction.type_vars:
        yield Sample(instruction, {}, instruction.forms[0], _sync_attributes(instruction.attributes))
        return
    table = instruction.types.get(profile.name, ())
    longest, shortest = _forms(instruction)
    floats_only = profile.name != "cpu_sim" and any(c.rule == "tmp-integers" for c in instruction.constraints)
    for row in table:
        whole = not (floats_only and ir.dtype(row[0]).is_integer)
        yield _sample(instruction, row, longest if whole else shortest)
    if shortest != longest and table:
        yield _sample(instruction, table[0], shortest)


def _forms(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The overloads with and without optional tiles; quantising operands are left out."""
    plain = [f for f in instruction.forms if all(instruction.operand(n).holds != "parameters" for n in f)]
    return max(plain, key=len), min(plain, key=len)


def _sample(instruction: Instruction, row: Row, form: tuple[str, ...]) -> Sample:
    bound = {v: ir.dtype(name) for v, name in zip(instruction.type_vars, row, strict=True)}
    names = (*form, *(o.name for o in instruction.destinations))
    types = {name: _type(instruction, instruction.operand(name), bound) for name in names}
    if any(d.pair_of for d in bound.values()) and len(bound) > 1:
        types = {name: _in_pairs(t) for name, t in types.items()}
    attrs: dict[str, ir.AttrValue] = {}
    if row[0] == "bf16" and any(c.rule == "precision-types" for c in instruction.constraints):
        attrs["precision"] = ir.Precision.HIGH_PRECISION
    return Sample(instruction, types, form, attrs)


def _type(instruction: Instruction, operand: Operand, bound: dict[str, ir.DType]) -> ir.Type:
    d = bound.get(operand.dtype or "") or (ir.find_dtype(operand.dtype) if operand.dtype else None)
    if operand.kind in ("scalar", "index"):
        return ir.ScalarType(d or ir.I64)
    if operand.kind == "gm":
        return ir.PartitionViewType((ROWS, COLS), d or next(iter(bound.values())))
    if operand.name == "mask":
        return _mask(ir.U8)
    if operand.role == "tmp":
        (element,) = map(ir.dtype, operand.default) if operand.default else (next(iter(bound.values())),)
        return ir.TileType(element, 2 * ROWS, 2 * COLS, v_row=ROWS, v_col=COLS)
    if instruction.domain == "src0" and operand.role == "out" and d is not None:
        return _mask(d)
    return ir.TileType(d or next(iter(bound.values())), ROWS, COLS)


def _in_pairs(t: ir.Type) -> ir.Type:
    """A tile with as many numbers as those beside it."""
    return ir.TileType(t.dtype, ROWS, COLS // t.dtype.numbers) if isinstance(t, ir.TileType) else t


def _mask(d: ir.DType) -> ir.TileType:
    return ir.TileType(d, ROWS, _MASK_BYTES * 8 // d.bits, v_col=COLS // d.bits)


def _sync_attributes(attributes: tuple[Attribute, ...]) -> dict[str, ir.AttrValue]:
    """Every attribute without a default, neighbouring enumerations with different members."""
    values: dict[str, ir.AttrValue] = {}
    for i, attribute in enumerate(a for a in attributes if a.default is None):
        if issubclass(attribute.type, IntEnum):
            values[attribute.name] = list(attribute.type)[i]
        elif attribute.type is int:
            values[attribute.name] = 0
    return values


#: Types of samples that do not follow from a type table.
TILE = ir.TileType(ir.F32, ROWS, COLS)
VIEW = ir.TensorViewType((ROWS, COLS), ir.F32)
WINDOW = ir.PartitionViewType((ROWS, COLS), ir.F32)
NUMBER = ir.ScalarType(ir.INDEX)


def to_program(sample: Sample) -> ir.Program:
    """A fragment with the one operation of a sample, its operands as arguments or constants.

    >>> from pto_jax.isa import instructions
    >>> from pto_jax.profiles import profile
    >>> sample = next(legal_samples(instructions()["tadds"], profile("a2a3")))
    >>> [str(v) for v in to_program(sample).functions[0].args]
    ['%src', '%scalar', '%dst']
    """
    instruction = sample.instruction
    arguments: list[ir.Value] = []
    ops: list[ir.Op] = []
    ins: list[ir.Value] = []
    groups: list[tuple[str, int]] = []
    for name in sample.form:
        values = [
            ir.Value(f"{name}{i}", sample.types[name]) for i, _ in enumerate(sample.constants.get(name, ()))
        ]
        for value, number in zip(values, sample.constants.get(name, ()), strict=True):
            d = element_type(value.type)
            constant = float(number) if d is not None and d.is_float else number
            ops.append(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=constant)))
        if name not in sample.constants:
            values = [ir.Value(name, sample.types[name])]
            arguments += values
        ins += values
        groups.append((name, len(values)))
    results = tuple(
        ir.Value(o.name, sample.types[o.name]) for o in instruction.destinations if o.name in sample.types
    )
    as_outs = instruction.syntax == "tile" and instruction.traits.alias is None
    kinds = {o.name: o.kind for o in instruction.destinations}
    moves = instruction.cls == "communication"
    outs = tuple(v for v in results if as_outs or (moves and kinds[v.name] == "gm"))
    ops.append(
        ir.Op(
            instruction.name,
            tuple(ins),
            outs,
            tuple(v for v in results if v not in outs),
            ir.attrs(sample.attrs),
            groups=tuple(groups) if sample.grouped else (),
        )
    )
    arguments += outs
    body = ir.Region(tuple(ops))
    return ir.Program(
        (ir.Function(ir.FRAGMENT, tuple(arguments), body),),
        fragment=True,
        fragment_results=tuple(v.name for v in results),
        has_module=False,
    )


_G = ir.GlobalLayout
_COL, _ROW = ir.BLayout.COL_MAJOR, ir.BLayout.ROW_MAJOR
_BOX_ROW, _BOX_COL = ir.SLayout.ROW_MAJOR, ir.SLayout.COL_MAJOR
_F32, _F16, _I8, _I16 = ir.dtype("f32"), ir.dtype("f16"), ir.dtype("i8"), ir.dtype("i16")
_Transfer = tuple[ir.TileType, tuple[int, ...], ir.GlobalLayout | None]


def transfers(instruction: Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """A plain transfer per element type, then one per pair of layouts."""
    for (name,) in instruction.types[profile.name]:
        d = ir.dtype(name)
        cols = 2 * 256 // d.word_bits
        yield _memory_sample(instruction, (ir.TileType(d, 8, cols), (8, cols), None))
    samples = _loaded(profile) if _loads(instruction) else _stored(profile)
    for transfer in samples:
        yield _memory_sample(instruction, transfer)


def _loads(instruction: Instruction) -> bool:
    return instruction.operand("dst").kind == "tile"


def _memory_sample(instruction: Instruction, transfer: _Transfer) -> Sample:
    t, dims, layout = transfer
    view = ir.PartitionViewType(dims, t.dtype)
    types: dict[str, ir.Type] = {"dst": t, "src": view} if _loads(instruction) else {"dst": view, "src": t}
    return Sample(instruction, types, ("src",), {} if layout is None else {"layout": layout})


def _nz(d: ir.DType, loc: ir.Loc, cols: int, v_row: int, v_col: int) -> ir.TileType:
    return ir.TileType(d, 32, cols, v_row, v_col, loc, _COL, _BOX_ROW)


def _in_boxes(d: ir.DType, loc: ir.Loc) -> _Transfer:
    """A window of 2x2 boxes into a larger tile of boxes."""
    c0 = 256 // d.word_bits
    return _nz(d, loc, 3 * c0, 32, 2 * c0), (1, 2, 2, 16, c0), _G.NZ


def _loaded(profile: profiles.Profile) -> Iterator[_Transfer]:
    yield ir.TileType(_F32, 16, 16, 10, 13, pad=ir.Pad.MAX), (2, 5, 13), _G.ND
    yield ir.TileType(_F16, 16, 16, 7, 6, ir.Loc.MAT, _COL), (1, 3, 1, 7, 2), _G.DN
    yield _in_boxes(_F32, ir.Loc.VEC)
    yield _in_boxes(_I8, ir.Loc.MAT)
    yield _nz(_F16, ir.Loc.MAT, 32, 19, 20), (19, 20), _G.ND
    yield ir.TileType(_I16, 32, 32, 18, 21, ir.Loc.MAT, _ROW, _BOX_COL), (18, 21), _G.DN
    if profile.name != "a2a3":
        yield from _scales()
    yield from _images()
    if profile.name != "a5":
        return
    image = ir.conv_tile(_F16, ir.Conv(_G.NC1HWC0, (2, 1, 2, 3, 16)))
    weights = ir.conv_tile(_F32, ir.Conv(_G.FRACTAL_Z, (2 * 2 * 3, 1, 16, 8)))
    yield image, (2, 2, 3, 11), _G.NHWC
    yield image, (2, 11, 2, 3), _G.NCHW
    yield weights, (5, 11, 2, 3), _G.NCHW
    yield ir.conv_tile(_F32, ir.Conv(_G.NDC1HWC0, (1, 2, 2, 2, 3, 8))), (1, 11, 2, 2, 3), _G.NCDHW
    yield ir.conv_tile(_F32, ir.Conv(_G.FRACTAL_Z_3D, (2 * 2 * 6, 1, 16, 8))), (5, 11, 2, 2, 3), _G.NCDHW


def _scales() -> Iterator[_Transfer]:
    e8 = ir.dtype("f8e8m0")
    left = ir.TileType(e8, 32, 4, loc=ir.Loc.MAT, slayout=_BOX_ROW, fractal=32)
    right = ir.TileType(e8, 4, 32, loc=ir.Loc.MAT, blayout=_COL, slayout=_BOX_COL, fractal=32)
    yield left, (1, 2, 2, 16, 2), _G.MX_A_ZZ
    yield left.with_valid(19, 3), (1, 2, 2, 16, 2), _G.MX_A_ZZ
    yield left, (32, 2, 2), _G.MX_A_ND
    yield left, (2, 32, 2), _G.MX_A_DN
    yield right, (1, 2, 2, 16, 2), _G.MX_B_NN
    yield right, (2, 32, 2), _G.MX_B_ND
    yield right, (32, 2, 2), _G.MX_B_DN


def _images() -> Iterator[_Transfer]:
    image = (1, 2, 3, 2)
    for d in (_F32, _I8):
        shape = (*image, ir.block_channels(d))
        yield ir.conv_tile(d, ir.Conv(_G.NC1HWC0, shape)), shape, _G.NC1HWC0
    yield ir.conv_tile(_F16, ir.Conv(_G.FRACTAL_Z, (1, 2, 1, 16, 16))), (1, 2, 1, 16, 16), _G.FRACTAL_Z
    yield ir.conv_tile(_F16, ir.Conv(_G.FRACTAL_Z, (4, 1, 16, 16))), (2, 2, 1, 16, 16), _G.FRACTAL_Z


def _stored(profile: profiles.Profile) -> Iterator[_Transfer]:
    yield ir.TileType(_F32, 16, 16, 10, 13), (2, 5, 13), _G.ND
    yield ir.TileType(_F16, 16, 16, 7, 6, blayout=_COL), (1, 3, 1, 7, 2), _G.DN
    yield _in_boxes(_F32, ir.Loc.VEC)
    if profile.name != "a5":
        yield _in_boxes(_I8, ir.Loc.MAT)
    if profile.name == "cpu_sim":
        yield ir.TileType(_I16, 16, 32, 12, 32), (1, 2, 3, 4, 16), _G.NC1HWC0
        shape = (1, 2, 3, 2, 8)
        yield ir.conv_tile(_F32, ir.Conv(_G.NC1HWC0, shape)), shape, _G.NC1HWC0


def block(*types: DType) -> int:
    """A size that fills whole blocks of 32 bytes in each of some types."""
    return max(16, *(256 // d.storage_bits for d in types))


def column(d: DType, rows: int) -> TileType:
    """A value per row as a col_major tile of one column."""
    return TileType(d, rows, 1, blayout=BLayout.COL_MAJOR)


def _row_result(d: DType, rows: int, variant: int) -> TileType:
    """A value per row: a column, or column 0 of a row_major tile with one valid column."""
    return column(d, rows) if variant % 2 == 0 else TileType(d, rows, 32, v_col=1)


def _relaid(t: TileType) -> Iterator[TileType]:
    """The same source in the layouts that only the simulator takes."""
    yield replace(t, blayout=BLayout.COL_MAJOR)
    yield replace(t, rows=16, v_row=min(t.rows, 16), blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)


def reductions(instruction: Instruction, profile: Profile, *, rowwise: bool) -> Iterator[Sample]:
    """Every row of the type table with tmp where there is one, and the layouts of source and result."""
    longest, shortest = max(instruction.forms, key=len), min(instruction.forms, key=len)
    rows = instruction.types[profile.name]
    for i, names in enumerate(rows):
        target, source = map(dtype, names)
        types: dict[str, Type] = dict(_reduced(target, source, i) if rowwise else _stacked(target, source))
        if "tmp" in longest:
            types["tmp"] = TileType(source, 8, 64)
        binary = {"isBinary": True} if instruction.attributes and i % 2 == 0 else {}
        yield Sample(instruction, types, longest, binary)
        if i == 0:
            yield from _variants(instruction, profile, types, shortest, rowwise)


def _reduced(target: DType, source: DType, variant: int) -> dict[str, TileType]:
    rows = block(target, source)
    return {"src": TileType(source, rows, 32), "dst": _row_result(target, rows, variant)}


def _stacked(target: DType, source: DType) -> dict[str, TileType]:
    cols = block(target, source)
    return {"src": TileType(source, cols, cols), "dst": TileType(target, 1, cols)}


def _variants(
    instruction: Instruction, profile: Profile, types: dict[str, Type], form: tuple[str, ...], rowwise: bool
) -> Iterator[Sample]:
    src, dst = types["src"], types["dst"]
    assert isinstance(src, TileType) and isinstance(dst, TileType)
    plain = {n: t for n, t in types.items() if n != "tmp"}
    if rowwise:
        yield Sample(instruction, {**plain, "dst": TileType(dst.dtype, dst.rows, 32, v_col=1)}, form)
    else:
        yield Sample(instruction, {**plain, "dst": TileType(dst.dtype, 3, dst.cols)}, form)
    partial = src.with_valid(src.rows - 1, src.cols - 3)
    narrowed = dst.with_valid(src.rows - 1, dst.v_col) if rowwise else dst.with_valid(1, src.cols - 3)
    yield Sample(instruction, {**plain, "src": partial, "dst": narrowed}, form)
    if profile.name == "cpu_sim":
        for t in _relaid(replace(src, rows=16, v_row=16)):
            result = column(dst.dtype, 16) if rowwise else dst
            yield Sample(instruction, {**plain, "src": t, "dst": result}, form)


def pair_sums(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Every element type; an odd number of valid columns."""
    (form,) = instruction.forms
    for i, (name,) in enumerate(instruction.types[profile.name]):
        t = TileType(dtype(name), 8, 32)
        if i == 1:
            t = t.with_valid(5, 17)
        yield Sample(instruction, {"dst": t, "src": t}, form)


def expansions(instruction: Instruction, profile: Profile, *, rowwise: bool) -> Iterator[Sample]:
    """Every row of the type table; vectors as a column and as part of a wider tile."""
    (form,) = instruction.forms
    for i, names in enumerate(instruction.types[profile.name]):
        target, source = map(dtype, names)
        width = block(target, source)
        if rowwise:
            vector = _row_result(source, width, i)
            yield Sample(instruction, {"dst": TileType(target, width, 32), "src": vector}, form)
        else:
            vector = TileType(source, 1 if i % 2 == 0 else 3, width)
            yield Sample(instruction, {"dst": TileType(target, width, width), "src": vector}, form)
        if i == 0 and profile.name == "cpu_sim":
            for t in _relaid(TileType(target, 16, width)):
                src = column(source, 16) if rowwise else TileType(source, 1, width)
                yield Sample(instruction, {"dst": t, "src": src}, form)


def positions(instruction: Instruction, profile: Profile, *, rowwise: bool) -> Iterator[Sample]:
    """Every pair of index and source type that one of the two forms takes, in such a form."""
    (form,) = (f for f in instruction.forms if "tmp" in f)
    without: set[bool] = set()
    for i, names in enumerate(instruction.types[profile.name]):
        index, source = map(dtype, names)
        for valued in _forms_of(profile, index, source, i, rowwise=rowwise):
            reduced = _reduced(index, source, i) if rowwise else _stacked(index, source)
            src = reduced["src"]
            types: dict[str, Type] = {**reduced, "tmp": TileType(source, src.rows, 3 * max(32, src.cols))}
            if valued:
                types["dstVal"] = replace(reduced["dst"], dtype=source)
            yield Sample(instruction, types, form)
            if valued not in without:
                without.add(valued)
                yield Sample(instruction, {n: t for n, t in types.items() if n != "tmp"}, ("src",))


def _forms_of(
    profile: Profile, index: DType, source: DType, variant: int, *, rowwise: bool
) -> tuple[bool, ...]:
    """Which forms a row of the type table is shown in: with a value tile or without."""
    if profile.name == "cpu_sim":
        return (variant % 2 == 1,) if variant else (False, True)
    if index.bits == 16:
        return (True,)
    narrow = source.bits == 8 or (source.bits == 16 and not rowwise)
    return (False,) if narrow else (variant % 2 == 1,) if variant else (False, True)


def row_broadcasts(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Both modes, either source expanded, with and without tmp; every element type in one of them."""
    types = [dtype(name) for (name,) in instruction.types[profile.name]]
    modes = (
        (1, "src1", False),
        (2, "src1", False),
        (1, "src0", False),
        (2, "src0", False),
        (1, "src1", True),
    )
    for i in range(max(len(types), len(modes))):
        mode, expanded, scratch = modes[i % len(modes)]
        yield row_broadcast(instruction, types[i % len(types)], mode, expanded, tmp=scratch)


def row_broadcast(
    instruction: Instruction, d: DType, mode: int = 1, expanded: str = "src1", *, tmp: bool = False
) -> Sample:
    """One row-expanding operation on small tiles."""
    rows, width = block(d), 256 // d.storage_bits
    whole = TileType(d, rows, 2 * width)
    vector = column(d, rows) if mode == 1 else TileType(d, rows, width)
    full = "src0" if expanded == "src1" else "src1"
    types: dict[str, Type] = {"dst": whole, full: whole, expanded: vector}
    if tmp:
        types["tmp"] = TileType(d, rows, 4 * width)
    return Sample(instruction, types, ("src0", "src1", "tmp") if tmp else ("src0", "src1"))


def column_broadcasts(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Every element type; the vector alone and as row 0 of a higher tile."""
    (form,) = instruction.forms
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        whole = TileType(d, block(d), block(d))
        vector = TileType(d, 3 if i % 2 else 1, block(d))
        yield Sample(instruction, {"dst": whole, "src0": whole, "src1": vector}, form)
