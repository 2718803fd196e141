"""Layers and scales of arrays whose sharding over explicit mesh axes is part of their type."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import pto_jax as pto
from pto_jax import nn

DRAW = np.random.default_rng(0)
X, W, BIAS = (DRAW.standard_normal(s).astype(np.float32) for s in ((4, 2, 40), (40, 6), (6,)))
C = DRAW.standard_normal((4, 2, 6)).astype(np.float32)
ROWS, COLUMNS, DEPTH = ("i", None, None), (None, "j"), ("i", None)


@pytest.fixture(name="mesh", autouse=True)
def _mesh() -> Iterator[None]:
    """Two devices: one mesh axis of two, one of one, which is explicit all the same."""
    with jax.set_mesh(jax.make_mesh((2, 1), ("i", "j"), axis_types=(AxisType.Explicit,) * 2)):
        yield


def over(x: Any, *axes: Any) -> Any:
    return jax.device_put(x, jax.P(*axes))  # type: ignore[no-untyped-call]


def bits(x: Any) -> Any:
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


SLOW = [pytest.param(f, marks=pytest.mark.slow) for f in ("int8", "fp8", "mx")]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["bf16", *SLOW])
def test_a_layer_is_sharded_as_its_rows_and_columns(format: Any) -> None:
    found = nn.linear(over(X, *ROWS), over(W, *COLUMNS), BIAS, format=format)
    assert str(jax.typeof(found)) == "float32[4@i,2,6@j]"
    np.testing.assert_array_equal(bits(found), bits(nn.linear(X, W, BIAS, format=format)))


@pytest.mark.slow
def test_columns_and_given_scales() -> None:
    scale, w_scale = nn.calibrate(X, axis=-1), nn.calibrate(W, axis=0)
    found = jax.jit(nn.linear)(X, over(W, None, "i"), BIAS, scale=scale, w_scale=w_scale)
    assert str(jax.typeof(found)) == "float32[4,2,6@i]"
    np.testing.assert_array_equal(found, nn.linear(X, W, BIAS))
    found = nn.linear(over(X, *ROWS), W, scale=over(scale, *ROWS), w_scale=0.5)
    np.testing.assert_array_equal(found, nn.linear(X, W, scale=scale, w_scale=0.5))


@pytest.mark.slow
def test_gradients_and_batches() -> None:
    @jax.jit
    @jax.grad
    def gradient(w: Any, x: Any) -> Any:
        return (jax.vmap(nn.linear, (0, None))(x, w) * C).sum()

    found = gradient(W, over(X, *ROWS))
    np.testing.assert_allclose(found, np.einsum("brk,brn->kn", X, C), rtol=1e-5, atol=1e-5)
    batch = jax.vmap(nn.linear, (0, None))(over(X, *ROWS), W)
    assert str(jax.typeof(batch)) == "float32[4@i,2,6]"
    np.testing.assert_array_equal(batch, nn.linear(X, W))


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    ("axis", "typed"),
    [(-1, "float32[4@i,2,1]"), (0, "float32[1,2,40]"), (None, "float32[]")],
)
def test_scales_of_all_devices(axis: Any, typed: str) -> None:
    found = nn.calibrate(over(X, *ROWS), axis=axis)
    assert str(jax.typeof(found)) == typed
    np.testing.assert_array_equal(found, nn.calibrate(X, axis=axis))


@pytest.mark.variants(0)
@pytest.mark.parametrize("format", ["int8", "mx"])
def test_codes_are_sharded_as_their_array(format: Any) -> None:
    codes, scale = nn.quantise(over(X, *ROWS), format=format)
    alone = nn.quantise(X, format=format)
    assert {str(jax.typeof(a)).partition("[")[2][:3] for a in (codes, scale)} == {"4@i"}
    np.testing.assert_array_equal(bits(codes), bits(alone.codes))
    np.testing.assert_array_equal(bits(scale), bits(alone.scale))
    values = nn.dequantise(codes, scale)
    assert str(jax.typeof(values)) == "float32[4@i,2,40]"
    np.testing.assert_array_equal(values, nn.dequantise(*alone))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.linear(over(X, None, None, "i"), W),
         r"linear: x: got float32\[4,2,40@i\], sharded along K; .*jax.P\(None, None, None\)"),
        (lambda: nn.linear(X, over(W, *DEPTH)), r"linear: w: got float32\[40@i,6\], sharded along K; "),
        (lambda: nn.linear(over(X, *ROWS), over(W, None, "i")),
         r"x float32\[4@i,2,40\] and w float32\[40,6@i\], both sharded over i; .*reshard\(w"),
        (lambda: nn.calibrate(over(X, *ROWS), percentile=90), "sharded along axis None, whose percentile"),
        (lambda: nn.quantise(over(X, *ROWS), format="mx", axis=0),
         r"sharded along axis 0, whose groups share a scale; .*jax.P\(None, None, None\)"),
    ],
)  # fmt: skip
def test_axes_that_belong_to_one_result(call: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        call()
