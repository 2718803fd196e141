"""Pipes: FIFOs between a cube core and its vector cores, and between neighbouring cores.

Rules that span functions (initialisation on both sides, equal splits) are in :mod:`pto_jax.verifier.pipes`.
"""

from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack

from .. import ir, profiles
from ..profiles import ProfileName
from . import assembly, changes, sync_config
from .declare import Attribute, Decision, Instruction, Operand
from .rules import constraints, handles, pipes, typesets
from .rules.handles import Shown, handle, handle_operand, only_on
from .rules.require import require
from .traits import Effect, Traits

PIPE = ir.OpaqueType("pipe")
VEC = ir.TileType(ir.F32, 16, 16)
ACC = ir.TileType(
    ir.F32, 16, 16, loc=ir.Loc.ACC, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR, fractal=1024
)
MAT = ir.TileType(ir.F32, 16, 16, loc=ir.Loc.MAT, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR)
#: A slot of 1024 bytes in global memory.
SLOT = ir.TensorViewType((16, 16), ir.F32)


_I32 = ir.ScalarType(ir.I32)
_address = partial(Operand, role="in", kind="scalar", type=_I32)


class _Where(TypedDict, total=False):
    profiles: tuple[ProfileName, ...]


def _initialize(core: str, kind: str) -> Instruction:
    buffers = ("c2v_consumer_buf", "v2c_consumer_buf")
    types: dict[str, ir.Type] = {
        "gm_slot_buffer": ir.PtrType(ir.F32),
        "gm_slot_tensor": SLOT,
        **dict.fromkeys(buffers, _I32),
    }
    operands = (
        Operand("gm_slot_buffer", "in", "ptr", optional=True, note="slots in global memory"),
        Operand("gm_slot_tensor", "in", "gm", optional=True, note="the first slot in global memory"),
        _address(buffers[0], optional=True, note="address of the vector core's slots"),
        _address(buffers[1], optional=True, note="address of the cube core's slots"),
    )
    two: dict[str, ir.AttrValue] = {"dir_mask": 3, "slot_size": 1024}
    one: dict[str, ir.AttrValue] = {"dir_mask": 1, "slot_size": 1024, "slot_num": 2, "id": 3}
    pushed = ir.AccPushEpilogue(ir.PushLayout.NZ2ND, ir.PushQuant.F32_F16, ir.PushRelu.NO_RELU)
    quantised: dict[str, ir.AttrValue] = {**one, "nosplit": True, "acc_push_epilogue": pushed}

    def shown(form: tuple[str, ...], attrs: dict[str, ir.AttrValue], **more: Unpack[_Where]) -> Shown:
        return Shown({n: types[n] for n in form}, form, attrs, grouped=True, **more)

    buffered = ("gm_slot_buffer", *buffers)
    return pipes.pipe_instruction(
        f"{core}_initialize_pipe",
        f"Set up a pipe of a {kind} function.",
        "Pushes, pops and frees with its id go through it. Slots lie in the consumer's local buffer, on a2a3 "
        "with a copy in global memory; with gm_slot_tensor alone they are views of global memory.",
        operands,
        (
            shown(buffered, two),
            shown(("gm_slot_buffer", buffers[0]), quantised),
            shown(("gm_slot_buffer", buffers[0]), {**one, "local_slot_num": 1}, profiles=("a2a3", "cpu_sim")),
            shown(("gm_slot_tensor",), two),
            shown(("gm_slot_tensor", buffers[0]), one),
            shown(buffers, two, profiles=("a5", "cpu_sim")),
            shown(buffers[:1], one, profiles=("a5", "cpu_sim")),
        ),
        (
            pipes.ID,
            pipes.DIR_MASK,
            pipes.SLOT_SIZE,
            replace(pipes.SLOT_NUM, meaning="slots of the ring; absent: 8, with dir_mask 3 4"),
            Attribute("local_slot_num", int, None, "slots in local memory (a2a3), at most slot_num"),
            pipes.NOSPLIT,
            Attribute("acc_push_epilogue", ir.AccPushEpilogue, None, "what is done to accumulators"),
        ),
        (
            sync_config.required("dir_mask", "slot_size"),
            pipes.ID_RULE,
            *pipes.RING,
            require("slot-num", "slot_num >= 1", source=pipes.DIALECT),
            *pipes.END_RULES,
        ),
        forms=(buffered, buffers, ("gm_slot_tensor",), ("gm_slot_tensor", buffers[0])),
        traits=Traits(fifo="initialise", core=ir.KernelKind[kind.upper()]),
        changes=(
            changes.form(
                "one pipe of each function, with consumer buffers",
                "id, slot_num, local_slot_num, gm_slot_tensor and acc_push_epilogue; operands in any order, "
                "each only where it is needed",
            ),
        ),
    )


