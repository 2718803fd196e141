"""Numbers of blocks and cores, printing, and the end of a program."""

from typing import Any

from ..analysis.constant_folding import scalar_dtype
from ..ir import Op
from .interpreter import Interpreter, executes
from .scope import Scope


@executes("get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num")
def _number(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    shared = interpreter.shared
    numbers = {
        "get_block_idx": shared.number,
        "get_block_num": shared.count,
        "get_subblock_idx": interpreter.core.subblock,
        "get_subblock_num": shared.subblocks,
    }
    for result in op.results:
        scope.bind(result, numbers[op.name])


@executes("print")
def _print(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    (value,) = op.ins
    interpreter.machine.show(op, str(op.attrs["format"]), scope[value], scalar_dtype(value.type))


def printed(format: str, value: Any) -> str:
    """A scalar in a format with one conversion, as C has them.

    >>> printed("n = %d", 3)
    'n = 3'
    """
    try:
        return str(format % value)
    except (TypeError, ValueError):
        return f"{format} {value}"


@executes("trap")
def _trap(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    interpreter.machine.trap(op)
