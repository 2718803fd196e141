"""Arithmetic of element types on raw words: what an instruction's rule computes with.

A rule asks :func:`arithmetic` for the arithmetic of an element type and writes its formula with it:
``a.encode(a.add(a.decode(x), a.decode(y)))``. ``decode`` turns words into numbers, ``encode`` numbers into
words; in between every operation is rounded as if the instruction stood alone. Four implementations:

* :class:`ExactFloat` carries float64 between an integer decode and an integer encode (NUMERICS of the
  design: XLA neither contracts, nor narrows, nor flushes that form). A result is rounded to float32
  only when it is used again, so a single operation pays one encode.
* :class:`NativeFloat` gives the same bits on GPUs, whose float32 arithmetic XLA leaves as it is.
* :class:`FastFloat` computes in float32 and leaves XLA free to contract, reorder and flush.
* :class:`Integer` wraps modulo 2^bits; XLA's division by zero (quotient all ones, remainder the
  dividend) and minimum / -1 are the documented values. :class:`SoftwareDivision` is of integers that a
  profile divides by a routine.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from jax import Array

from pto_jax.ir import CmpMode, DType

from .numbers import Num as Num, Real as Real
from .numerics_exact import ExactFloat as ExactFloat
from .numerics_fast import FastFloat as FastFloat
from .numerics_integer import Integer as Integer, SoftwareDivision as SoftwareDivision
from .numerics_native import FORMATS, NativeFloat as NativeFloat

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt

Numerics: TypeAlias = Literal["exact", "fast"]


class Arithmetic(Protocol):
    """Operations on numbers of one element type; see the module text."""

    dtype: DType

    def decode(self, words: UInt[Array, "..."]) -> Num:
        """The numbers that raw words stand for."""

    def encode(self, x: Num) -> UInt[Array, "..."]:
        """The words of numbers, rounded to the element type."""

    def const(self, value: float) -> Num:
        """A Python number as a number of the arithmetic, of shape ()."""

    def round_to_type(self, x: Num) -> Num:
        """The numbers rounded to the element type, as when they are stored and read back."""

    def add(self, x: Num, y: Num) -> Num:
        """``x + y``."""

    def sub(self, x: Num, y: Num) -> Num:
        """``x - y``."""

    def mul(self, x: Num, y: Num) -> Num:
        """``x * y``."""

    def div(self, x: Num, y: Num) -> Num:
        """``x / y``; of integers truncated towards zero."""

    def fmod(self, x: Num, y: Num) -> Num:
        """The remainder of the truncated division, with the sign of ``x``."""

    def compare(self, mode: CmpMode, x: Num, y: Num) -> Bool[Array, "..."]:
        """Where ``x mode y`` holds, bool; with NaN only NE does."""

    def compare_words(
        self, mode: CmpMode, x: UInt[Array, "*#shape"], y: UInt[Array, "*#shape"] | np.integer[Any]
    ) -> Bool[Array, "*shape"]:
        """As ``compare``, of raw words; ``y`` may be one NumPy word."""

    def where(self, mask: Bool[Array, "..."], x: Num, y: Num) -> Num:
        """``x`` where the bool mask is set, else ``y``."""


Float: TypeAlias = ExactFloat | NativeFloat | FastFloat


@cache
def arithmetic(dtype: DType, numerics: Numerics = "exact", native: bool = False) -> Float | Integer:
    """The arithmetic of an element type; ``native`` is the exact one of code for GPUs."""
    if dtype.is_integer:
        return Integer(dtype)
    if numerics == "fast":
        return FastFloat(dtype)
    return NativeFloat(dtype) if native and dtype.name in FORMATS else ExactFloat(dtype)
