"""Transfers between global memory and tiles.

Global memory is one flat array of words per buffer. A window whose shape, strides and offset are
static and regular becomes slices and reshapes; every other window becomes a gather or scatter by
computed addresses. Lanes outside the window or the buffer read zero and are not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.dtypes import DType
from pto_jax.types import BLayout, GlobalLayout, Pad, TileType
from pto_jax.walk import Scalar, View

from . import convert, region
from .rules import Context, Lanes

RANK = 5


@dataclass(frozen=True)
class Window:
    """A view brought to rank 5: leading dimensions of extent 1."""

    offset: Scalar
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    dn: bool

    @staticmethod
    def of(view: View) -> Window:
        lead = RANK - len(view.shape)
        return Window(
            view.offset,
            (1,) * lead + view.shape,
            (0,) * lead + view.strides,
            view.layout == GlobalLayout.DN,
        )

    @property
    def is_static(self) -> bool:
        return all(isinstance(n, int) for n in (*self.shape, *self.strides, self.offset))

    def indices(self, rows: Array | np.ndarray, cols: Array | np.ndarray) -> Sequence[Scalar]:
        """The five indices of tile element (row, column)."""
        _, d1, d2, d3, d4 = self.shape
        if self.dn:
            return (cols // (d1 * d2 * d4), cols // (d2 * d4) % d1, cols // d4 % d2, rows, cols % d4)
        return (rows // (d1 * d2 * d3), rows // (d2 * d3) % d1, rows // d3 % d2, rows % d3, cols)

    def addresses(self, shape: tuple[int, int]) -> Array:
        """Buffer positions of the lanes of a tile shape, int64 [rows, cols]; -1 beyond the window."""
        rows, cols = np.indices(shape, dtype=np.int64, sparse=True)
        total: Scalar = np.int64(0)
        for extent, stride, index in zip(self.shape, self.strides, self._guarded(rows, cols), strict=True):
            if not (isinstance(extent, int) and extent == 1):
                total = total + index * _wide(stride)
        where = jnp.asarray(total + _wide(self.offset), np.int64)
        for index, extent, size in zip((rows, cols), self.lanes(), shape, strict=True):
            if not isinstance(extent, int) or extent < size:
                where = jnp.where(index < extent, where, np.int64(-1))
        return jnp.broadcast_to(where, shape)

    def lanes(self) -> tuple[Scalar, Scalar]:
        """Rows and columns of the tile lanes that the window stands for."""
        d0, d1, d2, d3, d4 = (n if isinstance(n, int) else _wide(n) for n in self.shape)
        return (d3, d0 * d1 * d2 * d4) if self.dn else (d0 * d1 * d2 * d3, d4)

    def _guarded(self, rows: np.ndarray, cols: np.ndarray) -> Sequence[Scalar]:
        """Indices with extents kept positive, so that empty windows do not divide by zero."""
        positive = tuple(max(n, 1) if isinstance(n, int) else jnp.maximum(n, 1) for n in self.shape)
        shape = tuple(_wide(n) for n in positive)
        return Window(self.offset, shape, self.strides, self.dn).indices(rows, cols)

    def rows_by_cols(self) -> tuple[int, int, int] | None:
        """(rows, cols, row pitch) when the window is static, row-regular and has unit column stride."""
        if not self.is_static or (self.dn and any(n != 1 for n in self.shape[:3])):
            return None
        pitch, extent = self.strides[3], self.shape[3]
        for n, stride in zip(self.shape[2::-1], self.strides[2::-1], strict=True):
            if n != 1 and stride != pitch * extent:
                return None
            extent *= n
        cols = self.shape[4]
        if (self.strides[4] != 1 and cols != 1) or (extent > 1 and pitch < cols) or extent * cols == 0:
            return None
        return extent, cols, pitch if extent > 1 else cols


def _wide(n: Scalar) -> Scalar:
    """An address part in 64 bits, where products of sizes and strides cannot wrap."""
    return np.int64(n) if isinstance(n, int) else lax.convert_element_type(n, np.int64)


def _within(where: Array, buffer: Array) -> Array:
    """int32 positions; those outside the buffer become its size, which gathers and scatters skip."""
    size = np.int64(buffer.shape[0])
    return lax.convert_element_type(jnp.where((where < 0) | (where > size), size, where), np.int32)


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


def leaves_buffer(t: TileType, lanes: Lanes, view: View, buffer: Array) -> Array | bool:
    """Whether a transfer of the tile's valid region leaves the window or the buffer."""
    window = Window.of(view)
    regular = window.rows_by_cols()
    if regular is not None and t.is_static and regular[0] >= (t.v_row or 0) and regular[1] >= (t.v_col or 0):
        if not t.v_row or not t.v_col:
            return False
        last = window.offset + (t.v_row - 1) * regular[2] + t.v_col - 1
        return bool(window.offset < 0 or last >= buffer.shape[0])
    where = window.addresses(t.shape)
    outside = (where < 0) | (where >= np.int64(buffer.shape[0]))
    inside = region.mask(t, lanes)
    return jnp.any(outside if inside is None else outside & inside)


