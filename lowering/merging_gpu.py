"""Merging of any lists on GPUs: all steps as one kernel, with the numbers of the lists in registers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

if TYPE_CHECKING:
    from jaxtyping import Int, Int32

_like: Any = jax.ShapeDtypeStruct
_ZERO, _ONE, _NONE = np.int32(0), np.int32(1), np.int32(-1)


def stepwise(
    keys: tuple[Int[Array, "batch records"], Int[Array, "batch records"]],
    job: tuple[Int32[Array, "batch ..."], ...],
    count: int,
    grouped: bool,
    exhausted: bool,
    interpret: bool = False,
) -> Int32[Array, "batch _"]:
    """Positions of ``count`` records in merged order, -1 for none, then the records taken per list.

    The keys say what a record is compared with those of the lists before its own by, which it must exceed,
    and what with those of the lists after it. ``job`` is begin and length [batch, lists], limit and group
    [batch], as in :class:`merging.Merge`.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (batch, records), lists = keys[0].shape, job[0].shape[1]
    wide = (x if x.dtype.itemsize > 4 else lax.convert_element_type(x, np.int32) for x in keys)
    result: Array = pl.pallas_call(
        partial(_merge, (records, lists, count), grouped, exhausted),
        out_shape=_like((batch, count + lists), np.int32),
        grid=(batch,),
        interpret=interpret,
        # A program is one thread's work.
        compiler_params=None if interpret else triton.CompilerParams(num_warps=1),
        name="pto_merge",
    )(*wide, *job)
    return result


def _merge(sizes: tuple[int, int, int], grouped: bool, exhausted: bool, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    (records, lists, count), row = sizes, pl.program_id(0)
    challenger, incumbent, begin, length, limit, group, order = refs
    starts, lengths = ([ref[row, i] for i in range(lists)] for ref in (begin, length))

    def step(number: Any, state: Any) -> Any:
        *taken, stopped = state
        number = lax.convert_element_type(number, np.int32)
        first = starts
        if grouped:
            size = group[row]
            taken = [jnp.where(lax.rem(number, size) == _ZERO, _ZERO, t) for t in taken]
            first = [s + number - lax.rem(number, size) for s in starts]
        places = [f + t for f, t in zip(first, taken, strict=True)]
        left = [t < n for t, n in zip(taken, lengths, strict=True)]
        inside = [jnp.clip(p, _ZERO, np.int32(records - 1)) for p in places]
        best, some = greatest(left, [challenger[row, p] for p in inside], [incumbent[row, p] for p in inside])
        go = some & (number < limit[row]) & (stopped == _ZERO)
        place = places[0]
        for i in range(1, lists):
            place = jnp.where(best == np.int32(i), places[i], place)
        order[row, number] = jnp.where(go, place, _NONE)
        taken = [jnp.where(go & (best == np.int32(i)), t + _ONE, t) for i, t in enumerate(taken)]
        if exhausted:
            for t, n in zip(taken, lengths, strict=True):
                stopped = jnp.where(go & (t == n), _ONE, stopped)
        return (*taken, stopped)

    *taken, _ = lax.fori_loop(_ZERO, np.int32(count), step, (_ZERO,) * (lists + 1))
    for i, t in enumerate(taken):
        order[row, count + i] = _ZERO if grouped else t


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
