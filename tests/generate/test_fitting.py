"""Integers that suit a program are found from what it does with them."""

from __future__ import annotations

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.generate.fitting import Fit, fit, integers
from pto_jax.ir.program import Program

HEAD = """\
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %x, shape = [%c16, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
"""
VIEW, WINDOW = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<1x8xf32>"
LOAD = f"""\
  %w = pto.partition_view %v, offsets = [%r, %c0], sizes = [%c1, %c8] : {VIEW} -> {WINDOW}
  pto.tload ins(%w : {WINDOW}) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%w : {WINDOW})
"""


def program(arguments: str, body: str) -> Program:
    return pto.parse(f"func.func @f(%x: !pto.ptr<f32>, {arguments}) {{\n{HEAD}{body}  return\n}}")


def fitted(arguments: str, body: str, **drawn: int) -> Fit:
    made = program(arguments, body)
    function = made.functions[0]
    found = fit(made, function, "a5", {n: drawn.get(n, 1000) for n in integers(function)}, seed=3)
    assert found is not None
    return found


def test_a_row_becomes_one_of_the_view_and_the_buffer_ends_with_it() -> None:
    found = fitted("%r: index", LOAD)
    assert found.scalars["r"] == 15 and found.reached == {"x": 128} and found.writes


def test_a_table_of_rows_holds_rows_of_the_view() -> None:
    body = "  %n = pto.load_scalar %p[%k] : !pto.ptr<i32> -> i32\n  %r = arith.index_cast %n : i32 to index\n"
    found = fitted("%p: !pto.ptr<i32>, %k: index", body + LOAD, k=40)
    low, high = found.tables["p"]
    assert found.scalars["k"] == 40 and found.reached["p"] == 41 and 0 <= low <= high <= 15 and high >= 4
    # Every row may be meant, also those that this element does not name.
    assert found.reached["x"] == 128


def test_a_position_before_the_first_row_is_moved_behind_it() -> None:
    found = fitted("%q: index", "  %r = arith.subi %q, %c8 : index\n" + LOAD, q=0)
    assert 8 <= found.scalars["q"] < 24


def test_loops_of_many_trips_become_short() -> None:
    loop = f"  scf.for %i = %c0 to %n step %c1 {{\n  %r = arith.remsi %i, %c16 : index\n{LOAD}  }}\n"
    assert 1 <= fitted("%n: index", loop, n=100_000).scalars["n"] <= 200


def test_an_execution_that_writes_something_is_preferred() -> None:
    condition = "  %g = arith.cmpi sgt, %n, %c0 : index\n"
    guarded = f"  scf.if %g {{\n  %r = arith.constant 0 : index\n{LOAD}  }}\n"
    found = fitted("%n: index", condition + guarded, n=0)
    assert found.writes and found.scalars["n"] > 0


def test_valid_sizes_stay_inside_their_tile() -> None:
    tile = "!pto.tile_buf<vec, 8x8xf32, valid=?x8>"
    found = fitted("%r: index", f"  %u = pto.alloc_tile valid_row = %r : {tile}\n", r=300)
    assert found.scalars["r"] <= 8


def test_elements_of_a_tile_are_inside_it() -> None:
    tile = "!pto.tile_buf<vec, 1x8xf32>"
    body = f"  %e = pto.tgetval ins(%t, %r : {tile}, index) outs : f32\n"
    assert fitted("%r: index", body, r=300).scalars["r"] <= 7


@pytest.mark.parametrize("count", [1, 5, 100_000])
def test_tables_begin_alike_whatever_their_size(count: int) -> None:
    found = Fit({}, {"p": (2, 9)}, {}, 7, True)
    table, longer = found.table("p", count), found.table("p", 200_000)
    assert table.size == count and table.min() >= 2 and table.max() <= 9
    np.testing.assert_array_equal(table, longer[:count])
