"""Sorting blocks of 32 elements with their indices, and merging of sorted record lists.

A record takes 8 bytes: a value first, in 4-byte types the index after it, in 2-byte types a zero and the
two halves of the index. Values are compared as integer keys: XLA's float comparisons flush subnormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType
from pto_jax.isa.irregular_sort import BLOCK, RECORD_BYTES, slots

from . import bits
from .irregular_storage import iota, scalar, source
from .masks import lanes
from .merging import Merge, merged
from .platforms import by_platform
from .region import all_ones, fit, flush, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int, Int32, Integer, Shaped, UInt, UInt32


@rule("tsort32")
def _tsort32(c: Context, inputs: Inputs) -> Outputs:
    t, src, idx = c.tile("dst"), c.tile("src"), c.tile("idx")
    old = lanes(inputs, "dst").words
    v_row, v_col = sizes(src, lanes(inputs, "src"))
    i_row, i_col = sizes(idx, lanes(inputs, "idx"))
    shape = (src.rows, -(-src.cols // BLOCK) * BLOCK)
    index = source(c, inputs, "idx", (max(idx.rows, shape[0]), shape[1]))
    if c.profile != "cpu_sim":
        # One valid row of indices serves every row of values.
        index = jnp.where(i_row == 1, index[:1], index)
    words = fit(lanes(inputs, "src").words, shape, src.dtype.word.type(0))
    blocks = (shape[0], shape[1] // BLOCK, BLOCK)
    missing = lax.convert_element_type(iota(shape, 1) >= v_col, np.int32)
    keys = _descending(flush(c, words, src.dtype), src.dtype)
    operands = [x.reshape(blocks) for x in (missing, keys, index[: shape[0]], words)]
    index, words = _sorting(*operands)
    records = _records(words, index).reshape(shape[0], shape[1] * slots(src.dtype.bits))
    new = fit(records, t.shape, old.dtype.type(0))
    written = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < v_col * np.int32(slots(src.dtype.bits)))
    if c.profile == "cpu_sim":
        written = written & (v_row == i_row) & (v_col == i_col)
    return {"dst": jnp.where(written, new, old)}


def _ranked(
    missing: Int32[Array, "rows blocks 32"],
    keys: Int[Array, "rows blocks 32"],
    index: UInt32[Array, "rows blocks 32"],
    words: UInt[Array, "rows blocks 32"],
) -> tuple[UInt32[Array, "rows blocks 32"], UInt[Array, "rows blocks 32"]]:
    """Indices and words of blocks, by key, equal ones by index; what is missing comes last, in any order.

    By the places that elements have: comparing all of a block takes less time than sorting it. What is
    missing are the last lanes of a block, so that they may be equal to the greatest element.
    """
    place = _place(missing, keys, index, np.int32)
    return _moved(place, index), _moved(place, words)


def _gathered(
    missing: Int32[Array, "rows blocks 32"],
    keys: Int[Array, "rows blocks 32"],
    index: UInt32[Array, "rows blocks 32"],
    words: UInt[Array, "rows blocks 32"],
) -> tuple[UInt32[Array, "rows blocks 32"], UInt[Array, "rows blocks 32"]]:
    """The same by a byte per element: on a GPU, sorted arrays would be memory, a gather is none."""
    lane = jnp.broadcast_to(iota((1, 1, BLOCK), 2).astype(np.uint8), keys.shape)
    # Else it is computed again wherever it is used.
    order = lax.optimization_barrier(_moved(_place(missing, keys, index, np.uint8), lane))  # type: ignore[no-untyped-call]
    order = lax.convert_element_type(order, np.int32)
    first, second = (jnp.take_along_axis(x, order, 2, mode="promise_in_bounds") for x in (index, words))
    return first, second


#: Both by the platform that code is generated for.
_sorting = by_platform(_ranked, cuda=_gathered)


def _place(
    missing: Int32[Array, "rows blocks 32"],
    keys: Int[Array, "rows blocks 32"],
    index: UInt32[Array, "rows blocks 32"],
    kind: type[np.integer[Any]],
) -> Integer[Array, "rows blocks 32"]:
    """The lane that every element of a block is sorted to, as integers of a kind."""
    code = lax.convert_element_type(keys, np.int64) << np.int64(32)
    code = code | lax.convert_element_type(index, np.int64)
    code = jnp.where(missing != np.int32(0), np.int64(np.iinfo(np.int64).max), code)
    lane = iota((1, 1, BLOCK), 2)
    before = [(c < code) | ((c == code) & (lane > np.int32(j))) for j, c in enumerate(_each(code))]
    place = reduce(lax.add, (lax.convert_element_type(b, kind) for b in before))
    # Else it is computed again wherever it is used.
    found: Array = lax.optimization_barrier(place)  # type: ignore[no-untyped-call]
    return found


def _moved(
    place: Integer[Array, "rows blocks 32"], x: UInt[Array, "rows blocks 32"]
) -> UInt[Array, "rows blocks 32"]:
    """The elements of blocks, each at its place."""
    lane, zero = iota((1, 1, BLOCK), 2).astype(place.dtype), x.dtype.type(0)
    parts = [jnp.where(p == lane, own, zero) for p, own in zip(_each(place), _each(x), strict=True)]
    return reduce(lax.bitwise_or, parts)


def _each(x: Shaped[Array, "rows blocks 32"]) -> list[Shaped[Array, "rows blocks 1"]]:
    """The elements of blocks, one after the other."""
    return [lax.slice_in_dim(x, j, j + 1, axis=2) for j in range(BLOCK)]


def _descending(words: UInt[Array, "*shape"], d: DType) -> Int[Array, "*shape"]:
    """Keys that ascend as values descend; positive NaNs first, negative ones last, each kind equal."""
    keys = bits.ordered(words, d)
    if d.is_float:
        beyond = keys.dtype.type((((1 << d.exponent) - 1) << d.mantissa) + 1)
        keys = jnp.clip(keys, -beyond, beyond)
    return ~keys


def _records(words: UInt[Array, "*lead n"], index: UInt32[Array, "*lead n"]) -> UInt[Array, "*lead _"]:
    """[..., n] values and indices as [..., n * elements per record]."""
    if words.dtype.itemsize * 2 == RECORD_BYTES:
        parts = [words, index]
    else:
        low = lax.convert_element_type(index & np.uint32(0xFFFF), np.uint16)
        high = lax.convert_element_type(index >> np.uint32(16), np.uint16)
        parts = [words, jnp.zeros_like(words), low, high]
    return jnp.stack(parts, axis=-1).reshape(*words.shape[:-1], -1)


# -- merging -----------------------------------------------------------------------------------------

_LISTS = ("src0", "src1", "src2", "src3")
_ONE = np.int32(1)


@rule("tmrgsort")
def _tmrgsort(c: Context, inputs: Inputs) -> Outputs:
    d, several = c.dtype("dst"), c.has("src1")
    size = slots(d.bits)
    names = [n for n in _LISTS if c.has(n)]
    lists = [_list(c, inputs, n, size) for n in names]
    records = jnp.concatenate(lists)
    job = _several(c, inputs, names, lists) if several else _blocks(c, inputs, size)
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    order, taken = merged(flush(c, records[:, 0], d), d, job, t.cols // size)
    row = records.at[jnp.maximum(order, 0)].get(mode="clip").reshape(1, -1)
    written = fit(jnp.repeat(order >= np.int32(0), size)[None], (1, t.cols), np.bool_(False))
    new = jnp.where(written, fit(row, (1, t.cols), d.word.type(0)), old[:1])
    result = {"dst": jnp.concatenate([new, old[1:]])}
    if several:
        counts = jnp.pad(taken, (0, len(_LISTS) - len(names)))
        result["executed"] = lax.convert_element_type(counts, np.uint16)
    return result


def _list(c: Context, inputs: Inputs, name: str, size: int) -> UInt[Array, "records size"]:
    """The records of a list, one per row; how many there are does not depend on its valid rows."""
    t, words = c.tile(name), lanes(inputs, name).words
    if c.semantics.out_of_region == "ones":
        rows, cols = sizes(t, lanes(inputs, name))
        valid = (iota(t.shape, 0) < rows) & (iota(t.shape, 1) < cols)
        words = jnp.where(valid, words, all_ones(t.dtype))
    count = t.cols // size
    return words[0, : count * size].reshape(count, size)


def _several(
    c: Context, inputs: Inputs, names: Sequence[str], lists: Sequence[UInt[Array, "_ size"]]
) -> Merge:
    size = np.int32(slots(c.dtype("dst").bits))
    begin = np.cumsum([0, *(len(x) for x in lists[:-1])]).astype(np.int32)
    valid = [sizes(c.tile(n), lanes(inputs, n))[1] // size for n in names]
    limit = sizes(c.tile("dst"), lanes(inputs, "dst"))[1] // size
    exhausted = bool(c.attrs.get("exhausted"))
    return Merge(jnp.asarray(begin), jnp.stack(valid), limit, jnp.zeros_like(limit), exhausted=exhausted)


def _blocks(c: Context, inputs: Inputs, size: int) -> Merge:
    """Groups of four blocks; a length that is no whole number of records merges nothing."""
    v_col = sizes(c.tile("dst"), lanes(inputs, "dst"))[1]
    given = lax.convert_element_type(scalar(inputs, "blockLen"), np.uint32)
    length = lax.convert_element_type(jnp.minimum(given, np.uint32(c.tile("dst").cols + 1)), np.int32)
    whole = (given != np.uint32(0)) & (given % np.uint32(size) == np.uint32(0))
    block = jnp.maximum(length // np.int32(size), _ONE)
    group = block * np.int32(4)
    groups = jnp.maximum(v_col, np.int32(0)) // (group * np.int32(size))
    limit = jnp.where(whole, groups * group, np.int32(0))
    begin = block * jnp.arange(4, dtype=np.int32)
    return Merge(begin, jnp.broadcast_to(block, (4,)), limit, group, grouped=True)
