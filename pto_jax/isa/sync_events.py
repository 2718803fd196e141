"""Sync and config: arrays of events, flag addresses, prefetch hints, order of memory, flags of cores."""

from collections.abc import Iterator
from enum import IntEnum

from .. import ir, profiles
from ..ir import F32, I1, I8, I64, INDEX, MemRefType, OpaqueType, PartitionViewType, PtrType, ScalarType, Type
from ..profiles import PROFILE_NAMES
from . import sync_config, sync_handles
from .changes import DIALECT, form, new
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules.communication import comm
from .rules.constraints import fixed_type
from .rules.forbid import Types, assign, forbid, give
from .rules.handles import Shown, core_pipes, handle, handle_operand, required
from .rules.require import require
from .sync_handles import config
from .traits import Effect, Order, Traits

_PAGE, _HEADERS = "PTO ISA page of the instruction", "pto-isa headers; PTOAS dialect definition"
_CONTEXT = OpaqueType("prefetch_async_context")
_SESSION, _EVENT = OpaqueType("async_session"), OpaqueType("async_event")
_EVENTS, _INDEX = OpaqueType("eventid_array", "4"), ScalarType(INDEX)


def _last_event(site: Site) -> int | None:
    t = site.types.get("array")
    return int(t.params) - 1 if isinstance(t, OpaqueType) and t.params.isdigit() else None


_event_index = require(
    "event-index",
    "0 <= index.value <= last",
    let={"last": _last_event},
    statement="an index inside the array",
    source=_HEADERS,
    invalid_if=give("array", OpaqueType("eventid_array", "0")),
)


@forbid(
    "event-count",
    "an array of 1 or more events",
    source=_HEADERS,
    invalid_if=give("result", OpaqueType("eventid_array", "0")),
)
def _array_size(site: Site) -> Iterator[Finding]:
    t = site.types.get("result")
    counted = isinstance(t, OpaqueType) and t.name == _EVENTS.name
    if isinstance(t, OpaqueType) and counted and (not t.params.isdigit() or int(t.params) < 1):
        yield "result", f"the array has {t.params or 'no'} events; allowed: 1 or more"


@forbid(
    "flat",
    "src is a packed one-dimensional region",
    source=_PAGE,
    invalid_if=give("src", PartitionViewType((16, 16), F32)),
)
def _flat_region(site: Site) -> Iterator[Finding]:
    t = site.types.get("src")
    dims = t.dims if isinstance(t, PartitionViewType | MemRefType) else ()
    if any(d != 1 for d in dims[:-1]):
        yield "src", f"src has {len(dims)} dimensions; allowed: a packed one-dimensional region"


_EVENT_OF = Decision(
    "Which events complete?",
    "Those of prefetches, at once; those of copies with every earlier copy of their session.",
    "PTO ISA communication pages (asynchronous copies)",
)


def _async_event(name: str, summary: str, semantics: str, order: Order | None = None) -> Instruction:
    form = ("event", "session")
    types: dict[str, Type] = {"event": _EVENT, "session": _SESSION, "completed": ScalarType(I1)}
    return comm(
        name,
        summary,
        semantics,
        (
            handle_operand("event"),
            handle_operand("session"),
            Operand("completed", "out", "scalar", dtype="i1"),
        ),
        (Shown(types, form),),
        constraints=(
            handle("event", "async_event", _HEADERS),
            handle("session", "async_session", _HEADERS),
        ),
        decisions=(_EVENT_OF,),
        order=order,
    )


