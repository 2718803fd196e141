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
    from jaxtyping import Int32, Int64, UInt

    from ..arrays import Flat, Words


def read(flat: Flat, start: Scalar, count: int) -> UInt[Array, " {count}"]:
    """``count`` elements from ``start`` on; no more than the array has."""
    size = flat.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return flat[start : start + count]
    inside, places = _places(wide(start), size, count)
    part = lax.dynamic_slice(flat, (inside,), (count,), allow_negative_indices=False)
    padded = lax.pad(part, flat.dtype.type(0), ((count, count, 0),))
    return lax.dynamic_slice(padded, (places,), (count,), allow_negative_indices=False)


def write(flat: Flat, part: UInt[Array, " part"], start: Scalar) -> Flat:
    """The array with the elements of a part, no longer than it, from ``start`` on."""
    size, count = flat.shape[0], part.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return lax.dynamic_update_slice(flat, part, (np.int32(start),))
    inside, places = _places(wide(start), size, count)
    old = lax.dynamic_slice(flat, (inside,), (count,), allow_negative_indices=False)
    # The part stands in the middle of three; where it reaches outside, the slice ends in one of the others.
    back = np.int32(2 * count) - places
    padded = lax.pad(part, flat.dtype.type(0), ((count, count, 0),))
    moved = lax.dynamic_slice(padded, (back,), (count,), allow_negative_indices=False)
    number = lax.iota(np.int32, count) + back
    chosen = (number >= np.int32(count)) & (number < np.int32(2 * count))
    return lax.dynamic_update_slice(
        flat, lax.select(chosen, moved, old), (inside,), allow_negative_indices=False
    )


def _places(start: Int64[Array, ""], size: int, count: int) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Where a slice moved inside begins, and where the slice that was meant begins, both int32.

    The second is counted in three slices of ``count`` elements side by side, of which the moved one is the
    middle one.
    """
    begin = lax.clamp(np.int64(0), start, np.int64(size - count))
    # Nothing wraps: a start below zero is moved to zero.
    shift = lax.clamp(np.int64(-count), lax.sub(start, begin), np.int64(count))
    inside, places = (lax.convert_element_type(n, np.int32) for n in (begin, lax.add(shift, np.int64(count))))
    return inside, places


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
