"""Windows of global memory in generated programs."""

from collections.abc import Sequence

from ..ir import INDEX, Op, PartitionViewType, TensorViewType, Value
from ..isa.views import PARTITION_VIEW
from .state import State, below
from .windows import far_rows, pointer_view


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
