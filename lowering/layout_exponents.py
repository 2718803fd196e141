"""Exponents of block-scaled formats in boxes of boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.ir import MxGroupAxis
from pto_jax.isa.layout_exponents import BOX_COLS, BOX_ROWS

from . import irregular_storage, masks, region
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int32

    from .arrays import Size

_ROWS, _COLS, _ONE = np.int32(BOX_ROWS), np.int32(BOX_COLS), np.int32(1)
_BOX = _ROWS * _COLS


@rule("tmov.zz")
def _into_boxes(c: Context, inputs: Inputs) -> Outputs:
    """Every element of dst, by its number, takes the element of src that belongs there."""
    down = c.attrs["grpAxis"] == MxGroupAxis.AXIS0
    name, old = "src" if down else "dst", irregular_storage.flat(c, inputs, "src")
    rows, cols = region.sizes(c.tile(name), masks.lanes(inputs, name))
    number = irregular_storage.iota((c.tile("dst").elements,), 0)
    row, col, boxes = _down(number, rows, cols) if down else _across(number, rows, cols)
    found = old.at[row * cols + col].get(mode="fill", fill_value=0)
    found = jnp.where(row < rows, found, old.dtype.type(0))
    return {"dst": irregular_storage.store_first(c, inputs, "dst", found, boxes * _BOX)}


def _across(
    number: Int32[Array, " elements"], rows: Size, cols: Size
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Size]:
    """Row and column of exponents in boxes that follow each other along the rows; how many boxes."""
    box, line, side = _place(number)
    pairs = cols // _COLS
    divisor = jnp.maximum(pairs, _ONE)
    row, col = box // divisor * _ROWS + line, box % divisor * _COLS + side
    return row, col, (rows + _ROWS - _ONE) // _ROWS * pairs


def _down(
    number: Int32[Array, " elements"], rows: Size, cols: Size
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Size]:
    """As :func:`_across`, in boxes that follow each other down the columns, with rows side by side."""
    box, line, side = _place(number)
    pairs = rows // _COLS
    divisor = jnp.maximum(pairs, _ONE)
    row, col = box % divisor * _COLS + side, box // divisor * _ROWS + line
    return row, col, cols // _ROWS * pairs


def _place(
    number: Int32[Array, " elements"],
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Int32[Array, " elements"]]:
    """The box of an element, its line in there, and its place in the line."""
    return number // _BOX, number % _BOX // _COLS, number % _COLS
