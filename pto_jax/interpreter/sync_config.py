"""Handlers of synchronisation and configuration: flags, events, barriers, aliases, registers, modes.

Flags between the cores of a block count how often each was set without a wait. Synchronisation inside a core
has no effect on values.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ..errors import ExecutionError, NotExecutableError
from ..ir import I1, INDEX, FmatrixMode, Op, OpaqueType, TileType
from ..isa import effects
from ..isa.layout_img2col import IMG2COL_STATE
from ..isa.matrix import ROUNDING_STATE
from . import cores, reinterpret
from .communication import Copy, complete_copies
from .cores import Core
from .fifo import scale_of
from .interpreter import Interpreter, Steps, Waiting, executes
from .operands import Scope


def flag_number(interpreter: Interpreter, op: Op, scope: Scope) -> int | None:
    """The number of an operation's flag; None where the block has no two kinds of cores."""
    shared = interpreter.shared
    if interpreter.machine.abstract or not (shared.has("cube") and shared.has("vector")):
        return None
    event = scope[op.ins[0]] if op.ins else op.attrs["event"]
    number = interpreter.machine.known(event)
    if number is None or interpreter.machine.depth != shared.depth:
        message = (
            "got a flag between cores under control flow that only execution knows; "
            "allowed: known conditions, trip counts and events"
        )
        raise NotExecutableError(op.error("cores", message))
    return number


def set_flags(interpreter: Interpreter, number: int, others: Sequence[Core]) -> None:
    """Set a flag for other cores."""
    shared = interpreter.shared
    for other in others:
        key = (number, interpreter.core, other)
        shared.flags[key] = shared.flags.get(key, 0) + 1
    shared.changes += 1


def wait_for_flags(interpreter: Interpreter, op: Op, number: int, others: Sequence[Core]) -> Steps[None]:
    """Wait until all of some other cores have set a flag, and take it back."""
    shared = interpreter.shared
    keys = [(number, other, interpreter.core) for other in others]
    while not all(shared.flags.get(key) for key in keys):
        yield Waiting(op, f"flag {number}")
    for key in keys:
        shared.flags[key] -= 1


