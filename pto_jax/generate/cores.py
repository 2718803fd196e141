"""Generated programs for a cube core and vector cores that exchange tiles by pipes or use flags.

Functions of both kinds of kernel, or two sections of one function, hold the operations of the cores. The cube
core multiplies and pushes products, the vector cores compute with them and push operands back, in one
direction or both, whole tiles or halves, in loops of constant length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .. import ir
from . import tiles, windows
from .state import Held, Level, State
from .windows import part

# Instructions by name: a generator writes the operations it makes.
_INDEX = ir.ScalarType(ir.INDEX)
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
    state.emit(ir.Op("tstore", (c,), (windows.part(state, y, where, (row, state.constant(0))),)))


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
            handle = link.pop(state, "vector", plan.vector(ir.F32))
            state.level.tiles.append(handle)
            work(state)
            at = arith(state, "addi", block, arith(state, "muli", trip, state.constant(plan.rows)))
            _store(state, plan, handle, y, at, core)
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


def _store(state: State, plan: Plan, handle: Held, y: ir.Value, row: ir.Value, core: ir.Value) -> None:
    """Store what one core has, at the place of its half."""
    assert handle.sizes is not None
    col = state.constant(0)
    if plan.split == 1:
        row = arith(state, "addi", row, arith(state, "muli", core, state.constant(plan.part[0])))
    if plan.split == 2:
        col = arith(state, "muli", core, state.constant(plan.part[1]))
    window = windows.part(state, y, ir.PartitionViewType(handle.sizes, ir.F32), (row, col))
    state.emit(ir.Op("tstore", (handle.value,), (window,)))


# Instructions by name: a generator writes the operations it makes.
_ADDRESS = ir.ScalarType(ir.I32)


def cores(state: State, grid: int) -> None:
    """The body of an entry whose cores meet, with the functions it calls."""
    plan = Plan.draw(state, grid)
    d, total = plan.dtype, plan.rows * grid
    x = _argument(state, ir.PartitionViewType((plan.rows, plan.cols), d))
    w = _argument(state, ir.PartitionViewType((plan.cols, plan.cols), d))
    z = _argument(state, ir.PartitionViewType(plan.part, d))
    y = _argument(state, ir.TensorViewType((total, plan.cols), ir.F32))
    v = _argument(state, ir.TensorViewType((total * plan.trips, plan.cols), ir.F32))
    pick = state.rng.random()
    if pick < 0.2:
        _by_flags(state, plan, (x, w, y))
    elif pick < 0.4:
        _in_sections(state, plan, (x, w, y), (z, v))
    else:
        _in_functions(state, plan, (x, w, y), (z, v))


def _argument(state: State, t: ir.PartitionViewType | ir.TensorViewType) -> ir.Value:
    return state.argument("g", t, state.recipe(t.dtype, tuple(n or 1 for n in t.dims)))


def _section(state: State, kind: Kind, body: Callable[[], None]) -> ir.Op:
    """The operations of one kind of core inside a function."""
    state.levels.append(Level())
    entry, state.entry = state.entry, False
    body()
    state.entry = entry
    return ir.Op(f"section.{kind}", regions=(ir.Region(tuple(state.levels.pop().ops)),))


def _in_some_order(state: State, ops: list[ir.Op]) -> None:
    state.rng.shuffle(ops)
    for op in ops:
        state.emit(op)


def _ring(state: State, plan: Plan, address: ir.Value, peer: ir.Value, memory: ir.Value | None) -> ir.Value:
    """A handle of a pipe over a buffer, or with a flag of its own."""
    both = plan.to_vector and plan.to_cube
    attributes = {"dir_mask": plan.to_vector + 2 * plan.to_cube, "slot_size": plan.slot, "flag_base": 0}
    attributes["slot_num"] = 4 if both else 8
    pipe = ir.Value(state.name("r"), ir.OpaqueType("pipe"))
    locals_ = (address, peer) if both else (address,)
    groups: tuple[tuple[str, int], ...] = ()
    name, operands = "initialize_l2l_pipe", locals_
    if memory is not None:
        names = ("gm_addr", "local_addr", "peer_local_addr")
        name, operands = "initialize_l2g2l_pipe", (memory, *locals_)
        groups = tuple((n, 1) for n in names[: len(operands)])
    state.emit(ir.Op(name, operands, results=(pipe,), attributes=ir.attrs(attributes), groups=groups))
    return pipe


def _in_sections(state: State, plan: Plan, cube: Sequence[ir.Value], vector: Sequence[ir.Value]) -> None:
    """Both kinds of cores in one function, with a pipe that is a handle."""
    address = state.constant(0, ir.I32)
    link = Link(plan, _ring(state, plan, address, address, None))
    sections = [
        _section(state, "cube", lambda: cube_core(state, plan, link, *cube)),
        _section(state, "vector", lambda: vector_core(state, plan, link, *vector)),
    ]
    _in_some_order(state, sections)


def _by_flags(state: State, plan: Plan, cube: Sequence[ir.Value]) -> None:
    """The vector core waits for what the cube core stores to global memory."""
    plan = replace(plan, to_vector=False, to_cube=False, split=0)
    flag, t = state.rng.randint(0, 7), ir.TileType(ir.F32, plan.rows, plan.cols)
    where = ir.PartitionViewType((plan.rows, plan.cols), ir.F32)

    def multiply() -> None:
        cube_core(state, plan, Link(plan), *cube)
        state.emit(ir.Op("sync.set", attributes=ir.attrs(pipe=ir.Pipe.FIX, event=flag)))

    def negate() -> None:
        row = arith(state, "muli", number_of(state, "get_block_idx"), state.constant(plan.rows))
        handle = Held(new_tile(state, t), t, t.shape)
        window = part(state, cube[-1], where, (row, state.constant(0)))
        state.emit(ir.Op("sync.wait", attributes=ir.attrs(pipe=ir.Pipe.MTE2, event=flag)))
        state.emit(ir.Op("tload", (window,), (handle.value,)))
        state.level.tiles.append(handle)
        work(state)
        state.emit(ir.Op("tstore", (handle.value,), (window,)))

    sections = [_section(state, "cube", multiply), _section(state, "vector", negate)]
    _in_some_order(state, sections)


def _in_functions(state: State, plan: Plan, cube: Sequence[ir.Value], vector: Sequence[ir.Value]) -> None:
    """A function for each kind of core, connected by buffers they reserve and import."""
    names: dict[Kind, str] = {"cube": state.name("cube"), "vector": state.name("vector")}
    memory: list[ir.Value] = []
    if state.chance(0.5):
        t, count = ir.PtrType(ir.F32), plan.grid * plan.slot * 4
        memory = [state.argument("g", t, state.recipe(ir.F32, (count,)))]
    handles = state.chance(0.4)
    calls = []
    both: tuple[tuple[Kind, Sequence[ir.Value]], ...] = (("cube", cube), ("vector", vector))
    for kind, views in both:
        passed = (*views, *memory)
        state.functions.append(_function(state, plan, kind, names, passed, bool(memory), handles))
        calls.append(ir.Op("call", passed, attributes=ir.attrs(callee=ir.Symbol(names[kind]))))
    _in_some_order(state, calls)


def _function(
    state: State,
    plan: Plan,
    kind: Kind,
    names: dict[Kind, str],
    passed: Sequence[ir.Value],
    memory: bool,
    handles: bool,
) -> ir.Function:
    outer, entry = state.levels, state.entry
    state.levels, state.entry = [Level()], False
    parameters = tuple(ir.Value(state.name("p"), v.type) for v in passed)
    slots = _slots(state, plan, parameters[-1]) if memory else None
    own, peer = _buffers(state, plan, kind, names)
    to_vector, to_cube = (peer, own) if kind == "cube" else (own, peer)
    if handles:
        first, second = (to_vector, to_cube) if plan.to_vector else (to_cube, to_vector)
        link = Link(plan, _ring(state, plan, first, second, slots))
    else:
        link = Link(plan)
        _initialise(state, plan, kind, (to_vector, to_cube), slots)
    (cube_core if kind == "cube" else vector_core)(
        state, plan, link, *(parameters[:-1] if memory else parameters)
    )
    ops = (*state.level.ops, ir.Op("return"))
    state.levels, state.entry = outer, entry
    core = ir.attrs({"pto.kernel_kind": ir.KernelKind[kind.upper()]})
    return ir.Function(names[kind], parameters, ir.Region(ops), (), core, private=True)


def _slots(state: State, plan: Plan, pointer: ir.Value) -> ir.Value:
    """The global memory of this block's slots."""
    start = arith(state, "muli", number_of(state, "get_block_idx"), state.constant(plan.slot * 4))
    value = ir.Value(state.name("p"), pointer.type)
    state.emit(ir.Op("addptr", (pointer, start), results=(value,)))
    return value


