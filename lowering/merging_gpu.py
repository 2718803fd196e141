"""Merging of lists on GPUs: one kernel, whose programs have an element of the batch each.

A program looks whether its lists descend. Of lists that do, the place of a record in merged order is the
number of records that go before it, which a binary search in each list counts; others are merged step by
step, with the numbers of the lists in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import DType

from . import bits

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt

_like: Any = jax.ShapeDtypeStruct
_ZERO, _ONE, _NONE = np.int32(0), np.int32(1), np.int32(-1)
#: Records that a program has in its threads at a time.
LANES = 128


class Shape(NamedTuple):
    """Records that there are and that are wanted, their type, and what :class:`merging.Merge` says."""

    records: int
    wanted: int
    type: DType
    grouped: bool
    exhausted: bool


class _Lists(NamedTuple):
    """The lists of a program: the key at places, how to write what is there in order, and its job."""

    key: Callable[[Any], Any]
    write: Callable[..., None]
    begin: Sequence[Any]
    length: Sequence[Any]
    limit: Any
    group: Any


def merged(
    values: UInt[Array, "batch records"],
    job: tuple[Int32[Array, "batch ..."], ...],
    shape: Shape,
    interpret: bool = False,
) -> Int32[Array, "batch _"]:
    """Positions of the wanted records in merged order, -1 for none, then the records taken per list.

    ``job`` is begin and length [batch, lists], limit and group [batch], as in :class:`merging.Merge`.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    batch, lists = len(values), job[0].shape[1]
    # Half the memory where it suffices.
    kind = np.int16 if max(shape.records, shape.wanted) <= np.iinfo(np.int16).max else np.int32
    result: Array = pl.pallas_call(
        partial(_merge, shape, lists),
        # The last column is for what nobody asks for.
        out_shape=_like((batch, shape.wanted + lists + 1), kind),
        grid=(batch,),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=LANES // 32),
        name="pto_merge",
    )(values, *job)
    return lax.convert_element_type(result[:, :-1], np.int32)


