"""The order in which sorted lists of records are merged.

The lists may hold anything, so the result is defined step by step: the first list that has a record left,
unless a later one has a strictly greater value than all before it. Of lists that descend, without NaNs,
that is the stable order of their values, which one sort finds; a batch with others goes step by step, and so
do 64-bit values, of which a sorted integer has no room for a number besides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType

from . import bits, merging_gpu, platforms, slicing

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, Int32, Shaped, UInt

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
    found = function(*(x[None] for x in (values, *job[:4])))[0]
    return found[:count], found[count:]


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
        found: Array = lax.cond(jnp.all(descend), at_once, stepwise, values, *job)
        return found

    def in_a_kernel(
        values: UInt[Array, "batch records"], *job: Int32[Array, "..."]
    ) -> Int32[Array, "batch _"]:
        shape = merging_gpu.Shape(values.shape[1], count, d, grouped, exhausted)
        return merging_gpu.merged(values, job, shape)

    return slicing.of_batches(platforms.by_platform(order, cuda=in_a_kernel), 5)


class _Places(NamedTuple):
    """Of each record, whether a list has it, whether it is the first of one, and the group that it is in."""

    listed: Bool[Array, " records"]
    first: Bool[Array, " records"]
    group: Int32[Array, " records"]


def _places(count: int, job: Merge) -> _Places:
    number = lax.iota(np.int32, count)
    if job.grouped:
        return _Places(number < job.limit, number % job.length[0] == np.int32(0), number // job.group)
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
    taken = jnp.sum(own, 0, dtype=np.int32)
    return jnp.concatenate([jnp.where(taken_now, order, _NONE), taken])


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
        taken, stopped = carry
        begin = job.begin
        if job.grouped:
            taken = jnp.where(number % job.group == np.int32(0), np.int32(0), taken)
            begin = begin + number // job.group * job.group
        left, where = taken < job.length, begin + taken
        exceeding, exceeded = (x.at[where].get(mode="clip") for x in (challenger, incumbent))
        best, found = merging_gpu.greatest(left, exceeding, exceeded)
        go = found & (number < job.limit) & ~stopped
        taken = taken + lax.convert_element_type(go & (lax.iota(np.int32, len(where)) == best), np.int32)
        if job.exhausted:
            stopped = stopped | (go & jnp.any(taken == job.length))
        return (taken, stopped), jnp.where(go, where[best], _NONE)

    # The carry derives from every input, so that shard_map sees over which axes it varies.
    zero = (
        job.begin + job.length + job.limit + lax.convert_element_type(challenger[:1], np.int32)
    ) & np.int32(0)
    zero = zero & job.group
    (taken, _), order = lax.scan(step, (zero, zero[0] != 0), jnp.arange(count, dtype=np.int32))
    return jnp.concatenate([order, jnp.zeros_like(taken) if job.grouped else taken])
