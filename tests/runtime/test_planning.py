"""Where tiles are placed: on every path that some block takes."""

import numpy as np

import pto_jax as pto
from pto_jax import oracle

T = "!pto.tile_buf<vec, 4x8xf32>"
V = "!pto.partition_tensor_view<4x8xf32>"


def test_tiles_that_only_later_blocks_place() -> None:
    """The first block takes another path, on which nothing is placed."""
    program = pto.parse(f"""
    func.func @k(%v: {V}) {{
      %zero = arith.constant 0 : i64
      %half = arith.constant 5.000000e-01 : f32
      %at = arith.constant 256 : i64
      %b = pto.get_block_idx
      %f = arith.cmpi sgt, %b, %zero : i64
      scf.if %f {{
        %t = pto.alloc_tile addr = %at : {T}
        pto.tload ins(%v : {V}) outs(%t : {T})
        pto.tadds ins(%t, %half : {T}, f32) outs(%t : {T})
        pto.tstore ins(%t : {T}) outs(%v : {V})
      }}
      return
    }}""")
    kernel, x = pto.compile(program, grid=3), np.zeros((4, 8), np.float32)
    expected = oracle.run(program, [x], grid=3)["v"]
    assert (expected == 1).all()
    for found in (kernel(x), kernel.eager(x)):
        np.testing.assert_array_equal(found["v"], expected)


def test_bytes_that_an_arm_of_a_block_writes_are_there_afterwards() -> None:
    program = pto.parse(f"""
    func.func @k(%v: {V}, %w: {V}, %n: index) {{
      %one = arith.constant 1 : index
      %at = arith.constant 256 : i64
      %f = arith.cmpi eq, %n, %one : index
      scf.if %f {{
        %t = pto.alloc_tile addr = %at : {T}
        pto.tload ins(%v : {V}) outs(%t : {T})
      }}
      %u = pto.alloc_tile addr = %at : {T}
      pto.tstore ins(%u : {T}) outs(%w : {V})
      return
    }}""")
    x, y = np.full((4, 8), 7, np.float32), np.zeros((4, 8), np.float32)
    kernel = pto.compile(program, grid=2)
    for n in (1, 2):
        expected = oracle.run(program, [x, y, n], grid=2)["w"]
        assert (expected == 7).all() == (n == 1)
        for found in (kernel(x, y, n), kernel.eager(x, y, n)):
            assert np.asarray(found["w"]).tobytes() == expected.tobytes()
