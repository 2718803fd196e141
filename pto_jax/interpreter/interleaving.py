"""Launches, and the order of their ranks, blocks and cores: the one of an execution, or another by a seed.

A core has its turn until it has to wait, the cores in rotation; by a seed chance says whose turn it is before
every operation that others can see, or who is the first of those that may go on. A rank executes its kernels
one after the other and waits for the others at a host barrier only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from ..analysis.entries import too_many_calls
from ..errors import DeadlockError, Diagnostic, NotExecutableError, VerifyError
from ..ir import INDEX, Function, Program, ScalarType, TileType
from . import together
from .communication import finish_copies
from .cores import Block, Core, cores_of, kind_of
from .interpreter import Blocked, Interpreter, Paused, Polled, Repeated, Steps, Waiting
from .machine import Machine
from .operands import BLOCK_NUMBERS, Operand, Pointer, Scalar, Scope, View
from .ranks import Meetings, World
from .together import side_by_side

#: Looks at signals without any change after which a core that only looks is one that waits for ever.
MAX_POLLS = 2048
#: What stands between the name of a core and the number of the kernel that it executes.
LAUNCH = " launch "
#: Makes what executes the operations of a core.
Make: TypeAlias = Callable[[Program, Machine, Core, Block], Interpreter]


@dataclass(frozen=True, eq=False)
class RankLaunch:
    """One kernel of a rank: a function of a program, its blocks, and operands for each argument."""

    program: Program
    function: Function
    grid: int
    operands: Sequence[Operand]


#: What a rank does: kernels in their order, and None where all ranks meet.
Sequence_: TypeAlias = Sequence[RankLaunch | None]


@dataclass(eq=False)
class Cursor:
    """A core that executes: where it stands, and what it waits for.

    ``seen`` are the changes that were there when it found that it has to wait.
    """

    rank: int
    block: Block
    core: Core
    steps: Steps[None]
    launch: int = 0
    waiting: Waiting | None = None
    seen: tuple[int, int] = (-1, -1)
    polls: int = 0

    @property
    def name(self) -> str:
        """What errors call the core."""
        return name_of(self.rank, int(self.block.number), self.core)

    @property
    def memory(self) -> str:
        """What memories call the core: those of all ranks, blocks and kernels are apart."""
        return f"{self.name}{LAUNCH}{self.launch}"

    def stamp(self, world: World) -> tuple[int, int]:
        """The changes that may let the core go on."""
        return world.changes, self.block.changes

    def ready(self, world: World) -> bool:
        """Whether the core may go on."""
        if self.waiting is None or isinstance(self.waiting, Paused):
            return True
        if isinstance(self.waiting, Polled) and self.polls < MAX_POLLS:
            return True
        return self.seen != self.stamp(world)


def name_of(rank: int, block: int, core: Core) -> str:
    """The name of a core of a block of a rank.

    >>> name_of(1, 0, Core("vector", 1))
    'rank 1 (block 0, core vector1)'
    """
    return f"rank {rank} (block {block}" + (f", core {core.name})" if core.name else ")")


class _Turns:
    """Whose turn it is by chance: anybody's, or that of the first in an order of the cores.

    In the order a core goes to the end where it only looks, and every second time that it lets others go on:
    then these come as far as they can before it does anything else.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.in_order = self.chance.random() < 0.5
        self.places: dict[Cursor, float] = {}

    def next(self, ready: Sequence[Cursor]) -> Cursor:
        """One of the cores that may go on."""
        if not self.in_order:
            return self.chance.choice(ready)
        return min(ready, key=lambda c: self.places.setdefault(c, self.chance.random()))

    def after(self, cursor: Cursor, *, changed: bool) -> None:
        """A core has had its turn."""
        looks = isinstance(cursor.waiting, Polled | Repeated)
        if self.in_order and (looks or (changed and self.chance.random() < 0.5)):
            self.places[cursor] = max(self.places.values()) + 1


