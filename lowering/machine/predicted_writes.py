"""A first guess of what a region changes, from its text.

It spares most regions a second trace. A wrong guess costs time, never a result: what is missing shows when
the region is traced, and what is too much is carried unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from pto_jax.analysis.provenance import DERIVING
from pto_jax.interpreter import Frame, Operand, Pointer, TileRef, View
from pto_jax.ir.program import Op, Value
from pto_jax.ir.types import TileType

from .storage import slot_of
from .tile_memory import TileMemory

#: Operations whose result is over the storage or buffer of their first operand.
_FOLLOWING = DERIVING | frozenset({"talias", "treshape", "bitcast", "tsubview", "subset", "bind_tile"})


def changes(machine: TileMemory, frame: Frame) -> tuple[list[str], list[str]]:
    """Keys of the cells and names of the buffers that the region of an operation probably changes."""
    known = frame.names()
    cells: dict[str, None] = {}
    buffers: dict[str, None] = {}
    for op in frame.op.walk():
        for name, source in _followed(op):
            if source.name in known:
                known[name.name] = known[source.name]
        if op.name == "alloc_tile" and not op.group("addr"):
            known[op.results[0].name] = _allocated(machine, op)
        written = op.ins[1:2] if op.name == "store_scalar" else op.outs
        for value in written:
            target = known.get(value.name)
            if isinstance(target, TileRef):
                slot = slot_of(target.storage)
                if slot is not None:
                    cells.setdefault(slot.cell.key)
            elif isinstance(target, View | Pointer) and isinstance(target.buffer, str):
                buffers.setdefault(target.buffer)
    return [key for key in cells if key in machine.cells], list(buffers)


def _followed(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of a value and one whose storage it has."""
    if op.name in _FOLLOWING and op.ins and op.results:
        yield op.results[0], op.ins[0]
    elif op.name == "scf.for":
        yield from zip(op.regions[0].args[1:], op.group("inits"), strict=True)
    elif op.name == "scf.while":
        yield from zip(op.regions[0].args, op.ins, strict=True)


def _allocated(machine: TileMemory, op: Op) -> Operand:
    t = op.results[0].type
    assert isinstance(t, TileType)
    return TileRef(t, machine.allocate(op, t, None), t.rows, t.cols)