_EVENT_ARRAYS: tuple[Instruction, ...] = (
    config(
        "set_ffts",
        "Set the base address of the cross-core flags.",
        "Later cross-core signals use it.",
        (Operand("ffts", "in", "memory", note="flags in global memory"),),
        (Shown({"ffts": MemRefType((256,), I64)}), Shown({"ffts": PtrType(I64)})),
        constraints=(fixed_type("ffts", ("i64", "u64", "i8"), PROFILE_NAMES, _HEADERS),),
        changes=(form("a memref", "a pointer to i64 or i8"),),
        traits=Traits(effects=(Effect("write", "mode"),)),
    ),
    config(
        "declare_eventid_array",
        "Declare an array of run-time event identifiers.",
        "Its elements are 0 until they are set.",
        (Operand("result", "out", "handle"),),
        (Shown({"result": _EVENTS}),),
        constraints=(handle("result", "eventid_array", _HEADERS), _array_size),
    ),
    config(
        "eventid_array_get",
        "Read an event identifier.",
        "result = array[index].",
        (
            handle_operand("array"),
            Operand("index", "in", "scalar"),
            Operand("result", "out", "scalar", type=ScalarType(INDEX)),
        ),
        (Shown({"array": _EVENTS, "index": _INDEX, "result": _INDEX}, constants={"index": (3,)}),),
        constraints=(handle("array", "eventid_array", _HEADERS), _event_index),
        traits=Traits(effects=(Effect("read", "events", "array", indexed=True),)),
    ),
    config(
        "eventid_array_set",
        "Write an event identifier.",
        "array[index] = value.",
        (
            handle_operand("array"),
            Operand("index", "in", "scalar"),
            Operand("value", "in", "scalar"),
        ),
        (
            Shown(
                {"array": _EVENTS, "index": _INDEX, "value": _INDEX}, constants={"index": (0,), "value": (2,)}
            ),
        ),
        constraints=(handle("array", "eventid_array", _HEADERS), _event_index),
        traits=Traits(effects=(Effect("write", "events", "array", indexed=True),)),
    ),
    config(
        "make_prefetch_async_context",
        "Make the context that asynchronous prefetches use.",
        "The context owns the workspace.",
        (
            Operand("workspace", "in", "ptr", note="bytes of global memory"),
            handle_operand("context", result=_CONTEXT),
        ),
        (Shown({"workspace": PtrType(I8), "context": _CONTEXT}),),
        constraints=(
            fixed_type("workspace", ("i8", "u8"), PROFILE_NAMES, _HEADERS),
            handle("context", _CONTEXT.name, _HEADERS),
        ),
        changes=(new(),),
    ),
    config(
        "get_prefetch_async_session",
        "The session of a prefetch context, in which its events are waited for.",
        "session belongs to context.",
        (handle_operand("context"), handle_operand("session", result=_SESSION)),
        (Shown({"context": _CONTEXT, "session": _SESSION}),),
        constraints=(
            handle("context", _CONTEXT.name, _HEADERS),
            handle("session", "async_session", _HEADERS),
        ),
        changes=(new(),),
    ),
    config(
        "tprefetch_async",
        "Hint that a region of global memory will be read.",
        "No effect on values; the event it returns is complete.",
        (
            Operand("src", "in", "gm", note="flat region"),
            handle_operand("context"),
            handle_operand("event", result=_EVENT),
        ),
        (
            Shown(
                {
                    "src": PartitionViewType((1, 256), F32),
                    "context": OpaqueType("prefetch_context"),
                    "event": _EVENT,
                }
            ),
        ),
        constraints=(_flat_region, handle("event", "async_event", _PAGE)),
        changes=(form("operands without brackets", "tprefetch_async(%src, %context : ..)"),),
    ),
    _async_event(
        "wait_async_event",
        "Wait for an asynchronous copy.",
        "Returns true once it completed.",
        Order("wait", "transfer"),
    ),
    _async_event("test_async_event", "Ask whether an asynchronous copy completed.", "Returns at once."),
)


# -- order of memory, and flags between cores and blocks ---------------------------------------------

_COHERENT = Decision(
    "Are reads stale that no cache operation and no fence precede?",
    "No: memory is coherent here, so that neither changes a value.",
    "execution of this engine",
)
_PAIRS = Decision(
    "Which vector core does a flag of the cube core reach?",
    "On a5 one: the first for numbers below 16, the second for those 16 above. On a2a3 both, on cpu_sim as "
    "on a5 where a program uses numbers from 16 on.",
    f"{DIALECT}; pages of the execution model and of micro-operations (A5: separate signals for each core)",
)
_SIGNAL, _WAIT = Order("signal", "core", apart=True), Order("wait", "core", apart=True)
_EVENT_ID = Attribute("event", int, None, "number of the flag", ("event", "event_id"))
_NUMBER = Operand("id", "in", "index", optional=True, note="run-time number")


@forbid("cache-space", "global memory", source=DIALECT, invalid_if=assign(space=ir.AddressSpace.VEC))
def _global_only(site: Site) -> Iterator[Finding]:
    space = site.attrs.get("space")
    if space is None and "addr" not in site.values:
        yield None, "neither memory nor an address; allowed: all #pto.address_space<gm>, or an address"
    if isinstance(space, ir.AddressSpace) and space is not ir.AddressSpace.GM:
        yield None, f"space is {space.name.lower()}; allowed: gm"
    t = site.types.get("addr")
    if isinstance(t, ir.PtrType) and t.space is not ir.AddressSpace.GM:
        yield "addr", f"addr points to {t.space.name.lower()}; allowed: gm"


# Flags between cores are set by pipes that transfer or compute vectors.
flag_pipe = require("flag-pipe", f"pipe in ({core_pipes()})", source=DIALECT)


