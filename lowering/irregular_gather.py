"""Gathering inside on-chip tiles: by index, by a repeating pattern, or the indices of matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import lax

from pto_jax.ir import CmpMode, GatherAxis

from .irregular_storage import flat, inside, iota, pattern, positions, scalar, source, store_first
from .machine import storage
from .masks import lanes
from .region import fit, flush, merge, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Words


@rule("tgather")
def _tgather(c: Context, inputs: Inputs) -> Outputs:
    if c.has("indices"):
        return {"dst": _by_index(c, inputs)}
    if c.has("kValue"):
        return _matches(c, inputs)
    if c.attrs.get("axis") == GatherAxis.GATHER_COL:
        return {"dst": _picked_rows(c, inputs)}
    return {"dst": _packed(c, inputs)}


def _by_index(c: Context, inputs: Inputs) -> Words:
    """Indices address the source's storage, whatever of it is valid."""
    words = lanes(inputs, "src").words.reshape(-1)
    index = source(c, inputs, "indices", c.tile("dst").shape)
    where = positions(index, c.dtype("indices"), words.shape[0])
    return merge(c, inputs, words.at[where].get(mode="fill", fill_value=0))


def _packed(c: Context, inputs: Inputs) -> Words:
    """The picked elements of all valid rows, from the start of dst's storage on."""
    n, k = pattern(c)
    v_row, v_col = sizes(c.tile("src"), lanes(inputs, "src"))
    words, old = lanes(inputs, "src").words, flat(c, inputs, "dst")
    per_row = jnp.maximum((v_col + n - np.int32(1) - k) // n, np.int32(0))
    place = iota(old.shape, 0)
    divisor = jnp.maximum(per_row, np.int32(1))
    row, column = place // divisor, place % divisor * n + k
    taken = words.at[row, column].get(mode="fill", fill_value=0)
    return storage.to_logical(jnp.where(place < v_row * per_row, taken, old), c.tile("dst"))


def _picked_rows(c: Context, inputs: Inputs) -> Words:
    n, k = pattern(c)
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    picked = lanes(inputs, "src").words[int(k) :: int(n)]
    v_row, v_col = sizes(c.tile("src"), lanes(inputs, "src"))
    written = (iota(t.shape, 0) * n + k < v_row) & (iota(t.shape, 1) < v_col)
    return jnp.where(written, fit(picked, t.shape, old.dtype.type(0)), old)


def _matches(c: Context, inputs: Inputs) -> Outputs:
    """Numbers of the matching elements, packed at the start of each row, and how many they are."""
    t, src, a = c.tile("dst"), c.tile("src"), c.arithmetic("src")
    mode, offset = c.attrs["cmpMode"], c.attrs.get("offset") or 0
    assert isinstance(mode, CmpMode) and isinstance(offset, int)
    x, k = (flush(c, w, src.dtype) for w in (lanes(inputs, "src").words, scalar(inputs, "kValue")))
    found = a.compare_words(mode, x, k) & inside(c, inputs, "src")
    columns = lax.sort(jnp.where(found, iota(src.shape, 1), np.int32(src.cols)), dimension=1)
    counts = jnp.sum(lax.convert_element_type(found, np.int32), axis=1, dtype=np.int32)
    first = lax.convert_element_type(iota(src.shape, 0) * np.int32(src.cols), np.uint32)
    first = first + np.uint32(offset & 0xFFFFFFFF)
    numbers = fit(first + lax.convert_element_type(columns, np.uint32), t.shape, np.uint32(0))
    v_row = sizes(src, lanes(inputs, "src"))[0]
    count = fit(counts[:, None], (t.rows, 1), np.int32(0))
    written = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < count)
    result = {"dst": jnp.where(written, numbers, lanes(inputs, "dst").words)}
    if c.has("cdst"):
        totals = lax.convert_element_type(counts, c.dtype("cdst").word)
        result["cdst"] = store_first(c, inputs, "cdst", totals, jnp.minimum(v_row, np.int32(src.rows)))
    return result
