"""One course of a program: its operations in order on all cores of a block, with what they use and wait for.

Long loops are followed in their first and last trips; trips in between repeat them, as far as flags by trip
number and tiles in turns go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ..errors import ExecutionError, PtoError
from ..interpreter import Interpreter, Operand, Pointer, Scope, Steps, TileRef, View, chosen, with_storage
from ..interpreter.cores import Block, Core, cores_of as cores_of_block, kind_of
from ..interpreter.interpreter import complete
from ..interpreter.together import side_by_side
from ..ir import Function, Op, Pipe, Region as Body
from ..isa import effects, find_micro
from ..isa.declare import Phase
from .clocks import Clocks, Use
from .judged import Judged
from .machine import OrderMachine
from .numbers import Assumed, Course, Doubt, Guesses
from .regions import Region, tile_region, view_region
from .signals import Signals, Turn

#: Operations after which a course is given up, and trips of which all are followed where a body is short.
LIMIT, SHORT = 40_000, 600


class TooLongError(Exception):
    """A course has more operations than are followed."""


class Walk(Interpreter):
    """Executes the operations of one core and tells clocks and signals about them."""

    def __init__(self, course: CourseRun, core: Core, shared: Block) -> None:
        super().__init__(course.judged.resolved.program, course.machine, core, shared)
        self.course = course
        #: How many more operations the loops around execute one of their body for.
        self.around = 1

    def step(self, op: Op, scope: Scope) -> Steps[None]:
        """Execute one operation."""
        course = self.course
        course.count()
        course.core = self.core_of(op)
        traits = effects.traits_of(op)
        runs = traits.regions.runs if traits.regions is not None else None
        if runs in ("for", "while", "if", "switch"):
            course.signals.doubt(op, self.steers(op, scope))
        if runs == "for":
            yield from self.repeat(op, scope)
        elif runs == "while":
            yield from self.again(op, scope)
        else:
            yield from self.single(op, scope)
            if runs is None and not traits.calls:
                course.core = self.core_of(op)
                course.note(self, op, scope)

    def core_of(self, op: Op) -> str:
        """The core that executes an operation: the one that runs, or the one that the text says."""
        if self.core.name:
            return self.core.name
        kind = self.course.judged.cores.get(id(op))
        return kind.name.lower() if kind is not None else self.course.kind

    def steers(self, op: Op, scope: Scope) -> Sequence[Operand]:
        """The numbers that say how often the regions of an operation execute."""
        named = [v for name in ("lb", "ub", "step") for v in op.group(name)] or op.ins[:1]
        return [scope.find(v) for v in named]

    def single(self, op: Op, scope: Scope) -> Steps[None]:
        """An operation that is no loop; what nothing executes gives results of which nothing is known."""
        try:
            yield from super().step(op, scope)
        except PtoError:
            if op.regions or effects.traits_of(op).calls:
                raise
            for value in op.results:
                scope.bind(value, self.course.machine.unknown(value))

    # -- loops ---------------------------------------------------------------------------------------

    def repeat(self, op: Op, scope: Scope) -> Steps[None]:
        """A loop: all trips of a short one, else the first ones and the last ones."""
        machine, body = self.course.machine, op.regions[0]
        lower, upper, step = (scope[op.group(name)[0]] for name in ("lb", "ub", "step"))
        low, high, stride = (machine.known(n) or 0 for n in (lower, upper, step))
        trips = max(0, -((low - high) // stride)) if stride > 0 else 0
        passed = [tuple(scope[v] for v in op.group("inits"))]
        at, inside = 0, _length(body)
        shown = _shown(trips, self.course.judged.period, self.around * inside)
        outside, self.around = self.around, self.around * max(1, len(shown))
        for trip in shown:
            carried = _further(passed, trip - at, self.course.judged.period)
            counter = self.index("arith.addi", lower, self.index("arith.muli", trip, step))
            inner = Scope(scope)
            for value, operand in zip(body.args, (counter, *carried), strict=True):
                inner.bind(value, operand)
            passed.append((yield from self.block(body, inner)))
            at = trip + 1
        self.around = outside
        for value, operand in zip(op.results, passed[-1], strict=True):
            scope.bind(value, operand)

    def again(self, op: Op, scope: Scope) -> Steps[None]:
        """A while loop, at most a few trips of one whose condition is assumed."""
        before, after = op.regions
        carried: tuple[Operand, ...] = tuple(scope[v] for v in op.ins)
        passed: list[Operand] = []
        for trip in range(LIMIT):
            condition, *passed = yield from self.block(before, _bound(scope, before, carried))
            holds = self.course.machine.known(condition)
            if isinstance(condition, Assumed) and condition.doubt == Doubt.UNSURE:
                self.course.signals.doubt(op, [condition])
            # A condition that is assumed to hold would hold for ever.
            if not holds or (isinstance(condition, Assumed) and trip >= self.course.course.numbers[0] % 4):
                break
            carried = yield from self.block(after, _bound(scope, after, passed))
        for value, operand in zip(op.results, passed, strict=True):
            scope.bind(value, operand)


def _bound(scope: Scope, body: Body, operands: Sequence[Operand]) -> Scope:
    inner = Scope(scope)
    for value, operand in zip(body.args, operands, strict=True):
        inner.bind(value, operand)
    return inner


def _length(body: Body) -> int:
    return sum(1 + sum(map(_length, op.regions)) for op in body.ops)


def _shown(trips: int, period: int, cost: int) -> Sequence[int]:
    """The trips that are followed: all, or the first ones and as many last ones as a period has."""
    first = max(3, period)
    if trips <= first + period or trips * cost <= SHORT:
        return range(trips)
    left = (trips - first - 1) % period + 1
    return [*range(first), *range(trips - left, trips)]


def _further(passed: list[tuple[Operand, ...]], skipped: int, period: int) -> tuple[Operand, ...]:
    """What a loop carries after trips that are left out: numbers go on as they did in the last period."""
    now = passed[-1]
    if not skipped or len(passed) <= period:
        return now
    before = passed[-1 - period]
    return tuple(
        new + (new - old) * (skipped // period) if type(new) is int and type(old) is int else new
        for new, old in zip(now, before, strict=True)
    )


class CourseRun:
    """One execution of a function with its clocks and signals."""

    def __init__(self, judged: Judged, course: Course) -> None:
        self.judged, self.course = judged, course
        self.guesses = Guesses(course)
        self.machine = OrderMachine(self.guesses, judged.inputs)
        self.clocks = Clocks(judged.vector)
        self.signals = Signals(self.clocks, judged)
        self.core = self.kind = ""
        #: Whether the course has come to its end.
        self.ended = False
        self._left = LIMIT

    def run(self, function: Function) -> CourseRun:
        """Follow a function."""
        cores = cores_of_block(self.judged.resolved.program, function)
        kind = kind_of(function)
        self.kind = kind or ""
        operands = [self.machine.argument(a) for a in function.args]
        memory = tuple(dict.fromkeys(o.buffer for o in operands if isinstance(o, Pointer | View)))
        shared = Block(self.guesses.leaf(None), 1, cores, 0, memory)
        try:
            if len(cores) == 1:
                complete(Walk(self, cores[0], shared).function(function, operands, Scope()))
            else:
                running = {
                    core: Walk(self, core, shared).function(function, self.of_core(operands, core), Scope())
                    for core in cores
                    if kind is None or core.kind == kind
                }
                side_by_side(self.machine, shared, running)
            self.ended = True
        except TooLongError:
            return self
        except ExecutionError as error:
            self.ended = self.signals.stuck(error.diagnostics)
        except PtoError:
            return self
        return self

    def of_core(self, operands: Sequence[Operand], core: Core) -> list[Operand]:
        """The arguments of a core: numbers may tell the vector cores of a block apart."""
        apart = core.subblock > 0
        return [
            self.guesses.leaf(None)._replace(value=o.value) if apart and isinstance(o, Assumed) else o
            for o in operands
        ]

    def count(self) -> None:
        """One operation more; TooLongError beyond the limit."""
        self._left -= 1
        if self._left < 0:
            raise TooLongError

    # -- what operations do --------------------------------------------------------------------------

    def note(self, walk: Walk, op: Op, scope: Scope) -> None:
        """Tell clocks and signals what an operation has done."""
        traits = effects.traits_of(op)
        if traits.order is not None and traits.order.through not in ("signal", "transfer"):
            self.signals.order(self.turn(walk), op, scope, self.core)
            return
        if traits.fifo in ("push", "pop", "free", "allocate"):
            self.signals.fifo(self.turn(walk), op, scope, self.core)
        if traits.order is not None and (traits.order.role, traits.order.through) == ("signal", "signal"):
            self.announce(walk, op, scope)
            return
        before: Pipe | None = None
        for phase in self.phases(walk, op):
            if before is not None:
                self.signals.hand_over(op, self.core, before, phase)
            before = phase.pipe
            uses = list(self.uses(walk, op, scope, phase))
            if uses:
                self.clocks.execute(uses)
        if self.machine.accessed:
            self.clocks.execute(list(self.bytes_of(op)))
        if self.machine.touched:
            self.clocks.execute(list(self.elements(op)))
        for value in op.results:
            self.signals.produced[value.name] = effects.pipe_of(op)

    def bytes_of(self, op: Op) -> Iterator[Use]:
        """The bytes that a micro-operation has accessed."""
        declared, accessed = find_micro(op.name), self.machine.accessed
        self.machine.accessed = []
        if declared is None:
            return
        written, values = id(op) in self.judged.written, declared.values(op)
        for write, name, region in accessed:
            yield Use(op, self.core, declared.pipe, str(values[name]), write, region, written)

    def turn(self, walk: Walk) -> Turn:
        """What signals see of the core that executes."""
        return Turn(walk.core, walk.shared, self.region)

    def announce(self, walk: Walk, op: Op, scope: Scope) -> None:
        """A signal to other processors says that what came before is over; the rest comes after it."""
        value = walk.reading.of(op).values.get("signal")
        region = self.region(scope.find(value)) if value is not None else None
        if region is not None:
            self.clocks.announce(Use(op, self.core, Pipe.S, str(value), True, region))
        self.clocks.barrier(self.core, Pipe.ALL)

    def phases(self, walk: Walk, op: Op) -> tuple[Phase, ...]:
        """The steps of an instruction on its pipes."""
        resolved, profile = walk.reading.of(op), self.judged.resolved.profile
        attrs = resolved.bound.attrs if resolved.bound is not None else op.attrs
        return effects.phases_of(op, resolved.values, attrs, profile.name if profile is not None else "a2a3")

    def uses(self, walk: Walk, op: Op, scope: Scope, phase: Phase) -> Iterator[Use]:
        """The bytes that an operation reads and writes in a step; scratch is written."""
        resolved = walk.reading.of(op)
        executed, written = self.machine.executed, id(op) in self.judged.written
        operands = executed.operands if executed is not None and executed.op is op else {}
        indexed = {e.operand for e in effects.traits_of(op).effects if e.indexed and e.resource == "global"}
        named = ((False, name) for name in phase.reads), ((True, name) for name in phase.writes)
        for write, name in chain(*named):
            value = resolved.values.get(name)
            if value is None or name in indexed:
                continue
            operand = operands[name] if name in operands else scope.find(value)
            region = self.region(operand)
            if region is not None:
                yield Use(op, self.core, phase.pipe, str(value), write, region, written)

    def elements(self, op: Op) -> Iterator[Use]:
        """The elements of global memory that the scalar unit has read or written."""
        written = id(op) in self.judged.written
        for write, pointer in self.machine.touched:
            view = View(pointer.buffer, pointer.dtype, pointer.offset, (1,), (1,))
            region = self.region(view)
            if region is not None:
                yield Use(op, self.core, Pipe.S, f"%{pointer.buffer}", write, region, written)

    def region(self, operand: Operand) -> Region | None:
        """The bytes of a handle or view."""
        choice = chosen(operand)
        if choice is not None:
            at = self.machine.known(choice.index) or 0
            operand = with_storage(operand, choice.options[at])
        if isinstance(operand, TileRef):
            return tile_region(operand, self.machine.sizes(operand))
        if isinstance(operand, View):
            numbers = self.machine.view_numbers(operand)
            return view_region(operand, iter(numbers)) if numbers is not None else None
        return None
