"""Queries: numbers of cores and blocks, valid sizes, addresses; printing and the end of a program."""

from collections.abc import Iterator

from ..ir import F32, I64, INDEX, AddressSpace, PtrType, ScalarType, TileType, Type
from ..profiles import PROFILE_NAMES, Profile
from . import declare, pointers, sync_config, sync_handles, traits
from .declare import AttrMap, Constraint, Finding, Instruction, Operand, Site
from .rules import handles
from .rules.constraints import fixed_type
from .rules.forbid import Types, forbid, give
from .rules.handles import Shown
from .rules.require import require

_PAGE = "PTOAS dialect definition"
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


INSTRUCTIONS: tuple[declare.Instruction, ...] = (
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
_TILE, _INDEX, _ADDRESS = TileType(F32, 16, 64), ScalarType(INDEX), ScalarType(I64)
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
        decisions=(pointers.ADDRESSES,),
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

INSTRUCTIONS = (*INSTRUCTIONS, *TILE_INSTRUCTIONS)
