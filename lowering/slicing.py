"""Slices at positions that a batch shares, updates of arrays, and single elements at run-time positions.

``jax.vmap`` turns ``lax.dynamic_slice`` and ``lax.dynamic_update_slice`` into gathers and scatters, even
where every element of the batch has its slice at the same position. Here these stay slices, with one more
dimension. Slices that begin outside an array are moved inside it, as in ``lax``.

XLA:CPU may compute the new part of an array while it writes it in place, although the part is computed from
other elements of the same array (https://github.com/openxla/xla/issues/49176). :func:`computed_before` makes
that impossible; every update of an array passes through it unless facts prove that its part is independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.custom_batching import custom_vmap

from pto_jax.interpreter import Scalar
from pto_jax.ir import BF16, DType, TileType, element_offset

from .bits import elements_at, from_words, x64
from .platforms import by_platform, expected

if TYPE_CHECKING:
    from jaxtyping import Int, Int32, Shaped, UInt

    #: Where a slice begins along a dimension.
    Start: TypeAlias = "Int32[Array, ''] | Int32[np.ndarray, ''] | np.int32"
    from jaxtyping import Bool

    from .bits import Flat, Word


#: What a loop carries, a tree of arrays.
Carry = TypeVar("Carry")


def of_batches(
    function: Callable[..., Shaped[Array, "batch ..."]], arrays: int
) -> Callable[..., Shaped[Array, "batch ..."]]:
    """A function whose first ``arrays`` arguments are batches, so that a vmap of these makes them larger.

    The others are common to the batch; where a vmap gives each element its own, JAX maps the function.
    """

    @custom_vmap
    def run(*args: Shaped[Array, "..."]) -> Shaped[Array, "batch ..."]:
        # A user's vmap of a jitted kernel comes here outside of the 64-bit scope.
        with x64():
            return function(*args)

    @run.def_vmap
    def _(
        axis_size: int, batched: Sequence[bool], *args: Shaped[Array | np.ndarray, "..."]
    ) -> tuple[Shaped[Array, "..."], bool]:
        if any(batched[arrays:]):
            with x64():
                return jax.vmap(function, [0 if has else None for has in batched])(*args), True
        batches = [
            x if has else jnp.broadcast_to(x, (axis_size, *x.shape))
            for x, has in zip(args[:arrays], batched, strict=False)
        ]
        sizes = [(math.prod(x.shape[:2]), *x.shape[2:]) for x in batches]
        if sizes[0][0] == 0:
            one = [jnp.zeros((1, *s[1:]), x.dtype) for s, x in zip(sizes, batches, strict=True)]
            result = jax.eval_shape(run, *one, *args[arrays:])
            return jnp.zeros((*batches[0].shape[:2], *result.shape[1:]), result.dtype), True
        result = run(*(x.reshape(s) for x, s in zip(batches, sizes, strict=True)), *args[arrays:])
        return result.reshape(*batches[0].shape[:2], *result.shape[1:]), True

    return run


def varied(x: Shaped[Array, "*shape"], *others: Shaped[Array, "..."]) -> Shaped[Array, "*shape"]:
    """The array as a loop's carry: inside shard_map it varies over the axes that the others vary over."""
    for other in others:
        some = other.reshape(-1)[:1] == other.reshape(-1)[:1]
        x = lax.select(jnp.any(some), x, x)
    return x


def repeated(
    trips: Int[Array, ""] | np.integer[Any], step: Callable[[Int[Array, ""], Carry], Carry], carried: Carry
) -> Carry:
    """``lax.fori_loop`` from 0 with one counter, where ``lax`` has two for a known number of trips.

    A counter is a kernel of XLA, which takes longer to compile than to execute.
    """
    one = trips.dtype.type(1)
    _, last = lax.while_loop(
        lambda state: lax.lt(state[0], trips),
        lambda state: (lax.add(state[0], one), step(*state)),
        (jnp.asarray(trips.dtype.type(0)), carried),
    )
    return last


def slice_at(
    whole: Shaped[Array, "..."], starts: Sequence[Start | int], sizes: Sequence[int]
) -> Shaped[Array, "..."]:
    """The part of an array that begins at a place: ``lax.dynamic_slice``, without negative indices."""
    constants = [n for n in starts if isinstance(n, int)]
    if len(constants) == len(starts):
        return lax.slice(whole, constants, [n + size for n, size in zip(constants, sizes, strict=True)])
    return _slicer(tuple(sizes))(whole[None], *map(_index, starts))[0]


def with_slice(
    whole: Shaped[Array, "..."],
    part: Shaped[Array, "..."],
    starts: Sequence[Start | int],
    independent: bool = False,
) -> Shaped[Array, "..."]:
    """The array with a part of it replaced: ``lax.dynamic_update_slice``, without negative indices.

    ``independent`` says that no element of the part, and no start, depends on elements of the array other
    than the one it replaces.
    """
    if part.shape == whole.shape:
        return part
    if not independent:
        part, *starts = computed_before(part, *starts)
    return _replace(whole[None], part[None], *map(_index, starts))[0]


def computed_before(*arrays: Any) -> tuple[Any, ...]:
    """The arrays, which XLA has to store before it computes anything that uses them; numbers as they are.

    On CPUs they pass through a loop of no turn, of which only execution knows the number of turns: XLA fuses
    nothing across a loop, whereas it drops ``lax.optimization_barrier`` before it fuses.
    """
    some = [x for x in arrays if isinstance(x, Array) and x.size]
    results = iter(_stored(*some) if some else ())
    return tuple(next(results) if isinstance(x, Array) and x.size else x for x in arrays)


