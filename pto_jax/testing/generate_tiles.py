"""Statements of generated programs that make tiles: instructions, and other handles over bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..dtypes import I64, INDEX, dtype
from ..errors import VerifyError
from ..ir import Op, Value, attrs
from ..isa.check import check_op
from ..isa.constraints import element_type
from ..isa.declare import Operand
from ..isa.samples import Sample
from ..types import Loc, PartitionViewType, ScalarType, TileType, VectorType
from .generate_memory import view
from .generate_operations import Wanted, by_class, catalogue, wanted
from .generate_state import Held, State, below

Sizes = tuple[int, int]
_CASTS = {8: ("i8", "u8"), 16: ("f16", "bf16", "i16", "u16"), 32: ("f32", "i32", "u32")}


def instruction(state: State) -> None:
    """One instruction with operands that are there, as far as there are any, and new ones otherwise."""
    names, weights = by_class(state.profile.name, state.options)
    for _ in range(4):
        name = state.rng.choice(state.rng.choices(names, weights)[0])
        if name.startswith("set") and len(state.levels) > 1:
            continue
        samples = catalogue(state.profile.name, state.options.elements)[name]
        sample = max(state.rng.choices(samples, k=4), key=lambda s: _matches(state, s))
        if state.entry or not _needs_arguments(state, sample):
            emit(state, wanted(state.rng, sample, state.profile, state.options, state.scale))
            return


def _needs_arguments(state: State, sample: Sample) -> bool:
    """Whether a called function lacks an operand that it cannot make."""
    views = {v.type for level in state.levels for v in level.views}
    made = (t for t in sample.types.values() if isinstance(t, PartitionViewType | VectorType))
    scalars = (t for t in sample.types.values() if isinstance(t, ScalarType))
    return not all(t in views for t in made) or any(t.dtype.name in ("f16", "bf16") for t in scalars)


def _matches(state: State, sample: Sample) -> int:
    there = {replace(h.type, v_row=-1, v_col=-1) for h in state.tiles()}
    return sum(
        isinstance(t, TileType) and replace(t, v_row=-1, v_col=-1) in there for t in sample.types.values()
    )


def emit(state: State, want: Wanted) -> None:
    """The operation of a sample on values of this program."""
    form, declared = want.sample.form, want.instruction
    ulp = _bound(want)
    ins = tuple(_source(state, want, declared.operand(n)) for n in form)
    outs: list[Value] = []
    made: list[Held] = []
    listed = [o for o in declared.destinations if o.name in want.types]
    bind = _may_bind(state, want, listed) and state.chance(state.options.results)
    for operand in listed:
        t = want.types[operand.name]
        if bind:
            assert isinstance(t, TileType)
            held = Held(Value(state.name("t"), t), t, want.sizes[operand.name])
            made.append(held)
            outs.append(held.value)
        elif isinstance(t, TileType):
            outs.append(_destination(state, want, operand.name, ulp, outs))
        elif isinstance(t, PartitionViewType):
            outs.append(view(state, t))
        else:
            assert isinstance(t, VectorType)
            outs.append(state.argument("v", t, state.recipe(t.dtype, t.dims)))
    op = Op(
        declared.name,
        ins,
        () if bind else tuple(outs),
        tuple(outs) if bind else (),
        attrs(want.attributes),
    )
    state.emit(op)
    if ulp:
        state.loose.update((v.name, ulp) for v in outs)
    else:
        state.level.tiles += made


def _bound(want: Wanted) -> int:
    """How far results may be from the interpreter's; 0 for exact instructions."""
    dst = want.types.get("dst")
    d = element_type(dst) if dst is not None else None
    return want.instruction.ulp.get(d.name, 0) if d is not None else 0


def _may_bind(state: State, want: Wanted, listed: list[Operand]) -> bool:
    """Whether an operation can make its results: exact ones, tiles of static size that it only writes."""
    tiles = [want.tile(o.name) for o in listed]
    plain = all(o.role == "out" and not o.optional for o in listed)
    return plain and len(tiles) == 1 and all(t is not None and t.is_static and t.conv is None for t in tiles)


def _source(state: State, want: Wanted, operand: Operand) -> Value:
    t = want.types[operand.name]
    numbers = want.sample.constants.get(operand.name)
    if numbers:
        d = element_type(t)
        if d == INDEX:
            return state.number(numbers[0])
        assert d is not None
        return state.constant(float(numbers[0]) if d.is_float else numbers[0], d)
    if isinstance(t, TileType):
        if operand.role == "tmp":
            return fresh(state, t, want.sizes[operand.name], filled=False).value
        return tile(state, t, want.sizes[operand.name], _tolerant(state, want)).value
    if isinstance(t, PartitionViewType):
        return view(state, t)
    if isinstance(t, VectorType):
        return state.argument("v", t, state.recipe(t.dtype, t.dims))
    assert isinstance(t, ScalarType)
    return state.scalar(t.dtype)


def tile(state: State, t: TileType, sizes: Sizes, tolerant: bool = False) -> Held:
    """A tile to read: one of the type and region there is, or a new one."""
    known = _fitting(state, t, sizes, tolerant)
    if known and state.chance(state.options.reuse):
        return state.rng.choice(known)
    return fresh(state, t, sizes)


