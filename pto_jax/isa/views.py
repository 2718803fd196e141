"""Tile allocation, valid shapes, pointers, views of global memory, and memrefs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod

from .. import ir, profiles
from ..ir import F32, I64, GlobalLayout, PartitionViewType, PtrType, ScalarType, TensorViewType, Type
from . import declare, traits
from .declare import Attribute, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import constraints, handles, tile_legality
from .rules.constraints import in_python, one_element, size, spelled
from .rules.forbid import Types, forbid, give
from .samples.operations import COLS, NUMBER, ROWS, TILE, VIEW, WINDOW
from .traits import Alias, Placement, Traits

_SOURCES = ("PTO ISA page of the instruction", "PTOAS dialect definition and verifier")
#: Names that those who build operations use.
ALLOC_TILE = "alloc_tile"
MAKE_TENSOR_VIEW = "make_tensor_view"
PARTITION_VIEW = "partition_view"
ADDPTR = "addptr"
MAX_RANK = 5


def _index(name: str, *, optional: bool = False, note: str = "") -> Operand:
    return Operand(name, "in", "scalar", optional=optional, note=note)


def extents(t: Type | None, count: int) -> tuple[int | None, ...] | None:
    """The static extents of a view type that describes ``count`` dimensions.

    Old programs write the rank alone: ``tensor_view<2xf32>`` with two sizes is a view of rank 2.
    """
    if not isinstance(t, TensorViewType | PartitionViewType):
        return None
    return (None,) * count if count > 1 and t.dims == (count,) else t.dims


_forbid = partial(forbid, source=_SOURCES[1])


@_forbid("valid-operands", "valid_row and valid_col exactly where the type says ?")
def _valid_given(site: Site) -> Iterator[Finding]:
    t = site.tile("result")
    if t is None:
        return
    for operand, field, extent in (("valid_row", "v_row", t.v_row), ("valid_col", "v_col", t.v_col)):
        has_operand = operand in site.values
        if has_operand and extent is not None:
            got = f"{operand} is given and the type says {field}={extent}"
            yield operand, f"{got}; allowed: only with {field}=?"
        if not has_operand and extent is None:
            got = f"the type says {field}=? and {operand} is not given"
            yield operand, f"{got}; allowed: {operand} = %value"


def _valid_range(tile: str) -> Constraint:
    @_forbid("valid-range", "valid sizes between 0 and the physical sizes")
    def rule(site: Site) -> Iterator[Finding]:
        t = site.tile(tile)
        for operand, limit in (("valid_row", t.rows if t else 0), ("valid_col", t.cols if t else 0)):
            value = site.constant(operand)
            if t is not None and value is not None and not 0 <= value <= limit:
                yield operand, f"{operand} = {value}; allowed: 0 to {limit}"

    return rule


def _meant(site: Site, group: str) -> str | None:
    """The numbers of a group that agree with the sizes of the view, as the program's language writes them."""
    view, t = site.values.get("view"), site.types.get("result")
    whole = site.shapes.get(view.name, ()) if view is not None else site.numbers("shape")
    values = site.numbers(group)[: len(whole)]
    dims = extents(t, len(whole)) or ()
    agreed = dims if len(dims) == len(whole) else whole
    sizes = [d or 0 for d in agreed]
    numbers: list[int | None]
    if group == "strides":
        static = [n for n in whole if n is not None]
        numbers = [prod(static[i + 1 :]) if len(static) == len(whole) else None for i in range(len(whole))]
    elif group == "offsets":
        given = site.numbers("sizes")
        sizes = (
            [n or size for n, size in zip(given, sizes, strict=True)] if len(given) == len(sizes) else sizes
        )
        room = [(n or 0) - size for n, size in zip(whole, sizes, strict=True)]
        if min(room, default=0) < 0:
            return None
        numbers = [
            min(max(n or 0, 0), most) for n, most in zip((*values, *[0] * len(room)), room, strict=False)
        ]
    elif view is None:
        numbers = [n if d is None else d for n, d in zip(whole, agreed, strict=True)]
    else:
        numbers = [min(n, size) if n else size for n, size in zip(whole, sizes, strict=True)]
    if None in numbers or not numbers or numbers == list(values):
        return None
    if site.op.span is not None and site.op.span.python:
        return str(numbers)
    names = {site.constants.get(v.name): str(v) for v in reversed(site.op.ins)}
    written = [names.get(n) for n in numbers]
    return f"{group} = [{', '.join(n for n in written if n)}]" if None not in written else None


