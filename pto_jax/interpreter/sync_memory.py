"""Order of memory, and flags between the cores of a block and of all blocks."""

from ..ir import Op, Program
from . import cores, flags
from .interpreter import Interpreter, Steps, executes
from .scope import Scope

#: Numbers from here on are those of the second vector core.
_SECOND = 16


@executes("cmo.cacheinvalid", "fence.barrier_all", "get_buf_dyn", "rls_buf_dyn")
@executes("set_cross_block", "wait_cross_block")
def _ordered(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """Memory is coherent, and instructions and blocks take effect one after another."""


@executes("set_intra_block")
def _set(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    number = flags.flag_number(interpreter, op, scope)
    if number is not None:
        flags.set_flags(interpreter, number % _SECOND, _partners(interpreter, number))


@executes("wait_intra_block")
def _wait(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    number = flags.flag_number(interpreter, op, scope)
    if number is not None:
        yield from flags.wait_for_flags(interpreter, op, number % _SECOND, _partners(interpreter, number))


def _partners(interpreter: Interpreter, number: int) -> list[cores.Core]:
    """The cores at the other end of a flag: of the cube core one vector core where numbers say which."""
    shared, cube = interpreter.shared, interpreter.core.kind == "cube"
    others = [c for c in shared.cores if (c.kind == "cube") != cube]
    if not cube or not _paired(interpreter.program):
        return others
    return [c for c in others if c.subblock == number // _SECOND]


def _paired(program: Program) -> bool:
    """Whether numbers tell the vector cores apart."""
    numbers = (
        op.attrs.get("event") for op in program.walk() if op.name in ("set_intra_block", "wait_intra_block")
    )
    return any(isinstance(n, int) and n >= _SECOND for n in numbers)
