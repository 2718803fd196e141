"""Synchronisation and configuration: address binding, aliases, events, flags, barriers, modes of products.

Allocation and views, which the overview counts to this class too, are in :mod:`.views`.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from typing import Unpack

from ..ir import F16, I64, AddressSpace, MemRefType, Pipe, PipeEventType, RoundMode, ScalarType
from .assembly import Assembly
from .declare import Attribute, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules.forbid import edit, forbid
from .rules.handles import (
    CORE_FLAG,
    CustomParts,
    Shown,
    address_rules,
    custom,
    event_range,
    no_memref,
    required as required,
    token_range,
    two_pipes,
)
from .rules.require import require
from .samples.operations import NUMBER, ROWS, TILE
from .traits import Alias, Effect, Order, Placement, Traits

_PAGES = ("PTO ISA page of the instruction", "PTOAS dialect definition")
NO_VALUE_EFFECT = Decision(
    "What does synchronisation compute?",
    "Nothing: instructions take effect in program order; operands and attributes are checked only.",
    "public CPU simulator (no-ops in program order)",
)
#: Names that those who build operations use.
TSYNC = "tsync"
TALIAS = "talias"


def _sync(
    name: str,
    summary: str,
    semantics: str,
    attributes: tuple[Attribute, ...],
    constraints: tuple[Constraint, ...] = (),
    operands: tuple[Operand, ...] = (),
    shown: tuple[Shown, ...] = (),
    *,
    order: Order,
    **parts: Unpack[CustomParts],
) -> Instruction:
    return custom(
        name,
        summary,
        semantics,
        operands,
        shown,
        attributes,
        constraints,
        (NO_VALUE_EFFECT,),
        Traits(order=order),
        sources=_PAGES,
        **parts,
    )


_I64 = ScalarType(I64)
_SRC_OP = Attribute("src_op", PipeEventType, None, "producer class", ("src_op",))
_DST_OP = Attribute("dst_op", PipeEventType, None, "consumer class", ("dst_op",))
_OP_TYPE = Attribute("op_type", PipeEventType, None, "operation class", ("op_type",))
_KEY = Attribute("op_type", IntEnum, None, "operation class or pipe", ("op_type",))
_EVENT = Attribute("event", int, None, "event identifier, 0 to 7", ("event", "event_id"))
_SRC_PIPE = Attribute("src", Pipe, None, "producing pipe", ("src", "src_pipe"))
_DST_PIPE = Attribute("dst", Pipe, None, "waiting pipe", ("dst", "dst_pipe"))
_PIPE = Attribute("pipe", Pipe, None, "pipe", ("pipe",))
_FFTS = Attribute("ffts_mode", int, None, "cross-core mode")
_ID = Operand("id", "in", "index", optional=True, note="run-time event identifier")
_BUF = Attribute("buf", int, None, "buffer token", ("buf", "buf_id"))
_MODE = Attribute("mode", int, 0, "token mode")


@forbid("profile", "profiles a5 and cpu_sim", ("a2a3",), severity="warning", source=_PAGES[1], on_lanes=False)
def _buffer_profile(site: Site) -> Iterator[Finding]:
    yield None, "buffer tokens are an A5 feature and have no effect on a2a3"


_alias_space = require("alias-space", "dst.loc == src.loc", source=_PAGES[0])


_alias_size = require("alias-size", "dst.bytes <= src.bytes", source=_PAGES[0])


@forbid(
    "types-equal",
    "the result has the type of the tile",
    source=_PAGES[1],
    invalid_if=edit("result", lambda t: replace(t, rows=t.rows * 2)),
)
def _same_type(site: Site) -> Iterator[Finding]:
    s, t = site.tile("tile"), site.tile("result")
    if s is not None and t is not None and (s.shape, s.dtype, s.loc) != (t.shape, t.dtype, t.loc):
        yield "result", f"result is {t}, tile is {s}; allowed: the same tile type"


#: What local memory was before the language dropped memrefs.
_REMOVED = MemRefType((ROWS, ROWS), F16, AddressSpace.VEC)

INSTRUCTIONS: tuple[Instruction, ...] = (
    custom(
        "tassign",
        "Bind a tile to a byte address of its memory space.",
        "The handle denotes the bytes [addr, addr + size) of the tile's space from here on; contents stay.",
        (
            Operand("result", "out", optional=True, note="the rebound handle", conv=True),
            Operand("tile", "in", conv=True),
            Operand("addr", "in", "scalar", note="bytes", type=_I64),
        ),
        (Shown({"tile": TILE, "addr": _I64, "result": TILE}, constants={"addr": (0x1000,)}),),
        constraints=(*address_rules("tile"), _same_type, no_memref("tile", "a tile", _REMOVED)),
        decisions=(
            Decision(
                "Is binding a no-op where a tool places tiles itself?",
                "No: an address that is given holds in every mode.",
                "public CPU simulator",
            ),
        ),
        sources=_PAGES,
        traits=Traits(placement=Placement("tile", "addr", allocates=False)),
    ),
    _sync(
        TSYNC,
        "Wait for events, or drain the pipe of one instruction.",
        "Without operands and attribute it does nothing.",
        (Attribute("op", str, None, "instruction whose pipe is drained", ("op", "Op")),),
        operands=(Operand("events", "in", "event", optional=True, note="any number"),),
        forms=((), *(("events",) * n for n in range(1, 9))),
        order=Order("wait", "operation"),
        assembly=Assembly(argument="op"),
    ),
    custom(
        TALIAS,
        "Second handle over the storage of a tile.",
        "dst denotes src's bytes through dst's own type; nothing moves.",
        (Operand("dst", "out"), Operand("src", "in")),
        (Shown({"src": TILE, "dst": replace(TILE, rows=ROWS // 2, v_row=ROWS // 2)}),),
        constraints=(_alias_space, _alias_size),
        decisions=(
            Decision(
                "The instruction is listed but neither declared nor implemented.",
                "A handle over the same bytes in the same place, through the type of dst.",
                "Tile Instruction Set overview (sync and config)",
            ),
        ),
        sources=("Tile Instruction Set overview",),
        syntax="tile",
        traits=Traits(alias=Alias("dst", "src")),
    ),
    _sync(
        "record_event",
        "Producer side of a high-level event.",
        "Signals the event once earlier work of src_op is complete.",
        (_SRC_OP, _DST_OP, _EVENT),
        (required("src_op", "dst_op", "event"), event_range),
        order=Order("signal", "event"),
    ),
    _sync(
        "wait_event",
        "Consumer side of a high-level event.",
        "Holds dst_op until the event was recorded.",
        (_SRC_OP, _DST_OP, _EVENT),
        (required("src_op", "dst_op", "event"), event_range),
        order=Order("wait", "event"),
    ),
    *(
        _sync(
            name,
            summary,
            "Orders two pipes through a hardware flag.",
            (_SRC_PIPE, _DST_PIPE, _EVENT),
            (required("src", "dst", "event"), event_range, two_pipes),
            order=order,
        )
        for name, summary, order in (
            ("set_flag", "Set a flag between two pipes.", Order("signal", "flag")),
            ("wait_flag", "Wait for a flag.", Order("wait", "flag")),
        )
    ),
    *(
        _sync(
            name,
            summary,
            "As the form with a constant identifier.",
            (_SRC_PIPE, _DST_PIPE),
            (required("src", "dst"), two_pipes),
            (replace(_ID, optional=False),),
            (Shown({"id": NUMBER}, attrs={"src": Pipe.MTE2, "dst": Pipe.V}, constants={"id": (0,)}),),
            order=order,
        )
        for name, summary, order in (
            ("set_flag_dyn", "Set a flag with a run-time identifier.", Order("signal", "flag")),
            ("wait_flag_dyn", "Wait for a flag with a run-time identifier.", Order("wait", "flag")),
        )
    ),
    _sync(
        "barrier",
        "Drain one pipe.",
        "PIPE_ALL drains every pipe.",
        (_PIPE,),
        (required("pipe"),),
        order=Order("barrier", "pipe"),
    ),
    _sync(
        "barrier_sync",
        "Drain the pipe of an operation class.",
        "A barrier on the pipe of op_type.",
        (_OP_TYPE,),
        (required("op_type"),),
        order=Order("barrier", "pipe"),
    ),
    *(
        _sync(
            name,
            summary,
            "Cross-core order; the identifier is an attribute or an operand.",
            (_PIPE, replace(_EVENT, meaning="event identifier"), _FFTS),
            (required("pipe"), *CORE_FLAG),
            (_ID,),
            (Shown({}, (), {"pipe": Pipe.FIX, "event": 3}),),
            order=order,
        )
        for name, summary, order in (
            ("sync.set", "Signal the partner core.", Order("signal", "core")),
            ("sync.wait", "Wait for the partner core.", Order("wait", "core")),
        )
    ),
    *(
        _sync(
            name,
            summary,
            "Orders operations that use one buffer token.",
            (_KEY, _BUF, _MODE),
            (required("op_type", "buf"), token_range, _buffer_profile),
            shown=(Shown({}, attrs={"op_type": PipeEventType.TVEC, "buf": 0}),),
            order=order,
        )
        for name, summary, order in (
            ("get_buf", "Acquire a buffer token.", Order("wait", "token")),
            ("rls_buf", "Release a buffer token.", Order("signal", "token")),
        )
    ),
)


_SOURCES = ("pages sethf32mode, settf32mode", "pto_tile.hpp (SetMadTF32Mode)")
_ROUNDINGS = (RoundMode.RINT, RoundMode.ROUND)

_WIDTH = Decision(
    "The page gives TF32 a 7-bit mantissa on A5 and nothing on A2/A3, the header 11 bits on A2/A3 and 10 on "
    "A5, the HF32 page nothing. How short are operands?",
    "11 mantissa bits on a2a3, 10 on a5, for both instructions: they set the same two control bits.",
    "pto_tile.hpp (backend headers go before pages)",
)
_ROUNDING = Decision(
    "The page calls CAST_ROUND nearest-even, the enumeration nearest with ties away. Which is it?",
    "Ties away from zero; CAST_RINT is nearest-even.",
    "constants.hpp (RoundMode); pto_tile.hpp",
)
_SIMULATOR = Decision(
    "What does the mode change on cpu_sim?",
    "Nothing: products of f32 tiles stay full f32.",
    "public CPU simulator",
)


_rounding = require("rounding", f"mode in ({', '.join(m.name for m in _ROUNDINGS)})", source=_SOURCES[1])


def _mode(name: str, short: str) -> Instruction:
    modes = ((True, RoundMode.ROUND), (False, RoundMode.RINT))
    return custom(
        name,
        f"Switch the {short} mode of multiplications on or off.",
        "From here on multiplications round each f32 operand to the short format first; products and sums "
        "stay f32. Both modes are one state.",
        (),
        tuple(Shown({}, attrs={"enable": enable, "mode": mode}) for enable, mode in modes),
        (
            Attribute("enable", bool, None, "on or off"),
            Attribute("mode", RoundMode, RoundMode.ROUND, "rounding of the operands"),
        ),
        (required("enable"), _rounding),
        (_WIDTH, _ROUNDING, _SIMULATOR),
        Traits(effects=(Effect("write", "mode"),)),
        sources=_SOURCES,
        syntax="tile",
    )


MODES_INSTRUCTIONS: tuple[Instruction, ...] = (_mode("sethf32mode", "HF32"), _mode("settf32mode", "TF32"))

INSTRUCTIONS = (*INSTRUCTIONS, *MODES_INSTRUCTIONS)
