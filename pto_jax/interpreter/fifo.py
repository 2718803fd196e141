"""FIFOs between the cube core and the vector cores of a block: rings and their contents.

A slot that is a tile is the logical contents of that tile: which memory the FIFO occupies has no effect on
values. A slot that is a view is the memory itself, so that its producer waits until it is free.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import NotExecutableError
from ..ir import I1, INDEX, AccPushEpilogue, Op, TileType, Type, UnknownType, Value
from ..isa.rules.pipes import HALVES_OF_VALID, default_slots
from .abstract import AbstractMachine
from .cores import Block, Core, Entry, Kind
from .interpreter import Interpreter, Steps, Waiting
from .operands import Operand, Pointer, Scalar, Scope, TileRef, View


@dataclass(frozen=True)
class Ring:
    """An end of a pipe: what it is known by, its slots, and what it does to accumulators.

    ``consumer`` is the type of the tiles that its accumulators become, ``local`` the number of slots in the
    memory of its consumer.
    """

    to_vector: Hashable = ("id", "0")
    to_cube: Hashable = ("id", "0")
    memory: View | Pointer | None = None
    slots: int = 8
    local: int = 8
    bytes: int = 0
    epilogue: AccPushEpilogue | None = None
    consumer: TileType | None = None
    quant: Hashable = None


def ring_of(
    interpreter: Interpreter,
    op: Op,
    keys: tuple[Hashable, Hashable],
    memory: Any,
    consumer: TileType | None,
) -> Ring:
    """The ring of an initialisation."""
    if isinstance(memory, View):
        for direction in zip(keys, (True, False), strict=True):
            interpreter.shared.turns.setdefault(direction, 0)
    epilogue, size = (op.attrs.get(n) for n in ("acc_push_epilogue", "slot_size"))
    slots, local = (op.attrs.get(n) for n in ("slot_num", "local_slot_num"))
    count = slots if isinstance(slots, int) else default_slots(op.attrs.get("dir_mask"))
    return Ring(
        keys[0],
        keys[1],
        memory if isinstance(memory, View | Pointer) else None,
        count,
        local if isinstance(local, int) else count,
        size if isinstance(size, int) else 0,
        epilogue if isinstance(epilogue, AccPushEpilogue) else None,
        consumer,
    )


def name_of(number: int) -> Value:
    """What a function knows the ring of a number by; no value of a text has a blank in its name."""
    return Value(f"pipe {number}", UnknownType())


def scale_of(number: object) -> Value:
    """What a function knows the scale of the accumulators of a pipe by."""
    return Value(f"scale of pipe {number}", UnknownType())


def ring(op: Op, scope: Scope) -> Ring:
    """The ring that an operation goes through: that of its handle, else that of its number."""
    handle = next((o for o in map(scope.__getitem__, op.ins) if isinstance(o, Ring)), None)
    if handle is not None:
        return handle
    number = op.attrs.get("id", 0)
    assert isinstance(number, int)
    try:
        value: Ring = scope[name_of(number)]
    except KeyError:
        return Ring(("id", str(number)), ("id", str(number)))
    return value


# -- tiles -------------------------------------------------------------------------------------------


def push_tile(interpreter: Interpreter, op: Op, tile: TileRef, through: Ring) -> None:
    """Put a tile into the queues of the cores at the other end."""
    split = split_of(op)

    def part(other: Core | None) -> Entry:
        if other is None:
            return _packed(interpreter, tile, split)
        return half(interpreter, op, tile, split, other.subblock)

    _send(interpreter, op, through, part)


def _sizes(interpreter: Interpreter, tile: TileRef) -> tuple[int, int]:
    """The valid sizes of a tile, the physical ones where a size is not known."""
    valid = (interpreter.machine.known(n) for n in (tile.v_row, tile.v_col))
    rows, cols = (size if n is None else n for n, size in zip(valid, tile.type.shape, strict=True))
    return rows, cols


def _packed(interpreter: Interpreter, tile: TileRef, split: int) -> Entry:
    """What a vector core pushes; the other core's half goes on behind the valid part of a first half."""
    machine, sizes = interpreter.machine, list(_sizes(interpreter, tile))
    valid: Scalar | None = None
    if split:
        axis = (split - 1) % 2
        size = (tile.v_row, tile.v_col)[axis]
        if machine.profile_name not in HALVES_OF_VALID:
            sizes[axis] = tile.type.shape[axis]
        elif machine.known(size) is None:
            valid = size
    return Entry(machine.contents(tile), (sizes[0], sizes[1]), valid)


