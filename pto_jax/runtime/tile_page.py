"""Tiles in notebooks: a heat map of the values, in which the valid region stands out."""

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Cells that are shown per axis; larger tiles show every second, third ... element.
CELLS = 64
_OUTSIDE = "#d8d8d8"
_SIZE = "width:7px;height:7px;padding:0;border:0"


def page(caption: str, numbers: NDArray[Any], valid: tuple[int, int]) -> str:
    """HTML of a tile's numbers [rows, cols]: a caption, and a cell for each element, coloured by value.

    Blue is the least finite number of the valid region, yellow the largest, red what is not finite, grey what
    is outside the region.
    """
    rows, cols = numbers.shape
    steps = (-(-rows // CELLS), -(-cols // CELLS))
    shown = numbers[:: steps[0], :: steps[1]]
    inside = numbers[: valid[0], : valid[1]]
    finite = inside[np.isfinite(inside)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    body = "".join(
        "<tr>"
        + "".join(_cell(shown, i, j, steps, valid, (low, high)) for j in range(shown.shape[1]))
        + "</tr>"
        for i in range(shown.shape[0])
    )
    scale = f"{low:.5g} to {high:.5g}" if finite.size else "no finite numbers"
    every = f", every {steps[0]}. row and {steps[1]}. column" if steps != (1, 1) else ""
    return (
        f"<div><code>{escape(caption)}</code><br><small>{scale}{every}</small>"
        f'<table style="border-collapse:collapse;border:1px solid #888">{body}</table></div>'
    )


def _cell(
    shown: NDArray[Any],
    i: int,
    j: int,
    steps: tuple[int, int],
    valid: tuple[int, int],
    limits: tuple[float, float],
) -> str:
    value, at = float(shown[i, j]), (i * steps[0], j * steps[1])
    outside = at[0] >= valid[0] or at[1] >= valid[1]
    colour = _OUTSIDE if outside else _colour(value, *limits)
    return f'<td title="[{at[0]}, {at[1]}] {value:.6g}" style="{_SIZE};background:{colour}"></td>'


def _colour(value: float, low: float, high: float) -> str:
    """From dark blue over green to yellow, as the usual maps go; red for what is not finite."""
    if not np.isfinite(value):
        return "#d62728"
    at = 0.5 if high <= low else (value - low) / (high - low)
    ends = ((68, 1, 84), (33, 145, 140), (253, 231, 37))
    (a, b), part = (ends[:2], 2 * at) if at < 0.5 else (ends[1:], 2 * at - 1)
    return "#" + "".join(f"{round(x + (y - x) * part):02x}" for x, y in zip(a, b, strict=True))