def _flag_number(most: dict[str, int]) -> Constraint:
    def breaks(types: Types, attrs: AttrMap, profile: profiles.Profile) -> bool:
        attrs["event"] = 32
        return "id" not in types

    @forbid("flag-number", "numbers of flags", source=DIALECT, invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        number, last = site.attrs.get("event"), most[site.profile.name]
        if number is None and "id" not in site.values:
            yield None, "no number; allowed: a number, or a value of type index"
        if isinstance(number, int) and not 0 <= number <= last:
            yield None, f"event {number}; allowed on {site.profile.name}: 0 to {last}"

    return rule


def _flag(name: str, summary: str, order: Order, last_a5: int, decision: Decision) -> Instruction:
    most = {"cpu_sim": last_a5, "a2a3": 15, "a5": last_a5}
    return sync_handles.config(
        name,
        summary,
        "Orders cores; the number of the flag is an attribute or an operand.",
        (_NUMBER,),
        (
            Shown({}, (), {"pipe": ir.Pipe.FIX, "event": 0}),
            Shown({"id": ir.ScalarType(ir.INDEX)}, ("id",), {"pipe": ir.Pipe.V}, {"id": (3,)}),
        ),
        (
            Attribute("pipe", ir.Pipe, None, "pipe that sets the flag or waits"),
            _EVENT_ID,
            Attribute("ffts_mode", int, None, "mode of the flags"),
        ),
        (required("pipe"), flag_pipe, _flag_number(most)),
        decisions=(sync_config.NO_VALUE_EFFECT, decision),
        traits=Traits(order=order),
        changes=(new(),),
    )


def _token(name: str, summary: str, order: Order) -> Instruction:
    return sync_handles.config(
        name,
        summary,
        "As the form with a constant token.",
        (Operand("buf", "in", "index", note="buffer token"),),
        (
            Shown(
                {"buf": ir.ScalarType(ir.INDEX)}, ("buf",), {"op_type": ir.PipeEventType.TVEC}, {"buf": (1,)}
            ),
        ),
        (
            Attribute("op_type", IntEnum, None, "operation class or pipe"),
            Attribute("mode", int, 0, "token mode"),
        ),
        (required("op_type"),),
        traits=Traits(order=order),
        changes=(new(),),
    )


_BLOCKS = Decision(
    "Blocks are executed one after another. What does a flag between them do?",
    "Nothing: it orders what is in order already.",
    "execution of this engine",
)

_MEMORY_ORDER: tuple[Instruction, ...] = (
    sync_handles.config(
        "cmo.cacheinvalid",
        "Write back and invalidate lines of the data cache.",
        "The line of an address, or all lines of global memory.",
        (Operand("addr", "in", "memory", optional=True, note="address whose line is meant"),),
        (
            Shown({}, (), {"space": ir.AddressSpace.GM}),
            Shown({"addr": ir.PtrType(ir.F32)}, ("addr",)),
            Shown({"addr": ir.TensorViewType((4, 8), ir.F32)}, ("addr",)),
        ),
        (Attribute("space", ir.AddressSpace, None, "memory whose lines are meant"),),
        (_global_only,),
        decisions=(_COHERENT,),
        traits=Traits(order=Order("signal", "cores", publishes=True)),
        changes=(new(),),
    ),
    sync_handles.config(
        "fence.barrier_all",
        "Complete earlier writes of the core.",
        "Drains MTE2, MTE3 and FIX; earlier writes are visible to all before later operations.",
        (),
        (Shown({}, (), {"scope": ir.FenceScope.GM}), Shown({}, (), {"scope": ir.FenceScope.ALL})),
        (Attribute("scope", ir.FenceScope, None, "memory whose writes are completed"),),
        (required("scope"),),
        decisions=(_COHERENT,),
        traits=Traits(order=Order("barrier", "pipe", publishes=True)),
        changes=(new(),),
    ),
    _flag("set_intra_block", "Signal the cores of the block.", _SIGNAL, 31, _PAIRS),
    _flag("wait_intra_block", "Wait for the cores of the block.", _WAIT, 31, _PAIRS),
    _flag("set_cross_block", "Signal the cores of all blocks.", Order("signal", "cores"), 15, _BLOCKS),
    _flag("wait_cross_block", "Wait for the cores of all blocks.", Order("wait", "cores"), 15, _BLOCKS),
    _token("get_buf_dyn", "Acquire a buffer token.", Order("wait", "token")),
    _token("rls_buf_dyn", "Release a buffer token.", Order("signal", "token")),
)

INSTRUCTIONS: tuple[Instruction, ...] = (*_EVENT_ARRAYS, *_MEMORY_ORDER)
