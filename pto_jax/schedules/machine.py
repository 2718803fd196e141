"""A machine that executes a program in another legal order of its pipes than that of its text.

Instructions wait in one queue for each pipe of a core. They execute where something needs them: an
operation that the text orders after them, the scalar unit, another core, or the end. Which pipe goes first
where several may is the schedule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import interpreter, ir
from ..interpreter import Operand, Scalar
from ..interpreter.operands import LocalPointer, Pointer, Register
from ..ir import Op, ScalarType
from ..isa import effects, find_micro
from ..isa.micro import Access, MicroCall, MicroOperation, opens_scope
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from ..order.clocks import PIPES, Clock, Clocks
from ..order.judged import Judged
from ..order.scopes import VectorScope
from ..order.signals import Signals

# -- vector scopes in another order ------------------------------------------------------------------


#: Executes an operation with its operands: its results.
Run = Callable[[], Sequence[Operand]]


@dataclass(eq=False)
class Step:
    """An operation of a scope, what is over before it, and its results once it is executed."""

    op: Op
    run: Run
    before: int
    results: Sequence[Operand] | None = None


class Later(Register):
    """A register whose contents are there when the operation that gives it is executed."""

    def __init__(self, step: Step, place: int, after: int) -> None:
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "after", after)

    step: Step
    place: int
    after: int

    @property
    def contents(self) -> Any:
        """The words; the operation has been executed."""
        assert self.step.results is not None
        result = self.step.results[self.place]
        assert isinstance(result, Register)
        return result.contents


@dataclass
class ScheduledScope:
    """The operations of one execution of a scope that wait; ``inside`` are those of its text.

    ``reorders``: they execute in another order than that of the text.
    """

    inside: frozenset[int]
    reorders: bool = False
    order: VectorScope = field(default_factory=VectorScope)
    steps: list[Step] = field(default_factory=list)
    #: The last operation that uses a special register, and what is over before it.
    _special: int = 0
    #: The same of the last access of the scalar unit.
    _scalar: int = 0
    #: Told of every step that has been executed.
    done: Callable[[Step], object] = bool

    def put(
        self, op: Op, declared: MicroOperation, operands: Mapping[str, Operand], run: Run
    ) -> tuple[Operand, ...]:
        """An operation waits; its results come later, numbers at once."""
        after = 0
        for operand in operands.values():
            after |= operand.after if isinstance(operand, Later) else 0
        special = _is_special(declared)
        number, before = self.order.accept(_access(declared), after | (self._special if special else 0))
        step = Step(op, run, before)
        self.steps.append(step)
        behind = before | 1 << number
        self._special = behind if special else self._special
        if any(isinstance(v.type, ScalarType) for v in op.results):
            self._execute(behind)
            assert step.results is not None
            return tuple(step.results)
        count = len(op.results) - declared.updated(op)
        return tuple(Later(step, place, behind) for place in range(count))

    def scalar(self, op: Op, access: Literal["read", "write"], run: Callable[[], object]) -> None:
        """The scalar unit reads on-chip memory at once; what it writes waits, in the order of the text."""

        def execute() -> tuple[Operand, ...]:
            run()
            return ()

        number, before = self.order.accept(("scalar", access), self._scalar)
        self.steps.append(Step(op, execute, before))
        self._scalar = before | 1 << number
        if access == "read":
            self._execute(self._scalar if self.reorders else (1 << len(self.steps)) - 1)

    def flush(self, seed: int, ahead: int) -> None:
        """Execute what waits: in the order of the text, by chance, or one operation ``ahead``."""
        numbers = list(range(len(self.steps)))
        if self.reorders and ahead:
            numbers.sort(key=lambda n: (id(self.steps[n].op) != ahead, -n))
        elif self.reorders:
            Random(seed).shuffle(numbers)
        for number in numbers:
            self._execute(self.steps[number].before | 1 << number)

    def _execute(self, numbers: int) -> None:
        for number in _bits(numbers):
            step = self.steps[number]
            if step.results is None:
                step.results = step.run()
                self.done(step)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _access(declared: MicroOperation) -> Access | None:
    """What an operation does to memory, as barriers of the scope name it."""
    if not declared.places:
        return None
    return "vector", "write" if any(p.access == "write" for p in declared.places) else "read"


def _is_special(declared: MicroOperation) -> bool:
    """Whether an operation uses a special register, as unaligned stores do."""
    words = declared.types.replace("->", " ").split()
    return bool(declared.squeezes) or "spr" in declared.choices or "as" in words


# -- pipes in another order --------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """An order of the pipes of every core: those of ``late`` go last, the others by chance.

    ``backwards``: the others go the other way round. ``scopes``: the accesses of vector scopes are out of
    order, too, the operation with the identity ``ahead`` before all that need not come before it. That may be
    a store before the operation ``loading`` of the scalar unit, whose value is needed at once: then
    ``foreseen`` has the numbers of its loads with what they find behind the store.
    """

    late: tuple[ir.Pipe, ...] = ()
    seed: int = 0
    backwards: bool = False
    scopes: bool = False
    ahead: int = 0
    loading: int = 0
    foreseen: tuple[tuple[int, Any], ...] = ()

    def __str__(self) -> str:
        if self.scopes or self.ahead:
            how = "the second one first" if self.ahead else f"an order by chance, seed {self.seed}"
            return f"accesses of vector scopes out of order ({how})"
        names = ", ".join(f"PIPE_{pipe.name}" for pipe in self.late)
        return f"{names} as late as legal" if names else f"pipes in an order by chance, seed {self.seed}"

    def ranks(self) -> dict[ir.Pipe, int]:
        """The rank of every pipe: the lowest one goes first."""
        order = [pipe for pipe in PIPES if pipe not in self.late]
        Random(self.seed).shuffle(order)
        order = order[::-1] if self.backwards else order
        return {pipe: i for i, pipe in enumerate((*order, *self.late))}


class _Waiting(NamedTuple):
    clock: Clock
    epoch: int
    run: Callable[[], object]


@dataclass(eq=False)
class Queues:
    """What the pipes of all cores still have to execute, and how far each of them has come."""

    clocks: Clocks
    ranks: Mapping[ir.Pipe, int]
    waiting: dict[int, deque[_Waiting]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    _rank: dict[int, int] = field(default_factory=dict)

    def put(self, core: str, pipe: ir.Pipe, run: Callable[[], object]) -> None:
        """An instruction that executes once all is complete that the text orders before it."""
        agent = self.clocks.agent(core, pipe)
        self._rank[agent] = self.ranks[pipe]
        epoch, clock = self.clocks.issue(core, pipe), self.clocks.before(core, pipe)
        self.waiting.setdefault(agent, deque()).append(_Waiting(clock, epoch, run))

    def pass_by(self, core: str, pipe: ir.Pipe) -> None:
        """An instruction that executes now, behind all others of its pipe."""
        self.done[self.clocks.agent(core, pipe)] = self.clocks.issue(core, pipe)

    def settle(self, clock: Clock) -> None:
        """Execute what is complete by a clock, each time of the pipe that goes first."""
        while True:
            late = [a for a, n in enumerate(clock) if self.waiting.get(a) and self.done.get(a, 0) < n]
            if not late:
                return
            self._execute(min(late, key=lambda a: self._rank[a]))

    def flush(self) -> None:
        """Execute everything, each time the first instruction of the pipe that goes first."""
        while True:
            ready = [a for a, queue in self.waiting.items() if queue and self._is_ready(queue[0])]
            if not ready:
                return
            self._execute(min(ready, key=lambda a: self._rank[a]))

    def _is_ready(self, head: _Waiting) -> bool:
        return all(self.done.get(a, 0) >= n or not self.waiting.get(a) for a, n in enumerate(head.clock))

    def _execute(self, agent: int) -> None:
        """Execute the first instruction of a pipe, and before it what the text orders before it."""
        head = self.waiting[agent].popleft()
        own = list(head.clock)
        if agent < len(own):
            own[agent] = 0
        self.settle(own)
        head.run()
        self.done[agent] = head.epoch


class ScheduledMachine(ReferenceMachine):
    """Executes instructions in the order of a schedule."""

    def __init__(
        self, judged: Judged, schedule: Schedule, policy: Policy, buffers: Mapping[str, Any], max_steps: int
    ) -> None:
        super().__init__(policy, buffers, max_steps)
        self.clocks = Clocks()
        self.judged = judged
        self.signals = Signals(self.clocks, judged)
        self.queues = Queues(self.clocks, schedule.ranks())
        self.schedule = schedule
        self.scope: ScheduledScope | None = None
        self._executes = False
        #: What loads of scopes find behind the store that goes ahead, by their numbers.
        self.foreseen: dict[int, Any] = {}
        self._loads = 0
        self._behind: list[tuple[int, int, Callable[[], Scalar]]] = []

    def core_of(self, op: ir.Op) -> str:
        """The core that executes an operation."""
        kind = self.judged.cores.get(id(op))
        return self._core or (kind.name.lower() if kind is not None else "")

    def begin(self, op: ir.Op, scope: interpreter.Scope) -> None:
        """Follow what orders pipes; where cores meet everything executes."""
        order, core = effects.traits_of(op).order, self.core_of(op)
        self._turn_to(op, core)
        if order is not None and order.through in ("pipe", "flag", "event", "token"):
            self.signals.order(None, op, scope, core)
            self.queues.settle(self.clocks.before(core, ir.Pipe.S))
        elif order is not None or effects.traits_of(op).fifo is not None:
            self.queues.flush()
        elif not op.regions and effects.pipe_of(op) == ir.Pipe.S and effects.traits_of(op).effects:
            self.queues.settle(self.clocks.before(core, ir.Pipe.S))

    def _turn_to(self, op: ir.Op, core: str) -> None:
        """A vector scope begins or ends with an operation; a barrier inside orders its accesses."""
        opens = bool(op.regions) and opens_scope(op)
        if self.scope is not None and (opens or id(op) not in self.scope.inside):
            self._leave(core)
        if opens:
            inside = frozenset(id(inner) for inner in op.walk())
            self.scope = ScheduledScope(inside, self.schedule.scopes, done=self._look_back)
            self._behind = []
        operation = find_micro(op.name) if self.scope is not None else None
        if self.scope is not None and operation is not None and operation.orders:
            kinds = operation.orders.get(str(next(iter(op.attrs.values()), "")))
            self.scope.order.barrier(*kinds or (frozenset(), frozenset()))

    def _leave(self, core: str) -> None:
        """The operations of a scope wait for the vector pipe."""
        scope, self.scope = self.scope, None
        schedule = self.schedule
        if scope is not None:
            run = partial(scope.flush, 2 * schedule.seed + schedule.backwards, schedule.ahead)
            self.queues.put(core, ir.Pipe.V, run)

    def finish(self) -> None:
        """Execute what is left."""
        self._leave(self._core)
        self.queues.flush()

    def micro(self, op: ir.Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Queue a micro-operation; outside of a scope one that gives a register executes at once."""
        operation, core = find_micro(op.name), self.core_of(op)

        def run() -> tuple[Operand, ...]:
            return super(ScheduledMachine, self).micro(op, call, operands)

        if operation is None or (operation.kind == "register" and self.scope is None):
            return run()
        if self.scope is not None and operation.pipe == ir.Pipe.V:
            return self.scope.put(op, operation, operands, run)
        if operation.pipe == ir.Pipe.S or len(op.results) > operation.updated(op):
            self.queues.settle(self.clocks.complete(core, operation.pipe))
            self.queues.pass_by(core, operation.pipe)
            return run()
        self.queues.put(core, operation.pipe, run)
        return ()

    def load(self, op: ir.Op, pointer: Pointer | LocalPointer, dtype: ir.DType) -> Scalar:
        """The element that a pointer is at; in a scope behind what the scope orders before it."""
        if self.scope is None or not isinstance(pointer, LocalPointer):
            return super().load(op, pointer, dtype)
        # The scope begins behind everything that the vector pipe has done before.
        self.queues.settle(self.clocks.complete(self.core_of(op), ir.Pipe.V))
        self.scope.scalar(op, "read", lambda: None)
        value = super().load(op, pointer, dtype)
        if id(op) != self.schedule.loading:
            return value
        number, own = self._loads, len(self.scope.steps) - 1
        self._loads += 1
        self._behind.append((number, own, partial(super().load, op, pointer, dtype)))
        return dict(self.schedule.foreseen).get(number, value)

    def _look_back(self, step: Step) -> None:
        """Note what loads find behind the store that goes ahead, where nothing orders it after them."""
        if id(step.op) == self.schedule.ahead:
            for number, own, load in self._behind:
                if not step.before >> own & 1:
                    self.foreseen.setdefault(number, load())

    def store(self, op: ir.Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar; in a scope behind what the scope orders before it."""
        if self.scope is None or not isinstance(pointer, LocalPointer):
            super().store(op, pointer, value)
        else:
            self.scope.scalar(op, "write", lambda: super(ScheduledMachine, self).store(op, pointer, value))

    def execute(self, execution: interpreter.Execution) -> dict[str, Any]:
        """Queue an instruction; one that gives a vector executes at once."""
        if self._executes:
            return super().execute(execution)
        core, pipes = self.core_of(execution.op), self.pipes_of(execution.op)
        if execution.vectors or len(pipes) > 1 or pipes == [ir.Pipe.S]:
            # All that its steps come after is over, and it goes first where nothing says otherwise.
            for pipe in pipes:
                self.queues.settle(self.clocks.complete(core, pipe))
                self.queues.pass_by(core, pipe)
            return self._run(execution)
        self.queues.put(core, pipes[0], lambda: self._run(execution))
        return {}

    def pipes_of(self, op: ir.Op) -> list[ir.Pipe]:
        """The pipes of the steps of an instruction."""
        profile = self.judged.resolved.profile
        name = profile.name if profile is not None else "a2a3"
        phases = effects.phases_of(op, effects.operands_of(op), op.attrs, name)
        return list(dict.fromkeys(phase.pipe for phase in phases)) or [effects.pipe_of(op)]

    def _run(self, execution: interpreter.Execution) -> dict[str, Any]:
        before, self._executes = self._executes, True
        try:
            return super().execute(execution)
        finally:
            self._executes = before

    def contents(self, ref: interpreter.TileRef) -> Any:
        """The contents of a tile for another core."""
        if not self._executes:
            self.queues.flush()
        return super().contents(ref)


def bits(outputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs as raw bytes of every element."""
    return {
        name: np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(np.size(array), -1)
        for name, array in outputs.items()
        if isinstance(array, np.ndarray)
    }
