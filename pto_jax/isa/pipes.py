"""Pipes: FIFOs between a cube core and its vector cores, and between neighbouring cores.

Rules that span functions (initialisation on both sides, equal splits) are in :mod:`pto_jax.verifier.pipes`.
"""

from dataclasses import replace
from typing import TypedDict, Unpack

from .. import ir
from ..profiles import ProfileName
from . import changes, sync_config
from .declare import Attribute, Instruction, Operand
from .rules import handles, pipes
from .rules.handles import Shown
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


class _Where(TypedDict, total=False):
    profiles: tuple[ProfileName, ...]


def _initialize(core: str, kind: str) -> Instruction:
    buffers = ("c2v_consumer_buf", "v2c_consumer_buf")
    types: dict[str, ir.Type] = {
        "gm_slot_buffer": ir.PtrType(ir.F32),
        "gm_slot_tensor": SLOT,
        **dict.fromkeys(buffers, ir.ScalarType(ir.I32)),
    }
    operands = (
        Operand("gm_slot_buffer", "in", "ptr", optional=True, note="slots in global memory"),
        Operand("gm_slot_tensor", "in", "gm", optional=True, note="the first slot in global memory"),
        Operand(buffers[0], "in", "scalar", optional=True, note="address of the vector core's slots"),
        Operand(buffers[1], "in", "scalar", optional=True, note="address of the cube core's slots"),
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


INSTRUCTIONS: tuple[Instruction, ...] = (
    pipes.pipe_instruction(
        "reserve_buffer",
        "Reserve local memory for the slots of a pipe.",
        "The result is the byte address; the peer function imports the buffer by its name.",
        (Operand("result", "out", "scalar"),),
        (
            Shown({"result": ir.ScalarType(ir.I32)}, (), _BUFFER),
            Shown({"result": ir.ScalarType(ir.I32)}, (), {**_BUFFER, "auto": False, "base": 0}),
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
        (Operand("result", "out", "scalar"),),
        (Shown({"result": ir.ScalarType(ir.I32)}, (), {"name": "fifo", "peer_func": ir.Symbol("fragment")}),),
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