@executes("record_event", "wait_event", "set_flag", "wait_flag", "set_flag_dyn", "wait_flag_dyn")
def _hand_token(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Set a token of two pipes, or take it; ExecutionError where it never comes."""
    order, (source, target) = effects.traits_of(op).order, effects.ends_of(op)
    # What surrounds a fragment may hand tokens to it.
    followed = interpreter.machine.in_order and not interpreter.program.fragment
    if order is None or not followed or source is None or target is None or source == target:
        return
    written, tokens = op.attrs.get("event"), interpreter.shared.tokens
    number = written if isinstance(written, int) else interpreter.machine.known(scope[op.ins[0]])
    key = (_core(interpreter, op), source, target, number)
    if order.role == "signal":
        tokens.add(key)
    elif key in tokens:
        tokens.remove(key)
    else:
        raise ExecutionError(effects.starved(op, key[0], number))


def _core(interpreter: Interpreter, op: Op) -> str:
    """The core that executes an operation; of a core that runs everything the part the text says."""
    kind = interpreter.kinds.get(id(op))
    return interpreter.core.name or (kind.name.lower() if kind is not None else "")


@executes("tsync", "barrier", "barrier_sync", "get_buf", "rls_buf")
def _order(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Instructions take effect in program order: there is nothing to wait for."""


@executes("tassign")
def _tassign(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, address = scope[op.ins[0]], scope[op.ins[1]]
    t = op.results[0].type if op.results else ref.type
    assert isinstance(t, TileType)
    storage = interpreter.machine.rebind(op, ref, t, address)
    moved = replace(ref, type=t, storage=storage, address=address)
    if op.results:
        scope.bind(op.results[0], moved)
    else:
        scope.update(op.ins[0], moved)


@executes("talias")
def _talias(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    reinterpret.alias(interpreter, op, scope)


@executes("sync.set")
def _set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A flag of the cube core is seen by every vector core."""
    number = flag_number(interpreter, op, scope)
    if number is not None:
        set_flags(interpreter, number, _others(interpreter))


@executes("sync.wait")
def _wait(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """The cube core waits for all vector cores."""
    number = flag_number(interpreter, op, scope)
    if number is not None:
        yield from wait_for_flags(interpreter, op, number, _others(interpreter))


def _others(interpreter: Interpreter) -> list[cores.Core]:
    """The cores of the other kind."""
    cube = interpreter.core.kind == "cube"
    return [c for c in interpreter.shared.cores if (c.kind == "cube") != cube]


@executes("set_ffts")
def _set_ffts(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Where flags between cores lie has no effect on values."""


#: What a prefetch gives: it changes no data, and has completed at once.
COMPLETED = ("completed",)


@executes("make_prefetch_async_context", "tprefetch_async", "get_prefetch_async_session")
def _prefetch(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    for result in op.results:
        scope.bind(result, COMPLETED)


@executes("wait_async_event", "test_async_event")
def _event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A wait completes the copy and all that its session has issued before; a test finds it complete."""
    event = scope[op.ins[0]]
    if isinstance(event, Copy) and event in event.session.pending:
        complete_copies(interpreter, event.session, event)
    scope.bind(op.results[0], True)


@executes("declare_eventid_array")
def _declare_events(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, OpaqueType)
    scope.bind(op.results[0], (0,) * int(t.params))


@executes("eventid_array_get")
def _get_event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    array, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, array))


@executes("eventid_array_set")
def _set_event(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    array, index, value = (scope[v] for v in op.ins)
    hits = [interpreter.scalar("arith.cmpi.eq", (index, i), INDEX, I1) for i in range(len(array))]
    chosen = [
        interpreter.scalar("arith.select", (hit, value, old), INDEX, INDEX)
        for hit, old in zip(hits, array, strict=True)
    ]
    scope.update(op.ins[0], tuple(chosen))


@executes("syncall")
def _all_cores(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """All cores of a kernel meet; blocks that are executed one after another have nothing to wait for."""
    return _met(interpreter, op, "all", come=True, waits=True)


def _met(interpreter: Interpreter, op: Op, place: object, *, come: bool, waits: bool) -> Steps[None]:
    """Come to where the cores of a kernel meet, and wait until all of them have."""
    shared, core = interpreter.shared, interpreter.core
    if shared.meetings is None or shared.world is None or interpreter.machine.abstract:
        return
    own, meetings = (int(shared.number), core.name), shared.meetings
    if come:
        meetings.come(place, own)
        shared.world.changes += 1
    times = meetings.counts.get((place, own), 0) if come else meetings.come(("waits", place), own)
    while waits and (lacking := meetings.lacking(place, times)):
        number, kind = lacking[0]
        yield Waiting(op, f"block {number}{f', core {kind}' if kind else ''}")


@executes("set_quant_scalar", "set_quant_vector")
def _set_scale(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(scale_of(op.attrs.get("id", 0)), scope[op.ins[0]])


#: What instructions load into the registers of image-to-column.
_LOADS: dict[str, Literal["sizes", "padding"]] = {"setfmatrix": "sizes", "set_img2col_padding": "padding"}


@executes("setfmatrix", "set_img2col_padding", "set_img2col_rpt")
def _set_image(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    mode = interpreter.reading.of(op).fitting().attrs["mode"]
    assert isinstance(mode, FmatrixMode)
    state = interpreter.mode(op, IMG2COL_STATE).configured(_LOADS.get(op.name), mode, op.ins[0].type)
    interpreter.modes[IMG2COL_STATE] = state


@executes("tget_scale_addr")
def _scale_address(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Scales have storage of their own; nothing moves."""
    for result in op.results:
        scope.bind(result, interpreter.fresh(op, result, {}))


@executes("cmo.cacheinvalid", "fence.barrier_all", "get_buf_dyn", "rls_buf_dyn")
def _ordered(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Memory is coherent, and instructions take effect one after another."""


@executes("set_cross_block", "wait_cross_block")
def _cross_block(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """A flag of all blocks; blocks that are executed one after another have nothing to wait for."""
    number = interpreter.machine.known(scope[op.ins[0]]) if op.ins else op.attrs.get("event")
    order = effects.traits_of(op).order
    sets = order is not None and order.role == "signal"
    return _met(interpreter, op, ("flag", number), come=sets, waits=not sets)


@executes("set_intra_block")
def _set_intra_block(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    number = flag_number(interpreter, op, scope)
    if number is not None:
        set_flags(interpreter, number % cores.SECOND, _partners(interpreter, number))


@executes("wait_intra_block")
def _wait_intra_block(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    number = flag_number(interpreter, op, scope)
    if number is not None:
        yield from wait_for_flags(interpreter, op, number % cores.SECOND, _partners(interpreter, number))


def _partners(interpreter: Interpreter, number: int) -> list[cores.Core]:
    """The cores at the other end of a flag: of the cube core one vector core where numbers say which."""
    others = _others(interpreter)
    profile = interpreter.machine.profile_name
    if interpreter.core.kind != "cube" or not cores.are_paired(interpreter.program, profile):
        return others
    return [c for c in others if c.subblock == number // cores.SECOND]


@executes("sethf32mode", "settf32mode")
def _set_f32_mode(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    attrs = interpreter.reading.of(op).fitting().attrs
    interpreter.modes[ROUNDING_STATE] = attrs["mode"] if attrs["enable"] else None
