"""Windows whose sizes stand in the text, memrefs of unknown strides, and one-bit integers."""

from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

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