def _fetch(buffer: Array, window: Window, shape: tuple[int, int]) -> Array:
    """The window's elements on a tile shape; lanes beyond the window or the buffer are zero."""
    regular = window.rows_by_cols()
    if regular is not None:
        rows, cols, pitch = regular
        end = window.offset + (rows - 1) * pitch + cols
        if rows <= shape[0] and cols <= shape[1] and window.offset >= 0 and end <= buffer.shape[0]:
            flat = buffer[window.offset : end]
            block = jnp.pad(flat, (0, rows * pitch - flat.shape[0])).reshape(rows, pitch)
            return region.fit(block[:, :cols], shape, buffer.dtype.type(0))
    where = _within(window.addresses(shape), buffer)
    return buffer.at[where].get(mode="fill", fill_value=0)


def tload(c: Context, dst: Lanes, view: View, buffer: Array) -> Array:
    """The new words of the destination tile."""
    t = c.tile("dst")
    fetched = _fetch(buffer, Window.of(view), t.shape)
    inside = region.mask(t, dst)
    if inside is None:
        return fetched
    fill = pad_word(t.dtype, t.pad, c.profile)
    if c.profile == "cpu_sim":
        return jnp.where(inside, fetched, fill)
    if t.pad == Pad.NULL:
        return jnp.where(inside, fetched, dst.words)
    return jnp.where(inside, fetched, jnp.where(_tail(t, dst), fill, dst.words))


def _tail(t: TileType, lanes: Lanes) -> Array:
    """Lanes from the end of each valid row (column, in column-major tiles) to the next 32 bytes."""
    block = np.int32(max(1, 32 * 8 // t.dtype.storage_bits))
    row, col = region.sizes(t, lanes)
    rows = lax.broadcasted_iota(np.int32, t.shape, 0)
    cols = lax.broadcasted_iota(np.int32, t.shape, 1)
    if t.blayout == BLayout.COL_MAJOR:
        return (cols < col) & (rows < (row + block - np.int32(1)) // block * block)
    return (rows < row) & (cols < (col + block - np.int32(1)) // block * block)


def tstore(c: Context, src: Lanes, view: View, buffer: Array) -> Array:
    """The buffer with the tile's valid region written through the window."""
    t = c.tile("src")
    window = Window.of(view)
    if c.profile == "cpu_sim" and view.dtype != t.dtype:
        src = src._replace(words=convert.cast(src.words, t.dtype, view.dtype))
    stored = _store_regular(t, src, window, buffer)
    if stored is not None:
        return stored
    where = _within(window.addresses(t.shape), buffer)
    inside = region.mask(t, src)
    if inside is not None:
        where = jnp.where(inside, where, np.int32(buffer.shape[0]))
    return buffer.at[where.reshape(-1)].set(src.words.reshape(-1), mode="drop")


def _store_regular(t: TileType, src: Lanes, window: Window, buffer: Array) -> Array | None:
    """A store through a static, regular window as slice updates; None when it is not one."""
    regular = window.rows_by_cols()
    if regular is None:
        return None
    rows, cols, pitch = regular
    begin, end = window.offset, window.offset + (rows - 1) * pitch + cols
    if rows > t.rows or cols > t.cols or begin < 0 or end > buffer.shape[0]:
        return None
    if (t.v_row is not None and t.v_row > rows) or (t.v_col is not None and t.v_col > cols):
        return None
    words = src.words[:rows, :cols]
    inside = region.mask(t, src, (rows, cols))
    if inside is None and pitch == cols:
        flat = words.reshape(-1)
        if flat.shape == buffer.shape:
            return flat
        return lax.dynamic_update_slice(buffer, flat, (np.int32(begin),))
    old = jnp.pad(buffer[begin:end], (0, rows * pitch - (end - begin))).reshape(rows, pitch)
    new = words if inside is None else jnp.where(inside, words, old[:, :cols])
    block = jnp.concatenate([new, old[:, cols:]], axis=1).reshape(-1)[: end - begin]
    return lax.dynamic_update_slice(buffer, block, (np.int32(begin),))
