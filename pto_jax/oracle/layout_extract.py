"""Windows of tiles, taken out of or written into a larger tile."""

import numpy as np

from . import layout_img2col, numbers, quantise, storage
from .step import Step, rule


@rule("textract")
def _extract(step: Step) -> None:
    if step.type("src").conv is not None:
        layout_img2col.extract_weights(step)
        return
    step.put(quantise.outgoing(step, window(step)[0], step.dtype(), quantise.scalar_parameter(step)))


@rule("tinsert")
def _insert(step: Step) -> None:
    words = step.raw("src", step.valid("src"))
    insert(step, quantise.outgoing(step, words, step.dtype(), quantise.scalar_parameter(step)))


def window(step: Step) -> tuple[numbers.Array, numbers.Array]:
    """Words of the source in the window, and its columns there.

    Positions beyond the physical source read as all ones.
    """
    row, col = _start(step, "src")
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    return step.gather("src", rows + row, cols + col), cols + col


def insert(step: Step, words: numbers.Array) -> None:
    """Write words of the destination's type into its window; what lies beyond it is dropped."""
    row, col = _start(step, "dst")
    places = storage.map_of(step.type())[row:, col:]
    words = words[: places.shape[0], : places.shape[1]]
    step.scatter(words, places[: words.shape[0], : words.shape[1]])


def _start(step: Step, large: str) -> tuple[int, int]:
    """Where the window starts; outside the larger tile is just beyond its end."""
    t = step.type(large)
    row, col = int(step.operands["indexRow"]), int(step.operands["indexCol"])
    return (row if 0 <= row < t.rows else t.rows, col if 0 <= col < t.cols else t.cols)
