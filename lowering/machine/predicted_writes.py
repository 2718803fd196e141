"""A first estimate of the writes of a region, from its text.

It spares most regions a second trace. A wrong guess costs time, never a result: what is missing shows when
the region is traced, and what is too much is carried unchanged.
"""

from collections.abc import Mapping

from pto_jax.analysis.provenance import Origin
from pto_jax.interpreter import Frame, Operand, Pointer, TileRef, View
from pto_jax.ir import Op, TileType
from pto_jax.isa.effects import placed

from . import storage, tile_memory


def changes(machine: tile_memory.TileMemory, frame: Frame) -> tuple[list[str], list[str]]:
    """Keys of the cells and names of the buffers that the region of an operation probably changes."""
    if frame.members:
        return _of_cores(machine, frame.members)
    if frame.reading is None:
        return [], machine.writable if frame.op.name == tile_memory.BLOCK else []
    writes = frame.reading.writes_inside(frame.op)
    around = frame.names()
    operands: dict[Origin, Operand] = dict(around.items())
    operands.update((i, _allocated(machine, op, around)) for i, op in enumerate(writes.allocations))
    cells: dict[str, None] = {}
    buffers: dict[str, None] = {}
    for target in map(operands.get, writes.origins):
        if isinstance(target, TileRef):
            slot = storage.slot_of(target.storage)
            if slot is not None:
                cells.setdefault(slot.cell.key)
        elif isinstance(target, View | Pointer) and isinstance(target.buffer, str):
            buffers.setdefault(target.buffer)
    return [key for key in cells if key in machine.cells], list(buffers)


def _of_cores(machine: tile_memory.TileMemory, members: Mapping[str, Frame]) -> tuple[list[str], list[str]]:
    """What the regions change that several cores enter together."""
    own = machine.core
    cells: list[str] = []
    buffers: list[str] = []
    for core, frame in members.items():
        machine.enter(core)
        names = changes(machine, frame)
        cells += names[0]
        buffers += names[1]
    machine.enter(own)
    return list(dict.fromkeys(cells)), list(dict.fromkeys(buffers))


def _allocated(machine: tile_memory.TileMemory, op: Op, around: Mapping[str, Operand]) -> TileRef | None:
    """The tile that an operation inside a region allocates; None where only its execution knows the place."""
    placement = placed(op)
    assert placement is not None
    start, t = placement[1], placement[0].type
    assert isinstance(t, TileType)
    address = None if start is None else around.get(start.name)
    if start is not None and not isinstance(address, int):
        return None
    return TileRef(t, machine.allocate(op, t, address), t.rows, t.cols)