def _merge(shape: Shape, lists: int, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    row = pl.program_id(0)
    values, begin, length, limit, group, order = refs
    last, size = np.int32(shape.records - 1), shape.wanted + lists

    def write(place: Any, number: Any, some: Any = None) -> None:
        place = place if some is None else jnp.where(some, place, np.int32(size))
        order[row, place] = lax.convert_element_type(number, order.dtype)

    job = _Lists(
        lambda place: _key(values[row, jnp.clip(place, _ZERO, last)], shape.type),
        write,
        [begin[row, i] for i in range(lists)],
        [length[row, i] for i in range(lists)],
        limit[row],
        group[row],
    )
    rises = _rises(shape, job)
    at_once, stepwise = _at_once(shape, job, rises), _stepwise(shape, job, rises)
    for i, (one, other) in enumerate(zip(at_once, stepwise, strict=True)):
        taken = _ZERO if shape.grouped else jnp.where(rises, other, one)
        write(np.int32(shape.wanted + i), taken)


def _key(words: Any, d: DType) -> Any:
    """Integers in the order of values; the greatest one for every NaN."""
    if d.is_float:
        key = bits.ordered(words, d)
        return jnp.where(bits.is_nan(words, d), _nan(key), key)
    key = lax.bitcast_convert_type(words, np.dtype(f"i{words.dtype.itemsize}"))
    # Triton has no constant beyond those of signed integers.
    return key if d.is_signed else key ^ key.dtype.type(np.iinfo(key.dtype).min)


def _nan(key: Any) -> Any:
    return key.dtype.type(np.iinfo(key.dtype).max)


# -- lists that descend ------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Of records by number: where their group begins, and their places in each list, -1 in others."""

    base: Any
    places: Sequence[Any]
    listed: Any


def _places(shape: Shape, job: _Lists, number: Any) -> _Places:
    base = number - lax.rem(number, job.group) if shape.grouped else lax.full_like(number, 0)
    places, listed = [], number < _ZERO
    for begin, length in zip(job.begin, job.length, strict=True):
        after = number - base - begin
        inside = (after >= _ZERO) & (after < length)
        places.append(jnp.where(inside, after, _NONE))
        listed = listed | inside
    if shape.grouped:
        listed = listed & (number < jnp.minimum(job.limit, np.int32(shape.records)))
    return _Places(base, places, listed)


def _chunks(size: int) -> np.int32:
    return np.int32(-(-size // LANES))


def _numbers(chunk: Any) -> Any:
    first = lax.convert_element_type(chunk, np.int32) * np.int32(LANES)
    return first + lax.broadcasted_iota(np.int32, (LANES,), 0)


def _rises(shape: Shape, job: _Lists) -> Any:
    """Whether some list has a NaN or a value that is greater than the one before."""

    def look(chunk: Any, rises: Any) -> Any:
        number = _numbers(chunk)
        found, key = _places(shape, job, number), job.key(number)
        greater = key > job.key(number - _ONE)
        for place in found.places:
            greater = greater & (place != _ZERO)
        if shape.type.is_float:
            greater = greater | (key == _nan(key))
        return jnp.maximum(rises, jnp.max(lax.convert_element_type(greater & found.listed, np.int32)))

    return lax.fori_loop(_ZERO, _chunks(shape.records), look, _ZERO) != _ZERO


def _rank(shape: Shape, job: _Lists, number: Any, found: _Places) -> Any:
    """The places of records in merged order, if all lists descend."""
    key, rank, after = job.key(number), found.base, number < _ZERO
    for i, place in enumerate(found.places):
        # Equal records of the lists before a record's own go before it.
        before = _before(shape, job, i, found.base, key, ~after & (place == _NONE))
        rank = rank + jnp.where(place == _NONE, before, place)
        after = after | (place != _NONE)
    return rank


def _before(shape: Shape, job: _Lists, i: int, base: Any, key: Any, equal: Any) -> Any:
    """How many records of a list have a greater key, or an equal one where those count too."""
    low, high = lax.full_like(base, 0), lax.full_like(base, 0) + job.length[i]

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = lax.shift_right_arithmetic(low + high, _ONE)
        other = job.key(base + job.begin[i] + middle)
        ahead, some = (other > key) | (equal & (other == key)), low < high
        return jnp.where(some & ahead, middle + _ONE, low), jnp.where(some & ~ahead, middle, high)

    return lax.fori_loop(_ZERO, np.int32(shape.records.bit_length()), halve, (low, high))[0]


def _at_once(shape: Shape, job: _Lists, rises: Any) -> list[Any]:
    """Write the order of lists that descend, if none rises; the records taken per list."""
    total = job.limit
    if not shape.grouped:
        total = job.length[0]
        for n in job.length[1:]:
            total = total + n
    total = jnp.minimum(total, np.int32(shape.records))
    end = _end(shape, job, total)

    def write(chunk: Any, taken: Any) -> Any:
        number = _numbers(chunk)
        found = _places(shape, job, number)
        rank = _rank(shape, job, number, found)
        # Every place is written once, as the threads of a program do not wait for each other.
        job.write(rank, jnp.where(rank < end, number, _NONE), found.listed & (rank < np.int32(shape.wanted)))
        beyond = (number >= total) & (number < np.int32(shape.wanted))
        job.write(number, lax.full_like(number, -1), beyond)
        own = [(p != _NONE) & (rank < end) for p in found.places]
        return tuple(
            t + jnp.sum(lax.convert_element_type(o, np.int32), dtype=np.int32)
            for t, o in zip(taken, own, strict=True)
        )

    chunks = jnp.where(rises, _ZERO, _chunks(max(shape.records, shape.wanted)))
    return list(lax.fori_loop(_ZERO, chunks, write, (_ZERO,) * len(job.begin)))


def _end(shape: Shape, job: _Lists, total: Any) -> Any:
    """How many records are taken of lists that descend."""
    end = jnp.minimum(jnp.minimum(job.limit, total), np.int32(shape.wanted))
    for begin, length in zip(job.begin, job.length, strict=True) if shape.exhausted else ():
        number = begin + length - _ONE
        rank = _rank(shape, job, number, _places(shape, job, number))
        # An empty list has no record left once the first record is taken.
        end = jnp.minimum(end, jnp.where(length > _ZERO, rank, _ZERO) + _ONE)
    return end


# -- any lists ---------------------------------------------------------------------------------------


def _stepwise(shape: Shape, job: _Lists, rises: Any) -> list[Any]:
    """Write the order of any lists, if one rises; the records taken per list."""
    lists = len(job.begin)

    def step(number: Any, state: Any) -> Any:
        *taken, stopped = state
        number = lax.convert_element_type(number, np.int32)
        first = job.begin
        if shape.grouped:
            taken = [jnp.where(lax.rem(number, job.group) == _ZERO, _ZERO, t) for t in taken]
            first = [s + number - lax.rem(number, job.group) for s in first]
        places = [f + t for f, t in zip(first, taken, strict=True)]
        left = [t < n for t, n in zip(taken, job.length, strict=True)]
        incumbent = [job.key(p) for p in places]
        challenger = incumbent
        if shape.type.is_float:
            least = incumbent[0].dtype.type(np.iinfo(incumbent[0].dtype).min)
            challenger = [jnp.where(k == _nan(k), least, k) for k in incumbent]
        best, some = greatest(left, challenger, incumbent)
        go = some & (number < job.limit) & (stopped == _ZERO)
        place = places[0]
        for i in range(1, lists):
            place = jnp.where(best == np.int32(i), places[i], place)
        job.write(number, jnp.where(go, place, _NONE))
        taken = [jnp.where(go & (best == np.int32(i)), t + _ONE, t) for i, t in enumerate(taken)]
        if shape.exhausted:
            for t, n in zip(taken, job.length, strict=True):
                stopped = jnp.where(go & (t == n), _ONE, stopped)
        return (*taken, stopped)

    steps = jnp.where(rises, np.int32(shape.wanted), _ZERO)
    *taken, _ = lax.fori_loop(_ZERO, steps, step, (_ZERO,) * (lists + 1))
    return list(taken)


def greatest(left: Any, challenger: Any, incumbent: Any) -> tuple[Any, Any]:
    """The list whose record goes next, int32, and whether there is one.

    ``left`` says which lists have a record left; all three are arrays of the lists, or a kernel's numbers.
    """
    # Derived from an input: shard_map tracks over which axes it varies.
    best: Any = lax.convert_element_type(left[0], np.int32) * _ZERO
    some, value = left[0], incumbent[0]
    for i in range(1, len(left)):
        better = left[i] & (~some | (challenger[i] > value))
        best = jnp.where(better, np.int32(i), best)
        value = jnp.where(better, incumbent[i], value)
        some = some | better
    return best, some
