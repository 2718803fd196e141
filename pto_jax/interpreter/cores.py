"""Blocks and cores: the cores that a program runs on, and their shared state.

A block has one core, unless its parts have to meet in pipes, flags or by subblock numbers: then it has a
cube core and one or two vector cores.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..analysis.provenance import called
from ..ir import Function, KernelKind, Loc, Op, Program, WaitCmp
from ..isa import find
from ..isa.effects import traits_of
from ..profiles import ProfileName
from .operands import LocalPointer, Pointer, Scalar
from .ranks import Meetings, World

Kind = Literal["cube", "vector"]
_CORE = re.compile(r"\b(?:cube|vector\d+)\b")
_KINDS: dict[KernelKind, Kind] = {KernelKind.CUBE: "cube", KernelKind.VECTOR: "vector"}


@dataclass(frozen=True)
class Core:
    """A core of a block; ``kind`` is None where one core runs everything."""

    kind: Kind | None = None
    subblock: int = 0

    @property
    def name(self) -> str:
        """What errors and memories call the core; empty where one core runs everything."""
        return (
            "" if self.kind is None else f"{self.kind}{self.subblock}" if self.kind == "vector" else self.kind
        )


@dataclass(frozen=True)
class Entry:
    """The contents of a tile in a pipe, and how many of its rows and columns are pushed.

    ``sizes`` are the valid ones, and the physical ones where only execution knows those. ``valid`` is what
    only execution knows, of a vector core's half: how many of the rows or columns that are split.
    """

    contents: Any
    sizes: tuple[int, int]
    valid: Scalar | None = None


@dataclass(eq=False)
class Block:
    """One block of a launch: its cores, and what they share besides global memory.

    ``flags`` are set between cores, and ``tokens`` those of pairs of pipes that are there.
    ``memory`` names the buffers of global memory in the order of the arguments that point to them. ``turns``
    says, for each direction of a pipe with slots in global memory, how many slots have been used in regions
    whose course only execution knows, beside those that ``counts`` has.
    """

    number: Scalar = 0
    count: int = 1
    cores: tuple[Core, ...] = (Core(),)
    depth: int = 0
    memory: tuple[str, ...] = ()
    queues: dict[tuple[Any, ...], deque[Any]] = field(default_factory=dict)
    flags: dict[tuple[Any, ...], int] = field(default_factory=dict)
    tokens: set[tuple[Any, ...]] = field(default_factory=set)
    counts: dict[tuple[Any, ...], int] = field(default_factory=dict)
    turns: dict[tuple[Any, ...], Scalar] = field(default_factory=dict)
    changes: int = 0
    #: Operations that stand for those of several cores, by identity; with those, which keeps them alive.
    joined: dict[tuple[Any, ...], tuple[Op, list[Op]]] = field(default_factory=dict)
    #: The processor of the block, all processors, and where its blocks meet; None where there is one.
    rank: int = 0
    world: World | None = None
    meetings: Meetings | None = None
    #: The sessions of asynchronous copies of its cores.
    sessions: list[Any] = field(default_factory=list)

    @property
    def subblocks(self) -> int:
        """How many vector cores the block counts; one core that runs everything is one."""
        return max(1, sum(core.kind == "vector" for core in self.cores))

    @property
    def late(self) -> bool:
        """Whether asynchronous copies move their data where they are waited for."""
        return self.world is not None and self.world.late

    def notified(self, op: Op, place: Pointer, value: Scalar, *, adds: bool) -> None:
        """Called before a signal changes."""
        if self.world is not None:
            self.world.watch.notified(self.rank, op, place, value, adds=adds)

    def waited(self, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar) -> None:
        """Called where a wait for a signal ends."""
        if self.world is not None:
            self.world.watch.waited(self.rank, op, places, compared, value)

    def tested(
        self, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar, *, answer: bool
    ) -> None:
        """Called where a look at a signal has its answer."""
        if self.world is not None:
            self.world.watch.tested(self.rank, op, places, compared, value, answer=answer)

    def has(self, kind: Kind) -> bool:
        """Whether one of the block's cores is of a kind."""
        return any(core.kind == kind for core in self.cores)


