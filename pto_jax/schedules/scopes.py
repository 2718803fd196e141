"""A vector scope in another legal order of its accesses than that of its text.

Every operation of a scope has a number. What has to be over before it, because its registers are computed
from it or because a barrier says so, is a set of numbers, as the bits of an integer. Operations execute when
the vector pipe comes to the scope, or as soon as the scalar unit needs one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from ..interpreter import Operand
from ..interpreter.operands import Register
from ..ir import Op, ScalarType
from ..isa.micro import Access, MicroOperation
from ..order.scopes import VectorScope

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
        found = self.step.results[self.place]
        assert isinstance(found, Register)
        return found.contents


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

    def _execute(self, wanted: int) -> None:
        for number in _bits(wanted):
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
    """Whether an operation uses a special register, or the state of unaligned accesses."""
    words = declared.types.replace("->", " ").split()
    return bool(declared.squeezes) or "spr" in declared.choices or "a" in words
