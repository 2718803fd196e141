"""Ranges of scalars hold every value that an operation can give, and tell which addresses need care."""

from itertools import product

import pytest

import pto_jax as pto
from pto_jax.analysis.addresses import fold
from pto_jax.ir import I32, INDEX
from pto_jax.lowering import near
from pto_jax.lowering.machine import ranges
from pto_jax.lowering.machine.ranges import Range

INTERVALS = [Range(a, b) for a, b in ((-3, 2), (0, 4), (-5, -1), (3, 3), (-4, 0))]
STEPS = [Range(-8, 8, 4), Range(0, 12, 6), Range(3, 11, 4), Range(4, 4, 0), Range(-9, -3, 3)]
NAMES = ["addi", "subi", "muli", "minsi", "maxsi", "divsi", "remsi"]


@pytest.mark.parametrize("name", NAMES)
def test_a_range_holds_every_result(name: str) -> None:
    for a, b in product(INTERVALS + STEPS, INTERVALS + STEPS):
        found = ranges.scalar(f"arith.{name}", (a, b), INDEX, INDEX)
        for x, y in product(_numbers(a), _numbers(b)):
            value = fold(f"arith.{name}", (x, y), INDEX, INDEX)
            assert value is not None and value in _numbers(found), (a, b, x, y)


def _numbers(r: Range) -> range:
    return range(r.low, r.high + 1, max(1, r.step))


def test_joined_and_bounded_ranges_hold_what_they_should() -> None:
    for a, b in product(INTERVALS + STEPS, INTERVALS + STEPS):
        assert {*_numbers(a), *_numbers(b)} <= {*_numbers(a.joined(b))}
        below = [n for n in _numbers(a) if n < b.high]
        assert not below or below == [*_numbers(a.below(b))], (a, b)
    assert Range.holding([20, 4, 12]) == Range(4, 20, 8)


def test_tiles_of_a_loop_begin_at_multiples_of_their_size() -> None:
    found = ranges.scalar("arith.muli", (Range(0, 3), 64), INDEX, INDEX)
    assert found == Range(0, 192, 64)
    assert ranges.scalar("arith.addi", (found, Range(0, 4096, 512)), INDEX, INDEX) == Range(0, 4288, 64)


def test_what_may_wrap_is_any_number() -> None:
    assert ranges.scalar("arith.muli", (Range(0, 2**32), 2**31), INDEX, INDEX) == Range()
    assert ranges.scalar("arith.addi", (Range(0, 2**31 - 1), 1), I32, I32) == Range(-(2**31), 2**31 - 1)
    assert ranges.scalar("arith.index_cast", (Range(-7, 5),), I32, INDEX) == Range(-7, 5)


PROGRAM = """func.func @f(%x: !pto.ptr<f32>, %i: TYPE, %n: i32) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %m = arith.index_cast %n : i32 to index
  %v = pto.make_tensor_view %x, shape = [%c64, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  scf.for %j = %c0 to %m step %c4 {{
    {row}
    %w = pto.partition_view %v, offsets = [%r, %j], sizes = [%c1, %c4]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x4xf32>
  }}
  return
}}"""


@pytest.mark.parametrize(
    ("kind", "row", "is_near"),
    [
        ("i32", "%r = arith.index_cast %i : i32 to index", True),
        ("index", "%r = arith.remsi %i, %c64 : index", True),
        ("index", "%r = arith.addi %i, %c1 : index", False),
    ],
)
def test_addresses_of_bounded_numbers_need_no_care(kind: str, row: str, is_near: bool) -> None:
    program = pto.parse(PROGRAM.format(row=row).replace("TYPE", kind))
    assert ("partition_view" in {name for name, _ in near(program, "f")}) == is_near
