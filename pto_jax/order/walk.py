"""One course of a program: its operations in order on all cores of a block, with what they use and wait for.

Long loops are followed in their first and last trips; trips in between repeat them, as far as flags by trip
number and tiles in turns go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from ..errors import ExecutionError, PtoError
from ..interpreter import (
    Interpreter,
    Operand,
    Pointer,
    Scalar,
    Scope,
    Steps,
    TileRef,
    View,
)
from ..interpreter.cores import Block, Core, cores_of as cores_of_block, kind_of
from ..interpreter.fifo import ring
from ..interpreter.interpreter import complete
from ..ir import Function, KernelKind, Op, Pipe, Region as Body, Value
from ..isa import find_micro
from ..isa.micro import opens_scope
from ..isa.rules.pipes import are_windows
from ..profiles import ProfileName
from .blocks import Meetings, Member, Running, block_of, kind_of as kind_of_core, launched, prefix
from .clocks import Clocks, Trace, Use
from .guided import Arm, arm_of
from .judged import BLOCK, BLOCKS, SUBBLOCK, Judged, OperandUse, OpFacts
from .machine import OrderMachine
from .numbers import Assumed, Course, Doubt, Guesses
from .regions import Region, tile_region, view_region
from .scopes import VectorScope
from .signals import Signals, Turn

#: Operations with regions that a number chooses or repeats.
_STEERED = ("for", "while", "if", "switch")
#: What an access does, by whether it writes.
_ACCESS: dict[bool, Literal["read", "write"]] = {False: "read", True: "write"}
#: Operations after which a course is given up.
LIMIT = 40_000
#: Operations up to which all trips of a loop are followed where cores meet in its body: trips that are left
#: out on one of them only change what meets.
MEETING = 8_000
#: Periods of a loop that are followed between its first and its last trips.
MOST_SPECIAL = 8
#: How many numbers that choose between the branches of an operation are kept.
DECISIONS = 4
#: Operations up to which they are listed, in all trips.
LISTED = 20_000


class Listed(NamedTuple):
    """An operation that is executed: on which core, and the number that its first operand is, if any."""

    op: Op
    core: str
    number: int | None


class TooLongError(Exception):
    """A course has more operations than are followed."""


class Walk(Interpreter):
    """Executes the operations of one core and tells clocks and signals about them."""

    def __init__(self, course: CourseRun, core: Core, shared: Block, named: str = "") -> None:
        super().__init__(course.judged.resolved.program, course.machine, core, shared)
        self.course = course
        #: What the names of the block's cores begin with.
        self.named = named
        #: The names of the core by the kinds of core that operations say.
        self.names: dict[str, str] = {}
        #: The kind of core that the calls around say.
        self.kind = ""
        #: How many more operations the loops around execute one of their body for.
        self.around = 1

    def step(self, op: Op, scope: Scope) -> Steps[None]:
        """Execute one operation."""
        course, facts = self.course, self.course.judged.facts(op)
        course.count()
        course.core = self.core_of(facts)
        if facts.runs is not None and facts.runs in _STEERED:
            steers = self.steers(op, scope)
            course.signals.doubt(op, steers)
            if facts.runs in ("if", "switch"):
                course.choose(op, steers[0])
        if op.regions and opens_scope(op):
            course.machine.scope = VectorScope()
            yield from self.followed(op, scope, facts)
            course.machine.scope = None
        elif facts.traits.calls:
            around, self.kind = self.kind, facts.kind or self.kind
            yield from self.followed(op, scope, facts)
            self.kind = around
        else:
            yield from self.followed(op, scope, facts)

    def followed(self, op: Op, scope: Scope, facts: OpFacts) -> Steps[None]:
        """Execute one operation by its kind."""
        course = self.course
        if facts.runs == "for":
            yield from self.repeat(op, scope)
        elif facts.runs == "while":
            yield from self.again(op, scope)
        elif course.listed is not None:
            yield from self.single(op, scope, facts)
            if not op.regions and not facts.traits.calls:
                number = scope.find(op.ins[0]) if op.ins else None
                course.listed.append(Listed(op, self.core.name, course.guesses.value(number)))
        elif facts.traits.meets_blocks:
            yield from course.meetings.pass_by(op, course.core, course.member_of(self))
        else:
            yield from self.single(op, scope, facts)
            machine = course.machine
            accessed = machine.accessed or machine.indexed
            touched = facts.uses or machine.touched or accessed or machine.scalars
            if facts.runs is None and not facts.traits.calls and touched:
                course.core = self.core_of(facts)
                course.note(self, op, scope, facts)

    def core_of(self, facts: OpFacts) -> str:
        """The core that executes an operation: the one that runs, or the one that the text says."""
        kind = facts.kind or self.kind
        name = self.names.get(kind)
        if name is None:
            name = self.names[kind] = (self.named + (self.core.name or kind or self.course.kind)).strip()
        return name

    def steers(self, op: Op, scope: Scope) -> Sequence[Operand]:
        """The numbers that say how often the regions of an operation execute."""
        bounds = [v for name in ("lb", "ub", "step") for v in op.group(name)] or op.ins[:1]
        return [scope.find(v) for v in bounds]

    def single(self, op: Op, scope: Scope, facts: OpFacts) -> Steps[None]:
        """An operation that is no loop; what nothing executes gives results of which nothing is known."""
        if facts.traits.fifo == "pop":
            through = ring(op, scope)
            key = through.to_cube if self.core.kind == "cube" else through.to_vector
            self.course.machine.popping = key, through.local
        order = facts.traits.order
        if order is not None and (order.role, order.through) == ("wait", "signal"):
            # Another processor signals: this one looks once and goes on.
            next(super().step(op, scope), None)
            return
        try:
            if facts.fits:
                yield from super().step(op, scope)
                return
        except PtoError:
            if op.regions or facts.traits.calls:
                raise
        for value in op.results:
            scope.bind(value, self.course.machine.unknown(value))

    # -- loops ---------------------------------------------------------------------------------------

    def repeat(self, op: Op, scope: Scope) -> Steps[None]:
        """A loop: all trips of a short one, else the first ones and the last ones."""
        body = op.regions[0]
        lower, upper, step = (scope[op.group(name)[0]] for name in ("lb", "ub", "step"))
        trips = self.course.guesses.trips(lower, upper, step)
        passed = [tuple(scope[v] for v in op.group("inits"))]
        at, inside, period = 0, max(1, _length(body)), self.course.judged.period(op)
        if trips > 1 or not any(isinstance(n, Assumed) for n in (lower, upper, step)):
            self.course.repeated.add(id(op))
        shown: Sequence[int] = range(trips)
        if not self.course.all_trips:
            special, meets = self.special(op, lower, step), self.meets(op)
            room = MEETING if meets else self.course.judged.room
            shown = _shown(trips, period, room // (self.around * inside), special)
            if meets and len(shown) < trips:
                self.course.shortened.setdefault(self.named + self.core.name, []).append(trips)
        outside, self.around = self.around, self.around * max(1, len(shown))
        for trip in shown:
            carried = _further(passed, trip - at, period, self.course.judged.steady(op))
            counter = self.index("arith.addi", lower, self.index("arith.muli", trip, step))
            inner = Scope(scope)
            for value, operand in zip(body.args, (counter, *carried), strict=True):
                inner.bind(value, operand)
            passed.append((yield from self.block(body, inner)))
            at = trip + 1
        self.around = outside
        for value, operand in zip(op.results, passed[-1], strict=True):
            scope.bind(value, operand)

    def meets(self, op: Op) -> bool:
        """Whether cores meet inside a loop."""
        return len(self.shared.cores) > 1 and self.course.judged.meets(op)

    def special(self, op: Op, lower: Operand, step: Operand) -> list[int]:
        """The trips of a loop around which something in it changes, as the text says."""
        first, width = (n.value if isinstance(n, Assumed) else n for n in (lower, step))
        counters = self.course.judged.special(op)
        if not (counters and isinstance(first, int) and isinstance(width, int) and width > 0):
            return []
        return [(n - first) // width for n in counters]

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
            if not holds or (isinstance(condition, Assumed) and trip >= self.course.guesses.most):
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


def _shown(trips: int, period: int, most: int, special: Sequence[int] = ()) -> Sequence[int]:
    """The trips that are followed: all of ``most``, or the first ones and as many last ones as a period has.

    Periods with ``special`` trips are followed, too.
    """
    first = max(3, period)
    if trips <= max(first + period, most):
        return range(trips)
    left = (trips - first - 1) % period + 1
    between = {(n - first) // period for n in special if first <= n < trips - left}
    starts = [first + number * period for number in sorted(between)[:MOST_SPECIAL]]
    return [*range(first), *(n for at in starts for n in range(at, at + period)), *range(trips - left, trips)]


def _further(
    passed: list[tuple[Operand, ...]], skipped: int, period: int, steady: Sequence[bool]
) -> tuple[Operand, ...]:
    """What a loop carries after trips that are left out: steady numbers go on as in the last period."""
    now = passed[-1]
    if not skipped or len(passed) <= period:
        return now
    before = passed[-1 - period]
    return tuple(
        new + (new - old) * (skipped // period) if adds and type(new) is int and type(old) is int else new
        for new, old, adds in zip(now, before, steady, strict=True)
    )


class CourseRun:
    """One execution of a function with its clocks and signals."""

    def __init__(
        self,
        judged: Judged,
        course: Course,
        trace: Trace | None = None,
        listed: list[Listed] | None = None,
    ) -> None:
        self.judged, self.course = judged, course
        #: The operations that are executed, where these are wanted and nothing else is.
        self.listed = listed
        #: Whether it follows all trips of loops.
        self.all_trips = listed is not None
        self.guesses = Guesses(course)
        self.machine = OrderMachine(self.guesses, judged.inputs, judged.profile_name)
        self.clocks = Clocks(judged.vector, trace)
        self.signals = Signals(self.clocks, judged)
        self.meetings = Meetings(self.clocks)
        self.core = self.kind = ""
        profile = judged.resolved.profile
        self.profile: ProfileName = profile.name if profile is not None else "a2a3"
        #: Slots that popped tiles are windows into, by core, from the first one that is not freed.
        self.windows: dict[str, deque[Use | None]] = {}
        #: The bytes of handles by their storage, type and valid sizes.
        self._tiles: dict[object, tuple[TileRef, Region | None]] = {}
        #: How many numbers are those of arguments, and which those of each.
        self.arguments = 0
        self.positions: dict[str, int] = {}
        #: The loops of which it has followed a second trip, or whose trips the text says.
        self.repeated: set[int] = set()
        #: How many trips loops have in which cores meet and not all trips are followed, by core.
        self.shortened: dict[str, list[int]] = {}
        #: The branches that it has taken.
        self.taken: set[Arm] = set()
        #: The assumed numbers that have chosen branches, the first ones of each operation.
        self.decisions: dict[int, list[Assumed]] = {}
        #: Whether the course has come to its end.
        self.ended = False
        self.left = LIMIT if listed is None else LISTED
        #: Whether it has come to that limit.
        self.cut = False

    def run(self, function: Function, numbers: Sequence[int] = (), count: int = 1) -> CourseRun:
        """Follow a function: one block, or those with some ``numbers`` of a launch of ``count``."""
        cores = cores_of_block(self.judged.resolved.program, function)
        kind = kind_of(function)
        self.kind = kind or ""
        operands = [self.argument(a) for a in function.args]
        self.arguments = self.guesses.leaves
        memory = tuple(dict.fromkeys(o.buffer for o in operands if isinstance(o, Pointer | View)))
        blocks: dict[int | None, tuple[Block, Running]] = {}
        for number in numbers or (None,):
            own: Scalar = self.guesses.leaf(None) if number is None else number
            shared = Block(own, count, cores, 0, memory)
            running = {}
            for core in cores:
                if len(cores) == 1 or kind is None or core.kind == kind:
                    walk = Walk(self, core, shared, prefix(number))
                    values = self.of_core(function, operands, core, number, count)
                    running[core] = walk.function(function, values, Scope())
                    self.member(prefix(number), core.name)
            blocks[number] = shared, running
        try:
            if len(cores) == 1 and not numbers:
                complete(next(iter(blocks[None][1].values())))
            else:
                launched(self.machine, self.meetings, blocks)
            self.ended = True
        except TooLongError:
            self.cut = True
        except ExecutionError as error:
            self.ended = self.signals.stuck(error.diagnostics)
        except PtoError:
            pass
        if not self.agrees():
            self.ended = False
            self.clocks.forget_between_cores()
        return self

    def argument(self, value: Value) -> Operand:
        """An argument; the position of a number among those of the course is noted."""
        at = self.guesses.leaves
        operand = self.machine.argument(value)
        if isinstance(operand, Assumed) and self.guesses.leaves > at:
            self.positions[value.name] = at
        return operand

    def agrees(self) -> bool:
        """Whether the same trips are left out on all cores, so that the same ones meet."""
        listings = list(self.shortened.values())
        longest = max(listings, key=len, default=[])
        everywhere = len(listings) in (0, len(self.meetings.members))
        return everywhere and all(longest[: len(trips)] == trips for trips in listings)

    def member(self, named: str, core: str) -> None:
        """Note a core that is followed; one that executes everything is known by the kinds of its parts."""
        for kind in ("", *(k.name.lower() for k in KernelKind)) if not core else (core,):
            name = (named + kind).strip()
            self.clocks.blocks |= {name: block_of(name)} if named else {}
        self.meetings.members.append(Member((named + core).strip(), kind_of_core(core or self.kind)))

    def member_of(self, walk: Walk) -> Member:
        """The core that a walk follows."""
        return Member((walk.named + walk.core.name).strip(), kind_of_core(walk.core.name or self.kind))

    @property
    def reached(self) -> set[int]:
        """The flags that the course has come to, and the loops that it has repeated."""
        return self.signals.reached | self.repeated

    def of_core(
        self, function: Function, operands: Sequence[Operand], core: Core, number: int | None, count: int
    ) -> list[Operand]:
        """The arguments of a core: numbers may tell the vector cores of a block apart."""
        apart = core.subblock > 0
        numbers = {} if number is None else {BLOCK: number, BLOCKS: count, SUBBLOCK: core.subblock}
        return [
            numbers[a.name]
            if a.name in numbers
            else self.guesses.leaf(None)._replace(value=o.value, of=o.of)
            if apart and isinstance(o, Assumed)
            else o
            for a, o in zip(function.args, operands, strict=True)
        ]

    def choose(self, op: Op, number: Operand) -> None:
        """Note which region a number chooses."""
        if isinstance(number, Assumed):
            decisions = self.decisions.setdefault(id(op), [])
            if len(decisions) < DECISIONS:
                decisions.append(number)
            number = number.value
        if isinstance(number, int):
            self.taken.add(arm_of(op, number))

    @property
    def length(self) -> int:
        """How many operations it has followed."""
        return (LIMIT if self.listed is None else LISTED) - self.left

    def count(self) -> None:
        """One operation more; TooLongError beyond the limit."""
        self.left -= 1
        if self.left < 0:
            raise TooLongError

    # -- what operations do --------------------------------------------------------------------------

    def note(self, walk: Walk, op: Op, scope: Scope, facts: OpFacts) -> None:
        """Tell clocks and signals what an operation has done."""
        traits = facts.traits
        if self.machine.scope is not None:
            self.inside(op, self.machine.scope)
        if traits.order is not None and traits.order.through not in ("signal", "transfer"):
            self.signals.order(self.turn(walk), op, scope, self.core)
            return
        if traits.fifo is not None:
            self.pass_slot(walk, op, scope, facts)
        if traits.order is not None and (traits.order.role, traits.order.through) == ("signal", "signal"):
            self.announce(walk, op, scope)
            return
        before: Pipe | None = None
        for phase, operands in facts.steps:
            if before is not None:
                self.signals.hand_over(op, self.core, before, phase)
            before = phase.pipe
            uses = list(self.uses(op, scope, facts, phase.pipe, operands))
            if uses:
                self.clocks.execute(uses)
            if traits.fifo == "pop" and are_windows(self.profile):
                self.windows.setdefault(self.core, deque()).append(uses[0] if uses else None)
        if self.machine.accessed or self.machine.indexed:
            self.clocks.execute(list(self.bytes_of(op)))
        if self.machine.touched:
            self.clocks.execute(list(self.elements(op, facts)))
        if self.machine.scalars and self.machine.scope is None:
            self.clocks.execute(list(self.on_chip(op, facts.written)))
        for value in op.results:
            self.signals.produced[value.name] = facts.pipe

    def pass_slot(self, walk: Walk, op: Op, scope: Scope, facts: OpFacts) -> None:
        """A slot of a pipe between cores is pushed, popped or freed."""
        if facts.traits.fifo in ("push", "pop", "free", "allocate"):
            phases = [step.phase for step in facts.steps]
            self.signals.fifo(self.turn(walk), op, scope, self.core, phases)
        if facts.traits.fifo == "free" and self.windows.get(self.core):
            use = self.windows[self.core].popleft()
            # Behind the free the producer fills the slot again.
            self.clocks.execute([use._replace(op=op)] if use is not None else [])

    def bytes_of(self, op: Op) -> Iterator[Use]:
        """The bytes that a micro-operation has accessed."""
        operation, accessed = find_micro(op.name), [*self.machine.accessed, *self.machine.indexed]
        self.machine.accessed, self.machine.indexed = [], []
        if operation is None:
            return
        written, values = id(op) in self.judged.written, operation.values(op)
        for write, name, region in accessed:
            yield Use(op, self.core, operation.pipe, str(values[name]), write, region, written)

    def on_chip(self, op: Op, written: bool) -> Iterator[Use]:
        """The elements of on-chip memory that the scalar unit has read or written."""
        for write, region in self.machine.scalars:
            yield Use(op, self.core, Pipe.S, str(op.ins[0]), write, region, written)

    def inside(self, op: Op, scope: VectorScope) -> None:
        """What an operation does inside a vector scope: a barrier, or accesses; nothing is inserted there."""
        operation = find_micro(op.name)
        if operation is not None:
            kinds = operation.orders.get(str(next(iter(op.attrs.values()), "")))
            if kinds is not None:
                scope.barrier(*kinds)
            values = operation.values(op)
            for write, name, region in self.machine.accessed:
                if region.space.loc is not None:
                    use = Use(op, self.core, operation.pipe, str(values[name]), write, region)
                    for race in scope.use(use, ("vector", _ACCESS[write]), self.machine.after):
                        self.clocks.note(race)
        for use in self.on_chip(op, True):
            for race in scope.use(use, ("scalar", _ACCESS[use.write])):
                self.clocks.note(race)

    def turn(self, walk: Walk) -> Turn:
        """What signals see of the core that executes."""
        return Turn(walk.core, walk.shared, self.region, walk.named)

    def announce(self, walk: Walk, op: Op, scope: Scope) -> None:
        """A signal to other processors says that what came before is over; the rest comes after it."""
        value = walk.reading.of(op).values.get("signal")
        region = self.region(scope.find(value)) if value is not None else None
        if region is not None:
            self.clocks.announce(Use(op, self.core, Pipe.S, str(value), True, region))
        self.clocks.barrier(self.core, Pipe.ALL)

    def uses(
        self, op: Op, scope: Scope, facts: OpFacts, pipe: Pipe, accesses: Sequence[OperandUse]
    ) -> Iterator[Use]:
        """The bytes that an operation reads and writes in a step; scratch is written."""
        executed = self.machine.executed
        operands = executed.operands if executed is not None and executed.op is op else {}
        for name, value, text, write, atomic in accesses:
            region = self.region(operands[name] if name in operands else scope.find(value))
            if region is not None:
                use = Use(op, self.core, pipe, text, write, region, facts.written, atomic)
                yield from self.with_lines(use) if write and self.lines else (use,)

    def elements(self, op: Op, facts: OpFacts) -> Iterator[Use]:
        """The elements of global memory that the scalar unit has read or written."""
        for write, pointer in self.machine.touched:
            view = View(pointer.buffer, pointer.dtype, pointer.offset, (1,), (1,))
            region = self.region(view)
            if region is not None:
                use = Use(op, self.core, Pipe.S, f"%{pointer.buffer}", write, region, facts.written)
                yield from self.with_lines(use) if write and self.lines else (use,)

    @cached_property
    def lines(self) -> bool:
        """Whether several cores share lines of a cache."""
        return self.judged.caches and len(self.meetings.members) > 1

    def with_lines(self, use: Use) -> Iterator[Use]:
        """A write, and that of the lines of a cache that it is in."""
        yield use
        if use.region.space.loc is None:
            yield use._replace(region=use.region.lines())

    def region(self, operand: Operand) -> Region | None:
        """The bytes of a handle or view."""
        operand = self.machine.selected(operand)
        if isinstance(operand, TileRef):
            return self.bytes_of_tile(operand)
        if isinstance(operand, View):
            numbers = self.machine.view_numbers(operand)
            return view_region(operand, iter(numbers)) if numbers is not None else None
        return None

    def bytes_of_tile(self, ref: TileRef) -> Region | None:
        """The bytes of a handle, one object for equal ones; what tells them apart is kept with it."""
        sizes = self.machine.sizes(ref)
        key = id(ref.storage), id(ref.type), sizes
        held = self._tiles.get(key)
        if held is None:
            held = self._tiles[key] = ref, tile_region(ref, sizes)
        return held[1]
