"""Windows of global memory in generated programs: extents, steps and layouts of many kinds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .. import ir
from ..ir import INDEX, Op, PartitionViewType, TensorViewType, Value
from ..isa.views import ADDPTR, MAKE_TENSOR_VIEW, PARTITION_VIEW
from .state import Buffer, State, Unfit, below


def buffer(state: State, d: ir.DType, count: int) -> Buffer:
    """Global memory of at least a number of elements: one there is, or a new argument."""
    candidates = [b for level in state.levels for b in level.buffers if b.dtype == d and b.count >= count]
    if candidates and (not state.entry or state.chance(0.5)):
        return state.rng.choice(candidates)
    if not state.entry or state.fragment:
        # The text of a fragment does not say what a pointer points to.
        raise Unfit
    count += state.rng.choice((0, 0, 5))
    t = ir.MemRefType((count,), d, ir.AddressSpace.GM) if state.chance(0.3) else ir.PtrType(d)
    result = Buffer(state.argument("g", t, state.recipe(d, (count,))), d, count)
    state.levels[0].buffers.append(result)
    return result


@dataclass(frozen=True)
class Shape:
    """Extents of a window and of the tensor around it, steps in elements, and where the window starts."""

    dims: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    layout: ir.GlobalLayout

    @property
    def count(self) -> int:
        """Elements from the first of the tensor to the last."""
        return 1 + sum((n - 1) * s for n, s in zip(self.extents, self.strides, strict=True))


def far_rows(rng: random.Random, dims: tuple[int, int]) -> Shape:
    """A window whose rows lie apart, sometimes its columns too.

    >>> shape = far_rows(random.Random(0), (4, 8))
    >>> shape.strides[0] >= 8 * shape.strides[1]
    True
    """
    extents = (dims[0] + rng.choice((0, 3)), dims[1] + rng.choice((0, 0, 5)))
    step = rng.choice((1, 1, 1, 2, 3))
    strides = (extents[1] * step + rng.choice((0, 1, 8)), step)
    offsets = (rng.randint(0, extents[0] - dims[0]), rng.randint(0, extents[1] - dims[1]))
    return Shape(dims, extents, strides, offsets, ir.GlobalLayout.ND)


def split(rng: random.Random, n: int, parts: int) -> list[int]:
    """Numbers with a given product.

    >>> a, b, c = split(random.Random(0), 24, 3)
    >>> a * b * c
    24
    """
    factors = []
    for _ in range(parts - 1):
        factors.append(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
        n //= factors[-1]
    factors.append(n)
    return factors if parts else []


def _dims(
    rng: random.Random, t: ir.TileType, sizes: tuple[int, int]
) -> tuple[tuple[int, ...], ir.GlobalLayout]:
    """Extents of a window that is transferred as rows and columns, and its layout."""
    rows, cols = sizes
    if t.layout == "NZ" and sizes == t.shape and rng.random() < 0.5:
        height, width = t.box
        return (*split(rng, cols // width, 2), rows // height, height, width), ir.GlobalLayout.NZ
    rank = rng.choice((1, 2, 2, 3, 4, 5))
    if t.blayout == ir.BLayout.COL_MAJOR and not t.boxed and rank > 1 and rng.random() < 0.8:
        lead = split(rng, cols, rank - 1)
        return (*lead[1:], rows, lead[0]), ir.GlobalLayout.DN
    if rank == 1 and rows == 1:
        return (cols,), ir.GlobalLayout.ND
    return (*split(rng, rows, max(1, rank - 1)), cols), ir.GlobalLayout.ND


def shape_for(rng: random.Random, t: ir.TileType, sizes: tuple[int, int], reads: bool) -> Shape:
    """A window for a transfer of a tile's valid region, in a tensor that may be larger."""
    dims, layout = _dims(rng, t, sizes)
    boxed = layout == ir.GlobalLayout.NZ
    extra = [0 if boxed else rng.choice((0, 0, 1, 3)) for _ in dims]
    offsets = tuple(rng.randint(0, n) for n in extra)
    extents = tuple(n + more for n, more in zip(dims, extra, strict=True))
    order = list(reversed(range(len(dims))))
    if layout == ir.GlobalLayout.DN:
        order[:2] = order[1], order[0]
    strides, step = [0] * len(dims), rng.choice((1, 1, 1, 1, 2)) if layout == ir.GlobalLayout.ND else 1
    for i in order:
        strides[i] = step
        step = step * extents[i] + (0 if boxed else rng.choice((0, 0, 0, 8)))
    if reads and layout == ir.GlobalLayout.ND and len(dims) > 1 and rng.random() < 0.05:
        strides[0] = 0
    return Shape(dims, extents, tuple(strides), offsets, layout)


