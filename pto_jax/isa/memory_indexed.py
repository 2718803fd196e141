"""Indexed transfers: rows or elements of a table in global memory, at places that a tile gives."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import ir, profiles
from .assembly import Assembly
from .changes import form
from .common import SIMULATOR_VALUES, TYPES_BY_HEADER
from .declare import Attribute, Constraint, Decision, Instruction, Operand, Phase
from .rules import memory_indexed
from .rules.constraints import HARDWARE, HEADERS, fixed_type, place, type_row
from .rules.memory_indexed import VIEW
from .rules.typesets import BYTE_FLOATS, FLOATS, INT32, INTS, SIMULATED, TypeTable, table
from .samples.operations import Sample
from .traits import Effect, Traits

_PAGES = "pages MGATHER and MSCATTER"
TYPES: TypeTable = table(SIMULATED, (*INT32, *FLOATS), (*INT32, *FLOATS, *BYTE_FLOATS))
_INDEXES = Operand(
    "indexes",
    "in",
    dtype=None,
    note="one index per element, or one per row in storage order",
    holds="positions",
    within="src",
)
_TO_VEC = (
    Operand("dst", "out", note="its valid region is what is loaded"),
    Operand("src", "in", "gm", note="the table"),
    _INDEXES,
)
_LOAD = (
    *_TO_VEC,
    Operand(
        VIEW, "in", "gm", dtype=None, note="indexes in global memory; dst is in mat", loaded_as="indexes"
    ),
    Operand("workspace", "tmp", "gm", note="of as many elements as dst, where an index picks an element"),
)
_STORE = (
    Operand("dst", "inout", "gm", note="the table; elements that no index names keep their value"),
    Operand("src", "in", note="its valid region is what is stored"),
    replace(_INDEXES, within="dst"),
)
_COALESCE = Attribute(
    "coalesce", ir.Coalesce, None, "what an index picks; absent: elements on cpu_sim, rows elsewhere"
)

_ADDRESSES = (
    "With shape (d0..d4) and strides (s0..s4) of the table, leading dimensions of lower ranks being 1: "
    "row: n = word number i of the index tile's storage, capacity d3 (d0*d1*d2*d3 on a2a3 and a5), lane "
    "(i, j) is the table's element n*s3 + j*s4. elem: n = indexes(i, j), capacity d0*d1*d2*d3*d4, lane "
    "(i, j) is element number n of the buffer from the table's base on, whatever the strides. On a2a3 a "
    "table of layout nz is addressed by logical row and column: row: capacity d2*d3, lane (n, j); elem: "
    "lane (n / w, n mod w) with w = d0*d1*d4; lane (r, c), q = c / d4, is the element with indices "
    "(q / d1, q mod d1, r / d3, r mod d3, c mod d4). n is the index as an unsigned number: extended by its "
    "sign to 64 bits on cpu_sim, of 32 bits on a2a3 and a5. "
)
_BEYOND = (
    "An index at or beyond the capacity becomes capacity - 1 (clamp) or n mod capacity (wrap){other}; "
    "undefined takes it as it is. Elements outside the buffer, and every element of a table of capacity "
    "0, {outside}."
)


def _samples(instruction: Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """Every element type, each with other modes, and the shapes and types of indexes the profile has."""
    store = instruction.name == "mscatter"
    indices = INTS if profile.name == "cpu_sim" else ("i32", "u32")
    for number, (name,) in enumerate(instruction.types[profile.name]):
        attrs: dict[str, ir.AttrValue] = {"coalesce": ir.Coalesce(number % 2)}
        if store:
            attrs["scatterOob"] = ir.ScatterOob(number // 3 % 4)
            legal = [op for op in ir.ScatterAtomicOp if _combines(profile, op, name)]
            attrs["scatterAtomicOp"] = legal[number % len(legal)]
            if attrs["scatterAtomicOp"] == ir.ScatterAtomicOp.NONE:
                attrs["scatterConflict"] = ir.ScatterConflict(number // 4 % 2)
        else:
            attrs["gatherOob"] = ir.GatherOob((number // 2 + 3) % 4)
        yield _sample(instruction, profile, name, attrs, indices[number // 2 % len(indices)])
    if store or profile.name == "cpu_sim":
        yield _sample(instruction, profile, "f32", {}, "i32")
    for op in (op for op in ir.ScatterAtomicOp if store and op and _combines(profile, op, "f32")):
        often: dict[str, ir.AttrValue] = {"coalesce": ir.Coalesce.ELEM, "scatterOob": ir.ScatterOob.WRAP}
        yield _sample(instruction, profile, "f32", {**often, "scatterAtomicOp": op}, "i32")


def _combines(profile: profiles.Profile, op: ir.ScatterAtomicOp, name: str) -> bool:
    legal = memory_indexed.ATOMIC.get(profile.name, {}).get(op)
    return legal is None or name in legal


def _sample(
    instruction: Instruction, profile: profiles.Profile, name: str, attrs: dict[str, ir.AttrValue], index: str
) -> Sample:
    data, d = ir.TileType(ir.dtype(name), 16, 32), ir.dtype(index)
    indexes = ir.TileType(d, 16, 32)
    if attrs.get("coalesce") == ir.Coalesce.ROW:
        indexes = ir.TileType(d, 1, 32, v_col=16)
        if profile.name != "a2a3" and d.name in ("u32", "u64"):
            indexes = ir.TileType(d, 16, 1, blayout=ir.BLayout.COL_MAJOR)
    names = ("src", "dst") if instruction.name == "mgather" else ("dst", "src")
    view = ir.PartitionViewType((5, 32), data.dtype)
    types: dict[str, ir.Type] = {names[0]: view, names[1]: data, "indexes": indexes}
    return Sample(instruction, types, instruction.forms[0], attrs)


_DECISIONS = (
    Decision(
        "What does an index pick where coalesce is not given?",
        "Elements on cpu_sim. On a2a3 and a5 rows, but elements where the index tile physically has several "
        "rows and columns, or the shape of a data tile of one row.",
        f"{_PAGES} and hardware headers (rows), simulator (elements), PTOAS manual (by the columns of the "
        "index tile)",
    ),
    Decision(
        "How is a negative index read?",
        "As an unsigned number of 64 bits on cpu_sim, of 32 bits on a2a3 and a5: it lies beyond every "
        "table, and wrap differs unless the capacity is a power of two.",
        f"{SIMULATOR_VALUES}; {_PAGES}",
    ),
    Decision(
        "What does an index beyond the table do where the mode is undefined?",
        "It addresses the buffer as it stands. Outside the buffer it is an error; inside jit, vmap and scan "
        "a load gives zero and a store has no effect.",
        "pages leave it open",
    ),
    Decision(
        "Which out-of-bounds modes does a2a3 have?",
        "All of them; the PTOAS verifier would keep them for a5.",
        HEADERS,
    ),
    Decision(
        "A5 takes rows to be packed; what do other strides of the table mean there?",
        "The strides are followed, as on the other profiles.",
        f"{HEADERS}; {SIMULATOR_VALUES}",
    ),
    Decision(
        "What does the workspace of the form with indexes in global memory hold afterwards?",
        "What it held: elements pass through it on the chip, and programs may not rely on them.",
        "PTOAS dialect definition and verifier",
    ),
    TYPES_BY_HEADER,
)


_PIPES = Decision(
    "Which pipes does it run on?",
    "On a5 on V for tiles in vec. On a2a3 it stores on MTE3; it loads rows on S, which reads the indexes, "
    "and then MTE2, and single elements on S.",
    "PTOAS getPipe (event.hpp of pto-isa has V everywhere)",
)


def _constraints(operands: tuple[Operand, ...], data: str, of: str) -> tuple[Constraint, ...]:
    return (
        memory_indexed.table_type(data, of),
        type_row(operands, ("T",), TYPES),
        fixed_type("indexes", INTS, ("cpu_sim",), SIMULATOR_VALUES),
        fixed_type("indexes", ("i32", "u32"), HARDWARE, HEADERS),
        place(tuple(o for o in operands if o.name != "dst"), (ir.Loc.VEC,), profiles.PROFILE_NAMES),
        *((memory_indexed.loaded_place,) if data == "dst" else ()),
        memory_indexed.coalesce_given,
        memory_indexed.index_layout(data),
        memory_indexed.data_layout(data),
        memory_indexed.index_shape(data),
        memory_indexed.index_order(data),
        memory_indexed.table_layout(data, of),
        memory_indexed.table_width(data, of),
    )


def _gather_phases(
    profile: profiles.ProfileName, types: Mapping[str, ir.Type], attrs: Mapping[str, ir.AttrValue]
) -> tuple[Phase, ...]:
    """A5 gathers on the vector pipe; A2/A3 reads indexes on the scalar one, which moves single elements."""
    dst = types.get("dst")
    vector = isinstance(dst, ir.TileType) and dst.loc == ir.Loc.VEC
    if profile == "a5" and vector:
        return (Phase(ir.Pipe.V, ("src", "indexes", VIEW), ("dst",)),)
    if profile == "cpu_sim":
        return ()
    if vector and attrs.get("coalesce") == ir.Coalesce.ELEM:
        return (Phase(ir.Pipe.S, ("src", "indexes", VIEW), ("dst",)),)
    return Phase(ir.Pipe.S, ("indexes", VIEW)), Phase(ir.Pipe.MTE2, ("src",), ("dst", "workspace"))


def _scatter_phases(
    profile: profiles.ProfileName, types: Mapping[str, ir.Type], attrs: Mapping[str, ir.AttrValue]
) -> tuple[Phase, ...]:
    """A5 scatters on the vector pipe."""
    return (Phase(ir.Pipe.V, ("src", "indexes"), ("dst",)),) if profile == "a5" else ()


INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "mgather",
        "memory",
        "Load rows or elements of a table in global memory from the places that an index tile gives.",
        _ADDRESSES
        + _BEYOND.format(other=", or gives zeros (zero)", outside="read as zero")
        + " Bits are copied to the valid region of dst; other lanes stay.",
        _LOAD,
        TYPES,
        ("T",),
        (
            _COALESCE,
            Attribute("gatherOob", ir.GatherOob, ir.GatherOob.UNDEFINED, "indices beyond the table"),
        ),
        (*_constraints(_LOAD, "dst", "src"), memory_indexed.loaded_indexes),
        (("src", "indexes"), ("src", VIEW), ("src", VIEW, "workspace")),
        "dst",
        ir.Pipe.MTE2,
        decisions=(*_DECISIONS, _PIPES),
        phases=_gather_phases,
        sources=("page MGATHER", HEADERS, SIMULATOR_VALUES),
        sampler=_samples,
        traits=Traits(
            effects=(
                Effect("read", "global", "src", indexed=True),
                Effect("read", "global", VIEW),
                Effect("scratch", "global", "workspace"),
            )
        ),
        changes=(form("indexes in a tile", "indexes in global memory too, for a destination in mat"),),
    ),
    Instruction(
        "mscatter",
        "memory",
        "Store rows or elements of a tile to a table in global memory at places that an index tile gives.",
        _ADDRESSES
        + _BEYOND.format(other=", or stores nothing (skip)", outside="are not stored")
        + " The valid region of src is stored row by row, one element after the other: none overwrites, "
        "add adds in the element type (integers wrap, floats are rounded once per addition), max and min "
        "keep the table's element t unless t < s (max) or s < t (min), so a NaN or an equal zero in the "
        "table stays and a NaN in src is ignored. In row mode with max or min cpu_sim compares element "
        "number n of the buffer from the table's base on (as it is at that moment; zero outside the buffer) "
        "instead of the addressed one.",
        _STORE,
        TYPES,
        ("T",),
        (
            _COALESCE,
            Attribute("scatterAtomicOp", ir.ScatterAtomicOp, ir.ScatterAtomicOp.NONE, "overwrite or combine"),
            Attribute("scatterOob", ir.ScatterOob, ir.ScatterOob.UNDEFINED, "indices beyond the table"),
            Attribute(
                "scatterConflict",
                ir.ScatterConflict,
                ir.ScatterConflict.DEFAULT,
                "which element stays at an index that occurs twice; the last one in both cases",
            ),
        ),
        (*_constraints(_STORE, "src", "dst"), memory_indexed.atomic_types, memory_indexed.atomic_conflict),
        (("src", "indexes"),),
        "src",
        ir.Pipe.MTE3,
        decisions=(
            *_DECISIONS,
            Decision(
                "Which element stays where the order of stores is not specified (a5, default)?",
                "The last one in row order, as with scatterConflict last.",
                f"{_PAGES}; {SIMULATOR_VALUES}",
            ),
            Decision(
                "What does max or min of rows compare with?",
                "cpu_sim: with the element whose number is the row number, as recorded; a2a3 has neither; a5 "
                "with the addressed element.",
                f"{SIMULATOR_VALUES}; {HEADERS}",
            ),
            _PIPES,
        ),
        phases=_scatter_phases,
        sources=("page MSCATTER", HEADERS, SIMULATOR_VALUES),
        sampler=_samples,
        traits=Traits(
            effects=(
                Effect("read", "global", "dst", indexed=True),
                Effect("write", "global", "dst", indexed=True),
            )
        ),
        assembly=Assembly(destination_second=True),
        sized_by=("dst",),
    ),
)
