"""Launch of a function: its blocks, and the cores of a block side by side.

How cores take turns stands in :mod:`.together`.
"""

from collections.abc import Sequence

from ..analysis.calls import too_many_calls
from ..errors import Diagnostic, NotExecutableError, VerifyError
from ..ir import INDEX, Function, Program, ScalarType, TileType
from .cores import Block, cores_of, kind_of
from .interpreter import Interpreter
from .machine import Machine
from .operands import BLOCK_NUMBERS, Operand, Pointer, Scalar, Scope, View
from .together import side_by_side


def launch(
    program: Program,
    machine: Machine,
    function: Function,
    operands: Sequence[Operand],
    scope: Scope | None = None,
    grid: int = 1,
) -> tuple[Operand, ...]:
    """Execute a function once for every block; returns what it returns where there is one block.

    VerifyError where an execution would make too many calls.
    """
    calls = too_many_calls(program) if len(program.functions) > 1 else None
    if calls is not None:
        raise VerifyError(calls)
    if grid == 1:
        return run_block(program, machine, function, operands, 0, 1, scope)
    _check_launch(program, function, grid)

    def run(number: Scalar, own: Sequence[Operand]) -> None:
        run_block(program, machine, function, own, number, grid)

    machine.blocks(grid, operands, run)
    return ()


def _check_launch(program: Program, function: Function, grid: int) -> None:
    """Several blocks share global memory only: nothing else can go in or come out."""
    tile = next((v for v in function.args if isinstance(v.type, TileType)), None)
    if tile is not None or program.fragment:
        found = f"the tile argument {tile}" if tile is not None else "a fragment"
        message = f"got {found} on {grid} blocks; allowed: a function of buffers and scalars, or one block"
        raise NotExecutableError(Diagnostic("error", message, function.span, rule="grid"))


def run_block(
    program: Program,
    machine: Machine,
    function: Function,
    operands: Sequence[Operand],
    number: Scalar,
    grid: int,
    scope: Scope | None = None,
) -> tuple[Operand, ...]:
    """Execute one block of a launch on all its cores."""
    cores = cores_of(program, function)
    memory = [o.buffer for o in operands if isinstance(o, Pointer | View)]
    shared = Block(number, grid, cores, machine.depth, tuple(dict.fromkeys(memory)))
    if len(cores) == 1:
        interpreter = Interpreter(program, machine, cores[0], shared)
        return interpreter.run(function, numbered(interpreter, function, operands), scope)
    _side_by_side(program, machine, function, operands, shared)
    return ()


def _side_by_side(
    program: Program, machine: Machine, function: Function, operands: Sequence[Operand], block: Block
) -> None:
    kind, running = kind_of(function), {}
    for core in block.cores:
        if kind is None or core.kind == kind:
            interpreter = Interpreter(program, machine, core, block)
            given = numbered(interpreter, function, operands)
            running[core] = interpreter.function(function, given, Scope())
    side_by_side(machine, block, running)


def numbered(
    interpreter: Interpreter, function: Function, operands: Sequence[Operand]
) -> tuple[Operand, ...]:
    """The operands with the numbers of the block and the core, for arguments that are those numbers.

    One block of one rank may be given the numbers of another one.
    """
    numbers = {name: number for name, number in _numbers(interpreter).items() if number is not None}
    found = []
    for argument, operand in zip(function.args, operands, strict=True):
        number = numbers.get(argument.name)
        given = operand is not None and interpreter.shared.count == 1 and interpreter.shared.world is None
        if number is None or given:
            found.append(operand)
        elif isinstance(number, int) or not isinstance(argument.type, ScalarType):
            found.append(number)
        else:
            found.append(interpreter.scalar("arith.index_cast", (number,), INDEX, argument.type.dtype))
    return tuple(found)


def _numbers(interpreter: Interpreter) -> dict[str, Scalar]:
    shared = interpreter.shared
    return dict(zip(BLOCK_NUMBERS, (shared.number, shared.count, interpreter.core.subblock), strict=True))
