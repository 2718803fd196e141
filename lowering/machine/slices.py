"""Slices at places that may only be known at run time: what is outside reads zero and is not written.

``lax.dynamic_slice`` and ``lax.dynamic_update_slice`` move a slice that begins outside an array inside it;
these never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar

from .addresses import wide

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, Shaped, UInt

    from ..arrays import Elements, Flat, Words


def read(flat: Elements, start: Scalar, count: int) -> Shaped[Array, " {count}"]:
    """``count`` elements from ``start`` on; no more than the array has."""
    size = flat.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return flat[start : start + count]
    inside, by = _places(wide(start), size, count)
    part = lax.dynamic_slice(flat, (inside,), (count,), allow_negative_indices=False)
    return moved(-by, part)[0]


def write(flat: Flat, part: UInt[Array, " part"], start: Scalar) -> Flat:
    """The array with the elements of a part, no longer than it, from ``start`` on."""
    size, count = flat.shape[0], part.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return lax.dynamic_update_slice(flat, part, (np.int32(start),))
    inside, by = _places(wide(start), size, count)
    old = lax.dynamic_slice(flat, (inside,), (count,), allow_negative_indices=False)
    number = lax.iota(np.int32, count) - by
    chosen = (number >= np.int32(0)) & (number < np.int32(count))
    new = lax.select(chosen, moved(by, part)[0], old)
    return lax.dynamic_update_slice(flat, new, (inside,), allow_negative_indices=False)


def _places(start: Int64[Array, ""], size: int, count: int) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Where a slice moved inside begins, and how far to the right of it the slice begins that was meant.

    Both int32, the distance no longer than the slice.
    """
    begin = lax.clamp(np.int64(0), start, np.int64(size - count))
    # Nothing wraps: a start below zero is moved to zero.
    by = lax.clamp(np.int64(-count), lax.sub(start, begin), np.int64(count))
    return lax.convert_element_type(begin, np.int32), lax.convert_element_type(by, np.int32)


def moved(by: Int32[Array, ""], *lines: Shaped[Array, " n"]) -> tuple[Shaped[Array, " n"], ...]:
    """Lines moved to the right, by no more than their length; zeros come in.

    Most slices lie inside their array and are not moved: on a CPU, a branch costs less than moving by zero.
    """

    def shifted(by: Int32[Array, ""], *lines: Shaped[Array, " n"]) -> tuple[Shaped[Array, " n"], ...]:
        count = lines[0].shape[0]
        padded = (lax.pad(x, np.zeros((), x.dtype), ((count, count, 0),)) for x in lines)
        start = (np.int32(count) - by,)
        return tuple(lax.dynamic_slice(x, start, (count,), allow_negative_indices=False) for x in padded)

    def branching(by: Int32[Array, ""], *lines: Shaped[Array, " n"]) -> tuple[Shaped[Array, " n"], ...]:
        found: tuple[Array, ...] = lax.cond(by == np.int32(0), lambda by, *x: x, shifted, by, *lines)
        return found

    found: tuple[Array, ...] = lax.platform_dependent(by, *lines, cpu=branching, default=shifted)
    return found


def read_window(
    whole: Words, starts: tuple[Scalar, Scalar], shape: tuple[int, int]
) -> UInt[Array, "{shape[0]} {shape[1]}"]:
    """The elements [rows, cols] of a matrix from a row and a column on."""
    if _is_inside(starts, shape, whole.shape):
        return lax.dynamic_slice(whole, [np.int32(n) for n in starts], shape)
    padded = jnp.pad(whole, [(n, n) for n in shape])
    return lax.dynamic_slice(padded, _padded(starts, shape, whole), shape, allow_negative_indices=False)


def write_window(whole: Words, words: UInt[Array, "_ _"], starts: tuple[Scalar, Scalar]) -> Words:
    """The matrix with the words [rows, cols] from a row and a column on."""
    if _is_inside(starts, words.shape, whole.shape):
        return lax.dynamic_update_slice(whole, words, [np.int32(n) for n in starts])
    rows, cols = words.shape
    padded = jnp.pad(whole, [(n, n) for n in words.shape])
    first = _padded(starts, words.shape, whole)
    padded = lax.dynamic_update_slice(padded, words, first, allow_negative_indices=False)
    return padded[rows : rows + whole.shape[0], cols : cols + whole.shape[1]]


def _is_inside(starts: tuple[Scalar, Scalar], shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return all(
        isinstance(a, int) and 0 <= a <= n - size for a, size, n in zip(starts, shape, whole, strict=True)
    )


def _padded(starts: tuple[Scalar, Scalar], shape: tuple[int, ...], whole: Words) -> list[Int32[Array, ""]]:
    """Starts in a matrix with room for a window around it."""
    pairs = zip(starts, shape, whole.shape, strict=True)
    near = [lax.clamp(np.int64(-size), wide(a), np.int64(n)) + np.int64(size) for a, size, n in pairs]
    return [lax.convert_element_type(n, np.int32) for n in near]
