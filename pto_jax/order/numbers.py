"""Numbers of a course: those that follow from the text are integers, others are assumed.

A condition, a trip count or an event number that only execution has is assumed to be some number, one for
each course. Two windows of global memory may meet for that number by chance, so that every assumed number has
a second value, ``generic``, drawn at random: windows meet where they do for generic numbers. Both differ by a
multiple of small numbers, so that halves and remainders go together. Choices follow the number of the course,
and slots in turns have one value.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from ..analysis.addresses import fold
from ..interpreter import address
from ..ir import I1, DType
from .regions import GENERIC

#: Numbers that are assumed, one for each course: no trip, a few, and some that tile sizes divide.
ASSUMED = (0, 1, 2, 3, 64, 192)
_MOST, _STEP = 1 << 30, 960
#: Remainders by numbers up to here are slots and flags in turns: their second value is the first one.
_TURNS = 64
#: Numbers and conditions that are told apart as what something depends on; others are one.
_LEAVES, _CONDITIONS = 96, 32
#: Numbers beyond the sizes that programs compare with.
_FAR = (-8192, 8192)
#: Comparisons that a condition is told to come from.
_MOST_GAPS = 8
_BEYOND = 1 << (_LEAVES + _CONDITIONS)
#: The seeds of courses whose numbers are drawn begin here.
FURTHER = 100

_T = TypeVar("_T")


class Doubt(IntEnum):
    """How sure a number is: it is assumed, or may contradict other assumptions."""

    ASSUMED, UNSURE = range(1, 3)


class Assumed(NamedTuple):
    """A number that only execution knows; ``of`` has a bit for each assumption that it comes from.

    ``gaps`` are the differences of the numbers whose comparison it comes from.
    """

    value: int
    doubt: Doubt
    generic: int
    of: int
    gaps: frozenset[int] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether it is what it is in this course wherever it is compared: a slot or a flag in turns."""
        return self.doubt == Doubt.ASSUMED and self.value == self.generic


class Course(NamedTuple):
    """What is assumed in one execution: numbers and conditions, in their order, again and again."""

    numbers: tuple[int, ...]
    holds: tuple[bool, ...]
    seed: int = 0

    @property
    def is_further(self) -> bool:
        """Whether its numbers are drawn for flags that no first course comes to: few of them are tried."""
        return self.seed >= FURTHER

    def __str__(self) -> str:
        return ", ".join(map(str, self.numbers[:3])) + (", ..." if len(self.numbers) > 3 else "")


