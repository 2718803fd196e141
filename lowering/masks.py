"""Comparisons into packed bit masks and selections by them.

Bits are little-endian: column j of a row is bit ``j % W`` of mask word ``j // W``. Hardware keeps mask
rows aligned with tile rows. The simulator does so in tcmp and tsels, but tcmps packs the whole
physical source and reflows it over the mask's valid columns, and tsel reads one continuous bit stream.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.types import BLayout, CmpMode, TileType

from . import region
from .numerics import Integer
from .region import merge, read
from .rules import Context, Inputs, Lanes, rule


def _size(t: int | None, traced: Array | None) -> Array | np.int32:
    if t is not None:
        return np.int32(t)
    assert traced is not None
    return traced


def _region(t: TileType, lanes: Lanes) -> tuple[Array | np.int32, Array | np.int32]:
    return _size(t.v_row, lanes.v_row), _size(t.v_col, lanes.v_col)


def _lanes(inputs: Inputs, name: str) -> Lanes:
    lanes = inputs[name]
    assert isinstance(lanes, Lanes)
    return lanes


def _cols(shape: tuple[int, ...]) -> Array:
    return lax.broadcasted_iota(np.int32, shape, len(shape) - 1)


def _rows(shape: tuple[int, ...]) -> Array:
    return lax.broadcasted_iota(np.int32, shape, 0)


def pack(flags: Array, dtype: np.dtype) -> Array:
    """Boolean [rows, cols] packed into words [rows, ceil(cols / W)]."""
    width = dtype.itemsize * 8
    rows, cols = flags.shape
    count = -(-cols // width)
    padded = jnp.pad(flags, ((0, 0), (0, count * width - cols))).reshape(rows, count, width)
    weights = np.arange(width, dtype=dtype)
    shifted = lax.convert_element_type(padded, dtype) << weights
    return lax.reduce(shifted, dtype.type(0), lax.bitwise_or, (2,))


def unpack(words: Array, shape: tuple[int, int]) -> Array:
    """Row-aligned mask words as boolean [rows, cols]."""
    width = words.dtype.itemsize * 8
    rows, cols = shape
    words = region.fit(words, (rows, -(-cols // width)), words.dtype.type(0))
    spread = jnp.repeat(words, width, axis=1)[:, :cols]
    shift = lax.convert_element_type(_cols((1, cols)) % np.int32(width), words.dtype)
    return (spread >> shift) & words.dtype.type(1) != 0


def _store_rows(c: Context, inputs: Inputs, flags: Array) -> Array:
    """Row r of the flags into the leading words of mask row r."""
    t, source = c.tile("dst"), _lanes(inputs, "src0")
    old = _lanes(inputs, "dst").words
    packed = region.fit(pack(flags, old.dtype), t.shape, old.dtype.type(0))
    v_row, v_col = _region(c.tile("src0"), source)
    width = np.int32(old.dtype.itemsize * 8)
    words = jnp.minimum((v_col + width - np.int32(1)) // width, _region(t, _lanes(inputs, "dst"))[1])
    written = (_rows(t.shape) < v_row) & (_cols(t.shape) < words)
    if c.profile != "cpu_sim":
        return jnp.where(written, packed, old)
    # The simulator clears the tile first: all of it, or one column's worth of a column-major one.
    cleared = jnp.zeros_like(old)
    if t.blayout == BLayout.COL_MAJOR:
        cleared = jnp.where(_cols(t.shape) == 0, cleared, old)
    return jnp.where(written, packed, cleared)


@rule("tcmp")
def _tcmp(c: Context, inputs: Inputs) -> dict[str, Array]:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = _lanes(inputs, "src0")
    other = read(c, inputs, "src1", over="src0")
    flags = a.compare(mode, a.num(source.words), a.num(other))
    inside = region.mask(c.tile("src0"), source)
    return {"dst": _store_rows(c, inputs, flags if inside is None else flags & inside)}


def _near(c: Context, mode: CmpMode, x: Array, y: Array) -> Array:
    """The simulator's tcmps compares EQ and NE in float64 with a tolerance of 1e-9."""
    a = c.arithmetic("src0")
    if isinstance(a, Integer):
        u, v = (lax.convert_element_type(a.num(w), np.float64) for w in (x, y))
    else:
        u, v = (lax.convert_element_type(a.single(a.num(w)), np.float64) for w in (x, y))
    distance = lax.abs(u - v)
    if mode == CmpMode.EQ:
        return distance < np.float64(1e-9)
    return (u != u) | (v != v) | (distance > np.float64(1e-9))


