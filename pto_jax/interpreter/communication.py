"""Handlers of communication: copies between processors, signals, collectives, asynchronous copies.

A view names the bytes of its processor, so a copy to another one is a copy between two views: it goes through
a tile that holds the whole view, element by element in the order of the dimensions. What an asynchronous copy
moves is there at once or where its event is waited for, as the world of ranks says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from .. import isa
from ..errors import NotExecutableError
from ..ir import (
    I1,
    I32,
    AtomicType,
    AttrValue,
    CollectiveEngine,
    NotifyOp,
    Op,
    PartitionViewType,
    ReduceOp,
    TileType,
    Value,
    WaitCmp,
    attrs,
)
from .interpreter import Blocked, Interpreter, Polled, Steps, executes
from .operands import Execution, Operand, Pointer, Scalar, Scope, TileRef, View, chosen
from .ranks import Cell
from .windows import advanced, scalar


@dataclass(eq=False)
class Copy:
    """An asynchronous copy, which is the event that it gives."""

    op: Op
    dst: View
    src: View
    session: Session
    #: The copy of the session that was issued before.
    earlier: Copy | None = None


@dataclass(eq=False)
class Session:
    """A session of asynchronous copies: those that are not complete, in the order of their issue."""

    pending: list[Copy] = field(default_factory=list)
    #: The copy that was issued last.
    last: Copy | None = None


def _refused(op: Op, got: str, allowed: str) -> NotExecutableError:
    message = f"got {got}; allowed: {allowed}"
    return NotExecutableError(op.error("executable", message))


# -- copies ----------------------------------------------------------------------------------------------


@executes("tput", "tget")
def _copy(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    dst, src = _views(interpreter, op, scope, "dst", "src")
    mode = interpreter.reading.of(op).fitting().attrs.get("atomicType", AtomicType.ATOMIC_NONE)
    move(interpreter, op, dst, src, mode)


def _views(interpreter: Interpreter, op: Op, scope: Scope, *names: str) -> list[View]:
    values = interpreter.reading.of(op).fitting().values
    return [_view(op, scope[values[name]], f"%{values[name].name}") for name in names]


def _view(op: Op, operand: Operand, name: str) -> View:
    if not isinstance(operand, View) or chosen(operand) is not None:
        raise _refused(op, f"{name}, whose buffer only execution knows", "a view of one buffer")
    return operand


def move(
    interpreter: Interpreter, op: Op, dst: View, src: View, mode: AttrValue = AtomicType.ATOMIC_NONE
) -> None:
    """Copy the elements of a view to another one, or add them; an empty view has no effect."""
    if mode == AtomicType.ATOMIC_NONE and interpreter.machine.copy(op, _plain(dst), _plain(src)):
        return
    tile = fetched(interpreter, op, src)
    if tile is not None:
        deliver(interpreter, op, dst, tile, mode)


def fetched(interpreter: Interpreter, op: Op, src: View) -> TileRef | None:
    """A tile with the elements of a view, row by row; None for no elements."""
    extents = _extents(interpreter, op, src)
    if prod(extents) == 0:
        return None
    t = TileType(src.dtype, prod(extents[:-1]), extents[-1])
    tile, window = Value("fetched", t), Value("view", PartitionViewType(extents, src.dtype))
    ref = TileRef(t, interpreter.machine.fresh(op, tile, t), *t.shape)
    _execute(interpreter, Op("tload", (window,), (tile,), span=op.span), {"dst": ref, "src": _plain(src)})
    return ref


def deliver(
    interpreter: Interpreter,
    op: Op,
    dst: View,
    tile: TileRef,
    mode: AttrValue = AtomicType.ATOMIC_NONE,
) -> None:
    """Write a tile, row by row, to the elements of a view, or add it to them."""
    window = Value("view", PartitionViewType(_extents(interpreter, op, dst), dst.dtype))
    attributes = attrs(atomicType=mode) if mode != AtomicType.ATOMIC_NONE else attrs()
    store = Op("tstore", (Value("fetched", tile.type),), (window,), attributes=attributes, span=op.span)
    _execute(interpreter, store, {"dst": _plain(dst), "src": tile})


def _plain(view: View) -> View:
    """A view whose elements are counted by its dimensions, whatever its layout."""
    return replace(view, layout=None)


def _extents(interpreter: Interpreter, op: Op, view: View) -> tuple[int, ...]:
    sizes = [interpreter.machine.known(n) for n in view.shape]
    extents = tuple(n for n in sizes if n is not None)
    if len(extents) == len(sizes):
        return extents
    if interpreter.machine.abstract:
        return (1,) * len(sizes)
    raise _refused(op, "a view of an extent that only execution knows", "known extents")


def _execute(interpreter: Interpreter, op: Op, operands: dict[str, Operand]) -> None:
    bound = isa.bind(isa.instructions()[op.name], op)
    interpreter.machine.execute(Execution(op, bound, operands, bound.attrs))


# -- signals ---------------------------------------------------------------------------------------------


@executes("tnotify")
def _notify(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """The first element of the view changes in one step."""
    bound, machine = interpreter.reading.of(op).fitting(), interpreter.machine
    (signal,) = _views(interpreter, op, scope, "signal")
    value = scope[bound.values["value"]]
    place = Pointer(signal.buffer, signal.dtype, signal.offset)
    adds = bound.attrs["op"] == NotifyOp.ATOMIC_ADD
    interpreter.shared.notified(op, place, value, adds=adds)
    if adds:
        value = scalar(machine, "arith.addi", (machine.load(op, place, I32), value), I32, I32)
    machine.store(op, place, value)


_HOLDS = {
    WaitCmp.EQ: "eq",
    WaitCmp.NE: "ne",
    WaitCmp.GT: "sgt",
    WaitCmp.GE: "sge",
    WaitCmp.LT: "slt",
    WaitCmp.LE: "sle",
}


def _cells(interpreter: Interpreter, op: Op, scope: Scope) -> tuple[list[Pointer], WaitCmp, Scalar]:
    """The elements of a signal, how each of them is compared, and with what."""
    bound = interpreter.reading.of(op).fitting()
    (signal,) = _views(interpreter, op, scope, "signal")
    compared = bound.attrs["cmp"]
    assert isinstance(compared, WaitCmp)
    places = []
    for index in product(*map(range, _extents(interpreter, op, signal))):
        at = signal.offset
        for i, stride in zip(index, signal.strides, strict=True):
            at = advanced(interpreter.machine, at, i, stride)
        places.append(Pointer(signal.buffer, signal.dtype, at))
    return places, compared, scope[bound.values["value"]]


def _satisfied(
    interpreter: Interpreter, op: Op, place: Pointer, compared: WaitCmp, value: Scalar
) -> tuple[Scalar, Scalar]:
    """What an element of a signal is, and whether it compares as wanted."""
    machine = interpreter.machine
    signal = machine.load(op, place, I32)
    return signal, scalar(machine, f"arith.cmpi.{_HOLDS[compared]}", (signal, value), I32, I1)


@executes("twait")
def _wait(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """Elements are looked at one by one: each compares as wanted where it is looked at last."""
    places, compared, value = _cells(interpreter, op, scope)
    if interpreter.machine.abstract:
        return
    while (lacking := _first_lacking(interpreter, op, places, compared, value)) is not None:
        yield Blocked(op, *lacking)
    interpreter.shared.waited(op, places, compared, value)


def _first_lacking(
    interpreter: Interpreter, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar
) -> tuple[str, int] | None:
    """What the first element that does not compare as wanted waits for, and what it is; None for none."""
    for place in places:
        signal, holds = _satisfied(interpreter, op, place, compared, value)
        broken = interpreter.machine.known(holds)
        if broken is None:
            raise _unsettled(interpreter, op)
        if not broken:
            at, number = (interpreter.machine.known(n) or 0 for n in (place.offset, signal))
            return f"{Cell(str(place.buffer), at)} {compared.name.lower()} {value}", number
    return None


def _unsettled(interpreter: Interpreter, op: Op) -> NotExecutableError:
    message = (
        "waits for a signal of which the text does not say the value; allowed: signals that ranks notify and "
        'nothing else writes; try: engine="interpreter", which executes it'
    )
    if interpreter.shared.world is None:
        message = "waits for a signal of another rank; allowed: several ranks; try: ranks=2"
    return NotExecutableError(op.error("waits", message))


@executes("ttest")
def _test(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """One look at every element; where the answer is no, others have their turn."""
    places, compared, value = _cells(interpreter, op, scope)
    if interpreter.machine.abstract:
        scope.bind(op.results[0], interpreter.machine.load(op, places[0], I1))
        return
    answers = [_satisfied(interpreter, op, place, compared, value)[1] for place in places]
    if any(interpreter.machine.known(answer) is None for answer in answers):
        answer = answers[0]
        for other in answers[1:]:
            answer = scalar(interpreter.machine, "arith.andi", (answer, other), I1, I1)
        scope.bind(op.results[0], answer)
        return
    lacking = _first_lacking(interpreter, op, places, compared, value)
    if lacking is not None and interpreter.shared.world is not None:
        yield Polled(op, *lacking)
    interpreter.shared.tested(op, places, compared, value, answer=lacking is None)
    scope.bind(op.results[0], lacking is None)


# -- collectives -----------------------------------------------------------------------------------------


def _members(interpreter: Interpreter, op: Op, scope: Scope) -> list[View]:
    """The views of a group, in the order of its ranks; CCU is no engine of this execution."""
    if interpreter.reading.of(op).fitting().attrs.get("engine") == CollectiveEngine.CCU:
        raise _refused(op, "engine=CCU, whose tasks run beside the cores", "engine=AIV")
    group = op.group("members")
    if not group:
        raise _refused(op, "a group as one value", "group(%view, ...) with a view of every rank")
    return [_view(op, scope[v], f"%{v.name}") for v in group]


def _root(interpreter: Interpreter, op: Op) -> int:
    root = interpreter.reading.of(op).fitting().attrs.get("root", 0)
    return root if isinstance(root, int) else 0


@executes("tbroadcast")
def _broadcast(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (src,) = _views(interpreter, op, scope, "src")
    for member in _members(interpreter, op, scope):
        move(interpreter, op, member, src)


@executes("comm.tgather")
def _gather(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (dst,), members = _views(interpreter, op, scope, "dst"), _members(interpreter, op, scope)
    for rank, member in enumerate(members):
        move(interpreter, op, _rows(interpreter, op, dst, members, rank), member)


@executes("comm.tscatter")
def _scatter(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (src,), members = _views(interpreter, op, scope, "src"), _members(interpreter, op, scope)
    for rank, member in enumerate(members):
        move(interpreter, op, member, _rows(interpreter, op, src, members, rank))


def _rows(interpreter: Interpreter, op: Op, whole: View, members: Sequence[View], rank: int) -> View:
    """The part of a view that belongs to a rank: so many rows of the last matrix as its own view has."""
    if interpreter.machine.abstract:
        return whole
    shape = [interpreter.machine.known(n) for n in members[0].shape]
    height = shape[-2] if len(shape) > 1 else 1
    rows = interpreter.machine.known(whole.shape[-2]) if len(whole.shape) > 1 else 1
    if height is None or rows is None or rows < height * len(members):
        needed = "?" if height is None else height * len(members)
        raise _refused(
            op, f"a view of {rows} rows for {len(members)} ranks of {height} rows", f"{needed} rows or more"
        )
    if len(whole.shape) == 1:
        return replace(whole, shape=members[0].shape[-1:], root=whole)
    stride = whole.strides[-2]
    moved = interpreter.index("arith.muli", stride, rank * height)
    return replace(
        whole,
        offset=interpreter.index("arith.addi", whole.offset, moved),
        shape=(*whole.shape[:-2], height, members[0].shape[-1]),
        root=whole,
    )


_FOLDS = {ReduceOp.SUM: "tadd", ReduceOp.MAX: "tmax", ReduceOp.MIN: "tmin"}


@executes("treduce")
def _reduce(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """The root's elements first, then those of the other ranks in rising order, one instruction each."""
    (dst,), members = _views(interpreter, op, scope, "dst"), _members(interpreter, op, scope)
    root, kind = _root(interpreter, op), interpreter.reading.of(op).fitting().attrs["op"]
    assert isinstance(kind, ReduceOp)
    folded = fetched(interpreter, op, members[root])
    for rank, member in enumerate(members):
        if rank == root or folded is None:
            continue
        other = fetched(interpreter, op, member)
        assert other is not None
        one, two = Value("folded", folded.type), Value("fetched", other.type)
        step = Op(_FOLDS[kind], (one, two), (one,), span=op.span)
        _execute(interpreter, step, {"dst": folded, "src0": folded, "src1": other})
    if folded is not None:
        deliver(interpreter, op, dst, folded)


# -- asynchronous copies ---------------------------------------------------------------------------------


@executes("build_async_session")
def _session(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    session = Session()
    interpreter.shared.sessions.append(session)
    scope.bind(op.results[0], session)


@executes("tput_async", "tget_async")
def _start(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    dst, src = _views(interpreter, op, scope, "dst", "src")
    session = scope[interpreter.reading.of(op).fitting().values["session"]]
    if not isinstance(session, Session):
        raise _refused(op, "the session of a prefetch", "one of build_async_session")
    copy = session.last = Copy(op, dst, src, session, session.last)
    session.pending.append(copy)
    if not interpreter.shared.late:
        complete_copies(interpreter, session)
    scope.bind(op.results[0], copy)


def complete_copies(interpreter: Interpreter, session: Session, last: Copy | None = None) -> None:
    """Execute the copies of a session that are pending, up to one of them, or all."""
    while session.pending:
        copy = session.pending.pop(0)
        move(interpreter, copy.op, copy.dst, copy.src)
        if copy is last:
            return


def finish_copies(interpreter: Interpreter) -> None:
    """Execute the copies that nobody has waited for, where their core ends."""
    for session in interpreter.shared.sessions:
        complete_copies(interpreter, session)
