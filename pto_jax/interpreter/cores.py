"""Blocks and cores: which cores a program runs on, and running them side by side.

A block has one core, unless its parts have to meet in pipes, flags or by subblock numbers: then it has a
cube core and one or two vector cores. Cores take turns and change only where one of them waits, so that
execution is deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..analysis.provenance import called
from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..ir.enums import KernelKind
from ..ir.program import Function, Op, Program
from ..ir.types import TileType
from ..isa.effects import traits_of
from .interpreter import Scope, Waiting, Walk, Walker, handles
from .machine import Machine
from .operands import Operand, Scalar

Kind = Literal["cube", "vector"]
_KINDS: dict[KernelKind, Kind] = {KernelKind.CUBE: "cube", KernelKind.VECTOR: "vector"}


@dataclass(frozen=True)
class Core:
    """A core of a block; ``kind`` is None where one core runs everything."""

    kind: Kind | None = None
    subblock: int = 0

    @property
    def name(self) -> str:
        return (
            "" if self.kind is None else f"{self.kind}{self.subblock}" if self.kind == "vector" else self.kind
        )


@dataclass
class Block:
    """One block of a launch: its cores, and what they share besides global memory."""

    number: Scalar = 0
    count: int = 1
    cores: tuple[Core, ...] = (Core(),)
    depth: int = 0
    queues: dict[tuple[Any, ...], deque[Any]] = field(default_factory=dict)
    flags: dict[tuple[Any, ...], int] = field(default_factory=dict)
    changes: int = 0

    @property
    def subblocks(self) -> int:
        return max(1, sum(core.kind == "vector" for core in self.cores))

    def has(self, kind: Kind) -> bool:
        return any(core.kind == kind for core in self.cores)


def cores_of(program: Program, function: Function) -> tuple[Core, ...]:
    """The cores a function runs on."""
    ops = list(_reachable(program, function, frozenset()))
    kinds = {k for k in map(_section_kind, ops) if k is not None}
    kinds |= {k for k in (_kind(function), *(_kind(f) for f in _callees(program, ops))) if k is not None}
    meets = any(map(_uses_fifo, ops)) or (any(map(_uses_flag, ops)) and len(kinds) == 2)
    asks = any(traits_of(op).launch in ("subblock", "subblocks") for op in ops)
    if not meets and not asks:
        return (Core(),)
    halves = asks or any(op.attrs.get("split") for op in ops if _uses_fifo(op))
    cores = [Core("cube")] if "cube" in kinds else []
    if "vector" in kinds or not kinds:
        cores += [Core("vector", s) for s in range(2 if halves else 1)]
    return tuple(cores)


def _uses_fifo(op: Op) -> bool:
    """Whether cores meet because one gives the other a tile."""
    return traits_of(op).fifo in ("push", "pop")


def _uses_flag(op: Op) -> bool:
    """Whether cores meet because one of them waits for the other."""
    order = traits_of(op).order
    return order is not None and order.through == "core"


def _section_kind(op: Op) -> Kind | None:
    """The core that executes a section; None for other operations."""
    traits = traits_of(op)
    return None if traits.regions is None or traits.core is None else _KINDS[traits.core]


def _reachable(program: Program, function: Function, active: frozenset[str]) -> Iterator[Op]:
    for op in function.walk():
        yield op
        for callee in _callees(program, (op,)):
            if callee.name not in active:
                yield from _reachable(program, callee, active | {function.name})


def _callees(program: Program, ops: Sequence[Op]) -> Iterator[Function]:
    for op in ops:
        found = called(program, op)
        if found is not None:
            yield found


def _kind(function: Function) -> Kind | None:
    """The core a function is written for."""
    kind = function.attrs.get("pto.kernel_kind")
    return _KINDS[kind] if isinstance(kind, KernelKind) else None


def meets(walker: Walker, op: Op) -> bool:
    """Whether cores meet inside an operation, so that its loops have to be written out."""
    if len(walker.shared.cores) == 1 or walker.machine.abstract:
        return False
    bodies = list(op.walk())
    inner = [o for f in _callees(walker.program, bodies) for o in _reachable(walker.program, f, frozenset())]
    return any(_uses_fifo(o) or _uses_flag(o) for o in (*bodies, *inner))


def elsewhere(walker: Walker, function: Function) -> bool:
    """Whether a function is not executed by the walker's core."""
    kind = _kind(function)
    return kind is not None and walker.core.kind not in (None, kind)


def launch(
    program: Program,
    machine: Machine,
    function: Function,
    operands: Sequence[Operand],
    scope: Scope | None = None,
    grid: int = 1,
) -> tuple[Operand, ...]:
    """Execute a function once for every block; returns what it returns where there is one block."""
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
        message = f"found {found} on {grid} blocks; allowed: a function of buffers and scalars, or one block"
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
    shared = Block(number, grid, cores, machine.depth)
    if len(cores) == 1:
        return Walker(program, machine, cores[0], shared).run(function, operands, scope)
    _side_by_side(program, machine, function, operands, shared)
    return ()


def _side_by_side(
    program: Program, machine: Machine, function: Function, operands: Sequence[Operand], block: Block
) -> None:
    walks = {
        core: Walker(program, machine, core, block).function(function, operands, Scope())
        for core in block.cores
        if (kind := _kind(function)) is None or core.kind == kind
    }
    while walks:
        before, waiting = block.changes, {}
        for core, walk in list(walks.items()):
            machine.enter(core.name)
            try:
                waiting[core] = next(walk)
            except StopIteration:
                del walks[core]
                block.changes += 1
        if waiting and block.changes == before:
            raise ExecutionError([_stuck(core, found) for core, found in waiting.items()])
    machine.enter("")


def _stuck(core: Core, found: Waiting) -> Diagnostic:
    message = f"core {core.name} waits for {found.what} for ever"
    return Diagnostic("error", message, found.op.span, found.op.name, rule="deadlock")


@handles("section.cube", "section.vector")
def _section(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    """A single core runs the sections of both kinds; the reader keeps their names apart."""
    if walker.core.kind in (None, _section_kind(op)):
        for region in op.regions:
            yield from walker.block(region, scope)


@handles("get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num")
def _number(walker: Walker, op: Op, scope: Scope) -> None:
    shared = walker.shared
    numbers = {
        "get_block_idx": shared.number,
        "get_block_num": shared.count,
        "get_subblock_idx": walker.core.subblock,
        "get_subblock_num": shared.subblocks,
    }
    for result in op.results:
        scope.bind(result, numbers[op.name])


@handles("sync.set", "sync.wait")
def _flag(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    """Flags between the cube core and the vector cores of a block; on one core the order is given.

    A flag of the cube core is seen by every vector core; the cube core waits for all vector cores.
    """
    shared, core = walker.shared, walker.core
    if walker.machine.abstract or not (shared.has("cube") and shared.has("vector")):
        return
    event = scope[op.ins[0]] if op.ins else op.attrs["event"]
    number = walker.machine.known(event)
    if number is None or walker.machine.depth != shared.depth:
        message = (
            "found a flag between cores under control flow that only execution knows; "
            "allowed: known conditions, trip counts and events"
        )
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="cores"))
    cube = core.kind == "cube"
    others = [c for c in shared.cores if (c.kind == "cube") != cube]
    if op.name == "sync.set":
        for other in others:
            key = (number, core, other)
            shared.flags[key] = shared.flags.get(key, 0) + 1
        shared.changes += 1
        return
    keys = [(number, other, core) for other in others]
    while not all(shared.flags.get(key) for key in keys):
        yield Waiting(op, f"flag {number}")
    for key in keys:
        shared.flags[key] -= 1
