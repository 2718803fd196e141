"""Integers that suit a program are found from what it does with them."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.generate.fitting import Fit, fit, integers
from pto_jax.ir import Program

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


def test_sizes_of_the_text_that_break_a_rule_are_nobody_s_fault() -> None:
    """The rule is one of eager execution and of checks; programs are compared without it."""
    line = "!pto.tile_buf<vec, 1x8xf32, valid=1x?>"
    body = f"""\
  %c4 = arith.constant 4 : index
  %u = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  %s = pto.alloc_tile valid_col = %c4 : {line}
  pto.tcolexpand ins(%s : {line}) outs(%u : !pto.tile_buf<vec, 8x8xf32>)
"""
    found = fitted("%r: index", body + LOAD, r=300)
    assert found.writes and found.scalars["r"] <= 15


def test_elements_of_a_tile_are_inside_it() -> None:
    tile = "!pto.tile_buf<vec, 1x8xf32>"
    body = f"  %e = pto.tgetval ins(%t, %r : {tile}, index) outs : f32\n"
    assert fitted("%r: index", body, r=300).scalars["r"] <= 7


INTS = "!pto.tensor_view<?x?xi32>"
TABLE = f"""\
  %pv = pto.make_tensor_view %p, shape = [%c16, %c8], strides = [%c8, %c1] : {INTS}
  %pw = pto.partition_view %pv, offsets = [%c1, %c0], sizes = [%c8, %c8] : {INTS} ->
    !pto.partition_tensor_view<8x8xi32>
  %i = pto.alloc_tile : !pto.tile_buf<vec, 8x8xi32>
"""
LOADED = "  pto.tload ins(%pw : !pto.partition_tensor_view<8x8xi32>) outs(%i : !pto.tile_buf<vec, 8x8xi32>)\n"


def test_a_row_that_is_read_out_of_a_tile_is_one_of_the_view() -> None:
    body = f"""\
{TABLE}  %c17 = arith.constant 17 : index
{LOADED}  %n = pto.tgetval ins(%i, %c17 : !pto.tile_buf<vec, 8x8xi32>, index) outs : i32
  %r = arith.index_cast %n : i32 to index
{LOAD}"""
    found = fitted("%p: !pto.ptr<i32>", body)
    low, high = found.tables["p"]
    assert 0 <= low <= high <= 15 and high >= 4 and not found.positions
    assert found.reached == {"p": 72, "x": 128}


def test_a_size_inside_a_branch_that_only_data_decides_is_known() -> None:
    """The condition is computed from what the tile does not hold any more."""
    body = f"""\
{TABLE.replace("[%c1, %c0]", "[%c0, %c0]")}{LOADED}\
  pto.tneg ins(%i : !pto.tile_buf<vec, 8x8xi32>) outs(%i : !pto.tile_buf<vec, 8x8xi32>)
  %n = pto.tgetval ins(%i, %c0 : !pto.tile_buf<vec, 8x8xi32>, index) outs : i32
  %z = arith.constant 0 : i32
  %g = arith.cmpi sgt, %n, %z : i32
  scf.if %g {{
{LOAD}  }}
"""
    assert fitted("%p: !pto.ptr<i32>, %r: index", body, r=3).reached == {"p": 64, "x": 32}


GATHERED = """\
  %s = pto.alloc_tile : !pto.tile_buf<vec, 2x16xf32>
  %d = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  pto.tgather ins(%s, %g : !pto.tile_buf<vec, 2x16xf32>, !pto.tile_buf<vec, 8x8xi32>)
    outs(%d : !pto.tile_buf<vec, 8x8xf32>)
"""
SCATTERED = """\
  %s = pto.alloc_tile : !pto.tile_buf<vec, 2x16xf32>
  %d = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  pto.tscatter ins(%d, %g : !pto.tile_buf<vec, 8x8xf32>, !pto.tile_buf<vec, 8x8xi32>)
    outs(%s : !pto.tile_buf<vec, 2x16xf32>)
"""
SEEN = """\
  %g = pto.subview %i[%c0, %c0] sizes [8, 8] : !pto.tile_buf<vec, 8x8xi32> -> !pto.tile_buf<vec, 8x8xi32>
"""
MOVED = """\
  %g = pto.alloc_tile : !pto.tile_buf<vec, 8x8xi32>
  pto.tmov ins(%i : !pto.tile_buf<vec, 8x8xi32>) outs(%g : !pto.tile_buf<vec, 8x8xi32>)
"""


@pytest.mark.parametrize("seen", [SEEN, MOVED], ids=["seen", "moved"])
@pytest.mark.parametrize("used", [GATHERED, SCATTERED], ids=["gathered", "scattered"])
def test_index_tiles_hold_places_of_the_tile_that_they_index(seen: str, used: str) -> None:
    found = fitted("%p: !pto.ptr<i32>", TABLE + LOADED + seen + used)
    assert found.positions == {"p": (0, 31)} and not found.tables
    table = found.table("p", 72)
    assert table.min() >= 0 and 16 < table.max() <= 31


def test_what_overwrites_an_index_tile_is_not_its_table() -> None:
    cleared = """\
  %z = arith.constant 3 : i32
  pto.texpands ins(%z : i32) outs(%i : !pto.tile_buf<vec, 8x8xi32>)
