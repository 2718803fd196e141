"""Copies that fill what is not valid with a pad value."""

from __future__ import annotations

import numpy as np

from ..ir.types import Loc
from . import storage
from .memory import pad_word
from .numbers import Array
from .step import Step, rule


@rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: Step) -> None:
    dst, (v_row, v_col) = step.type(), step.valid("dst")
    if not (v_row and v_col):
        return
    whole = step.policy.simulator or dst.loc == Loc.MAT
    extent = (dst.rows if whole else v_row, dst.cols)
    filled = np.full(extent, _pad(step), dst.dtype.word)
    copied = step.raw("src", step.valid("src"))[: extent[0], : extent[1]]
    filled[: copied.shape[0], : copied.shape[1]] = copied
    step.scatter(filled, storage.map_of(dst)[: extent[0]])


def _pad(step: Step) -> np.generic | Array:
    dst = step.type()
    given = step.attrs.get("padValue")
    if isinstance(given, int):
        return dst.dtype.word.type(given & ((1 << dst.dtype.bits) - 1))
    return pad_word(dst, wide=False)
