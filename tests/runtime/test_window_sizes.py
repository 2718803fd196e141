"""Windows whose sizes execution or the text knows, memrefs of unknown strides, and one-bit integers."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
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


X = np.arange(64, dtype=np.float32)
TILE = "!pto.tile_buf<loc=vec, dtype=f32, rows=2, cols=8, v_row=2, v_col=8>"

SUBVIEW = f"""func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<2xf32>
  %w = pto.make_tensor_view %y, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<2xf32>
  %p = pto.subview %v, offsets = [%c1, %c0], sizes = [2, 8]
    : !pto.tensor_view<2xf32> -> !pto.tile_view<2x8xf32>
  %q = pto.subview %w, offsets = [%c0, %c0], sizes = [2, 8]
    : !pto.tensor_view<2xf32> -> !pto.tile_view<2x8xf32>
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%p : !pto.tile_view<2x8xf32>) outs(%t : {TILE})
  pto.tstore ins(%t : {TILE}) outs(%q : !pto.tile_view<2x8xf32>)
  return
}}"""

MEMREF = "memref<2x8xf32, {}#pto.address_space<gm>>"


def _memrefs(strides: str) -> str:
    t = MEMREF.format(strides)
    return f"""func.func @f(%x: {t}, %y: {t}) {{
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%x : {t}) outs(%t : {TILE})
  pto.tstore ins(%t : {TILE}) outs(%y : {t})
  return
}}"""


def _both(text: str, *given: Any) -> Any:
    """The written buffer y, equal from the engine and the reference interpreter."""
    program = pto.parse(text)
    found = np.asarray(pto.compile(program)(*given)["y"])
    np.testing.assert_array_equal(found, oracle.run(program, given)["y"])
    return found


def test_a_window_with_sizes_in_the_text() -> None:
    found = _both(SUBVIEW, X, np.zeros(64, np.float32))
    np.testing.assert_array_equal(found[:16], X[8:24])
    assert not found[16:].any()


@pytest.mark.parametrize("strides", ["", "strided<[?, 1], offset: ?>, "])
@pytest.mark.parametrize("shape", [(2, 8), (16,)])
def test_memrefs_of_known_sizes_take_arrays_of_any_shape(strides: str, shape: tuple[int, ...]) -> None:
    """Strides and offsets that a type leaves open are those of the contiguous array."""
    x = X[:16].reshape(shape)
    np.testing.assert_array_equal(_both(_memrefs(strides), x, np.zeros(shape, np.float32)), x)


BRANCH = f"""func.func @f(%x: {MEMREF.format("")}, %y: {MEMREF.format("")}, %c: i1) {{
  %t = pto.alloc_tile : {TILE}
  scf.if %c {{
    pto.tload ins(%x : {MEMREF.format("")}) outs(%t : {TILE})
    pto.tstore ins(%t : {TILE}) outs(%y : {MEMREF.format("")})
  }}
  return
}}"""


@pytest.mark.parametrize("c", [True, False, 1, 0])
def test_a_condition_is_a_bool_or_a_one_bit_integer(c: int) -> None:
    x = X[:16].reshape(2, 8)
    np.testing.assert_array_equal(_both(BRANCH, x, np.zeros((2, 8), np.float32), c), x * c)


@pytest.mark.parametrize("c", [2, -1])
def test_other_integers_are_no_conditions(c: int) -> None:
    with pytest.raises(pto.ArgumentError, match=f"argument 'c': got {c}; allowed: numbers that i1 holds"):
        pto.compile(pto.parse(BRANCH))(X[:16], X[:16], c)
