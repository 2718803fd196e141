"""Handlers of pipes between the cube core and the vector cores of a block, by number or by handle.

With ``split`` 1 or 2 each vector core has one half of the rows or columns, with 0 the first core has all; 3
and 4 are 1 and 2 for an odd number of valid rows or columns.
"""

from typing import Any

from .. import isa
from ..analysis.pipes import End, Key, ends, popped
from ..ir import F32, I32, I64, Op, PushRelu, ReluPreMode, ScalarType, TileType, Value, attrs
from ..isa.rules.block_scales import SIGNED_BIT
from . import fifo
from .fifo import Ring
from .interpreter import Interpreter, Steps, executes
from .operands import Execution, Operand, Scope, TileRef, region_of


@executes("reserve_buffer", "import_reserved_buffer")
def _buffer(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Buffers have no effect on values; their addresses are numbers nobody computes with."""
    for result in op.results:
        scope.bind(result, op.attrs.get("base", 0))


@executes("aic_initialize_pipe", "aiv_initialize_pipe")
def _set_up(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    end = end_at(interpreter, op)
    key = end.key(1)
    consumer = None
    if op.attrs.get("acc_push_epilogue") is not None:
        consumer = next((t for _, t in popped(interpreter.program, key)), None)
    memory = scope[end.memory] if end.memory is not None else None
    ring = fifo.ring_of(interpreter, op, (key, end.key(2)), memory, consumer)
    scope.bind(fifo.name_of(end.number), ring)


def end_at(interpreter: Interpreter, op: Op) -> End:
    """The end of a pipe that an initialisation of the program sets up."""
    return next(e for f in interpreter.program.functions for e in ends(f) if e.op is op)


@executes("talloc_to_aiv", "talloc_to_aic")
def _allocate(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    result = op.results[0]
    view = yield from fifo.allocate(interpreter, op, result.type, fifo.ring(op, scope))
    scope.bind(result, view)


@executes("tpush_to_aiv", "tpush_to_aic")
def _push(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source, *half = op.ins
    fifo.own_half(interpreter, op, scope[half[0]] if half else None)
    push(interpreter, op, scope[source], fifo.ring(op, scope), scope)


def push(interpreter: Interpreter, op: Op, entry: Operand, through: Ring, scope: Scope) -> None:
    """Push a tile or a slot in global memory through a ring."""
    if not isinstance(entry, TileRef):
        fifo.commit(interpreter, op, through)
        return
    if through.epilogue is not None:
        entry = _converted(interpreter, op, entry, through, scope)
    if not interpreter.machine.abstract:
        fifo.push_tile(interpreter, op, entry, through)


@executes("tpop_from_aic", "tpop_from_aiv")
def _pop(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    operands = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    fifo.own_half(interpreter, op, operands.get("aiv_subblockid"))
    sizes = (operands.get("valid_row"), operands.get("valid_col"))
    popped = yield from pop(interpreter, op, op.results[0], fifo.ring(op, scope), sizes)
    scope.bind(op.results[0], popped)


def pop(
    interpreter: Interpreter, op: Op, target: Value, through: Ring, sizes: tuple[Any, Any] = (None, None)
) -> Steps[Operand]:
    """The tile or slot that comes out of a ring for a name; ``sizes`` are those that its type leaves open."""
    t = target.type
    if not isinstance(t, TileType):
        return (yield from fifo.pop_slot(interpreter, op, t, through))
    valid = region_of(t, *sizes)
    contents = None
    if not interpreter.machine.abstract:
        contents = yield from fifo.pop_tile(interpreter, op, t, through)
    ref = TileRef(t, interpreter.machine.receive(op, target.name, t, contents), *valid)
    interpreter.machine.region(op, ref)
    return ref


@executes("tfree_from_aic", "tfree_from_aiv")
def _free(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    fifo.free(interpreter, op, fifo.ring(op, scope))


# -- accumulators that are converted -----------------------------------------------------------------


def _converted(interpreter: Interpreter, op: Op, tile: TileRef, through: Ring, scope: Scope) -> TileRef:
    """The tile that an accumulator becomes on its way: a move into a tile of the consumer's type."""
    epilogue, t = through.epilogue, through.consumer
    if t is None or epilogue is None:
        raise fifo.refused(op, "a converting pipe that nobody pops from; allowed: a pop of its tiles")
    result = Value(f"{op.ins[0].name} in {fifo.name_of(0).name}", t)
    ref = TileRef(t, interpreter.machine.fresh(op, result, t), tile.v_row, tile.v_col)
    operands: dict[str, Operand] = {"dst": ref, "src": tile}
    sources = [Value(op.ins[0].name, tile.type)]
    if epilogue.quant.name.endswith("_SCALAR"):
        operands["preQuantScalar"] = _word(interpreter, op, t, scope)
        sources.append(Value("scale", ScalarType(I64)))
    elif epilogue.quant.name.endswith("_VEC"):
        operands["fp"] = fp = _quant(op, scope)
        sources.append(Value("scale", fp.type))
    relu = ReluPreMode(int(epilogue.relu is PushRelu.NORMAL_RELU))
    move = Op("tmov", tuple(sources), (result,), attributes=attrs(reluPreMode=relu), span=op.span)
    bound = isa.bind(isa.instructions()[move.name], move)
    execution = Execution(move, bound, operands, bound.attrs)
    interpreter.machine.execute(execution)
    return ref


def _word(interpreter: Interpreter, op: Op, t: TileType, scope: Scope) -> Operand:
    """The parameter word of a scale: its bits, and whether 8-bit results are signed."""
    bits = interpreter.scalar("arith.bitcast", (_quant(op, scope),), F32, I32)
    word = interpreter.scalar("arith.extui", (bits,), I32, I64)
    if t.dtype.name != "i8":
        return word
    return interpreter.scalar("arith.ori", (word, 1 << SIGNED_BIT), I64, I64)


def _quant(op: Op, scope: Scope) -> Operand:
    number = op.attrs.get("id", 0)
    try:
        return scope[fifo.scale_of(number)]
    except KeyError:
        raise fifo.refused(op, f"no scale for pipe {number}; allowed: one that was set before") from None


@executes("initialize_l2l_pipe", "initialize_l2g2l_pipe")
def _ring(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    end = end_at(interpreter, op)
    keys: tuple[Key, Key] = (("flag", "0"), ("flag", "0"))
    if end.buffers or "flag_base" in op.attrs:
        keys = (end.key(1), end.key(2))
    memory = scope[end.memory] if end.memory is not None else None
    scope.bind(op.results[0], fifo.ring_of(interpreter, op, keys, memory, None))


@executes("declare_tile")
def _declare(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, TileType)
    scope.bind(op.results[0], TileRef(t, interpreter.machine.fresh(op, op.results[0], t), *region_of(t)))


@executes("declare_global")
def _declare_global(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A name that slots are bound to; before that it names nothing."""
    scope.bind(op.results[0], None)


@executes("talloc")
def _allocate_handle(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    target = op.results[0] if op.results else op.ins[0]
    view = yield from fifo.allocate(interpreter, op, target.type, fifo.ring(op, scope))
    (scope.bind if op.results else scope.update)(target, view)


@executes("tpush")
def _push_handle(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    entry, *more = (scope[v] for v in op.ins if not isinstance(scope[v], Ring))
    fifo.own_half(interpreter, op, more[0] if more else None)
    push(interpreter, op, entry, fifo.ring(op, scope), scope)


@executes("tpop")
def _pop_handle(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    others = [v for v in op.ins if not isinstance(scope[v], Ring)]
    target = op.results[0] if op.results else others.pop(0)
    fifo.own_half(interpreter, op, scope[others[0]] if others else None)
    popped = yield from pop(interpreter, op, target, fifo.ring(op, scope))
    (scope.bind if op.results else scope.update)(target, popped)


@executes("tfree")
def _free_handle(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    fifo.free(interpreter, op, fifo.ring(op, scope))
