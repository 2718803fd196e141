"""Views that an instruction loads itself before it computes."""

from dataclasses import replace
from math import prod

from .. import isa
from ..errors import NotExecutableError
from ..ir import Op, PartitionViewType, TileType, Value
from .machine import Machine
from .operands import Execution, TileRef, View


def loaded(machine: Machine, execution: Execution) -> Execution:
    """The execution with the views that stand for tiles as those tiles."""
    for operand in execution.instruction.operands:
        if operand.loaded_as and operand.name in execution.operands:
            view = execution.operands[operand.name]
            tile = _tile(machine, execution.op, view)
            kept = {n: o for n, o in execution.operands.items() if n != operand.name}
            execution = replace(execution, operands={**kept, operand.loaded_as: tile})
    return execution


def _tile(machine: Machine, op: Op, view: View) -> TileRef:
    """A tile with the elements of a view, row by row."""
    extents = [machine.known(n) for n in view.shape]
    sizes = [n for n in extents if n is not None]
    if len(sizes) != len(extents):
        message = "got indexes of an extent that only execution knows; allowed: known extents"
        raise NotExecutableError(op.error("executable", message))
    t = TileType(view.dtype, prod(sizes[:-1]), sizes[-1])
    tile, window = Value("loaded", t), Value("view", PartitionViewType(tuple(sizes), view.dtype))
    ref = TileRef(t, machine.fresh(op, tile, t), *t.shape)
    load = Op("tload", (window,), (tile,), span=op.span)
    bound = isa.bind(isa.instructions()[load.name], load)
    machine.execute(Execution(load, bound, {"dst": ref, "src": view}, bound.attrs))
    return ref
