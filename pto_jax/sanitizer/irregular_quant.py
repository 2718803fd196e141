"""Definedness of quantisation and its inverse."""

import numpy as np

from ..ir import QuantType
from ..oracle.numbers import Array
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("tquant")
def _quantise(step: ShadowStep) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    rows, cols = min(rows, t.rows), min(cols, t.cols)
    origin_ids = first(step.raw("src", (rows, cols)), _parameter(step, "scale", rows))
    if step.attrs["quant_type"] == QuantType.INT8_ASYM:
        origin_ids = first(origin_ids, _parameter(step, "offset", rows))
    step.put(origin_ids, (rows, cols))


def _parameter(step: ShadowStep, name: str, rows: int) -> Array:
    """Column 0, whose last valid row serves all rows from there on."""
    last = max(step.valid(name)[0] - 1, 0)
    return step.gather(name, np.minimum(np.arange(rows), last)[:, None], np.zeros((1, 1), np.int64))


@shadow_rule("tdequant")
def _dequantise(step: ShadowStep) -> None:
    rows, cols = step.region
    last = max(step.valid("scale")[1] - 1, 0)
    at = np.arange(rows)[:, None], np.minimum(np.arange(cols), last)[None, :]
    step.put(first(step.raw("src"), step.gather("scale", *at), step.gather("offset", *at)))
