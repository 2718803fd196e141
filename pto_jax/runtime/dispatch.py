"""Calls with arrays that are there: one compiled function each, without work per call in Python."""

from functools import cache
from typing import Any

import jax
import numpy as np

from .tiles import Tile


@cache
def _device_array() -> type:
    """The type of JAX's arrays that are no tracers."""
    with jax.ensure_compile_time_eval():
        return type(jax.numpy.zeros(()))


def is_concrete(x: Any) -> bool:
    """Whether a value is an array of JAX or NumPy, in native byte order, or a Tile of such; no tracer."""
    kind = type(x)
    if kind is Tile:
        known = (_device_array(), np.ndarray)
        sizes = x.v_row, x.v_col
        return type(x.words) in known and all(s is None or type(s) in known for s in sizes)
    if kind is np.ndarray:
        return x.dtype.isnative and x.dtype.names is None and x.dtype.kind not in "OSUMm"
    return kind is _device_array()