_ENTRY = changes.form("split 0 to 2 and tiles", "id, split 3 and 4, and views of global memory")


def _allocate(name: str, kind: str) -> Instruction:
    return pipes.pipe_instruction(
        name,
        f"Reserve the next slot of a pipe of the {kind} core as a view of global memory.",
        "Waits for a free slot; the result is the view that gm_slot_tensor describes (a half by split). "
        "A push of it commits what was stored there.",
        (Operand("entry", "out", "gm"),),
        (Shown({"entry": SLOT}, (), {"split": 0}), Shown({"entry": SLOT}, (), {"split": 1, "id": 2})),
        (pipes.ID, pipes.SPLIT),
        (pipes.ID_RULE, pipes.SPLIT_RULE),
        traits=Traits(fifo="allocate", core=ir.KernelKind[kind.upper()]),
        changes=(changes.new(),),
    )


def _push(name: str, kind: str, tile: ir.TileType) -> Instruction:
    half = ("aiv_subblockid",) if kind == "vector" else ()
    operands = (Operand("tile", "in", "entry"), *map(pipes.subblock, half))
    types: dict[str, ir.Type] = {"tile": tile, "aiv_subblockid": ir.ScalarType(ir.I64)}
    return pipes.pipe_instruction(
        name,
        f"Push a tile, or a slot that was allocated, from the {kind} core into a pipe.",
        "Waits for a free slot, stores the tile row-major (halves by split) and marks the slot ready; a view "
        "is marked ready only.",
        operands,
        (
            Shown({"tile": tile}, ("tile",), {"split": 1}),
            Shown({"tile": SLOT}, ("tile",), {"split": 0, "id": 1}),
            *((Shown(types, ("tile", *half), {"split": 1}),) if half else ()),
        ),
        (pipes.ID, pipes.SPLIT),
        (
            pipes.ID_RULE,
            pipes.SPLIT_RULE,
            pipes.located("tile", tile.loc),
            *((pipes.half_given("tile"),) if half else ()),
        ),
        decisions=(pipes.HALVES,),
        pipe=ir.Pipe.FIX if tile.loc == ir.Loc.ACC else ir.Pipe.MTE3,
        traits=Traits((Effect("read", "tile", "tile"),), fifo="push", core=ir.KernelKind[kind.upper()]),
        pipe_rule=handles.stored,
        changes=(_ENTRY,),
    )


def _pop(name: str, kind: str, tile: ir.TileType) -> Instruction:
    sizes, both = ("valid_row", "valid_col"), ir.ScalarType(ir.INDEX)
    half = ("aiv_subblockid",) if kind == "vector" else ()
    open_type: dict[str, ir.Type] = {"result": tile.with_valid(None, None), **dict.fromkeys(sizes, both)}
    constants = {"valid_row": (8,), "valid_col": (16,)}
    halved: dict[str, ir.Type] = {"result": tile, "aiv_subblockid": ir.ScalarType(ir.I64)}
    return pipes.pipe_instruction(
        name,
        f"Pop a tile, or a slot in global memory, on the {kind} core from a pipe.",
        "Waits for the next ready slot; the result is a handle to its data until the slot is freed.",
        (
            Operand("valid_row", "in", "scalar", optional=True),
            Operand("valid_col", "in", "scalar", optional=True),
            *map(pipes.subblock, half),
            Operand("result", "out", "entry"),
        ),
        (
            Shown({"result": tile}, (), {"split": 0}, grouped=True),
            Shown(open_type, sizes, {"split": 0, "id": 1}, constants, grouped=True),
            Shown({"result": SLOT}, (), {"split": 0}, grouped=True),
            *((Shown(halved, half, {"split": 2}, grouped=True),) if half else ()),
        ),
        (pipes.ID, pipes.SPLIT),
        (
            pipes.ID_RULE,
            pipes.SPLIT_RULE,
            pipes.located("result", tile.loc),
            pipes.dynamic_result,
            *((pipes.half_given("result"),) if half else ()),
        ),
        decisions=(pipes.RELEASE, pipes.HALVES),
        pipe=ir.Pipe.MTE2 if tile.loc == ir.Loc.VEC else ir.Pipe.MTE1,
        forms=((), sizes, *(((*half,), (*sizes, *half)) if half else ())),
        traits=Traits(fifo="pop", core=ir.KernelKind[kind.upper()]),
        phases=pipes.popping,
        changes=(_ENTRY,),
    )


