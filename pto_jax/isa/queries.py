"""Queries: numbers of cores and blocks, valid sizes, addresses, strides, pointers; printing; the end."""

from collections.abc import Iterator
from functools import partial

from .. import ir
from ..ir import F32, I64, INDEX, AddressSpace, PtrType, ScalarType, TileType, Type
from ..profiles import PROFILE_NAMES, Profile
from . import changes, declare, sync_config, sync_handles, traits, views
from .declare import AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import handles
from .rules.constraints import fixed_type, one_element
from .rules.forbid import Types, forbid, give
from .rules.handles import ALIGNMENT, Shown, custom
from .rules.require import require
from .traits import Alias, Placement, Traits

_PAGE = "PTOAS dialect definition"
_SOURCES = ("PTO ISA page of the instruction", _PAGE)
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
    "No: the pointer of a tile may be read, written and cast to one of other elements. A number as a pointer "
    "is for micro-operations; that of a tile is for the planner to choose, alloc_tile addr = places one.",
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


@forbid("address-aligned", f"addresses are multiples of {ALIGNMENT} bytes", source=_PAGE)
def _aligned(site: Site) -> Iterator[Finding]:
    for value in site.numbers("addrs"):
        if value is not None and value % ALIGNMENT:
            yield "addrs", f"address {value} (0x{value:x}); allowed: a multiple of {ALIGNMENT} bytes"