def memory_core(core: str, pointer: LocalPointer) -> str:
    """The core whose memory a pointer is into, by the name of the core that executes.

    Vector cores have a unified buffer each, the cube core has the other memories of a block.

    >>> from pto_jax.ir import F32, AddressSpace
    >>> memory_core("cube", LocalPointer(F32, AddressSpace.VEC, subblock=1))
    'vector1'
    >>> memory_core("vector1", LocalPointer(F32, AddressSpace.MAT))
    'cube'
    """
    own = _CORE.search(core)
    if own is None:
        return core
    if pointer.space.name != Loc.VEC.name:
        name = "cube"
    elif pointer.subblock is not None:
        name = f"vector{pointer.subblock}"
    else:
        name = own.group() if own.group() != "cube" else "vector0"
    return core[: own.start()] + name + core[own.end() :]


def cores_of(program: Program, function: Function) -> tuple[Core, ...]:
    """The cores a function runs on."""
    ops = list(_reachable(program, function))
    kinds = {k for k in map(section_kind, ops) if k is not None}
    kinds |= {k for k in (kind_of(function), *(kind_of(f) for f in _callees(program, ops))) if k is not None}
    meets = any(map(_uses_fifo, ops)) or (any(map(_uses_flag, ops)) and len(kinds) == 2)
    asks = any(traits_of(op).launch in ("subblock", "subblocks") for op in ops)
    if not meets and not asks:
        return (Core(),)
    # A module of vector kernels is launched on one vector core each; cores in pairs belong to a cube core.
    alone = program.setting("pto.kernel_kind") == KernelKind.VECTOR and "cube" not in kinds
    halves = (asks and not alone) or any(op.attrs.get("split") for op in ops if _uses_fifo(op))
    cores = [Core("cube")] if "cube" in kinds else []
    if "vector" in kinds or not kinds:
        cores += [Core("vector", s) for s in range(2 if halves else 1)]
    return tuple(cores)


#: Numbers of flags of a block from here on are those of the second vector core.
SECOND = 16


def are_paired(program: Program, profile: ProfileName | None) -> bool:
    """Whether numbers of flags of a block say which vector core is meant."""
    if profile in ("a2a3", "a5"):
        return profile == "a5"
    numbers = (op.attrs.get("event") for op in program.walk() if (o := traits_of(op).order) and o.apart)
    return any(isinstance(n, int) and n >= SECOND for n in numbers)


def _uses_fifo(op: Op) -> bool:
    """Whether cores meet because one gives the other a tile."""
    return traits_of(op).fifo in ("push", "pop")


def _uses_flag(op: Op) -> bool:
    """Whether cores meet because one of them waits for the other."""
    order = traits_of(op).order
    return order is not None and order.through == "core"


def section_kind(op: Op) -> Kind | None:
    """The core that executes a section; None for other operations."""
    traits = traits_of(op)
    return None if traits.regions is None or traits.core is None else _KINDS[traits.core]


def _reachable(program: Program, *functions: Function) -> Iterator[Op]:
    """The operations of functions and of those that they call, once each."""
    reached = {f.name: f for f in functions}
    pending = list(reached.values())
    while pending:
        for op in pending.pop().walk():
            yield op
            for callee in _callees(program, (op,)):
                if callee.name not in reached:
                    reached[callee.name] = callee
                    pending.append(callee)


def _callees(program: Program, ops: Sequence[Op]) -> Iterator[Function]:
    for op in ops:
        callee = called(program, op)
        if callee is not None:
            yield callee


def kind_of(function: Function) -> Kind | None:
    """The core a function is written for."""
    kind = function.attrs.get("pto.kernel_kind")
    return _KINDS[kind] if isinstance(kind, KernelKind) else None


def meet_inside(program: Program, op: Op) -> bool:
    """Whether cores meet inside an operation, or inside a function it calls."""
    bodies = list(op.walk())
    inner = _reachable(program, *_callees(program, bodies))
    return any(_uses_fifo(o) or _uses_flag(o) for o in (*bodies, *inner))


def communicates(program: Program, op: Op) -> bool:
    """Whether an operation, or a function that it calls, waits for another processor or block."""
    bodies = list(op.walk())
    inner = _reachable(program, *_callees(program, bodies))
    return any(_waits(o) for o in (*bodies, *inner))


def _waits(op: Op) -> bool:
    order, instruction = traits_of(op).order, find(op.name)
    communicates = instruction is not None and instruction.cls == "communication"
    return communicates or (order is not None and order.through == "cores")