def _fitting(state: State, t: TileType, sizes: Sizes, tolerant: bool) -> list[Held]:
    return [h for h in state.tiles() if h.type == t and (h.sizes == sizes or (h.sizes is None and tolerant))]


def _tolerant(state: State, want: Wanted) -> bool:
    """Whether an instruction takes tiles of any valid region."""
    rules = (c for c in want.instruction.constraints if state.profile.name in c.profiles)
    plain = want.instruction.cls in ("elementwise", "tile_scalar")
    return plain and all(c.region is None or c.severity != "error" for c in rules)


def _destination(state: State, want: Wanted, name: str, ulp: int, taken: list[Value]) -> Value:
    """A tile to write. Results that need not be exact go where nothing reads them."""
    t, sizes = want.types[name], want.sizes[name]
    assert isinstance(t, TileType)
    if ulp:
        return fresh(state, t, sizes, filled=True, hidden=True).value
    known = [h for h in _fitting(state, t, sizes, _tolerant(state, want)) if h.value not in taken]
    if known and state.chance(state.options.reuse):
        return state.rng.choice(known).value
    return fresh(state, t, sizes).value


def fresh(state: State, t: TileType, sizes: Sizes, filled: bool = True, hidden: bool = False) -> Held:
    """A new tile: an argument, or an allocation into which an argument is copied."""
    placed = not hidden and t.loc == Loc.VEC and t.conv is None and state.chance(state.options.addresses)
    given = state.entry and state.tile_arguments
    if given and not placed and (hidden or state.chance(0.8) or not filled):
        held = Held(_tile_argument(state, t, sizes), t, sizes)
        if not hidden and filled:
            state.levels[0].tiles.append(held)
        return held
    groups: list[tuple[str, int]] = []
    ins: list[Value] = []
    if placed:
        ins.append(_address(state, t.bytes))
        groups.append(("addr", 1))
    for name, static, size in zip(("valid_row", "valid_col"), t.valid, sizes, strict=True):
        if static is None:
            ins.append(state.number(size))
            groups.append((name, 1))
    held = Held(Value(state.name("a"), t), t, sizes, placed)
    state.emit(Op("alloc_tile", tuple(ins), results=(held.value,), groups=tuple(groups)))
    if filled:
        _fill(state, held, sizes)
    if not hidden:
        state.level.tiles.append(held)
    return held


def _address(state: State, size: int) -> Value:
    """A byte address, in some programs one that only execution knows."""
    at = state.place(size)
    if state.moving and state.entry and state.chance(0.3):
        return state.argument("m", ScalarType(I64), np.array(at, np.uint64))
    return state.constant(at, I64)


def _tile_argument(state: State, t: TileType, sizes: Sizes) -> Value:
    return state.argument("x", t, state.recipe(t.dtype, t.shape), None if t.is_static else sizes)


def _fill(state: State, held: Held, sizes: Sizes) -> None:
    """Contents for an allocated tile, where a copy is legal."""
    same = [h for h in state.tiles() if h.type == held.type and h.sizes == sizes]
    if same and state.chance(0.7):
        source = state.rng.choice(same).value
    elif state.entry and state.tile_arguments:
        source = _tile_argument(state, held.type, sizes)
    elif 0 not in sizes and not (held.type.dtype.packed and sizes[1] % 2):
        _load(state, held, PartitionViewType(sizes, held.type.dtype))
        return
    else:
        return
    op = Op("tmov", (source,), (held.value,))
    if legal(state, op):
        state.emit(op)


def _load(state: State, held: Held, t: PartitionViewType) -> None:
    """Contents from global memory, where that is legal."""
    known = any(v.type == t for level in state.levels for v in level.views)
    if (state.entry or known) and legal(state, Op("tload", (Value("g", t),), (held.value,))):
        state.emit(Op("tload", (view(state, t),), (held.value,)))


def legal(state: State, op: Op, constants: dict[str, int] | None = None) -> bool:
    try:
        found = check_op(op, state.profile, constants=constants or {})
    except VerifyError:
        return False
    return all(d.severity != "error" for d in found)


# -- other handles -----------------------------------------------------------------------------------


def alias(state: State) -> None:
    """Another handle over the bytes of a tile, or over bytes that several tiles share."""
    known = [h for h in state.tiles() if h.type.conv is None]
    if not known:
        instruction(state)
        return
    held = state.rng.choice(known)
    make = state.rng.choice((_reshape, _bitcast, _window, _overlay, _resize, _move))
    make(state, held)


def _handle(state: State, name: str, held: Held, t: TileType, sizes: Sizes | None) -> None:
    value = Value(state.name("h"), t)
    op = Op(name, (held.value,), results=(value,))
    if legal(state, op):
        state.emit(op)
        state.level.tiles.append(Held(value, t, sizes))


