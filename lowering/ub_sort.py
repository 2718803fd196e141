"""JAX rules of sorting and merging records in the unified buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.isa.micro import MicroCall
from pto_jax.isa.ub_sort import GROUP, LISTS, RECORD

from .irregular_sort import Merge, as_records, descending, merged
from .machine.local_memory import Special
from .micro import memory_rule

if TYPE_CHECKING:
    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory


def _known(call: MicroCall, name: str, value: Any) -> int:
    """A number that has to be known before the program is compiled."""
    if isinstance(value, int):
        return int(value)
    message = f"has a {name} that only execution knows; allowed: a constant, or eager execution"
    raise NotExecutableError(Diagnostic("error", message, None, call.name, rule="executable"))


@memory_rule("vbitsort")
def _sort(
    call: MicroCall, machine: TileMemory, dst: Place, src: Place, idx: Place, repeats: Any
) -> tuple[()]:
    groups, d = max(0, _known(call, "number of groups", repeats)), src.dtype
    if not groups:
        return ()
    scores = src.read(groups * GROUP, d.word_bits).reshape(groups, GROUP)
    indices = idx.read(groups * GROUP, 32).reshape(groups, GROUP)
    order = jnp.argsort(descending(scores, d), axis=1, stable=True)
    both = (jnp.take_along_axis(x, order, axis=1) for x in (scores, indices))
    dst.write(as_records(*both).reshape(-1))
    return ()


@memory_rule("vmrgsort4")
def _merge(
    call: MicroCall, machine: TileMemory, dst: Place, count: Any, config: Any, **sources: Place
) -> tuple[()]:
    lengths_word, control = _known(call, "count", count), _known(call, "configuration", config)
    lengths = [(lengths_word >> 16 * k & 0xFFFF) * (control >> 8 + k & 1) for k in range(LISTS)]
    there = [k for k in range(LISTS) if lengths[k]]
    special = Special(machine)
    taken = dict.fromkeys(range(LISTS), jnp.zeros((), np.int32))
    if there:
        size = RECORD * 8 // dst.dtype.word_bits
        lists = [sources[f"src{k}"].read(lengths[k] * size, dst.dtype.word_bits) for k in there]
        words = jnp.concatenate(lists).reshape(-1, size)
        order, found = merged(words[:, 0], dst.dtype, _job([lengths[k] for k in there], control), len(words))
        taken |= dict(zip(there, found, strict=True))
        chosen = words[jnp.maximum(order, 0)].reshape(-1)
        dst.write(chosen, jnp.repeat(order >= 0, size))
    for k in range(LISTS):
        special[f"VMS4_{k}"] = taken[k]
    return ()


def _job(lengths: list[int], control: int) -> Merge:
    begin = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    zero, total = np.int32(0), np.int32(sum(lengths))
    exhausted = bool(control >> 12 & 1)
    arrays: list[Array] = [jnp.asarray(x, np.int32) for x in (begin, lengths, total, zero)]
    return Merge(arrays[0], arrays[1], arrays[2], arrays[3], exhausted=exhausted)


@memory_rule("get_vms4_sr")
def _taken(call: MicroCall, machine: TileMemory) -> tuple[Array, ...]:
    special = Special(machine)
    return tuple(special[f"VMS4_{k}"].astype(np.uint16) for k in range(LISTS))
