"""Pointers, memrefs and views of any rank and layout in generated programs, and transfers through them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..ir import types
from ..ir.dtypes import INDEX, DType, dtype
from ..ir.program import Op, Value, attrs
from ..isa.rules.tile_legality import tile_of_memref
from . import tiles
from .legal import judged, legal
from .state import Buffer, Held, State, Unfit, below

# Instructions by name: a generator writes the operations it makes.
_INDEX = types.ScalarType(INDEX)
_ELEMENTS = tuple(map(dtype, ("f32", "f16", "bf16", "i32", "i16", "i8", "u8", "u32")))


def memory(state: State) -> None:
    """A statement about global memory: a transfer, a single element, a question about a view, a memref."""
    makers = (transfer, transfer, transfer, _element, _element, _query, _local)
    if state.attempt(partial(state.rng.choice(makers), state)):
        return
    tiles.instruction(state)


def buffer(state: State, d: DType, count: int) -> Buffer:
    """Global memory of at least a number of elements: one there is, or a new argument."""
    candidates = [b for level in state.levels for b in level.buffers if b.dtype == d and b.count >= count]
    if candidates and (not state.entry or state.chance(0.5)):
        return state.rng.choice(candidates)
    if not state.entry or state.fragment:
        # The text of a fragment does not say what a pointer points to.
        raise Unfit
    count += state.rng.choice((0, 0, 5))
    t = types.MemRefType((count,), d, types.AddressSpace.GM) if state.chance(0.3) else types.PtrType(d)
    made = Buffer(state.argument("g", t, state.recipe(d, (count,))), d, count)
    state.levels[0].buffers.append(made)
    return made


# -- windows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """Extents of a window and of the tensor around it, steps in elements, and where the window starts."""

    dims: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    layout: types.GlobalLayout

    @property
    def count(self) -> int:
        return 1 + sum((n - 1) * s for n, s in zip(self.extents, self.strides, strict=True))


def _split(rng: random.Random, n: int, parts: int) -> list[int]:
    """Numbers with a given product.

    >>> math.prod(_split(random.Random(0), 24, 3))
    24
    """
    factors = []
    for _ in range(parts - 1):
        factors.append(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
        n //= factors[-1]
    factors.append(n)
    return factors if parts else []


def _dims(
    rng: random.Random, t: types.TileType, sizes: tuple[int, int]
) -> tuple[tuple[int, ...], types.GlobalLayout]:
    """Extents of a window that is transferred as rows and columns, and its layout."""
    rows, cols = sizes
    if t.layout == "NZ" and sizes == t.shape and rng.random() < 0.5:
        height, width = t.box
        return (*_split(rng, cols // width, 2), rows // height, height, width), types.GlobalLayout.NZ
    rank = rng.choice((1, 2, 2, 3, 4, 5))
    if t.blayout == types.BLayout.COL_MAJOR and not t.boxed and rank > 1 and rng.random() < 0.8:
        lead = _split(rng, cols, rank - 1)
        return (*lead[1:], rows, lead[0]), types.GlobalLayout.DN
    if rank == 1 and rows == 1:
        return (cols,), types.GlobalLayout.ND
    return (*_split(rng, rows, max(1, rank - 1)), cols), types.GlobalLayout.ND


def _shape(rng: random.Random, t: types.TileType, sizes: tuple[int, int], reads: bool) -> _Shape:
    dims, layout = _dims(rng, t, sizes)
    boxed = layout == types.GlobalLayout.NZ
    extra = [0 if boxed else rng.choice((0, 0, 1, 3)) for _ in dims]
    offsets = tuple(rng.randint(0, n) for n in extra)
    extents = tuple(n + more for n, more in zip(dims, extra, strict=True))
    order = list(reversed(range(len(dims))))
    if layout == types.GlobalLayout.DN:
        order[:2] = order[1], order[0]
    strides, step = [0] * len(dims), rng.choice((1, 1, 1, 1, 2)) if layout == types.GlobalLayout.ND else 1
    for i in order:
        strides[i] = step
        step = step * extents[i] + (0 if boxed else rng.choice((0, 0, 0, 8)))
    if reads and layout == types.GlobalLayout.ND and len(dims) > 1 and rng.random() < 0.05:
        strides[0] = 0
    return _Shape(dims, extents, tuple(strides), offsets, layout)


def _numbers(state: State, numbers: Sequence[int]) -> list[Value]:
    return [state.number(n, 0.75) for n in numbers]


def _open(state: State, dims: Sequence[int]) -> tuple[int | None, ...]:
    """Extents as a type says them: some are only known when the program runs."""
    if state.chance(0.6):
        return tuple(dims)
    return tuple(None if state.chance(0.6) else n for n in dims)


def _view(state: State, d: DType, shape: _Shape) -> tuple[Value, types.GlobalLayout | None]:
    """A view of the tensor around a window, and the layout it says it has."""
    base = state.rng.choice((0, 0, 0, 16))
    source = buffer(state, d, shape.count + base)
    pointer = source.value
    if base:
        if not isinstance(pointer.type, types.PtrType):
            raise Unfit
        pointer = Value(state.name("p"), types.PtrType(d))
        state.emit(Op("addptr", (source.value, state.number(base)), results=(pointer,)))
    rank = len(shape.dims)
    said = shape.layout if shape.layout != types.GlobalLayout.ND or state.chance(0.3) else None
    value = Value(state.name("w"), types.TensorViewType(_open(state, shape.extents), d))
    operands = (pointer, *_numbers(state, shape.extents), *_numbers(state, shape.strides))
    state.emit(
        Op(
            "make_tensor_view",
            operands,
            results=(value,),
            attributes=() if said is None else attrs(layout=said),
            groups=(("ptr", 1), ("shape", rank), ("strides", rank)),
        )
    )
    return value, said


def _part(state: State, d: DType, whole: Value, shape: _Shape) -> Value:
    """The window of a view, in one of its spellings."""
    if shape.dims == shape.extents and state.chance(0.4):
        return whole
    rank = len(shape.dims)
    offsets, groups = _numbers(state, shape.offsets), (("view", 1), ("offsets", rank))
    if state.chance(0.2):
        value = Value(state.name("g"), types.PartitionViewType(shape.dims, d))
        sizes = attrs(sizes=shape.dims)
        state.emit(Op("global_subview", (whole, *offsets), results=(value,), attributes=sizes, groups=groups))
        return value
    value = Value(state.name("g"), types.PartitionViewType(_open(state, shape.dims), d))
    operands = (whole, *offsets, *_numbers(state, shape.dims))
    state.emit(Op("partition_view", operands, results=(value,), groups=(*groups, ("sizes", rank))))
    return value


def _recast(state: State, d: DType, shape: _Shape) -> Value:
    """A memref of global memory seen through other extents and strides."""
    source = buffer(state, d, shape.count)
    if not isinstance(source.value.type, types.MemRefType) or shape.layout != types.GlobalLayout.ND:
        raise Unfit
    rank = len(shape.dims)
    value = Value(
        state.name("g"), types.MemRefType(shape.dims, d, types.AddressSpace.GM, shape.strides, None)
    )
    operands = (source.value, state.number(0), *_numbers(state, shape.dims), *_numbers(state, shape.strides))
    groups = (("source", 1), ("offsets", 1), ("sizes", rank), ("strides", rank))
    state.emit(Op("memref.reinterpret_cast", operands, results=(value,), groups=groups))
    return value


def transfer(state: State) -> None:
    """A load or store of a tile through a view of its own."""
    candidates = [h for h in state.tiles() if h.type.conv is None and not h.type.dtype.packed]
    if not candidates:
        raise Unfit
    held, reads = state.rng.choice(candidates), state.chance(0.5)
    sizes = held.sizes
    if sizes is None or 0 in sizes or state.chance(0.3):
        sizes = held.type.shape
    shape, d = _shape(state.rng, held.type, sizes, reads), held.type.dtype
    layout: types.GlobalLayout | None = None
    if state.chance(0.15):
        window = _recast(state, d, shape)
    else:
        whole, layout = _view(state, d, shape)
        window = _part(state, d, whole, shape)
    op = Op("tload", (window,), (held.value,)) if reads else Op("tstore", (held.value,), (window,))
    regions = {} if held.sizes is None else {held.value.name: held.sizes}
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
    if not isinstance(source.value.type, types.PtrType):
        raise Unfit
    indices = state.scalars(INDEX)
    if indices and state.chance(0.5):
        at = state.masked(state.rng.choice(indices), below(source.count - 1))
    else:
        at = state.number(state.rng.randrange(source.count))
    if state.chance(0.5):
        value = Value(state.name("s"), types.ScalarType(source.dtype))
        state.emit(Op("load_scalar", (source.value, at), results=(value,)))
        state.level.scalars.append(value)
    elif state.entry or state.scalars(source.dtype):
        state.emit(Op("store_scalar", (state.scalar(source.dtype), source.value, at)))


def _query(state: State) -> None:
    """An extent or a step of a view, or the address of a tensor."""
    views = [v for level in state.levels for v in level.views]
    tensors = state.tensors if state.entry else []
    if not views and not tensors:
        raise Unfit
    view = state.rng.choice([*views, *tensors])
    assert isinstance(view.type, types.PartitionViewType | types.TensorViewType)
    dims, d = view.type.dims, view.type.dtype
    if view in tensors and state.chance(0.4):
        value = Value(state.name("p"), types.PtrType(d))
        state.emit(Op("tensor_view_addr", (view,), results=(value,)))
        state.level.buffers.append(Buffer(value, d, math.prod(n or 1 for n in dims)))
        return
    name = state.rng.choice(("get_tensor_view_dim", "get_tensor_view_stride"))
    value = Value(state.name("k"), _INDEX)
    state.emit(Op(name, (view, state.constant(state.rng.randrange(len(dims)))), results=(value,)))
    state.level.scalars.append(value)


def _local(state: State) -> None:
    """A local memref: a tile without a written layout, for some time or for good."""
    plain = [h for h in state.tiles() if _is_plain(h)]
    if not plain:
        raise Unfit
    source = state.rng.choice(plain)
    t = source.type
    rows = _split(state.rng, t.rows, state.rng.choice((1, 1, 2)))
    value = Value(state.name("r"), types.MemRefType((*rows, t.cols), t.dtype, types.AddressSpace.VEC))
    tile = tile_of_memref(value.type) if isinstance(value.type, types.MemRefType) else None
    if tile is None:
        raise Unfit
    state.emit(Op("memref.alloc", results=(value,)))
    _checked(state, Op("tmov", (source.value,), (value,)))
    if state.chance(0.3):
        _checked(state, Op("tmov", (value,), (source.value,)))
        _checked(state, Op("memref.dealloc", (value,)))
        return
    state.level.tiles.append(Held(value, tile, tile.shape))
    if state.chance(0.3):
        _bind(state, value, tile)


def _is_plain(held: Held) -> bool:
    """Whether a local memref can stand for a tile of the type."""
    t = held.type
    return t == types.TileType(t.dtype, t.rows, t.cols) and held.sizes == t.shape and t.loc == types.Loc.VEC


def _bind(state: State, source: Value, t: types.TileType) -> None:
    """Another handle to a memref, with valid sizes or without."""
    sizes, operands, groups = t.shape, [source], [("source", 1)]
    if state.chance(0.5):
        sizes = (state.rng.randint(1, t.rows), state.rng.randint(1, t.cols))
        operands += [state.number(n) for n in sizes]
        groups += [("valid_row", 1), ("valid_col", 1)]
    value = Value(state.name("r"), source.type)
    _checked(state, Op("bind_tile", tuple(operands), results=(value,), groups=tuple(groups)))
    state.level.tiles.append(Held(value, t, sizes))


def _checked(state: State, op: Op) -> None:
    if not legal(state.profile, op):
        raise Unfit
    state.emit(op)
