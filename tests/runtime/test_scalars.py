"""Elements of tiles and of global memory as scalars: the same bits in every mode, and what is refused."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle

NZ = "blayout=col_major, slayout=row_major, fractal=512, pad=0"
TILE = f"!pto.tile_buf<loc=vec, dtype=f16, rows=16, cols=16, v_row=16, v_col=16, {NZ}>"
VIEW, WINDOW = "!pto.tensor_view<16x16xf16>", "!pto.partition_tensor_view<16x16xf16>"
PROGRAM = f"""
func.func @k(%a: !pto.ptr<f16>, %b: !pto.ptr<f16>, %i: !pto.ptr<i32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c16 = arith.constant 16 : index
  %va = pto.make_tensor_view %a, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
  %vb = pto.make_tensor_view %b, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
  %pa = pto.partition_view %va, offsets = [%c0, %c0], sizes = [%c16, %c16] : {VIEW} -> {WINDOW}
  %pb = pto.partition_view %vb, offsets = [%c0, %c0], sizes = [%c16, %c16] : {VIEW} -> {WINDOW}
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%pa : {WINDOW}) outs(%t : {TILE})
  %n = pto.load_scalar %i[%c0] : !pto.ptr<i32> -> i32
  %k = arith.index_cast %n : i32 to index
  %x = pto.tgetval ins(%t, %k : {TILE}, index) outs : f16
  pto.tsetval ins(%c7, %x : index, f16) outs(%t : {TILE})
  %y = pto.tgetval ins(%t, %c16 : {TILE}, index) outs : f16
  pto.tsetval ins(%k, %y : index, f16) outs(%t : {TILE})
  pto.tstore ins(%t : {TILE}) outs(%pb : {WINDOW})
  pto.store_scalar %x, %b[%k] : !pto.ptr<f16>, f16
  %q = pto.addptr %i, %c1 : !pto.ptr<i32> -> !pto.ptr<i32>
  pto.store_scalar %n, %q[%c0] : !pto.ptr<i32>, i32
  return
}}
"""


def given(*positions: int) -> list[NDArray[Any]]:
    """Random bit patterns, NaNs among them; the first element of the last buffer is the position."""
    words = np.random.default_rng(5).integers(0, 1 << 16, (len(positions), 256)).astype(np.uint16)
    words[:, :8] |= 0x7C00
    numbers = np.array([(p, -5) for p in positions], np.int32)
    return [words.view(np.float16), np.zeros((len(positions), 256), np.float16), numbers]


def test_elements_move_as_bits_at_run_time_positions() -> None:
    program = pto.parse(PROGRAM)
    kernel = pto.compile(program, profile="a5")
    assert kernel.outputs == ("b", "i")
    arguments = given(0, 17, 100, 255)
    found = jax.vmap(kernel)(*arguments)
    alone = kernel.eager(*(a[1] for a in arguments))
    for k in range(4):
        expected = oracle.run(program, [a[k] for a in arguments], profile="a5")
        for name, array in expected.items():
            np.testing.assert_array_equal(np.asarray(found[name][k]).view(np.uint8), array.view(np.uint8))
            if k == 1:
                np.testing.assert_array_equal(np.asarray(alone[name]).view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("position", [-1, 256])
def test_positions_outside_read_zero_and_write_nothing(position: int) -> None:
    kernel = pto.compile(pto.parse(PROGRAM), profile="a5", checks=True)
    a, b, i = (x[0] for x in given(position))
    outputs, report = kernel(a, b, i)
    broken = {(f.instruction, f.rule) for f in report.problems()}
    assert broken == {(n, "offset-range") for n in ("tgetval", "tsetval", "store_scalar")}
    expected = a.view(np.uint16).copy()
    expected[7] = 0
    np.testing.assert_array_equal(np.asarray(outputs["b"]).view(np.uint16), expected)
    with pytest.raises(pto.ExecutionError, match=r"tgetval: got offset .*; allowed: an element of the tile"):
        pto.compile(pto.parse(PROGRAM), profile="a5").eager(a, b, i)


def test_a_constant_position_outside_is_refused() -> None:
    text = (
        "%n = arith.constant 8 : index\npto.tsetval ins(%n, %v : index, f32) outs(%t : !pto.tile<f32, 1, 8>)"
    )
    (found,) = pto.verify(pto.parse(text), profile="a2a3")
    assert found.rule == "offset-range" and "allowed: 0 to 7" in found.message
    load = pto.parse("%n = arith.constant 9 : index\n%x = pto.load_scalar %p[%n] : !pto.ptr<f32> -> f32")
    with pytest.raises(pto.ExecutionError, match="got offset 9; allowed: an element of p, 0 to 7"):
        pto.compile(load)(np.zeros(8, np.float32))
