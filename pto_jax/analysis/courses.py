"""One execution of a function as far as numbers determine it: the order of its operations.

What only execution knows is assumed to be one number everywhere, and a condition is assumed to hold or not.
All paths of such a course exist for some input, so that what goes wrong on one of them goes wrong for that
input. Conditions that are computed in ways that are not followed may contradict each other: they are doubted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ..ir import I1, Function, Op, Program, Region, ScalarType, Value
from ..isa import effects
from .addresses import fold_op
from .provenance import called

#: Numbers that are assumed, one for each course: no trip, a few, and some that tile sizes divide.
ASSUMED = (0, 1, 2, 3, 64, 192)
#: Operations after which a course is given up, and functions that call each other.
LIMIT, DEPTH = 20_000, 64


class Doubt(IntEnum):
    """How sure a number is: it follows from the text, is assumed, or may contradict other assumptions."""

    NONE, ASSUMED, UNSURE = range(3)


class Number(NamedTuple):
    """A number of a course."""

    value: int
    doubt: Doubt = Doubt.NONE


class Step(NamedTuple):
    """An operation of a course with the numbers of its operands.

    ``unsure``: nobody knows how often its regions execute.
    """

    op: Op
    numbers: Sequence[Number]
    unsure: bool = False


class TooLongError(Exception):
    """A course has more operations than are followed."""


#: The numbers of a function's names, and what arrays of event numbers hold.
_Frame: TypeAlias = dict[str, Number]
_Steps: TypeAlias = Iterator[Step]
#: The values of an operation by declared operand name.
Operands: TypeAlias = Callable[[Op], Mapping[str, Value]]


class Course:
    """An execution in which what only execution knows is ``ASSUMED[number]``.

    Regions in which no operation is ``followed`` are passed over. After :meth:`steps` has ended,
    ``assumes`` tells whether the text alone decided.
    """

    def __init__(
        self, program: Program, operands: Operands, followed: Callable[[Op], bool], number: int
    ) -> None:
        self.program = program
        self.operands = operands
        self.assumed, self.holds = ASSUMED[number], number % 2 == 1
        self.assumes = False
        self._left = LIMIT
        self._entered = _entered(program, followed)
        self._arrays: dict[tuple[int, str], dict[int, Number]] = {}
        self._active: list[str] = []

    def steps(self, function: Function, given: Mapping[str, int] | None = None) -> _Steps:
        """The operations of a function in the order of their execution; TooLongError beyond the limit.

        ``given`` are numbers of its arguments by name.
        """
        known = {name: Number(value) for name, value in (given or {}).items()}
        arguments = [known[a.name] if a.name in known else self._guess(a) for a in function.args]
        yield from self._call(function, arguments, {})

    def _call(self, function: Function, numbers: Sequence[Number], ends: dict[int, list[Number]]) -> _Steps:
        frame = dict(zip((a.name for a in function.args), numbers, strict=False))
        self._active.append(function.name)
        yield from self._region(function.body, frame, ends)
        self._active.pop()

    def _region(self, region: Region, frame: _Frame, ends: dict[int, list[Number]]) -> _Steps:
        """The operations of a region; ``ends`` takes the numbers of what it hands on."""
        for op in region.ops:
            self._left -= 1
            if self._left < 0:
                raise TooLongError
            if op.regions or effects.traits_of(op).calls:
                yield from self._nested(op, frame)
            else:
                yield Step(op, [self._of(frame, v) for v in op.ins])
                self._compute(op, frame)
        ends[id(region)] = [self._of(frame, v) for v in effects.handed_on(region)]

    # -- numbers -------------------------------------------------------------------------------------

    def _of(self, frame: _Frame, value: Value) -> Number:
        number = frame.get(value.name)
        return number if number is not None else self._guess(value)

    def _guess(self, value: Value, doubt: Doubt = Doubt.ASSUMED) -> Number:
        self.assumes |= isinstance(value.type, ScalarType)
        is_condition = isinstance(value.type, ScalarType) and value.type.dtype == I1
        return Number(self.holds if is_condition else self.assumed, doubt)

    def _compute(self, op: Op, frame: _Frame) -> None:
        """The numbers of the results, and what an array of event numbers holds."""
        numbers = {v.name: self._of(frame, v) for v in op.ins} if op.results or op.ins else {}
        array = self._event(op, frame)
        if array is not None and op.results:
            frame[op.results[0].name] = array
            return
        constant = op.attrs.get("value") if not op.ins else None
        folded = fold_op(op, {name: number.value for name, number in numbers.items()})
        folded = constant if isinstance(constant, bool) else folded
        if folded is not None:
            doubt = max((number.doubt for number in numbers.values()), default=Doubt.NONE)
            frame[op.results[0].name] = Number(folded, doubt)
            return
        for value in op.results:
            if isinstance(value.type, ScalarType):
                frame[value.name] = self._guess(value, Doubt.UNSURE if op.ins else Doubt.ASSUMED)

    def _event(self, op: Op, frame: _Frame) -> Number | None:
        """What is read of an array of event numbers; arrays are known by the name of their declaration."""
        traits = effects.traits_of(op)
        if not (traits.has("read", "events") or traits.has("write", "events")):
            return None
        values = self.operands(op)
        if not {"array", "index"} <= set(values):
            return None
        cells = self._arrays.setdefault((len(self._active), values["array"].name), {})
        index = self._of(frame, values["index"])
        if traits.has("write", "events"):
            cells[index.value] = self._of(frame, values["value"])
        number = cells.get(index.value, Number(0))
        return Number(number.value, max(number.doubt, index.doubt))

    # -- regions -------------------------------------------------------------------------------------

    def _nested(self, op: Op, frame: _Frame) -> _Steps:
        ends: dict[int, list[Number]] = {}
        results: Sequence[Number] = [self._guess(v, Doubt.UNSURE) for v in op.results]
        callee = called(self.program, op)
        if callee is not None and callee.name not in self._active and len(self._active) < DEPTH:
            if callee.name in self._entered:
                yield from self._call(callee, [self._of(frame, v) for v in op.ins], ends)
                results = ends.get(id(callee.body), results)
        elif id(op) in self._entered:
            runs = effects.traits_of(op).regions
            match runs.runs if runs is not None else "once":
                case "for":
                    yield from self._for(op, frame, ends)
                case "while" if len(op.regions) == 2:
                    yield from self._while(op, frame, ends)
                case "graph":
                    yield from self._graph(op, frame, ends)
                case "if" | "switch" as kind:
                    yield from self._branch(op, frame, ends, kind)
                case _:
                    for region in op.regions:
                        yield from self._region(region, frame, ends)
                        ends[id(op)] = ends[id(region)]
            results = ends.get(id(op), results)
        frame.update((v.name, n) for v, n in zip(op.results, results, strict=False))

    def _bind(self, region: Region, frame: _Frame, numbers: Sequence[Number]) -> None:
        frame.update((a.name, n) for a, n in zip(region.args, numbers, strict=False))

    def _for(self, op: Op, frame: _Frame, ends: dict[int, list[Number]]) -> _Steps:
        low, high, step = (self._of(frame, op.group(name)[0]) for name in ("lb", "ub", "step"))
        body, carried = op.regions[0], [self._of(frame, v) for v in op.group("inits")]
        if max(low.doubt, high.doubt, step.doubt) == Doubt.UNSURE:
            yield Step(op, (), unsure=True)
        counter = max(low.doubt, step.doubt)
        for i in range(low.value, high.value, step.value) if step.value > 0 else ():
            self._bind(body, frame, [Number(i, counter), *carried])
            yield from self._region(body, frame, ends)
            carried = ends[id(body)]
        ends[id(op)] = carried

    def _while(self, op: Op, frame: _Frame, ends: dict[int, list[Number]]) -> _Steps:
        before, after = op.regions
        carried = [self._of(frame, v) for v in op.ins]
        for trip in range(LIMIT):
            self._bind(before, frame, carried)
            yield from self._region(before, frame, ends)
            condition = self._of(frame, before.ops[-1].ins[0])
            ends[id(op)] = ends[id(before)]
            # A condition that is assumed to hold would hold for ever.
            if not condition.value or (condition.doubt and trip >= self.assumed % 4):
                break
            if condition.doubt == Doubt.UNSURE:
                yield Step(op, (), unsure=True)
            self._bind(after, frame, ends[id(before)])
            yield from self._region(after, frame, ends)
            carried = ends[id(after)]

    def _branch(self, op: Op, frame: _Frame, ends: dict[int, list[Number]], kind: str) -> _Steps:
        condition = self._of(frame, op.ins[0])
        if condition.doubt == Doubt.UNSURE:
            yield Step(op, (), unsure=True)
        cases = op.attrs.get("cases")
        if kind == "if":
            at = 0 if condition.value else 1
        else:
            listed = cases if isinstance(cases, tuple) else ()
            at = listed.index(condition.value) if condition.value in listed else len(listed)
        if at < len(op.regions):
            yield from self._region(op.regions[at], frame, ends)
            ends[id(op)] = ends[id(op.regions[at])]

    def _graph(self, op: Op, frame: _Frame, ends: dict[int, list[Number]]) -> _Steps:
        labels = op.attrs.get("labels")
        blocks = dict(zip(labels if isinstance(labels, tuple) else (), op.regions, strict=False))
        block: Region | None = op.regions[0]
        while block is not None and block.ops:
            yield from self._region(block, frame, ends)
            last = block.ops[-1]
            targets = last.attrs.get("targets")
            if not isinstance(targets, tuple) or not targets:
                ends[id(op)] = ends[id(block)]
                return
            at = 0
            if len(targets) > 1:
                condition = self._of(frame, last.ins[0])
                at = 0 if condition.value else 1
                if condition.doubt:
                    # A loop of branches need not end for a condition that is assumed.
                    yield Step(op, (), unsure=True)
            block = blocks.get(targets[at])
            if block is not None:
                self._bind(block, frame, [self._of(frame, v) for v in last.group(f"to{at}")])


def _entered(program: Program, followed: Callable[[Op], bool]) -> frozenset[int | str]:
    """The operations with regions, and the functions, that hold operations that are followed."""
    entered: set[int | str] = set()
    changed = True

    def holds(op: Op) -> bool:
        callee = called(program, op)
        inside = [holds(inner) for region in op.regions for inner in region.ops]
        if any(inside):
            entered.add(id(op))
        return any(inside) or followed(op) or (callee is not None and callee.name in entered)

    while changed:
        before = len(entered)
        for function in program.functions:
            if any(list(map(holds, function.body.ops))):
                entered.add(function.name)
        changed = len(entered) > before
    return frozenset(entered)
