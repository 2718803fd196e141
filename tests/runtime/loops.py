"""What tests of control flow share: a kernel around a body, and running it every way."""

from typing import Any

import numpy as np

import pto_jax as pto
from pto_jax import oracle

T = "!pto.tile_buf<vec, 4x8xf32>"
V = "!pto.partition_tensor_view<4x8xf32>"
W = "!pto.tensor_view<?x?xf32>"
RNG = np.random.default_rng(20)


def kernel_text(body: str, args: str = "%n: index, %m: index") -> str:
    """A kernel over x [32, 8] and y [4, 8] with names for constants, the views and three tiles."""
    return f"""
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, {args}) attributes {{pto.entry}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      %zero = arith.constant 0.0 : f32
      %half = arith.constant 0.5 : f32
      %vx = pto.make_tensor_view %x, shape = [%c32, %c8], strides = [%c8, %c1] : {W}
      %vy = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : {W}
      %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c4, %c8] : {W} -> {V}
      %a = pto.alloc_tile : {T}
      %b = pto.alloc_tile : {T}
      %acc = pto.alloc_tile : {T}
      pto.texpands ins(%zero : f32) outs(%acc : {T})
      pto.tload ins(%wy : {V}) outs(%b : {T})
      {body}
      return
    }}"""


def load(tile: str, row: str) -> str:
    return f"""
      %w_{tile} = pto.partition_view %vx, offsets = [{row}, %c0], sizes = [%c4, %c8] : {W} -> {V}
      pto.tload ins(%w_{tile} : {V}) outs(%{tile} : {T})"""


def add(a: str, b: str, dst: str) -> str:
    return f"pto.tadd ins(%{a}, %{b} : {T}, {T}) outs(%{dst} : {T})"


def store(tile: str = "acc") -> str:
    return f"pto.tstore ins(%{tile} : {T}) outs(%wy : {V})"


def run_all_ways(text: str, *args: Any) -> None:
    program = pto.parse(text)
    kernel = pto.compile(program)
    expected = oracle.run(program, args)
    for found in (kernel(*args), kernel.eager(*args)):
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert np.asarray(found[name]).tobytes() == array.tobytes(), name


def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return RNG.normal(size=(32, 8)).astype(np.float32), RNG.normal(size=(4, 8)).astype(np.float32)