def _reshape(state: State, held: Held) -> None:
    t = held.type
    if t.boxed or t.loc != Loc.VEC:
        return
    d = t.dtype
    if state.chance(0.5) and d.word_bits in _CASTS:
        width = state.rng.choice(list(_CASTS))
        d = dtype(state.rng.choice(_CASTS[width]))
    elements = t.bytes * 8 // d.storage_bits
    cols = state.rng.choice([c for c in (8, 16, 32, 64, 128, t.cols) if elements % c == 0] or [elements])
    _handle(state, "treshape", held, TileType(d, elements // cols, cols), (elements // cols, cols))


def _bitcast(state: State, held: Held) -> None:
    names = _CASTS.get(held.type.dtype.word_bits, ())
    others = [n for n in names if n != held.type.dtype.name]
    if others:
        _handle(state, "bitcast", held, held.type.with_dtype(dtype(state.rng.choice(others))), held.sizes)


def _window(state: State, held: Held) -> None:
    t = held.type
    if t.boxed or t.loc != Loc.VEC or not t.is_full:
        return
    rows, cols = (
        state.rng.randint(1, t.rows),
        state.rng.choice([c for c in (8, 16, 32, 64) if c <= t.cols] or [t.cols]),
    )
    slack = (t.rows - rows, t.cols - cols)
    offsets, constants = [], {}
    for room in slack:
        indices = state.scalars(INDEX)
        if indices and state.chance(0.5):
            offsets.append(state.masked(state.rng.choice(indices), below(room)))
            continue
        at = state.rng.randint(0, room)
        offsets.append(state.number(at))
        constants[offsets[-1].name] = at
    seen = TileType(t.dtype, rows, cols, loc=t.loc, blayout=t.blayout, pad=t.pad)
    op = Op(
        "subset",
        (held.value, *offsets),
        results=(Value(state.name("w"), seen),),
        attributes=attrs(sizes=(rows, cols)),
        groups=(("tile", 1), ("offsets", 2)),
    )
    if legal(state, op, constants):
        state.emit(op)
        state.level.tiles.append(Held(op.results[0], seen, (rows, cols)))


def _overlay(state: State, held: Held) -> None:
    """A tile at an address where others may be."""
    t = held.type.with_valid(held.type.rows, held.type.cols)
    if t.loc != Loc.VEC or not state.address:
        return
    if state.chance(0.3) and t.dtype.word_bits in _CASTS:
        t = t.with_dtype(dtype(state.rng.choice(_CASTS[t.dtype.word_bits])))
    at = state.constant(state.rng.randrange(0, state.address, 32), I64)
    value = Value(state.name("o"), t)
    op = Op("alloc_tile", (at,), results=(value,), groups=(("addr", 1),))
    if legal(state, op):
        state.emit(op)
        state.level.tiles.append(Held(value, t, t.shape, True))


def _move(state: State, held: Held) -> None:
    """Point a placed tile at other bytes."""
    placed = [h for h in state.tiles() if h.placed]
    if placed:
        other = state.rng.choice(placed)
        state.emit(Op("tassign", (other.value, _address(state, other.type.bytes))))


def _resize(state: State, held: Held) -> None:
    """Another valid region; under control flow its sizes are not known afterwards."""
    t = held.type
    if t.v_row is not None or t.v_col is not None or state.repeated(held):
        return
    numbers = [state.rng.randint(0, n) for n in t.shape]
    sizes: list[Value] = []
    certain = len(state.levels) == 1 and state.entry
    for n, extent in zip(numbers, t.shape, strict=True):
        indices = state.scalars(INDEX)
        if indices and state.chance(0.3):
            sizes.append(state.masked(state.rng.choice(indices), below(extent)))
            certain = False
        else:
            sizes.append(state.number(n))
    state.emit(Op("set_validshape", (held.value, *sizes)))
    new = (numbers[0], numbers[1]) if certain else None
    for level in state.levels:
        level.tiles = [replace(h, sizes=new) if h.value == held.value else h for h in level.tiles]


def scalar(state: State) -> None:
    """A scalar computed from others, or read from a tile."""
    d = state.rng.choice((INDEX, INDEX, dtype("i32"), dtype("f32")))
    result = Value(state.name("s"), ScalarType(d))
    vectors = [h for h in state.tiles() if h.type.dtype == d and h.type.loc == Loc.VEC and not h.type.boxed]
    if vectors and state.chance(0.4):
        held = state.rng.choice(vectors)
        at = state.masked(state.scalar(INDEX), below(held.type.elements - 1))
        op = Op("tgetval", (held.value, at), results=(result,))
        if not legal(state, op):
            return
    else:
        names = ("addf", "mulf", "maximumf") if d.is_float else ("addi", "subi", "muli", "andi", "maxsi")
        op = Op(f"arith.{state.rng.choice(names)}", (state.scalar(d), state.scalar(d)), results=(result,))
    state.emit(op)
    state.level.scalars.append(result)
    if d.name == "f32" and vectors and state.chance(0.3):
        held = state.rng.choice(vectors)
        at = state.masked(state.scalar(INDEX), below(held.type.elements - 1))
        write = Op("tsetval", (at, result), (held.value,))
        if legal(state, write):
            state.emit(write)