def _send(interpreter: Interpreter, op: Op, through: Ring, entry: Callable[[Core | None], Any]) -> None:
    """Put an entry into the queue of each vector core, or of the cube core (None).

    What is whole is there for both vector cores: the one that has no use for it may take it as well.
    """
    shared, core = meeting(interpreter, op), interpreter.core
    partnered(op, shared, core)
    split = split_of(op)
    if core.kind == "cube":
        for other in (c for c in shared.cores if c.kind == "vector"):
            queue(shared, "c2v", through.to_vector, other).append(entry(other))
    elif split or core.subblock == 0:
        queue(shared, "v2c", through.to_cube, core).append(entry(None))
    shared.changes += 1


def _received(interpreter: Interpreter, op: Op, through: Ring, what: str) -> Steps[list[Any]]:
    """The next entries of the queues that end at the core, once there is one in each."""
    shared, core = meeting(interpreter, op), interpreter.core
    partnered(op, shared, core)
    if core.kind == "cube":
        queues = [queue(shared, "v2c", through.to_cube, c) for c in receivers(shared, split_of(op))]
    else:
        queues = [queue(shared, "c2v", through.to_vector, core)]
    while not all(queues):
        yield Waiting(op, f"a {what} in the pipe")
    shared.changes += 1
    return [q.popleft() for q in queues]


