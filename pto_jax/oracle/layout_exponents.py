"""Exponents of block-scaled formats in boxes of boxes, one box after the other."""

import numpy as np

from ..ir import MxGroupAxis
from . import storage
from .numbers import Array
from .step import Step, rule


@rule("tmov.zz")
def _into_boxes(step: Step) -> None:
    """Box k holds two exponents for each of 16 lines; both axes differ in where these are in the source."""
    down = step.attrs["grpAxis"] == MxGroupAxis.AXIS0
    rows, cols = step.valid("src") if down else step.valid("dst")
    line, side = np.divmod(np.arange(32), 2)
    found = []
    if down:
        for column in range(cols // 16):
            for row in range(rows // 2):
                found.append(_exponents(step, 2 * row + side, 16 * column + line, rows, cols))
    else:
        for row in range(0, rows, 16):
            for column in range(cols // 2):
                found.append(_exponents(step, row + line, 2 * column + side, rows, cols))
    words = np.concatenate(found) if found else np.zeros(0, step.dtype().word)
    words = words[: step.type().elements]
    step.scatter(words, np.arange(len(words)))


def _exponents(step: Step, r: Array, c: Array, rows: int, cols: int) -> Array:
    """Elements (r, c) of the exponents as they follow each other in the source; zeros beyond its rows."""
    position = r * cols + c
    inside = (r < rows) & (position < step.type("src").elements)
    words = storage.read_words(*step.cells("src", np.where(inside, position, 0)))
    return np.where(inside, words, np.zeros_like(words))
