"""Numbers that lead a course into branches of a function that others have not taken.

A condition compares a number that only execution knows with one of the text. The numbers around the latter
decide it, as far as they can be traced back through sums, products and quotients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from random import Random
from typing import TypeAlias

from ..analysis.provenance import calls
from ..analysis.resolve import ResolvedProgram
from ..ir import Function, Op, Program, Region, Value
from ..isa import effects
from .numbers import FURTHER, Course

#: An operation that chooses a region, and which one: whether its condition holds, or a number of the text.
Arm: TypeAlias = tuple[int, int | None]
#: Operations through which a number is traced back, and courses of numbers beyond those of one number.
_DEEP, _DRAWN = 6, 24
#: Courses into a choice inside of others, and the number of arguments that decide nothing on the way.
_PATHS, _USUAL = 64, 2
#: Numbers that are drawn beside those of comparisons.
_SMALL = (0, 1, 2, 5)


def functions_of(program: Program, function: Function) -> tuple[Function, ...]:
    """A function and those that it calls."""
    functions, pending = {function.name: function}, [function]
    while pending:
        for _, callee in calls(program, pending.pop()):
            if callee.name not in functions:
                functions[callee.name] = callee
                pending.append(callee)
    return tuple(functions.values())


@dataclass(eq=False)
class Branches:
    """The operations of a function and of those it calls that choose a region, with their conditions."""

    resolved: ResolvedProgram
    function: Function

    @cached_property
    def arms(self) -> Mapping[Arm, frozenset[int]]:
        """Every choice that numbers of the text decide, with numbers that may lead there."""
        table: dict[Arm, frozenset[int]] = {}
        for function in functions_of(self.resolved.program, self.function):
            trace = Trace(self.resolved, function)
            for op in function.walk():
                numbers = frozenset(number for _, number in trace.decisive(op))
                if numbers:
                    table |= {(id(op), arm): numbers for arm in choices(op)}
        return table

    def courses(
        self, left: Collection[Arm], arguments: int, positions: Mapping[str, int]
    ) -> Iterator[Course]:
        """Courses with the numbers of some choices.

        Each of the numbers everywhere, then those of all choices around one at the ``positions`` of the
        arguments that they come from, then those of all by chance.
        """
        for i, number in enumerate(sorted({n for arm in left for n in self.arms[arm]})):
            yield Course((number,), (i % 2 == 0,), FURTHER // 2 + i % (FURTHER // 2))
        for arm in (arm for arm in self.arms if arm in left):
            for i, course in enumerate(islice(self.paths(arm, positions), _PATHS)):
                at = {positions[name]: number for name, number in course}
                numbers = tuple(at.get(n, _USUAL) for n in range(arguments))
                yield Course(numbers, (i % 2 == 0,), FURTHER + i)
        random, numbers = Random(0), (*sorted({n for near in self.arms.values() for n in near}), *_SMALL)
        for i in range(_DRAWN if arguments > 1 else 0):
            drawn = tuple(random.choice(numbers) for _ in range(arguments))
            yield Course(drawn, (i % 2 == 0,), FURTHER + i)

    def paths(self, arm: Arm, positions: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], ...]]:
        """Numbers of arguments, one for every choice on the way to one that is inside of others."""
        trace = Trace(self.resolved, self.function)
        way = next(_way(self.function.body, arm[0]), ())
        near = [[pair for pair in trace.decisive(op) if pair[0] in positions] for op in way]
        conditions = [dict.fromkeys(pairs) for pairs in near if pairs]
        return product(*conditions) if len(conditions) > 1 else iter(())


def choices(op: Op) -> tuple[int | None, ...]:
    """The regions that an operation chooses from, by the number that chooses each; None for any other one."""
    regions = effects.traits_of(op).regions
    match regions.runs if regions is not None else None:
        case "if":
            return 1, 0
        case "switch":
            return *_cases(op), None
        case _:
            return ()


def arm_of(op: Op, number: int) -> Arm:
    """What a number chooses."""
    arms = choices(op)
    return id(op), number if number in arms else None


def _cases(op: Op) -> tuple[int, ...]:
    cases = op.attrs.get("cases", ())
    return tuple(n for n in cases if isinstance(n, int)) if isinstance(cases, tuple) else ()


def _way(body: Region, target: int) -> Iterator[tuple[Op, ...]]:
    """The choices around an operation of a region, itself included."""
    for op in body.ops:
        own = (op,) if choices(op) else ()
        if id(op) == target:
            yield own
        for region in op.regions:
            for inner in _way(region, target):
                yield own + inner


@dataclass(eq=False)
class Trace:
    """Where the numbers of a function come from; ``leaf``: only what comes from this value counts."""

    resolved: ResolvedProgram
    function: Function
    leaf: Value | None = None

    @cached_property
    def made(self) -> Mapping[str, Op]:
        """The operations by the names of their results."""
        return {v.name: op for op in self.function.walk() for v in op.results}

    def decisive(self, op: Op) -> Iterator[tuple[str, int]]:
        """Numbers around those at which an operation chooses another region, with the values they are of."""
        if not choices(op) or not op.ins:
            return
        if effects.traits_of(op).regions.runs == "switch":  # type: ignore[union-attr]
            for case in _cases(op):
                for near in (case, case + 1):
                    yield from self.back(op.ins[0], near, op)
        else:
            yield from self.condition(op.ins[0], _DEEP)

    def condition(self, value: Value, deep: int) -> Iterator[tuple[str, int]]:
        """Numbers around those at which a condition changes."""
        op = self.made.get(value.name)
        if op is None or not deep:
            return
        if op.name.startswith("arith.cmpi"):
            for one, other in (op.ins, op.ins[::-1]):
                limit = self.number(op, other)
                for near in () if limit is None else (limit - 1, limit, limit + 1):
                    yield from self.back(one, near, op)
        elif op.name in ("arith.andi", "arith.ori", "arith.xori"):
            for part in op.ins:
                yield from self.condition(part, deep - 1)

    def number(self, op: Op, value: Value) -> int | None:
        """The number of an operand that the text says."""
        constant = self.resolved.facts(self.function).of(op).number(value)
        return constant if isinstance(constant, int) else None

    def back(self, value: Value, goal: int, at: Op, deep: int = _DEEP) -> Iterator[tuple[str, int]]:
        """What the number behind a value has to be so that the value is a wanted one."""
        if not deep or self.number(at, value) is not None:
            return
        op = self.made.get(value.name)
        if op is None or not op.name.startswith("arith."):
            if self.leaf in (None, value):
                yield value.name, goal
        elif len(op.ins) == 1:
            yield from self.back(op.ins[0], goal, op, deep - 1)
        elif len(op.ins) == 2:
            one, number = op.ins[0], self.number(op, op.ins[1])
            if number is None and op.name in ("arith.addi", "arith.muli"):
                one, number = op.ins[1], self.number(op, one)
            target = None if number is None else _undone(op.name, goal, number)
            if target is not None:
                yield from self.back(one, target, op, deep - 1)


def _undone(name: str, goal: int, number: int) -> int | None:
    """The first operand of an operation on numbers that gives a wanted result, None where none is at hand."""
    match name:
        case "arith.addi":
            return goal - number
        case "arith.subi":
            return goal + number
        case "arith.muli":
            return goal // number if number and goal % number == 0 else None
        case "arith.divsi" | "arith.divui":
            return goal * number
        case "arith.remsi" | "arith.remui":
            return goal if 0 <= goal < number else None
        case "arith.maxsi" | "arith.minsi" | "arith.maxui" | "arith.minui":
            return goal
        case _:
            return None


def special_trips(resolved: ResolvedProgram, function: Function, op: Op) -> tuple[int, ...]:
    """The numbers of a loop's counter around which something in its body changes."""
    trace = Trace(resolved, function, op.regions[0].args[0])
    trips = {n for inner in op.walk() if inner is not op for _, n in trace.decisive(inner)}
    return tuple(sorted(trips))
