"""Memrefs, and the windows of global views in the spelling of older programs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from .. import ir, profiles
from . import declare, traits, views
from .rules import constraints, handles, tile_legality
from .rules.forbid import Types, forbid, give

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
        given = site.numbers(group)
        if len(given) != len(t.dims):
            yield group, f"{len(given)} {group} for rank {len(t.dims)}; allowed: {len(t.dims)}"
            continue
        for i, (n, w) in enumerate(zip(given, written, strict=True)):
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
        shown = "x".join(constraints.size(d) for d in dims)
        found = f"the sizes are {'x'.join(map(str, sizes))}, the type says {shown}"
        yield "result", f"{found}; allowed: equal sizes"
    offsets = site.numbers("offsets")
    source = site.shapes.get(view.name) or views.extents(site.types.get("view"), len(sizes)) or ()
    if len(offsets) != len(sizes) or (source and len(source) != len(sizes)):
        ranks = f"{len(offsets)} offsets and {len(sizes)} sizes of a view of rank {len(source)}"
        yield "offsets", f"{ranks}; allowed: one of each per dimension"
        return
    for i, (extent, start, n) in enumerate(zip(source, offsets, sizes, strict=False)):
        if start is None or not isinstance(n, int):
            continue
        if start < 0 or (extent is not None and start + n > extent):
            found = f"dimension {i}: window [{start}, {start + n}) of an extent of {constraints.size(extent)}"
            yield "offsets", f"{found}; allowed: a window inside the view"


_declared = partial(handles.custom, sources=(_MLIR, _DIALECT))


def _numbers(name: str, note: str) -> declare.Operand:
    return declare.Operand(name, "in", "scalar", note=note)


_VEC = ir.MemRefType((16, 16), ir.F16, ir.AddressSpace.VEC)
_VIEW, _WINDOW = ir.TensorViewType((32, 64), ir.F16), ir.PartitionViewType((16, 32), ir.F16)
_FLAT = ir.MemRefType((256,), ir.F16, ir.AddressSpace.GM)
_ROWS = ir.MemRefType((16, 16), ir.F16, ir.AddressSpace.GM, (16, 1), None)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (
    _declared(
        "memref.alloc",
        "Declare a local memref: a tile without a written layout.",
        "A handle to storage of its own, row-major; leading dimensions are rows, the last one columns. "
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
