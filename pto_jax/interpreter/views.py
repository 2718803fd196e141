"""Handlers of allocations, views, windows, memrefs, pointers, local arrays, hash tables and queries.

Arrays and structures of scalars have storage like tiles without an address. A tile in several buffers is one
run of bytes; a slot is a part of it. Every buffer of global memory has an address, so that a pointer that
becomes a number and a pointer again is the same on every executor. A pointer into a tile is a handle of one
row over its bytes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from ..analysis.addresses import scalar_dtype
from ..analysis.entries import strides_of
from ..errors import ArgumentError, NotExecutableError
from ..ir import (
    I1,
    I32,
    I64,
    INDEX,
    U8,
    AddressSpace,
    DType,
    GlobalLayout,
    LocalArrayType,
    MemRefType,
    MultiTileType,
    Op,
    PtrType,
    StructType,
    TileType,
    Type,
    dtype,
)
from ..isa.multi_tiles import slot_bytes
from ..isa.views import extents
from . import reinterpret, windows
from .interpreter import Interpreter, executes
from .machine import Body, Machine
from .operands import (
    NOWHERE,
    Choice,
    Frame,
    LocalPointer,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    chosen,
    region_of,
)
from .ranks import SPAN
from .reinterpret import bind_handle, of_each, tile_type
from .windows import advanced, either, elements_before, flat, pitches, require_inside, scalar, window


@executes("alloc_tile")
def _alloc_tile(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    result = op.results[0]
    t = result.type
    assert isinstance(t, TileType)
    operands = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    storage = interpreter.machine.allocate(op, t, operands.get("addr"))
    valid = region_of(t, operands.get("valid_row"), operands.get("valid_col"))
    ref = TileRef(t, storage, *valid, address=operands.get("addr"))
    interpreter.machine.region(op, ref)
    scope.bind(result, ref)


@executes("make_tensor_view")
def _make_tensor_view(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    pointer = scope[op.group("ptr")[0]]
    if pointer.cast if isinstance(pointer, Pointer) else isinstance(pointer, TileRef):
        message = "got a pointer that was cast; allowed: one to elements as its argument declares them"
        raise NotExecutableError(op.error("executable", message))
    layout = op.attrs.get("layout")
    shape = tuple(scope[v] for v in op.group("shape"))
    strides = tuple(scope[v] for v in op.group("strides"))
    view = View(
        pointer.buffer,
        pointer.dtype,
        pointer.offset,
        shape,
        strides,
        layout if isinstance(layout, GlobalLayout) else None,
    )
    scope.bind(op.results[0], view)


@executes("partition_view")
def _partition_view(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    bind_window(interpreter, op, scope)


def bind_window(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Bind the window of a view at offsets and with sizes, which may stand in the text or be operands."""
    (source,) = op.group("view")
    view, result = scope[source], op.results[0]
    offsets = [scope[v] for v in op.group("offsets")]
    written = op.attrs.get("sizes")
    sizes = list(written) if isinstance(written, tuple) else [scope[v] for v in op.group("sizes")]
    lead = len(view.shape) - len(sizes)
    offsets, sizes = [0] * lead + offsets, [*view.shape[:lead], *sizes]
    part = window(interpreter.machine, op, source.name, view, offsets, sizes)
    dims = extents(result.type, len(sizes)) or sizes
    scope.bind(result, _of_rank(interpreter, part, len(dims)))


def _of_rank(interpreter: Interpreter, view: View, rank: int) -> View:
    """A window in as many dimensions as its type has, counted from the last one.

    Leading extents of 1 come and go; others stay, so that the window has all its elements.
    """
    shape, strides = view.shape, view.strides
    while len(shape) > rank and isinstance(shape[0], int) and shape[0] == 1:
        shape, strides = shape[1:], strides[1:]
    missing = rank - len(shape)
    if missing > 0:
        whole = view.root or view
        pitch = interpreter.index("arith.muli", whole.shape[0], whole.strides[0])
        shape, strides = (1,) * missing + shape, (pitch,) * missing + strides
    return replace(view, shape=shape, strides=strides)


