"""Slices and windows at places that only execution knows: nothing is moved, nothing outside is written."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.interpreter import Scalar, TileRef
from pto_jax.ir import BLayout, TileType, element_offset
from pto_jax.lowering.bits import x64
from pto_jax.lowering.machine import storage

FAR = 2**63 - 1
LINE = np.arange(1, 11, dtype=np.uint32)
PART = np.arange(101, 105, dtype=np.uint32)
STARTS = [-FAR - 1, -(2**32), -5, -4, -3, -1, 0, 3, 6, 7, 9, 10, 11, 2**32, FAR]


@cache
def _jitted(count: int) -> Any:
    return jax.jit(lambda x, p, a: (storage.read(x, a, count), storage.write(x, p, a)))


@pytest.mark.variants(1)
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


#: Row and column offsets: inside, reaching over the end, starting at and beyond it, negative.
OFFSETS = ((0, 0), (1, 2), (3, 7), (4, 0), (0, 8), (2, 1000), (-1, 3))


def window(
    name: str, small: tuple[int, int], large: NDArray[np.int32], other: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The results over all offsets, ``large`` being the tile the window lies in."""
    r, c = large.shape
    src, dst = ((r, c), small) if name == "textract" else (small, (r, c))
    program = pto.parse(
        f"pto.{name} ins(%src, %r, %c : !pto.tile<{src[0]}x{src[1]}xi32>, index, index) "
        f"outs(%dst : !pto.tile<{dst[0]}x{dst[1]}xi32>)"
    )
    kernel = pto.compile(program, profile="cpu_sim")
    given: dict[str, Any] = (
        {"src": large, "dst": other} if name == "textract" else {"src": other, "dst": large}
    )

    def run(row: jax.Array, col: jax.Array) -> jax.Array:
        found: jax.Array = kernel(**given, r=row, c=col)["dst"].array
        return found

    rows, cols = (jnp.asarray([o[axis] for o in OFFSETS], jnp.int32) for axis in (0, 1))
    return np.asarray(jax.jit(jax.vmap(run))(rows, cols))


def _outside(row: int, col: int) -> bool:
    return not (0 <= row < 4 and 0 <= col < 8)


def test_an_extracted_window_reads_ones_beyond_its_source() -> None:
    source = np.arange(32, dtype=np.int32).reshape(4, 8)
    found = window("textract", (2, 8), source, np.zeros((2, 8), np.int32))
    padded = np.pad(source, ((0, 2), (0, 8)), constant_values=-1)
    for (row, col), got in zip(OFFSETS, found, strict=True):
        expected = np.full((2, 8), -1) if _outside(row, col) else padded[row : row + 2, col : col + 8]
        np.testing.assert_array_equal(got, expected)


def test_an_inserted_window_is_cut_at_the_end_of_its_destination() -> None:
    small, large = -np.arange(1, 17, dtype=np.int32).reshape(2, 8), np.zeros((4, 8), np.int32)
    found = window("tinsert", (2, 8), large, small)
    for (row, col), got in zip(OFFSETS, found, strict=True):
        expected = np.zeros((6, 16), np.int32)
        if not _outside(row, col):
            expected[row : row + 2, col : col + 8] = small
        np.testing.assert_array_equal(got, expected[:4, :8])


def test_a_window_takes_the_parameter_words_of_its_columns() -> None:
    """Each column is shifted by a distance of its own; the place of the window is only known at run time."""
    program = pto.parse(
        "pto.textract_fp ins(%src, %fp, %r, %c : !pto.tile<4x32xi32>, "
        "!pto.tile<loc=scaling, 1x32xui64>, index, index) outs(%dst : !pto.tile<2x16xi16>)"
    )
    kernel = pto.compile(program, profile="cpu_sim")
    source = np.random.default_rng(1).integers(-(2**31), 2**31, (4, 32), dtype=np.int64).astype(np.int32)
    shifts = np.arange(32, dtype=np.uint64) % np.uint64(16)
    rows, cols = np.array([0, 1, 2], np.int32), np.array([0, 7, 16], np.int32)

    def run(row: jax.Array, col: jax.Array) -> jax.Array:
        given: dict[str, Any] = {"src": source, "fp": (shifts << np.uint64(32))[None], "r": row, "c": col}
        found: jax.Array = kernel(**given, dst=np.zeros((2, 16), np.int16))["dst"].array
        return found

    shifted = (source >> (shifts.astype(np.int32) + 1)).astype(np.int16)
    for row, col, got in zip(
        rows, cols, np.asarray(jax.vmap(run)(jnp.asarray(rows), jnp.asarray(cols))), strict=True
    ):
        np.testing.assert_array_equal(got, shifted[row : row + 2, col : col + 16])


@pytest.mark.parametrize("rows", [1, 17, 33])
@pytest.mark.parametrize("fractal", [512, 32])
@pytest.mark.parametrize("dtype", ["ui8", "f32"])
def test_rows_that_are_no_whole_boxes_have_their_place_in_memory(rows: int, fractal: int, dtype: str) -> None:
    plain = f"!pto.tile_buf<vec, {rows}x64x{dtype}>"
    nz = f"!pto.tile_buf<vec, {rows}x64x{dtype}, blayout=col_major, slayout=row_major, fractal={fractal}>"
    program = pto.parse(
        f"%a = arith.constant 0 : i64\n%d = pto.alloc_tile addr = %a : {nz}\n"
        f"%e = pto.alloc_tile addr = %a : {plain}\npto.tmov ins(%s : {nz}) outs(%d : {nz})\n"
        f"pto.tmov ins(%e : {plain}) outs(%f : {plain})\n"
    )
    kernel = pto.compile(program, profile="a5")
    t = next(a.type for a in kernel.arguments if a.name == "s")
    assert isinstance(t, TileType)
    words = np.arange(rows * 64).reshape(rows, 64).astype(t.dtype.numpy)
    line = np.zeros_like(words).reshape(-1)
    for (r, c), word in np.ndenumerate(words):
        line[element_offset(t, r, c)] = word
    got = kernel(s=words, f=words)["f"].array
    assert np.array_equal(np.asarray(got).reshape(-1), line)