def half(interpreter: Interpreter, op: Op, tile: TileRef, split: int, which: int) -> Entry:
    """What a vector core gets: all, or half of the rows or columns.

    The second core goes on behind half of the valid ones; an odd number is rounded up for the first core.
    """
    machine, sizes = interpreter.machine, list(_sizes(interpreter, tile))
    contents = machine.contents(tile)
    if not split:
        return Entry(contents, (sizes[0], sizes[1]))
    axis = (split - 1) % 2
    size = tile.type.shape[axis] // 2
    first: Any = which * size
    of_valid = machine.profile_name in HALVES_OF_VALID
    if which and (split > 2 or of_valid):
        valid = (tile.v_row, tile.v_col)[axis]
        rounded = interpreter.scalar("arith.addi", (valid, 1), INDEX, INDEX)
        first = interpreter.scalar("arith.divsi", (rounded, 2), INDEX, INDEX)
    sizes[axis] = min(size, (sizes[axis] + 1 - which) // 2 if of_valid else size)
    start = machine.known(first)
    if start is None:
        return Entry(_window(interpreter, op, tile, axis, size, first), (sizes[0], sizes[1]))
    return Entry(_part(contents, axis, start, start + size), (sizes[0], sizes[1]))


def _part(contents: Any, axis: int, start: int, end: int | None) -> Any:
    """Some rows or columns of contents."""
    return contents[start:end] if axis == 0 else contents[:, start:end]


def _window(interpreter: Interpreter, op: Op, tile: TileRef, axis: int, size: int, first: Any) -> Any:
    """The contents of a part of a tile that begins where only execution knows."""
    t = tile.type
    shape = (size, t.cols) if axis == 0 else (t.rows, size)
    small = replace(t, rows=shape[0], cols=shape[1], v_row=shape[0], v_col=shape[1])
    start = (first, 0) if axis == 0 else (0, first)
    storage = interpreter.machine.window(op, tile, small, *start)
    return interpreter.machine.contents(TileRef(small, storage, *shape))


def pop_tile(interpreter: Interpreter, op: Op, t: TileType, through: Ring) -> Steps[Any]:
    """The contents of the next slot for a core."""
    parts: list[Entry] = yield from _received(interpreter, op, through, "tile")
    entry = parts[0] if len(parts) == 1 else _joined(interpreter, op, parts, t)
    words = entry.contents.dtype
    pushed = zip(entry.sizes, entry.contents.shape, t.shape, t.valid, strict=True)
    fits = all(
        size <= to if to <= have else valid is not None and valid <= have for size, have, to, valid in pushed
    )
    if not fits or words != t.dtype.word:
        rows, cols = entry.sizes
        got = f"a slot of {rows}x{cols} words of {words.itemsize} bytes for a tile {t}"
        raise refused(op, f"{got}; allowed: equal sizes")
    return _fitted(interpreter, op, entry.contents, t)


def _joined(interpreter: Interpreter, op: Op, parts: list[Entry], t: TileType) -> Entry:
    """Both halves: first what is valid of them, then the rest, which has no place in the slot."""
    first, second = parts
    machine, axis, sizes = interpreter.machine, (split_of(op) - 1) % 2, list(second.sizes)
    valid = sizes[axis] if second.valid is None else second.valid
    whole = machine.splice(first.contents, second.contents, axis, valid)
    if second.valid is None:
        sizes[axis] = sum(min(sizes[axis], part.contents.shape[axis]) for part in parts)
    else:
        taken = t.shape[axis]
        sizes[axis] = min(taken, whole.shape[axis])
        broken = interpreter.scalar("arith.cmpi.sgt", (valid, taken // 2), INDEX, I1)
        what = f"at most {taken // 2} valid {('rows', 'columns')[axis]} of each half"
        machine.require(op, "slot", what, broken, "{}", (valid,))
    return Entry(whole, (sizes[0], sizes[1]))


def _fitted(interpreter: Interpreter, op: Op, contents: Any, t: TileType) -> Any:
    """Contents of the size of a tile: cut, or with elements behind them that nothing wrote."""
    machine = interpreter.machine
    for axis, size in enumerate(t.shape):
        contents = _part(contents, axis, 0, size)
        if contents.shape[axis] < size:
            shape = [*contents.shape]
            shape[axis] = size - contents.shape[axis]
            rest = TileType(t.dtype, shape[0], shape[1])
            storage = machine.fresh(op, Value("rest of a slot", rest), rest)
            behind = machine.contents(TileRef(rest, storage, *shape))
            contents = machine.concatenate([contents, behind], axis)
    return contents


# -- slots in global memory ------------------------------------------------------------------------------


def allocate(interpreter: Interpreter, op: Op, t: Type, through: Ring) -> Steps[View]:
    """The view of the next slot, once it is free."""
    if isinstance(interpreter.machine, AbstractMachine):
        return slot(interpreter, op, t, through, interpreter.machine.one_of(through.slots))
    shared, core = meeting(interpreter, op), interpreter.core
    partnered(op, shared, core)
    counter = _counter("allocated", through, core)
    number = shared.counts.get(counter, 0)
    shared.counts[counter] = number + 1
    others = receivers(shared, split_of(op)) if core.kind == "cube" else (Core("cube"),)
    while number - min(_freed(shared, through, o) for o in others) >= through.slots:
        yield Waiting(op, "a free slot of the pipe")
    return slot(interpreter, op, t, through, _turned(interpreter, counter, number))


def commit(interpreter: Interpreter, op: Op, through: Ring) -> None:
    """Mark the slot that was allocated first and not yet pushed as ready."""
    if not interpreter.machine.abstract:
        _send(interpreter, op, through, lambda other: None)


def pop_slot(interpreter: Interpreter, op: Op, t: Type, through: Ring) -> Steps[View]:
    """The view of the slot that is ready next."""
    if isinstance(interpreter.machine, AbstractMachine):
        return slot(interpreter, op, t, through, interpreter.machine.one_of(through.slots))
    yield from _received(interpreter, op, through, "slot")
    shared = meeting(interpreter, op)
    read = _counter("popped", through, interpreter.core)
    number = shared.counts.get(read, 0)
    shared.counts[read] = number + 1
    return slot(interpreter, op, t, through, _turned(interpreter, read, number))


def free(interpreter: Interpreter, op: Op, through: Ring) -> None:
    """Give the slot back that was popped first; slots that are tiles are values, which need no room."""
    if interpreter.machine.abstract or through.memory is None:
        return
    shared = meeting(interpreter, op)
    freed = _counter("freed", through, interpreter.core)
    shared.counts[freed] = shared.counts.get(freed, 0) + 1
    shared.changes += 1


def _turned(interpreter: Interpreter, counter: tuple[Any, ...], number: int) -> Scalar:
    """The number of a slot, with those that regions have used."""
    return interpreter.index("arith.addi", interpreter.shared.turns.get(counter[1:3], 0), number)


def slot(interpreter: Interpreter, op: Op, t: Type, through: Ring, number: Scalar) -> View:
    """The view of a slot; of a split one each vector core has the half that its entry's extents say."""
    memory = through.memory
    if not isinstance(memory, View):
        raise refused(op, f"a slot {t} of a pipe without gm_slot_tensor; allowed: slots that it describes")
    written = getattr(t, "dims", ())
    shape = tuple(have if n is None else n for n, have in zip(written, memory.shape, strict=True))
    place = interpreter.scalar("arith.remsi", (number, through.slots), INDEX, INDEX)
    steps = interpreter.index("arith.muli", place, through.bytes * 8 // memory.dtype.bits)
    offset = interpreter.index("arith.addi", memory.offset, steps)
    split, core = split_of(op), interpreter.core
    if split and core.kind == "vector" and core.subblock:
        axis = len(shape) - 2 + (split - 1) % 2
        step = interpreter.index("arith.muli", memory.strides[axis], shape[axis] * core.subblock)
        offset = interpreter.index("arith.addi", offset, step)
    return replace(memory, offset=offset, shape=shape, root=None)


def _counter(what: str, through: Ring, core: Core) -> tuple[Any, ...]:
    """What counts the slots that a core has allocated, popped or freed."""
    to_vector = (core.kind == "cube") == (what == "allocated")
    return what, through.to_vector if to_vector else through.to_cube, to_vector, core


def _freed(shared: Block, through: Ring, core: Core) -> int:
    return shared.counts.get(_counter("freed", through, core), 0)


# -- cores -------------------------------------------------------------------------------------------------


def receivers(shared: Block, split: int) -> tuple[Core, ...]:
    """The vector cores that take part: both have halves, one of them has what is whole."""
    return tuple(c for c in shared.cores if c.kind == "vector" and (split or c.subblock == 0))


def split_of(op: Op) -> int:
    """How an operation splits its slot between the vector cores."""
    split = op.attrs.get("split", 0)
    assert isinstance(split, int)
    return int(split)


def queue(shared: Block, direction: str, key: Hashable, core: Core) -> deque[Any]:
    """What is on its way to or from a vector core."""
    return shared.queues.setdefault((direction, key, core.subblock), deque())


def meeting(interpreter: Interpreter, op: Op) -> Block:
    """The block of a core, which must be known to come here."""
    if interpreter.machine.depth != interpreter.shared.depth:
        raise refused(
            op,
            "under control flow that only execution knows; allowed: loops and branches that all cores enter",
        )
    return interpreter.shared


def partnered(op: Op, shared: Block, core: Core) -> None:
    """A pipe has a core at its other end."""
    other: Kind = "vector" if core.kind == "cube" else "cube"
    if not shared.has(other):
        raise refused(op, f"a pipe without a {other} core; allowed: a program of both kinds of cores")


def own_half(interpreter: Interpreter, op: Op, which: Operand | None) -> None:
    """A core pushes and pops its own half; another one's is refused."""
    if which is None or interpreter.machine.abstract:
        return
    number = interpreter.machine.known(which)
    if number != interpreter.core.subblock:
        got = "a number that only execution knows" if number is None else f"{number}"
        core = interpreter.core.subblock
        raise refused(op, f"aiv_subblockid {got} on vector core {core}; allowed: the number of the core")


def refused(op: Op, what: str) -> NotExecutableError:
    """The error of an operation on a pipe that is not executed."""
    return NotExecutableError(op.error("pipe", f"got {what}"))
