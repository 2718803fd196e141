"""Windows of tiles: reading one (textract) and writing one (tinsert)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.dtypes import DType
from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.types import ReluPreMode

from . import bits, convert
from .irregular_storage import inside, positions, scalar, source
from .masks import lanes
from .region import all_ones, merge
from .rules import Context, Inputs, rule


def relu(words: Array, dtype: DType) -> Array:
    """Values above zero, else zero: NaN becomes zero, and so does -0."""
    if dtype.is_float:
        positive = bits.decode(words, dtype) > np.float64(0)
    else:
        native = convert.integer(words, dtype)
        positive = native > native.dtype.type(0)
    return jnp.where(positive, words, dtype.word.type(0))


def _start(c: Context, inputs: Inputs, name: str) -> tuple[Array, Array]:
    """Row and column offset as int32; what is not inside the tile ``name`` is its size."""
    t = c.tile(name)
    row, col = (
        positions(scalar(inputs, n), c.dtype(n), limit)
        for n, limit in (("indexRow", t.rows), ("indexCol", t.cols))
    )
    return row, col


def _converted(c: Context, words: Array) -> Array:
    if c.has("preQuantScalar"):
        raise NotExecutableError(
            Diagnostic("error", "is not executed with preQuantScalar by this version", None, c.instruction)
        )
    if c.attrs.get("reluPreMode") == ReluPreMode.NORMAL_RELU:
        words = relu(words, c.dtype("src"))
    return convert.cast(words, c.dtype("src"), c.dtype("dst"))


@rule("textract")
def _textract(c: Context, inputs: Inputs) -> dict[str, Array]:
    t, fill = c.tile("dst"), all_ones(c.dtype("src"))
    whole = jnp.pad(source(c, inputs, "src"), ((0, t.rows), (0, t.cols)), constant_values=fill)
    window = lax.dynamic_slice(whole, _start(c, inputs, "src"), t.shape)
    return {"dst": merge(c, inputs, _converted(c, window))}


@rule("tinsert")
def _tinsert(c: Context, inputs: Inputs) -> dict[str, Array]:
    """What is valid in src is written; nothing outside dst is."""
    t, src = c.tile("dst"), c.tile("src")
    new, start = _converted(c, lanes(inputs, "src").words), _start(c, inputs, "dst")
    whole = jnp.pad(lanes(inputs, "dst").words, ((0, src.rows), (0, src.cols)))
    window = lax.dynamic_slice(whole, start, src.shape)
    window = jnp.where(inside(c, inputs, "src"), new, window)
    return {"dst": lax.dynamic_update_slice(whole, window, start)[: t.rows, : t.cols]}
