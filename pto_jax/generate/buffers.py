"""Statements of generated programs on pointers, memrefs, views, slots of tiles and local arrays."""

import math
from functools import partial

from .. import ir
from ..isa.layout import TMOV
from ..isa.rules.tile_legality import tile_of_memref
from ..isa.views import MAX_RANK
from . import tiles
from .operations import judged, legal
from .state import Buffer, Held, State, Unfit, below
from .windows import Shape, buffer, numbers, opened, pointer_view, shape_for, split, tensor_argument

# Instructions by name: a generator writes the operations it makes.
_F32 = ir.dtype("f32")


def slots(state: State, handle: Held) -> None:
    """Several buffers of a tile's type; one of them, which execution may choose, holds its contents."""
    t = handle.type
    if t.loc != ir.Loc.VEC or handle.window or not t.is_static or handle.sizes != t.valid or 0 in t.valid:
        return
    count = state.rng.choice((2, 4))
    result = ir.Value(state.name("m"), ir.MultiTileType(t, count))
    emitted(state, ir.Op("alloc_multi_tile", results=(result,)))
    chosen = [h for h in state.scalars(ir.INDEX) if state.chance(0.5)]
    at = state.masked(state.rng.choice(chosen), below(count - 1)) if chosen else state.constant(count - 1)
    slot = ir.Value(state.name("h"), t)
    emitted(state, ir.Op("multi_tile_get", (result, at), results=(slot,)))
    emitted(state, ir.Op(TMOV, (handle.value,), (slot,)))
    state.level.tiles.append(Held(slot, t, handle.sizes))


def local(state: State) -> None:
    """A scalar that goes through a local array or a structure."""
    d = state.rng.choice((ir.I32, _F32))
    result = ir.Value(state.name("s"), ir.ScalarType(d))
    make = _structure if state.chance(0.4) else _array
    make(state, d, result)
    state.level.scalars.append(result)


def _array(state: State, d: ir.DType, result: ir.Value) -> None:
    dims = state.rng.choice(((4,), (2, 4), (8,)))
    array = ir.Value(state.name("l"), ir.LocalArrayType(dims, d))
    emitted(state, ir.Op("declare_local_array", results=(array,)))
    at = tuple(state.masked(state.scalar(ir.INDEX), below(n - 1)) for n in dims)
    groups = (("array", 1), ("indices", len(at)))
    value = state.scalar(d)
    emitted(state, ir.Op("local_array_set", (array, *at, value), groups=(*groups, ("value", 1))))
    emitted(state, ir.Op("local_array_get", (array, *at), results=(result,), groups=groups))


def _structure(state: State, d: ir.DType, result: ir.Value) -> None:
    inner = ir.StructType((ir.I64, d))
    struct, path = ir.Value(state.name("l"), ir.StructType((d, inner))), state.rng.choice(((0,), (1, 1)))
    emitted(state, ir.Op("declare_struct", results=(struct,)))
    value = state.scalar(d)
    emitted(state, ir.Op("struct_set", (struct, value), attributes=ir.attrs(path=path)))
    emitted(state, ir.Op("struct_get", (struct,), results=(result,), attributes=ir.attrs(path=path)))


def query(state: State) -> None:
    """The valid sizes of a tile as indices."""
    tiles = [h for h in state.tiles() if not state.options.defined or h.sizes is not None]
    if not tiles:
        return
    handle = state.rng.choice(tiles)
    name = state.rng.choice(("get_validshape", "tile_valid_rows", "tile_valid_cols"))
    count = 2 if name == "get_validshape" else 1
    sizes = [ir.Value(state.name("n"), ir.ScalarType(ir.INDEX)) for _ in range(count)]
    emitted(state, ir.Op(name, (handle.value,), results=tuple(sizes)))
    state.level.scalars += sizes


def emitted(state: State, op: ir.Op) -> None:
    """Add an operation where it is legal; Unfit where it is not."""
    if not legal(state.profile, op):
        raise Unfit
    state.emit(op)


# Instructions by name: a generator writes the operations it makes.
_INDEX = ir.ScalarType(ir.INDEX)
_ELEMENTS = tuple(map(ir.dtype, ("f32", "f16", "bf16", "i32", "i16", "i8", "u8", "u32")))