def _ranks(counted: str, groups: tuple[str, ...]) -> Constraint:
    """Groups of numbers have one for each dimension of the view ``counted``."""
    statement = f"one of {', '.join(groups)} per dimension of {counted}, rank 1 to {MAX_RANK}"

    @_forbid("ranks", statement, fix=_meant)
    def rule(site: Site) -> Iterator[Finding]:
        got = len(site.op.group(groups[0]))
        ranks = {n: len(d) for n in ("result", counted) if (d := extents(site.types.get(n), got)) is not None}
        for view, rank in ranks.items():
            if not 1 <= rank <= MAX_RANK:
                yield view, f"rank {rank}; allowed: 1 to {MAX_RANK}"
        rank = ranks.get(counted, got)
        for group in groups:
            count = len(site.op.group(group))
            if count != rank:
                yield group, f"got {count} of {group} for {rank} dimensions; allowed: {rank}, one for each"

    return rule


def _extents(group: str) -> Constraint:
    """Static extents of a type of their rank agree with constant operands; no extent is negative."""
    agree = f"{group} agree with the static extents of a type of the same rank"

    @_forbid("extents", agree, fix=_meant)
    def rule(site: Site) -> Iterator[Finding]:
        numbers = site.numbers(group)
        dims = extents(site.types.get("result"), len(numbers)) or ()
        if len(dims) != len(numbers):
            dims = (None,) * len(numbers)
        for i, (dim, value) in enumerate(zip(dims, numbers, strict=True)):
            if value is not None and dim is not None and dim != value:
                yield group, f"{group}[{i}] = {value}, the type says {dim}; allowed: equal sizes"
            elif value is not None and value < 0:
                yield group, f"{group}[{i}] = {value}; allowed: 0 or more"

    return rule


def _inside(extent: int, length: int) -> str:
    """The offsets of windows of a length inside an extent."""
    if length > extent:
        return f"at most {extent} elements"
    return "the offset 0" if length == extent else f"an offset from 0 to {extent - length}"


@_forbid("window", "a window inside the view", fix=_meant)
def _window(site: Site) -> Iterator[Finding]:
    view = site.values.get("view")
    t = site.types.get("result")
    if view is None or not isinstance(t, PartitionViewType):
        return
    whole, sizes = site.shapes.get(view.name, ()), site.numbers("sizes")
    if len(t.dims) == len(sizes):
        sizes = tuple(s if s is not None else d for s, d in zip(sizes, t.dims, strict=True))
    for i, (extent, offset, length) in enumerate(zip(whole, site.numbers("offsets"), sizes, strict=False)):
        if offset is not None and offset < 0:
            yield "offsets", f"offsets[{i}] = {offset}; allowed: 0 or more"
        elif extent is not None and offset is not None and length is not None and offset + length > extent:
            got = f"dimension {i}: window [{offset}, {offset + length}) of an extent of {extent}"
            yield "offsets", f"{got}; allowed: {_inside(extent, length)}"


@_forbid("view-layout", "strides that agree with an explicit layout", severity="warning", on_lanes=False)
def _layout_agrees(site: Site) -> Iterator[Finding]:
    layout, strides = site.attrs.get("layout"), site.numbers("strides")
    shape = site.numbers("shape")
    if not isinstance(layout, GlobalLayout) or len(strides) < 2 or len(shape) != len(strides):
        return
    unit = {GlobalLayout.ND: -1, GlobalLayout.DN: -2}.get(layout)
    if unit is None or strides[unit] in (None, 1) or shape[unit] in (None, 1):
        return
    got = f"layout {layout.name.lower()} with strides {', '.join(size(s) for s in strides)}"
    where = "last" if unit == -1 else "second last"
    yield "strides", f"{got}; the layout means a stride of 1 in the {where} dimension"


