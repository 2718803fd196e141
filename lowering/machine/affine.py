"""Numbers that follow from the trips of loops, and whether windows of memory at such numbers may meet.

A number is ``constant + sum(factor * symbol)``; a symbol is the trip of a loop, what a loop carries, or a
number that is the same in all trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int64

#: Pairs of trips up to which windows are compared.
MAX_PAIRS = 1 << 20


class Unproven(Exception):
    """Trips of a loop may depend on each other, or what they access is not known."""


@dataclass(frozen=True, eq=False)
class Trip:
    """The number of a trip of one loop, from 0 to ``count`` - 1."""

    count: int


@dataclass(frozen=True, eq=False)
class Carried:
    """What a loop carries, where a trip begins."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """A number that is the same in all trips; ``value`` computes it outside of them."""

    value: Callable[[], Any]


Symbol: TypeAlias = Trip | Carried | Fixed


@dataclass(frozen=True)
class Affine:
    """A number as a sum of multiples of symbols."""

    constant: int = 0
    terms: frozenset[tuple[Symbol, int]] = frozenset()

    @classmethod
    def of(cls, symbol: Symbol, factor: int = 1) -> Affine:
        """A multiple of a symbol."""
        return cls(0, frozenset([(symbol, factor)] if factor else []))

    def plus(self, other: Affine) -> Affine:
        """The sum."""
        factors = dict(self.terms)
        for symbol, factor in other.terms:
            factors[symbol] = factors.get(symbol, 0) + factor
        terms = frozenset((s, f) for s, f in factors.items() if f)
        return Affine(self.constant + other.constant, terms)

    def times(self, n: int) -> Affine:
        """The product with a number."""
        return Affine(self.constant * n, frozenset((s, f * n) for s, f in self.terms if n))

    def divided(self, n: int) -> Affine | None:
        """The quotient by a positive number; None where it is no multiple of it, or may be negative."""
        limits = self.limits
        if (
            limits is None
            or limits[0] < 0
            or any(k % n for k in (self.constant, *(f for _, f in self.terms)))
        ):
            return None
        return Affine(self.constant // n, frozenset((s, f // n) for s, f in self.terms))

    def replaced(self, symbol: Symbol, by: Affine) -> Affine:
        """The number with another one for a symbol."""
        factor = dict(self.terms).get(symbol, 0)
        return self if not factor else self.plus(Affine.of(symbol, -factor)).plus(by.times(factor))

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same in all trips."""
        return all(isinstance(s, Fixed) for s, _ in self.terms)

    @property
    def base(self) -> Affine:
        """The part that is the same in all trips."""
        return Affine(self.constant, frozenset((s, f) for s, f in self.terms if isinstance(s, Fixed)))

    def factors(self, trips: Sequence[Trip]) -> tuple[int, ...]:
        """The factors of some trips."""
        own = dict(self.terms)
        return tuple(own.get(t, 0) for t in trips)

    @property
    def limits(self) -> tuple[int, int] | None:
        """The least and the largest number, None where they are not known."""
        low = high = self.constant
        for symbol, factor in self.terms:
            if not isinstance(symbol, Trip):
                return None
            reach = factor * (symbol.count - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high


@dataclass(frozen=True)
class Access:
    """Bytes of a cell that one operation accesses in the trips of the loops around it.

    ``size`` bytes from ``start`` on, or the whole cell where there is no start.
    """

    cell: str
    writes: bool
    start: Affine | None
    size: int
    trips: tuple[Trip, ...]


def are_independent(accesses: Sequence[Access]) -> bool:
    """Whether all trips may read first and then write, one operation after the other.

    ``accesses`` are in the order of the program.
    """
    return all(
        _keeps(accesses, w, b)
        for w, access in enumerate(accesses)
        if access.writes
        for b in range(len(accesses))
        if not (accesses[b].writes and b < w)
    )


def _keeps(accesses: Sequence[Access], w: int, b: int) -> bool:
    """Whether a write and another access keep their order, or never meet."""
    write, other = accesses[w], accesses[b]
    if write.cell != other.cell:
        return True
    if write.start is None or other.start is None:
        return False
    apart = other.start.plus(write.start.times(-1))
    if _base(apart) is None or any(isinstance(s, Carried) for s, _ in apart.terms):
        return False
    if _are_apart(write, other):
        return True
    shared = tuple(_shared(write.trips, other.trips))
    factors = write.start.factors(shared)
    if factors != other.start.factors(shared) or prod(2 * t.count - 1 for t in shared) > MAX_PAIRS:
        return False
    return not _swapped(write, other, b - w, shared, factors)


def _base(n: Affine) -> int | None:
    return n.constant if not n.base.terms else None


def _are_apart(write: Access, other: Access) -> bool:
    """Whether no window of one meets any window of the other."""
    assert write.start is not None
    assert other.start is not None
    if write is other:
        return all(t.count == 1 for t in write.trips)
    base = Affine(0, write.start.base.terms).times(-1)
    first, second = write.start.plus(base).limits, other.start.plus(base).limits
    if first is None or second is None:
        return False
    return first[1] + write.size <= second[0] or second[1] + other.size <= first[0]


def _shared(first: Sequence[Trip], second: Sequence[Trip]) -> Iterator[Trip]:
    for a, b in zip(first, second, strict=False):
        if a is not b:
            return
        yield a


def _swapped(
    write: Access, other: Access, behind: int, shared: Sequence[Trip], factors: Sequence[int]
) -> bool:
    """Whether a write and an access ``behind`` places after it would meet in another order than in turn."""
    low, high = (_hull(a, shared) for a in (write, other))
    shape = tuple(2 * t.count - 1 for t in shared)
    steps = np.indices(shape).reshape(len(shape), -1) - np.array([t.count - 1 for t in shared])[:, None]
    moved = np.array(factors, np.int64) @ steps if shared else np.zeros(1, np.int64)
    meet = (high[0] + moved < low[1]) & (low[0] < high[1] + moved)
    later = _signs(steps)
    if write is other:
        return bool((meet & (later != 0)).any())
    after = np.where(later == 0, behind > 0, later > 0)
    if not other.writes:
        return bool((meet & after).any())
    return bool((meet & (later < 0)).any())


def _signs(steps: Int64[np.ndarray, "loops pairs"]) -> Int64[np.ndarray, " pairs"]:
    """Whether the second trip of a pair comes before (-1) or after (1) the first one."""
    signs = np.zeros(steps.shape[1] if len(steps) else 1, np.int64)
    for line in steps[::-1]:
        signs = np.where(line == 0, signs, np.sign(line))
    return signs


def _hull(access: Access, shared: Sequence[Trip]) -> tuple[int, int]:
    """The bytes of an access in all trips of the loops that are not shared."""
    assert access.start is not None
    own = [t for t in access.trips if t not in shared]
    rest = Affine(access.start.constant, frozenset((s, f) for s, f in access.start.terms if s in own))
    limits = rest.limits
    assert limits is not None
    return limits[0], limits[1] + access.size
