"""Operations on handles: views, pointers, allocations, aliases, modes. None of them computes a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import isa
from ..analysis.constant_folding import scalar_dtype
from ..analysis.entries import strides_of
from ..errors import ArgumentError
from ..ir.dtypes import I1, INDEX
from ..ir.modes import FmatrixMode
from ..ir.program import Op
from ..ir.types import GlobalLayout, MemRefType, OpaqueType, TileType
from ..isa.layout_img2col import IMG2COL_STATE
from ..isa.matrix import ROUNDING_STATE
from .interpreter import Scope, Walker, handles
from .operands import Pointer, Scalar, TileRef, View
from .windows import advanced, window


@handles("make_tensor_view")
def _make_tensor_view(walker: Walker, op: Op, scope: Scope) -> None:
    pointer = scope[op.group("ptr")[0]]
    layout = op.attrs.get("layout")
    shape = tuple(scope[v] for v in op.group("shape"))
    strides = tuple(scope[v] for v in op.group("strides"))
    view = View(
        pointer.buffer,
        pointer.dtype,
        pointer.offset,
        shape,
        strides,
        layout if isinstance(layout, GlobalLayout) else None,
    )
    scope.bind(op.results[0], view)


@handles("partition_view", "subview")
def _partition_view(walker: Walker, op: Op, scope: Scope) -> None:
    (source,) = op.group("view")
    offsets = [scope[v] for v in op.group("offsets")]
    written = op.attrs.get("sizes")
    sizes = list(written) if isinstance(written, tuple) else [scope[v] for v in op.group("sizes")]
    scope.bind(op.results[0], window(walker.machine, op, source.name, scope[source], offsets, sizes))


def memref_view(name: str, t: MemRefType, extents: Sequence[int]) -> View:
    """An argument that is a memref, as a view; ``extents`` are those of the array given for it."""
    if None in t.dims and len(extents) != len(t.dims):
        raise ArgumentError(f"argument {name!r}: found shape {tuple(extents)}, the program declares {t}")
    known = extents if None in t.dims else t.dims
    shape = tuple(n if d is None else d for d, n in zip(t.dims, known, strict=True))
    return View(name, t.dtype, t.offset or 0, shape, strides_of(shape, t.strides))


@handles("get_tensor_view_dim")
def _get_tensor_view_dim(walker: Walker, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, view.shape))


@handles("get_tensor_view_stride")
def _get_tensor_view_stride(walker: Walker, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, view.strides))


@handles("tensor_view_addr")
def _tensor_view_addr(walker: Walker, op: Op, scope: Scope) -> None:
    view = scope[op.ins[0]]
    scope.bind(op.results[0], Pointer(view.buffer, view.dtype, view.offset))


@handles("addptr")
def _addptr(walker: Walker, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    scope.bind(op.results[0], replace(pointer, offset=advanced(walker.machine, pointer.offset, offset)))


@handles("alloc_tile")
def _alloc_tile(walker: Walker, op: Op, scope: Scope) -> None:
    result = op.results[0]
    t = result.type
    assert isinstance(t, TileType)
    given = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    storage = walker.machine.allocate(op, t, given.get("addr"))
    ref = TileRef(t, storage, *region_of(t, given.get("valid_row"), given.get("valid_col")))
    walker.machine.region(op, ref)
    scope.bind(result, ref)


def region_of(t: TileType, row: Scalar | None = None, col: Scalar | None = None) -> tuple[Scalar, Scalar]:
    """Valid sizes of a new handle: static ones from its type, others as given, else the whole tile."""
    rows = t.v_row if t.v_row is not None else t.rows if row is None else row
    cols = t.v_col if t.v_col is not None else t.cols if col is None else col
    return rows, cols


@handles("set_validshape")
def _set_validshape(walker: Walker, op: Op, scope: Scope) -> None:
    tile, row, col = op.ins
    ref = replace(scope[tile], v_row=scope[row], v_col=scope[col])
    walker.machine.region(op, ref)
    scope.update(tile, ref)


@handles("tassign")
def _tassign(walker: Walker, op: Op, scope: Scope) -> None:
    ref, address = scope[op.ins[0]], scope[op.ins[1]]
    t = op.results[0].type if op.results else ref.type
    assert isinstance(t, TileType)
    moved = replace(ref, type=t, storage=walker.machine.rebind(op, ref, t, address))
    if op.results:
        scope.bind(op.results[0], moved)
    else:
        scope.update(op.ins[0], moved)


@handles("sethf32mode", "settf32mode")
def _set_f32_mode(walker: Walker, op: Op, scope: Scope) -> None:
    instruction = isa.find(op.name)
    assert instruction is not None
    attrs = isa.bind(instruction, op).attrs
    walker.modes[ROUNDING_STATE] = attrs["mode"] if attrs["enable"] else None


@handles("setfmatrix", "set_img2col_padding", "set_img2col_rpt")
def _set_image(walker: Walker, op: Op, scope: Scope) -> None:
    instruction = isa.find(op.name)
    assert instruction is not None
    bound = isa.bind(instruction, op)
    mode = bound.attrs["mode"]
    assert isinstance(mode, FmatrixMode)
    state = walker.mode(op, IMG2COL_STATE).configured(op.name, mode, op.ins[0].type)
    walker.modes[IMG2COL_STATE] = state


@handles("print")
def _print(walker: Walker, op: Op, scope: Scope) -> None:
    (value,) = op.ins
    walker.machine.show(op, str(op.attrs["format"]), scope[value], scalar_dtype(value.type))


@handles("trap")
def _trap(walker: Walker, op: Op, scope: Scope) -> None:
    walker.machine.trap(op)


def printed(format: str, value: Any) -> str:
    """A scalar in a format with one conversion, as C has them.

    >>> printed("n = %d", 3)
    'n = 3'
    """
    try:
        return str(format % value)
    except (TypeError, ValueError):
        return f"{format} {value}"


@handles("tget_scale_addr")
def _scale_address(walker: Walker, op: Op, scope: Scope) -> None:
    """Scales have storage of their own; nothing moves."""
    for result in op.results:
        scope.bind(result, walker.fresh(op, result, {}))


@handles("tprefetch_async")
def _prefetch(walker: Walker, op: Op, scope: Scope) -> None:
    for result in op.results:
        scope.bind(result, None)


@handles("declare_eventid_array")
def _declare_events(walker: Walker, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, OpaqueType)
    scope.bind(op.results[0], (0,) * int(t.params))


@handles("eventid_array_get")
def _get_event(walker: Walker, op: Op, scope: Scope) -> None:
    array, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, array))


@handles("eventid_array_set")
def _set_event(walker: Walker, op: Op, scope: Scope) -> None:
    array, index, value = (scope[v] for v in op.ins)
    hits = [walker.scalar("arith.cmpi.eq", (index, i), INDEX, I1) for i in range(len(array))]
    chosen = [
        walker.scalar("arith.select", (hit, value, old), INDEX, INDEX)
        for hit, old in zip(hits, array, strict=True)
    ]
    scope.update(op.ins[0], tuple(chosen))
