"""Rules that sort blocks of 32 elements with their indices and merge sorted lists of records.

A record takes 8 bytes: the value first, then in 4-byte types the index, in 2-byte types a zero and the two
halves of the index. Values are compared as integer keys, because XLA's float comparisons flush subnormals.

The lists may have any contents, so a merge is defined step by step: the next record comes from the first list
with a record left, unless a later list has a value strictly greater than all lists before it. For descending
lists without NaNs that is the stable order of their values, which one sort computes. Other batches, and
64-bit values, whose sorted integers have no room for a number besides, are merged step by step.

A row that is sorted in blocks and then merged, four lists to one, knows what it is made of
(:class:`SortedRow`): of the values before the first step, the greatest that are read are found at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType
from pto_jax.isa.irregular_sort import BLOCK, RECORD_BYTES, slots

from . import bits, merging_gpu, platforms, slicing
from .irregular import iota, scalar, source
from .numerics import broadcast
from .platforms import by_platform
from .region import all_ones, fit, flush, lanes, sizes
from .rules import Context, Inputs, Outputs, Result, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Integer, Shaped, UInt, UInt32

    from .bits import Size

#: Gives indices and words of blocks sorted, given what is missing, keys, indices and words.
Sorting: TypeAlias = "Callable[..., tuple[UInt32[Array, '...'], UInt[Array, '...']]]"

_NONE = np.int32(-1)
#: Bits of a record's number in the integers that are sorted, and of the key of its value.
_NUMBER, _KEY = 16, 32


class Merge(NamedTuple):
    """The lists to merge: position of the first record and number of records per list [lists].

    At most ``limit`` records are taken. Where ``group`` is not 0, lists of equal length follow one another,
    and start over in the next group after that many records. With ``exhausted`` nothing is taken any more
    once a list has no record left.
    """

    begin: Int32[Array, " lists"]
    length: Int32[Array, " lists"]
    limit: Int32[Array, ""]
    group: Int32[Array, ""]
    grouped: bool = False
    exhausted: bool = False


def merged(
    values: UInt[Array, " records"], d: DType, job: Merge, count: int
) -> tuple[Int32[Array, " count"], Int32[Array, " lists"]]:
    """Positions of ``count`` records in merged order, -1 for none, and the records taken per list.

    Of groups nobody asks for the latter: zeros.
    """
    function = _merging(d, count, job.grouped, job.exhausted)
    order = function(*(x[None] for x in (values, *job[:4])))[0]
    return order[:count], order[count:]


@cache
def _merging(d: DType, count: int, grouped: bool, exhausted: bool) -> Callable[..., Int32[Array, "batch _"]]:
    """For a batch: the positions, then the records taken per list."""

    def each(function: Callable[[Array, Merge], Array]) -> Callable[..., Shaped[Array, "batch ..."]]:
        def call(values: UInt[Array, " records"], *job: Int32[Array, "..."]) -> Shaped[Array, "..."]:
            begin, length, limit, group = job
            return function(values, Merge(begin, length, limit, group, grouped, exhausted))

        return jax.vmap(call)

    def order(values: UInt[Array, "batch records"], *job: Int32[Array, "..."]) -> Int32[Array, "batch _"]:
        stepwise = each(lambda values, job: _stepwise(values, d, job, count))
        if values.shape[1] > 1 << _NUMBER or d.bits > _KEY:
            return stepwise(values, *job)
        descend = each(lambda values, job: _descends(values, d, job))(values, *job)
        at_once = each(lambda values, job: _at_once(values, d, job, count))
        result: Array = lax.cond(jnp.all(descend), at_once, stepwise, values, *job)
        return result

    def merge(values: UInt[Array, "batch records"], *job: Int32[Array, "..."]) -> Int32[Array, "batch _"]:
        shape = merging_gpu.Shape(values.shape[1], count, d, grouped, exhausted)
        return merging_gpu.merged(values, job, shape)

    cuda = merging_gpu.kernel(merge, order)
    return slicing.of_batches(platforms.by_platform(order, cuda=cuda), 5)


class _Places(NamedTuple):
    """Of each record, whether a list has it, whether it is the first of one, and the group that it is in."""

    listed: Bool[Array, " records"]
    first: Bool[Array, " records"]
    group: Int32[Array, " records"]


def _places(count: int, job: Merge) -> _Places:
    number = lax.iota(np.int32, count)
    if job.grouped:
        of_list = broadcast(lax.rem)(number, job.length[0])
        return _Places(number < job.limit, of_list == np.int32(0), broadcast(lax.div)(number, job.group))
    after = number[:, None] - job.begin
    listed = (after >= np.int32(0)) & (after < job.length)
    return _Places(listed.any(1), (after == np.int32(0)).any(1), jnp.zeros_like(number))


def _descends(values: UInt[Array, " records"], d: DType, job: Merge) -> Bool[Array, ""]:
    """Whether no list has a NaN or a value that is greater than the one before."""
    places, keys = _places(len(values), job), bits.ordered(values, d)
    rises = jnp.concatenate([jnp.zeros(1, bool), keys[1:] > keys[:-1]]) & ~places.first
    if d.is_float:
        rises = rises | bits.is_nan(values, d)
    return ~jnp.any(rises & places.listed)


def _at_once(values: UInt[Array, " records"], d: DType, job: Merge, count: int) -> Int32[Array, " _"]:
    """The order of lists that descend."""
    places = _places(len(values), job)
    # Ascending where values descend; of equal ones the first record goes first.
    key = ~lax.convert_element_type(bits.ordered(values, d), np.int64) + np.int64(1 << (_KEY - 1))
    group = lax.convert_element_type(places.group, np.int64) << np.int64(_KEY + _NUMBER)
    packed = group | (key << np.int64(_NUMBER)) | lax.iota(np.int64, len(values))
    packed = jnp.where(places.listed, packed, np.int64(np.iinfo(np.int64).max))
    packed = lax.sort(packed, is_stable=False)[:count]
    order = lax.convert_element_type(packed & np.int64((1 << _NUMBER) - 1), np.int32)
    order = jnp.pad(order, (0, count - len(order)))
    number = lax.iota(np.int32, count)
    if job.grouped:
        return jnp.concatenate([jnp.where(number < job.limit, order, _NONE), jnp.zeros_like(job.begin)])
    end = jnp.minimum(job.limit, jnp.sum(job.length, dtype=np.int32))
    if job.exhausted:
        last = (order[:, None] == job.begin + job.length - np.int32(1)) & (job.length > np.int32(0))
        stop = jnp.where(last.any(1) & (number < end), number + np.int32(1), end)
        # An empty list has no record left once the first record is taken.
        empty = jnp.where(jnp.any(job.length == np.int32(0)), np.int32(1), end)
        end = jnp.minimum(jnp.minimum(jnp.min(stop), empty), end)
    taken_now = number < end
    after = order[:, None] - job.begin
    own = (after >= np.int32(0)) & (after < job.length) & taken_now[:, None]
    counts = jnp.sum(own, 0, dtype=np.int32)
    return jnp.concatenate([jnp.where(taken_now, order, _NONE), counts])


def _keys(values: UInt[Array, "*shape"], d: DType) -> tuple[Int[Array, "*shape"], Int[Array, "*shape"]]:
    """What a record is compared with those before it by, and what with those after it."""
    keys = bits.ordered(values, d)
    if not d.is_float:
        return keys, keys
    nan, bounds = bits.is_nan(values, d), np.iinfo(keys.dtype)
    return jnp.where(nan, keys.dtype.type(bounds.min), keys), jnp.where(
        nan, keys.dtype.type(bounds.max), keys
    )


def _stepwise(values: UInt[Array, " records"], d: DType, job: Merge, count: int) -> Int32[Array, " _"]:
    """The order of any lists."""
    challenger, incumbent = _keys(values, d)

    def step(
        carry: tuple[Int32[Array, " lists"], Bool[Array, ""]], number: Int32[Array, ""]
    ) -> tuple[tuple[Int32[Array, " lists"], Bool[Array, ""]], Int32[Array, ""]]:
        counts, stopped = carry
        begin = job.begin
        if job.grouped:
            of_group = lax.rem(number, job.group)
            counts = jnp.where(of_group == np.int32(0), np.int32(0), counts)
            begin = begin + (number - of_group)
        left, where = counts < job.length, begin + counts
        exceeding, exceeded = (x.at[where].get(mode="clip") for x in (challenger, incumbent))
        best, some = merging_gpu.greatest(left, exceeding, exceeded)
        go = some & (number < job.limit) & ~stopped
        counts = counts + lax.convert_element_type(go & (lax.iota(np.int32, len(where)) == best), np.int32)
        if job.exhausted:
            stopped = stopped | (go & jnp.any(counts == job.length))
        return (counts, stopped), jnp.where(go, where[best], _NONE)

    # The carry derives from every input, so that shard_map sees over which axes it varies.
    zero = (
        job.begin + job.length + job.limit + lax.convert_element_type(challenger[:1], np.int32)
    ) & np.int32(0)
    zero = zero & job.group
    (counts, _), order = lax.scan(step, (zero, zero[0] != 0), jnp.arange(count, dtype=np.int32))
    return jnp.concatenate([order, jnp.zeros_like(counts) if job.grouped else counts])


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
    keys = descending(flush(c, words, src.dtype), src.dtype)
    made_of = words[0], index[0]
    operands = [x.reshape(blocks) for x in (missing, keys, index[: shape[0]], words)]
    index, words = _sorting(*operands)
    records = as_records(words, index).reshape(shape[0], shape[1] * slots(src.dtype.bits))
    new = fit(records, t.shape, old.dtype.type(0))
    mask = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < v_col * np.int32(slots(src.dtype.bits)))
    if c.profile == "cpu_sim":
        mask = mask & (v_row == i_row) & (v_col == i_col)
    words = jnp.where(mask, new, old)
    if _is_row(c, "dst", "src", "idx") and (src.cols, t.cols) == (shape[1], records.shape[1]):
        return {"dst": Result(words, row=SortedRow(src.dtype, *made_of, jnp.ones((), bool)))}
    return {"dst": words}


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


def _by_a_sort(
    missing: Int32[Array, "rows blocks 32"],
    keys: Int[Array, "rows blocks 32"],
    index: UInt32[Array, "rows blocks 32"],
    words: UInt[Array, "rows blocks 32"],
) -> tuple[UInt32[Array, "rows blocks 32"], UInt[Array, "rows blocks 32"]]:
    """The same by a sort."""
    _, _, index, words = lax.sort([missing, keys, index, words], num_keys=3)
    return index, words


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
    result: Array = lax.optimization_barrier(place)  # type: ignore[no-untyped-call]
    return result


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


def descending(words: UInt[Array, "*shape"], d: DType) -> Int[Array, "*shape"]:
    """Keys that ascend as values descend; positive NaNs first, negative ones last, each kind equal."""
    keys = bits.ordered(words, d)
    if d.is_float:
        beyond = keys.dtype.type((((1 << d.exponent) - 1) << d.mantissa) + 1)
        keys = jnp.clip(keys, -beyond, beyond)
    return ~keys


def as_records(words: UInt[Array, "*lead n"], index: UInt32[Array, "*lead n"]) -> UInt[Array, "*lead _"]:
    """[..., n] values and indices as [..., n * elements per record]."""
    if words.dtype.itemsize * 2 == RECORD_BYTES:
        parts = [words, index]
    else:
        low = lax.convert_element_type(index & np.uint32(0xFFFF), np.uint16)
        high = lax.convert_element_type(index >> np.uint32(16), np.uint16)
        parts = [words, jnp.zeros_like(words), low, high]
    return jnp.stack(parts, axis=-1).reshape(*words.shape[:-1], -1)


# -- rows that are sorted and merged -----------------------------------------------------------------

#: A list of which at most this part is read is not sorted for it.
_FEW = 4


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["words", "index", "certain"],
    meta_fields=["dtype", "merges"],
)
@dataclass(frozen=True)
class SortedRow:
    """Records of values and indices [n], sorted in blocks, of which four lists to one were merged then.

    It is what the tile has where it is ``certain``: where every merge was given the length of the lists.
    """

    dtype: DType
    words: UInt[Array, " n"]
    index: UInt32[Array, " n"]
    certain: Bool[Array, ""]
    merges: int = 0

    def merged(self, length: UInt[Array, ""]) -> SortedRow | None:
        """The records after one more merge; None where its lists would not be whole."""
        expected = np.uint32(_run(self.merges) * slots(self.dtype.bits))
        certain = self.certain & (lax.convert_element_type(length, np.uint32) == expected)
        whole = len(self.words) % _run(self.merges + 1) == 0
        return replace(self, certain=certain, merges=self.merges + 1) if whole else None

    def first(self, count: int) -> UInt[Array, "1 {count}"]:
        """The first ``count`` words of the records."""
        return _first_of(self.dtype, self.merges, count)(self.words[None], self.index[None])


def _run(merges: int) -> int:
    """Records of a list after some merges."""
    return BLOCK << 2 * merges


@cache
def _first_of(d: DType, merges: int, count: int) -> Callable[..., UInt[Array, "batch {count}"]]:
    """:meth:`SortedRow.first` of batches."""

    def by_steps(sorting: Sorting, *row: UInt[Array, "batch n"]) -> UInt[Array, "batch {count}"]:
        return jax.vmap(partial(_by_steps, d, merges, sorting))(*row)[:, :count]

    def at_once(*row: UInt[Array, "batch n"]) -> UInt[Array, "batch {count}"]:
        return _greatest(d, _run(merges), -(-count // slots(d.bits)), *row)[:, :count]

    def portable(*row: UInt[Array, "batch n"]) -> UInt[Array, "batch {count}"]:
        # It is rarely executed: what is compiled in less time is better than what takes less.
        records: Array = lax.cond(_is_stable(d, *row), at_once, partial(by_steps, _by_a_sort), *row)
        return records

    return slicing.of_batches(platforms.by_platform(portable, cuda=partial(by_steps, _gathered)), 2)


def _is_stable(d: DType, words: UInt[Array, "batch n"], index: UInt32[Array, "batch n"]) -> Bool[Array, ""]:
    """Whether lists of rows are in the order of values, equal ones by place: no NaN, indices that ascend."""
    blocks = index.reshape(-1, BLOCK)
    stable = jnp.all(blocks[:, 1:] >= blocks[:, :-1])
    return stable & ~jnp.any(bits.is_nan(words, d)) if d.is_float else stable


def _greatest(
    d: DType, run: int, count: int, words: UInt[Array, "batch n"], index: UInt32[Array, "batch n"]
) -> UInt[Array, "batch _"]:
    """The first ``count`` records of lists of ``run``, each in the stable order of its values."""
    lists, few = -(-count // run), min(count, run)
    words, index = (x[:, : lists * run].reshape(-1, run) for x in (words, index))
    keys = lax.convert_element_type(bits.ordered(words, d), np.int32)
    if few * _FEW <= run:
        # On CPUs this compares the integers of the bits, larger ones first and of equal ones the first; those
        # of negative numbers are in reverse order.
        keys = jnp.where(keys < np.int32(0), np.int32(np.iinfo(np.int32).max) - keys, keys)
        place = lax.top_k(lax.bitcast_convert_type(keys, np.float32), few)[1]
    else:
        number = lax.broadcasted_iota(np.int64, keys.shape, 1)
        packed = (lax.convert_element_type(~keys, np.int64) << np.int64(_NUMBER)) | number
        packed = lax.sort(packed, is_stable=False)[:, :few] & np.int64((1 << _NUMBER) - 1)
        place = lax.convert_element_type(packed, np.int32)
    pairs = (jnp.take_along_axis(x, place, 1, mode="promise_in_bounds") for x in (words, index))
    return as_records(*pairs).reshape(-1, lists * few * slots(d.bits))


def _by_steps(
    d: DType, merges: int, sorting: Sorting, words: UInt[Array, " n"], index: UInt32[Array, " n"]
) -> UInt[Array, " _"]:
    """The records of a row as the instructions make them, one after the other."""
    operands = [x.reshape(1, -1, BLOCK) for x in (descending(words, d), index, words)]
    index, words = sorting(jnp.zeros(operands[0].shape, np.int32), *operands)
    records, size = as_records(words, index).reshape(-1, slots(d.bits)), slots(d.bits)
    for made in range(merges):
        length = np.uint32(_run(made) * size)
        job = _groups(jnp.asarray(length), np.int32(records.size), size, records.size)
        order, _ = merged(records[:, 0], d, job, len(records))
        records = records.at[order].get(mode="promise_in_bounds")
    return records.reshape(-1)


def _is_row(c: Context, *names: str) -> bool:
    """Whether tiles are one row each, valid as a whole, whose records a :class:`SortedRow` may give."""
    tiles, d = [c.tile(n) for n in names], c.dtype("dst")
    shapes = all(t.rows == 1 and t.valid == t.shape for t in tiles)
    few = tiles[0].cols <= slots(d.bits) << _NUMBER and d.bits < _KEY * 2
    # GPUs have a kernel for each merge, which needs no more launches and less memory.
    sorts = c.carry and platforms.expected() == "cpu"
    return sorts and shapes and few and c.semantics.subnormals == "keep"


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
    order, lengths = merged(flush(c, records[:, 0], d), d, job, t.cols // size)
    row = records.at[jnp.maximum(order, 0)].get(mode="clip").reshape(1, -1)
    written = fit(jnp.repeat(order >= np.int32(0), size)[None], (1, t.cols), np.bool_(False))
    new = jnp.where(written, fit(row, (1, t.cols), d.word.type(0)), old[:1])
    result: Outputs = {"dst": jnp.concatenate([new, old[1:]])}
    whole = not several and t == c.tile("src0") and _is_row(c, "dst", "src0")
    source_row = lanes(inputs, "src0").row if whole else None
    merged_row = source_row.merged(scalar(inputs, "blockLen")) if isinstance(source_row, SortedRow) else None
    if merged_row is not None:
        words = jnp.where(merged_row.certain, merged_row.first(t.cols), result["dst"])
        result = {"dst": Result(words, row=merged_row)}
    if several:
        counts = jnp.pad(lengths, (0, len(_LISTS) - len(names)))
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
    v_col = sizes(c.tile("dst"), lanes(inputs, "dst"))[1]
    return _groups(scalar(inputs, "blockLen"), v_col, size, c.tile("dst").cols)


def _groups(length: UInt[Array, ""], v_col: Size | np.int32, size: int, cols: int) -> Merge:
    """Groups of four blocks; a length that is no whole number of records merges nothing."""
    number = lax.convert_element_type(length, np.uint32)
    length = lax.convert_element_type(jnp.minimum(number, np.uint32(cols + 1)), np.int32)
    whole = (number != np.uint32(0)) & (number % np.uint32(size) == np.uint32(0))
    block = jnp.maximum(length // np.int32(size), _ONE)
    group = block * np.int32(4)
    groups = jnp.maximum(v_col, np.int32(0)) // (group * np.int32(size))
    limit = jnp.where(whole, groups * group, np.int32(0))
    begin = block * jnp.arange(4, dtype=np.int32)
    return Merge(begin, jnp.broadcast_to(block, (4,)), limit, group, grouped=True)
