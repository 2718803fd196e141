"""Pipes by handle: lowered initialisations, pushes, pops and frees, and pipes of a grid of cores."""

from dataclasses import replace

from .. import ir, profiles
from . import assembly, changes, sync_config
from .declare import Attribute, Decision, Instruction, Operand
from .pipes import ACC, MAT, PIPE, SLOT, VEC
from .rules import constraints, handles, pipes, typesets
from .rules.handles import Shown, handle, handle_operand, only_on
from .rules.require import require
from .traits import Effect, Traits

_GRID_TYPES = typesets.table((), typesets.STANDARD, ())
_WINDOW = ir.PartitionViewType((16, 16), ir.F32)
_HALVED: dict[str, ir.Type] = {"tile": VEC, "pipe": PIPE, "aiv_subblockid": ir.ScalarType(ir.I64)}


def _ring_handle(name: str, *, through_memory: bool) -> Instruction:
    local: tuple[str, ...] = ("local_addr", "peer_local_addr")
    forms: tuple[tuple[str, ...], ...] = (local[:1], local)
    operands = [
        Operand("local_addr", "in", "scalar", note="address of the consumer's slots"),
        Operand("peer_local_addr", "in", "scalar", optional=True, note="exactly with dir_mask = 3"),
        handle_operand("result", out=True),
    ]
    types: dict[str, ir.Type] = {**dict.fromkeys(local, ir.ScalarType(ir.I32)), "result": PIPE}
    attributes = [pipes.DIR_MASK, pipes.SLOT_SIZE, pipes.SLOT_NUM, pipes.FLAG_BASE, pipes.NOSPLIT]
    rules = [*pipes.RING_NUMBERS, pipes.peer_address, handle("result", "pipe", pipes.DIALECT)]
    ring: dict[str, ir.AttrValue] = {"dir_mask": 3, "slot_size": 1024, "slot_num": 4, "flag_base": 0}
    if through_memory:
        operands = [
            Operand("gm_addr", "in", "memory", note="slots in global memory"),
            replace(operands[0], optional=True),
            *operands[1:],
        ]
        forms = (("gm_addr",), *(("gm_addr", *f) for f in forms))
        types["gm_addr"] = ir.PtrType(ir.F32)
        attributes.append(Attribute("local_slot_num", int, None, "slots in local memory, at most slot_num"))
        rules.append(pipes.local_slots)
    one = {k: v for k, v in types.items() if k != "peer_local_addr"}
    return pipes.pipe_instruction(
        name,
        "Make a pipe handle whose data goes through global memory."
        if through_memory
        else "Make a pipe handle whose data goes from core to core.",
        "The lowered form of the initialisation; pushes, pops and frees name the handle.",
        tuple(operands),
        (
            Shown(types, forms[-1], ring, grouped=through_memory),
            Shown(one, forms[-2], {**ring, "dir_mask": 1, "slot_num": 8}, grouped=through_memory),
        ),
        tuple(attributes),
        (sync_config.required("dir_mask", "slot_size", "slot_num"), *rules),
        forms=forms,
        traits=Traits(fifo="initialise"),
        changes=(changes.form("4 or 8 slots", "any number of slots, which may be a view"),),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _ring_handle("initialize_l2g2l_pipe", through_memory=True),
    _ring_handle("initialize_l2l_pipe", through_memory=False),
    pipes.pipe_instruction(
        "declare_tile",
        "Declare a tile handle without storage.",
        "A pop gives it the storage of a slot, tassign an address.",
        (pipes.tile_operand("result", "out"),),
        (Shown({"result": VEC}, ()),),
    ),
    pipes.pipe_instruction(
        "tpush",
        "Push a tile, or commit an allocated slot, through a pipe handle.",
        "Waits for a free slot, stores the tile row-major (halves by split) and marks the slot ready; a view "
        "from talloc is marked ready only.",
        (
            pipes.tile_operand("tile", optional=True),
            Operand("view", "in", "gm", optional=True, note="slot from talloc"),
            handle_operand("pipe"),
            pipes.subblock("aiv_subblockid"),
        ),
        (
            Shown({"tile": ACC, "pipe": PIPE}, ("tile", "pipe"), {"split": 1}),
            Shown({"tile": VEC, "pipe": PIPE}, ("tile", "pipe"), {"split": 0}),
            Shown({"view": _WINDOW, "pipe": PIPE}, ("view", "pipe"), {"split": 0}),
            Shown(_HALVED, ("tile", "pipe", "aiv_subblockid"), {"split": 2}),
        ),
        (pipes.SPLIT,),
        (
            pipes.SPLIT_RULE,
            handle("pipe", "pipe", pipes.DIALECT),
            pipes.located("tile", ir.Loc.ACC, ir.Loc.VEC, ir.Loc.CTRL),
            pipes.half_given("tile"),
        ),
        pipe=ir.Pipe.MTE3,
        forms=(("tile", "pipe"), ("view", "pipe"), ("tile", "pipe", "aiv_subblockid")),
        traits=Traits((Effect("read", "tile", "tile"),), fifo="push"),
        pipe_rule=handles.stored,
    ),
    pipes.pipe_instruction(
        "tpop",
        "Pop the next ready slot of a pipe handle.",
        "Waits for a ready slot; the tile or view then denotes its data until the slot is freed.",
        (
            pipes.tile_operand("result", "out", optional=True),
            pipes.tile_operand("tile", optional=True, note="handle that receives the slot"),
            Operand("view", "in", "gm", optional=True, note="view that receives the slot"),
            handle_operand("pipe"),
            pipes.subblock("aiv_subblockid"),
        ),
        (
            Shown({"tile": VEC, "pipe": PIPE}, ("tile", "pipe"), {"split": 1}),
            Shown({"tile": MAT, "pipe": PIPE}, ("tile", "pipe"), {"split": 0}),
            Shown({"result": VEC, "pipe": PIPE}, ("pipe",), {"split": 0}),
            Shown(_HALVED, ("tile", "pipe", "aiv_subblockid"), {"split": 2}),
        ),
        (pipes.SPLIT,),
        (
            pipes.SPLIT_RULE,
            handle("pipe", "pipe", pipes.DIALECT),
            constraints.place(
                (pipes.tile_operand("tile"), pipes.tile_operand("result")),
                (ir.Loc.VEC, ir.Loc.MAT, ir.Loc.CTRL),
                profiles.PROFILE_NAMES,
            ),
            pipes.half_given("tile"),
        ),
        decisions=(pipes.RELEASE,),
        pipe=ir.Pipe.MTE2,
        forms=(("tile", "pipe"), ("view", "pipe"), ("pipe",), ("tile", "pipe", "aiv_subblockid")),
        traits=Traits(fifo="pop"),
        phases=pipes.popping,
        assembly=assembly.Assembly(trailing=0),
    ),
    pipes.pipe_instruction(
        "declare_global",
        "Declare a view of global memory without storage.",
        "talloc and tpop let it denote a slot; a pipe handle that is made of it has its slots there.",
        (Operand("result", "out", "gm"),),
        (Shown({"result": SLOT}, ()),),
        changes=(changes.new(),),
    ),
    pipes.pipe_instruction(
        "talloc",
        "Reserve the next slot of a pipe as a view of global memory.",
        "Waits for a free slot, which the view or result denotes from then on; a push of it commits it.",
        (
            Operand("result", "out", "gm", optional=True),
            Operand("view", "in", "gm", optional=True, note="declared view that receives the slot"),
            handle_operand("pipe"),
        ),
        (
            Shown({"result": _WINDOW, "pipe": PIPE}, ("pipe",), {"split": 0}),
            Shown({"view": SLOT, "pipe": PIPE}, ("view", "pipe"), {"split": 0}),
        ),
        (pipes.SPLIT,),
        (pipes.SPLIT_RULE, handle("pipe", "pipe", pipes.PAGE)),
        decisions=(
            Decision(
                "The simulator has no slots in global memory. Is the instruction legal there?",
                "Yes: no rule depends on how slots are kept.",
                "public CPU simulator (no implementation)",
            ),
        ),
        traits=Traits(fifo="allocate"),
        assembly=assembly.Assembly(trailing=0),
        changes=(changes.form("a result", "a declared view as first operand"),),
    ),
    pipes.pipe_instruction(
        "tfree",
        "Free the slot popped last through a pipe handle.",
        "The producer may use the slot again.",
        (
            handle_operand("pipe"),
            Operand("entry", "in", "entry", optional=True, note="the slot that was popped"),
            Operand("view", "in", "gm", optional=True, note="slot popped as a view"),
        ),
        (
            Shown({"pipe": PIPE}, ("pipe",), {"split": 0}),
            Shown({"pipe": PIPE, "view": _WINDOW}, ("pipe", "view"), {"split": 0}),
            Shown({"pipe": PIPE, "entry": SLOT}, ("entry", "pipe"), {"split": 0}),
            Shown({"pipe": PIPE, "entry": VEC}, ("entry", "pipe"), {"split": 1}),
        ),
        (pipes.SPLIT,),
        (pipes.SPLIT_RULE, handle("pipe", "pipe", pipes.DIALECT)),
        forms=(("pipe",), ("entry", "pipe"), ("pipe", "view")),
        decisions=(pipes.RELEASE,),
        traits=Traits(fifo="free"),
        changes=(changes.form("the pipe alone", "the popped tile or view before it"),),
    ),
    pipes.pipe_instruction(
        "grid_tpush",
        "Send a tile to a neighbouring core, or to all cores of a row or column.",
        "The core dist hops away in the direction receives the tile; with a span every core of it does.",
        (Operand("tile", "in"), handle_operand("pipe")),
        tuple(
            Shown(
                {"tile": ir.TileType(ir.dtype(d), 16, 32), "pipe": PIPE},
                ("tile", "pipe"),
                {"direction": ir.GridDirection.EAST, "dist": 1},
                profiles=("a2a3",),
            )
            for d in typesets.STANDARD
        ),
        (
            Attribute("direction", ir.GridDirection, ir.GridDirection.EAST, "hop direction"),
            Attribute("dist", int, 1, "hops"),
            Attribute("span", ir.GridSpan, ir.GridSpan.NONE, "row or column that a broadcast reaches"),
        ),
        (
            only_on(("a2a3",), pipes.PAGE),
            handle("pipe", "pipe", pipes.PAGE),
            require("dist", "dist >= 1", source=pipes.PAGE),
        ),
        pipe=ir.Pipe.MTE3,
        executable=False,
        decisions=(
            Decision(
                "What would an execution need?",
                "What pops the tile, and the extents of the grid of cores and the place of a core in it: the "
                "headers have them (GridPipe), no text form does.",
                "pto-isa headers, GridTPush.hpp and GridTPop.hpp",
            ),
        ),
        types=_GRID_TYPES,
        traits=Traits((Effect("read", "tile", "tile"), Effect("write", "remote"))),
    ),
)
