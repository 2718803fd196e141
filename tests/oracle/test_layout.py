"""Windows, pads and counts where the recorded vectors do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import TileType

I32 = pto.dtype("i32")


def tile(values: object, v_row: int | None = None, v_col: int | None = None) -> oracle.OracleTile:
    data = np.asarray(values, np.int32)
    return oracle.OracleTile(TileType(I32, *data.shape), data, v_row, v_col)


def run(text: str, profile: str = "cpu_sim", **given: Any) -> dict[str, Any]:
    return dict(oracle.run(pto.parse(text), given, profile=profile))


def test_a_window_that_leaves_the_source_is_an_error_and_reads_ones_where_nothing_is_checked() -> None:
    text = """
    %dst = textract %src[%r, %c] : !pto.tile<4x8xi32>, index, index -> !pto.tile<2x8xi32>
    """
    source = np.arange(32, dtype=np.int32).reshape(4, 8)
    np.testing.assert_array_equal(run(text, src=tile(source), r=1, c=0)["dst"].data, source[1:3])
    kernel = pto.compile(pto.parse(text), checks=False)
    for row, expected in ((1, source[1:3]), (3, np.vstack([source[3], [-1] * 8])), (-1, np.full((2, 8), -1))):
        np.testing.assert_array_equal(kernel(src=source, r=row, c=0)["dst"], expected)
    for row in (3, -1):
        with pytest.raises(pto.ExecutionError, match=f"offset {row} and size 2 in dimension 0 of src"):
            run(text, src=tile(source), r=row, c=0)


@pytest.mark.parametrize(("profile", "rows"), [("cpu_sim", 4), ("a2a3", 3), ("a5", 3)])
def test_hardware_fills_the_valid_rows_of_the_destination(profile: str, rows: int) -> None:
    text = """
    pto.tfillpad ins(%src : !pto.tile<4x8xi32>) outs(%dst : !pto.tile<4x8xi32>) {padValue = 7}
    """
    given = {
        "src": tile(np.ones((4, 8)), 2, 3),
        "dst": tile(np.zeros((4, 8)), 3, 5),
    }
    program = pto.parse(text)
    result = oracle.run(program, given, profile=profile)["dst"]
    expected = np.zeros((4, 8), np.int32)
    expected[:rows] = 7
    expected[:2, :3] = 1
    np.testing.assert_array_equal(result.data, expected)
