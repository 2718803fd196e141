"""Transfers between global memory and tiles.

Global memory is one flat array of words per buffer. A static window whose dimensions nest becomes slices
and reshapes; every other window becomes a gather or scatter by computed addresses. Lanes outside the
window or the buffer read zero and are not written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar, View
from pto_jax.ir import AtomicType, BLayout, DType, GlobalLayout, Loc, Pad, TileType

from . import atomics, masks, memory_convolution, memory_lines, platforms, quantise, region, slicing
from .machine import addresses, slices
from .memory_layouts import Placed, Window, block_of, fetch, inner_block, within
from .rules import Context, GlobalMemory, Inputs, Lanes, memory_rule
from .words import from_words, moved_as, numbers_of, raw

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64, UInt

    from .arrays import Elements, Flat, Mask, Words
    from .machine.ranges import Range


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

    For a convolution tile it is one row. On a5 a view that says nothing has the order of a vec tile in NZ.
    """
    given, t = c.attrs.get("layout"), c.tile(tile)
    conv, layout = t.conv, given if isinstance(given, GlobalLayout) else view.layout
    if layout is None and c.profile == "a5" and t.loc == Loc.VEC and t.layout == "NZ":
        layout = GlobalLayout.NZ
    if conv is None:
        return Window.of(view, layout)
    layout = conv.layout if layout is None else layout
    if layout == conv.layout:
        return Window.of(view, layout, flat=True)
    return memory_convolution.converted(view, layout, conv)


def is_inside(t: TileType, window: Placed, buffer: Flat) -> bool:
    """Whether a transfer of the tile's valid region is known to stay in the window and in the buffer."""
    block = window.block()
    if t.v_row is None or t.v_col is None or block is None or not block.within(buffer):
        return False
    return block.rows >= t.v_row and block.cols >= t.v_col


def exceeded(t: TileType, lanes: Lanes, window: Placed) -> Bool[Array, ""]:
    """Whether a transfer has more lanes than the window has elements for."""
    sizes, limits = region.sizes(t, lanes), map(addresses.wide, window.lanes())
    larger = [lax.convert_element_type(n, np.int64) > m for n, m in zip(sizes, limits, strict=True)]
    some = (sizes[0] > np.int32(0)) & (sizes[1] > np.int32(0))
    return jnp.asarray(some & (larger[0] | larger[1]))


def always_inside(t: TileType, window: Placed, memory: GlobalMemory) -> bool:
    """Whether a transfer of the tile's valid region is in the window and the buffer, wherever it begins."""
    block, offsets = window.moving_block(), memory.offsets
    if t.v_row is None or t.v_col is None or block is None or offsets is None:
        return False
    inside = offsets.low >= 0 and offsets.high + block.span <= memory.buffer.shape[0]
    return inside and block.rows >= t.v_row and block.cols >= t.v_col


def transferred(t: TileType, lanes: Lanes, window: Placed) -> tuple[Int64[Array, ""], Int64[Array, ""]]:
    """The first and the last element of the buffer that a transfer of the valid region addresses."""
    corners = window.corners(region.sizes(t, lanes)) if isinstance(window, Window) else None
    if corners is not None:
        return corners
    moved: Scalar = True
    for number, limit in zip(np.indices(t.shape, np.int64, sparse=True), window.lanes(), strict=True):
        moved = moved & (number < addresses.wide(limit))
    inside = region.mask(t, lanes)
    return addresses.reach(window.addresses(t.shape), moved if inside is None else moved & inside)


@memory_rule("tload")
def tload(c: Context, inputs: Inputs, memory: GlobalMemory) -> Words:
    """The new words of the destination tile."""
    t, dst, buffer = c.tile("dst"), masks.lanes(inputs, "dst"), memory.buffer
    _require_in_bounds(c, "dst", dst, memory)
    window = window_of(c, memory.view, "dst")
    source = buffer if memory.constant is None else memory.constant
    fetched = _fetched(source, window, t.shape, memory.offsets)
    if isinstance(window, memory_convolution.Converted):
        return window.filled(fetched, dst.words)
    inside = region.mask(t, dst)
    if inside is None:
        fast = c.semantics.numerics == "fast"
        return _alone(buffer, window, memory.view.dtype, fetched) if fast else fetched
    fill = pad_word(t.dtype, t.pad, c.profile)
    if c.profile == "cpu_sim":
        return jnp.where(inside, fetched, fill)
    if t.pad == Pad.NULL:
        return jnp.where(inside, fetched, dst.words)
    return jnp.where(inside, fetched, jnp.where(_tail(t, dst), fill, dst.words))


