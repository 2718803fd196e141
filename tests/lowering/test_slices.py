"""Slices at run-time places are never moved: what is outside reads zero and is not written."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.interpreter import Scalar, TileRef
from pto_jax.ir import BLayout, TileType
from pto_jax.lowering.bits import x64
from pto_jax.lowering.machine import storage

FAR = 2**63 - 1
LINE = np.arange(1, 11, dtype=np.uint32)
PART = np.arange(101, 105, dtype=np.uint32)
STARTS = [-FAR - 1, -(2**32), -5, -4, -3, -1, 0, 3, 6, 7, 9, 10, 11, 2**32, FAR]


@cache
def _jitted(count: int) -> Any:
    return jax.jit(lambda x, p, a: (storage.read(x, a, count), storage.write(x, p, a)))


@pytest.mark.variants(5)
@pytest.mark.parametrize("start", STARTS)
def test_a_slice_of_a_line(start: int) -> None:
    read, written = np.zeros(4, np.uint32), LINE.copy()
    for i in range(4):
        if 0 <= start + i < 10:
            read[i], written[start + i] = LINE[start + i], PART[i]
    with x64():
        cases = [_jitted(4)(LINE, PART, np.int64(start))]
        line = jnp.asarray(LINE)
        cases.append((storage.read(line, start, 4), storage.write(line, jnp.asarray(PART), start)))
        for found in cases:
            np.testing.assert_array_equal(found[0], read)
            np.testing.assert_array_equal(found[1], written)


@cache
def _window(layout: BLayout) -> Any:
    """Reads and writes a 2x3 window of a 4x6 tile."""

    def apply(whole: Any, words: Any, row: Scalar, col: Scalar) -> tuple[Any, Any]:
        t = TileType(pto.dtype("u32"), 4, 6, blayout=layout)
        window = storage.Window(TileRef(t, None, 4, 6), row, col)
        return window.take(whole, TileType(pto.dtype("u32"), 2, 3)), window.put(whole, words)

    return apply, jax.jit(apply)


@pytest.mark.parametrize("layout", list(BLayout))
@pytest.mark.parametrize(
    ("row", "col"),
    [(0, 0), (2, 3), (1, 2), (3, 0), (-1, 1), (0, 5), (0, -2), (2**32, 0), (FAR, FAR), (-FAR, 1)],
)
def test_a_window_of_a_tile_follows_its_addresses(layout: BLayout, row: int, col: int) -> None:
    whole, words = np.arange(1, 25, dtype=np.uint32).reshape(4, 6), np.arange(101, 107, dtype=np.uint32)
    by_row = layout == BLayout.ROW_MAJOR
    flat, read = (whole if by_row else whole.T).reshape(-1).copy(), np.zeros((2, 3), np.uint32)
    stored = flat.copy()
    for i, j in np.ndindex(2, 3):
        at = (row + i) * 6 + col + j if by_row else (col + j) * 4 + row + i
        if 0 <= at < 24:
            read[i, j], stored[at] = flat[at], words.reshape(2, 3)[i, j]
    with x64():
        found = _window(layout)[1](whole, words.reshape(2, 3), np.int64(row), np.int64(col))
    np.testing.assert_array_equal(found[0], read)
    np.testing.assert_array_equal(found[1], stored.reshape(4, 6) if by_row else stored.reshape(6, 4).T)


def test_a_constant_window_is_a_slice() -> None:
    whole = np.arange(24, dtype=np.uint32).reshape(4, 6)
    apply, _ = _window(BLayout.ROW_MAJOR)
    taken, put = apply(whole, whole[:2, :3], 2, 3)
    np.testing.assert_array_equal(taken, whole[2:, 3:])
    np.testing.assert_array_equal(put[2:, 3:], whole[:2, :3])
