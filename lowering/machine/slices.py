"""Slices at places that may only be known at run time: what is outside reads zero and is not written.

Slices of ``lax`` and of :mod:`slicing` that begin outside an array are moved inside it; these never are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.interpreter import Scalar

from ..slicing import slice_at, varied, with_slice
from .addresses import wide

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, Shaped, UInt

    from ..arrays import Elements, Words


def read(flat: Elements, start: Scalar, count: int) -> Shaped[Array, " {count}"]:
    """``count`` elements from ``start`` on; no more than the array has."""
    size = flat.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return flat[start : start + count]
    inside, by = _places(wide(start), size, count)

    def shifted(flat: Elements) -> Shaped[Array, " part"]:
        return _moved(-by, slice_at(flat, (inside,), (count,)))

    def branching(flat: Elements) -> Shaped[Array, " part"]:
        # Most slices lie inside their array: on a CPU, a branch costs less than moving by zero.
        found: Array = lax.cond(
            by == np.int32(0), lambda flat: slice_at(flat, (inside,), (count,)), shifted, flat
        )
        return found

    found: Array = lax.platform_dependent(flat, cpu=branching, default=shifted)
    return found


def write(flat: Elements, part: Shaped[Array, " part"], start: Scalar, independent: bool = False) -> Elements:
    """The array with the elements of a part, no longer than it, from ``start`` on.

    ``independent`` as in :func:`..slicing.with_slice`.
    """
    size, count = flat.shape[0], part.shape[0]
    if isinstance(start, int) and 0 <= start <= size - count:
        return with_slice(flat, part, (start,), independent)
    inside, by = _places(wide(start), size, count)
    old = slice_at(flat, (inside,), (count,))
    number = lax.iota(np.int32, count) - by
    chosen = (number >= np.int32(0)) & (number < np.int32(count))

    def looping(part: Shaped[Array, " part"]) -> Shaped[Array, " part"]:
        # A loop of no or one turn: its carry is updated in place, the result of a branch is copied.
        turns = lax.convert_element_type(by != np.int32(0), np.int32)
        found: Array = lax.fori_loop(np.int32(0), turns, lambda _, x: _moved(by, x), varied(part, by))
        return found

    place = lax.platform_dependent(part, cpu=looping, default=partial(_moved, by))
    return with_slice(flat, lax.select(chosen, place, old), (inside,), independent)


def _places(start: Int64[Array, ""], size: int, count: int) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Where a slice moved inside begins, and how far to the right of it the slice begins that was meant.

    Both int32, the distance no longer than the slice.
    """
    begin = lax.clamp(np.int64(0), start, np.int64(size - count))
    # Nothing wraps: a start below zero is moved to zero.
    by = lax.clamp(np.int64(-count), lax.sub(start, begin), np.int64(count))
    return lax.convert_element_type(begin, np.int32), lax.convert_element_type(by, np.int32)


def _moved(by: Int32[Array, ""], line: Shaped[Array, " n"]) -> Shaped[Array, " n"]:
    """A line moved to the right, by no more than its length; zeros come in."""
    count = line.shape[0]
    padded = lax.pad(line, np.zeros((), line.dtype), ((count, count, 0),))
    return slice_at(padded, (np.int32(count) - by,), (count,))


def read_window(
    whole: Words, starts: tuple[Scalar, Scalar], shape: tuple[int, int]
) -> UInt[Array, "{shape[0]} {shape[1]}"]:
    """The elements [rows, cols] of a matrix from a row and a column on."""
    if _is_inside(starts, shape, whole.shape):
        return slice_at(whole, starts, shape)
    padded = jnp.pad(whole, [(n, n) for n in shape])
    return slice_at(padded, _padded(starts, shape, whole), shape)


def write_window(whole: Words, words: UInt[Array, "_ _"], starts: tuple[Scalar, Scalar]) -> Words:
    """The matrix with the words [rows, cols] from a row and a column on."""
    if _is_inside(starts, words.shape, whole.shape):
        return with_slice(whole, words, starts)
    rows, cols = words.shape
    padded = jnp.pad(whole, [(n, n) for n in words.shape])
    first = _padded(starts, words.shape, whole)
    padded = with_slice(padded, words, first)
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
