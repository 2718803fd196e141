"""Quantised layers in NumPy, written from the documentation of the formats alone."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

F32 = np.float32
Array = NDArray[Any]


def scale_of(x: Array, axis: int | None, largest: float) -> Array:
    top = np.abs(x).max(axis=axis, keepdims=axis is not None)
    scale: Array = (np.maximum(top, F32(2.0**-100)) / F32(largest)).astype(F32)
    return scale


def codes_of(x: Array, scale: Array, format: str) -> Array:
    scaled = (x * (F32(1) / scale)).astype(F32)
    if format == "int8":
        rounded: Array = np.clip(np.rint(scaled), -128, 127).astype(np.int8)
        return rounded
    limited: Array = np.clip(scaled, F32(-448), F32(448)).astype(ml_dtypes.float8_e4m3fn)
    return limited


def groups_of(x: Array) -> tuple[Array, Array]:
    """MXFP8 of rows: e4m3 codes, and the exponents of groups of 32 as powers of two."""
    rows, k = x.shape
    padded = np.pad(x, ((0, 0), (0, -k % 32))).reshape(rows, -1, 32)
    top = np.abs(padded).max(-1).astype(F32)
    exponent = np.maximum((top.view(np.uint32) >> 23).astype(int) - 8, 0) - 127
    scaled = padded * np.exp2(-exponent.astype(np.float64))[..., None]
    codes = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return codes.reshape(rows, -1)[:, :k], np.exp2(exponent.astype(np.float64))


def fold(a: Array, b: Array) -> Array:
    """Ascending sums in float32 along K: the sums of a block start with those of the blocks before."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in range(a.shape[1]):
        total = (total.astype(np.float64) + np.outer(a[:, k], b[k])).astype(F32)
    return total


def linear(x: Array, w: Array, bias: Array | None, format: str) -> Array:
    """A layer on rows of x, in exact numerics."""
    k = x.shape[1]
    if format in ("int8", "fp8"):
        largest = {"int8": 127.0, "fp8": 448.0}[format]
        sx, sw = scale_of(x, 1, largest), scale_of(w, 0, largest)
        a, b = codes_of(x, sx, format), codes_of(w, sw, format)
        if format == "int8":
            y = (a.astype(np.int32) @ b.astype(np.int32)).astype(F32)
        else:
            y = fold(a.astype(np.float64), b.astype(np.float64))
        y = ((y * sx).astype(F32) * sw).astype(F32)
    elif format == "mx":
        (a, ea), (b, eb) = groups_of(x), groups_of(np.ascontiguousarray(w.T))
        a = a.astype(np.float64) * np.repeat(ea, 32, 1)[:, :k]
        b = b.astype(np.float64) * np.repeat(eb, 32, 1)[:, :k]
        y = fold(a, b.T)
    else:
        d = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[format]
        a, b = x.astype(d).astype(np.float64), w.astype(d).astype(np.float64)
        y = fold(a, b)
    return y if bias is None else (y + bias).astype(F32)
