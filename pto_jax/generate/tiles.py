"""Instructions of generated programs, and the tiles they read and write."""

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from .. import ir
from ..isa.declare import Operand
from ..isa.effects import kept_apart
from ..isa.layout import TMOV
from ..isa.memory import TLOAD
from ..isa.rules.constraints import element_type
from ..isa.samples.operations import Sample
from ..isa.views import ALLOC_TILE
from . import operations, values
from .operations import Wanted, judged, legal, wanted
from .selection import select
from .state import Held, Sizes, State, Unfit
from .windows import view


def instruction(state: State, turn: int | None = None) -> None:
    """One instruction with operands that are there, as far as there are any, and new ones otherwise.

    A ``turn`` chooses the instruction and a type that an operand has: all pairs, one after the other.
    """
    selection = select(state.profile.name, state.options)
    there = {_place(h.type) for h in state.tiles()}
    for _ in range(40 if state.options.defined else 4):
        samples = selection.draw(state.rng, turn)
        if samples[0].instruction.cls == "sync_config" and len(state.levels) > 1:
            continue
        sample = max(state.rng.choices(samples, k=4), key=lambda s: _matches(there, s))
        if not state.entry and _needs_arguments(state, sample):
            continue
        want = wanted(state.rng, sample, state.profile, state.options, state.scale)
        if want is not None and state.attempt(partial(emit, state, want)):
            return


def _needs_arguments(state: State, sample: Sample) -> bool:
    """Whether a called function lacks an operand that it cannot make."""
    views = {v.type for level in state.levels for v in level.views}
    result = (
        t
        for t in sample.types.values()
        if isinstance(t, ir.PartitionViewType | ir.VectorType | ir.MemRefType)
    )
    scalars = (t for t in sample.types.values() if isinstance(t, ir.ScalarType))
    return not all(t in views for t in result) or any(t.dtype.name in ("f16", "bf16") for t in scalars)


@lru_cache(1 << 12)
def _place(t: ir.TileType) -> ir.TileType:
    """A tile's type whatever its valid region."""
    return replace(t, v_row=-1, v_col=-1)


def _matches(there: Container[ir.TileType], sample: Sample) -> int:
    return sum(isinstance(t, ir.TileType) and _place(t) in there for t in sample.types.values())


def emit(state: State, want: Wanted) -> None:
    """The operation of a sample on values of this program."""
    form, declared = want.sample.form, want.instruction
    ulp = _bound(want)
    ins: list[ir.Value] = []
    for name in form:
        ins.append(_source(state, want, declared.operand(name), ins))
    outs: list[ir.Value] = []
    results: list[Held] = []
    destinations = [o for o in declared.destinations if o.name in want.types]
    bind = _may_bind(state, want, destinations) and state.chance(state.options.results)
    bind = bind or declared.syntax == "custom"
    for operand in destinations:
        t = want.types[operand.name]
        if bind:
            assert isinstance(t, ir.TileType)
            handle = Held(ir.Value(state.name("t"), t), t, want.sizes[operand.name])
            results.append(handle)
            outs.append(handle.value)
        elif isinstance(t, ir.TileType):
            outs.append(_destination(state, want, operand.name, ulp, ins, outs))
        elif isinstance(t, ir.PartitionViewType):
            outs.append(view(state, t))
        else:
            assert isinstance(t, ir.VectorType)
            outs.append(state.argument("v", t, state.recipe(t.dtype, t.dims)))
    op = ir.Op(
        declared.name,
        tuple(ins),
        () if bind else tuple(outs),
        tuple(outs) if bind else (),
        ir.attrs(want.attributes),
    )
    state.emit(op)
    if ulp:
        state.loose.update((v.name, ulp) for v in outs)
    else:
        state.level.tiles += results


def _bound(want: Wanted) -> int:
    """How far results may be from the interpreter's; 0 for exact instructions."""
    dst = want.types.get("dst")
    d = element_type(dst) if dst is not None else None
    return want.instruction.ulp.get(d.name, 0) if d is not None else 0


def _may_bind(state: State, want: Wanted, destinations: list[Operand]) -> bool:
    """Whether an operation can make its results: exact ones, tiles of static size that it only writes."""
    if state.options.defined and not operations.fills_results(want.instruction):
        return False
    tiles = [want.tile(o.name) for o in destinations]
    plain = all(o.role == "out" and not o.optional for o in destinations)
    return plain and len(tiles) == 1 and all(t is not None and t.is_static and t.conv is None for t in tiles)


