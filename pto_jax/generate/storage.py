"""Statements of generated programs that use slots of tiles, local arrays and structures, and valid sizes."""

from .. import ir
from ..isa.layout import TMOV
from .legal import legal
from .state import Held, State, Unfit, below

# Instructions by name: a generator writes the operations it makes.
_F32 = ir.dtype("f32")


def slots(state: State, held: Held) -> None:
    """Several buffers of a tile's type; one of them, which execution may choose, holds its contents."""
    t = held.type
    if t.loc != ir.Loc.VEC or held.window or not t.is_static or held.sizes != t.valid or 0 in t.valid:
        return
    count = state.rng.choice((2, 4))
    made = ir.Value(state.name("m"), ir.MultiTileType(t, count))
    emitted(state, ir.Op("alloc_multi_tile", results=(made,)))
    chosen = [h for h in state.scalars(ir.INDEX) if state.chance(0.5)]
    at = state.masked(state.rng.choice(chosen), below(count - 1)) if chosen else state.constant(count - 1)
    slot = ir.Value(state.name("h"), t)
    emitted(state, ir.Op("multi_tile_get", (made, at), results=(slot,)))
    emitted(state, ir.Op(TMOV, (held.value,), (slot,)))
    state.level.tiles.append(Held(slot, t, held.sizes))


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
    given = (("array", 1), ("indices", len(at)))
    value = state.scalar(d)
    emitted(state, ir.Op("local_array_set", (array, *at, value), groups=(*given, ("value", 1))))
    emitted(state, ir.Op("local_array_get", (array, *at), results=(result,), groups=given))


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
    held = state.rng.choice(tiles)
    name = state.rng.choice(("get_validshape", "tile_valid_rows", "tile_valid_cols"))
    count = 2 if name == "get_validshape" else 1
    sizes = [ir.Value(state.name("n"), ir.ScalarType(ir.INDEX)) for _ in range(count)]
    emitted(state, ir.Op(name, (held.value,), results=tuple(sizes)))
    state.level.scalars += sizes


def emitted(state: State, op: ir.Op) -> None:
    """Add an operation where it is legal; Unfit where it is not."""
    if not legal(state.profile, op):
        raise Unfit
    state.emit(op)