def numbers(state: State, numbers: Sequence[int], known: float = 0.75) -> list[ir.Value]:
    """Indices of given values, each as likely a constant as ``known`` says."""
    return [state.number(n, known) for n in numbers]


def opened(state: State, dims: Sequence[int]) -> tuple[int | None, ...]:
    """Extents as a type says them: some are only known when the program runs."""
    if state.chance(0.6):
        return tuple(dims)
    return tuple(None if state.chance(0.6) else n for n in dims)


def pointer_view(
    state: State, d: ir.DType, shape: Shape, known: float = 0.75
) -> tuple[ir.Value, ir.GlobalLayout | None]:
    """A view of the tensor around a window, and the layout it says it has.

    ``known`` is how likely the text says an extent or a step.
    """
    base = state.rng.choice((0, 0, 0, 16))
    source = buffer(state, d, shape.count + base)
    pointer = source.value
    if base and isinstance(pointer.type, ir.PtrType):
        pointer = ir.Value(state.name("p"), ir.PtrType(d))
        state.emit(ir.Op(ADDPTR, (source.value, state.number(base)), results=(pointer,)))
    rank = len(shape.dims)
    said = shape.layout if shape.layout != ir.GlobalLayout.ND or state.chance(0.3) else None
    value = ir.Value(state.name("w"), ir.TensorViewType(opened(state, shape.extents), d))
    operands = (pointer, *numbers(state, shape.extents, known), *numbers(state, shape.strides, known))
    state.emit(
        ir.Op(
            MAKE_TENSOR_VIEW,
            operands,
            results=(value,),
            attributes=() if said is None else ir.attrs(layout=said),
            groups=(("ptr", 1), ("shape", rank), ("strides", rank)),
        )
    )
    return value, said


def view(state: State, t: PartitionViewType) -> Value:
    """A window of a type: one there is, a new argument, or a part of a larger tensor."""
    candidates = [v for level in state.levels for v in level.views if v.type == t]
    if candidates and (not state.entry or state.chance(0.5)):
        return state.rng.choice(candidates)
    dims = tuple(n or 1 for n in t.dims)
    if len(dims) == 2 and not t.dtype.packed and state.chance(0.6):
        pointers = state.entry and not state.fragment and state.chance(0.4)
        make = _strided if pointers else _window
        value = make(state, t, (dims[0], dims[1]))
        state.level.views.append(value)
        return value
    value = state.argument("g", t, state.recipe(t.dtype, dims))
    state.levels[0].views.append(value)
    return value


def _window(state: State, t: PartitionViewType, dims: tuple[int, int]) -> Value:
    whole = TensorViewType((dims[0] + 8, dims[1] + state.rng.choice((0, 8))), t.dtype)
    same = [v for v in state.tensors if v.type == whole]
    tensor = state.rng.choice(same) if same and state.chance(0.6) else tensor_argument(state, whole)
    offsets = []
    for size, extent in zip(dims, whole.dims, strict=True):
        room = (extent or 0) - size
        indices = state.scalars(INDEX)
        if room and indices and state.chance(0.6):
            offsets.append(state.masked(state.rng.choice(indices), below(room)))
        else:
            offsets.append(state.number(state.rng.randint(0, room)))
    return part(state, tensor, t, offsets)


def _strided(state: State, t: PartitionViewType, dims: tuple[int, int]) -> Value:
    """A part of what a pointer points to, in steps that only execution may know."""
    shape = far_rows(state.rng, dims)
    tensor, _ = pointer_view(state, t.dtype, shape, known=0.4)
    return part(state, tensor, t, [state.number(n) for n in shape.offsets])


def tensor_argument(state: State, t: TensorViewType) -> Value:
    """A new argument that is a tensor, with random contents; sizes known at run time only are 1."""
    value = state.argument("w", t, state.recipe(t.dtype, tuple(n or 1 for n in t.dims)))
    state.tensors.append(value)
    return value


def part(state: State, tensor: Value, t: PartitionViewType, offsets: Sequence[Value]) -> Value:
    """The window of a tensor from some offsets on."""
    value = Value(state.name("g"), t)
    sizes = [state.constant(n or 1) for n in t.dims]
    rank = len(sizes)
    state.emit(
        Op(
            PARTITION_VIEW,
            (tensor, *offsets, *sizes),
            results=(value,),
            groups=(("view", 1), ("offsets", rank), ("sizes", rank)),
        )
    )
    return value
