"""Physical element order: the vectorised form against the definition, and round trips."""

import numpy as np
import pytest

from pto_jax import ir
from pto_jax.errors import ArgumentError
from pto_jax.vectors.cases import (
    element_offsets,
    pack_elements,
    storage_elements,
    to_logical,
    to_physical,
    unpack_elements,
)
from tests.tables import every

LAYOUTS = [
    (b, s, fractal, dtype)
    for b in ir.BLayout
    for s in ir.SLayout
    for fractal, dtype in (
        (512, ir.F16),
        (512, ir.I8),
        (1024, ir.F32),
        (32, ir.F8E8M0),
        (512, ir.F4E2M1),
        (512, ir.U64),
    )
]


def tile(b: ir.BLayout, s: ir.SLayout, fractal: int, dtype: ir.DType) -> ir.TileType:
    return ir.TileType(dtype, 64, 64, blayout=b, slayout=s, fractal=fractal)


@every(("b", "s", "fractal", "dtype"), LAYOUTS)
def test_offsets_follow_the_definition(b: ir.BLayout, s: ir.SLayout, fractal: int, dtype: ir.DType) -> None:
    t = tile(b, s, fractal, dtype)
    expected = [[ir.element_offset(t, r, c) for c in range(t.cols)] for r in range(t.rows)]
    offsets = element_offsets(t)
    np.testing.assert_array_equal(offsets, expected)
    assert sorted(offsets.reshape(-1)) == list(range(t.elements))


@every(("b", "s", "fractal", "dtype"), LAYOUTS)
def test_bytes_survive_a_round_trip(b: ir.BLayout, s: ir.SLayout, fractal: int, dtype: ir.DType) -> None:
    t = tile(b, s, fractal, dtype)
    raw = np.random.default_rng(0).integers(0, 256, t.bytes, dtype=np.uint8)
    words = to_logical(t, raw)
    assert words.shape == t.shape and words.dtype == dtype.word
    np.testing.assert_array_equal(to_physical(t, words), raw)


def test_the_even_element_of_a_packed_byte_is_the_low_nibble() -> None:
    assert unpack_elements(ir.F4E2M1, np.array([0xA3], np.uint8)).tolist() == [3, 10]
    assert pack_elements(ir.F4E2M1, np.array([3, 10, 5])).tolist() == [0xA3, 0x05]


def test_row_padding_keeps_its_bytes() -> None:
    t = ir.TileType(ir.I8, 2, 4, compact=ir.Compact.ROW_PLUS_ONE)
    raw = np.arange(9, dtype=np.uint8)
    assert storage_elements(t) == 9
    words = to_logical(t, raw)
    assert words.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]]
    np.testing.assert_array_equal(to_physical(t, words, into=raw), raw)


def test_wrong_sizes_are_refused() -> None:
    t = ir.TileType(ir.F32, 2, 8)
    with pytest.raises(ArgumentError, match="got 60 bytes for a tile vec 2x8xf32; allowed: 64"):
        to_logical(t, np.zeros(60, np.uint8))
    with pytest.raises(ArgumentError, match="allowed: multiples of 4, the size of f32"):
        to_logical(t, np.zeros(63, np.uint8))
    with pytest.raises(ArgumentError, match=r"\(8, 2\) for a tile"):
        to_physical(t, np.zeros((8, 2)))
