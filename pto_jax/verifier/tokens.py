"""Flags and events as tokens: each wait has a set, and each set has a wait.

A flag between two pipes holds one token of each number. Waiting for a token that never comes stops the core,
setting one that is there already is not defined, and one that is left over is there for the next kernel.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ..analysis.courses import ASSUMED, Course, Doubt, Step, TooLongError
from ..analysis.resolve import ResolvedProgram
from ..errors import Diagnostic
from ..ir import Function, KernelKind, Op, Pipe
from ..isa import effects
from .errors import error_of
from .hazards import is_as_written
from .roots import cores_of, roots


class _Pair(NamedTuple):
    """The flags from one pipe to another one, on one kind of core."""

    core: KernelKind | None
    source: Pipe
    target: Pipe


def token_findings(resolved: ResolvedProgram) -> Iterator[Diagnostic]:
    """What is wrong with the flags and events of a program; a fragment's surroundings may set or wait."""
    program = resolved.program
    if program.fragment or not any(map(is_as_written, program.functions)):
        return
    for function in roots(program):
        if not function.private and not function.external:
            yield from _Verdict(resolved, function).findings()


def _hands_tokens(op: Op) -> bool:
    order = effects.traits_of(op).order
    return order is not None and order.through in ("flag", "event")


class _Run:
    """The tokens of one course."""

    def __init__(self) -> None:
        self.present: dict[tuple[_Pair, int], Op] = {}
        self.doubted: set[_Pair] = set()
        self.waited: dict[int, tuple[_Pair, Op]] = {}
        self.starved: dict[int, _Pair] = {}
        self.doubled: dict[int, tuple[_Pair, Op, Op]] = {}

    def hand(self, op: Op, pair: _Pair, number: int) -> None:
        """Set or take a token."""
        order, key = effects.traits_of(op).order, (pair, number)
        if order is not None and order.role == "signal":
            if key in self.present:
                self.doubled.setdefault(id(op), (pair, op, self.present[key]))
            self.present[key] = op
            return
        self.waited[id(op)] = pair, op
        if self.present.pop(key, None) is None:
            self.starved[id(op)] = pair


class _Verdict:
    """What the courses of a function say together."""

    def __init__(self, resolved: ResolvedProgram, function: Function) -> None:
        self.resolved, self.function = resolved, function
        self.cores = cores_of(resolved.program)
        self.runs: list[tuple[int, _Run]] = []
        self.assumes = False

    def findings(self) -> Iterator[Diagnostic]:
        """One finding for each operation that hands a token in a wrong way in some course."""
        for number, assumed in enumerate(ASSUMED):
            # Of courses that are too long to follow the others are, too.
            if not self.follow(number, assumed) or not self.assumes:
                break
        yield from self.starved()
        yield from self.doubled()
        yield from self.leftover()

    def follow(self, number: int, assumed: int) -> bool:
        """Add a course; whether it has an end."""
        course = Course(self.resolved.program, self.resolved.values, _hands_tokens, number)
        run = _Run()
        try:
            for step in course.steps(self.function):
                self.step(run, step)
        except TooLongError:
            return False
        self.runs.append((assumed, run))
        self.assumes |= course.assumes
        return True

    def step(self, run: _Run, step: Step) -> None:
        """What a step does to the tokens."""
        if step.unsure:
            run.doubted.update(pair for op in step.op.walk() if (pair := self.pair(op)) is not None)
            return
        pair = self.pair(step.op)
        if pair is None:
            return
        event = step.op.attrs.get("event")
        dynamic = step.numbers[0] if step.numbers and step.numbers[0].doubt == Doubt.NONE else None
        number = event if isinstance(event, int) else dynamic.value if dynamic is not None else None
        if number is None:
            run.doubted.add(pair)
        else:
            run.hand(step.op, pair, number)

    def pair(self, op: Op) -> _Pair | None:
        """The pipes that an operation hands a token between; operations of one pipe need none."""
        if not _hands_tokens(op):
            return None
        source, target = effects.ends_of(op)
        if source is None or target is None or source == target:
            return None
        return _Pair(self.cores.get(id(op)), source, target)

    # -- findings ------------------------------------------------------------------------------------

    def starved(self) -> Iterator[Diagnostic]:
        """Waits for tokens that are not there: errors where no course has them."""
        waited: Counter[int] = Counter()
        starved: dict[int, list[int]] = {}
        ops: dict[int, Op] = {}
        for assumed, run in self.runs:
            for key, (pair, op) in run.waited.items():
                if pair not in run.doubted:
                    waited[key] += 1
                    ops[key] = op
                    if key in run.starved:
                        starved.setdefault(key, []).append(assumed)
        for key, assumptions in starved.items():
            op = ops[key]
            allowed = "allowed: a signal of the same pipes and number before every wait for it"
            always = len(assumptions) == waited[key]
            message = f"waits for a token that nothing sets before{'' if always else _where(assumptions)}"
            if always and not self.may_be_set(op):
                yield error_of(op, "token", f"{message}; {allowed}")
            else:
                yield self.warning(op, f"{message}; {allowed}")

    def may_be_set(self, op: Op) -> bool:
        """Whether a signal that no course brings here might be meant: by a run-time number, or elsewhere."""
        pair, event = self.pair(op), op.attrs.get("event")
        for other in self.resolved.program.walk():
            order, its = effects.traits_of(other).order, self.pair(other)
            if order is None or order.role != "signal" or pair is None or its is None:
                continue
            fits = event is None or other.attrs.get("event", event) == event
            if pair[1:] == its[1:] and fits and (event is None or pair.core != its.core):
                return True
        return False

    def doubled(self) -> Iterator[Diagnostic]:
        """Tokens that are set while they are there."""
        listed: dict[int, tuple[Op, Op, list[int]]] = {}
        for assumed, run in self.runs:
            for key, (pair, op, earlier) in run.doubled.items():
                if pair not in run.doubted:
                    listed.setdefault(key, (op, earlier, []))[2].append(assumed)
        for op, earlier, assumptions in listed.values():
            where = f" ({earlier.span})" if earlier.span else ""
            some = _where(assumptions) if len(assumptions) < len(self.runs) else ""
            message = f"sets a token that {earlier.name}{where} has set and nothing has waited for{some}"
            yield self.warning(
                op, f"{message}; allowed: a wait between two signals of the same pipes and number"
            )

    def leftover(self) -> Iterator[Diagnostic]:
        """Tokens that are there where the function ends."""
        listed: dict[int, tuple[Op, list[int]]] = {}
        for assumed, run in self.runs:
            for (pair, _), op in run.present.items():
                if pair not in run.doubted:
                    listed.setdefault(id(op), (op, []))[1].append(assumed)
        for op, assumptions in listed.values():
            some = _where(assumptions) if len(assumptions) < len(self.runs) else ""
            message = f"sets a token that nothing waits for up to the end of @{self.function.name}{some}"
            yield self.warning(op, f"{message}; allowed: one wait for every signal")

    def warning(self, op: Op, message: str) -> Diagnostic:
        """A finding about an operation."""
        return Diagnostic("warning", message, op.span, op.name, rule="token")


def _where(assumptions: list[int]) -> str:
    """For which unknown numbers something happens."""
    shown = ", ".join(str(n) for n in assumptions[:-1])
    listed = f"{shown} or {assumptions[-1]}" if shown else str(assumptions[-1])
    return f" where numbers that only execution knows are {listed}"
