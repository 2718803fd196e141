"""Tiles in several buffers: one run of bytes, of which a slot is a part."""

from ..ir import I1, INDEX, MultiTileType, Op, TileType
from ..isa.multi_tiles import slot_bytes
from .interpreter import Interpreter, executes
from .operands import TileRef, region_of
from .scope import Scope
from .windows import advanced, scalar


@executes("alloc_multi_tile")
def _alloc_multi_tile(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (result,) = op.results
    assert isinstance(result.type, MultiTileType)
    slot = result.type.slot
    given = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    bytes_of_all = result.type.count * slot_bytes(slot)
    row = TileType(slot.dtype, 1, bytes_of_all * 8 // slot.dtype.storage_bits, loc=slot.loc)
    storage = interpreter.machine.allocate(op, row, given.get("addr"))
    sizes = region_of(slot, given.get("valid_row"), given.get("valid_col"))
    scope.bind(result, TileRef(row, storage, *sizes))


@executes("multi_tile_get")
def _multi_tile_get(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    tiles, number = (scope[v] for v in op.ins)
    t = op.ins[0].type
    assert isinstance(t, MultiTileType)
    machine = interpreter.machine
    below = scalar(machine, "arith.cmpi.slt", (number, 0), INDEX, I1)
    beyond = scalar(machine, "arith.cmpi.sge", (number, t.count), INDEX, I1)
    broken = scalar(machine, "arith.ori", (below, beyond), I1, I1)
    machine.require(op, "slot", f"0 to {t.count - 1}", broken, "slot {}", (number,))
    elements = advanced(machine, 0, number, slot_bytes(t.slot) * 8 // t.slot.dtype.storage_bits)
    ref = TileRef(
        t.slot, machine.offset(op, tiles, t.slot, elements), *region_of(t.slot, tiles.v_row, tiles.v_col)
    )
    machine.region(op, ref)
    scope.bind(op.results[0], ref)