@rule("tcmps")
def _tcmps(c: Context, inputs: Inputs) -> dict[str, Array]:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = _lanes(inputs, "src0")
    scalar = inputs["src1"]
    y = jnp.broadcast_to(_first(scalar), source.words.shape)
    if c.profile == "cpu_sim" and isinstance(scalar, Lanes):
        y = read(c, inputs, "src1", over="src0")
    if c.profile == "cpu_sim" and mode in (CmpMode.EQ, CmpMode.NE):
        flags = _near(c, mode, source.words, y)
    else:
        flags = a.compare(mode, a.num(source.words), a.num(y))
    inside = region.mask(c.tile("src0"), source)
    flags = flags if inside is None else flags & inside
    if c.profile != "cpu_sim":
        return {"dst": _store_rows(c, inputs, flags)}
    return {"dst": _reflow(c, inputs, flags)}


def _first(operand: Lanes | Array) -> Array:
    """The scalar of tcmps; of a tile, hardware takes element (0, 0)."""
    return operand.words[0, 0] if isinstance(operand, Lanes) else operand


def _reflow(c: Context, inputs: Inputs, flags: Array) -> Array:
    """One byte stream over all physical source rows, dealt out over the mask's valid columns."""
    t, old = c.tile("dst"), _lanes(inputs, "dst").words
    cols = flags.shape[1] // 8
    stream = pack(flags[:, : cols * 8], np.dtype(np.uint8)).reshape(-1)
    v_row, v_col = _region(t, _lanes(inputs, "dst"))
    rows, columns = _rows(t.shape), _cols(t.shape)
    index = rows * v_col + columns
    inside = (rows < v_row) & (columns < v_col) & (index < np.int32(stream.size))
    picked = stream[jnp.clip(index, 0, max(stream.size - 1, 0))] if stream.size else jnp.zeros(t.shape, np.uint8)
    return jnp.where(inside, lax.convert_element_type(picked, old.dtype), old.dtype.type(0))


def _stream_bits(c: Context, inputs: Inputs, mask: Array) -> Array:
    """The simulator's tsel: bit n of one stream over the valid region, a byte per mask element."""
    t = c.tile("dst")
    v_col = _region(t, _lanes(inputs, "dst"))[1]
    mask_cols = jnp.maximum(_region(c.tile("mask"), _lanes(inputs, "mask"))[1], np.int32(1))
    n = _rows(t.shape) * v_col + _cols(t.shape)
    k = n // np.int32(8)
    row = jnp.clip(k // mask_cols, 0, mask.shape[0] - 1)
    column = jnp.clip(k % mask_cols, 0, mask.shape[1] - 1)
    byte = lax.convert_element_type(mask[row, column], np.int32)
    return (byte >> (n % np.int32(8))) & np.int32(1) != 0


@rule("tsel")
def _tsel(c: Context, inputs: Inputs) -> dict[str, Array]:
    x, y = read(c, inputs, "src0"), read(c, inputs, "src1")
    mask = read(c, inputs, "mask", over="mask")
    chosen = _stream_bits(c, inputs, mask) if c.profile == "cpu_sim" else unpack(mask, c.tile("dst").shape)
    return {"dst": merge(c, inputs, jnp.where(chosen, x, y))}


@rule("tsels")
def _tsels(c: Context, inputs: Inputs) -> dict[str, Array]:
    x, s = read(c, inputs, "src"), read(c, inputs, "scalar")
    mask = read(c, inputs, "mask", over="mask")
    return {"dst": merge(c, inputs, jnp.where(unpack(mask, c.tile("dst").shape), x, s))}