@forbid(
    "cast",
    "an address, or pointers to one space",
    source=_PAGE,
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
        one, other = (t.with_space if isinstance(t, ir.PtrType) else t for t in (a, b))
        yield "result", f"{one} to {other}; allowed: i64 to or from a pointer, or pointers to one space"


_instruction = partial(custom, sources=_SOURCES)


_ADDRESSES: tuple[Instruction, ...] = (
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
        constraints=(one_element("view", "result", _PAGE),),
        traits=Traits(alias=Alias("result", "view", "global")),
    ),
    _instruction(
        "tile_buf_addr",
        "Pointer to the storage of a tile.",
        "result points to byte 0 of the tile.",
        (Operand("tile", "in"), Operand("result", "out", "ptr")),
        (Shown({"tile": ir.TileType(ir.F32, 16, 64), "result": ir.PtrType(ir.F32, ir.AddressSpace.VEC)}),),
        constraints=(one_element("tile", "result", _PAGE), _space_of_tile),
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


_I64 = ScalarType(I64)
_ORDER = declare.Decision(
    "Cores run side by side; which of them is it here?",
    "One after another: every block, and in a block every vector subblock, each with its own numbers.",
    "deterministic execution of this engine",
)
#: Names that those who build operations use.
GET_BLOCK_IDX = "get_block_idx"
GET_BLOCK_NUM = "get_block_num"


_number = require("result-type", "result.dtype in (i64, index)", source=_PAGE)


def _query(name: str, summary: str, semantics: str, number: traits.LaunchNumber) -> declare.Instruction:
    return sync_handles.config(
        name,
        summary,
        semantics,
        (declare.Operand("result", "out", "scalar", type=_I64),),
        (handles.Shown({"result": _I64}),),
        constraints=(_number,),
        decisions=(_ORDER,),
        traits=traits.Traits(launch=number),
    )


_QUERIES: tuple[Instruction, ...] = (
    _query(GET_BLOCK_IDX, "Number of the block.", "0 to get_block_num - 1.", "block"),
    _query(GET_BLOCK_NUM, "Number of blocks of the launch.", "The grid size.", "blocks"),
    _query(
        "get_subblock_idx",
        "Number of the vector core of the block.",
        "0 or 1; 0 on the cube core.",
        "subblock",
    ),
    _query(
        "get_subblock_num",
        "Number of vector cores of a block.",
        "2 for kernels on two vector cores, else 1.",
        "subblocks",
    ),
    sync_handles.config(
        "print",
        "Print a scalar.",
        "Writes the scalar in the format; nothing in memory changes.",
        (declare.Operand("scalar", "in", "scalar", type=ScalarType(F32)),),
        (handles.Shown({"scalar": ScalarType(F32)}, attrs={"format": "%f"}),),
        (declare.Attribute("format", str, None, "text with one conversion"),),
        (sync_config.required("format"),),
        traits=traits.Traits(effects=(traits.Effect("write", "host"),)),
    ),
    sync_handles.config(
        "trap",
        "Stop the core.",
        "Execution ends with an error.",
        (),
        (handles.Shown({}),),
        traits=traits.Traits(effects=(traits.Effect("write", "host"),)),
    ),
)


_DIALECT = "PTOAS dialect definition (August 2026)"
_TILE = TileType(F32, 16, 64)
#: The instruction whose result is an address that only scalars are loaded from and stored to.
INTTOPTR = "inttoptr"


def _sizes(*results: str) -> Constraint:
    return require(
        "result-type",
        "it.dtype == index",
        it=results,
        source=_DIALECT,
    )


def _into_vec(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    for name, t in types.items():
        types[name] = PtrType(F32, AddressSpace.VEC) if isinstance(t, PtrType) else t
    return True


@forbid("pointer-space", "a pointer to global memory", source=_DIALECT, invalid_if=_into_vec)
def _global(site: Site) -> Iterator[Finding]:
    t = site.types.get("result" if site.instruction.name == INTTOPTR else "ptr")
    if isinstance(t, PtrType) and t.space != AddressSpace.GM:
        yield None, f"a pointer to {t.space.name.lower()}; allowed: to global memory"


@forbid(
    "pointee",
    "elements of a size that memory has",
    source=_DIALECT,
    invalid_if=give("result", PtrType(INDEX)),
)
def _pointee(site: Site) -> Iterator[Finding]:
    t = site.types.get("result")
    if isinstance(t, PtrType) and (t.dtype == INDEX or t.dtype.bits < 8):
        yield "result", f"a pointer to {t.dtype}; allowed: element types of 8 bits and more, not index"


def _size_of(name: str, unit: str) -> Instruction:
    return sync_handles.config(
        name,
        f"Valid {unit} of a tile.",
        f"result = the valid {unit} that the handle has here.",
        (Operand("tile", "in"), Operand("result", "out", "scalar", type=_INDEX)),
        (Shown({"tile": _TILE, "result": _INDEX}),),
        constraints=(_sizes("result"),),
        decisions=(),
    )


def _address(name: str, summary: str, semantics: str, source: str) -> Instruction:
    kinds = {"ptr": "ptr", "addr": "scalar"}
    types: dict[str, Type] = {source: PtrType(F32) if source == "ptr" else _ADDRESS}
    types["result"] = _ADDRESS if source == "ptr" else PtrType(F32)
    number = "result" if source == "ptr" else "addr"
    kind = "scalar" if source == "ptr" else "ptr"
    return sync_handles.config(
        name,
        summary,
        semantics,
        (
            Operand(source, "in", kinds[source], type=_ADDRESS if source == "addr" else None),  # type: ignore[arg-type]
            Operand("result", "out", kind, type=_ADDRESS if source == "ptr" else None),  # type: ignore[arg-type]
        ),
        (Shown(types, (source,)),),
        constraints=(
            fixed_type(number, ("i64",), PROFILE_NAMES, _DIALECT),
            _global,
            *((_pointee,) if kind == "ptr" else ()),
        ),
        decisions=(ADDRESSES,),
    )


TILE_INSTRUCTIONS: tuple[Instruction, ...] = (
    sync_handles.config(
        "get_validshape",
        "Valid rows and columns of a tile.",
        "rows, cols = the valid sizes that the handle has here.",
        (Operand("tile", "in"), Operand("rows", "out", "scalar"), Operand("cols", "out", "scalar")),
        (Shown({"tile": _TILE, "rows": _INDEX, "cols": _INDEX}),),
        constraints=(_sizes("rows", "cols"),),
        decisions=(),
    ),
    _size_of("tile_valid_rows", "rows"),
    _size_of("tile_valid_cols", "columns"),
    _address(
        "ptrtoint", "Byte address of a pointer.", "result = the address that ptr holds, in bytes.", "ptr"
    ),
    _address(
        INTTOPTR,
        "Pointer at a byte address.",
        "result points to the byte address addr. Scalars are loaded from it and stored to it; it has no "
        "views and no offsets.",
        "addr",
    ),
)

INSTRUCTIONS = (*_QUERIES, *TILE_INSTRUCTIONS, *_ADDRESSES)
