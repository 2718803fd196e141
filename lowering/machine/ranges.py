"""What is known of a scalar that only execution knows: the range it is in, and which numbers of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from pto_jax.interpreter import Scalar
from pto_jax.ir import I1, DType

#: Addresses within this distance are far from leaving 64 bits, whatever is added to one of them.
NEAR = 1 << 60


@dataclass(frozen=True)
class Range:
    """An integer from ``low`` to ``high``; any one of 64 bits where nothing says more.

    It is a multiple of ``step`` away from ``low``; 0 is the step of one number.
    """

    low: int = -(1 << 63)
    high: int = (1 << 63) - 1
    step: int = 1

    @classmethod
    def of(cls, n: Scalar) -> Range:
        """The range of a number; a range as it is; all 64-bit integers for anything else."""
        if isinstance(n, Range):
            return n
        return cls(int(n), int(n), 0) if isinstance(n, int) else cls()

    @classmethod
    def holding(cls, numbers: Iterable[int]) -> Range:
        """The smallest range that has some numbers."""
        first, *others = numbers
        return cls(min(first, *others, first), max(first, *others, first), gcd(*(n - first for n in others)))

    @classmethod
    def of_type(cls, dtype: DType) -> Range:
        """All numbers of an integer type."""
        if dtype.kind == "index" or not dtype.is_integer or dtype.bits >= 64:
            return cls()
        return cls(0, 1) if dtype.bits == 1 else cls(dtype.min_int, dtype.max_int)

    def joined(self, other: Range) -> Range:
        """The smallest range that has both."""
        step = gcd(self.step, other.step, self.low - other.low)
        return Range(min(self.low, other.low), max(self.high, other.high), step)

    def below(self, other: Range) -> Range:
        """The numbers that are less than one of another range; one at least, where there is none."""
        high = max(self.low, min(self.high, other.high - 1))
        return Range(self.low, high - (high - self.low) % max(1, self.step), self.step)

    @property
    def is_near(self) -> bool:
        """Whether all numbers are at most 2**60 from zero."""
        return self.low >= -NEAR and self.high <= NEAR


@dataclass(frozen=True)
class Moved(Range):
    """The range of an address that is ``by`` bytes behind another one, the ``origin``."""

    origin: object = None
    by: int = 0

    @classmethod
    def starting(cls, n: Scalar) -> Moved:
        """The range of an address as the origin of others."""
        span = Range.of(n)
        return cls(span.low, span.high, span.step, object())

    def further(self, by: int) -> Moved:
        """The range of the address that is some bytes behind."""
        return Moved(self.low + by, self.high + by, self.step, self.origin, self.by + by)


def _sum(sign: int) -> Callable[[Range, Range], Range]:
    def apply(a: Range, b: Range) -> Range:
        low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
        return Range(a.low + low, a.high + high, gcd(a.step, b.step))

    return apply


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners), gcd(a.low * b.step, b.low * a.step, a.step * b.step))


def _either(choose: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The smaller or the larger one of two numbers."""

    def apply(a: Range, b: Range) -> Range:
        both = a.joined(b)
        return Range(choose(a.low, b.low), choose(a.high, b.high), both.step)

    return apply


def _quotient(a: Range, b: Range) -> Range:
    """By a positive number."""
    if b.low <= 0:
        return Range()
    corners = [-(-x // y) if x < 0 else x // y for x in (a.low, a.high) for y in (b.low, b.high)]
    exact = b.step == 0 and a.low % b.low == 0 and a.step % b.low == 0
    return Range(min(corners), max(corners), a.step // b.low if exact else 1)


def _remainder(a: Range, b: Range) -> Range:
    """By a positive number: of the sign of the dividend."""
    if b.low <= 0:
        return Range()
    low, high = max(a.low, 1 - b.high) if a.low < 0 else 0, min(a.high, b.high - 1) if a.high > 0 else 0
    step = gcd(a.step, b.low) if b.step == 0 else 1
    # A multiple of the divisor is taken away: what is left is a number of steps from zero if the dividend is.
    whole = a.low >= 0 and a.low % max(1, step) == 0
    return Range(low, high - high % max(1, step), step) if whole else Range(low, high)


_RULES: dict[str, Callable[[Range, Range], Range]] = {
    "arith.addi": _sum(1),
    "arith.subi": _sum(-1),
    "arith.muli": _product,
    "arith.minsi": _either(min),
    "arith.maxsi": _either(max),
    "arith.divsi": _quotient,
    "arith.remsi": _remainder,
}


def holds(offset: Scalar, size: Scalar, extent: Scalar) -> bool:
    """Whether ``size`` elements from ``offset`` on are certainly some of ``extent``.

    >>> holds(Range(0, 56), 8, 64), holds(Range(0, 57), 8, 64)
    (True, False)
    """
    first, count, limit = map(Range.of, (offset, size, extent))
    return first.low >= 0 and count.low >= 0 and first.high + count.high <= limit.low


def scalar(name: str, args: Sequence[Scalar], source: DType, result: DType) -> Range:
    """The range of an ``arith`` operation's result; all of its type where it may wrap, or no rule is known.

    >>> from pto_jax.ir import INDEX
    >>> scalar("arith.muli", (Range(0, 3), 64), INDEX, INDEX)
    Range(low=0, high=192, step=64)
    """
    everything = Range.of_type(result)
    ranges = list(map(Range.of, args))
    if name in ("arith.index_cast", "arith.extsi", "arith.trunci") and source != I1:
        span = ranges[0]
    elif name == "arith.select":
        span = ranges[1].joined(ranges[2])
    elif name in _RULES:
        span = _RULES[name](*ranges)
    else:
        return everything
    return span if everything.low <= span.low and span.high <= everything.high else everything
