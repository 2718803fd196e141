"""Copies that fill what is not valid with a pad value."""

from dataclasses import replace

import numpy as np

from ..ir import Loc, Pad
from . import convert, memory, numbers, storage
from .step import Step, other_rule, rule


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


@other_rule("finite-pads", "tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _finite(step: Step) -> None:
    """Pads max and min are the largest finite numbers."""
    limits = convert.range_of(step.dtype())
    _fill_with(step, limits[0] if step.type().pad == Pad.MIN else limits[1])


@other_rule("minus-one", "tfillpad")
def _minus_one(step: Step) -> None:
    """Pad zero stands for -1, which no type can say."""
    _fill_with(step, -1.0)


def _fill_with(step: Step, value: float) -> None:
    word = int(numbers.encode(np.array([[value]]), step.dtype())[0, 0])
    _fill(replace(step, attrs={**step.attrs, "padValue": word}))


def _pad(step: Step) -> np.generic | numbers.Array:
    dst = step.type()
    given = step.attrs.get("padValue")
    if isinstance(given, int):
        return dst.dtype.word.type(given & ((1 << dst.dtype.bits) - 1))
    return memory.pad_word(dst, wide=False)
