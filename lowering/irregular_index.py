"""Blocks gathered by byte offset, and scattering by offset or by a repeating pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import lax

from pto_jax.ir import ScatterAxis

from . import masks, region
from .irregular_storage import flat, inside, iota, pattern, positions, source
from .machine import storage
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Words

_BLOCK_BYTES = 32


@rule("tgatherb")
def _tgatherb(c: Context, inputs: Inputs) -> Outputs:
    """Whole blocks only on the simulator, the valid part of a last block on hardware."""
    t, old = c.tile("dst"), masks.lanes(inputs, "dst")
    size = t.dtype.word_bits // 8
    per_block = _BLOCK_BYTES // size
    stored = storage.regroup(flat(c, inputs, "src"), 8)
    blocks = -(-t.cols // per_block)
    begin = source(c, inputs, "offset", (t.rows, blocks))
    begin = jnp.repeat(begin, per_block, axis=1)[:, : t.cols]
    column = iota(t.shape, 1)
    last = stored.shape[0] - _BLOCK_BYTES
    found = (begin <= np.uint32(max(last, 0))) & np.bool_(last >= 0)
    byte = jnp.where(found, begin, np.uint32(0))
    byte = lax.convert_element_type(byte, np.int32) + column % np.int32(per_block) * np.int32(size)
    parts = stored.at[byte[:, :, None] + iota((1, 1, size), 2)].get(mode="fill", fill_value=0)
    new = storage.regroup(parts.reshape(-1), size * 8).reshape(t.shape)
    if c.profile == "cpu_sim":
        whole = region.sizes(t, old)[1] // np.int32(per_block) * np.int32(per_block)
        found = found & (column < whole)
    return {"dst": region.merge(c, inputs, jnp.where(found, new, old.words))}


@rule("tscatter")
def _tscatter(c: Context, inputs: Inputs) -> Outputs:
    """Hardware clears the whole destination first."""
    old = masks.lanes(inputs, "dst").words
    if c.profile != "cpu_sim":
        old = jnp.zeros_like(old)
    if c.has("indexes"):
        return {"dst": _scattered(c, inputs, old)}
    spread = _rows if c.attrs.get("axis") == ScatterAxis.SCATTER_COL else _elements
    return {"dst": jnp.where(inside(c, inputs, "dst"), spread(c, inputs), old)}


def _scattered(c: Context, inputs: Inputs, old: Words) -> Words:
    """The destination's words after the scatter, [rows, cols].

    The writer with the highest row-major number wins: the maximum does not depend on the order in which a
    scatter is carried out.
    """
    t, shape = c.tile("dst"), c.tile("indexes").shape
    stored = storage.to_physical(old, t)
    where = positions(masks.lanes(inputs, "indexes").words, c.dtype("indexes"), stored.shape[0])
    where = jnp.where(inside(c, inputs, "indexes"), where, np.int32(stored.shape[0])).reshape(-1)
    writers = jnp.full(stored.shape, np.int32(-1)).at[where].max(iota(where.shape, 0), mode="drop")
    values = source(c, inputs, "src", shape).reshape(-1)
    new = values[jnp.maximum(writers, np.int32(0))]
    return storage.to_logical(jnp.where(writers >= np.int32(0), new, stored), t)


def _elements(c: Context, inputs: Inputs) -> Words:
    """Columns that fit the pattern take the source's elements in order, the others 0.

    The simulator's order runs on through the whole source, except where every column fits.
    """
    (n, k), t, src = pattern(c), c.tile("dst"), c.tile("src")
    words, row, column = _spread(c, inputs, src.shape), iota(t.shape, 0), iota(t.shape, 1)
    number = column // n
    if c.profile == "cpu_sim" and n > 1:
        v_col = region.sizes(t, masks.lanes(inputs, "dst"))[1]
        number = number + row * ((v_col + n - np.int32(1) - k) // n)
        row, number = number // np.int32(src.cols), number % np.int32(src.cols)
    taken = words.at[row, number].get(mode="fill", fill_value=0)
    return jnp.where(column % n == k, taken, words.dtype.type(0))


def _spread(c: Context, inputs: Inputs, shape: tuple[int, int]) -> Words:
    """The source over ``shape``; on hardware what it has no valid element for stays zero."""
    words = source(c, inputs, "src", shape)
    if c.profile == "cpu_sim":
        return words
    return jnp.where(inside(c, inputs, "src", shape), words, words.dtype.type(0))


def _rows(c: Context, inputs: Inputs) -> Words:
    """Rows that fit the pattern take the source's rows in order, the others 0."""
    (n, k), t = pattern(c), c.tile("dst")
    words = _spread(c, inputs, (-(-t.rows // int(n)), t.cols))
    words = region.fit(jnp.repeat(words, int(n), axis=0), t.shape, words.dtype.type(0))
    return jnp.where(iota(t.shape, 0) % n == k, words, words.dtype.type(0))
