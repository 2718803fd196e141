"""Sync and config: order of memory, and flags between the cores of a block and of all blocks."""

from collections.abc import Iterator
from enum import IntEnum

from .. import ir, profiles
from . import sync_config, sync_handles
from .changes import DIALECT, new
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules.forbid import Types, assign, forbid
from .rules.handles import Shown, core_pipes, required
from .rules.require import require
from .traits import Order, Traits

_COHERENT = Decision(
    "Are reads stale that no cache operation and no fence precede?",
    "No: memory is coherent here, so that neither changes a value.",
    "execution of this engine",
)
_PAIRS = Decision(
    "Which vector core does a flag of the cube core reach?",
    "Both; where a program uses numbers from 16 on (a5), numbers below 16 belong to the first one and those "
    "16 above to the second one.",
    f"{DIALECT}; machine model pages",
)
_EVENT = Attribute("event", int, None, "number of the flag", ("event", "event_id"))
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
            _EVENT,
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

INSTRUCTIONS: tuple[Instruction, ...] = (
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
        "Drains MTE2, MTE3 and FIX; what was written before is visible to all before what follows.",
        (),
        (Shown({}, (), {"scope": ir.FenceScope.GM}), Shown({}, (), {"scope": ir.FenceScope.ALL})),
        (Attribute("scope", ir.FenceScope, None, "memory whose writes are completed"),),
        (required("scope"),),
        decisions=(_COHERENT,),
        traits=Traits(order=Order("barrier", "pipe", publishes=True)),
        changes=(new(),),
    ),
    _flag("set_intra_block", "Signal the cores of the block.", Order("signal", "core"), 31, _PAIRS),
    _flag("wait_intra_block", "Wait for the cores of the block.", Order("wait", "core"), 31, _PAIRS),
    _flag("set_cross_block", "Signal the cores of all blocks.", Order("signal", "cores"), 15, _BLOCKS),
    _flag("wait_cross_block", "Wait for the cores of all blocks.", Order("wait", "cores"), 15, _BLOCKS),
    _token("get_buf_dyn", "Acquire a buffer token.", Order("wait", "token")),
    _token("rls_buf_dyn", "Release a buffer token.", Order("signal", "token")),
)
