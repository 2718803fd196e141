"""Statements of generated programs that make other handles over the bytes of tiles, and scalars."""

from collections.abc import Mapping
from dataclasses import replace

from ..ir import I64, INDEX, BLayout, Loc, Op, ScalarType, TileType, Value, attrs, dtype
from .buffers import local, query, slots
from .operations import legal
from .state import Held, Sizes, State, below
from .tiles import address, instruction

#: How often a tile is seen with its columns one after another.
_BY_COLUMNS = 0.3
# Instructions by name: a generator writes the operations it makes.
_CASTS = {8: ("i8", "u8"), 16: ("f16", "bf16", "i16", "u16"), 32: ("f32", "i32", "u32")}


def alias(state: State) -> None:
    """Another handle over the bytes of a tile, or over bytes that several tiles share."""
    candidates = [h for h in state.tiles() if h.type.conv is None]
    if not candidates:
        instruction(state)
        return
    handle = state.rng.choice(candidates)
    makers = (
        _reshape,
        _bitcast,
        _window,
        _window,
        _part,
        _part,
        _again,
        _resize,
        *(() if state.options.defined else (_overlay, _move)),
    )
    make = slots if state.chance(state.options.storage / 2) else state.rng.choice(makers)
    state.attempt(lambda: make(state, handle))


def _handle(state: State, name: str, handle: Held, t: TileType, sizes: Sizes | None) -> None:
    value = Value(state.name("h"), t)
    _made(state, Op(name, (handle.value,), results=(value,)), Held(value, t, sizes, window=handle.window))


def _made(state: State, op: Op, handle: Held, constants: Mapping[str, int] | None = None) -> None:
    """Add an operation that makes a handle, where it is legal."""
    if legal(state.profile, op, constants):
        state.emit(op)
        state.level.tiles.append(handle)