@_forbid("dimension", "a dimension of the view")
def dimension(site: Site) -> Iterator[Finding]:
    """A constant index names a dimension of the view."""
    view, idx = site.values.get("view"), site.constant("idx")
    t = site.types.get("view")
    static = t.dims if isinstance(t, TensorViewType | PartitionViewType) else ()
    rank = len(site.shapes.get(view.name, static)) if view is not None else 0
    if idx is not None and rank and not 0 <= idx < rank:
        yield "idx", f"dimension {idx} of a view of rank {rank}; allowed: 0 to {rank - 1}"


def _open_region(site: Site, operand: str) -> str | None:
    """The allocation of a tile whose valid region may change, as the program's language writes it."""
    t, value = site.tile(operand), site.values.get(operand)
    if t is None or value is None:
        return None
    if site.op.span is None or not site.op.span.python:
        return f"{value} : {spelled(t.with_valid(None, None))}"
    shown = []
    for name, whole in (("valid_row", t.rows), ("valid_col", t.cols)):
        number, size = site.constant(name), site.values[name].name
        shown.append(size if number is None and size.isidentifier() else f"pto.constant({number or whole})")
    arguments = in_python(t.with_valid(t.rows, t.cols))
    return f"{value.name} = pto.alloc_tile({arguments}, valid=({', '.join(shown)}))"


@_forbid("valid-dynamic", "a tile whose type says v_row=? and v_col=?", fix=_open_region)
def _dynamic_tile(site: Site) -> Iterator[Finding]:
    t = site.tile("tile")
    if t is not None and (t.v_row is not None or t.v_col is not None):
        got = f"the tile's type has valid region {size(t.v_row)}x{size(t.v_col)}"
        yield "tile", f"{got}; allowed: v_row=? and v_col=?"


_ALLOC_PARTS = ("addr", "valid_row", "valid_col")
_ALLOC_FORMS = tuple(
    tuple(p for i, p in enumerate(_ALLOC_PARTS) if mask & (1 << i)) for mask in range(1 << len(_ALLOC_PARTS))
)


_PTR = PtrType(F32)
_view = partial(handles.custom, sources=_SOURCES)


