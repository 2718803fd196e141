"""The reference interpreter on several ranks: NumPy arrays with a leading axis of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import profiles
from ..errors import ArgumentError
from ..interpreter.interleaving import Interleaving, Make
from ..interpreter.interpreter import Interpreter
from ..interpreter.rank_calls import RankCall, world_of
from ..interpreter.ranks import Watch, context, part
from ..ir import DType
from .machine import ReferenceMachine
from .numbers import Array
from .step import Policy


def run_ranks(  # noqa: PLR0913 - keywords
    calls: Sequence[RankCall | None],
    arrays: Mapping[str, Any],
    numbers: Sequence[Mapping[str, Sequence[Any]]],
    *,
    profile: profiles.Profile,
    out_of_region: str | None = None,
    flush: bool = False,
    seed: int | None = None,
    late: bool = False,
    max_steps: int = 1_000_000,
    machine: Callable[[Policy, Mapping[str, Array], int], ReferenceMachine] = ReferenceMachine,
    watch: Watch | None = None,
    make: Make = Interpreter,
) -> dict[str, Array]:
    """The buffers after kernels on all ranks, as arrays [ranks, ...].

    ``calls`` are executed by every rank in their order; at None all ranks meet. ``arrays`` are the buffers,
    ``numbers`` the scalars of each call with one value for each rank. ``seed`` chooses the order of the
    cores, ``late`` moves the data of asynchronous copies where they are waited for. DeadlockError where no
    core goes on; ArgumentError for a buffer that is missing or of another type.
    """
    kernels = [call for call in calls if call is not None]
    world = world_of(kernels, late=late)
    types: dict[str, DType] = {}
    for call in kernels:
        for name, d in call.buffers.items():
            types.setdefault(name, d)
    memory: dict[str, Array] = {}
    given = {n: _checked(n, arrays, types.get(n), world.count) for n in world.buffers}
    for name, array in given.items():
        for rank in range(world.count):
            memory[part(name, rank)] = _bytes(array[rank], types.get(name))
    for call in kernels:
        for name in call.records:
            for rank in range(world.count):
                memory[part(name, rank)] = np.array(context(rank, world.count), np.int64).view(np.uint8)
    policy = Policy(profile, out_of_region or profile.out_of_region, flush)
    made = machine(policy, memory, max_steps)
    if watch is not None:
        world.watch = watch
    shapes = {n: _extents(a.shape[1:], types.get(n)) for n, a in given.items()}
    values = iter(numbers)
    launched = [(call, next(values) if call is not None else {}) for call in calls]
    sequences = [
        [None if call is None else call.launch(rank, shapes, own) for call, own in launched]
        for rank in range(world.count)
    ]
    Interleaving(world, made, sequences, seed, make).run()
    made.finish()
    return {
        n: np.stack([_array(memory[part(n, r)], a[r], types.get(n)) for r in range(world.count)])
        for n, a in given.items()
    }


def _checked(name: str, arrays: Mapping[str, Any], d: DType | None, count: int) -> Array:
    if name not in arrays:
        raise ArgumentError(f"buffer {name!r} is missing; got {', '.join(arrays) or 'none'}")
    array = np.ascontiguousarray(arrays[name])
    if array.ndim == 0 or array.shape[0] != count:
        raise ArgumentError(
            f"buffer {name!r}: got shape {array.shape}; allowed: a leading axis of {count} ranks"
        )
    if d is not None and array.dtype.itemsize != d.word.itemsize:
        raise ArgumentError(f"buffer {name!r} holds {array.dtype}; allowed: {d}")
    return array


def _extents(shape: tuple[int, ...], d: DType | None) -> tuple[int, ...]:
    """The shape of a part in elements: two of 4 bits are one byte of the array."""
    if d is None or not d.packed or not shape:
        return shape
    return (*shape[:-1], 2 * shape[-1])


def _bytes(array: Array, d: DType | None) -> Array:
    """A copy of a part as memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()


def _array(memory: Array, like: Array, d: DType | None) -> Array:
    return memory.view(like.dtype).reshape(like.shape)
