"""Moves between tiles."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType
from ..types import Loc, ReluPreMode
from .arithmetic import truncated
from .numbers import Array, decode, encode
from .step import Step, not_executable, require_plain, rule


@rule("tmov")
def _tmov(step: Step) -> None:
    """Every lane of the destination's valid region, through both layouts; types convert as in a cast."""
    require_plain(step, reluPreMode=ReluPreMode.NO_RELU)
    places = step.type("src").loc, step.type().loc
    if places != (Loc.VEC, Loc.VEC):
        pair = " to ".join(p.name.lower() for p in places)
        raise not_executable(step.op, f"is not executed from {pair}; vec to vec is")
    step.put(cast_words(step.raw("src"), step.dtype("src"), step.dtype()))


def cast_words(words: Array, source: DType, target: DType) -> Array:
    """A plain conversion of values: floats round to nearest even, integers truncate and wrap.

    Equal types keep their bits.
    """
    if source == target:
        return words
    values = decode(words, source)
    if target.is_float:
        if source.bits == 64 and target.bits == 32:
            return encode(values.astype(np.float32), target)
        return encode(values.astype(np.float64), target)
    return truncated(values.astype(np.float64), target) if source.is_float else encode(values, target)