_OF_MEMORY: tuple[Instruction, ...] = (
    _view(
        ALLOC_TILE,
        "Declare a tile.",
        "A handle to the bytes at addr, or to separate storage. Contents are undefined until written.",
        (
            Operand(
                "addr",
                "in",
                "scalar",
                optional=True,
                note="byte address in the tile's space",
                type=ScalarType(I64),
            ),
            _index("valid_row", optional=True, note="exactly when the type has v_row=?"),
            _index("valid_col", optional=True, note="exactly when the type has v_col=?"),
            Operand("result", "out", conv=True),
        ),
        (
            handles.Shown(
                {
                    "addr": ScalarType(I64),
                    "valid_row": NUMBER,
                    "valid_col": NUMBER,
                    "result": TILE.with_valid(None, None),
                },
                _ALLOC_PARTS,
                {},
                {"addr": (0x1000,), "valid_row": (ROWS,), "valid_col": (COLS - 1,)},
                grouped=True,
            ),
        ),
        forms=_ALLOC_FORMS,
        constraints=(
            handles.whole_numbers(*_ALLOC_PARTS),
            _valid_given,
            _valid_range("result"),
            *handles.address_rules("result"),
        ),
        decisions=(
            Decision(
                "What does a fresh tile hold?",
                "Zero bytes on cpu_sim, the profile's out_of_region option elsewhere; undefined "
                "under poison.",
                "public CPU simulator (buffers start zeroed); pages leave it open",
            ),
            Decision(
                "Does every execution of an allocation inside a loop give a new place?",
                "No: one place per textual allocation, contents survive iterations.",
                "PTOAS memory planning",
            ),
        ),
        traits=Traits(placement=Placement("result", "addr")),
    ),
    _view(
        MAKE_TENSOR_VIEW,
        "Describe a tensor in global memory.",
        "Element (i0..ik) is at ptr[sum i_n * stride_n]; strides count elements.",
        (
            Operand("ptr", "in", "ptr"),
            _index("shape", note="one per dimension"),
            _index("strides", note="one per dimension, in elements"),
            Operand("result", "out", "gm"),
        ),
        (
            handles.Shown(
                {"ptr": _PTR, "shape": NUMBER, "strides": NUMBER, "result": VIEW},
                constants={"shape": (ROWS, COLS), "strides": (COLS, 1)},
                grouped=True,
            ),
        ),
        (Attribute("layout", GlobalLayout, None, "layout hint; absent: inferred from the strides"),),
        (
            one_element("ptr", "result", _SOURCES[1]),
            handles.whole_numbers("shape", "strides"),
            _ranks("result", ("shape", "strides")),
            _extents("shape"),
            _layout_agrees,
        ),
        traits=Traits(alias=Alias("result", "ptr", "global")),
    ),
    _view(
        PARTITION_VIEW,
        "Window of a global view.",
        "Base = view base + sum offset * stride; strides are inherited, extents are the sizes. A result of "
        "another rank has the same last dimensions: leading ones of extent 1 are added or left out.",
        (
            Operand("view", "in", "gm"),
            _index("offsets", note="one per dimension of the view"),
            _index("sizes", note="one per dimension of the view"),
            Operand("result", "out", "gm"),
        ),
        (
            handles.Shown(
                {"view": VIEW, "offsets": NUMBER, "sizes": NUMBER, "result": WINDOW},
                constants={"offsets": (0, 0), "sizes": (ROWS, COLS)},
                grouped=True,
            ),
        ),
        constraints=(
            one_element("view", "result", _SOURCES[1]),
            handles.whole_numbers("offsets", "sizes"),
            _ranks("view", ("offsets", "sizes")),
            _extents("sizes"),
            _window,
        ),
        decisions=(
            Decision(
                "A window outside the view is target-defined.",
                "An error where offsets, sizes and extents are constants, and when executed; a compiled "
                "kernel without checks follows the addresses.",
                "PTO ISA page of the instruction",
            ),
            Decision(
                "May execution find a window behind the end of its view?",
                "In the slowest dimension, where the buffer continues: there it shares no element with "
                "another row of the view.",
                "PTOAS sample launches (Qwen3 decode: row 1 of 16 onwards, in buffers of 17 rows)",
            ),
            Decision(
                "Where does a result of another rank take its extents from?",
                "From the sizes, counted from the last dimension; its type's count at equal ranks only. "
                "Leading sizes of the view that are no constant 1 stay dimensions of the window.",
                "PTOAS (PartitionViewOp::verify; views are aligned to the right in five dimensions)",
            ),
        ),
        traits=Traits(alias=Alias("result", "view", "global", "window")),
    ),
    _view(
        "get_tensor_view_dim",
        "Extent of one dimension of a view.",
        "result = extent of dimension idx.",
        (
            Operand("view", "in", "gm"),
            _index("idx"),
            Operand("result", "out", "scalar", type=NUMBER),
        ),
        (handles.Shown({"view": VIEW, "idx": NUMBER, "result": NUMBER}, constants={"idx": (0,)}),),
        constraints=(handles.whole_numbers("idx"), dimension),
    ),
    _view(
        "set_validshape",
        "Change the valid region of a dynamic tile.",
        "The handle's valid region is valid_row x valid_col from here on; payload and place stay.",
        (Operand("tile", "in"), _index("valid_row"), _index("valid_col")),
        (
            handles.Shown(
                {"tile": TILE.with_valid(None, None), "valid_row": NUMBER, "valid_col": NUMBER},
                constants={"valid_row": (ROWS,), "valid_col": (1,)},
            ),
        ),
        constraints=(handles.whole_numbers("valid_row", "valid_col"), _dynamic_tile, _valid_range("tile")),
        traits=Traits(resizes="tile"),
    ),
    _view(
        ADDPTR,
        "Pointer plus an element offset.",
        "result = ptr + offset elements.",
        (
            Operand("ptr", "in", "ptr"),
            _index("offset"),
            Operand("result", "out", "ptr"),
        ),
        (handles.Shown({"ptr": _PTR, "offset": NUMBER, "result": _PTR}, constants={"offset": (COLS,)}),),
        constraints=(handles.whole_numbers("offset"), one_element("ptr", "result", _SOURCES[1])),
        traits=Traits(alias=Alias("result", "ptr", "global", "moved")),
    ),
)


# -- memrefs -----------------------------------------------------------------------------------------

_MLIR, _DIALECT = "MLIR memref dialect", "PTOAS dialect definition and programs"
_INDEX = ir.ScalarType(ir.INDEX)