"""
    assert not fitted("%p: !pto.ptr<i32>", TABLE + LOADED + cleared + SEEN + GATHERED).positions


@pytest.mark.parametrize(("row", "kept"), [(2, False), (1, True)])
def test_an_element_that_is_overwritten_is_no_table(row: int, kept: bool) -> None:
    """Element 17 of the tile is in its third row."""
    tile, part = "!pto.tile_buf<vec, 8x8xi32>", "!pto.tile_buf<vec, 1x8xi32>"
    body = f"""\
{TABLE}{LOADED}  %c17 = arith.constant 17 : index
  %row = arith.constant {row} : index
  %z = arith.constant 3 : i32
  %one = pto.subview %i[%row, %c0] sizes [1, 8] : {tile} -> {part}
  pto.texpands ins(%z : i32) outs(%one : {part})
  %n = pto.tgetval ins(%i, %c17 : {tile}, index) outs : i32
  %r = arith.index_cast %n : i32 to index
  %b = arith.remui %r, %c16 : index
{LOAD.replace("[%r,", "[%b,")}"""
    assert ("p" in fitted("%p: !pto.ptr<i32>", body).tables) == kept


def test_indices_of_rows_in_global_memory_are_rows_of_the_table() -> None:
    body = f"""\
{TABLE.replace("8x8xi32", "1x8xi32").replace("sizes = [%c8,", "sizes = [%c1,")}\
{LOADED.replace("8x8xi32", "1x8xi32")}  %d = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c8]
    : {VIEW} -> !pto.partition_tensor_view<16x8xf32>
  pto.mgather ins(%w, %i : !pto.partition_tensor_view<16x8xf32>, !pto.tile_buf<vec, 1x8xi32>)
    outs(%d : !pto.tile_buf<vec, 8x8xf32>) {{coalesce = #pto.coalesce<row>}}
"""
    assert fitted("%p: !pto.ptr<i32>", body).positions == {"p": (0, 15)}


def test_a_table_of_which_few_elements_name_something() -> None:
    """The tile has no room for all elements that are not negative."""
    body = """\
  %c32 = arith.constant 32 : index
  %n = scf.for %i = %c0 to %c32 step %c1 iter_args(%k = %c0) -> (index) {
    %s = pto.load_scalar %p[%i] : !pto.ptr<i32> -> i32
    %z = arith.constant 0 : i32
    %f = arith.constant 1.0 : f32
    %g = arith.cmpi sge, %s, %z : i32
    %m = scf.if %g -> (index) {
      pto.tsetval ins(%k, %f : index, f32) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
      %l = arith.addi %k, %c1 : index
      scf.yield %l : index
    } else {
      scf.yield %k : index
    }
    scf.yield %m : index
  }
  %r = arith.constant 0 : index
"""
    found = fitted("%p: !pto.ptr<i32>", body + LOAD)
    table = found.table("p", 32)
    assert 0 < np.count_nonzero(table >= 0) <= 8


def test_scalars_of_unlike_magnitudes_are_found() -> None:
    body = """\
  %a = arith.muli %q, %c64 : index
  %d = arith.subi %n, %a : index
  %e = arith.subi %d, %m : index
  %g = arith.cmpi sgt, %e, %c0 : index
  %r = arith.constant 0 : index
  scf.if %g {
"""
    found = fitted("%q: index, %n: index, %m: index", body + LOAD + "  }\n", q=900, n=3, m=40)
    assert found.writes


def test_a_size_that_is_cut_into_whole_pieces() -> None:
    """Every other size is too large and too small at once."""
    body = f"""\
  %u = pto.make_tensor_view %x, shape = [%n, %c8], strides = [%c8, %c1] : {VIEW}
  scf.for %i = %c0 to %n step %c64 {{
    %p = pto.partition_view %u, offsets = [%i, %c0], sizes = [%c64, %c8] : {VIEW}
      -> !pto.partition_tensor_view<64x8xf32>
    %s = pto.alloc_tile : !pto.tile_buf<vec, 64x8xf32>
    pto.tload ins(%p : !pto.partition_tensor_view<64x8xf32>) outs(%s : !pto.tile_buf<vec, 64x8xf32>)
    pto.tstore ins(%s : !pto.tile_buf<vec, 64x8xf32>) outs(%p : !pto.partition_tensor_view<64x8xf32>)
  }}
"""
    found = fitted("%n: index", body, n=100)
    assert found.writes and found.scalars["n"] % 64 == 0


@pytest.mark.parametrize("count", [1, 5, 100_000])
def test_tables_begin_alike_whatever_their_size(count: int) -> None:
    found = Fit({}, {"p": (2, 9)}, {}, 7, True)
    table, longer = found.table("p", count), found.table("p", 200_000)
    assert table.size == count and table.min() >= 2 and table.max() <= 9
    np.testing.assert_array_equal(table, longer[:count])
