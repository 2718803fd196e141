"""A first guess of what a region changes, from its text.

It spares most regions a second trace. A wrong guess costs time, never a result: what is missing shows when
the region is traced, and what is too much is carried unchanged.
"""

from __future__ import annotations

from pto_jax.interpreter import Frame, Operand, Pointer, TileRef, View
from pto_jax.ir.program import Op
from pto_jax.ir.types import TileType
from pto_jax.isa.effects import aliased, entered, placed, written

from .storage import slot_of
from .tile_memory import TileMemory


def changes(machine: TileMemory, frame: Frame) -> tuple[list[str], list[str]]:
    """Keys of the cells and names of the buffers that the region of an operation probably changes."""
    known = frame.names()
    cells: dict[str, None] = {}
    buffers: dict[str, None] = {}
    for op in frame.op.walk():
        pair, place = aliased(op), placed(op)
        for name, source in entered(op) if pair is None else (pair,):
            if source.name in known:
                known[name.name] = known[source.name]
        if place is not None and place[1] is None and isinstance(place[0].type, TileType):
            known[place[0].name] = _allocated(machine, op, place[0].type)
        for value in written(op):
            target = known.get(value.name)
            if isinstance(target, TileRef):
                slot = slot_of(target.storage)
                if slot is not None:
                    cells.setdefault(slot.cell.key)
            elif isinstance(target, View | Pointer) and isinstance(target.buffer, str):
                buffers.setdefault(target.buffer)
    return [key for key in cells if key in machine.cells], list(buffers)


def _allocated(machine: TileMemory, op: Op, t: TileType) -> Operand:
    return TileRef(t, machine.allocate(op, t, None), t.rows, t.cols)
