"""Windows of tiles, taken out of or written into a larger tile."""

from __future__ import annotations

import numpy as np

from ..types import ReluPreMode
from . import storage
from .layout import cast_words
from .numbers import Array, decode
from .step import Step, require_plain, rule


@rule("textract")
def _extract(step: Step) -> None:
    """Positions beyond the physical source read as all ones."""
    require_plain(step)
    row, col = _start(step, "src")
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    step.put(_converted(step, step.gather("src", rows + row, cols + col)))


@rule("tinsert")
def _insert(step: Step) -> None:
    require_plain(step)
    row, col = _start(step, "dst")
    places = storage.map_of(step.type())[row:, col:]
    words = _converted(step, step.raw("src", step.valid("src")))[: places.shape[0], : places.shape[1]]
    step.scatter(words, places[: words.shape[0], : words.shape[1]])


def _start(step: Step, large: str) -> tuple[int, int]:
    """Where the window starts; outside the larger tile is just beyond its end."""
    t = step.type(large)
    row, col = int(step.operands["indexRow"]), int(step.operands["indexCol"])
    return (row if 0 <= row < t.rows else t.rows, col if 0 <= col < t.cols else t.cols)


def _converted(step: Step, words: Array) -> Array:
    """Words of the destination's type; the clamp keeps what is greater than zero."""
    made = cast_words(words, step.dtype("src"), step.dtype())
    if step.attrs.get("reluPreMode") != ReluPreMode.NORMAL_RELU:
        return made
    return np.where(decode(made, step.dtype()) > 0, made, np.zeros_like(made))
