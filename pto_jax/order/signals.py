"""What orders operations: flags, events, barriers, buffer tokens, flags between cores, and slots of pipes.

A flag between two pipes holds one token of each number. Waiting for a token that never comes stops the core,
setting one that is there already is not defined, and one that is left over is there for the next kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import isa
from ..analysis.roots import hands_token
from ..errors import Diagnostic
from ..interpreter import Operand, Scope, TileRef, View
from ..interpreter.cores import SECOND, Block, Core
from ..interpreter.fifo import receivers, ring, split_of
from ..ir import Op, Pipe
from ..isa import effects
from ..isa.declare import Phase
from .clocks import Clock, Clocks, Semaphores, Token
from .judged import Judged
from .numbers import Assumed, Doubt
from .regions import Region

#: Numbers that flags between two pipes have.
EVENTS = 8


class Turn(NamedTuple):
    """What signals see of the core that executes: the core, its block, and the bytes of operands.

    ``named`` is what the names of the block's cores begin with.
    """

    core: Core
    shared: Block
    region: Callable[[Operand], Region | None]
    named: str = ""


class Pair(NamedTuple):
    """The flags from one pipe to another one, on one core."""

    core: str
    source: Pipe
    target: Pipe


class Signals:
    """The signals of one execution, and what is wrong with them by the identities of operations."""

    def __init__(self, clocks: Clocks, judged: Judged) -> None:
        self.clocks, self.judged = clocks, judged
        self.present: dict[tuple[Pair, Hashable], Token] = {}
        #: Pairs of pipes whose flags are under control flow that is not sure, and those of run-time numbers.
        self.steered: set[Pair] = set()
        self.numbered: set[Pair] = set()
        self.reached: set[int] = set()
        self.waited: dict[int, tuple[Pair, Op]] = {}
        self.starved: dict[int, tuple[Pair, Hashable]] = {}
        #: Signals that no wait has taken, by their numbers, None for any; and the waits that lack one.
        self.numbers: Counter[tuple[Pair, int | None]] = Counter()
        self.lacking: set[int] = set()
        self.doubled: dict[int, tuple[Pair, Op, Op]] = {}
        #: Flags whose numbers no pipe has, where execution says the number.
        self.outside: dict[int, tuple[Op, int]] = {}
        #: Waits that no core goes on from: the operations, and what they wait for.
        self.deadlock: tuple[Diagnostic, ...] = ()
        #: The pipe of the operation that made an event.
        self.produced: dict[str, Pipe] = {}
        self._between = Semaphores()
        #: How many slots the pipe between the cores has that was used last.
        self.slots = 0
        #: What was complete where each pipe gave back a buffer token the last time.
        self._released: dict[tuple[str, object], dict[Pipe, Clock]] = {}
        self.open: dict[tuple[str, object, Pipe], Op] = {}
        self.nested: dict[int, tuple[Op, Op | None]] = {}

    def doubt(self, op: Op, steers: Sequence[Operand]) -> None:
        """Nobody knows how often the regions of an operation execute where a number is not sure."""
        if any(isinstance(n, Assumed) and n.doubt == Doubt.UNSURE for n in steers):
            for inner in op.walk():
                pair = _pair(inner, "")
                if pair is not None:
                    self.steered.add(pair)

    def doubts(self, pair: Pair) -> bool:
        """Whether the tokens of two pipes depend on numbers that may contradict each other."""
        return pair in self.numbered or self.is_steered(pair)

    def is_steered(self, pair: Pair) -> bool:
        """Whether control flow that is not sure is around tokens of two pipes."""
        return not self.steered.isdisjoint((pair, pair._replace(core="")))

    @property
    def met(self) -> set[int]:
        """The waits that had a signal of their number whenever they were executed."""
        return self.waited.keys() - self.lacking

    @property
    def unmet(self) -> set[int]:
        """The waits between pipes with run-time numbers that lacked one."""
        return {key for key in self.lacking if self.waited[key][0] in self.numbered}

    def stuck(self, problems: Iterable[Diagnostic]) -> bool:
        """Note that all cores wait for ever; whether that is what an execution ended with."""
        self.deadlock = tuple(d for d in problems if d.rule == "deadlock")
        return bool(self.deadlock)

    # -- operations ----------------------------------------------------------------------------------

    def order(self, turn: Turn | None, op: Op, scope: Scope, core: str) -> None:
        """What an operation does for the order of others."""
        order = effects.traits_of(op).order
        assert order is not None
        number = self._number(op, scope)
        match order.role, order.through:
            case "barrier", "pipe":
                # A fence names no pipe and drains all.
                pipe = effects.pipe_named(op.attrs.get("pipe", op.attrs.get("op_type", Pipe.ALL)))
                if pipe is not None:
                    self.clocks.barrier(core, pipe)
                if order.publishes:
                    self.clocks.publish(core)
            case role, "flag" | "event":
                self._flag(op, role, core, number)
            case "signal", "cores" if order.publishes:
                self.clocks.write_back(core)
            case role, "core":
                self._core(turn, op, role, core, number)
            case role, "token":
                self._buffer(op, role, core, number)
            case "wait", "operation":
                self._drain(turn, op, scope, core)
            case _:
                pass

    def _number(self, op: Op, scope: Scope) -> object:
        """The number of an event: an integer, or one that is assumed."""
        written = op.attrs.get("event", op.attrs.get("buf"))
        if isinstance(written, int) or not op.ins:
            return written
        return scope.find(op.ins[0])

    def _flag(self, op: Op, role: str, core: str, number: object) -> None:
        """A flag from one pipe to another; operations of one pipe need none."""
        self.reached.add(id(op))
        pair = _pair(op, core)
        if pair is None:
            return
        self._count(op, role, pair, _value(number))
        if isinstance(number, Assumed):
            if not number.exact:
                self.numbered.add(pair)
            number = number.generic
        elif isinstance(number, int) and not 0 <= number < EVENTS and "event" not in op.attrs:
            self.outside.setdefault(id(op), (op, number))
        key = (pair, number)
        if role == "signal":
            if key in self.present:
                # A flag holds one token: the wait for it may be over before the second signal.
                self.doubled.setdefault(id(op), (pair, op, self.present[key].op))
            else:
                self.present[key] = Token(self.clocks.complete(core, pair.source), op)
            return
        self.waited[id(op)] = pair, op
        token = self.present.pop(key, None)
        if token is None:
            self.starved[id(op)] = pair, number
        else:
            self.clocks.wait(core, pair.target, token.clock)

    def _count(self, op: Op, role: str, pair: Pair, value: int | None) -> None:
        """Count a signal by its number in this course, or take one of the same number."""
        if role == "signal":
            self.numbers[pair, value] += 1
        elif value is not None:
            first = next((key for key in ((pair, value), (pair, None)) if self.numbers[key]), None)
            self.numbers.subtract([first] if first is not None else [])
            self.lacking |= {id(op)} if first is None else set()

    def _is(self, name: str) -> bool:
        return self.judged.profile_name == name

    def hand_over(self, op: Op, core: str, before: Pipe, phase: Phase) -> None:
        """A step of an operation comes after the one before it, some by a flag that programs use, too."""
        self.clocks.wait(core, phase.pipe, self.clocks.complete(core, before))
        pair = Pair(core, before, phase.pipe)
        if phase.flag is not None and (pair, phase.flag) in self.present:
            self.doubled.setdefault(id(op), (pair, op, self.present[pair, phase.flag].op))

    def _core(self, turn: Turn | None, op: Op, role: str, core: str, number: object) -> None:
        """A flag between cores, which a core may give itself where there is no other one."""
        pipe = op.attrs.get("pipe")
        if turn is None or not isinstance(pipe, Pipe) or isinstance(number, Assumed):
            return
        own, cores = turn.core, turn.shared.cores
        facing = [c for c in cores if (c.kind == "cube") != (own.kind == "cube")]
        order = effects.traits_of(op).order
        apart = order is not None and order.apart and self.judged.paired
        if own.kind == "cube" and apart and isinstance(number, int):
            facing = [c for c in facing if c.subblock == number // SECOND]
        number = number % SECOND if isinstance(number, int) else number
        for other in [turn.named + c.name for c in facing] or [core]:
            if role == "signal":
                self._between.give(("flag", number, core, other), Token(self.clocks.complete(core, pipe), op))
            elif (token := self._between.take(("flag", number, other, core))) is not None:
                self.clocks.wait(core, Pipe.ALL if self._is("a2a3") else pipe, token.clock)

    def _buffer(self, op: Op, role: str, core: str, number: object) -> None:
        """A bracket around the uses of a buffer: it begins after those of other pipes that came before."""
        pipe = effects.pipe_named(op.attrs.get("op_type"))
        if pipe is None:
            return
        number = number.generic if isinstance(number, Assumed) else number
        released, place = self._released.setdefault((core, number), {}), (core, number, pipe)
        if role == "signal":
            if self.open.pop(place, None) is None:
                self.nested.setdefault(id(op), (op, None))
            released[pipe] = self.clocks.complete(core, pipe)
            return
        if place in self.open:
            self.nested.setdefault(id(op), (op, self.open[place]))
        self.open[place] = op
        for other, clock in released.items():
            if other != pipe:
                self.clocks.wait(core, pipe, clock)

    def _drain(self, turn: Turn | None, op: Op, scope: Scope, core: str) -> None:
        """Everything waits for the events of some operations; for all of them where none is named."""
        pipes: set[Pipe] = set()
        instruction = isa.find(str(op.attrs.get("op", "")))
        if instruction is not None:
            pipes.add(instruction.pipe)
        for value in op.ins:
            operand = scope.find(value)
            source = self.produced.get(value.name)
            pipes |= {source} if source is not None else set()
            if turn is not None and isinstance(operand, TileRef):
                region = turn.region(operand)
                pipes |= (
                    {u.pipe for u in self.clocks.last_uses(region.space)} if region is not None else set()
                )
        if not op.ins and instruction is None:
            pipes = {Pipe.ALL}
        for pipe in pipes:
            self.clocks.wait(core, Pipe.ALL, self.clocks.complete(core, pipe))

    def kept(self) -> Iterator[tuple[str, int, Op]]:
        """Signals between cores that nothing has taken: what they are, how many, and the first operation."""
        for (what, _, core, other), tokens in self._between.tokens.items():
            if tokens and core != other:
                yield what, len(tokens), tokens[0].op

    def fifo(self, turn: Turn, op: Op, scope: Scope, core: str, phases: Sequence[Phase]) -> None:
        """A slot of a pipe between cores: what was complete before its push is so behind its pop.

        A pop holds back the whole core, on A5 the pipe that waits for the slot. Slots in global memory are
        written by stores and read by loads of their own.
        """
        kind, cube, shared = effects.traits_of(op).fifo, turn.core.kind == "cube", turn.shared
        if not (shared.has("cube") and shared.has("vector")):
            return
        through, pipe = ring(op, scope), effects.pipe_of(op)
        waits = phases[0].pipe if kind == "pop" and phases and self._is("a5") else Pipe.ALL
        if isinstance(through.memory, View):
            pipe = Pipe.MTE2 if kind in ("pop", "free") else Pipe.FIX if cube else Pipe.MTE3
            waits = pipe if waits != Pipe.ALL else waits
        self.slots = through.slots
        sends = kind in ("push", "allocate")
        key = through.to_vector if cube == sends else through.to_cube
        # What is whole goes between the cube core and the first vector core; the second one may take it, too.
        alone = not split_of(op)
        facing = [c.name for c in receivers(shared, split_of(op))] if cube else ["cube"]
        if alone and turn.core.subblock:
            return
        what = "slot" if kind in ("push", "pop") else "free"
        for other in (turn.named + name for name in facing):
            if kind in ("push", "free"):
                self._between.give((what, key, core, other), Token(self.clocks.complete(core, pipe), op))
            elif (token := self._between.take((what, key, other, core))) is not None:
                self.clocks.wait(core, waits, token.clock)


def _value(number: object) -> int | None:
    """What a number is in this course; None for one of which nothing is sure."""
    if isinstance(number, Assumed):
        return None if number.doubt == Doubt.UNSURE else number.value
    return number if isinstance(number, int) else None


def _pair(op: Op, core: str) -> Pair | None:
    """The pipes that an operation hands a token between; operations of one pipe need none."""
    if not hands_token(op):
        return None
    source, target = effects.ends_of(op)
    return None if source is None or target is None or source == target else Pair(core, source, target)