def _alone(buffer: Flat, window: Placed, dtype: DType, fetched: Words) -> Words:
    """What a window has of a buffer of elements of a type, where it is all of it, as a reshape by itself.

    That costs nothing, and in XLA's reductions much.
    """
    if fetched.size != buffer.size:
        return fetched
    block = window.block()
    if block is not None and block.is_all(buffer) and (block.rows, block.cols) == fetched.shape:
        numbers = numbers_of(buffer, dtype).reshape(fetched.shape)
        return raw(lax.optimization_barrier(numbers))  # type: ignore[no-untyped-call]
    alone: Array = lax.optimization_barrier(fetched)  # type: ignore[no-untyped-call]
    return alone


def _fetched(source: Elements, window: Placed, shape: tuple[int, int], offsets: Range | None) -> Words:
    """Words of a window's elements on a tile shape, of the words or the numbers of a buffer."""

    def gathered(source: Elements) -> Words:
        return raw(fetch(source, window, shape, offsets))

    inner = inner_block(window, shape, source, offsets)
    lines = _lines(window, shape, source) if inner is None else None
    if lines is None:
        return gathered(source)
    found: Array = lax.platform_dependent(source, cpu=partial(lines.read, shape=shape), default=gathered)
    return found


def _lines(
    window: Placed, shape: tuple[int, int], buffer: Elements, through_gaps: bool = False
) -> memory_lines.Lines | None:
    """A window as lines where it is none of the windows that are one slice.

    ``through_gaps``: nor one that moves and has gaps, as a store would have to write what is in them.
    """
    if not isinstance(window, Window) or window.is_static:
        return None
    block = block_of(window, shape)[0]
    gaps = through_gaps and block is not None and not block.is_dense and not isinstance(window.offset, int)
    return memory_lines.lines_of(window, shape, buffer) if block is None or gaps else None


def _require_in_bounds(c: Context, tile: str, lanes: Lanes, memory: GlobalMemory) -> None:
    """The run-time rules on a transfer: its window has the lanes, and the buffer the elements."""
    if memory.require is None:
        return
    t, window, buffer = c.tile(tile), window_of(c, memory.view, tile), memory.buffer
    if is_inside(t, window, buffer) or always_inside(t, window, memory):
        return
    allowed = f"transfers inside the window and the buffer of {buffer.shape[0]} elements"
    lanes_of = (*region.sizes(t, lanes), *window.lanes())
    found = "{}x{} lanes for a window of {}x{}"
    memory.require("in-bounds", allowed, exceeded(t, lanes, window), found, lanes_of)
    memory.require_elements(allowed, *transferred(t, lanes, window))