def _buffers(state: State, plan: Plan, kind: Kind, names: dict[Kind, str]) -> tuple[ir.Value, ir.Value]:
    """The buffer this core pops from, and the one of the other core."""
    own, peer = ir.Value(state.name("b"), _ADDRESS), ir.Value(state.name("b"), _ADDRESS)
    place = ir.AddressSpace.MAT if kind == "cube" else ir.AddressSpace.VEC
    reserved = ir.attrs(name=f"to_{kind}", size=8 * plan.slot, location=place, auto=True)
    other: Kind = "vector" if kind == "cube" else "cube"
    imported = ir.attrs(name=f"to_{other}", peer_func=ir.Symbol(names[other]))
    state.emit(ir.Op("reserve_buffer", results=(own,), attributes=reserved))
    state.emit(ir.Op("import_reserved_buffer", results=(peer,), attributes=imported))
    return own, peer


def _initialise(
    state: State, plan: Plan, kind: Kind, buffers: tuple[ir.Value, ir.Value], slots: ir.Value | None
) -> None:
    name = "aic_initialize_pipe" if kind == "cube" else "aiv_initialize_pipe"
    attributes = ir.attrs(dir_mask=plan.to_vector + 2 * plan.to_cube, slot_size=plan.slot)
    operands = buffers if slots is None else (slots, *buffers)
    names = ("gm_slot_buffer", "c2v_consumer_buf", "v2c_consumer_buf")[-len(operands) :]
    groups = tuple((n, 1) for n in names)
    state.emit(ir.Op(name, operands, attributes=attributes, groups=groups))
