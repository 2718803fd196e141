"""Sample operations of the reductions and expansions: small tiles in every layout and mode."""

from collections.abc import Iterator
from dataclasses import replace

from ...ir import BLayout, DType, SLayout, TileType, Type, dtype
from ...profiles import Profile
from ..declare import Instruction
from .operations import Sample


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
            types["tmp"] = _scratch(source)
        binary = {"isBinary": True} if instruction.attributes and i % 2 == 0 else {}
        yield Sample(instruction, types, longest, binary)
        if i == 0:
            yield from _variants(instruction, profile, types, shortest, rowwise)


def _scratch(source: DType) -> TileType:
    return TileType(source, 8, 64)


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
                given = column(source, 16) if rowwise else TileType(source, 1, width)
                yield Sample(instruction, {"dst": t, "src": given}, form)


def positions(instruction: Instruction, profile: Profile, *, rowwise: bool) -> Iterator[Sample]:
    """Every pair of index and source type that one of the two forms takes, in such a form."""
    (form,) = (f for f in instruction.forms if "tmp" in f)
    without: set[bool] = set()
    for i, names in enumerate(instruction.types[profile.name]):
        index, source = map(dtype, names)
        for valued in _forms_of(profile, index, source, i, rowwise=rowwise):
            made = _reduced(index, source, i) if rowwise else _stacked(index, source)
            src = made["src"]
            types: dict[str, Type] = {**made, "tmp": TileType(source, src.rows, 3 * max(32, src.cols))}
            if valued:
                types["dstVal"] = replace(made["dst"], dtype=source)
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
    listed = [dtype(name) for (name,) in instruction.types[profile.name]]
    modes = (
        (1, "src1", False),
        (2, "src1", False),
        (1, "src0", False),
        (2, "src0", False),
        (1, "src1", True),
    )
    for i in range(max(len(listed), len(modes))):
        mode, expanded, scratch = modes[i % len(modes)]
        yield row_broadcast(instruction, listed[i % len(listed)], mode, expanded, tmp=scratch)


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