def memory(state: State) -> None:
    """A statement about global memory: a transfer, a single element, a question about a view, a memref."""
    makers = (transfer, transfer, transfer, _element, _element, _query, _local, _local)
    if state.attempt(partial(state.rng.choice(makers), state)):
        return
    tiles.instruction(state)


def _window_of(state: State, d: ir.DType, whole: ir.Value, shape: Shape) -> ir.Value:
    """The window of a view, in one of its spellings."""
    if shape.dims == shape.extents and state.chance(0.4):
        return whole
    rank = len(shape.dims)
    offsets, groups = numbers(state, shape.offsets), (("view", 1), ("offsets", rank))
    if state.chance(0.2):
        value = ir.Value(state.name("g"), ir.PartitionViewType(shape.dims, d))
        sizes = ir.attrs(sizes=shape.dims)
        state.emit(
            ir.Op("global_subview", (whole, *offsets), results=(value,), attributes=sizes, groups=groups)
        )
        return value
    dims = opened(state, shape.dims)
    if shape.layout == ir.GlobalLayout.ND and state.chance(0.2):
        dims = _of_another_rank(state, dims)
    value = ir.Value(state.name("g"), ir.PartitionViewType(dims, d))
    operands = (whole, *offsets, *numbers(state, shape.dims))
    state.emit(ir.Op("partition_view", operands, results=(value,), groups=(*groups, ("sizes", rank))))
    return value


