"""Definedness lane by lane: what tile-tile and tile-scalar instructions share."""

from collections.abc import Callable

import numpy as np

from ..oracle.numbers import Array, decode
from .shadow import first
from .step import ShadowStep

BY_ZERO = "division by zero"
TOO_FAR = "shift by the width of the type or more"


def lanewise(step: ShadowStep) -> None:
    """Every lane of the destination depends on the same lane of all sources."""
    step.put(step.all_sources())


def by_zero(step: ShadowStep, divisor: Array) -> Array:
    """Origin ids of integer lanes whose divisor, given as words, is zero."""
    if not step.is_integer():
        return np.zeros((1, 1), np.int32)
    zero = decode(divisor, step.dtype()) == 0
    return np.where(zero, np.int32(step.origin_of(BY_ZERO)), np.int32(0))


def divided(step: ShadowStep, divisor: str) -> None:
    """Integer lanes with a zero divisor are undefined."""
    step.put(first(step.all_sources(), by_zero(step, step.real.words(divisor))))


def shifted(step: ShadowStep, count: str) -> None:
    """Lanes are undefined where the count is none of the type's bits."""
    d = step.dtype()
    bits = decode(step.real.words(count), d)
    far = (bits < 0) | (bits >= d.bits)
    step.put(first(step.all_sources(), np.where(far, np.int32(step.origin_of(TOO_FAR)), np.int32(0))))


def conjunction(step: ShadowStep, *names: str) -> None:
    """A zero bit decides."""
    _bitwise(step, names, lambda word: word)


def disjunction(step: ShadowStep, *names: str) -> None:
    """A one bit decides."""
    _bitwise(step, names, lambda word: ~word)


def bit_by_bit(step: ShadowStep, *names: str) -> None:
    """A bit is undefined where the same bit of any operand is."""
    undefined = step.bits_over(names[0])
    for name in names[1:]:
        undefined = undefined | step.bits_over(name)
    step.put_bits(undefined, step.all_sources())


def _bitwise(step: ShadowStep, names: tuple[str, ...], passing: Callable[[Array], Array]) -> None:
    """``passing`` gives the bits of an operand that let the other one through."""
    a, b = (step.bits_over(n) for n in names)
    x, y = (passing(step.real.raw(n)) for n in names)
    step.put_bits((a & b) | (a & y) | (b & x), step.all_sources())
