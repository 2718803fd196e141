"""Handles over storage that another handle has: aliases and windows of tiles."""

import re
from collections.abc import Callable, Hashable
from dataclasses import replace

from ..errors import NotExecutableError, with_article
from ..ir import INDEX, BLayout, MemRefType, Op, SLayout, TileType, Value
from ..isa.rules.tile_legality import tile_of_memref
from .interpreter import Interpreter, executes
from .operands import Choice, Operand, Scalar, Scope, TileRef, region_of, with_storage
from .windows import advanced, require_inside


def tile_type(op: Op, value: Value) -> TileType:
    """The type of a value that is a tile, or a local memref that stands for one."""
    t = tile_of_memref(value.type) if isinstance(value.type, MemRefType) else value.type
    if not isinstance(t, TileType):
        message = f"got {with_article(value.type)}; allowed: a tile, or a local memref of constant extents"
        raise NotExecutableError(op.error("executable", message))
    if t.boxed and t.cols % t.stored_box[1]:
        message = f"got {t}, which is no whole boxes of {t.box[0]}x{t.box[1]}; allowed: whole boxes"
        raise NotExecutableError(op.error("executable", message))
    return t


def bind_handle(interpreter: Interpreter, op: Op, scope: Scope, alias: TileRef) -> None:
    """Bind the handle that an operation makes; a destination that exists is pointed anew."""
    interpreter.machine.region(op, alias)
    (scope.update if op.outs else scope.bind)(op.destinations[0], alias)


@executes("treshape", "bitcast")
def _reshape(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    alias(interpreter, op, scope)


def alias(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Bind a handle of another type over the storage of the first operand."""
    ref, t = scope[op.ins[0]], tile_type(op, op.destinations[0])
    same = t.shape == ref.type.shape and op.name != "treshape"
    sizes = region_of(t, ref.v_row, ref.v_col) if same else region_of(t)
    bind_handle(interpreter, op, scope, TileRef(t, _seen(interpreter, op, ref, t), *sizes))


def _seen(interpreter: Interpreter, op: Op, ref: TileRef, t: TileType) -> Operand:
    return of_each(ref, lambda option: interpreter.machine.alias(op, option, t))


@executes("tsubview")
def _subview(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, row, col = (scope[v] for v in op.ins)
    t, source = tile_type(op, op.destinations[0]), ref.type
    major, minor = (row, col) if source.blayout == BLayout.ROW_MAJOR else (col, row)
    pitch = source.cols if source.blayout == BLayout.ROW_MAJOR else source.rows
    elements = advanced(interpreter.machine, advanced(interpreter.machine, 0, major, pitch), minor)

    def moved(option: TileRef) -> Operand:
        return interpreter.machine.offset(op, option, t, elements)

    sizes = region_of(t)
    require_inside(interpreter.machine, op, f"%{op.ins[0].name}", (row, col), sizes, source.shape)
    bind_handle(interpreter, op, scope, TileRef(t, of_each(ref, moved), *sizes))


@executes("subset")
def _subset(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, row, col = (scope[v] for v in op.ins)
    t = tile_type(op, op.destinations[0])
    require_inside(interpreter.machine, op, f"%{op.ins[0].name}", (row, col), t.shape, ref.type.shape)

    def windowed(option: TileRef) -> Operand:
        return interpreter.machine.window(op, option, t, row, col)

    # A tile may have one size that is a number and one that a compiled kernel does not know.
    valid = (ref.v_row, ref.v_col)
    whole = all(isinstance(n, int) for n in valid) and valid == ref.type.shape
    sizes = (
        t.shape
        if whole
        else tuple(
            _rest(interpreter, extent, start, size)
            for extent, start, size in zip(valid, (row, col), t.shape, strict=True)
        )
    )
    t = t if whole else t.with_valid(None, None)
    bind_handle(interpreter, op, scope, TileRef(t, of_each(ref, windowed), sizes[0], sizes[1]))


def _rest(interpreter: Interpreter, valid: Scalar, start: Scalar, size: int) -> Scalar:
    """How much of a window of ``size`` from ``start`` on is valid."""
    left = interpreter.scalar("arith.subi", (valid, start), INDEX, INDEX)
    left = interpreter.scalar("arith.maxsi", (left, 0), INDEX, INDEX)
    return interpreter.scalar("arith.minsi", (left, size), INDEX, INDEX)


def of_each(ref: TileRef, make: Callable[[TileRef], Hashable]) -> Operand:
    """The storage that is made of each one a handle may stand for."""
    if isinstance(ref.storage, Choice):
        options = tuple(make(with_storage(ref, option)) for option in ref.storage.options)
        return replace(ref.storage, options=options)
    return make(ref)


_CONFIG = re.compile(r"(\w+)\s*=\s*(\d+)")


@executes("bind_tile")
def _bind_tile(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    ref, t = scope[op.group("source")[0]], tile_type(op, op.results[0])
    if not isinstance(ref, TileRef):
        message = "got a memref that is an argument; allowed: one that the function allocates"
        raise NotExecutableError(op.error("executable", message))
    config = {key: int(n) for key, n in _CONFIG.findall(str(op.attrs.get("config", "")))}
    t = replace(
        t,
        blayout=BLayout(config.get("blayout", t.blayout)),
        slayout=SLayout(config.get("slayout", t.slayout)),
        fractal=config.get("s_fractal_size", t.fractal),
        pad=type(t.pad)(config.get("pad", t.pad)),
    )
    sizes = [scope[op.group(name)[0]] if op.group(name) else None for name in ("valid_row", "valid_col")]
    rows, cols = (n if valid is None else valid for n, valid in zip(t.shape, sizes, strict=True))
    valid_sizes = interpreter.machine.known(rows), interpreter.machine.known(cols)
    t = t.with_valid(*valid_sizes)
    bind_handle(interpreter, op, scope, TileRef(t, _seen(interpreter, op, ref, t), rows, cols))