def _of_another_rank(state: State, dims: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Extents with more leading ones, or without those they have."""
    least = next((i for i, n in enumerate(dims[:-2]) if n != 1), max(0, len(dims) - 2))
    return (1,) * state.rng.randint(0, MAX_RANK - len(dims)) + dims[state.rng.randint(0, least) :]


def _recast(state: State, d: ir.DType, shape: Shape) -> ir.Value:
    """A memref of global memory seen through other extents and strides."""
    source = buffer(state, d, shape.count)
    if not isinstance(source.value.type, ir.MemRefType) or shape.layout != ir.GlobalLayout.ND:
        raise Unfit
    rank = len(shape.dims)
    value = ir.Value(state.name("g"), ir.MemRefType(shape.dims, d, ir.AddressSpace.GM, shape.strides, None))
    operands = (source.value, state.number(0), *numbers(state, shape.dims), *numbers(state, shape.strides))
    groups = (("source", 1), ("offsets", 1), ("sizes", rank), ("strides", rank))
    state.emit(ir.Op("memref.reinterpret_cast", operands, results=(value,), groups=groups))
    return value


def _is_moved(t: ir.TileType) -> bool:
    """Whether a tile is loaded and stored as it is: matrices by columns need windows by columns."""
    by_columns = t.layout == "DN" and 1 not in t.shape
    return t.conv is None and not t.dtype.packed and not by_columns


def transfer(state: State) -> None:
    """A load or store of a tile through a view of its own."""
    candidates = [h for h in state.tiles() if _is_moved(h.type)]
    if not candidates:
        raise Unfit
    handle, reads = state.rng.choice(candidates), state.chance(0.5)
    sizes = handle.sizes
    if sizes is None or 0 in sizes or state.chance(0.3):
        sizes = handle.type.shape
    shape, d = shape_for(state.rng, handle.type, sizes, reads), handle.type.dtype
    layout: ir.GlobalLayout | None = None
    if state.chance(0.4):
        window = _recast(state, d, shape)
    else:
        whole, layout = pointer_view(state, d, shape)
        window = _window_of(state, d, whole, shape)
        # Execution judges what a type leaves open: a window for a store is no larger than the valid region.
        if not reads and sizes != handle.sizes and None in getattr(window.type, "dims", ()):
            raise Unfit
    op = ir.Op("tload", (window,), (handle.value,)) if reads else ir.Op("tstore", (handle.value,), (window,))
    regions = {} if handle.sizes is None else {handle.value.name: handle.sizes}
    layouts = {} if layout is None else {window.name: layout}
    verdict = judged(state.profile, op, sizes=regions, shapes={window.name: shape.dims}, layouts=layouts)
    if verdict == "illegal":
        raise Unfit
    state.emit(op)


# -- single elements, questions, local memrefs -------------------------------------------------------


def _element(state: State) -> None:
    """A scalar read from global memory, or written to it."""
    candidates = [b for level in state.levels for b in level.buffers if b.dtype.bits >= 8]
    source = state.rng.choice(candidates) if candidates else buffer(state, state.rng.choice(_ELEMENTS), 16)
    if not isinstance(source.value.type, ir.PtrType):
        raise Unfit
    indices = state.scalars(ir.INDEX)
    if indices and state.chance(0.5):
        at = state.masked(state.rng.choice(indices), below(source.count - 1))
    else:
        at = state.number(state.rng.randrange(source.count))
    if state.chance(0.5):
        value = ir.Value(state.name("s"), ir.ScalarType(source.dtype))
        state.emit(ir.Op("load_scalar", (source.value, at), results=(value,)))
        state.level.scalars.append(value)
    elif state.entry or state.scalars(source.dtype):
        state.emit(ir.Op("store_scalar", (state.scalar(source.dtype), source.value, at)))


def _query(state: State) -> None:
    """An extent or a step of a view, or the address of a tensor."""
    views = [v for level in state.levels for v in level.views]
    tensor = state.entry and state.chance(0.5)
    if tensor and not state.tensors:
        tensor_argument(state, ir.TensorViewType((4, 16), state.rng.choice(_ELEMENTS)))
    if not tensor and not views:
        raise Unfit
    view = state.rng.choice(state.tensors if tensor else views)
    assert isinstance(view.type, ir.PartitionViewType | ir.TensorViewType)
    dims, d = view.type.dims, view.type.dtype
    if tensor and state.chance(0.6):
        value = ir.Value(state.name("p"), ir.PtrType(d))
        state.emit(ir.Op("tensor_view_addr", (view,), results=(value,)))
        state.level.buffers.append(Buffer(value, d, math.prod(n or 1 for n in dims)))
        return
    name = state.rng.choice(("get_tensor_view_dim", "get_tensor_view_stride"))
    value = ir.Value(state.name("k"), _INDEX)
    state.emit(ir.Op(name, (view, state.constant(state.rng.randrange(len(dims)))), results=(value,)))
    state.level.scalars.append(value)


def _local(state: State) -> None:
    """A local memref: a tile without a written layout, for some time or for good."""
    plain = [h for h in state.tiles() if _is_plain(h)]
    if not plain:
        raise Unfit
    source = state.rng.choice(plain)
    t = source.type
    rows = split(state.rng, t.rows, state.rng.choice((1, 1, 2)))
    value = ir.Value(state.name("r"), ir.MemRefType((*rows, t.cols), t.dtype, ir.AddressSpace.VEC))
    tile = tile_of_memref(value.type) if isinstance(value.type, ir.MemRefType) else None
    if tile is None:
        raise Unfit
    state.emit(ir.Op("memref.alloc", results=(value,)))
    emitted(state, ir.Op("tmov", (source.value,), (value,)))
    if state.chance(0.5):
        emitted(state, ir.Op("tmov", (value,), (source.value,)))
        emitted(state, ir.Op("memref.dealloc", (value,)))
        return
    state.level.tiles.append(Held(value, tile, tile.shape))
    if state.chance(0.6):
        _bind(state, value, tile)


def _is_plain(handle: Held) -> bool:
    """Whether a local memref can stand for a tile of the type."""
    t = handle.type
    return t == ir.TileType(t.dtype, t.rows, t.cols) and handle.sizes == t.shape and t.loc == ir.Loc.VEC


def _bind(state: State, source: ir.Value, t: ir.TileType) -> None:
    """Another handle to a memref, with valid sizes or without."""
    sizes, operands, groups = t.shape, [source], [("source", 1)]
    if state.chance(0.5):
        sizes = (state.rng.randint(1, t.rows), state.rng.randint(1, t.cols))
        operands += [state.number(n) for n in sizes]
        groups += [("valid_row", 1), ("valid_col", 1)]
    value = ir.Value(state.name("r"), source.type)
    emitted(state, ir.Op("bind_tile", tuple(operands), results=(value,), groups=tuple(groups)))
    state.level.tiles.append(Held(value, t, sizes))