def _reshape(state: State, handle: Held) -> None:
    t = handle.type
    if t.boxed or t.loc != Loc.VEC or handle.window or (state.options.defined and handle.sizes != t.shape):
        return
    d = t.dtype
    if state.chance(0.5) and d.word_bits in _CASTS:
        width = state.rng.choice(list(_CASTS))
        d = dtype(state.rng.choice(_CASTS[width]))
    elements = t.bytes * 8 // d.storage_bits
    cols = state.rng.choice([c for c in (8, 16, 32, 64, 128, t.cols) if elements % c == 0] or [elements])
    order = BLayout.COL_MAJOR if state.chance(_BY_COLUMNS) else BLayout.ROW_MAJOR
    result = TileType(d, elements // cols, cols, blayout=order)
    _handle(state, "treshape", handle, result, (elements // cols, cols))


def _bitcast(state: State, handle: Held) -> None:
    names = _CASTS.get(handle.type.dtype.word_bits, ())
    others = [n for n in names if n != handle.type.dtype.name]
    if others:
        _handle(
            state, "bitcast", handle, handle.type.with_dtype(dtype(state.rng.choice(others))), handle.sizes
        )


def _window(state: State, handle: Held) -> None:
    if not _is_whole(handle):
        whole = [h for h in state.tiles() if _is_whole(h)]
        if not whole:
            return
        handle = state.rng.choice(whole)
    t = handle.type
    # Rows fill blocks of 32 bytes.
    widths = [c for c in (8, 16, 32, 64) if c <= t.cols and c * t.dtype.storage_bits % 256 == 0]
    rows, cols = state.rng.randint(1, t.rows), state.rng.choice(widths or [t.cols])
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
    name = "subview" if state.chance(2.5 * state.options.storage) else "subset"
    valid = (rows, cols)
    extents: list[Value] = []
    if name == "subview" and state.chance(0.5):
        valid = (state.rng.randint(0, rows), state.rng.randint(0, cols))
        extents = [state.constant(n) for n in valid]
    seen = TileType(t.dtype, rows, cols, *valid, loc=t.loc, blayout=t.blayout, pad=t.pad)
    op = Op(
        name,
        (handle.value, *offsets, *extents),
        results=(Value(state.name("w"), seen),),
        attributes=attrs(sizes=(rows, cols)),
        groups=(("tile", 1), ("offsets", 2), *((n, 1) for n in ("valid_row", "valid_col") if extents)),
    )
    constants |= {v.name: n for v, n in zip(extents, valid, strict=False)}
    _made(state, op, Held(op.results[0], seen, valid, window=True), constants)


def _is_whole(handle: Held) -> bool:
    t = handle.type
    return t.loc == Loc.VEC and t.is_full and not t.boxed and t.conv is None


def _part(state: State, handle: Held) -> None:
    """A tile of the same type that begins at an element of another."""
    whole = [h for h in (handle, *state.tiles()) if _is_whole(h) and h.sizes == h.type.shape and not h.window]
    if not whole:
        return
    handle = whole[0] if whole[0] == handle else state.rng.choice(whole)
    t = handle.type
    at = (state.rng.randint(0, t.rows - 1), state.rng.randint(0, t.cols - 1))
    # Beyond the end of the source's bytes lies what nothing defines.
    rows = t.rows - at[0] - (at[1] > 0)
    if t.blayout != BLayout.ROW_MAJOR or rows < 1:
        return
    sizes = (state.rng.randint(1, rows), state.rng.randint(1, t.cols - at[1]))
    numbers = [state.number(n) for n in at]
    part = replace(t, rows=rows, v_row=sizes[0], v_col=sizes[1])
    value = Value(state.name("w"), part)
    constants = {v.name: n for v, n in zip(numbers, at, strict=True)}
    op = Op("tsubview", (handle.value, *numbers), results=(value,))
    _made(state, op, Held(value, part, sizes, window=True), constants)


def _again(state: State, handle: Held) -> None:
    """The first bytes of a tile, as a tile of another shape or type."""
    t = handle.type
    if t.boxed or t.loc != Loc.VEC or handle.window or handle.sizes != t.shape:
        return
    d = dtype(state.rng.choice(_CASTS.get(t.dtype.word_bits, (t.dtype.name,))))
    rows = state.rng.choice([n for n in (1, 2, 4, 8, t.rows) if n <= t.rows])
    seen = replace(t, dtype=d, rows=rows, v_row=rows, v_col=t.cols)
    _handle(state, "talias", handle, seen, seen.shape)


def _overlay(state: State, handle: Held) -> None:
    """A tile at an address where others may be."""
    t = handle.type.with_valid(handle.type.rows, handle.type.cols)
    if t.loc != Loc.VEC or not state.address:
        return
    if state.chance(0.3) and t.dtype.word_bits in _CASTS:
        t = t.with_dtype(dtype(state.rng.choice(_CASTS[t.dtype.word_bits])))
    at = state.constant(state.rng.randrange(0, state.address, 32), I64)
    value = Value(state.name("o"), t)
    _made(
        state, Op("alloc_tile", (at,), results=(value,), groups=(("addr", 1),)), Held(value, t, t.shape, at)
    )


def _move(state: State, handle: Held) -> None:
    """Point a placed tile at other bytes."""
    placed = [h for h in state.tiles() if h.at is not None]
    if placed:
        other = state.rng.choice(placed)
        state.emit(Op("tassign", (other.value, address(state, other.type.bytes))))


def _resize(state: State, handle: Held) -> None:
    """Another valid region; under control flow its sizes are not known afterwards."""
    t = handle.type
    if t.v_row is not None or t.v_col is not None or state.repeated(handle):
        return
    certain, defined = len(state.levels) == 1 and state.entry, state.options.defined
    if defined and (not certain or handle.sizes is None):
        return
    numbers = [state.rng.randint(0, n) for n in (handle.sizes if defined and handle.sizes else t.shape)]
    sizes: list[Value] = []
    for n, extent in zip(numbers, t.shape, strict=True):
        indices = state.scalars(INDEX)
        if indices and not defined and state.chance(0.3):
            sizes.append(state.masked(state.rng.choice(indices), below(extent)))
            certain = False
        else:
            sizes.append(state.number(n))
    state.emit(Op("set_validshape", (handle.value, *sizes)))
    new = (numbers[0], numbers[1]) if certain else None
    for level in state.levels:
        level.tiles = [replace(h, sizes=new) if h.value == handle.value else h for h in level.tiles]


def scalar(state: State) -> None:
    """A scalar computed from others, read from a tile, or kept in local memory."""
    make = state.rng.choice((local, query)) if state.chance(state.options.storage) else _computed
    state.attempt(lambda: make(state))


def _computed(state: State) -> None:
    d = state.rng.choice((INDEX, INDEX, dtype("i32"), dtype("f32")))
    result = Value(state.name("s"), ScalarType(d))
    vectors = [h for h in state.tiles() if h.type.dtype == d and h.type.loc == Loc.VEC and not h.type.boxed]
    if state.options.defined:
        vectors = [h for h in vectors if h.sizes == h.type.shape]
    if vectors and state.chance(0.4):
        handle = state.rng.choice(vectors)
        at = state.masked(state.scalar(INDEX), below(handle.type.elements - 1))
        op = Op("tgetval", (handle.value, at), results=(result,))
        if not legal(state.profile, op):
            return
    else:
        largest = "maxui" if d.kind == "uint" else "maxsi"
        names = ("addf", "mulf", "maximumf") if d.is_float else ("addi", "subi", "muli", "andi", largest)
        op = Op(f"arith.{state.rng.choice(names)}", (state.scalar(d), state.scalar(d)), results=(result,))
    state.emit(op)
    state.level.scalars.append(result)
    if d.name == "f32" and vectors and state.chance(0.3):
        handle = state.rng.choice(vectors)
        at = state.masked(state.scalar(INDEX), below(handle.type.elements - 1))
        write = Op("tsetval", (at, result), (handle.value,))
        if legal(state.profile, write):
            state.emit(write)


def output(state: State) -> None:
    """Print a tile or a scalar."""
    tiles = [h for h in state.tiles() if legal(state.profile, Op("tprint", (h.value,)))]
    if tiles and state.chance(0.7):
        state.emit(Op("tprint", (state.rng.choice(tiles).value,)))
        return
    d = dtype(state.rng.choice(("f32", "i32")))
    attributes = attrs(format="%f" if d.is_float else "%d")
    state.emit(Op("print", (state.scalar(d),), attributes=attributes))