def as_array(words: UInt[Array, "*shape"], like: np.dtype[Any]) -> Shaped[Array, "*shape"]:
    """Words as an array of a user's type, with all their bits.

    XLA would move the type to before what repeats a word. A CPU with instructions for bfloat16 repeats one by
    way of float32, which makes a zero of a subnormal number.
    """
    if like == BF16.numpy and isinstance(words, Tracer) and expected() == "cpu":
        # The rest of a square by 8 is 0, 1 or 4: zeros that no compiler knows, of which each may be another.
        place = lax.iota(words.dtype, words.size).reshape(words.shape)
        square, one = lax.mul(place, place), words.dtype.type(1)
        zeros = square & lax.shift_right_logical(square, words.dtype.type(2)) & one
        words = lax.bitwise_or(words, zeros)
    return from_words(words, like)


def _through_loop(*arrays: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    word = _some_word(arrays[0])
    # No square leaves the remainder 2 or 3 when it is divided by 4.
    turns = lax.ne(lax.bitwise_and(lax.mul(word, word), word.dtype.type(2)), word.dtype.type(0))
    carried = tuple(varied(x, word) for x in arrays)

    def turn(state: tuple[Bool[Array, ""], tuple[Array, ...]]) -> tuple[Bool[Array, ""], tuple[Array, ...]]:
        return state[0] ^ state[0], tuple(x + x.dtype.type(1) for x in state[1])

    looped = lax.while_loop(lambda state: state[0], turn, (turns, carried))
    return looped[1]


def _some_word(array: Shaped[Array, "..."]) -> UInt[Array, ""]:
    first = lax.slice(array, (0,) * array.ndim, (1,) * array.ndim).reshape(())
    return lax.bitcast_convert_type(first, np.dtype(f"u{array.dtype.itemsize}"))


def _through_barrier(*arrays: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    barred: tuple[Array, ...] = lax.optimization_barrier(arrays)  # type: ignore[no-untyped-call]
    return barred


_by_platform = by_platform(_through_loop, cuda=_through_barrier)


@custom_vmap
def _stored(*arrays: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    # An empty batch has no word.
    if not all(x.size for x in arrays):
        return arrays
    # A user's vmap of a jitted kernel comes here outside of the 64-bit scope.
    with x64():
        return tuple(_by_platform(*arrays))


@_stored.def_vmap
def _(
    axis_size: int, batched: Sequence[bool], *arrays: Shaped[Array, "..."]
) -> tuple[tuple[Shaped[Array, "..."], ...], tuple[bool, ...]]:
    return _stored(*arrays), tuple(batched)


def _index(n: Start | int) -> Start:
    return np.int32(n) if isinstance(n, int) else n


@cache
def _slicer(sizes: tuple[int, ...]) -> Callable[..., Shaped[Array, "batch ..."]]:
    def slices(whole: Shaped[Array, "batch ..."], *starts: Start) -> Shaped[Array, "batch ..."]:
        places = (np.int32(0), *starts)
        return lax.dynamic_slice(whole, places, (whole.shape[0], *sizes), allow_negative_indices=False)

    return of_batches(slices, 1)


def _replaced(
    whole: Shaped[Array, "batch ..."], part: Shaped[Array, "batch ..."], *starts: Start
) -> Shaped[Array, "batch ..."]:
    return lax.dynamic_update_slice(whole, part, (np.int32(0), *starts), allow_negative_indices=False)


_replace = of_batches(_replaced, 2)


@lru_cache(maxsize=1024)
def storage_order(t: TileType) -> Int32[np.ndarray, " positions"]:
    """The logical element at every position of a tile's storage, int32 [positions].

    Elements are counted row by row; a position that holds none has the tile's number of elements.
    """
    rows, cols = np.indices(t.shape, np.int64).reshape(2, -1)
    positions = [element_offset(t, int(r), int(c)) for r, c in zip(rows, cols, strict=True)]
    order = np.full(max(positions, default=-1) + 1, t.elements, np.int32)
    order[positions] = np.arange(t.elements, dtype=np.int32)
    return order


def outside(position: Scalar, size: int) -> Bool[Array, ""] | bool:
    """Whether a position is not one of ``size`` elements."""
    if isinstance(position, int):
        return not 0 <= position < size
    return jnp.asarray((position < 0) | (position >= size))


def _bounded_index(position: Scalar, size: int) -> Int32[Array, ""]:
    """An int32 position; ``size`` for every position outside."""
    if isinstance(position, int):
        return jnp.asarray(np.int32(position if 0 <= position < size else size))
    wide = lax.convert_element_type(position, np.int64)
    inside = (wide >= np.int64(0)) & (wide < np.int64(size))
    return lax.convert_element_type(jnp.where(inside, wide, np.int64(size)), np.int32)


def read(flat: Flat, position: Scalar) -> Word:
    """One word; zero outside."""
    return elements_at(flat, _bounded_index(position, flat.shape[0]))


def write(flat: Flat, position: Scalar, word: Word) -> Flat:
    """The words with one replaced; as they are for a position outside."""
    if flat.shape[0] == 0:
        return flat
    return flat.at[_bounded_index(position, flat.shape[0])].set(word, mode="drop")


def in_tile(t: TileType, position: Scalar) -> Scalar:
    """The logical element, counted row by row, at a position of a tile's storage."""
    order = storage_order(t.with_valid(None, None))
    if np.array_equal(order, np.arange(t.elements)):
        return position
    if isinstance(position, int):
        return int(order[position]) if 0 <= position < len(order) else t.elements
    return jnp.asarray(order).at[_bounded_index(position, len(order))].get(mode="fill", fill_value=t.elements)


def as_scalar(word: Word, dtype: DType) -> Shaped[Array, ""]:
    """A word as a scalar of the program."""
    return lax.bitcast_convert_type(word, np.dtype(dtype.numpy))
