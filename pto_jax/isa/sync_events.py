"""Sync and config: arrays of event identifiers, flag addresses, prefetch hints."""

from collections.abc import Iterator

from ..ir import F32, I1, I8, I64, INDEX, MemRefType, OpaqueType, PartitionViewType, PtrType, ScalarType, Type
from ..profiles import PROFILE_NAMES
from .changes import form, new
from .declare import Decision, Finding, Instruction, Operand, Site
from .rules.communication import comm
from .rules.constraints import fixed_type
from .rules.forbid import forbid, give
from .rules.handles import Shown, handle, handle_operand
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


INSTRUCTIONS: tuple[Instruction, ...] = (
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
        (handle_operand("result", out=True),),
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
            Operand("result", "out", "scalar"),
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
            handle_operand("context", out=True),
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
        (handle_operand("context"), handle_operand("session", out=True)),
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
            handle_operand("event", out=True),
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
