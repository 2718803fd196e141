"""Programs that read and write one memory: a buffer in place, tiles that share bytes, slots of one tile.

A program is a sequence of pieces. Each reads elements of a memory, computes, and writes elements of the same
memory at another place, with other steps, shapes or types. Tiles are small and pieces have few operations,
so that compiling a program takes little time beside what it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .. import ir
from ..isa.layout import TMOV
from ..isa.memory import TLOAD, TSTORE
from ..isa.views import ADDPTR, ALLOC_TILE, MAKE_TENSOR_VIEW
from .buffers import emitted
from .cores import arith
from .state import Buffer, Held, Level, State, Unfit
from .windows import part

# Instructions by name: a generator writes the operations it makes.
_ELEMENTS = tuple(map(ir.dtype, ("f32", "f32", "f16", "i32", "i16", "i8", "u8", "bf16")))
_BINARY = "tadd tsub tmul tmax tmin tand tor".split()
_UNARY = "tmov trelu tneg tabs tnot".split()
_SCALAR = "tadds tmuls tmaxs tmins".split()
_SUMS = "add sub and max min".split()
_INDEX = ir.ScalarType(ir.INDEX)
#: Bytes of a block, which rows of tiles fill and tiles begin at.
_BLOCK = 32
_OF_INDEX = {"add": "addi", "sub": "subi", "and": "andi", "max": "maxsi", "min": "minsi"}
_OF_FLOAT = {"add": "addf", "sub": "subf", "max": "maximumf", "min": "minimumf"}


@dataclass(frozen=True)
class Area:
    """Elements of a buffer that a piece may use: ``count`` of them, from ``start`` on.

    ``counters`` are indices in scope that places may depend on, and how many values each has.
    """

    pointer: ir.Value
    dtype: ir.DType
    count: int
    start: ir.Value | None = None
    counters: tuple[tuple[ir.Value, int], ...] = ()

    def place(self, state: State, extent: int) -> ir.Value:
        """Where a window of ``extent`` elements begins: a number, or one that counters move."""
        room = self.count - extent
        if room < 0:
            raise Unfit
        moves = []
        for counter, values in self.counters:
            most = room // max(1, values - 1)
            step = min(most, state.rng.choice((0, 1, 1, 2, extent // 2, extent, most)))
            moves.append((counter, step))
            room -= step * (values - 1)
        at = state.number(state.rng.randint(0, room), 0.6)
        for counter, step in moves:
            at = arith(state, "addi", at, arith(state, "muli", counter, state.number(step, 0.8)))
        return at if self.start is None else arith(state, "addi", self.start, at)

    def window(self, state: State, dims: tuple[int, int], writes: bool) -> ir.Value:
        """A view of some rows: they follow each other, lie apart, or share elements where they are read."""
        step = state.rng.choice((1, 1, 1, 1, 2))
        width = 1 + (dims[1] - 1) * step
        pitches = [width, width, width + 1, width + 8, 16, 24, *([] if writes else [1, 8, width // 2])]
        pitch = state.rng.choice([p for p in pitches if p >= width or not writes])
        extent = width + (dims[0] - 1) * pitch
        at, zero, one = self.place(state, extent), state.constant(0), state.constant(1)
        sizes = [state.number(n, 0.8) for n in dims]
        steps = [state.number(n, 0.8) for n in (pitch, step)]
        if state.chance(0.3):
            pointer = _moved(state, self.pointer, at)
            whole = _view(state, pointer, self.dtype, sizes, steps)
            return part(state, whole, ir.PartitionViewType(dims, self.dtype), (zero, zero))
        far = state.constant(self.count)
        whole = _view(state, self.pointer, self.dtype, [far, *sizes], [one, *steps])
        return part(state, whole, ir.PartitionViewType((1, *dims), self.dtype), (at, zero, zero))

    def recast(self, state: State, d: ir.DType) -> Area:
        """The same bytes as elements of another type."""
        if d == self.dtype:
            return self
        pointer = self.pointer if self.start is None else _moved(state, self.pointer, self.start)
        value = ir.Value(state.name("p"), ir.PtrType(d))
        state.emit(ir.Op("castptr", (pointer,), results=(value,)))
        return Area(value, d, self.count * self.dtype.bits // d.bits, None, self.counters)


def overlapping(state: State, grid: int) -> None:
    """The body of an entry that reads and writes the same memory again and again, on ``grid`` blocks."""
    pieces = state.rng.randint(1, max(1, state.options.statements))
    while pieces:
        # What cannot be made here is tried otherwise: transfers between windows always can.
        pieces -= state.attempt(partial(_piece, state, grid))


def _piece(state: State, grid: int) -> None:
    area = _area(state, grid)
    make = state.rng.choice(
        (_transfer, _transfer, _transfer, _exchange, _scalars, _scalars, _tiles, _tiles, _slots)
    )
    pick = state.rng.random()
    if pick < 0.25:
        _repeated(state, area, make)
    elif pick < 0.35:
        _called(state, area, make)
    elif pick < 0.4:
        _in_section(state, area, make)
    else:
        make(state, area)


def _area(state: State, grid: int) -> Area:
    """Elements of a new buffer, or of one there is; those of blocks are apart, meet, or are the same."""
    d = state.rng.choice(_ELEMENTS)
    count = state.rng.choice((24, 40, 64, 96, 160))
    shift = state.rng.choice((count, count, count + 8, count // 2, 8, 0)) if state.block is not None else 0
    whole = count + shift * (grid - 1)
    there = [b for b in state.levels[0].buffers if b.dtype == d and b.count >= whole]
    there = [b for b in there if isinstance(b.value.type, ir.PtrType)]
    if there and state.chance(0.5):
        result = state.rng.choice(there)
    else:
        result = Buffer(state.argument("g", ir.PtrType(d), state.recipe(d, (whole,))), d, whole)
        state.levels[0].buffers.append(result)
    if state.block is None or not shift:
        return Area(result.value, d, count)
    start = arith(state, "muli", state.block, state.number(shift, 0.9))
    if state.chance(0.5):
        return Area(_moved(state, result.value, start), d, count)
    return Area(result.value, d, count, start)


# -- what is around a piece ----------------------------------------------------------------------------

_Make = Callable[[State, Area], None]


def _repeated(state: State, area: Area, make: _Make) -> None:
    """A piece in a loop, whose counter moves places."""
    trips, lower = state.rng.randint(1, 4), state.constant(0)
    bounds = (lower, state.number(trips), state.constant(1))
    counter = ir.Value(state.name("i"), _INDEX)
    state.levels.append(Level(loop=True))
    try:
        make(state, replace(area, counters=(*area.counters, (counter, trips))))
    finally:
        level = state.levels.pop()
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", 0))
    state.emit(ir.Op("scf.for", bounds, regions=(ir.Region(tuple(level.ops), (counter,)),), groups=groups))


def _called(state: State, area: Area, make: _Make) -> None:
    """A piece in a function of its own, called once or twice."""
    passed = [area.pointer, *([] if area.start is None else [area.start])]
    names = [ir.Value(state.name("p"), v.type) for v in passed]
    inner = replace(area, pointer=names[0], start=names[1] if len(names) > 1 else None)
    ops = _apart(state, partial(make, state, inner))
    name = state.name("f")
    body = ir.Region((*ops, ir.Op("return")))
    state.functions.append(ir.Function(name, tuple(names), body, (), ir.Attrs(), private=True))
    for _ in range(state.rng.choice((1, 1, 2))):
        state.emit(ir.Op("call", tuple(passed), attributes=ir.attrs(callee=ir.Symbol(name))))


def _in_section(state: State, area: Area, make: _Make) -> None:
    """A piece for the vector cores alone."""
    inside = ir.Region(tuple(_apart(state, partial(make, state, area))))
    state.emit(ir.Op("section.vector", regions=(inside,)))


def _apart(state: State, make: Callable[[], None]) -> list[ir.Op]:
    """The operations of a region that makes no arguments."""
    entry, state.entry = state.entry, False
    state.levels.append(Level())
    try:
        make()
    finally:
        level, state.entry = state.levels.pop(), entry
    return level.ops


# -- global memory -------------------------------------------------------------------------------------


def _transfer(state: State, area: Area) -> None:
    """A window is loaded, changed and stored to another window of its buffer."""
    held = _loaded(state, area, _tile(state, area))
    changed = _changed(state, area, held)
    _stored(state, area, changed)


def _exchange(state: State, area: Area) -> None:
    """Windows are loaded before any of them is stored, each elsewhere."""
    loaded = [_loaded(state, area, _tile(state, area)) for _ in range(state.rng.randint(2, 3))]
    for held in state.rng.sample(loaded, len(loaded)):
        _stored(state, area, held)


def _scalars(state: State, area: Area) -> None:
    """Single elements are read and written: at even and odd places, or anywhere."""
    if state.chance(0.3):
        area = area.recast(state, state.rng.choice([d for d in _ELEMENTS if d.bits <= area.dtype.bits]))
    d = area.dtype
    if area.counters and state.chance(0.5):
        counter, values = area.counters[-1]
        if 2 * values > area.count:
            raise Unfit
        at = arith(state, "muli", counter, state.constant(2))
        at = at if area.start is None else arith(state, "addi", area.start, at)
        source, target = state.rng.sample((at, arith(state, "addi", at, state.constant(1))), 2)
    else:
        source, target = area.place(state, 1), area.place(state, 1)
    value = _read(state, area, source)
    if state.chance(0.4) and (d == ir.F32 or d.name in ("i32", "i16")):
        name = state.rng.choice(_SUMS)
        result = ir.Value(state.name("s"), value.type)
        letters = _OF_FLOAT if d.is_float else _OF_INDEX
        other = _read(state, area, area.place(state, 1))
        emitted(state, ir.Op(f"arith.{letters.get(name, letters['add'])}", (value, other), results=(result,)))
        value = result
    emitted(state, ir.Op("store_scalar", (value, area.pointer, target)))


def _read(state: State, area: Area, at: ir.Value) -> ir.Value:
    value = ir.Value(state.name("s"), ir.ScalarType(area.dtype))
    emitted(state, ir.Op("load_scalar", (area.pointer, at), results=(value,)))
    return value


def _moved(state: State, pointer: ir.Value, by: ir.Value) -> ir.Value:
    value = ir.Value(state.name("p"), pointer.type)
    state.emit(ir.Op(ADDPTR, (pointer, by), results=(value,)))
    return value


def _view(
    state: State, pointer: ir.Value, d: ir.DType, sizes: list[ir.Value], steps: list[ir.Value]
) -> ir.Value:
    value = ir.Value(state.name("w"), ir.TensorViewType((None,) * len(sizes), d))
    groups = (("ptr", 1), ("shape", len(sizes)), ("strides", len(steps)))
    state.emit(ir.Op(MAKE_TENSOR_VIEW, (pointer, *sizes, *steps), results=(value,), groups=groups))
    return value


def _tile(state: State, area: Area) -> ir.TileType:
    """A small tile for a part of an area, sometimes wider than what is transferred."""
    block = _BLOCK * 8 // area.dtype.bits
    rows = state.rng.choice((1, 1, 2, 3, 4))
    widest = max(1, min(16, area.count // 2 // rows))
    cols = state.rng.choice((widest, widest, state.rng.randint(1, widest)))
    return ir.TileType(area.dtype, rows, -(-cols // block) * block, rows, cols)


def _allocated(state: State, t: ir.TileType, at: ir.Value | None = None) -> Held:
    """A new tile, at an address or anywhere; its valid sizes may be known at run time only."""
    assert t.v_row is not None and t.v_col is not None
    sizes, operands, groups = (t.v_row, t.v_col), [] if at is None else [at], [("addr", 1)] * (at is not None)
    if state.chance(0.2):
        operands += [state.number(n) for n in sizes]
        groups += [("valid_row", 1), ("valid_col", 1)]
        t = t.with_valid(None, None)
    handle = Held(ir.Value(state.name("a"), t), t, sizes, at)
    state.emit(ir.Op(ALLOC_TILE, tuple(operands), results=(handle.value,), groups=tuple(groups)))
    return handle


def _loaded(state: State, area: Area, t: ir.TileType) -> Held:
    held = _allocated(state, t)
    _fill(state, area, held)
    return held


def _fill(state: State, area: Area, handle: Held) -> None:
    assert handle.sizes is not None
    emitted(state, ir.Op(TLOAD, (area.window(state, handle.sizes, False),), (handle.value,)))


def _stored(state: State, area: Area, handle: Held) -> None:
    assert handle.sizes is not None
    emitted(state, ir.Op(TSTORE, (handle.value,), (area.window(state, handle.sizes, True),)))


# -- between loading and storing -----------------------------------------------------------------------


def _changed(state: State, area: Area, handle: Held) -> Held:
    """What is stored: the tile, or what instructions made of it."""
    makers = (_lanewise, _lanewise, _reduced, _expanded, _converted, _recast)
    for _ in range(state.rng.choice((0, 0, 1, 1, 2))):
        changed: list[Held] = []
        make = state.rng.choice(makers)
        if state.attempt(lambda make=make, handle=handle, out=changed: out.append(make(state, area, handle))):  # type: ignore[misc]
            handle = changed[0]
    return handle


def _lanewise(state: State, area: Area, handle: Held) -> Held:
    target = handle if state.chance(0.3) else _like(state, handle)
    _instruction(state, area, handle, target)
    return target


def _like(state: State, handle: Held) -> Held:
    assert handle.sizes is not None
    return _allocated(state, replace(handle.type, v_row=handle.sizes[0], v_col=handle.sizes[1]))


def _instruction(state: State, area: Area, handle: Held, target: Held) -> None:
    """One instruction from a tile to another one, or to itself, lane by lane."""
    pick = state.rng.random()
    if pick < 0.4:
        other = handle if state.chance(0.3) else _like(state, handle)
        if other is not handle:
            _fill(state, area, other)
        op = ir.Op(state.rng.choice(_BINARY), (handle.value, other.value), (target.value,))
    elif pick < 0.7:
        op = ir.Op(state.rng.choice(_UNARY), (handle.value,), (target.value,))
    else:
        number = state.rng.choice((1, 2, 3))
        d = handle.type.dtype
        scalar = state.constant(float(number) if d.is_float else number, d)
        op = ir.Op(state.rng.choice(_SCALAR), (handle.value, scalar), (target.value,))
    emitted(state, op)


def _reduced(state: State, area: Area, handle: Held) -> Held:
    """A line of sums or extremes of a tile."""
    t, sizes = handle.type, handle.sizes
    assert sizes is not None
    if state.chance(0.5):
        result = _allocated(state, replace(t, rows=1, v_row=1, v_col=sizes[1]))
        name = state.rng.choice(("tcolsum", "tcolmax", "tcolmin"))
    else:
        result = _allocated(state, replace(t, v_row=sizes[0], v_col=1))
        name = state.rng.choice(("trowmax", "trowmin", "trowsum"))
    operands = [handle.value]
    if name.startswith("trow"):
        operands.append(_allocated(state, replace(t, v_row=t.rows, v_col=t.cols)).value)
    emitted(state, ir.Op(name, tuple(operands), (result.value,)))
    return result


def _expanded(state: State, area: Area, handle: Held) -> Held:
    """The first row or column of a tile, repeated."""
    t, sizes = handle.type, handle.sizes
    assert sizes is not None
    if state.chance(0.5):
        result = _allocated(state, replace(t, rows=2, v_row=2, v_col=sizes[1]))
        emitted(state, ir.Op("tcolexpand", (handle.value,), (result.value,)))
    else:
        result = _allocated(state, replace(t, v_row=sizes[0], v_col=state.rng.randint(1, t.cols)))
        emitted(state, ir.Op("trowexpand", (handle.value,), (result.value,)))
    return result


def _converted(state: State, area: Area, handle: Held) -> Held:
    """A tile as numbers of another type, changed, and as the first type again."""
    d, sizes = state.rng.choice(_ELEMENTS), handle.sizes
    assert sizes is not None
    block = _BLOCK * 8 // d.bits
    cols = -(-sizes[1] // block) * block
    between = _allocated(state, replace(handle.type, dtype=d, cols=cols, v_row=sizes[0], v_col=sizes[1]))
    emitted(state, ir.Op("tcvt", (handle.value,), (between.value,)))
    back = _like(state, handle)
    emitted(state, ir.Op("tcvt", (between.value,), (back.value,)))
    return back


def _recast(state: State, area: Area, handle: Held) -> Held:
    """Instructions that take the words of a tile for numbers of another type."""
    others = [d for d in _ELEMENTS if d.bits == handle.type.dtype.bits and d != handle.type.dtype]
    if not others or not handle.type.is_static:
        raise Unfit
    t = handle.type.with_dtype(state.rng.choice(others))
    seen = Held(ir.Value(state.name("h"), t), t, handle.sizes)
    emitted(state, ir.Op("bitcast", (handle.value,), results=(seen.value,)))
    name = state.rng.choice(("tadd", "tand", "tmax"))
    emitted(state, ir.Op(name, (seen.value, seen.value), (seen.value,)))
    return handle


# -- tiles that share bytes ----------------------------------------------------------------------------


def _tiles(state: State, area: Area) -> None:
    """Instructions between tiles or windows of tiles that share bytes, which are all stored afterwards."""
    make = state.rng.choice((_placed, _windows))
    stored, tiles = make(state, area)
    for _ in range(state.rng.randint(1, 3)):
        source, target = (state.rng.choice(tiles) for _ in range(2))
        same = (source.type.dtype, source.sizes) == (target.type.dtype, target.sizes)
        change = partial(_instruction, state, area, source, target if same else source)
        state.attempt(change)
    for held in stored:
        _stored(state, area, held)


def _placed(state: State, area: Area) -> tuple[list[Held], list[Held]]:
    """Tiles at addresses less than a tile apart, of one shape or of several."""
    first = _tile(state, area)
    base, values = state.place(4 * first.bytes), []
    for _ in range(state.rng.randint(2, 3)):
        t = first
        if state.chance(0.3):
            t = replace(t, rows=1, v_row=1)
        at = base + state.rng.randrange(0, 3 * first.bytes + 1, _BLOCK)
        if state.entry and state.chance(0.3):
            address = state.argument("m", ir.ScalarType(ir.I64), np.array(at, np.uint64))
        else:
            address = state.constant(at, ir.I64)
        held = _allocated(state, t, address)
        _fill(state, area, held)
        values.append(held)
    return values, values


def _windows(state: State, area: Area) -> tuple[list[Held], list[Held]]:
    """Windows of one tile, which meet."""
    block = _BLOCK * 8 // area.dtype.bits
    rows, cols = state.rng.choice((2, 3, 4)), 2 * block
    if rows * cols > area.count:
        raise Unfit
    whole = _allocated(state, ir.TileType(area.dtype, rows, cols))
    _fill(state, area, whole)
    height = state.rng.randint(1, rows - 1)
    seen = ir.TileType(area.dtype, height, block)
    results = []
    for _ in range(2):
        places = (state.rng.randint(0, rows - height), state.rng.choice((0, block)))
        offsets = tuple(state.number(n) for n in places)
        value = ir.Value(state.name("w"), seen)
        name, groups = state.rng.choice(("subview", "subset")), (("tile", 1), ("offsets", 2))
        attributes = ir.attrs(sizes=(height, block))
        op = ir.Op(name, (whole.value, *offsets), results=(value,), attributes=attributes, groups=groups)
        emitted(state, op)
        results.append(Held(value, seen, seen.shape, window=True))
    return [whole], results


def _slots(state: State, area: Area) -> None:
    """Slots of a tile in several buffers: filled, computed from one into another, stored."""
    t, count = _tile(state, area), state.rng.choice((2, 4))
    many = ir.Value(state.name("m"), ir.MultiTileType(t, count))
    emitted(state, ir.Op("alloc_multi_tile", results=(many,)))
    held = []
    for _ in range(state.rng.randint(2, 3)):
        at = state.number(state.rng.randrange(count), 0.4)
        if area.counters and state.chance(0.5):
            at = state.masked(area.counters[-1][0], count - 1)
        slot = Held(ir.Value(state.name("h"), t), t, (t.v_row or 0, t.v_col or 0))
        emitted(state, ir.Op("multi_tile_get", (many, at), results=(slot.value,)))
        _fill(state, area, slot)
        held.append(slot)
    source, target = state.rng.sample(held, 2)
    state.attempt(partial(_instruction, state, area, source, target))
    emitted(state, ir.Op(TMOV, (source.value,), (target.value,)))
    for slot in held:
        _stored(state, area, slot)
