"""Trip counts of loops at the ends of 64 bits, steps that are not positive, and traces that leave nothing."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.runtime.loops import add, kernel_text, store

LOW, TOP = -(2**63), 2**63 - 1
COUNTS = """func.func @f(%x: !pto.ptr<i64>, %l: index, %u: index, %s: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %n, %last = scf.for %i = %l to %u step %s iter_args(%a = %z, %q = %z) -> (i64, i64) {
    %b = arith.addi %a, %one : i64
    %j = arith.index_cast %i : index to i64
    scf.yield %b, %j : i64, i64
  }
  pto.store_scalar %n, %x[%c0] : !pto.ptr<i64>, i64
  pto.store_scalar %last, %x[%c1] : !pto.ptr<i64>, i64
  return
}"""


@cache
def counts(checks: bool) -> pto.Kernel:
    """The number of trips and the last value of the counter."""
    return pto.compile(pto.parse(COUNTS), checks=checks)


def _eager(*given: Any) -> Any:
    return counts(False).eager(*given)


def _reference(*given: Any) -> Any:
    return oracle.run(counts(False).program, given)


@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [
        (LOW, TOP, 2**62), (LOW, TOP, TOP), (TOP, LOW, 1), (LOW, LOW, 1), (TOP - 3, TOP, 1),
        (LOW, LOW + 3, 1), (0, TOP, 2**61), (LOW, TOP, 2**61 + 1), (-1, TOP, TOP),
        (5, 4, 3), (0, 10, 3), (TOP, TOP, TOP),
    ],
)  # fmt: skip
def test_trip_counts_do_not_overflow(lower: int, upper: int, step: int) -> None:
    expected = range(lower, upper, step)
    x, given = np.zeros(2, np.int64), (lower, upper, step)
    with jax.enable_x64(True):
        found = [run(x, *given) for run in (counts(False), _eager, _reference)]
    for out in found:
        assert np.asarray(out["x"]).tolist() == [len(expected), expected[-1] if expected else 0]


@pytest.mark.parametrize("step", [0, -1, LOW])
def test_a_step_that_is_not_positive_is_an_error(step: int) -> None:
    x = np.zeros(2, np.int64)
    with jax.enable_x64(True):
        for call in (_eager, _reference):
            with pytest.raises(pto.ExecutionError, match=f"a step of {step}; allowed: a positive step"):
                call(x, 0, 5, step)
        (problem,) = counts(True)(x, 0, 5, step)[1].problems()
        assert problem.rule == "step" and f"got a step of {step}" in problem.message
        assert not np.asarray(counts(False)(x, 0, 5, step)["x"]).any()


BODY = f"""
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> (index) {{
    {add("acc", "b", "acc")}
    %next = arith.addi %k, %i : index
    scf.yield %next : index
  }}
  %few = arith.cmpi slt, %r, %m : index
  scf.if %few {{
    {add("acc", "acc", "acc")}
  }}
  %w = scf.while (%a0 = %c0) : (index) -> index {{
    %more = arith.cmpi slt, %a0, %m : index
    scf.condition(%more) %a0 : index
  }} do {{
  ^bb0(%a1 : index):
    {add("acc", "b", "acc")}
    %a2 = arith.addi %a1, %c1 : index
    scf.yield %a2 : index
  }}
  {store()}"""


@pytest.mark.slow
@pytest.mark.parametrize("checks", [False, True])
def test_no_array_of_a_trace_outlives_it(checks: bool) -> None:
    kernel = pto.compile(pto.parse(kernel_text(BODY)), checks=checks)
    x, y = np.zeros(256, np.float32), np.ones(32, np.float32)
    with jax.checking_leaks():
        found: Any = kernel(x, y, 3, 4)
    out, report = found if checks else (found, None)
    assert report is None or not report.problems()
    assert (np.asarray(out["y"]) == 3 * 2 + 4).all()


def test_a_captured_numpy_number_keeps_its_type_for_others() -> None:
    """JAX remembers a captured constant by its object, with the type of its first use."""
    loop = f"scf.for %i = %c0 to %n step %c1 {{\n{add('acc', 'b', 'acc')}\n}}\n{store()}"
    kernel = pto.compile(pto.parse(kernel_text(loop)))
    n, y = np.int64(3), np.ones(32, np.float32)
    other = jax.jit(lambda a, b: a + b)

    def body(row: Any) -> Any:
        return kernel(row, y, n, 0)["y"][0] + other(row[0], n)

    rows = jnp.ones((2, 256), jnp.float32)
    np.testing.assert_array_equal(jax.lax.map(body, rows), [7, 7])
    assert other(rows[0, 0], n) == 4


@pytest.mark.parametrize("way", ["checks", "ahead", "fragment", "ops"])
def test_a_captured_number_keeps_its_type_in_every_way_of_calling(way: str) -> None:
    n, other = np.int64(3), jax.jit(lambda a, b: a + b)
    x, tile = np.ones((4, 8), np.float32), "!pto.tile<4x8xf32, valid=?x?>"
    if way == "checks":
        loop = f"scf.for %i = %c0 to %n step %c1 {{\n{add('acc', 'b', 'acc')}\n}}\n{store()}"
        checked = pto.compile(pto.parse(kernel_text(loop)), checks=True)

        def call(row: Any) -> Any:
            return checked(jnp.tile(row.ravel(), 8), np.ones(32, np.float32), n, 0)[0]["y"][0]
    elif way == "ahead":
        scaled = "func.func @f(%x: !pto.ptr<f32>, %k: index) { %z = arith.constant 0 : index "
        scaled += "%v = pto.load_scalar %x[%k] : !pto.ptr<f32> -> f32 "
        scaled += "pto.store_scalar %v, %x[%z] : !pto.ptr<f32>, f32 return }"
        moved = pto.compile(pto.parse(scaled))

        def call(row: Any) -> Any:
            return 3 * moved(row.ravel(), n)["x"][0]
    elif way == "fragment":
        summed = pto.compile(pto.parse(f"%d = tadd %a, %b : {tile}"))

        def call(row: Any) -> Any:
            made = pto.tile(row, valid=(n, 8))
            return 1.5 * summed(made, made)["d"].array[0, 0]
    else:

        def call(row: Any) -> Any:
            made = pto.tile(row, valid=(n, 8))
            return 1.5 * pto.ops.tadd(made, made).array[0, 0]

    def body(row: Any) -> Any:
        return call(row) + other(row[0, 0], n)

    np.testing.assert_array_equal(jax.lax.map(body, jnp.stack([x, x])), [7, 7])
    assert other(x[0, 0], n) == 4
