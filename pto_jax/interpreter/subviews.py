"""Windows of tiles that have a valid region of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..ir.dtypes import I1, INDEX
from ..ir.enums import BLayout, Compact
from ..ir.program import Op
from ..ir.types import TileType
from .interpreter import Interpreter, executes
from .operands import Operand, Scalar, TileRef, region_of
from .reinterpret import bind_handle, of_each, tile_type
from .scope import Scope
from .windows import advanced, require_inside, scalar


@executes("subview")
def _subview(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (tile,) = op.group("tile")
    ref, t = scope[tile], tile_type(op, op.results[0])
    starts = [scope[v] for v in op.group("offsets")]
    given = [scope[op.group(n)[0]] if op.group(n) else None for n in ("valid_row", "valid_col")]
    require_inside(interpreter.machine, op, f"%{tile.name}", starts, t.shape, ref.type.shape)
    _require_boxes(interpreter, op, ref.type, starts)
    row, col = starts

    def windowed(option: TileRef) -> Operand:
        machine, whole = interpreter.machine, option.type
        if machine.window_of(option) is None and pitches(whole) == pitches(t):
            return machine.offset(op, option, t, _elements(interpreter, whole, row, col))
        if whole.boxed and not (isinstance(row, int) and isinstance(col, int)):
            first = flat(interpreter, op, option)
            elements = _elements(interpreter, first.type, row, col)
            moved = replace(first, storage=machine.offset(op, first, first.type, elements))
            return machine.window(op, moved, t, 0, 0)
        return machine.window(op, option, t, row, col)

    bind_handle(interpreter, op, scope, TileRef(t, of_each(ref, windowed), *region_of(t, *given)))


def flat(interpreter: Interpreter, op: Op, ref: TileRef) -> TileRef:
    """The tile of the whole's shape that begins where a window of it does; other handles as they are."""
    part = interpreter.machine.window_of(ref)
    if part is None:
        return ref
    whole = flat(interpreter, op, part[0])
    elements = _elements(interpreter, whole.type, *part[1:])
    storage = interpreter.machine.offset(op, whole, whole.type, elements)
    return TileRef(whole.type, storage, ref.v_row, ref.v_col)


def _elements(interpreter: Interpreter, t: TileType, row: Scalar, col: Scalar) -> Scalar:
    """How many elements lie between the beginning of a tile and a row and column of it."""
    of_row, of_col = pitches(t)
    return advanced(interpreter.machine, advanced(interpreter.machine, 0, row, of_row), col, of_col)


def pitches(t: TileType) -> tuple[int, int]:
    """How many elements lie between two rows, and two columns, of a tile's storage; in boxes on average.

    >>> from ..ir.dtypes import F32
    >>> pitches(TileType(F32, 16, 64))
    (64, 1)
    """
    padding = t.compact == Compact.ROW_PLUS_ONE
    rows, cols = t.box
    return (t.cols + padding, rows) if t.blayout == BLayout.ROW_MAJOR else (cols, t.rows + padding)


def _require_boxes(interpreter: Interpreter, op: Op, t: TileType, starts: Sequence[Scalar]) -> None:
    """The run-time rule that a window of a boxed tile begins where a box does."""
    machine = interpreter.machine
    if not machine.checks or not t.boxed:
        return
    for start, box, unit in zip(starts, t.box, ("row", "column"), strict=True):
        rest = scalar(machine, "arith.remsi", (start, box), INDEX, INDEX)
        broken = scalar(machine, "arith.cmpi.ne", (rest, 0), INDEX, I1)
        found = f"{unit} offset {{}} of a tile in boxes of {box} {unit}s"
        machine.require(op, "window-boxes", "the beginning of a box", broken, found, (start,))