def _source(state: State, want: Wanted, operand: Operand, others: Sequence[ir.Value]) -> ir.Value:
    t = want.types[operand.name]
    count = operations.places_of(want, operand, state.profile, state.options)
    if count is not None:
        return _positions(state, t, want.sizes[operand.name], count)
    recipe = _recipe(state, want, operand)
    if recipe is not None:
        return _restricted(state, t, want.sizes.get(operand.name), recipe)
    numbers = want.sample.constants.get(operand.name)
    if numbers:
        d = element_type(t)
        if d == ir.INDEX:
            return state.number(numbers[0])
        assert d is not None
        return state.constant(float(numbers[0]) if d.is_float else numbers[0], d)
    if isinstance(t, ir.TileType):
        if operand.role == "tmp":
            return fresh(state, t, want.sizes[operand.name], filled=False).value
        return tile(state, t, want.sizes[operand.name], _tolerant(state, want), others).value
    if isinstance(t, ir.PartitionViewType):
        return view(state, t)
    if isinstance(t, ir.VectorType):
        return state.argument("v", t, state.recipe(t.dtype, t.dims))
    if isinstance(t, ir.MemRefType):
        return state.argument("g", t, state.recipe(t.dtype, tuple(n or 1 for n in t.dims)))
    assert isinstance(t, ir.ScalarType)
    return state.scalar(t.dtype)


def _recipe(state: State, want: Wanted, operand: Operand) -> values.Recipe | None:
    """The recipe of an operand whose values matter: for what is defined, and for what is rare otherwise.

    Among any numbers shift counts are too large, a line has a NaN always or never, nothing is rounded that
    lies half way.
    """
    declared = want.instruction
    if state.options.defined:
        return operations.recipe_of(declared, operand.name)
    own = state.entry and (state.tile_arguments or want.tile(operand.name) is None)
    if not own or operand.role != "in" or not state.chance(0.5):
        return None
    if operand.name == declared.shift_count:
        return "counts"
    d = element_type(want.types[operand.name])
    if d is None or not d.is_float or want.tile(operand.name) is None:
        return None
    if any(a.type is ir.RoundMode for a in declared.attributes):
        return "ties"
    return "rare" if declared.lanes == "line" else None


def _restricted(state: State, t: ir.Type, sizes: Sizes | None, recipe: values.Recipe) -> ir.Value:
    """An argument of its own, with values that stay as a recipe makes them."""
    if isinstance(t, ir.ScalarType):
        if not state.entry:
            return state.constant(0.5 if t.dtype.is_float else 1, t.dtype)
        return state.argument("s", t, state.words(t.dtype, (1,), recipe)[0])
    assert isinstance(t, ir.TileType)
    if not state.entry or not state.tile_arguments:
        raise Unfit
    words = state.words(t.dtype, t.shape, recipe)
    return state.argument("x", t, words, None if t.is_static else sizes)


def _positions(state: State, t: ir.Type, sizes: Sizes, count: int) -> ir.Value:
    """A tile of positions that nothing else writes: an argument, or loaded from a window of its own."""
    assert isinstance(t, ir.TileType)
    if not state.entry:
        raise Unfit
    if state.tile_arguments:
        words = values.positions(state.numbers, t.dtype, t.shape, count)
        return state.argument("x", t, words, None if t.is_static else sizes)
    handle = _allocated(state, t, sizes, None, shown=False)
    if 0 not in sizes:
        window = ir.PartitionViewType(sizes, t.dtype)
        source = state.argument("g", window, values.positions(state.numbers, t.dtype, sizes, count))
        op = ir.Op(TLOAD, (source,), (handle.value,))
        if not legal(state.profile, op):
            raise Unfit
        state.emit(op)
    return handle.value


def tile(
    state: State, t: ir.TileType, sizes: Sizes, tolerant: bool = False, others: Sequence[ir.Value] = ()
) -> Held:
    """A tile to read: one of the type and region there is, or a new one.

    One that the operation has already ``others`` is rare: with equal operands many faults do not show.
    """
    candidates = _fitting(state, t, sizes, tolerant)
    if others and state.chance(0.9):
        candidates = [h for h in candidates if h.value not in others]
    if candidates and state.chance(state.options.reuse):
        return state.rng.choice(candidates)
    return fresh(state, t, sizes)


def _fitting(state: State, t: ir.TileType, sizes: Sizes, tolerant: bool) -> list[Held]:
    return [h for h in state.tiles() if h.type == t and (h.sizes == sizes or (h.sizes is None and tolerant))]


def _tolerant(state: State, want: Wanted) -> bool:
    """Whether an instruction takes tiles of any valid region."""
    rules = (c for c in want.instruction.constraints if state.profile.name in c.profiles)
    plain = want.instruction.lanes == "same" and not state.options.defined
    return plain and all(c.region is None or c.severity != "error" for c in rules)


