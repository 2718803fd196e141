"""Sorting blocks of 32 elements with their indices, and merging of sorted record lists.

A record takes 8 bytes: a value first, in 4-byte types the index after it, in 2-byte types a zero and the
two halves of the index. Values are compared as integer keys: XLA's float comparisons flush subnormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir.dtypes import DType
from pto_jax.isa.irregular_sort import BLOCK, RECORD_BYTES, slots

from . import bits
from .irregular_storage import iota, scalar, source
from .masks import lanes
from .region import all_ones, fit, flush, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, UInt, UInt32


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
    _, _, index, words = lax.sort(operands, dimension=2, is_stable=True, num_keys=3)
    records = _records(words, index).reshape(shape[0], shape[1] * slots(src.dtype.bits))
    new = fit(records, t.shape, old.dtype.type(0))
    written = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < v_col * np.int32(slots(src.dtype.bits)))
    if c.profile == "cpu_sim":
        written = written & (v_row == i_row) & (v_col == i_col)
    return {"dst": jnp.where(written, new, old)}


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
_ONE, _NONE = np.int32(1), np.int32(-1)


class _Merge(NamedTuple):
    """The lists to merge: position of the first record and number of records per list [lists].

    At most ``limit`` records are taken, and the lists start over in the next group after ``group`` of them.
    """

    begin: Int32[Array, " lists"]
    length: Int32[Array, " lists"]
    limit: Int32[Array, ""]
    group: Int32[Array, ""] | None = None
    exhausted: bool = False


@rule("tmrgsort")
def _tmrgsort(c: Context, inputs: Inputs) -> Outputs:
    d, several = c.dtype("dst"), c.has("src1")
    size = slots(d.bits)
    names = [n for n in _LISTS if c.has(n)]
    lists = [_list(c, inputs, n, size) for n in names]
    records = jnp.concatenate(lists)
    job = _several(c, inputs, names, lists) if several else _blocks(c, inputs, size)
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    order, taken = _merged(flush(c, records[:, 0], d), d, job, t.cols // size)
    row = records.at[jnp.maximum(order, 0)].get(mode="clip").reshape(1, -1)
    written = fit(jnp.repeat(order >= np.int32(0), size)[None], (1, t.cols), np.bool_(False))
    new = jnp.where(written, fit(row, (1, t.cols), d.word.type(0)), old[:1])
    result = {"dst": jnp.concatenate([new, old[1:]])}
    if several:
        counts = jnp.pad(taken, (0, len(_LISTS) - len(names)))
        result["executed"] = lax.convert_element_type(counts, np.uint16)
    return result


def _list(c: Context, inputs: Inputs, name: str, size: int) -> UInt[Array, "records size"]:
    """The records of a list, one per row; its valid rows do not matter."""
    t, words = c.tile(name), lanes(inputs, name).words
    if c.semantics.out_of_region == "ones":
        valid = iota(t.shape, 1) < sizes(t, lanes(inputs, name))[1]
        words = jnp.where(valid, words, all_ones(t.dtype))
    count = t.cols // size
    return words[0, : count * size].reshape(count, size)


def _several(
    c: Context, inputs: Inputs, names: Sequence[str], lists: Sequence[UInt[Array, "_ size"]]
) -> _Merge:
    size = np.int32(slots(c.dtype("dst").bits))
    begin = np.cumsum([0, *(len(x) for x in lists[:-1])]).astype(np.int32)
    valid = [sizes(c.tile(n), lanes(inputs, n))[1] // size for n in names]
    limit = sizes(c.tile("dst"), lanes(inputs, "dst"))[1] // size
    return _Merge(jnp.asarray(begin), jnp.stack(valid), limit, exhausted=bool(c.attrs.get("exhausted")))


def _blocks(c: Context, inputs: Inputs, size: int) -> _Merge:
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
    return _Merge(begin, jnp.broadcast_to(block, (4,)), limit, group)


def _merged(
    values: UInt[Array, " records"], d: DType, job: _Merge, count: int
) -> tuple[Int32[Array, " count"], Int32[Array, " lists"]]:
    """Positions of ``count`` records in merged order, -1 where there is none, and the records taken per list.

    The lists may hold anything, so the result is defined step by step: the first list that has a
    record left, unless a later one has a strictly greater value than all before it.
    """
    keys = bits.ordered(values, d)
    challenger = incumbent = keys
    if d.is_float:
        nan = bits.is_nan(values, d)
        challenger = jnp.where(nan, keys.dtype.type(np.iinfo(keys.dtype).min), keys)
        incumbent = jnp.where(nan, keys.dtype.type(np.iinfo(keys.dtype).max), keys)

    def step(
        carry: tuple[Int32[Array, " lists"], Bool[Array, ""]], number: Int32[Array, ""]
    ) -> tuple[tuple[Int32[Array, " lists"], Bool[Array, ""]], Int32[Array, ""]]:
        taken, stopped = carry
        begin = job.begin
        if job.group is not None:
            taken = jnp.where(number % job.group == np.int32(0), np.int32(0), taken)
            begin = begin + number // job.group * job.group
        left, where = taken < job.length, begin + taken
        best, found = _greatest(left, *(x.at[where].get(mode="clip") for x in (challenger, incumbent)))
        go = found & (number < job.limit) & ~stopped
        taken = taken + lax.convert_element_type(go & (iota(where.shape, 0) == best), np.int32)
        if job.exhausted:
            stopped = stopped | (go & jnp.any(taken == job.length))
        return (taken, stopped), jnp.where(go, where[best], _NONE)

    # The carry derives from every input, so that shard_map sees over which axes it varies.
    zero = (job.begin + job.length + job.limit + lax.convert_element_type(keys[:1], np.int32)) & np.int32(0)
    if job.group is not None:
        zero = zero & job.group
    (taken, _), order = lax.scan(step, (zero, zero[0] != 0), jnp.arange(count, dtype=np.int32))
    return order, taken


def _greatest(
    left: Bool[Array, " lists"], challenger: Int[Array, " lists"], incumbent: Int[Array, " lists"]
) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """The list whose record goes next, and whether there is one."""
    best, found, value = lax.convert_element_type(left[0], np.int32) * np.int32(0), left[0], incumbent[0]
    for i in range(1, left.shape[0]):
        better = left[i] & (~found | (challenger[i] > value))
        best = jnp.where(better, np.int32(i), best)
        value = jnp.where(better, incumbent[i], value)
        found = found | better
    return best, found
