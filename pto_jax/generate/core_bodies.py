"""What the cube core and the vector cores of a generated program do.

The cube core multiplies and pushes products, the vector cores work on them and push operands back, each way
or both, whole tiles or halves, in loops of known length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from .. import ir
from . import memory, tiles
from .state import Held, Level, State

# Instructions by name: a generator writes the operations it makes.
_INDEX, _ADDRESS = ir.ScalarType(ir.INDEX), ir.ScalarType(ir.I32)
_VECTOR = frozenset("tadd tsub tmul tmax tmin tadds tmuls tmaxs trelu tneg tabs tmov texpands".split())
Kind = Literal["cube", "vector"]


@dataclass(frozen=True)
class Plan:
    """Sizes of the product, its element type, what is pushed which way and how often."""

    rows: int
    cols: int
    dtype: ir.DType
    split: int
    to_vector: bool
    to_cube: bool
    trips: int
    grid: int
    left: ir.BLayout

    @classmethod
    def draw(cls, state: State, grid: int) -> Plan:
        """A plan for a launch of ``grid`` blocks, drawn from the state's random numbers."""
        rng = state.rng
        to_vector, to_cube = rng.choice(((True, False), (False, True), (True, True)))
        return cls(
            rng.choice((16, 32)),
            rng.choice((32, 64)),
            ir.dtype(rng.choice(("f32", "f16", "bf16"))),
            rng.choice((0, 1, 1, 2)),
            to_vector,
            to_cube,
            rng.choice((1, 1, 2, 3)),
            grid,
            state.profile.left_blayout,
        )

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of what one vector core works on."""
        return (
            self.rows // (2 if self.split == 1 else 1),
            self.cols // (2 if self.split == 2 else 1),
        )

    def vector(self, d: ir.DType) -> ir.TileType:
        """The type of what one vector core works on, with elements of ``d``."""
        return ir.TileType(d, *self.part)

    def boxed(
        self, loc: ir.Loc, d: ir.DType, rows: int, layouts: tuple[ir.BLayout, ir.SLayout]
    ) -> ir.TileType:
        """A tile type of ``rows`` and the product's columns at a place, in fractals of the layouts given."""
        fractal = 1024 if loc == ir.Loc.ACC else 512
        return ir.TileType(
            d, rows, self.cols, loc=loc, blayout=layouts[0], slayout=layouts[1], fractal=fractal
        )

    @property
    def acc(self) -> ir.TileType:
        """The type of the product in the accumulator: f32, in fractals of 1024 bytes."""
        return self.boxed(ir.Loc.ACC, ir.F32, self.rows, (ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR))

    @property
    def slot(self) -> int:
        """Bytes of a slot of the pipe: a product in f32."""
        return self.rows * self.cols * 4


@dataclass(frozen=True)
class Link:
    """How the cores name their pipe: by the kind of kernel, or by a handle."""

    plan: Plan
    pipe: ir.Value | None = None

    @property
    def _given(self) -> ir.Attrs:
        return ir.attrs(split=self.plan.split)

    def push(self, state: State, kind: Kind, tile: ir.Value) -> None:
        """Add what pushes a tile from a core of one kind to those of the other."""
        if self.pipe is not None:
            state.emit(ir.Op("tpush", (tile, self.pipe), attributes=self._given))
            return
        name = "tpush_to_aiv" if kind == "cube" else "tpush_to_aic"
        state.emit(ir.Op(name, (tile,), attributes=self._given))

    def pop(self, state: State, kind: Kind, t: ir.TileType) -> Held:
        """Add what pops a tile of type ``t`` from the other kind of core.

        For a vector core its valid sizes may be numbers of their own.
        """
        value = ir.Value(state.name("t"), t)
        if self.pipe is not None:
            state.emit(ir.Op("declare_tile", results=(value,)))
            state.emit(ir.Op("tpop", (value, self.pipe), attributes=self._given))
            return Held(value, t, t.shape)
        name = "tpop_from_aiv" if kind == "cube" else "tpop_from_aic"
        if kind == "vector" and state.chance(0.2):
            sizes = (state.rng.randint(1, t.rows), state.rng.randint(1, t.cols))
            value = ir.Value(value.name, t.with_valid(None, None))
            numbers = tuple(state.constant(n) for n in sizes)
            groups = (("valid_row", 1), ("valid_col", 1))
            state.emit(ir.Op(name, numbers, results=(value,), attributes=self._given, groups=groups))
            return Held(value, t.with_valid(None, None), sizes)
        state.emit(ir.Op(name, results=(value,), attributes=self._given))
        return Held(value, t, t.shape)

    def free(self, state: State, kind: Kind) -> None:
        """Add what frees the slot of the tile that was popped."""
        if self.pipe is not None:
            state.emit(ir.Op("tfree", (self.pipe,), attributes=self._given))
            return
        state.emit(ir.Op("tfree_from_aiv" if kind == "cube" else "tfree_from_aic", attributes=self._given))


# -- what the cores do -------------------------------------------------------------------------------


def new_tile(state: State, t: ir.TileType) -> ir.Value:
    """Add the allocation of a tile."""
    value = ir.Value(state.name("a"), t)
    state.emit(ir.Op("alloc_tile", results=(value,)))
    return value


def arith(state: State, name: str, *operands: ir.Value) -> ir.Value:
    """Add the ``arith`` operation of a name on indices; its result, an index."""
    value = ir.Value(state.name("k"), _INDEX)
    state.emit(ir.Op(f"arith.{name}", operands, results=(value,)))
    return value


