"""Windows whose sizes only execution knows are judged as those whose types say them."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from tests.runtime.conftest import Source

ARGS = "%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %r: index, %c: index"
ARCHES = {"a2a3": "a3", "a5": "a5"}


def _moved(
    profile: str, load: tuple[Any, Any], store: tuple[Any, Any], valid: tuple[Any, Any] = (4, 16)
) -> str:
    """The valid region of an 8x32 tile of x to y, through windows of 16x64 matrices."""
    s = Source(ARGS, arch=ARCHES.get(profile, "a3")).view("%a", "%x", (16, 64), (64, 1))
    s.view("%b", "%y", (16, 64), (64, 1)).window("%p", "%av", (0, 0), load).window("%q", "%bv", (0, 0), store)
    return s.tile("%t", "f32", 8, 32, valid=valid).load("%p", "%t").store("%t", "%q").text


def _broken(text: str, profile: Any, rows: int, cols: int) -> list[str]:
    x = np.arange(1024, dtype=np.float32)
    kernel = pto.compile(pto.parse(text), profile, checks=True, warn=False)
    _, report = jax.jit(kernel)(x, np.zeros_like(x), rows, cols)
    return [d.rule for d in report.problems()]


def _fits(text: str, profile: Any) -> bool:
    return not [d for d in pto.verify(pto.parse(text), profile) if d.rule in ("window-size", "window-lanes")]


@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
@pytest.mark.parametrize("sizes", [(4, 16), (8, 16), (4, 32), (16, 64), (8, 8), (2, 16)])
def test_windows_are_judged_at_run_time_as_static_ones(profile: str, sizes: tuple[int, int]) -> None:
    for load, store in (((4, 16), sizes), (sizes, (4, 16))):
        named = tuple(("%r", "%c") if s is sizes else s for s in (load, store))
        broken = _broken(_moved(profile, *named), profile, *sizes)
        legal = not broken
        assert legal == _fits(_moved(profile, load, store), profile)
        if store is sizes and sizes[0] * sizes[1] >= 64 and not legal and sizes != (8, 8):
            assert broken == ["window-size"]


@pytest.mark.slow
def test_a_window_larger_than_the_tile_is_named_and_keeps_its_values() -> None:
    text = _moved("a2a3", (4, 16), ("%r", "%c"))
    x = np.arange(1024, dtype=np.float32)
    program = pto.parse(text)
    _, report = pto.compile(program, checks=True)(x, np.zeros_like(x), 6, 32)
    (problem,) = report.problems()
    assert problem.instruction == "tstore" and problem.span is not None
    assert "got a window of 6x32 for a valid region of 4x16" in problem.message
    with pytest.raises(pto.ExecutionError, match="window of 6x32"):
        pto.compile(program).eager(x, np.zeros_like(x), 6, 32)
    moved = pto.compile(program)(x, np.zeros_like(x), 6, 32)["y"].reshape(16, 64)
    expected = np.zeros((16, 64), np.float32)
    expected[:4, :16] = x.reshape(16, 64)[:4, :16]
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.slow
def test_valid_regions_that_execution_knows_may_be_less_than_static_windows_and_nothing_fits_anywhere() -> (
    None
):
    part = _moved("a2a3", (8, 32), (8, 32), valid=("%r", "%c"))
    assert _broken(part, "a2a3", 4, 16) == []
    nothing = _moved("a2a3", ("%c", 32), ("%c", 32), valid=("%r", 32))
    assert _broken(nothing, "a2a3", 0, 4) == []
    assert _broken(nothing, "a2a3", 4, 4) == []
    assert _broken(nothing, "a2a3", 3, 4) == ["window-size"]


@pytest.mark.parametrize(("layout", "sizes"), [("nd", "6x16"), ("dn", "2x48")])
def test_rows_and_columns_of_more_dimensions_are_those_of_the_layout(layout: str, sizes: str) -> None:
    rows, cols = (4, 16) if layout == "nd" else (2, 32)
    s = Source(ARGS).view("%a", "%x", (16, 64), (64, 1)).view("%b", "%y", (4, 4, 64), (256, 64, 1), layout)
    s.window("%p", "%av", (0, 0), (rows, cols)).window("%q", "%bv", (0, 0, 0), ("%r", 2, 16))
    text = s.tile("%t", "f32", 8, 32, valid=(rows, cols)).load("%p", "%t").store("%t", "%q").text
    assert _broken(text, "cpu_sim", 2, 0) == []
    x = np.zeros(1024, np.float32)
    with pytest.raises(pto.ExecutionError, match=f"window of {sizes}"):
        pto.compile(pto.parse(text), "cpu_sim", warn=False).eager(x, x, 3, 0)