def _tail(t: TileType, lanes: Lanes) -> Mask:
    """Lanes from the end of each valid row (column, in column-major tiles) to the next 32 bytes."""
    block = np.int32(max(1, 32 * 8 // t.dtype.storage_bits))
    row, col = region.sizes(t, lanes)
    rows = lax.broadcasted_iota(np.int32, t.shape, 0)
    cols = lax.broadcasted_iota(np.int32, t.shape, 1)
    if t.blayout == BLayout.COL_MAJOR:
        return (cols < col) & (rows < (row + block - np.int32(1)) // block * block)
    return (rows < row) & (cols < (col + block - np.int32(1)) // block * block)


@memory_rule("tstore")
def tstore(c: Context, inputs: Inputs, memory: GlobalMemory) -> Flat:
    """The buffer with the tile's valid region written through the window, or added to what is there."""
    view, buffer, src = memory.view, memory.buffer, masks.lanes(inputs, "src")
    _require_in_bounds(c, "src", src, memory)
    t, window = c.tile("src"), window_of(c, view, "src")
    src = src._replace(words=quantise.stored(c, inputs, view.dtype))
    if c.attrs.get("atomicType") != AtomicType.ATOMIC_ADD:
        return put(t, src, window, memory)
    if window.meets(t.shape) is False:
        old = fetch(buffer, window, t.shape, memory.offsets)
        sums = atomics.add(c, view.dtype, old, src.words)
        return put(t, src._replace(words=sums), window, memory)
    where, words = targets(t, src, window, buffer).reshape(-1), src.words.reshape(-1)
    total: Array = atomics.accumulate(c, view.dtype, buffer, *slicing.computed_before(where, words))
    return total


def put(t: TileType, src: Lanes, window: Placed, memory: GlobalMemory) -> Flat:
    """The buffer with words written from the tile's valid region through a window."""
    buffer, kind, independent = memory.buffer, moved_as(memory.view.dtype), memory.independent
    unmasked = region.mask(t, src) is None
    inner = inner_block(window, t.shape, buffer, memory.offsets) if unmasked else None
    if inner is not None and (inner.block.rows, inner.block.cols) == t.shape:
        words = from_words(src.words, kind)
        stored = inner.put(from_words(buffer, kind), words, window.offset, independent)
        if stored is not None:
            return raw(stored)
    lines = _lines(window, t.shape, buffer, through_gaps=True)
    if lines is None:
        elements = src._replace(words=from_words(src.words, kind))
        stored = _put_block(t, elements, window, from_words(buffer, kind), independent)
        if stored is not None:
            return raw(stored)
    else:
        write = partial(lines.limited(*region.sizes(t, src)).write, kind=kind, independent=independent)
        scattered = partial(_scatter, t, src, window, independent=independent)
        written: Array = lax.platform_dependent(buffer, src.words, cpu=write, default=scattered)
        return written
    return _scatter(t, src, window, buffer, src.words, independent)


def _scatter(t: TileType, src: Lanes, window: Placed, buffer: Flat, words: Words, independent: bool) -> Flat:
    """A store element by element."""
    where, words = targets(t, src, window, buffer).reshape(-1), words.reshape(-1)
    if not independent:
        where, words = slicing.computed_before(where, words)
    # Sorting pays only where lanes meet for certain; with strides of run time the scatter's order stands.
    if window.meets(t.shape):
        return atomics.overwrite(buffer, where, words)
    written: Array = _set_elements(buffer, words, where)
    return written


def _set_elements_of_batch(
    buffers: UInt[Array, "batch _"], words: UInt[Array, "batch lanes"], where: Int32[Array, " lanes"]
) -> UInt[Array, "batch _"]:
    """Buffers with elements replaced, at places with the number of the batch element.

    With places alone a scatter takes one lane of the whole batch at a time: XLA transposes the words for it.
    """
    batch = lax.broadcasted_iota(np.int32, words.shape, 0)
    return buffers.at[batch, where].set(words, mode="drop")


_by_batch = slicing.of_batches(_set_elements_of_batch, 2)
_set_elements = platforms.by_platform(
    lambda buffer, words, where: buffer.at[where].set(words, mode="drop"),
    cuda=lambda buffer, words, where: _by_batch(buffer[None], words[None], where)[0],
)


def targets(t: TileType, src: Lanes, window: Placed, buffer: Flat) -> Int32[Array, "rows cols"]:
    """int32 buffer positions of the tile's lanes; the buffer's size where nothing is written."""
    where, inside = within(window.addresses(t.shape), buffer), region.mask(t, src)
    return where if inside is None else jnp.where(inside, where, np.int32(buffer.shape[0]))


def _put_block(
    t: TileType, src: Lanes, window: Placed, buffer: Elements, independent: bool
) -> Elements | None:
    """A store through a block as slice updates; None when it is not one."""
    block, own = block_of(window, t.shape)
    if block is None or not block.fits(t.shape) or block.span > buffer.shape[0]:
        return None
    shape = block.rows, block.cols
    if any(size is not None and size > n for size, n in zip(t.valid, shape, strict=True)):
        return None
    words, inside, start = src.words[: block.rows, : block.cols], region.mask(t, src, shape), window.offset
    if own is not None:
        own = own[: block.rows, : block.cols]
        inside = own if inside is None else inside & own
    if isinstance(start, int) and block.within(buffer):
        if inside is None:
            return block.put(buffer, words, independent)
        limits = [
            lax.min(size, addresses.limited(limit, extent))
            for size, limit, extent in zip(region.sizes(t, src), window.lanes(), shape, strict=True)
        ]
        return block.put_before(limits, buffer, words, independent)
    if inside is None and block.is_dense:
        return slices.write(buffer, block.written(words), start, independent)
    old = slices.read(buffer, start, block.span)
    if inside is not None:
        words = jnp.where(inside, words, block.read(old))
    return slices.write(buffer, block.written(words, old), start, independent)
