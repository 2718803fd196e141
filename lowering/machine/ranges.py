"""What is known of a scalar that only execution knows: the range it is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pto_jax.interpreter import Scalar
from pto_jax.ir.dtypes import I1, DType

#: Addresses within this distance are far from leaving 64 bits, whatever is added to one of them.
NEAR = 1 << 60


@dataclass(frozen=True)
class Range:
    """An integer from ``low`` to ``high``; any one of 64 bits where nothing says more."""

    low: int = -(1 << 63)
    high: int = (1 << 63) - 1

    @classmethod
    def of(cls, n: Scalar) -> Range:
        """The range of a number; a range as it is; all 64-bit integers for anything else."""
        if isinstance(n, Range):
            return n
        return cls(int(n), int(n)) if isinstance(n, int) else cls()

    @classmethod
    def of_type(cls, dtype: DType) -> Range:
        """All numbers of an integer type."""
        if dtype.kind == "index" or not dtype.is_integer or dtype.bits >= 64:
            return cls()
        return cls(0, 1) if dtype.bits == 1 else cls(dtype.min_int, dtype.max_int)

    def joined(self, other: Range) -> Range:
        """The smallest range that has both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    @property
    def is_near(self) -> bool:
        """Whether all numbers are at most 2**60 from zero."""
        return self.low >= -NEAR and self.high <= NEAR


def _corners(f: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The range of a function that is monotonic in each of two numbers."""

    def apply(a: Range, b: Range) -> Range:
        found = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Range(min(found), max(found))

    return apply


def _quotient(a: Range, b: Range) -> Range:
    """By a positive number."""
    return _corners(lambda x, y: -(-x // y) if x < 0 else x // y)(a, b) if b.low > 0 else Range()


def _remainder(a: Range, b: Range) -> Range:
    """By a positive number: of the sign of the dividend."""
    if b.low <= 0:
        return Range()
    return Range(max(a.low, 1 - b.high) if a.low < 0 else 0, min(a.high, b.high - 1) if a.high > 0 else 0)


_RULES: dict[str, Callable[[Range, Range], Range]] = {
    "arith.addi": _corners(lambda x, y: x + y),
    "arith.subi": _corners(lambda x, y: x - y),
    "arith.muli": _corners(lambda x, y: x * y),
    "arith.minsi": _corners(min),
    "arith.maxsi": _corners(max),
    "arith.divsi": _quotient,
    "arith.remsi": _remainder,
}


def scalar(name: str, args: Sequence[Scalar], source: DType, result: DType) -> Range:
    """The range of an ``arith`` operation's result; all of its type where it may wrap, or no rule is known.

    >>> from pto_jax.ir.dtypes import INDEX
    >>> scalar("arith.muli", (Range(0, 3), 64), INDEX, INDEX)
    Range(low=0, high=192)
    """
    everything = Range.of_type(result)
    ranges = list(map(Range.of, args))
    if name in ("arith.index_cast", "arith.extsi", "arith.trunci") and source != I1:
        found = ranges[0]
    elif name == "arith.select":
        found = ranges[1].joined(ranges[2])
    elif name in _RULES:
        found = _RULES[name](*ranges)
    else:
        return everything
    return found if everything.low <= found.low and found.high <= everything.high else everything
