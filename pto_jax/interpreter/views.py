"""Allocations, views of global memory and their windows."""

from collections.abc import Sequence
from dataclasses import replace

from ..errors import Diagnostic, NotExecutableError
from ..ir import GlobalLayout, Op, TileType
from ..isa.views import extents
from .interpreter import Interpreter, executes
from .operands import Pointer, Scalar, TileRef, View, region_of
from .scope import Scope
from .windows import advanced, window


@executes("alloc_tile")
def _alloc_tile(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    result = op.results[0]
    t = result.type
    assert isinstance(t, TileType)
    given = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    storage = interpreter.machine.allocate(op, t, given.get("addr"))
    ref = TileRef(t, storage, *region_of(t, given.get("valid_row"), given.get("valid_col")))
    interpreter.machine.region(op, ref)
    scope.bind(result, ref)


@executes("make_tensor_view")
def _make_tensor_view(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    pointer = scope[op.group("ptr")[0]]
    if pointer.cast if isinstance(pointer, Pointer) else isinstance(pointer, TileRef):
        message = "found a pointer that was cast; allowed: one to elements as its argument declares them"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="executable"))
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


@executes("partition_view")
def _partition_view(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    bind_window(interpreter, op, scope)


def bind_window(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Bind the window of a view at offsets and with sizes, which may stand in the text or be operands."""
    (source,) = op.group("view")
    view, result = scope[source], op.results[0]
    offsets = [scope[v] for v in op.group("offsets")]
    written = op.attrs.get("sizes")
    sizes = list(written) if isinstance(written, tuple) else [scope[v] for v in op.group("sizes")]
    lead = len(view.shape) - len(sizes)
    offsets, sizes = [0] * lead + offsets, [*view.shape[:lead], *sizes]
    found = window(interpreter.machine, op, source.name, view, offsets, sizes)
    dims = extents(result.type, len(sizes)) or sizes
    scope.bind(result, _of_rank(interpreter, found, len(dims)))


def _of_rank(interpreter: Interpreter, view: View, rank: int) -> View:
    """A window in as many dimensions as its type has, counted from the last one.

    Leading extents of 1 come and go; others stay, so that the window has all its elements.
    """
    shape, strides = view.shape, view.strides
    while len(shape) > rank and isinstance(shape[0], int) and shape[0] == 1:
        shape, strides = shape[1:], strides[1:]
    missing = rank - len(shape)
    if missing > 0:
        whole = view.root or view
        pitch = interpreter.index("arith.muli", whole.shape[0], whole.strides[0])
        shape, strides = (1,) * missing + shape, (pitch,) * missing + strides
    return replace(view, shape=shape, strides=strides)


@executes("get_tensor_view_dim")
def _get_tensor_view_dim(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, named_dimensions(op, view.shape)))


def named_dimensions(op: Op, numbers: Sequence[Scalar]) -> Sequence[Scalar]:
    """Extents or strides of the dimensions that the type of a view counts: the last ones."""
    dims = extents(op.ins[0].type, len(numbers))
    return numbers if dims is None else numbers[max(0, len(numbers) - len(dims)) :]


@executes("set_validshape")
def _set_validshape(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    tile, row, col = op.ins
    ref = replace(scope[tile], v_row=scope[row], v_col=scope[col])
    interpreter.machine.region(op, ref)
    scope.update(tile, ref)


@executes("addptr")
def _addptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    if isinstance(pointer, TileRef):
        message = "found a pointer into a tile; allowed: one into global memory (offsets of accesses move)"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="executable"))
    scope.bind(op.results[0], replace(pointer, offset=advanced(interpreter.machine, pointer.offset, offset)))
