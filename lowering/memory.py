"""Transfers between global memory and tiles.

Global memory is one flat array of words per buffer. A static window whose dimensions nest becomes slices
and reshapes; every other window becomes a gather or scatter by computed addresses. Lanes outside the
window or the buffer read zero and are not written.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar, View
from pto_jax.ir.dtypes import DType
from pto_jax.ir.types import AtomicType, BLayout, GlobalLayout, Pad, TileType

from . import atomics, masks, memory_convolution, quantise, region
from .machine import addresses, slices, storage
from .memory_layouts import Placed, Window, within
from .rules import Context, Inputs, Lanes


def pad_word(dtype: DType, pad: Pad, profile: str) -> np.unsignedinteger:
    """The word a pad value stands for.

    Float formats of 8 bits and less pad with zero, and so do 64-bit integers except on the simulator.
    """
    word = dtype.word.type
    narrow = dtype.is_float and dtype.bits < 16
    if pad in (Pad.NULL, Pad.ZERO) or narrow or (dtype.bits == 64 and profile != "cpu_sim"):
        return word(0)
    if dtype.is_float:
        infinity = ((1 << dtype.exponent) - 1) << dtype.mantissa
        return word(infinity | (0 if pad == Pad.MAX else 1 << (dtype.bits - 1)))
    value = dtype.max_int if pad == Pad.MAX else dtype.min_int
    return word(value & ((1 << dtype.word_bits) - 1))


def window_of(c: Context, view: View, tile: str) -> Placed:
    """The window of a transfer; a layout the instruction gives goes before the view's own.

    For a convolution tile it is one row.
    """
    given, conv = c.attrs.get("layout"), c.tile(tile).conv
    layout = given if isinstance(given, GlobalLayout) else view.layout
    if conv is None:
        return Window.of(view, layout)
    layout = conv.layout if layout is None else layout
    if layout == conv.layout:
        return Window.of(view, layout, flat=True)
    return memory_convolution.converted(view, layout, conv)


def is_inside(t: TileType, window: Placed, buffer: Array) -> bool:
    """Whether a transfer of the tile's valid region is known to stay in the window and in the buffer."""
    block = window.block()
    if t.v_row is None or t.v_col is None or block is None or not block.within(buffer):
        return False
    return block.rows >= t.v_row and block.cols >= t.v_col


def exceeded(t: TileType, lanes: Lanes, window: Placed) -> Array:
    """Whether a transfer has more lanes than the window has elements for."""
    sizes, limits = region.sizes(t, lanes), map(addresses.wide, window.lanes())
    larger = [lax.convert_element_type(n, np.int64) > m for n, m in zip(sizes, limits, strict=True)]
    some = (sizes[0] > np.int32(0)) & (sizes[1] > np.int32(0))
    return jnp.asarray(some & (larger[0] | larger[1]))


def transferred(t: TileType, lanes: Lanes, window: Placed) -> tuple[Array, Array]:
    """The first and the last element of the buffer that a transfer of the valid region addresses."""
    moved: Scalar = True
    for number, limit in zip(np.indices(t.shape, np.int64, sparse=True), window.lanes(), strict=True):
        moved = moved & (number < addresses.wide(limit))
    inside = region.mask(t, lanes)
    return addresses.reach(window.addresses(t.shape), moved if inside is None else moved & inside)


def fetch(buffer: Array, window: Placed, shape: tuple[int, int]) -> Array:
    """The window's elements on a tile shape; lanes beyond the window or the buffer are zero."""
    fill = buffer.dtype.type(0)
    block = window.block()
    if block is not None and block.within(buffer) and block.fits(shape):
        return region.fit(block.read(buffer[block.begin : block.end]), shape, fill)
    block = window.moving_block()
    if block is not None and block.span <= buffer.shape[0] and block.fits(shape) and not block.is_sparse:
        return region.fit(block.read(slices.read(buffer, window.offset, block.span)), shape, fill)
    where = within(window.addresses(shape), buffer)
    return buffer.at[where].get(mode="fill", fill_value=0)


