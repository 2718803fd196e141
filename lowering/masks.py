"""Packed bit masks: what comparisons write and selections read.

Bits are little-endian: column j of a row is bit ``j % W`` of mask word ``j // W``. Hardware keeps mask
rows aligned with tile rows. The simulator does so in tcmp and tsels, but tcmps packs the whole
physical source and reflows it over the mask's valid columns, and tsel reads one continuous bit stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import BLayout, CmpMode

from . import platforms, region
from .numerics import Integer
from .rules import Context, Inputs, Lanes

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, UInt

    from .arrays import Mask, Words


def lanes(inputs: Inputs, name: str) -> Lanes:
    """The words and valid sizes of the tile operand ``name``."""
    lanes = inputs[name]
    assert isinstance(lanes, Lanes)
    return lanes


def _cols(shape: tuple[int, ...]) -> Int32[Array, "..."]:
    return lax.broadcasted_iota(np.int32, shape, len(shape) - 1)


def _rows(shape: tuple[int, ...]) -> Int32[Array, "..."]:
    return lax.broadcasted_iota(np.int32, shape, 0)


def pack(flags: Mask, dtype: np.dtype) -> UInt[Array, "rows words"]:
    """Boolean [rows, cols] packed into words [rows, ceil(cols / W)]."""
    width = dtype.itemsize * 8
    rows, cols = flags.shape
    count = -(-cols // width)
    padded = jnp.pad(flags, ((0, 0), (0, count * width - cols))).reshape(rows, count, width)
    weights = lax.broadcasted_iota(dtype, (1, 1, width), 2)
    shifted = lax.convert_element_type(padded, dtype) << weights
    packed: Array = lax.reduce(shifted, dtype.type(0), lax.bitwise_or, (2,))
    return packed


def unpack(words: UInt[Array, "mask_rows mask_cols"], shape: tuple[int, int]) -> Mask:
    """Row-aligned mask words as boolean [rows, cols]."""
    width = words.dtype.itemsize * 8
    rows, cols = shape
    words = region.fit(words, (rows, -(-cols // width)), words.dtype.type(0))
    spread = jnp.repeat(words, width, axis=1)[:, :cols]
    shift = lax.convert_element_type(_cols((1, cols)) % np.int32(width), words.dtype)
    flags: Array = (spread >> shift) & words.dtype.type(1) != 0
    return flags


def store_rows(c: Context, inputs: Inputs, flags: Bool[Array, "src_rows src_cols"]) -> Words:
    """Row r of the flags into the leading words of mask row r.

    The a5 store whole predicates, whose bits behind the valid columns are zero.
    """
    t, source = c.tile("dst"), lanes(inputs, "src0")
    old = lanes(inputs, "dst").words
    packed = platforms.apart(lambda flags: pack(flags, old.dtype), flags, source.v_row)
    packed = region.fit(packed, t.shape, old.dtype.type(0))
    v_row, v_col = region.sizes(c.tile("src0"), source)
    width = old.dtype.itemsize * 8
    step = width if c.profile != "a5" else 256 if c.dtype("src0").bits == 8 else 128
    words = (v_col + np.int32(step - 1)) // np.int32(step) * np.int32(step // width)
    words = jnp.minimum(words, region.sizes(t, lanes(inputs, "dst"))[1])
    written = (_rows(t.shape) < v_row) & (_cols(t.shape) < words)
    if c.profile != "cpu_sim":
        return jnp.where(written, packed, old)
    # The simulator clears the tile first: all of it, or one column's worth of a column-major one.
    cleared = jnp.zeros_like(old)
    if t.blayout == BLayout.COL_MAJOR:
        cleared = jnp.where(_cols(t.shape) == 0, cleared, old)
    return jnp.where(written, packed, cleared)


def near(
    c: Context, mode: CmpMode, x: UInt[Array, "*#lanes"], y: UInt[Array, "*#lanes"]
) -> Bool[Array, "*lanes"]:
    """The simulator's tcmps compares EQ and NE in float64 with a tolerance of 1e-9."""
    a = c.arithmetic("src0")
    if isinstance(a, Integer):
        u, v = (lax.convert_element_type(a.decode(w), np.float64) for w in (x, y))
    else:
        u, v = (lax.convert_element_type(a.single(a.decode(w)), np.float64) for w in (x, y))
    distance = lax.abs(u - v)
    if mode == CmpMode.EQ:
        return distance < np.float64(1e-9)
    return (u != u) | (v != v) | (distance > np.float64(1e-9))


def reflow(c: Context, inputs: Inputs, flags: Bool[Array, "src_rows src_cols"]) -> Words:
    """One byte stream over all physical source rows, dealt out over the mask's valid columns."""
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    cols = flags.shape[1] // 8
    stream = pack(flags[:, : cols * 8], np.dtype(np.uint8)).reshape(-1)
    v_row, v_col = region.sizes(t, lanes(inputs, "dst"))
    rows, columns = _rows(t.shape), _cols(t.shape)
    index = rows * v_col + columns
    inside = (rows < v_row) & (columns < v_col) & (index < np.int32(stream.size))
    picked = (
        stream[jnp.clip(index, 0, max(stream.size - 1, 0))] if stream.size else jnp.zeros(t.shape, np.uint8)
    )
    return jnp.where(inside, lax.convert_element_type(picked, old.dtype), old.dtype.type(0))


def stream_bits(c: Context, inputs: Inputs, mask: UInt[Array, "mask_rows mask_cols"]) -> Mask:
    """Selection bits as the simulator's tsel reads them, bool of the destination's shape [rows, cols].

    Bit n of one stream over the valid region is that of its n-th lane, a byte per mask element; rows that the
    mask does not have read as ones.
    """
    t = c.tile("dst")
    v_col = region.sizes(t, lanes(inputs, "dst"))[1]
    mask_cols = jnp.maximum(region.sizes(c.tile("mask"), lanes(inputs, "mask"))[1], np.int32(1))
    n = _rows(t.shape) * v_col + _cols(t.shape)
    k = n // np.int32(8)
    row, rows = k // mask_cols, np.int32(mask.shape[0])
    column = jnp.clip(k % mask_cols, 0, mask.shape[1] - 1)
    byte = lax.convert_element_type(mask[jnp.minimum(row, rows - np.int32(1)), column], np.int32)
    byte = jnp.where(row < rows, byte, np.int32(0xFF))
    return (byte >> (n % np.int32(8))) & np.int32(1) != 0
