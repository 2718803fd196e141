"""Pipes: FIFOs between a cube core and its vector cores, and between neighbouring cores.

Rules that span functions (initialisation on both sides, equal splits) are in :mod:`pto_jax.verifier.pipes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.dtypes import F32, I32, INDEX, dtype
from ..ir.modes import GridDirection, GridSpan
from ..ir.program import Symbol
from ..ir.types import (
    AddressSpace,
    BLayout,
    KernelKind,
    Loc,
    OpaqueType,
    PartitionViewType,
    Pipe,
    PtrType,
    ScalarType,
    SLayout,
    TileType,
    Type,
)
from ..profiles import PROFILE_NAMES
from .assembly import Assembly
from .declare import Attribute, Decision, Instruction, Operand
from .rules.constraints import place
from .rules.handles import Shown, handle, handle_operand, number_in, only_on
from .rules.issue import stored
from .rules.pipes import (
    DIALECT,
    DIR_MASK,
    FLAG_BASE,
    NOSPLIT,
    PAGE,
    RELEASE,
    RING,
    RING_NUMBERS,
    SLOT_NUM,
    SLOT_SIZE,
    SPLIT,
    SPLIT_RULE,
    base_given,
    dynamic_result,
    local_slots,
    located,
    peer_address,
    pipe_instruction,
    reserved_place,
    tile_operand,
)
from .rules.typesets import STANDARD, table
from .sync_config import required
from .traits import Effect, Traits

if TYPE_CHECKING:
    from ..ir.program import AttrValue

PIPE = OpaqueType("pipe")
VEC = TileType(F32, 16, 16)
ACC = TileType(F32, 16, 16, loc=Loc.ACC, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR, fractal=1024)
MAT = TileType(F32, 16, 16, loc=Loc.MAT, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
_GRID_TYPES = table((), STANDARD, ())


def _initialize(core: str, kind: str) -> Instruction:
    buffers = ("c2v_consumer_buf", "v2c_consumer_buf")
    form = ("gm_slot_buffer", *buffers)
    address = ScalarType(I32)
    types: dict[str, Type] = {"gm_slot_buffer": PtrType(F32), **dict.fromkeys(buffers, address)}
    ring: dict[str, AttrValue] = {"dir_mask": 3, "slot_size": 1024}
    local = {name: types[name] for name in buffers}
    return pipe_instruction(
        f"{core}_initialize_pipe",
        f"Set up the pipes of a {kind} function.",
        "Every push, pop and free of the function goes through them; slots lie in the consumer's local "
        "buffer, on a2a3 with a copy in global memory.",
        (
            Operand("gm_slot_buffer", "in", "ptr", None, optional=True, note="slots in global memory (a2a3)"),
            Operand(buffers[0], "in", "scalar", None, note="address of the vector core's slots"),
            Operand(buffers[1], "in", "scalar", None, note="address of the cube core's slots"),
        ),
        (buffers, form),
        (Shown(types, form, ring, grouped=True), Shown(local, buffers, ring, grouped=True)),
        (DIR_MASK, SLOT_SIZE, NOSPLIT),
        (required("dir_mask", "slot_size"), *RING),
        traits=Traits(fifo="initialise", core=KernelKind[kind.upper()]),
    )


def _push(name: str, kind: str, tile: TileType) -> Instruction:
    return pipe_instruction(
        name,
        f"Push a tile from the {kind} core into its pipe.",
        "Waits for a free slot, stores the tile row-major (halves by split) and marks the slot ready.",
        (tile_operand("tile"),),
        (("tile",),),
        (Shown({"tile": tile}, ("tile",), {"split": 1}),),
        (SPLIT,),
        (SPLIT_RULE, located("tile", tile.loc)),
        Pipe.FIX if tile.loc == Loc.ACC else Pipe.MTE3,
        traits=Traits((Effect("read", "tile", "tile"),), fifo="push", core=KernelKind[kind.upper()]),
        pipe_rule=stored,
    )


def _pop(name: str, kind: str, tile: TileType) -> Instruction:
    sizes, both = ("valid_row", "valid_col"), ScalarType(INDEX)
    open_type: dict[str, Type] = {"result": tile.with_valid(None, None), **dict.fromkeys(sizes, both)}
    constants = {"valid_row": (8,), "valid_col": (16,)}
    return pipe_instruction(
        name,
        f"Pop a tile on the {kind} core from its pipe.",
        "Waits for the next ready slot; the result is a handle to its data until the slot is freed.",
        (
            Operand("valid_row", "in", "scalar", None, optional=True),
            Operand("valid_col", "in", "scalar", None, optional=True),
            tile_operand("result", "out"),
        ),
        ((), sizes),
        (
            Shown({"result": tile}, (), {"split": 0}, grouped=True),
            Shown(open_type, sizes, {"split": 0}, constants, grouped=True),
        ),
        (SPLIT,),
        (SPLIT_RULE, located("result", tile.loc), dynamic_result),
        Pipe.MTE2 if tile.loc == Loc.VEC else Pipe.MTE1,
        (RELEASE,),
        traits=Traits(fifo="pop", core=KernelKind[kind.upper()]),
    )


def _free(name: str, kind: str) -> Instruction:
    return pipe_instruction(
        name,
        f"Free the slot the {kind} core popped last.",
        "The producer may use the slot again.",
        (),
        ((),),
        (Shown({}, (), {"split": 0}),),
        (SPLIT,),
        (SPLIT_RULE,),
        decisions=(RELEASE,),
        traits=Traits(fifo="free", core=KernelKind[kind.upper()]),
    )


def _ring_handle(name: str, *, through_memory: bool) -> Instruction:
    local: tuple[str, ...] = ("local_addr", "peer_local_addr")
    forms: tuple[tuple[str, ...], ...] = (local[:1], local)
    operands = [
        Operand("local_addr", "in", "scalar", None, note="address of the consumer's slots"),
        Operand("peer_local_addr", "in", "scalar", None, optional=True, note="exactly with dir_mask = 3"),
        handle_operand("result", out=True),
    ]
    types: dict[str, Type] = {**dict.fromkeys(local, ScalarType(I32)), "result": PIPE}
    attributes = [DIR_MASK, SLOT_SIZE, SLOT_NUM, FLAG_BASE, NOSPLIT]
    rules = [*RING_NUMBERS, peer_address, handle("result", "pipe", DIALECT)]
    ring: dict[str, AttrValue] = {"dir_mask": 3, "slot_size": 1024, "slot_num": 4, "flag_base": 0}
    if through_memory:
        operands = [
            Operand("gm_addr", "in", "ptr", None, note="slots in global memory"),
            replace(operands[0], optional=True),
            *operands[1:],
        ]
        forms = (("gm_addr",), *(("gm_addr", *f) for f in forms))
        types["gm_addr"] = PtrType(F32)
        attributes.append(Attribute("local_slot_num", int, None, "slots in local memory, at most slot_num"))
        rules.append(local_slots)
    one = {k: v for k, v in types.items() if k != "peer_local_addr"}
    return pipe_instruction(
        name,
        "Make a pipe handle whose data goes through global memory."
        if through_memory
        else "Make a pipe handle whose data goes from core to core.",
        "The lowered form of the initialisation; pushes, pops and frees name the handle.",
        tuple(operands),
        forms,
        (
            Shown(types, forms[-1], ring, grouped=through_memory),
            Shown(one, forms[-2], {**ring, "dir_mask": 1, "slot_num": 8}, grouped=through_memory),
        ),
        tuple(attributes),
        (required("dir_mask", "slot_size", "slot_num"), *rules),
        traits=Traits(fifo="initialise"),
    )


_BUFFER: dict[str, AttrValue] = {"name": "fifo", "size": 8192, "location": AddressSpace.VEC, "auto": True}
_WINDOW = PartitionViewType((16, 16), F32)


INSTRUCTIONS: tuple[Instruction, ...] = (
    pipe_instruction(
        "reserve_buffer",
        "Reserve local memory for the slots of a pipe.",
        "The result is the byte address; the peer function imports the buffer by its name.",
        (Operand("result", "out", "scalar", None),),
        ((),),
        (
            Shown({"result": ScalarType(I32)}, (), _BUFFER),
            Shown({"result": ScalarType(I32)}, (), {**_BUFFER, "auto": False, "base": 0}),
        ),
        (
            Attribute("name", str, None, "name the peer imports"),
            Attribute("size", int, None, "bytes"),
            Attribute("location", AddressSpace, None, "vec on the vector core, mat on the cube core"),
            Attribute("auto", bool, None, "whether the address is assigned"),
            Attribute("base", int, None, "byte address; needed where auto is false"),
        ),
        (
            required("name", "size", "location", "auto"),
            number_in("size", lambda n: n > 0, "more than 0 bytes", 0, DIALECT, "buffer-size"),
            number_in("base", lambda n: n >= 0, "0 or more", -32, DIALECT, "base-address"),
            reserved_place,
            base_given,
        ),
        traits=Traits(fifo="reserve"),
    ),
    pipe_instruction(
        "import_reserved_buffer",
        "Address of a buffer that the peer function reserves.",
        "The result is the address of the buffer called name in peer_func.",
        (Operand("result", "out", "scalar", None),),
        ((),),
        (Shown({"result": ScalarType(I32)}, (), {"name": "fifo", "peer_func": Symbol("fragment")}),),
        (
            Attribute("name", str, None, "name of the buffer"),
            Attribute("peer_func", Symbol, None, "function that reserves it"),
        ),
        (required("name", "peer_func"),),
        traits=Traits(fifo="import"),
    ),
    _initialize("aic", "cube"),
    _initialize("aiv", "vector"),
    _ring_handle("initialize_l2g2l_pipe", through_memory=True),
    _ring_handle("initialize_l2l_pipe", through_memory=False),
    _push("tpush_to_aiv", "cube", ACC),
    _push("tpush_to_aic", "vector", VEC),
    _pop("tpop_from_aic", "vector", VEC),
    _pop("tpop_from_aiv", "cube", MAT),
    _free("tfree_from_aic", "vector"),
    _free("tfree_from_aiv", "cube"),
    pipe_instruction(
        "declare_tile",
        "Declare a tile handle without storage.",
        "A pop gives it the storage of a slot, tassign an address.",
        (tile_operand("result", "out"),),
        ((),),
        (Shown({"result": VEC}, ()),),
    ),
    pipe_instruction(
        "tpush",
        "Push a tile, or commit an allocated slot, through a pipe handle.",
        "Waits for a free slot, stores the tile row-major (halves by split) and marks the slot ready; a view "
        "from talloc is marked ready only.",
        (
            tile_operand("tile", optional=True),
            Operand("view", "in", "gm", None, optional=True, note="slot from talloc"),
            handle_operand("pipe"),
        ),
        (("tile", "pipe"), ("view", "pipe")),
        (
            Shown({"tile": ACC, "pipe": PIPE}, ("tile", "pipe"), {"split": 1}),
            Shown({"tile": VEC, "pipe": PIPE}, ("tile", "pipe"), {"split": 0}),
            Shown({"view": _WINDOW, "pipe": PIPE}, ("view", "pipe"), {"split": 0}),
        ),
        (SPLIT,),
        (SPLIT_RULE, handle("pipe", "pipe", DIALECT), located("tile", Loc.ACC, Loc.VEC, Loc.CTRL)),
        Pipe.MTE3,
        traits=Traits((Effect("read", "tile", "tile"),), fifo="push"),
        pipe_rule=stored,
    ),
    pipe_instruction(
        "tpop",
        "Pop the next ready slot of a pipe handle.",
        "Waits for a ready slot; the tile or view then denotes its data until the slot is freed.",
        (
            tile_operand("result", "out", optional=True),
            tile_operand("tile", optional=True, note="handle that receives the slot"),
            Operand("view", "in", "gm", None, optional=True, note="view that receives the slot"),
            handle_operand("pipe"),
        ),
        (("tile", "pipe"), ("view", "pipe"), ("pipe",)),
        (
            Shown({"tile": VEC, "pipe": PIPE}, ("tile", "pipe"), {"split": 1}),
            Shown({"tile": MAT, "pipe": PIPE}, ("tile", "pipe"), {"split": 0}),
            Shown({"result": VEC, "pipe": PIPE}, ("pipe",), {"split": 0}),
        ),
        (SPLIT,),
        (
            SPLIT_RULE,
            handle("pipe", "pipe", DIALECT),
            place(
                (tile_operand("tile"), tile_operand("result")), (Loc.VEC, Loc.MAT, Loc.CTRL), PROFILE_NAMES
            ),
        ),
        Pipe.MTE2,
        (RELEASE,),
        traits=Traits(fifo="pop"),
        assembly=Assembly(trailing=0),
    ),
    pipe_instruction(
        "talloc",
        "Reserve the next slot of a pipe as a view of global memory.",
        "No data moves and nothing is signalled; a push of the view commits it.",
        (Operand("view", "out", "gm", None), handle_operand("pipe")),
        (("pipe",),),
        (Shown({"view": _WINDOW, "pipe": PIPE}, ("pipe",), {"split": 0}),),
        (SPLIT,),
        (SPLIT_RULE, handle("pipe", "pipe", PAGE)),
        executable=False,
        decisions=(
            Decision(
                "The simulator has no slots in global memory. Is the instruction legal there?",
                "Yes: no rule depends on how slots are kept.",
                "public CPU simulator (no implementation)",
            ),
        ),
        traits=Traits(fifo="allocate"),
        assembly=Assembly(trailing=0),
    ),
    pipe_instruction(
        "tfree",
        "Free the slot popped last through a pipe handle.",
        "The producer may use the slot again.",
        (
            handle_operand("pipe"),
            Operand("view", "in", "gm", None, optional=True, note="slot popped as a view"),
        ),
        (("pipe",), ("pipe", "view")),
        (
            Shown({"pipe": PIPE}, ("pipe",), {"split": 0}),
            Shown({"pipe": PIPE, "view": _WINDOW}, ("pipe", "view"), {"split": 0}),
        ),
        (SPLIT,),
        (SPLIT_RULE, handle("pipe", "pipe", DIALECT)),
        decisions=(RELEASE,),
        traits=Traits(fifo="free"),
    ),
    pipe_instruction(
        "grid_tpush",
        "Send a tile to a neighbouring core, or to all cores of a row or column.",
        "The core dist hops away in the direction receives the tile; with a span every core of it does.",
        (Operand("tile", "in"), handle_operand("pipe")),
        (("tile", "pipe"),),
        tuple(
            Shown(
                {"tile": TileType(dtype(d), 16, 32), "pipe": PIPE},
                ("tile", "pipe"),
                {"direction": GridDirection.EAST, "dist": 1},
                profiles=("a2a3",),
            )
            for d in STANDARD
        ),
        (
            Attribute("direction", GridDirection, GridDirection.EAST, "hop direction"),
            Attribute("dist", int, 1, "hops"),
            Attribute("span", GridSpan, GridSpan.NONE, "row or column that a broadcast reaches"),
        ),
        (
            only_on(("a2a3",), PAGE),
            handle("pipe", "pipe", PAGE),
            number_in("dist", lambda n: n >= 1, "1 or more", 0, PAGE),
        ),
        Pipe.MTE3,
        executable=False,
        types=_GRID_TYPES,
        traits=Traits((Effect("read", "tile", "tile"), Effect("write", "remote"))),
    ),
)
