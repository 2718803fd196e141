"""Valid regions of run-time sizes: what is around them stays, and costs nothing where it is unread."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.lowering.machine import control_flow

ROWS, COLS = 8, 16
RNG = np.random.default_rng(5)
ARGUMENTS = {
    "x": pto.ptr("f32"),
    "y": pto.ptr("f32"),
    "left": pto.ptr("f32"),
    "rows": "index",
    "cols": "index",
}


def banded(shown: bool) -> pto.Program:
    """Sums of bands, doubled and padded with zeros; ``left``: what tiles hold at the end, if shown."""

    @pto.kernel(types=ARGUMENTS)
    def bands(x: Any, y: Any, left: Any, rows: Any, cols: Any) -> None:
        def tile(address: int, rows: Any = ROWS, cols: Any = COLS, **more: Any) -> Any:
            return pto.alloc_tile("f32", ROWS, COLS, addr=address, valid=(rows, cols), **more)

        def whole(p: Any) -> Any:
            return pto.partition_view(pto.make_tensor_view(p, [ROWS, COLS], [COLS, 1]), [0, 0], [ROWS, COLS])

        view = pto.make_tensor_view(x, [rows, COLS], [COLS, 1])
        sums, loaded, twice = (tile(n * ROWS * COLS * 4) for n in range(3))
        for t in (sums, loaded, twice):
            pto.texpands(t, 1.0)
        for row in pto.range(0, rows, ROWS):
            size = pto.minimum(rows - row, ROWS)
            band, double = (tile(n * ROWS * COLS * 4, size, cols) for n in (1, 2))
            padded = tile(3 * ROWS * COLS * 4, pad="ZERO")
            pto.tload(band, pto.partition_view(view, [row, 0], [size, cols]))
            pto.tadd(double, band, band)
            pto.tfillpad(padded, double)
            pto.tadd(sums, sums, padded)
        pto.tstore(whole(y), sums)
        if shown:
            pto.tadd(loaded, loaded, twice)
            pto.tstore(whole(left), loaded)

    return bands.program


def given(rows: int, cols: int) -> tuple[Any, ...]:
    blank = np.zeros((ROWS, COLS), np.float32)
    return RNG.standard_normal((20, COLS), np.float32), blank, blank, rows, cols


@pytest.mark.parametrize(("rows", "cols"), [(0, 5), (3, 16), (9, 7), (20, 9), (16, 16), (20, 0)])
def test_what_is_around_a_valid_region_stays(agree: Callable[..., Any], rows: int, cols: int) -> None:
    agree(banded(shown=True), *given(rows, cols), eager=False)


def carried(program: pto.Program) -> int:
    """How many whole tiles the loop of a compiled program carries."""
    kernel = pto.compile(program)
    code = jax.jit(lambda *a: kernel(*a)).lower(*given(20, 9)).compile().as_text() or ""
    (line,) = [line for line in code.splitlines() if " while(" in line]
    return line.partition(" while(")[0].count(f"u32[{ROWS},{COLS}]")


def test_a_loop_carries_no_tile_whose_surroundings_nobody_reads() -> None:
    assert carried(banded(shown=True)) > carried(banded(shown=False)) == 1


def test_the_loop_over_the_blocks_of_a_launch_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @pto.kernel(types={"y": pto.ptr("f32")})
    def counted(y: Any) -> None:
        ones = pto.alloc_tile("f32", 1, 8)
        pto.texpands(ones, 1.0)
        view = pto.make_tensor_view(y, [1, 8], [8, 1])
        pto.tstore(pto.partition_view(view, [0, 0], [1, 8]), ones, atomicType="ATOMIC_ADD")

    def again(*_: Any) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(control_flow.Retry, "__init__", again)
    kernel = pto.compile(counted.program, grid=3, warn=False)
    assert np.asarray(kernel(np.zeros(8, np.float32))["y"]).tolist() == [3.0] * 8
