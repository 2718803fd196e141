"""Straight-through gradients: values of the kernel, derivatives of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn

X = np.linspace(-1.5, 1.5, 64, dtype=np.float32).reshape(4, 16)
SQUARES = """
module {
  func.func @squares(%x: !pto.ptr<f32>, %n: i32, %y: !pto.ptr<f32>) {
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %f = arith.sitofp %n : i32 to f32
    %vx = pto.make_tensor_view %x, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %vy = pto.make_tensor_view %y, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c4, %c16] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x16xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c4, %c16] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x16xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 4x16xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<4x16xf32>) outs(%t : !pto.tile_buf<vec, 4x16xf32>)
    pto.tmul ins(%t, %t : !pto.tile_buf<vec, 4x16xf32>, !pto.tile_buf<vec, 4x16xf32>) outs(%t : !pto.tile_buf<vec, 4x16xf32>)
    pto.tmuls ins(%t, %f : !pto.tile_buf<vec, 4x16xf32>, f32) outs(%t : !pto.tile_buf<vec, 4x16xf32>)
    pto.tstore ins(%t : !pto.tile_buf<vec, 4x16xf32>) outs(%py : !pto.partition_tensor_view<4x16xf32>)
    return
  }
}
"""  # noqa: E501 - types in full
HALF = pto.straight_through(lambda x: pto.ops.tcvt(x, dst="f16").array, lambda x: x)


@pytest.fixture(name="kernel", scope="module")
def _kernel() -> pto.Kernel:
    return pto.compile(pto.parse(SQUARES))


def reference(x: Any, n: Any, y: Any) -> Any:
    return x * x * n


def difference(f: Callable[[Any], Any], x: np.ndarray[Any, Any], step: float = 1e-3) -> np.ndarray[Any, Any]:
    """Central differences of a function whose element i depends on x[i] alone, in float64."""
    with jax.enable_x64(True):
        up, down = (np.asarray(f(jnp.asarray(x.astype(np.float64) + s))) for s in (step, -step))
    found: np.ndarray[Any, Any] = (up - down) / (2 * step)
    return found


@pytest.mark.slow
def test_a_kernel_has_its_values_and_the_derivative_of_the_reference(kernel: pto.Kernel) -> None:
    f = pto.straight_through(kernel, reference)
    np.testing.assert_array_equal(f(X, 3, 0 * X)["y"], np.asarray(kernel(X, 3, 0 * X)["y"]))
    found = jax.grad(lambda x: f(x, 3, 0 * X)["y"].sum())(X)
    np.testing.assert_array_equal(found, jax.grad(lambda x: reference(x, 3, 0).sum())(X))
    np.testing.assert_allclose(found, difference(lambda x: reference(x, 3, 0), X), rtol=1e-5, atol=1e-6)


def _scanned(f: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (f(c) + 0.5, None), x, None, length=3)[0]


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: jax.grad(lambda x: (f(x) * X).sum())(x),
    "jit of grad": lambda f, x: jax.jit(jax.grad(lambda x: (f(x) * X).sum()))(x),
    "grad of jit": lambda f, x: jax.grad(lambda x: (jax.jit(f)(x) * X).sum())(x),
    "vmap of grad": lambda f, x: jax.vmap(jax.grad(lambda x: (f(x) * X).sum()))(jnp.stack([x, 2 * x])),
    "grad of vmap": lambda f, x: jax.grad(lambda x: jax.vmap(f)(x[None])[0].sum())(x),
    "scan": lambda f, x: jax.grad(lambda x: _scanned(f, x).sum())(x),
    "checkpoint": lambda f, x: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(x),
    "jvp": lambda f, x: jax.jvp(f, (x,), (X,))[1],
    "hessian": lambda f, x: jax.grad(lambda x: jax.grad(lambda x: f(x).sum())(x)[0, 0])(x),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("way", WAYS)
def test_it_composes_with_transformations(way: str) -> None:
    """Cubes of exactly represented numbers: kernel and reference agree, so their derivatives must."""
    x = np.round(X * 4) / 4

    def kernel(x: Any) -> Any:
        return pto.ops.tmul(pto.ops.tmul(x, x), x).array

    f = pto.straight_through(kernel, lambda x: x * x * x)
    np.testing.assert_allclose(WAYS[way](f, x), WAYS[way](lambda x: x * x * x, x), rtol=1e-6)


@pytest.mark.slow
def test_several_results_and_arguments_by_name() -> None:
    def kernel(x: Any, *, scale: Any) -> dict[str, Any]:
        scaled = pto.ops.tmuls(x, scale)
        return {"y": scaled, "codes": pto.ops.tcvt(scaled, dst="i32")}

    def wanted(x: Any, *, scale: Any) -> dict[str, Any]:
        return {"y": x * scale, "codes": jnp.round(x * scale).astype(np.int32)}

    f = pto.straight_through(kernel, wanted)
    assert f(X, scale=2.0)["codes"].dtype == np.int32
    x, scale = jax.grad(lambda x, s: (f(x, scale=s)["y"] ** 2).sum(), argnums=(0, 1))(X, 2.0)
    np.testing.assert_allclose(x, 8 * X, rtol=1e-6)
    np.testing.assert_allclose(scale, 4 * (X * X).sum(), rtol=1e-5)


def test_results_of_other_float_types_and_the_usual_idiom() -> None:
    assert HALF(X).dtype == np.float16
    np.testing.assert_array_equal(jax.grad(lambda x: (HALF(x) * 2.0).astype(np.float32).sum())(X), 2 * X**0)
    idiom = jax.grad(lambda x: (x + jax.lax.stop_gradient(HALF(x) - x)).sum())(X)
    np.testing.assert_array_equal(idiom, X**0)


@pytest.mark.variants(1)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_promotion_settings_allow_the_gradient_of_a_layer_with_a_bias(shape: tuple[int, ...]) -> None:
    x, w, bias = np.ones(shape, np.float32), np.ones((4, 5), np.float32), np.ones(5, np.float32)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        found = jax.grad(lambda b: nn.linear(x, w, b, format="f32").sum())(bias)
    np.testing.assert_array_equal(found, np.full(5, math.prod(shape[:-1]), np.float32))


def test_arrays_of_other_libraries_and_lists() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is no dependency")
    np.testing.assert_array_equal(HALF(torch.from_numpy(X)), HALF(X))


@pytest.mark.parametrize(
    ("kernel", "expected", "message"),
    [
        (lambda x: pto.ops.tcvt(x, dst="i32").array, lambda x: x,
         r"result is int32, which has no derivative, the reference gives float32; try: .*floats"),
        (lambda x: pto.ops.tneg(x).array, lambda x: x.astype(int),
         "result is float32, the reference gives int32, which has no derivative"),
        (lambda x: pto.ops.trowsum(x).array, lambda x: x, r"result has shape \(4, 1\), .*gives \(4, 16\)"),
        (lambda x: {"a": pto.ops.tneg(x)}, lambda x: (x, x), r"the reference gives \('float32\[4, 16\]', "
         r"'float32\[4, 16\]'\), the kernel \{'a': 'float32\[4, 16\]'\}; try"),
    ],
)  # fmt: skip
def test_results_that_do_not_correspond_are_errors(kernel: Any, expected: Any, message: str) -> None:
    f = pto.straight_through(kernel, expected)
    f(X)
    with pytest.raises(pto.DifferentiationError, match=message):
        jax.vjp(f, X)


def test_what_it_is_called() -> None:
    def narrowed(x: Any) -> Any:
        return x

    f = pto.straight_through(narrowed, narrowed)
    assert f.__name__ == "narrowed" and "derivative of narrowed" in (f.__doc__ or "")