@dataclass(eq=False)
class Interleaving:
    """An execution of the kernels of all ranks on one machine."""

    world: World
    machine: Machine
    sequences: Sequence[Sequence_]
    seed: int | None = None
    make: Make = Interpreter
    cursors: list[Cursor] = field(default_factory=list)
    _next: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Execute everything; DeadlockError where no core goes on."""
        self.world.pauses = self.seed is not None
        self._next = [0] * len(self.sequences)
        turns = _Turns(self.seed) if self.seed is not None else None
        while True:
            self._start()
            if not self.cursors:
                self.machine.enter("")
                return
            ready = [c for c in self.cursors if c.ready(self.world)]
            if not ready:
                self._together()
            for cursor in [turns.next(ready)] if ready and turns is not None else ready:
                before = self.world.changes
                self._advance(cursor)
                if turns is not None:
                    turns.after(cursor, changed=self.world.changes != before)

    def _start(self) -> None:
        """Start the next kernel of every rank that has none, and let ranks go on that have met."""
        while True:
            busy = {c.rank for c in self.cursors}
            idle = [r for r in range(len(self.sequences)) if r not in busy]
            todo = {r: self.sequences[r][self._next[r] :] for r in idle}
            for rank in (r for r in idle if todo[r] and todo[r][0] is not None):
                self._launch(rank, todo[rank][0])
                self._next[rank] += 1
            waiting = [r for r in idle if todo[r] and todo[r][0] is None]
            if len(waiting) < len(self.sequences):
                return
            self._next = [n + 1 for n in self._next]
            self.world.watch.met()

    def _launch(self, rank: int, launch: RankLaunch | None) -> None:
        assert launch is not None
        program, function, memory = launch.program, launch.function, self.world.memory()
        cores = cores_of(program, function)
        kind = kind_of(function)
        active = [c for c in cores if kind is None or c.kind in (None, kind)]
        meetings = Meetings(tuple((n, c.name) for n in range(launch.grid) for c in active))
        for number in range(launch.grid):
            block = Block(
                number, launch.grid, cores, 0, memory, rank=rank, world=self.world, meetings=meetings
            )
            for core in active:
                interpreter = self.make(program, self.machine, core, block)
                steps = _core(interpreter, function, numbered(interpreter, function, launch.operands))
                self.cursors.append(Cursor(rank, block, core, steps, self._next[rank]))

    def _advance(self, cursor: Cursor) -> None:
        """Give a core its turn."""
        self.machine.enter(cursor.memory)
        before = cursor.stamp(self.world)
        try:
            cursor.waiting = next(cursor.steps)
            cursor.seen = cursor.stamp(self.world)
            # By a seed a core lets others go on between two looks, too: that is no change.
            cursor.polls = cursor.polls + isinstance(cursor.waiting, Polled) if before == cursor.seen else 0
        except StopIteration:
            self.cursors.remove(cursor)
            cursor.block.changes += 1
            self.world.changes += 1
            if all(c.rank != cursor.rank for c in self.cursors):
                self.world.watch.ended(cursor.rank)

    def _together(self) -> None:
        """Enter the regions that all cores of a block have come to; DeadlockError where there are none."""
        for block in dict.fromkeys(c.block for c in self.cursors):
            own = {c.core: c.waiting for c in self.cursors if c.block is block and c.waiting is not None}
            if all(isinstance(w, together.Meeting) for w in own.values()):
                together.go_on(self.machine, block, own)
                return
        raise DeadlockError(list(self._stuck()), len({c.rank for c in self.cursors}), self.world.count)

    def _stuck(self) -> Iterator[Diagnostic]:
        """What each core waits for."""
        for cursor in self.cursors:
            waiting = cursor.waiting
            assert waiting is not None
            what = f"waits for {waiting.what}"
            if isinstance(waiting, Blocked):
                does = "only looks at" if isinstance(waiting, Polled) else "waits for"
                what = f"{does} {waiting.what}, which is {waiting.found}"
            yield waiting.op.error("deadlock", f"{cursor.name} {what}")
        for rank, sequence in enumerate(self.sequences):
            at = self._next[rank]
            if at < len(sequence) and all(c.rank != rank for c in self.cursors):
                yield Diagnostic("error", f"rank {rank} waits at a host barrier", None, None, rule="deadlock")


def _core(interpreter: Interpreter, function: Function, operands: Sequence[Operand]) -> Steps[None]:
    """The steps of a core; copies that nobody has waited for end with it."""
    yield from interpreter.function(function, operands, Scope())
    finish_copies(interpreter)
    interpreter.machine.leave()


# -- launch ------------------------------------------------------------------------------------------


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
        what = f"the tile argument {tile}" if tile is not None else "a fragment"
        message = f"got {what} on {grid} blocks; allowed: a function of buffers and scalars, or one block"
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
            arguments = numbered(interpreter, function, operands)
            running[core] = interpreter.function(function, arguments, Scope())
    side_by_side(machine, block, running)


def numbered(
    interpreter: Interpreter, function: Function, operands: Sequence[Operand]
) -> tuple[Operand, ...]:
    """The operands with the numbers of the block and the core, for arguments that are those numbers.

    One block of one rank may be given the numbers of another one.
    """
    numbers = {name: number for name, number in _numbers(interpreter).items() if number is not None}
    launch_operands = []
    for argument, operand in zip(function.args, operands, strict=True):
        number = numbers.get(argument.name)
        is_explicit = (
            operand is not None and interpreter.shared.count == 1 and interpreter.shared.world is None
        )
        if number is None or is_explicit:
            launch_operands.append(operand)
        elif isinstance(number, int) or not isinstance(argument.type, ScalarType):
            launch_operands.append(number)
        else:
            launch_operands.append(
                interpreter.scalar("arith.index_cast", (number,), INDEX, argument.type.dtype)
            )
    return tuple(launch_operands)


def _numbers(interpreter: Interpreter) -> dict[str, Scalar]:
    shared = interpreter.shared
    return dict(zip(BLOCK_NUMBERS, (shared.number, shared.count, interpreter.core.subblock), strict=True))
