"""Memrefs: local ones stand for tiles, those of global memory for views."""

from collections.abc import Sequence

from ..analysis.entries import strides_of
from ..errors import ArgumentError, Diagnostic, NotExecutableError
from ..ir import GlobalLayout, MemRefType, Op
from . import reinterpret, views, windows
from .interpreter import Interpreter, executes
from .operands import TileRef, View, region_of
from .scope import Scope


def memref_view(name: str, t: MemRefType, extents: Sequence[int]) -> View:
    """An argument that is a memref, as a view; ``extents`` are those of the array given for it."""
    if None in t.dims and len(extents) != len(t.dims):
        raise ArgumentError(f"argument {name!r}: found shape {tuple(extents)}, the program declares {t}")
    known = extents if None in t.dims else t.dims
    shape = tuple(n if d is None else d for d, n in zip(t.dims, known, strict=True))
    return View(name, t.dtype, t.offset or 0, shape, strides_of(shape, t.strides))


@executes("memref.alloc")
def _alloc(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = reinterpret.tile_type(op, op.results[0])
    scope.bind(op.results[0], TileRef(t, interpreter.machine.allocate(op, t, None), *region_of(t)))


@executes("memref.dealloc")
def _dealloc(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Storage has no end of life: nothing reads it afterwards."""


@executes("memref.reinterpret_cast")
def _reinterpret(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source = scope[op.group("source")[0]]
    if isinstance(source, TileRef):
        message = "found a local memref; allowed: a memref of global memory"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="executable"))
    moved = windows.advanced(interpreter.machine, source.offset, scope[op.group("offsets")[0]])
    layout = op.attrs.get("layout")
    view = View(
        source.buffer,
        source.dtype,
        moved,
        tuple(scope[v] for v in op.group("sizes")),
        tuple(scope[v] for v in op.group("strides")),
        layout if isinstance(layout, GlobalLayout) else None,
    )
    scope.bind(op.results[0], view)


@executes("global_subview")
def _subview(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    views.bind_window(interpreter, op, scope)