class Guesses:
    """The numbers that are assumed in a course."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.random = random.Random(course.seed)
        self.conditions = self.leaves = 0
        #: Whether anything was decided by a number that the text does not say.
        self.used = False
        #: Whether what was decided may be another for other numbers.
        self.depends = False
        #: The assumptions that something was decided by, as bits.
        self.decisive = 0

    def repeats(self, course: Course) -> bool:
        """Whether another course takes the same way: it assumes the same of all that decides."""
        if self.decisive & _BEYOND:
            return False
        return all(
            _at(self.course.numbers, bit) == _at(course.numbers, bit)
            if bit < _LEAVES
            else _at(self.course.holds, bit - _LEAVES) == _at(course.holds, bit - _LEAVES)
            for bit in range(self.decisive.bit_length())
            if self.decisive >> bit & 1
        )

    def leaf(self, dtype: DType | None, doubt: Doubt = Doubt.ASSUMED) -> Assumed:
        """A number of a type of which nothing is known."""
        if dtype == I1:
            holds, own = _at(self.course.holds, self.conditions), self.conditions
            self.conditions += 1
            of = 1 << (_LEAVES + own) if own < _CONDITIONS else _BEYOND
            return Assumed(holds, doubt, holds, of)
        value, own = _at(self.course.numbers, self.leaves), self.leaves
        self.leaves += 1
        of = 1 << own if own < _LEAVES else _BEYOND
        far = self.random.randrange(GENERIC // _STEP + 1, _MOST // _STEP) * _STEP
        return Assumed(value, doubt, far + value, of)

    def computed(self, name: str, args: Sequence[object], source: DType, result: DType) -> object:
        """A scalar operation; a new guess where it is not one of integers."""
        values = [a.value if isinstance(a, Assumed) else a for a in args]
        if name == "arith.select" and not all(isinstance(v, int) for v in values[1:]):
            self.decisive |= _origin(args[:1])
            return args[1] if values[0] else args[2]
        number = fold(name, values, source, result)
        other = number if _takes_turns(name, args) else _second(name, args, values, number, source, result)
        doubts = [a.doubt for a in args if isinstance(a, Assumed)]
        if number is None or other is None:
            return self.leaf(result, Doubt.UNSURE)
        value = bool(number) if result == I1 else number
        return Assumed(value, max(doubts), other, _origin(args), _gaps(name, args)) if doubts else number

    def near(self, number: Assumed) -> Iterator[Course]:
        """Courses for which a condition may differ: with another one of its assumptions, or all far away."""
        numbers = [_at(self.course.numbers, i) for i in range(min(self.leaves, _LEAVES))]
        holds = [bool(_at(self.course.holds, i)) for i in range(min(self.conditions, _CONDITIONS))]
        steps = dict.fromkeys(s * gap + d for gap in sorted(number.gaps) for d in (0, -1, 1) for s in (1, -1))
        for bit in (b for b in range(_LEAVES + _CONDITIONS) if number.of >> b & 1):
            if bit >= _LEAVES:
                other = _with(holds, bit - _LEAVES, not holds[bit - _LEAVES])
                yield Course(tuple(numbers) or self.course.numbers, other, FURTHER + bit)
            else:
                for i, step in enumerate(s for s in steps if s):
                    course = _with(numbers, bit, numbers[bit] + step)
                    yield Course(course, tuple(holds) or self.course.holds, FURTHER + i)
        for far in _FAR if number.of else ():
            course = tuple(far if number.of >> bit & 1 else n for bit, n in enumerate(numbers))
            yield Course(course or self.course.numbers, tuple(holds) or self.course.holds, FURTHER)

    def address(self, base: object, index: object, stride: object) -> object:
        """``base + index * stride`` where not all are integers."""
        args = (base, index, stride)
        if not all(isinstance(a, int | Assumed) for a in args):
            return self.leaf(None)
        values, generic = ([a[at] if isinstance(a, Assumed) else a for a in args] for at in (0, 2))
        doubt = max((a.doubt for a in args if isinstance(a, Assumed)), default=Doubt.ASSUMED)
        return Assumed(address(*values), doubt, address(*generic), _origin(args))  # type: ignore[arg-type]

    def value(self, number: object) -> int | None:
        """What a number is in this course, None for one that is no integer."""
        if isinstance(number, Assumed):
            self.used = True
            self.decisive |= number.of
            self.depends |= not self._is_alike(number)
            return number.value
        return int(number) if isinstance(number, int) else None

    def _is_alike(self, number: Assumed) -> bool:
        """Whether a number is a comparison that holds for its second values, too, or for neither."""
        compared = type(number.value) is bool and not self.conditions and number.doubt != Doubt.UNSURE
        return compared and number.value == bool(number.generic)

    @property
    def most(self) -> int:
        """How often a condition that is assumed to hold does so."""
        self.decisive |= 1
        return self.course.numbers[0] % 4

    def trips(self, lower: object, upper: object, step: object) -> int:
        """How often a loop executes its body; mostly the same for the second values of its bounds."""
        bounds = (lower, upper, step)
        values, generic = ([n[at] if isinstance(n, Assumed) else n for n in bounds] for at in (0, 2))
        count = _trips(*values)
        if any(isinstance(n, Assumed) for n in bounds):
            self.used = True
            self.decisive |= _origin(bounds)
            self.depends |= count != _trips(*generic)
        return count


def _at(numbers: Sequence[int], at: int) -> int:
    return numbers[at % len(numbers)]


def _second(
    name: str,
    args: Sequence[object],
    values: Sequence[object],
    number: int | None,
    source: DType,
    result: DType,
) -> int | None:
    """The second value of a result: an operation chooses the operand that it chooses in this course."""
    generic = [a.generic if isinstance(a, Assumed) else a for a in args]
    if name == "arith.select":
        chosen = generic[1 if values[0] else 2]
    elif name.startswith(("arith.max", "arith.min")) and number in values:
        chosen = generic[values.index(number)]
    else:
        return fold(name, generic, source, result)
    return chosen if isinstance(chosen, int) else None


def _takes_turns(name: str, args: Sequence[object]) -> bool:
    """Whether an operation gives a remainder by a small number of the text, or such a number at most."""
    small = [type(n) is int and 0 < n <= _TURNS for n in args]
    if name.startswith("arith.min") or name == "arith.andi":
        return any(small)
    return name.startswith("arith.rem") and small[-1]


def _origin(numbers: Sequence[object]) -> int:
    """The assumptions that some numbers come from."""
    origin = 0
    for number in numbers:
        origin |= number.of if isinstance(number, Assumed) else 0
    return origin


def _gaps(name: str, args: Sequence[object]) -> frozenset[int]:
    """How far two numbers that are compared are from each other, and what a condition has from others."""
    if name.startswith("arith.cmpi"):
        one, other = (int(a.value if isinstance(a, Assumed) else a) for a in args)  # type: ignore[call-overload]
        return frozenset((other - one,))
    gaps = [gap for a in args if isinstance(a, Assumed) for gap in a.gaps]
    return frozenset(sorted(gaps)[:_MOST_GAPS])


def _with(values: Sequence[_T], at: int, value: _T) -> tuple[_T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _trips(*bounds: object) -> int:
    lower, upper, step = (n if isinstance(n, int) else 0 for n in bounds)
    return max(0, -((lower - upper) // step)) if step > 0 else 0