def _destination(
    state: State, want: Wanted, name: str, ulp: int, sources: list[ir.Value], others: list[ir.Value]
) -> ir.Value:
    """A tile to write, sometimes one in the place of a source.

    Results that need not be exact go where nothing reads them.
    """
    t, sizes = want.types[name], want.sizes[name]
    assert isinstance(t, ir.TileType)
    if ulp:
        return fresh(state, t, sizes, filled=True, hidden=True).value
    if _lies_apart(state, want, name):
        return fresh(state, t, sizes, apart=True).value
    used = [h for h in state.tiles() if h.value in sources and h.type.bytes >= t.bytes]
    places = [h.at for h in used if h.at is not None]
    if places and not state.options.defined and state.chance(0.2):
        return _allocated(state, t, sizes, places[0]).value
    candidates = [h for h in _fitting(state, t, sizes, _tolerant(state, want)) if h.value not in others]
    if candidates and state.chance(state.options.reuse):
        return state.rng.choice(candidates).value
    return fresh(state, t, sizes).value


def _lies_apart(state: State, want: Wanted, name: str) -> bool:
    """Whether a destination shares no bytes with some other operand; scratch is always a tile of its own.

    Of two destinations one may lie anywhere.
    """
    result = kept_apart(want.instruction, want.sample.form, want.types, state.profile.name)
    written = {o.name for o in want.instruction.destinations}
    pairs = ((a, b) for a, b, _ in result if want.instruction.operand(a).role != "tmp")
    return any(name == a or (name == b and a not in written) for a, b in pairs)


def fresh(
    state: State, t: ir.TileType, sizes: Sizes, filled: bool = True, hidden: bool = False, apart: bool = False
) -> Held:
    """A new tile: an argument, or an allocation into which an argument is copied.

    One that has to lie ``apart`` has no address, which others could share.
    """
    placed = filled and not (hidden or apart) and t.loc == ir.Loc.VEC and t.conv is None
    placed = placed and state.chance(state.options.addresses)
    as_argument = state.entry and state.tile_arguments
    if as_argument and not placed and (hidden or state.chance(0.8) or not filled):
        handle = Held(_tile_argument(state, t, sizes), t, sizes)
        if not hidden and filled:
            state.levels[0].tiles.append(handle)
        return handle
    handle = _allocated(state, t, sizes, address(state, t.bytes) if placed else None, shown=False)
    if filled and not _fill(state, handle, sizes) and state.options.defined:
        raise Unfit
    if filled and not hidden:
        state.level.tiles.append(handle)
    return handle


def _allocated(state: State, t: ir.TileType, sizes: Sizes, at: ir.Value | None, shown: bool = True) -> Held:
    """An allocated tile, at an address or anywhere; ``shown`` to later operations."""
    ins = [] if at is None else [at]
    groups = [("addr", 1)] * len(ins)
    for name, static, size in zip(("valid_row", "valid_col"), t.valid, sizes, strict=True):
        if static is None:
            ins.append(state.number(size))
            groups.append((name, 1))
    handle = Held(ir.Value(state.name("a"), t), t, sizes, at)
    state.emit(ir.Op(ALLOC_TILE, tuple(ins), results=(handle.value,), groups=tuple(groups)))
    if shown:
        state.level.tiles.append(handle)
    return handle


def address(state: State, size: int) -> ir.Value:
    """A byte address, in some programs one that only execution knows."""
    at = state.place(size)
    if state.moving and state.entry and state.chance(0.3):
        return state.argument("m", ir.ScalarType(ir.I64), np.array(at, np.uint64))
    return state.constant(at, ir.I64)


def _tile_argument(state: State, t: ir.TileType, sizes: Sizes) -> ir.Value:
    return state.argument("x", t, state.recipe(t.dtype, t.shape), None if t.is_static else sizes)


def _fill(state: State, handle: Held, sizes: Sizes) -> bool:
    """Contents for an allocated tile, where a copy is legal; whether it was."""
    same = [h for h in state.tiles() if h.type == handle.type and h.sizes == sizes]
    if same and state.chance(0.7):
        source = state.rng.choice(same).value
    elif state.entry and state.tile_arguments:
        source = _tile_argument(state, handle.type, sizes)
    elif 0 not in sizes and not (handle.type.dtype.packed and sizes[1] % 2):
        return _load(state, handle, ir.PartitionViewType(sizes, handle.type.dtype))
    else:
        return 0 in sizes
    op = ir.Op(TMOV, (source,), (handle.value,))
    possible = legal(state.profile, op)
    if possible:
        state.emit(op)
    return possible


def _load(state: State, handle: Held, t: ir.PartitionViewType) -> bool:
    """Contents from global memory, where that is legal; whether it was."""
    has_view = any(v.type == t for level in state.levels for v in level.views)
    op = ir.Op(TLOAD, (ir.Value("g", t),), (handle.value,))
    # A window of a pointer's rows has their layout.
    shapes, rows = {"g": tuple(n or 1 for n in t.dims)}, {"g": ir.GlobalLayout.ND}
    possible = (state.entry or has_view) and legal(state.profile, op)
    if possible and judged(state.profile, op, shapes=shapes, layouts=rows) != "illegal":
        state.emit(ir.Op(TLOAD, (view(state, t),), (handle.value,)))
        return True
    return False