@executes("get_tensor_view_dim")
def _get_tensor_view_dim(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, named_dimensions(op, view.shape)))


def named_dimensions(op: Op, numbers: Sequence[Scalar]) -> Sequence[Scalar]:
    """Extents or strides of the dimensions that the type of a view counts: the last ones."""
    dims = extents(op.ins[0].type, len(numbers))
    return numbers if dims is None else numbers[max(0, len(numbers) - len(dims)) :]


@executes("set_validshape")
def _set_validshape(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    tile, row, col = op.ins
    ref = replace(scope[tile], v_row=scope[row], v_col=scope[col])
    interpreter.machine.region(op, ref)
    scope.update(tile, ref)


@executes("addptr")
def _addptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    if isinstance(pointer, TileRef | LocalPointer):
        start = local_pointer(pointer)
        size = start.dtype.storage_bits // 8
        scope.bind(op.results[0], moved(interpreter.machine, start, offset, size))
        return
    further = replace(pointer, offset=advanced(interpreter.machine, pointer.offset, offset))
    world = interpreter.shared.world
    scope.bind(op.results[0], further if world is None else world.placed(op, further))


def local_pointer(operand: Operand) -> LocalPointer:
    """A pointer into on-chip memory; that of a tile is one to its first byte."""
    if isinstance(operand, LocalPointer):
        return operand
    assert isinstance(operand, TileRef), operand
    return LocalPointer(operand.type.dtype, AddressSpace[operand.type.loc.name], 0, operand)


def moved(machine: Machine, pointer: LocalPointer, offset: Scalar, unit: int) -> LocalPointer:
    """A pointer moved by an offset in units of bytes."""
    return replace(pointer, address=advanced(machine, pointer.address, offset, unit))


#: How many slots are looked at, the key of an empty one, and what a query without a value gives.
PROBES, EMPTY, ABSENT = 64, -(1 << 31), -1
#: The shift before each product of the hash, and the factor; a last shift follows.
MIXED, LAST_SHIFT = ((16, 0x7FEB352D), (15, 0x846CA68B - (1 << 32))), 16


@executes("hashfind")
def _hashfind(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    dst, (keys, values, queries) = scope[op.destinations[0]], [scope[v] for v in op.ins]
    machine, frame = interpreter.machine, interpreter.frame(op, scope)
    number = _Numbers(interpreter)

    def element(view: View, at: Scalar) -> Pointer:
        return Pointer(view.buffer, view.dtype, number.position(view, at))

    last = number("index_cast", number.index("subi", number.elements(keys), 1), source=INDEX)

    def look_up(at: Scalar, carried: tuple[Operand, ...]) -> tuple[Operand, ...]:
        query = machine.load(op, element(queries, at), I32)
        hashed = number.hashed(query)

        def probe(count: Scalar, state: tuple[Operand, ...]) -> tuple[Operand, ...]:
            position, searching = state
            slot = number("andi", number("addi", hashed, number("index_cast", count, source=INDEX)), last)
            slot = number.index("index_cast", slot, source=I32)
            key = machine.load(op, element(keys, slot), I32)
            hit, end = (number("cmpi.eq", key, word, result=I1) for word in (query, EMPTY))
            value = number.index("index_cast", machine.load(op, element(values, slot), I32), source=I32)
            takes = number.index("select", hit, searching, 0)
            takes = number("cmpi.ne", takes, 0, source=INDEX, result=I1)
            stops = either(machine, hit, end)
            return number.index("select", takes, value, position), number.index("select", stops, 0, searching)

        position, _ = _repeated(machine, frame, PROBES, (ABSENT, 1), probe)
        machine.store(op, element(dst, at), number("index_cast", position, source=INDEX))
        return ()

    _repeated(machine, frame, number.elements(queries), (), look_up)


def _repeated(
    machine: Machine, frame: Frame, trips: Scalar, inits: tuple[Operand, ...], body: Body
) -> tuple[Operand, ...]:
    """What is carried after so many trips, or once the last of it is known to be 0."""
    count = machine.known(trips)
    if count is None or not machine.unrolls(frame.op, count):
        return machine.loop(frame, trips, inits, body)
    carried = inits
    for trip in range(count):
        if carried and machine.known(carried[-1]) == 0:
            break
        carried = body(machine.counter(trip), carried)
    return carried


class _Numbers:
    """Arithmetic on 32-bit numbers and on indices."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def __call__(self, name: str, *args: Scalar, source: DType = I32, result: DType = I32) -> Scalar:
        return self.interpreter.scalar(f"arith.{name}", args, source, result)

    def index(self, name: str, *args: Scalar, source: DType = INDEX) -> Scalar:
        """An operation whose result is an index."""
        return self(name, *args, source=source, result=INDEX)

    def hashed(self, number: Scalar) -> Scalar:
        """The hash of a number."""
        for shift, factor in MIXED:
            number = self("muli", self("xori", number, self("shrui", number, shift)), factor)
        return self("xori", number, self("shrui", number, LAST_SHIFT))

    def elements(self, view: View) -> Scalar:
        """How many elements a view has."""
        return reduce(partial(self.interpreter.index, "arith.muli"), view.shape)

    def position(self, view: View, at: Scalar) -> Scalar:
        """The offset of an element of a view, counted row by row."""
        offset, rest = view.offset, at
        for extent, stride in reversed(list(zip(view.shape, view.strides, strict=True))):
            offset = advanced(self.interpreter.machine, offset, self.index("remsi", rest, extent), stride)
            rest = self.index("divsi", rest, extent)
        return offset


@executes("declare_local_array", "declare_struct")
def _declare(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (result,) = op.results
    t = in_words(result.type)
    assert isinstance(t, TileType)
    scope.bind(result, TileRef(t, interpreter.machine.allocate(op, t, None), *t.shape))


def in_words(t: Type) -> Type:
    """The row of a local array's elements, of tiles that are one allocation, or of a struct's scalars.

    Scalars are words of 64 bits. Other types are returned as they are.
    """
    if isinstance(t, StructType):
        return TileType(I64, 1, len(list(t.leaves())))
    if isinstance(t, LocalArrayType):
        return TileType(U8 if t.dtype.bits < 8 else t.dtype, 1, t.elements)
    if isinstance(t, MultiTileType):
        bits = t.count * slot_bytes(t.slot) * 8
        return TileType(t.slot.dtype, 1, bits // t.slot.dtype.storage_bits, loc=t.slot.loc)
    return t


@executes("local_array_get")
def _local_array_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = _element(interpreter, op, scope)
    d = scalar_dtype(op.results[0].type)
    scope.bind(op.results[0], interpreter.machine.element(op, ref, position, d))


@executes("local_array_set")
def _local_array_set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = _element(interpreter, op, scope)
    interpreter.machine.set_element(op, ref, position, scope[op.group("value")[0]])


def _element(interpreter: Interpreter, op: Op, scope: Scope) -> tuple[TileRef, Scalar]:
    (array,) = op.group("array")
    assert isinstance(array.type, LocalArrayType)
    machine, dims = interpreter.machine, array.type.dims
    indices, ones = [scope[v] for v in op.group("indices")], [1] * len(dims)
    require_inside(machine, op, f"%{array.name}", indices, ones, dims)
    position: Scalar = 0
    for index, extent in zip(indices, dims, strict=True):
        position = advanced(machine, advanced(machine, 0, position, extent), index)
    ref = scope[array]
    assert isinstance(ref, TileRef)
    return ref, position


@executes("struct_get")
def _struct_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    machine, (position, d) = interpreter.machine, _field(op)
    word = machine.element(op, scope[op.ins[0]], position, I64)
    whole = _word(d)
    value = word if whole == I64 else scalar(machine, "arith.trunci", (word,), I64, whole)
    scope.bind(op.results[0], scalar(machine, "arith.bitcast", (value,), whole, d) if whole != d else value)


@executes("struct_set")
def _struct_set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    machine, (position, d) = interpreter.machine, _field(op)
    value, whole = scope[op.ins[1]], _word(d)
    if whole != d:
        value = scalar(machine, "arith.bitcast", (value,), d, whole)
    if whole != I64:
        value = scalar(machine, "arith.extsi", (value,), whole, I64)
    machine.set_element(op, scope[op.ins[0]], position, value)


def _word(d: DType) -> DType:
    """The integer that a scalar is kept as, before it takes 64 bits."""
    return dtype(f"i{d.bits}")


def _field(op: Op) -> tuple[int, DType]:
    """The number of the scalar that a path leads to, and its type."""
    t, path = op.ins[0].type, op.attrs["path"]
    assert isinstance(t, StructType)
    leaves = list(t.leaves())
    return next((i, d) for i, (leaf, d) in enumerate(leaves) if leaf == path)


@executes("tgetval")
def _tgetval(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, position = (scope[v] for v in op.ins)
    result, machine = op.results[0], interpreter.machine
    dtype = scalar_dtype(result.type)

    def read(one: Operand) -> tuple[Operand, ...]:
        return (machine.element(op, flat(interpreter.machine, op, one), position, dtype),)

    (value,) = interpreter.resolved(op, scope, ref, read)
    scope.bind(result, value)


@executes("tsetval")
def _tsetval(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    position, value = (scope[v] for v in op.ins)
    for result in op.results:
        scope.bind(result, interpreter.fresh(op, result, {}))

    def write(one: Operand) -> tuple[Operand, ...]:
        interpreter.machine.set_element(op, flat(interpreter.machine, op, one), position, value)
        return ()

    interpreter.resolved(op, scope, scope[op.destinations[0]], write)


@executes("load_scalar")
def load_scalar(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Load the element of memory at an offset from a pointer."""
    pointer, offset = (scope[v] for v in op.ins)
    result, machine = op.results[0], interpreter.machine
    dtype = scalar_dtype(result.type)

    def read(one: Operand) -> tuple[Operand, ...]:
        if isinstance(one, TileRef):
            return (machine.element(op, one, offset, dtype),)
        return (machine.load(op, _moved(interpreter, one, offset), dtype),)

    (value,) = interpreter.resolved(op, scope, pointer, read)
    scope.bind(result, value)


@executes("store_scalar")
def store_scalar(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Store a scalar to the element of memory at an offset from a pointer."""
    value, pointer, offset = (scope[v] for v in op.ins)

    def write(one: Operand) -> tuple[Operand, ...]:
        if isinstance(one, TileRef):
            interpreter.machine.set_element(op, one, offset, value)
        else:
            interpreter.machine.store(op, _moved(interpreter, one, offset), value)
        return ()

    interpreter.resolved(op, scope, pointer, write)


def _moved(interpreter: Interpreter, pointer: Operand, offset: Scalar) -> Operand:
    if isinstance(pointer, LocalPointer):
        return moved(interpreter.machine, pointer, offset, pointer.dtype.storage_bits // 8)
    return replace(pointer, offset=advanced(interpreter.machine, pointer.offset, offset))


def memref_view(name: str, t: MemRefType, extents: Sequence[int]) -> View:
    """An argument that is a memref, as a view; ``extents`` are those of the array given for it."""
    if None in t.dims and len(extents) != len(t.dims):
        raise ArgumentError(f"argument {name!r}: got shape {tuple(extents)}", allowed=f"{t}")
    dims = extents if None in t.dims else t.dims
    shape = tuple(n if d is None else d for d, n in zip(t.dims, dims, strict=True))
    return View(name, t.dtype, t.offset or 0, shape, strides_of(shape, t.strides))


@executes("memref.alloc")
def _alloc(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = reinterpret.tile_type(op, op.results[0])
    scope.bind(op.results[0], TileRef(t, interpreter.machine.allocate(op, t, None), *region_of(t)))


@executes("memref.dealloc")
def _dealloc(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Storage has no end of life: nothing reads it afterwards."""


@executes("memref.reinterpret_cast")
def _reinterpret(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source = scope[op.group("source")[0]]
    if isinstance(source, TileRef):
        message = "got a local memref; allowed: a memref of global memory"
        raise NotExecutableError(op.error("executable", message))
    moved = windows.advanced(interpreter.machine, source.offset, scope[op.group("offsets")[0]])
    layout = op.attrs.get("layout")
    view = View(
        source.buffer,
        source.dtype,
        moved,
        tuple(scope[v] for v in op.group("sizes")),
        tuple(scope[v] for v in op.group("strides")),
        layout if isinstance(layout, GlobalLayout) else None,
    )
    scope.bind(op.results[0], view)


@executes("global_subview")
def _subview(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    bind_window(interpreter, op, scope)


@executes("alloc_multi_tile")
def _alloc_multi_tile(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (result,) = op.results
    row = in_words(result.type)
    assert isinstance(result.type, MultiTileType) and isinstance(row, TileType)
    operands = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    storage = interpreter.machine.allocate(op, row, operands.get("addr"))
    sizes = region_of(result.type.slot, operands.get("valid_row"), operands.get("valid_col"))
    scope.bind(result, TileRef(row, storage, *sizes))


@executes("multi_tile_get")
def _multi_tile_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    tiles, number = (scope[v] for v in op.ins)
    t = op.ins[0].type
    assert isinstance(t, MultiTileType)
    machine = interpreter.machine
    below = scalar(machine, "arith.cmpi.slt", (number, 0), INDEX, I1)
    beyond = scalar(machine, "arith.cmpi.sge", (number, t.count), INDEX, I1)
    broken = scalar(machine, "arith.ori", (below, beyond), I1, I1)
    machine.require(op, "slot", f"0 to {t.count - 1}", broken, "slot {}", (number,))
    elements = advanced(machine, 0, number, slot_bytes(t.slot) * 8 // t.slot.dtype.storage_bits)
    ref = TileRef(
        t.slot, machine.offset(op, tiles, t.slot, elements), *region_of(t.slot, tiles.v_row, tiles.v_col)
    )
    machine.region(op, ref)
    scope.bind(op.results[0], ref)


@executes("get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num")
def _number(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    shared = interpreter.shared
    numbers = {
        "get_block_idx": shared.number,
        "get_block_num": shared.count,
        "get_subblock_idx": interpreter.core.subblock,
        "get_subblock_num": shared.subblocks,
    }
    for result in op.results:
        scope.bind(result, numbers[op.name])


@executes("print")
def _print(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (value,) = op.ins
    interpreter.machine.show(op, str(op.attrs["format"]), scope[value], scalar_dtype(value.type))


def printed(format: str, value: Any) -> str:
    """A scalar in a format with one conversion, as C has them.

    >>> printed("n = %d", 3)
    'n = 3'
    """
    try:
        return str(format % value)
    except (TypeError, ValueError):
        return f"{format} {value}"


@executes("trap")
def _trap(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    interpreter.machine.trap(op)


@executes("subview")
def _tile_subview(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (tile,) = op.group("tile")
    ref, t = scope[tile], tile_type(op, op.results[0])
    starts = [scope[v] for v in op.group("offsets")]
    sizes = [scope[op.group(n)[0]] if op.group(n) else None for n in ("valid_row", "valid_col")]
    require_inside(interpreter.machine, op, f"%{tile.name}", starts, t.shape, ref.type.shape)
    _require_boxes(interpreter, op, ref.type, starts)
    row, col = starts

    def windowed(option: TileRef) -> Operand:
        machine, whole = interpreter.machine, option.type
        if machine.window_of(option) is None and pitches(whole) == pitches(t):
            return machine.offset(op, option, t, elements_before(machine, whole, row, col))
        if whole.boxed and not (isinstance(row, int) and isinstance(col, int)):
            first = flat(machine, op, option)
            elements = elements_before(machine, first.type, row, col)
            moved = replace(first, storage=machine.offset(op, first, first.type, elements))
            return machine.window(op, moved, t, 0, 0)
        return machine.window(op, option, t, row, col)

    bind_handle(
        interpreter, op, scope, TileRef(t, of_each(ref, windowed), *region_of(t, *sizes), pitched=True)
    )


def _require_boxes(interpreter: Interpreter, op: Op, t: TileType, starts: Sequence[Scalar]) -> None:
    """The run-time rule that a window of a boxed tile begins where a box does."""
    machine = interpreter.machine
    if not machine.checks or not t.boxed:
        return
    for start, box, unit in zip(starts, t.box, ("row", "column"), strict=True):
        rest = scalar(machine, "arith.remsi", (start, box), INDEX, INDEX)
        broken = scalar(machine, "arith.cmpi.ne", (rest, 0), INDEX, I1)
        got = f"{unit} offset {{}} of a tile in boxes of {box} {unit}s"
        machine.require(op, "window-boxes", "the beginning of a box", broken, got, (start,))


@executes("get_tensor_view_stride")
def _get_tensor_view_stride(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, named_dimensions(op, view.strides)))


@executes("tensor_view_addr")
def _tensor_view_addr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view = scope[op.ins[0]]
    scope.bind(op.results[0], Pointer(view.buffer, view.dtype, view.offset))


@executes("tile_buf_addr")
def _tile_buf_addr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, PtrType | MemRefType)
    scope.bind(op.results[0], _elements(interpreter, op, scope[op.ins[0]], t.dtype))


@executes("castptr")
def _castptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source, t = scope[op.ins[0]], op.results[0].type
    pointer: Operand
    if not isinstance(t, PtrType):
        if isinstance(source, TileRef) or (isinstance(source, LocalPointer) and source.tile is not None):
            raise _refused(op, "the address of a tile, which the planner chooses")
        pointer = source.address if isinstance(source, LocalPointer) else address_of(interpreter, source)
    elif isinstance(source, LocalPointer):
        pointer = replace(source, dtype=t.dtype)
    elif isinstance(source, Pointer):
        pointer = _retyped(interpreter, op, source, t.dtype)
    elif isinstance(source, TileRef):
        pointer = _elements(interpreter, op, source, t.dtype)
    elif t.space == AddressSpace.GM:
        pointer = pointer_at(interpreter, op, source, t.dtype)
    else:
        pointer = LocalPointer(t.dtype, t.space, source)
    scope.bind(op.results[0], pointer)


@executes("pointer_cast")
def _pointer_cast(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    addresses = [scope[v] for v in op.group("addrs")]
    if len(addresses) > 1:
        raise _refused(op, f"{len(addresses)} buffers used in turn; allowed: one address")
    t = reinterpret.tile_type(op, op.results[0])
    sizes = [scope[op.group(n)[0]] if op.group(n) else None for n in ("valid_row", "valid_col")]
    if None not in sizes:
        t = t.with_valid(None, None)
    storage = interpreter.machine.allocate(op, t, addresses[0])
    ref = TileRef(t, storage, *region_of(t, *sizes), address=addresses[0])
    interpreter.machine.region(op, ref)
    scope.bind(op.results[0], ref)


def address_of(interpreter: Interpreter, pointer: Pointer) -> Scalar:
    """The address of the byte that a pointer is at."""
    choice, memory = chosen(pointer), interpreter.shared.memory
    options = (pointer.buffer,) if choice is None else choice.options
    bases = [(memory.index(str(name)) + 1) << SPAN for name in options]
    base = bases[0] if choice is None else interpreter.select(choice.index, bases)
    return windows.advanced(interpreter.machine, base, pointer.offset, pointer.dtype.storage_bits // 8)


def pointer_at(interpreter: Interpreter, op: Op, address: Scalar, dtype: DType) -> Pointer:
    """The pointer to the elements at an address."""
    memory, machine = interpreter.shared.memory, interpreter.machine

    def of(name: str, *args: Scalar, result: DType = INDEX) -> Scalar:
        return interpreter.scalar(f"arith.{name}", args, I64, result)

    if not memory:
        raise _refused(op, "an address in a function without buffers")
    first = next(name for name in memory if name)
    # The buffer is the address divided by the distance of two, rounded down.
    at = of("andi", address, (1 << SPAN) - 1)
    number = of("subi", of("divsi", of("subi", address, at), 1 << SPAN), 1)
    index = machine.known(number)
    ends = (of("cmpi.slt", number, 0, result=I1), of("cmpi.sge", number, len(memory), result=I1))
    outside = windows.either(machine, *ends)
    if index is not None and 0 <= index < len(memory) and not memory[index]:
        outside = True
    machine.require(op, "address", "an address of a buffer", outside, "address {}", (address,))
    if index is not None:
        buffer: Operand = memory[index] if 0 <= index < len(memory) and memory[index] else first
    else:
        buffer = Choice(number, memory) if len(memory) > 1 else first
    offset = _counted(interpreter, op, at, 1, dtype.storage_bits // 8)
    offset = interpreter.scalar("arith.select", (outside, NOWHERE, offset), INDEX, INDEX)
    return Pointer(buffer, dtype, offset, cast=True)


def _retyped(interpreter: Interpreter, op: Op, pointer: Pointer, dtype: DType) -> Pointer:
    """A pointer to elements of another type at the same byte."""
    old, new = pointer.dtype.storage_bits, dtype.storage_bits
    offset = _counted(interpreter, op, pointer.offset, old, new)
    return Pointer(pointer.buffer, dtype, offset, pointer.cast or old != new)


def _counted(interpreter: Interpreter, op: Op, offset: Scalar, old: int, new: int) -> Scalar:
    """An offset in units of ``old`` in units of ``new``, of which it has to be a whole number."""
    if old % new == 0:
        return windows.advanced(interpreter.machine, 0, offset, old // new)
    size = new // old
    rest = interpreter.scalar("arith.remsi", (offset, size), INDEX, INDEX)
    broken = interpreter.scalar("arith.cmpi.ne", (rest, 0), INDEX, I1)
    allowed = "an address that is a multiple of the element's size"
    interpreter.machine.require(op, "address-aligned", allowed, broken, "{} elements too many", (rest,))
    quotient = interpreter.scalar("arith.divsi", (offset, size), INDEX, INDEX)
    return interpreter.scalar("arith.select", (broken, NOWHERE, quotient), INDEX, INDEX)


def _elements(interpreter: Interpreter, op: Op, ref: TileRef, dtype: DType) -> TileRef:
    """A tile's bytes as one row of elements."""
    t = TileType(dtype, 1, ref.type.bytes * 8 // dtype.storage_bits, loc=ref.type.loc)
    storage = reinterpret.of_each(ref, lambda option: interpreter.machine.alias(op, option, t))
    return replace(ref, type=t, storage=storage, v_row=1, v_col=t.cols, pitched=False)


def _refused(op: Op, got: str) -> NotExecutableError:
    return NotExecutableError(op.error("executable", f"got {got}"))


@executes("get_validshape")
def _get_validshape(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref = scope[op.ins[0]]
    for result, size in zip(op.results, (ref.v_row, ref.v_col), strict=True):
        scope.bind(result, size)


@executes("tile_valid_rows")
def _tile_valid_rows(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], scope[op.ins[0]].v_row)


@executes("tile_valid_cols")
def _tile_valid_cols(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], scope[op.ins[0]].v_col)


@executes("ptrtoint")
def _ptrtoint(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], address_of(interpreter, scope[op.ins[0]]))


@executes("inttoptr")
def _inttoptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, PtrType)
    scope.bind(op.results[0], pointer_at(interpreter, op, scope[op.ins[0]], t.dtype))
