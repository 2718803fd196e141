"""Addresses and strides of views and tiles, and pointers and tiles made from addresses."""

from collections.abc import Iterator
from functools import partial

from .. import ir
from . import changes, views
from .declare import Decision, Finding, Instruction, Operand, Site
from .rules.constraints import one_element
from .rules.forbid import forbid, give
from .rules.handles import ALIGNMENT, Shown, custom
from .traits import Alias, Placement, Traits

_DIALECT = "PTOAS dialect definition"
_SOURCES = ("PTO ISA page of the instruction", _DIALECT)
_VIEW, _WINDOW = ir.TensorViewType((32, 64), ir.F32), ir.PartitionViewType((16, 64), ir.F32)
_INDEX, _ADDRESS = ir.ScalarType(ir.INDEX), ir.ScalarType(ir.I64)
_LOCAL = ir.MemRefType((16, 64), ir.F16, ir.AddressSpace.VEC)
_SPACES = {ir.Loc[space.name]: space for space in ir.AddressSpace if space.name in ir.Loc.__members__}

ADDRESSES = Decision(
    "Which address has a buffer?",
    "Pointer argument number n, from 0, begins at byte (n + 1) * 2^40, in every executor; a number from "
    "elsewhere is in no buffer, which is an error as an access outside one.",
    "global memory of this engine is one array for each pointer; no source promises an address",
)
_LOCAL_ADDRESS = Decision(
    "Has a tile an address as a number, and a number a tile?",
    "No: the pointer of a tile may be read, written and cast to one of other elements. An address without an "
    "extent names no storage, and that of a tile is for the planner to choose; alloc_tile addr = places one.",
    "PTOAS memory planning",
)
_IN_TURN = Decision(
    "Which buffer is meant where several addresses are given?",
    "That is not executed: the loop whose trips choose it stands in the compiler that wrote the text.",
    "PTOAS dialect definition (the operation is gone since 2026-08)",
)


@forbid(
    "pointer-space",
    "the pointer is into the tile's memory",
    source=_SOURCES[0],
    invalid_if=give("result", ir.PtrType(ir.F32, ir.AddressSpace.MAT)),
)
def _space_of_tile(site: Site) -> Iterator[Finding]:
    t, p = site.tile("tile"), site.types.get("result")
    if t is None or not isinstance(p, ir.PtrType) or _SPACES.get(t.loc) == p.space:
        return
    place = t.loc.name.lower()
    yield "result", f"result points to {p.space.name.lower()}, the tile is in {place}; allowed: {place}"


@forbid("address-aligned", f"addresses are multiples of {ALIGNMENT} bytes", source=_DIALECT)
def _aligned(site: Site) -> Iterator[Finding]:
    for value in site.numbers("addrs"):
        if value is not None and value % ALIGNMENT:
            yield "addrs", f"address {value} (0x{value:x}); allowed: a multiple of {ALIGNMENT} bytes"


@forbid(
    "cast",
    "an address, or pointers to one space",
    source=_DIALECT,
    invalid_if=give("result", ir.ScalarType(ir.F32)),
)
def _cast_pair(site: Site) -> Iterator[Finding]:
    a, b = site.types.get("addr"), site.types.get("result")
    if a is None or b is None:
        return
    numbers = [isinstance(t, ir.ScalarType) and t.dtype.name in ("i64", "u64") for t in (a, b)]
    one_space = isinstance(a, ir.PtrType) and isinstance(b, ir.PtrType) and a.space == b.space
    mixed = any(numbers) and any(isinstance(t, ir.PtrType) for t in (a, b))
    if not (one_space or mixed):
        yield "result", f"{a} to {b}; allowed: i64 to or from a pointer, or pointers to one space"


_instruction = partial(custom, sources=_SOURCES)


INSTRUCTIONS: tuple[Instruction, ...] = (
    _instruction(
        "get_tensor_view_stride",
        "Stride of one dimension of a view.",
        "result = stride of dimension idx, in elements.",
        (
            Operand("view", "in", "gm"),
            Operand("idx", "in", "scalar"),
            Operand("result", "out", "scalar", type=_INDEX),
        ),
        (Shown({"view": _VIEW, "idx": _INDEX, "result": _INDEX}, constants={"idx": (1,)}),),
        constraints=(views.dimension,),
    ),
    _instruction(
        "tensor_view_addr",
        "Pointer to the first element of a view.",
        "result points to element 0 of the view or window.",
        (Operand("view", "in", "gm"), Operand("result", "out", "ptr")),
        (
            Shown({"view": _VIEW, "result": ir.PtrType(ir.F32)}),
            Shown({"view": _WINDOW, "result": ir.PtrType(ir.F32)}),
        ),
        constraints=(one_element("view", "result", _DIALECT),),
        traits=Traits(alias=Alias("result", "view", "global")),
    ),
    _instruction(
        "tile_buf_addr",
        "Pointer to the storage of a tile.",
        "result points to byte 0 of the tile.",
        (Operand("tile", "in"), Operand("result", "out", "ptr")),
        (Shown({"tile": ir.TileType(ir.F32, 16, 64), "result": ir.PtrType(ir.F32, ir.AddressSpace.VEC)}),),
        constraints=(one_element("tile", "result", _DIALECT), _space_of_tile),
        decisions=(_LOCAL_ADDRESS,),
        traits=Traits(alias=Alias("result", "tile")),
    ),
    _instruction(
        "castptr",
        "Pointer at an integer address, the address of a pointer, or a pointer to another type.",
        "The byte address stays.",
        (Operand("addr", "in", "event"), Operand("result", "out", "event")),
        (
            Shown({"addr": _ADDRESS, "result": ir.PtrType(ir.F32, ir.AddressSpace.VEC)}, ("addr",)),
            Shown({"addr": ir.PtrType(ir.F32, ir.AddressSpace.VEC), "result": _ADDRESS}, ("addr",)),
            Shown({"addr": ir.PtrType(ir.F32), "result": ir.PtrType(ir.F16)}, ("addr",)),
        ),
        constraints=(_cast_pair,),
        decisions=(ADDRESSES, _LOCAL_ADDRESS),
    ),
    _instruction(
        "pointer_cast",
        "Local memory at integer addresses.",
        "The result denotes the bytes at the address; several addresses are buffers used in turn.",
        (
            Operand("addrs", "in", "scalar", note="one or more byte addresses", type=_ADDRESS),
            Operand("valid_row", "in", "scalar", optional=True),
            Operand("valid_col", "in", "scalar", optional=True),
            Operand("result", "out", note="as a memref of local memory"),
        ),
        (
            Shown(
                {"addrs": _ADDRESS, "valid_row": _INDEX, "valid_col": _INDEX, "result": _LOCAL},
                constants={"addrs": (4096,), "valid_row": (16,), "valid_col": (60,)},
                grouped=True,
            ),
            Shown({"addrs": _ADDRESS, "result": _LOCAL}, constants={"addrs": (8192,)}, grouped=True),
        ),
        constraints=(_aligned,),
        decisions=(_IN_TURN,),
        traits=Traits(placement=Placement("result", "addrs")),
        changes=(changes.removed("alloc_tile addr = %address; it is still read"),),
    ),
)
