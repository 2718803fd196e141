"""Quantisation to 8-bit integers with row parameters, and back."""

import numpy as np

from ..ir import QuantType
from .numbers import Array, decode, encode
from .step import Step, rule


@rule("tquant")
def _tquant(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    rows, cols = min(rows, t.rows), min(cols, t.cols)
    scaled = step.values("src", (rows, cols)) * _parameter(step, "scale", rows)
    low, high = -128.0, 127.0
    if step.attrs["quant_type"] == QuantType.INT8_ASYM:
        scaled = scaled + _parameter(step, "offset", rows)
        low, high = 0.0, 255.0
    rounded = np.where(np.isnan(scaled), np.float32(0.0), np.clip(np.rint(scaled), low, high))
    step.put(rounded.astype(np.int16).astype(t.dtype.word), region=(rows, cols))


def _parameter(step: Step, name: str, rows: int) -> Array:
    """Column 0 of a parameter tile, whose last valid row serves all rows from there on."""
    last = max(step.valid(name)[0] - 1, 0)
    words = step.gather(name, np.minimum(np.arange(rows), last)[:, None], np.zeros((1, 1), np.int64))
    return decode(step.flushed(words, name), step.dtype(name))


@rule("tdequant")
def _tdequant(step: Step) -> None:
    d, (rows, cols) = step.dtype(), step.region
    last = max(step.valid("scale")[1] - 1, 0)
    at = np.arange(rows)[:, None], np.minimum(np.arange(cols), last)[None, :]
    scale, offset = (
        decode(encode(decode(step.flushed(step.gather(n, *at), n), step.dtype(n)), d), d)
        for n in ("scale", "offset")
    )
    code = decode(encode(step.values("src").astype(np.float64), d), d)
    step.store(encode((code - offset) * scale, d))
