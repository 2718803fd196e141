"""Kernels whose scalar arguments are fixed when they are compiled."""

import pickle
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES, example
from pto_jax.ir import ScalarType
from pto_jax.runtime.kernel import Kernel

SCALED = """
func.func @scaled(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index, %by: f32, %on: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %vx = pto.make_tensor_view %x, shape = [%c1, %n], strides = [%n, %c1] : !pto.tensor_view<1x?xf32>
  %vy = pto.make_tensor_view %y, shape = [%c1, %n], strides = [%n, %c1] : !pto.tensor_view<1x?xf32>
  %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c1, %n]
      : !pto.tensor_view<1x?xf32> -> !pto.partition_tensor_view<1x?xf32>
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %n]
      : !pto.tensor_view<1x?xf32> -> !pto.partition_tensor_view<1x?xf32>
  %t = pto.alloc_tile valid_col = %n : !pto.tile_buf<vec, 1x64xf32, valid=1x?>
  pto.tload ins(%wx : !pto.partition_tensor_view<1x?xf32>) outs(%t : !pto.tile_buf<vec, 1x64xf32, valid=1x?>)
  scf.if %on {
    pto.tmuls ins(%t, %by : !pto.tile_buf<vec, 1x64xf32, valid=1x?>, f32)
        outs(%t : !pto.tile_buf<vec, 1x64xf32, valid=1x?>)
  }
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x64xf32, valid=1x?>) outs(%wy : !pto.partition_tensor_view<1x?xf32>)
  return
}
"""
X = np.linspace(-3, 3, 64, dtype=np.float32)
Y = np.full(64, 7, np.float32)


@pytest.fixture
def kernel() -> Kernel:
    return pto.compile(pto.parse(SCALED), warn=False)


def scalars(kernel: Kernel, given: dict[str, Any]) -> dict[str, Any]:
    return {a.name: given[a.name] for a in kernel.arguments if isinstance(a.type, ScalarType)}


def check(name: str, numerics: Any = "exact") -> None:
    """A kernel with all of its scalars fixed has the bits of the one that takes them."""
    shipped = example(name)
    kernel = pto.compile(pto.load(shipped.path), numerics=numerics, grid=shipped.grid, warn=False)
    given = shipped.arguments()
    fixed = scalars(kernel, given)
    assert fixed
    static = kernel.specialise(**fixed)
    assert [a.name for a in static.arguments] == [a.name for a in kernel.arguments if a.name not in fixed]
    results = static(**{n: v for n, v in given.items() if n not in fixed})
    for output, expected in kernel(**given).items():
        assert np.asarray(results[output]).tobytes() == np.asarray(expected).tobytes(), output


def test_sizes_and_valid_regions_become_constants() -> None:
    check("masked_tile")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n, e in EXAMPLES.items() if any(not v.ndim for v in e.arguments().values())]
)
def test_examples_have_the_same_bits(name: str) -> None:
    check(name)


@pytest.mark.slow
def test_some_of_the_scalars_and_every_type_of_them(kernel: Kernel) -> None:
    expected = np.asarray(kernel(X, Y, 10, 0.3, True)["y"])
    some = kernel.specialise(n=np.int32(10), on=True)
    assert np.array_equal(some(X, Y, 0.3)["y"], expected)
    assert np.array_equal(some.specialise(by=np.float32(0.3))(X, Y)["y"], expected)
    off = pto.compile(pto.parse(SCALED), scalars={"n": 10, "by": float("inf"), "on": False}, warn=False)
    assert np.array_equal(off(X, Y)["y"], [*X[:10], *Y[10:]])
    assert np.array_equal(jax.vmap(off)(X[None], Y[None])["y"][0], off(X, Y)["y"])
    assert np.array_equal(off.eager(X, Y)["y"], off(X, Y)["y"])
    assert pickle.loads(pickle.dumps(off)) is off and kernel.specialise() is kernel
    text = str(off.program)
    assert "arith.constant 10 : index" in text and pto.parse(text).functions[0].args == off.function.args


def test_an_access_outside_is_an_error_as_before(kernel: Kernel) -> None:
    with pytest.raises(pto.PtoError, match="65"):
        kernel.specialise(n=65)(X, Y, 1.0, True)


def test_options_are_those_of_the_kernel() -> None:
    kernel = pto.compile(pto.parse(SCALED), "a5", numerics="fast", checks=True, max_steps=9, warn=False)
    static = kernel.specialise(n=3)
    assert (static.semantics, static.checks, static.max_steps) == (kernel.semantics, True, 9)


def test_a_fragment_has_scalars_too() -> None:
    fragment = pto.compile(
        pto.parse("%d = pto.tadds %a, %s : (!pto.tile<1x8xf32>, f32) -> !pto.tile<1x8xf32>")
    )
    ones = np.ones((1, 8), np.float32)
    assert fragment.specialise(s=2.5)(ones)["d"].array[0, 0] == 3.5


CALLED = """
func.func private @inner(%n: index) { return }
func.func @outer(%n: index) attributes {pto.entry} { func.call @inner(%n) : (index) -> ()
 return }
"""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"m": 1}, "scalars: got 'm'; allowed: n, by, on"),
        ({"x": X}, "scalars: got 'x'; allowed: n, by, on"),
        ({"n": 1.5}, "scalar 'n'"),
        ({"n": [1, 2]}, "scalar 'n'"),
        ({"n": "a"}, "scalar 'n'"),
        ({"on": 2}, "scalar 'on'"),
        ({"by": np.uint32(0x7FC00001).view(np.float32)}, "NaN of other bits"),
    ],
)
def test_wrong_scalars_are_one_error(kernel: Kernel, values: dict[str, Any], message: str) -> None:
    with pytest.raises(pto.ArgumentError) as failed:
        kernel.specialise(**values)
    assert message in str(failed.value)


def test_a_traced_value_and_a_called_function_are_refused(kernel: Kernel) -> None:
    with pytest.raises(pto.ArgumentError, match="got a traced value; allowed: a number that is known"):
        jax.jit(lambda n: kernel.specialise(n=n)(X, Y, 1.0, True)["y"])(3)
    program = pto.parse(CALLED)
    pto.compile(program, scalars={"n": 1}, warn=False)
    with pytest.raises(pto.ArgumentError, match="inner is called by outer; allowed: an entry alone"):
        pto.compile(program, entry="inner", scalars={"n": 1}, warn=False)