def number_of(state: State, name: str) -> ir.Value:
    """A number of the block or core, as an index."""
    number, value = ir.Value(state.name("b"), ir.ScalarType(ir.I64)), ir.Value(state.name("b"), _INDEX)
    state.emit(ir.Op(name, results=(number,)))
    state.emit(ir.Op("arith.index_cast", (number,), results=(value,)))
    return value


def _repeat(state: State, plan: Plan, body: Callable[[ir.Value], None]) -> None:
    """Something once, or in a loop of known length."""
    if plan.trips == 1:
        body(state.constant(0))
        return
    bounds = tuple(state.constant(n) for n in (0, plan.trips, 1))
    counter = ir.Value(state.name("i"), _INDEX)
    state.levels.append(Level(loop=True))
    body(counter)
    region = ir.Region(tuple(state.levels.pop().ops), (counter,))
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", 0))
    state.emit(ir.Op("scf.for", bounds, regions=(region,), groups=groups))


def cube_core(state: State, plan: Plan, link: Link, x: ir.Value, w: ir.Value, y: ir.Value) -> None:
    """Multiply, push products and multiply by what comes back; the last product is stored."""
    d, boxes = plan.dtype, (ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR)
    mat = plan.boxed(ir.Loc.MAT, d, plan.rows, boxes)
    square = plan.boxed(ir.Loc.MAT, d, plan.cols, boxes)
    left = plan.boxed(ir.Loc.LEFT, d, plan.rows, (plan.left, ir.SLayout.ROW_MAJOR))
    right = plan.boxed(ir.Loc.RIGHT, d, plan.cols, (ir.BLayout.ROW_MAJOR, ir.SLayout.COL_MAJOR))
    m, s, a, b, c = (new_tile(state, t) for t in (mat, square, left, right, plan.acc))
    for op in (
        ir.Op("tload", (x,), (m,)),
        ir.Op("tload", (w,), (s,)),
        ir.Op("tmov", (m,), (a,)),
        ir.Op("tmov", (s,), (b,)),
        ir.Op("tmatmul", (a, b), (c,)),
    ):
        state.emit(op)

    def step(_: ir.Value) -> None:
        if plan.to_vector:
            link.push(state, "cube", c)
        if plan.to_cube:
            back = link.pop(state, "cube", mat)
            state.emit(ir.Op("tmov", (back.value,), (a,)))
            link.free(state, "cube")
        accumulate = plan.to_cube and state.chance(0.5)
        state.emit(ir.Op("tmatmul.acc", (c, a, b), (c,)) if accumulate else ir.Op("tmatmul", (a, b), (c,)))

    _repeat(state, plan, step)
    row = arith(state, "muli", number_of(state, "get_block_idx"), state.constant(plan.rows))
    where = ir.PartitionViewType((plan.rows, plan.cols), ir.F32)
    state.emit(ir.Op("tstore", (c,), (memory.part(state, y, where, (row, state.constant(0))),)))


def vector_core(state: State, plan: Plan, link: Link, z: ir.Value, y: ir.Value) -> None:
    """Pop products, work on them and store them; push operands back."""
    core = number_of(state, "get_subblock_idx")
    state.level.scalars.append(number_of(state, "get_subblock_num"))
    first = ir.Value(state.name("f"), ir.ScalarType(ir.dtype("i1")))
    if plan.split == 0:
        state.emit(
            ir.Op(
                "arith.cmpi", (core, state.constant(0)), results=(first,), attributes=ir.attrs(predicate="eq")
            )
        )
        state.levels.append(Level())
    state.level.views.append(z)
    block = arith(state, "muli", number_of(state, "get_block_idx"), state.constant(plan.rows * plan.trips))

    def step(trip: ir.Value) -> None:
        if plan.to_vector:
            held = link.pop(state, "vector", plan.vector(ir.F32))
            state.level.tiles.append(held)
            work(state)
            at = arith(state, "addi", block, arith(state, "muli", trip, state.constant(plan.rows)))
            _store(state, plan, held, y, at, core)
            link.free(state, "vector")
        if plan.to_cube:
            t = plan.vector(plan.dtype)
            operand = tiles.fresh(state, t, t.shape)
            work(state)
            link.push(state, "vector", operand.value)

    _repeat(state, plan, step)
    if plan.split == 0:
        level = state.levels.pop()
        state.emit(ir.Op("scf.if", (first,), regions=(ir.Region(tuple(level.ops)),)))


def work(state: State) -> None:
    """Add up to two instructions of the vector core on the tiles in scope."""
    options, state.options = state.options, replace(state.options, only=_VECTOR, aliasing=0.0)
    for _ in range(state.rng.randint(0, 2)):
        tiles.instruction(state)
    state.options = options


def _store(state: State, plan: Plan, held: Held, y: ir.Value, row: ir.Value, core: ir.Value) -> None:
    """Store what one core has, at the place of its half."""
    assert held.sizes is not None
    col = state.constant(0)
    if plan.split == 1:
        row = arith(state, "addi", row, arith(state, "muli", core, state.constant(plan.part[0])))
    if plan.split == 2:
        col = arith(state, "muli", core, state.constant(plan.part[1]))
    window = memory.part(state, y, ir.PartitionViewType(held.sizes, ir.F32), (row, col))
    state.emit(ir.Op("tstore", (held.value,), (window,)))