def _other_memref(name: str, change: Callable[[ir.MemRefType], ir.Type]) -> declare.Breaker:
    """The operand is another memref, where it is one."""

    def breaks(types: Types, attrs: declare.AttrMap, profile: profiles.Profile) -> bool:
        t = types[name]
        return isinstance(t, ir.MemRefType) and give(name, change(t))(types, attrs, profile)

    return breaks


def _local(name: str) -> declare.Constraint:
    """A memref that stands for a tile: in an on-chip buffer, with constant extents, and it fits."""

    @forbid(
        "local-memref",
        "a memref of an on-chip buffer that it fits into",
        source=_DIALECT,
        invalid_if=_other_memref(name, lambda t: replace(t, space=ir.AddressSpace.GM)),
    )
    def rule(site: declare.Site) -> Iterator[declare.Finding]:
        t = site.values[name].type if name in site.values else None
        if not isinstance(t, ir.MemRefType):
            return
        tile = tile_legality.tile_of_memref(t)
        if tile is None or not tile.elements:
            where = "no space" if t.space is None else t.space.name.lower()
            allowed = "constant extents in vec, mat, left, right, acc, bias, scaling"
            yield name, f"{t} in {where}; allowed: {allowed}"
            return
        capacity = site.profile.capacity[tile.loc]
        if tile.bytes > capacity:
            buffer = f"the {tile.loc.name.lower()} buffer of {site.profile.name}"
            yield name, f"{t} has {tile.bytes} bytes; allowed in {buffer}: {capacity}"

    return rule


@forbid(
    "extents",
    "sizes and strides agree with the type",
    source=_MLIR,
    invalid_if=_other_memref("result", lambda t: replace(t, dims=(3, *t.dims[1:]))),
)
def _recast(site: declare.Site) -> Iterator[declare.Finding]:
    """Sizes and strides are one per dimension and agree with the type."""
    t = site.types.get("result")
    if not isinstance(t, ir.MemRefType):
        return
    if len(site.op.group("offsets")) != 1:
        yield "offsets", f"{len(site.op.group('offsets'))} offsets; allowed: 1"
    strides = t.strides or (None,) * len(t.dims)
    for group, written in (("sizes", t.dims), ("strides", strides)):
        numbers = site.numbers(group)
        if len(numbers) != len(t.dims):
            got = f"got {len(numbers)} of {group} for {len(t.dims)} dimensions"
            yield group, f"{got}; allowed: {len(t.dims)}, one for each"
            continue
        for i, (n, w) in enumerate(zip(numbers, written, strict=True)):
            if n is not None and w is not None and n != w:
                yield group, f"{group}[{i}] = {n}, the type says {w}; allowed: equal numbers"


def _other_window(types: Types, attrs: declare.AttrMap, profile: profiles.Profile) -> bool:
    t = types["result"]
    if isinstance(t, ir.PartitionViewType):
        types["result"] = replace(t, dims=(3, *t.dims[1:]))
    return True


@forbid("window", "a window inside the view", source=_DIALECT, invalid_if=_other_window)
def _fixed_window(site: declare.Site) -> Iterator[declare.Finding]:
    """A window with constant sizes: they are those of the result, and it lies in the view."""
    sizes, view = site.attrs.get("sizes"), site.values.get("view")
    result = site.types.get("result")
    dims = result.dims if isinstance(result, ir.PartitionViewType) else None
    if not isinstance(sizes, tuple) or view is None:
        return
    if dims is not None and dims != sizes:
        text = ir.dims_text(dims)
        got = f"the sizes are {'x'.join(map(str, sizes))}, the type says {text}"
        yield "result", f"{got}; allowed: equal sizes"
    offsets = site.numbers("offsets")
    source = site.shapes.get(view.name) or extents(site.types.get("view"), len(sizes)) or ()
    if len(offsets) != len(sizes) or (source and len(source) != len(sizes)):
        ranks = f"{len(offsets)} offsets and {len(sizes)} sizes of a view of rank {len(source)}"
        yield "offsets", f"{ranks}; allowed: one of each per dimension"
        return
    for i, (extent, start, n) in enumerate(zip(source, offsets, sizes, strict=False)):
        if start is None or not isinstance(n, int):
            continue
        if start < 0 or (extent is not None and start + n > extent):
            got = f"dimension {i}: window [{start}, {start + n}) of an extent of {constraints.size(extent)}"
            allowed = "an offset of 0 or more" if extent is None else _inside(extent, n)
            yield "offsets", f"{got}; allowed: {allowed}"


