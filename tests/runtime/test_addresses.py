"""Accesses outside buffers, windows outside views, and addresses that leave 64 bits, in every executor.

Jitted kernels without checks follow the addresses: elements outside a buffer read zero and are not written.
Everything else raises or reports an error.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.sanitizer.sanitize import sanitize
from tests.runtime.conftest import Source

TOP = 2**63 - 1
X = np.arange(1, 257, dtype=np.float32)


@cache
def moved(row_stride: int = 64) -> tuple[pto.Kernel, pto.Kernel]:
    """y[o:o+2, p:p+8] = 2 x[o:o+2, p:p+8] of n x m views with this stride of rows, or with ``%s`` for 0;
    without and with checks."""
    args = "".join(f", %{name}: index" for name in "opsnm")
    s = Source(f"%x: !pto.ptr<f32>, %y: !pto.ptr<f32>{args}")
    for name, pointer in (("%v", "%x"), ("%u", "%y")):
        s.view(name, pointer, ("%n", "%m"), (row_stride or "%s", 1))
        s.window(f"{name}w", f"{name}v", ("%o", "%p"), (2, 8))
    s.tile("%t", "f32", 2, 8).load("%vw", "%t").op("tadd", "%t", "%t", out="%t").store("%t", "%uw")
    return pto.compile(s.program, checks=False), pto.compile(s.program, checks=True)


def formula(o: int, p: int, stride: int) -> np.ndarray[Any, Any]:
    """What the addresses say, in numbers without an end."""
    expected = -X
    for row in range(2):
        for col in range(8):
            at = (o + row) * stride + p + col
            if 0 <= at < X.size:
                expected[at] = 2 * X[at]
    return expected


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(pto.ExecutionError) as caught:
        call()
    return str(caught.value).splitlines()[0]


INSIDE = [(0, 0, 64), (2, 56, 64), (3, 3, 10), (0, 248, 0), (1, 2, 64)]
# Row and column of the window and the stride of rows; the buffers have 256 elements.
BEYOND_BUFFER = [(3, 0, 64), (40, 3, 64), (2**58, 0, 64), (2**57, 0, 64), (2**62, 0, 64), (1, 0, 2**62),
                 (0, 0, 2**62), (0, 0, -TOP), (1, 0, -64), (2, 0, TOP)]  # fmt: skip
OUTSIDE_VIEW = [(0, 57, 64), (0, -1, 64), (-1, 0, 64), (0, TOP, 64), (0, -TOP - 1, 64), (-TOP - 1, 0, 64)]


CASES = [(0, *case) for case in (*INSIDE, *BEYOND_BUFFER, *OUTSIDE_VIEW)]
CASES += [(64, *case[1:]) for case in CASES if case[-1] == 64]


@pytest.mark.variants(0)
@pytest.mark.parametrize(("row_stride", "o", "p", "stride"), CASES)
def test_only_elements_of_the_buffer_are_accessed(row_stride: int, o: int, p: int, stride: int) -> None:
    extent = TOP if (o, p, stride) in (*INSIDE, *BEYOND_BUFFER) else 64
    plain, checked = moved(row_stride)
    args = (X, -X, o, p, stride, extent, extent)
    expected = formula(o, p, stride)
    out, report = checked(*args)
    for found in (plain(*args), plain.eager_unchecked(*args), out):
        np.testing.assert_array_equal(found["y"], expected)
    if (o, p, stride) in INSIDE:
        assert not report.problems()
        np.testing.assert_array_equal(plain.eager(*args)["y"], expected)
        np.testing.assert_array_equal(oracle.run(plain.program, args)["y"], expected)
        return
    rule = "partition_view" if (o, p, stride) in OUTSIDE_VIEW else "tload"
    assert report.problems()[0].instruction == rule
    for call in (lambda: plain.eager(*args), lambda: oracle.run(plain.program, args)):
        assert f"error: {rule}: " in refused(call)


@pytest.mark.parametrize(("o", "p", "axis", "offset"), [(0, 57, 1, 57), (3, -1, 1, -1), (-2, 0, 0, -2)])
def test_a_window_outside_its_view_is_named(o: int, p: int, axis: int, offset: int) -> None:
    plain, checked = moved()
    args = (X, -X, o, p, 64, 64, 64)
    (first, *_) = checked(*args)[1].problems()
    size = 8 if axis else 2
    what = f"got offset {offset} and size {size} in dimension {axis} of %vv, whose extent is 64"
    assert what in first.message and first.rule == "window" and first.span is not None
    assert what in refused(lambda: plain.eager(*args))
    assert what in refused(lambda: oracle.run(plain.program, args))
    assert what in refused(lambda: sanitize(plain.program, args))


def test_a_window_may_go_on_in_the_buffer_along_the_slowest_dimension_only() -> None:
    plain, checked = moved()
    args = (X, -X, 1, 0, 64, 2, 64)
    out, report = checked(*args)
    np.testing.assert_array_equal(out["y"], formula(1, 0, 64))
    assert not report.problems()
    oracle.run(plain.program, args)
    short = X[:128]
    expected = "offset 1 and size 2 in dimension 0 of %vv, whose extent is 2"
    assert expected in refused(lambda: oracle.run(plain.program, (short, -short, 1, 0, 64, 2, 64)))
    assert expected in refused(lambda: plain.eager(short, -short, 1, 0, 64, 2, 64))


_ROW = pto.parse("""
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %x, shape = [%n, %m], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
  %u = pto.make_tensor_view %y, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %p = pto.partition_view %u, offsets = [%c0, %c0], sizes = [%c1, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  pto.tload ins(%w : !pto.partition_tensor_view<1x8xf32>) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%p : !pto.partition_tensor_view<1x8xf32>)
  return
}""")
_WAYS: dict[str, Callable[[int], Any]] = {
    "interpreter": lambda n: oracle.run(_ROW, (X[:64], X[:8], n, 5))["y"],
    "call": lambda n: pto.compile(_ROW)(X[:64], X[:8], n, 5)["y"],
    "eager": lambda n: pto.compile(_ROW).eager(X[:64], X[:8], n, 5)["y"],
    "checked": lambda n: pto.compile(_ROW, checks=True).checked(X[:64], X[:8], n, 5)["y"],
    "known": lambda n: pto.compile(_ROW, scalars={"n": n})(X[:64], X[:8], 5)["y"],
}


@pytest.mark.parametrize("way", _WAYS)
def test_the_slowest_dimension_is_behind_run_time_extents_of_1(way: str) -> None:
    np.testing.assert_array_equal(np.asarray(_WAYS[way](1)), X[:8])
    expected = "offset 0 and size 8 in dimension 1 of %v, whose extent is 5"
    assert expected in refused(lambda: _WAYS[way](2))


def test_a_report_has_the_numbers_of_its_first_batch_element_and_trip() -> None:
    batched = jax.vmap(moved()[1], in_axes=(None, None, None, 0, None, None, None))
    _, report = batched(X, -X, 0, np.array([0, 60, 61]), 64, 64, 64)
    assert report.problems()[0].message.endswith(
        "whose extent is 64; allowed: a window inside %vv; batch index 1, 2"
    )
    s = Source("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index")
    s.view("%v", "%x", (4, 64), (64, 1)).view("%u", "%y", (1, 8), (8, 1)).tile("%t", "f32", 1, 8)
    s.do("%c0 = arith.constant 0 : index").do("%c9 = arith.constant 9 : index")
    s.do("scf.for %i = %c0 to %n step %c9 {").window("%w", "%vv", (0, "%i"), (1, 8))
    s.load("%w", "%t").do("}").store("%t", "%u")
    _, report = pto.compile(s.program, checks=True)(X, X[:8], 80)
    (problem,) = report.problems()
    assert "got offset 63 and size 8 in dimension 1" in problem.message


def small(source: Any, rows: Any) -> pto.Program:
    """y = x of the first ``rows`` rows of 64x8 views."""
    s = source("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %r: index")
    for name, pointer in (("%v", "%x"), ("%u", "%y")):
        s.view(name, pointer, (64, 8), (8, 1)).window(f"{name}w", f"{name}v", (0, 0), (rows, 8))
    s.tile("%t", "f32", 16, 8, valid=(rows, 8)).load("%vw", "%t").store("%t", "%uw")
    program: pto.Program = s.program
    return program


@pytest.mark.slow
def test_a_buffer_may_be_smaller_than_a_view(source: Any) -> None:
    program, x = small(source, "%r"), X[:32]
    plain, checked = (pto.compile(program, checks=c) for c in (False, True))
    for found in (
        plain(x, -x, 4),
        plain.eager(x, -x, 4),
        checked(x, -x, 4)[0],
        oracle.run(program, (x, -x, 4)),
    ):
        np.testing.assert_array_equal(found["y"], x)
    assert not checked(x, -x, 4)[1].problems()
    np.testing.assert_array_equal(plain(x, -x, 5)["y"], x)
    np.testing.assert_array_equal(plain(x, -X, 5)["y"], np.concatenate([x, np.zeros(8), -X[40:]]))
    message = "got elements 0 to 39 of x"
    assert message in checked(x, -x, 5)[1].problems()[0].message
    assert message in refused(lambda: plain.eager(x, -x, 5))
    assert "got elements 0 to 39 of" in refused(lambda: oracle.run(program, (x, -x, 5)))


def test_an_access_that_is_certainly_outside_is_an_early_error(source: Any) -> None:
    program, x = small(source, 16), X[:128]
    for kernel in (pto.compile(program), pto.compile(program, checks=True)):
        np.testing.assert_array_equal(kernel.eager(x, -x, 0)["y"], x)
        expected = r"got 127 elements; allowed: at least 128, which .* need \(tstore at <text>:\d+:\d+\)"
        with pytest.raises(pto.ArgumentError, match=expected):
            kernel(x, -x[:127], 0)


def test_addresses_of_pointers_do_not_wrap() -> None:
    program = pto.parse(
        """func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: index, %p: index) {
          %c0 = arith.constant 0 : index
          %q = pto.addptr %x, %o : !pto.ptr<f32> -> !pto.ptr<f32>
          %v = pto.load_scalar %q[%p] : !pto.ptr<f32> -> f32
          pto.store_scalar %v, %y[%c0] : !pto.ptr<f32>, f32
          return
        }"""
    )
    plain, checked = (pto.compile(program, checks=c) for c in (False, True))
    for o, p, inside in (
        (3, -2, True),
        (TOP, 2, False),
        (2**58, 1 - 2**58, True),
        (-TOP - 1, -TOP - 1, False),
    ):
        args = (X, np.zeros(1, np.float32), o, p)
        expected = X[1] if inside else 0
        assert plain(*args)["y"] == expected == plain.eager_unchecked(*args)["y"]
        assert bool(checked(*args)[1].problems()) != inside
        if inside:
            assert plain.eager(*args)["y"] == expected == oracle.run(program, args)["y"]
        else:
            for call in (lambda a=args: plain.eager(*a), lambda a=args: oracle.run(program, a)):
                assert "load_scalar" in refused(call)


@pytest.mark.parametrize(("r", "c", "axis"), [(5, 0, 0), (0, 9, 1), (-1, 0, 0), (0, 2**32, 1)])
def test_run_time_windows_of_tiles_are_checked(r: int, c: int, axis: int) -> None:
    s = Source("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %r: index, %c: index")
    s.view("%v", "%x", (8, 16), (16, 1)).view("%u", "%y", (4, 8), (8, 1))
    s.tile("%s", "f32", 8, 16).tile("%d", "f32", 4, 8).load("%v", "%s")
    s.op("textract", "%s", "%r: index", "%c: index", out="%d").store("%d", "%u")
    plain, checked = _compiled(s.text)
    args = (X[:128], np.zeros(32, np.float32), r, c)
    what = (
        f"size {4 if axis == 0 else 8} in dimension {axis} of src, whose extent is {8 if axis == 0 else 16}"
    )
    assert what in checked(*args)[1].problems()[0].message
    assert what in refused(lambda: plain.eager(*args))
    assert what in refused(lambda: oracle.run(plain.program, args))
    inside = (X[:128], np.zeros(32, np.float32), 4, 8)
    np.testing.assert_array_equal(plain(*inside)["y"], X[:128].reshape(8, 16)[4:, 8:].ravel())


@cache
def _compiled(text: str) -> tuple[pto.Kernel, pto.Kernel]:
    program = pto.parse(text)
    return pto.compile(program), pto.compile(program, checks=True)
