"""Generated programs for a cube core and vector cores, which meet in pipes or through flags.

Functions of both kinds of kernel, or two sections of one function, hold the cores' operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import ir
from .core_bodies import Kind, Link, Plan, arith, cube_core, new_tile, number_of, vector_core, work
from .memory import part
from .state import Held, Level, State

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
        held = Held(new_tile(state, t), t, t.shape)
        window = part(state, cube[-1], where, (row, state.constant(0)))
        state.emit(ir.Op("sync.wait", attributes=ir.attrs(pipe=ir.Pipe.MTE2, event=flag)))
        state.emit(ir.Op("tload", (window,), (held.value,)))
        state.level.tiles.append(held)
        work(state)
        state.emit(ir.Op("tstore", (held.value,), (window,)))

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
