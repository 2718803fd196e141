"""Windows of tiles: reading one (textract) and writing one (tinsert)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from . import layout_img2col, quantise, region, slicing
from .irregular_storage import inside, positions, scalar, source
from .masks import lanes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int32


def _start(c: Context, inputs: Inputs, name: str) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Row and column offset as int32; what is not inside the tile ``name`` is its size."""
    t = c.tile(name)
    row, col = (
        positions(scalar(inputs, n), c.dtype(n), limit)
        for n, limit in (("indexRow", t.rows), ("indexCol", t.cols))
    )
    return row, col


@rule("textract")
def extract(c: Context, inputs: Inputs) -> Outputs:
    """The window of src from (indexRow, indexCol) on, all bits set outside src.

    Of a convolution tile it is a window of its img2col.
    """
    if c.tile("src").conv is not None:
        return {"dst": layout_img2col.extracted(c, inputs)}
    t, fill = c.tile("dst"), region.all_ones(c.dtype("src"))
    whole = jnp.pad(source(c, inputs, "src"), ((0, t.rows), (0, t.cols)), constant_values=fill)
    start = _start(c, inputs, "src")
    window = slicing.slice_at(whole, start, t.shape)
    return {"dst": region.merge(c, inputs, quantise.through(c, inputs, window, t.dtype, first=start[1]))}


@rule("tinsert")
def insert(c: Context, inputs: Inputs) -> Outputs:
    """What is valid in src is written; nothing outside dst is."""
    t, src = c.tile("dst"), c.tile("src")
    new, start = quantise.through(c, inputs, lanes(inputs, "src").words, t.dtype), _start(c, inputs, "dst")
    whole = jnp.pad(lanes(inputs, "dst").words, ((0, src.rows), (0, src.cols)))
    window = slicing.slice_at(whole, start, src.shape)
    window = jnp.where(inside(c, inputs, "src"), new, window)
    return {"dst": slicing.with_slice(whole, window, start)[: t.rows, : t.cols]}
