"""Windows of tiles that have a valid region of their own."""

from collections.abc import Sequence
from dataclasses import replace

from ..ir import I1, INDEX, Op, TileType
from .interpreter import Interpreter, executes
from .operands import Operand, Scalar, TileRef, region_of
from .reinterpret import bind_handle, of_each, tile_type
from .scope import Scope
from .windows import elements_before, flat, pitches, require_inside, scalar


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
            return machine.offset(op, option, t, elements_before(machine, whole, row, col))
        if whole.boxed and not (isinstance(row, int) and isinstance(col, int)):
            first = flat(machine, op, option)
            elements = elements_before(machine, first.type, row, col)
            moved = replace(first, storage=machine.offset(op, first, first.type, elements))
            return machine.window(op, moved, t, 0, 0)
        return machine.window(op, option, t, row, col)

    bind_handle(
        interpreter, op, scope, TileRef(t, of_each(ref, windowed), *region_of(t, *given), pitched=True)
    )


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