def tload(c: Context, dst: Lanes, view: View, buffer: Array) -> Array:
    """The new words of the destination tile."""
    t = c.tile("dst")
    window = window_of(c, view, "dst")
    fetched = fetch(buffer, window, t.shape)
    if isinstance(window, memory_convolution.Converted):
        return window.filled(fetched, dst.words)
    inside = region.mask(t, dst)
    if inside is None:
        return fetched
    fill = pad_word(t.dtype, t.pad, c.profile)
    if c.profile == "cpu_sim":
        return jnp.where(inside, fetched, fill)
    if t.pad == Pad.NULL:
        return jnp.where(inside, fetched, dst.words)
    return jnp.where(inside, fetched, jnp.where(_tail(t, dst), fill, dst.words))


def tprefetch(c: Context, dst: Lanes, view: View, buffer: Array) -> Array:
    """The simulator's linear copy: neither the window's strides nor the tile's layout count."""
    t = c.tile("dst")
    line = Window.of(View(view.buffer, view.dtype, view.offset, (t.elements,), (1,)))
    found = fetch(buffer, line, (1, t.elements))[0]
    where = within(line.addresses((1, t.elements)), buffer)[0]
    written, inside = where < np.int32(buffer.shape[0]), region.mask(t, dst)
    if inside is not None:
        written &= inside.reshape(-1)
    return storage.to_logical(jnp.where(written, found, storage.to_physical(dst.words, t)), t)


def _tail(t: TileType, lanes: Lanes) -> Array:
    """Lanes from the end of each valid row (column, in column-major tiles) to the next 32 bytes."""
    block = np.int32(max(1, 32 * 8 // t.dtype.storage_bits))
    row, col = region.sizes(t, lanes)
    rows = lax.broadcasted_iota(np.int32, t.shape, 0)
    cols = lax.broadcasted_iota(np.int32, t.shape, 1)
    if t.blayout == BLayout.COL_MAJOR:
        return (cols < col) & (rows < (row + block - np.int32(1)) // block * block)
    return (rows < row) & (cols < (col + block - np.int32(1)) // block * block)


def tstore(c: Context, inputs: Inputs, view: View, buffer: Array) -> Array:
    """The buffer with the tile's valid region written through the window, or added to what is there."""
    t, src, window = c.tile("src"), masks.lanes(inputs, "src"), window_of(c, view, "src")
    src = src._replace(words=quantise.stored(c, inputs, view.dtype))
    if c.attrs.get("atomicType") != AtomicType.ATOMIC_ADD:
        return put(t, src, window, buffer)
    if window.meets(t.shape) is False:
        sums = atomics.add(c, view.dtype, fetch(buffer, window, t.shape), src.words)
        return put(t, src._replace(words=sums), window, buffer)
    where = targets(t, src, window, buffer).reshape(-1)
    total: Array = atomics.accumulate(c, view.dtype, buffer, where, src.words.reshape(-1))
    return total


def put(t: TileType, src: Lanes, window: Placed, buffer: Array) -> Array:
    """The buffer with words of the tile's valid region (elements of the buffer) written."""
    stored = _put_block(t, src, window, buffer)
    if stored is not None:
        return stored
    where, words = targets(t, src, window, buffer).reshape(-1), src.words.reshape(-1)
    # Sorting pays only where lanes meet for certain; with strides of run time the scatter's order stands.
    if window.meets(t.shape):
        return atomics.overwrite(buffer, where, words)
    return buffer.at[where].set(words, mode="drop")


def targets(t: TileType, src: Lanes, window: Placed, buffer: Array) -> Array:
    """int32 buffer positions of the tile's lanes; the buffer's size where nothing is written."""
    where, inside = within(window.addresses(t.shape), buffer), region.mask(t, src)
    return where if inside is None else jnp.where(inside, where, np.int32(buffer.shape[0]))


def _put_block(t: TileType, src: Lanes, window: Placed, buffer: Array) -> Array | None:
    """A store through a block as slice updates; None when it is not one."""
    block = window.block()
    if block is None or not block.within(buffer) or not block.fits(t.shape):
        return None
    shape = block.rows, block.cols
    if any(size is not None and size > n for size, n in zip(t.valid, shape, strict=True)):
        return None
    words, inside = src.words[: block.rows, : block.cols], region.mask(t, src, shape)
    if inside is None and block.is_dense:
        flat = block.written(words)
        if flat.shape == buffer.shape:
            return flat
        return lax.dynamic_update_slice(buffer, flat, (np.int32(block.begin),))
    old = buffer[block.begin : block.end]
    if inside is not None:
        words = jnp.where(inside, words, block.read(old))
    return lax.dynamic_update_slice(buffer, block.written(words, old), (np.int32(block.begin),))
