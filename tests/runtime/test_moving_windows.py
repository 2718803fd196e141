"""Windows that move with a loop: slices without care where they cannot leave their buffers, same bits."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import pto_jax as pto
from pto_jax.ir import dtype
from pto_jax.lowering import offsets
from pto_jax.lowering.machine.ranges import Range

RNG = np.random.default_rng(8)


def program(d: str, loop: str, row: str, col: str, cols: int = 16, arguments: str = "") -> pto.Program:
    """Copies 4 x ``cols`` windows of x [16, 64] to the same places of y, where a counter %i leads."""
    tile = f"!pto.tile_buf<vec, 4x{cols}x{d}>"
    view, window = f"!pto.tensor_view<?x?x{d}>", f"!pto.partition_tensor_view<4x{cols}x{d}>"
    numbers = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 4, 8, 16, 24, 48, 64))
    sizes = f"shape = [%c16, %c64], strides = [%c64, %c1] : {view}"
    place = f"offsets = [{row}, {col}], sizes = [%c4, %cols] : {view} -> {window}"
    return pto.parse(f"""
    func.func @f(%x: !pto.ptr<{d}>, %y: !pto.ptr<{d}>{arguments}) attributes {{pto.entry}} {{
      {numbers}
      %cols = arith.constant {cols} : index
      %t = pto.alloc_tile : {tile}
      %vx = pto.make_tensor_view %x, {sizes}
      %vy = pto.make_tensor_view %y, {sizes}
      scf.for %i = {loop} {{
        %eighth = arith.divsi %i, %c8 : index
        %wx = pto.partition_view %vx, {place}
        %wy = pto.partition_view %vy, {place}
        pto.tload ins(%wx : {window}) outs(%t : {tile})
        pto.tstore ins(%t : {tile}) outs(%wy : {window})
      }}
      return
    }}""")


def words(d: str) -> Any:
    """Elements of a type with any bits."""
    kind = dtype(d).word
    bits = RNG.integers(0, np.iinfo(kind).max, (16, 64), kind, endpoint=True)
    return bits.view(dtype(d).numpy)


def primitives(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from primitives(inner)


def traced(p: pto.Program, *args: Any) -> list[Any]:
    return list(primitives(jax.make_jaxpr(pto.compile(p))(*args).jaxpr))


MOVES = {
    "columns of lines": ("%c0 to %c64 step %c16", "%c0", "%i"),
    "lines": ("%c0 to %c16 step %c4", "%i", "%c16"),
    "both": ("%c0 to %c64 step %c16", "%eighth", "%i"),
    "across the ends of lines": ("%c0 to %c64 step %c8", "%c0", "%i"),
    "beyond the buffer": ("%c0 to %c64 step %c4", "%i", "%c8"),
}


#: The line and the column where each window begins.
PLACES: dict[str, tuple[list[int], list[int]]] = {
    "columns of lines": ([0] * 4, [0, 16, 32, 48]),
    "lines": ([0, 4, 8, 12], [16] * 4),
    "both": ([0, 2, 4, 6], [0, 16, 32, 48]),
    "across the ends of lines": ([0] * 8, list(range(0, 64, 8))),
    "beyond the buffer": (list(range(0, 64, 4)), [8] * 16),
}


def copied(x: Any, y: Any, rows: list[int], cols: list[int]) -> Any:
    """y after the windows were copied; nothing is beyond the buffers."""
    flat, out = x.reshape(-1), y.reshape(-1).copy()
    for row, col in zip(rows, cols, strict=True):
        where = ((row + np.arange(4))[:, None] * 64 + col + np.arange(16)).reshape(-1)
        where = where[where < flat.size]
        out[where] = flat[where]
    return out


@pytest.mark.variants(1)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("d", ["f16", "f32", "i16", "bf16"])
def test_moving_windows_copy_their_elements(d: str, move: str) -> None:
    p, x, y = program(d, *MOVES[move]), words(d), words(d)
    kernel, expected = pto.compile(p), copied(x, y, *PLACES[move]).tobytes()
    assert np.asarray(jax.jit(kernel)(x, y)["y"]).tobytes() == expected
    batch = jax.device_get(jax.jit(jax.vmap(kernel))(np.stack([x, x]), np.stack([y, y]))["y"])
    assert [b.tobytes() for b in batch] == [expected, expected]


@pytest.mark.parametrize("move", ["columns of lines", "lines", "both"])
def test_windows_that_stay_in_their_buffer_are_slices_of_their_own_size(move: str) -> None:
    found = traced(program("f16", *MOVES[move]), words("f16"), words("f16"))
    assert not {"cond", "gather", "scatter"} & {e.primitive.name for e in found}
    sliced = [e.outvars[0].aval.size for e in found if e.primitive.name == "dynamic_slice"]
    assert sliced and max(sliced) == 4 * 16


@pytest.mark.parametrize("move", ["across the ends of lines", "beyond the buffer"])
def test_what_may_leave_a_line_or_the_buffer_is_no_such_slice(move: str) -> None:
    found = traced(program("f16", *MOVES[move]), words("f16"), words("f16"))
    sliced = [e.outvars[0].aval.size for e in found if e.primitive.name == "dynamic_slice"]
    assert max(sliced, default=4 * 17) > 4 * 16


def test_a_pointer_that_a_loop_carries_may_be_anywhere() -> None:
    text = """func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.entry} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %c40 = arith.constant 40 : index
      %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
      %vy = pto.make_tensor_view %y, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
      %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %c8]
        : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
      %end = scf.for %i = %c0 to %c40 step %c1 iter_args(%p = %x) -> (!pto.ptr<f32>) {
        %v = pto.make_tensor_view %p, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
        %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %c8]
          : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
        pto.tload ins(%w : !pto.partition_tensor_view<1x8xf32>) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
        %q = pto.addptr %p, %c1 : !pto.ptr<f32> -> !pto.ptr<f32>
        scf.yield %q : !pto.ptr<f32>
      }
      pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%wy : !pto.partition_tensor_view<1x8xf32>)
      return
    }"""
    begin = {buffer: r for (_, buffer), r in offsets(pto.parse(text), "f").items()}
    assert begin == {"x": Range(), "y": Range(0, 0, 0)}


@pytest.mark.parametrize(("numerics", "loops"), [("fast", 0), ("exact", 1)])
def test_fast_numerics_write_longer_loops_out(numerics: Any, loops: int) -> None:
    # Four trips of five operations.
    kernel = pto.compile(program("f32", *MOVES["lines"]), numerics=numerics)
    found = primitives(jax.make_jaxpr(kernel)(words("f32"), words("f32")).jaxpr)
    assert sum(e.primitive.name in ("scan", "while") for e in found) == loops