_declared = partial(handles.custom, sources=(_MLIR, _DIALECT))


def _numbers(name: str, note: str) -> declare.Operand:
    return declare.Operand(name, "in", "scalar", note=note)


_VEC = ir.MemRefType((16, 16), ir.F16, ir.AddressSpace.VEC)
_VIEW, _WINDOW = ir.TensorViewType((32, 64), ir.F16), ir.PartitionViewType((16, 32), ir.F16)
_FLAT = ir.MemRefType((256,), ir.F16, ir.AddressSpace.GM)
_ROWS = ir.MemRefType((16, 16), ir.F16, ir.AddressSpace.GM, (16, 1), None)

_MEMREFS: tuple[declare.Instruction, ...] = (
    _declared(
        "memref.alloc",
        "Declare a local memref: a tile without a written layout.",
        "A handle to separate storage, row-major; leading dimensions are rows, the last one columns. "
        "Contents are undefined until written.",
        (declare.Operand("result", "out"),),
        (handles.Shown({"result": _VEC}),),
        (declare.Attribute("alignment", int, None, "bytes; no effect on values"),),
        (_local("result"),),
        (
            declare.Decision(
                "Does every execution inside a loop give a new place?",
                "No: one place per textual allocation, as alloc_tile.",
                "PTOAS memory planning",
            ),
        ),
        traits.Traits(placement=traits.Placement("result")),
    ),
    _declared(
        "memref.dealloc",
        "End the life of a local memref.",
        "No effect on values; the memref is not used afterwards.",
        (declare.Operand("memref", "in"),),
        (handles.Shown({"memref": _VEC}),),
        constraints=(_local("memref"),),
    ),
    _declared(
        "memref.reinterpret_cast",
        "See a memref of global memory through other extents and strides.",
        "Element (i0..ik) of result is at source[offset + sum i_n * strides_n], in elements.",
        (
            declare.Operand("result", "out", "gm"),
            declare.Operand("source", "in", "gm"),
            _numbers("offsets", "one, in elements"),
            _numbers("sizes", "one per dimension"),
            _numbers("strides", "one per dimension, in elements"),
        ),
        (
            handles.Shown(
                {"source": _FLAT, "offsets": _INDEX, "sizes": _INDEX, "strides": _INDEX, "result": _ROWS},
                constants={"offsets": (0,), "sizes": (16, 16), "strides": (16, 1)},
                grouped=True,
            ),
        ),
        (
            declare.Attribute(
                "layout", ir.GlobalLayout, None, "layout hint; absent: inferred from the strides"
            ),
        ),
        (constraints.one_element("source", "result", _MLIR), _recast),
        traits=traits.Traits(alias=traits.Alias("result", "source", "global", "moved")),
    ),
    _declared(
        "global_subview",
        "Window of a global view with constant sizes, as older programs spell it: pto.subview.",
        "As partition_view: base = view base + sum offset * stride; strides are inherited.",
        (
            declare.Operand("result", "out", "gm"),
            declare.Operand("view", "in", "gm"),
            _numbers("offsets", "one per dimension"),
        ),
        (
            handles.Shown(
                {"view": _VIEW, "offsets": _INDEX, "result": _WINDOW},
                attrs={"sizes": (16, 32)},
                constants={"offsets": (16, 32)},
                grouped=True,
            ),
        ),
        (declare.Attribute("sizes", tuple, None, "extents of the window"),),
        (constraints.one_element("view", "result", _MLIR), _fixed_window),
        (
            declare.Decision(
                "Programs write pto.subview for windows of tiles too; which is meant?",
                "With offsets = [..] a window of a global view, with %t[..] the window subview of a tile, "
                "else the tile instruction tsubview.",
                _DIALECT,
            ),
        ),
        traits.Traits(alias=traits.Alias("result", "view", "global", "window")),
    ),
)

INSTRUCTIONS: tuple[Instruction, ...] = (*_OF_MEMORY, *_MEMREFS)