def _free(name: str, kind: str) -> Instruction:
    return pipes.pipe_instruction(
        name,
        f"Free the slot the {kind} core popped last.",
        "The producer may use the slot again.",
        (Operand("entry", "in", "entry", optional=True, note="the slot that was popped"),),
        (
            Shown({}, (), {"split": 0}),
            Shown({"entry": SLOT}, ("entry",), {"split": 0, "id": 1}),
        ),
        (pipes.ID, pipes.SPLIT),
        (pipes.ID_RULE, pipes.SPLIT_RULE),
        decisions=(pipes.RELEASE,),
        traits=Traits(fifo="free", core=ir.KernelKind[kind.upper()]),
        changes=(_ENTRY,),
    )


_BUFFER: dict[str, ir.AttrValue] = {
    "name": "fifo",
    "size": 8192,
    "location": ir.AddressSpace.VEC,
    "auto": True,
}


_BY_NUMBER: tuple[Instruction, ...] = (
    pipes.pipe_instruction(
        "reserve_buffer",
        "Reserve local memory for the slots of a pipe.",
        "The result is the byte address; the peer function imports the buffer by its name.",
        (Operand("result", "out", "scalar", type=_I32),),
        (
            Shown({"result": _I32}, (), _BUFFER),
            Shown({"result": _I32}, (), {**_BUFFER, "auto": False, "base": 0}),
        ),
        (
            Attribute("name", str, None, "name the peer imports"),
            Attribute("size", int, None, "bytes"),
            Attribute("location", ir.AddressSpace, None, "vec on the vector core, mat on the cube core"),
            Attribute("auto", bool, None, "whether the address is assigned", ("auto", "autoAlloc")),
            Attribute("base", int, None, "byte address; needed where auto is false"),
        ),
        (
            sync_config.required("name", "size", "location", "auto"),
            require("buffer-size", "size >= 1", source=pipes.DIALECT),
            require("base-address", "base >= 0", source=pipes.DIALECT),
            pipes.reserved_place,
            pipes.base_given,
        ),
        traits=Traits(fifo="reserve"),
    ),
    pipes.pipe_instruction(
        "import_reserved_buffer",
        "Address of a buffer that the peer function reserves.",
        "The result is the address of the buffer called name in peer_func.",
        (Operand("result", "out", "scalar", type=_I32),),
        (Shown({"result": _I32}, (), {"name": "fifo", "peer_func": ir.Symbol("fragment")}),),
        (
            Attribute("name", str, None, "name of the buffer"),
            Attribute("peer_func", ir.Symbol, None, "function that reserves it"),
        ),
        (sync_config.required("name", "peer_func"),),
        traits=Traits(fifo="import"),
    ),
    _initialize("aic", "cube"),
    _initialize("aiv", "vector"),
    _allocate("talloc_to_aiv", "cube"),
    _allocate("talloc_to_aic", "vector"),
    _push("tpush_to_aiv", "cube", ACC),
    _push("tpush_to_aic", "vector", VEC),
    _pop("tpop_from_aic", "vector", VEC),
    _pop("tpop_from_aiv", "cube", MAT),
    _free("tfree_from_aic", "vector"),
    _free("tfree_from_aiv", "cube"),
)


# -- pipes by handle ---------------------------------------------------------------------------------

_GRID_TYPES = typesets.table((), typesets.STANDARD, ())
_WINDOW = ir.PartitionViewType((16, 16), ir.F32)
_HALVED: dict[str, ir.Type] = {"tile": VEC, "pipe": PIPE, "aiv_subblockid": ir.ScalarType(ir.I64)}


def _ring_handle(name: str, *, through_memory: bool) -> Instruction:
    local: tuple[str, ...] = ("local_addr", "peer_local_addr")
    forms: tuple[tuple[str, ...], ...] = (local[:1], local)
    operands = [
        _address("local_addr", note="address of the consumer's slots"),
        _address("peer_local_addr", optional=True, note="exactly with dir_mask = 3"),
        handle_operand("result", result=PIPE),
    ]
    types: dict[str, ir.Type] = {**dict.fromkeys(local, _I32), "result": PIPE}
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


_BY_HANDLE: tuple[Instruction, ...] = (
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

INSTRUCTIONS: tuple[Instruction, ...] = (*_BY_NUMBER, *_BY_HANDLE)
