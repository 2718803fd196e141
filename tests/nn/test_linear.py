"""Layers: values against NumPy bit by bit, gradients of the product, any size and batch."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn
from pto_jax.nn.quantisation import FORMATS, block_of
from tests.nn import numpy_layers

DRAW = np.random.default_rng(0)
FORMAT_NAMES = sorted(FORMATS)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return DRAW.standard_normal(shape).astype(np.float32)


SIZES = ((131, 300, 17), (5, 33, 11), (1, 1, 1), (16, 64, 32), (3, 130, 300), (5, 260, 7))
#: Formats whose quick test has several blocks, along all axes or along K; the others have one.
QUICK_SIZES = {"int8": (131, 300, 17), "mx": (5, 260, 7)}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("format", "rows", "k", "n"),
    [
        pytest.param(f, *size, marks=() if size == QUICK_SIZES.get(f, SIZES[1]) else pytest.mark.slow)
        for f in FORMAT_NAMES
        for size in SIZES
    ],
)
def test_values_are_those_of_numpy(format: str, rows: int, k: int, n: int) -> None:
    x, w, bias = normal(rows, k), normal(k, n), normal(n)
    if format == "f32":
        # Products of small integers: float64 then holds a step exactly.
        x, w = np.round(x * 64), np.round(w * 64)
    found = np.asarray(nn.linear(x, w, bias, format=format))
    expected = numpy_layers.linear(x, w, bias, format)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.variants(1)
@pytest.mark.parametrize("shape", [pytest.param((33,), marks=pytest.mark.slow), (2, 1, 3, 33), (0, 33)])
def test_batches_of_any_shape(shape: tuple[int, ...]) -> None:
    x, w = normal(*shape), normal(33, 7)
    found = np.asarray(nn.linear(x, w))
    assert found.shape == (*shape[:-1], 7)
    np.testing.assert_array_equal(found.reshape(-1, 7), np.asarray(nn.linear(x.reshape(-1, 33), w)))


@pytest.mark.variants(1)
@pytest.mark.parametrize("format", ["int8", "mx", "bf16"])
def test_the_gradient_is_that_of_the_product(format: str) -> None:
    x, w, bias = normal(6, 40), normal(40, 9), normal(9)
    c = normal(6, 9)

    def loss(layer: Any, *args: Any) -> Any:
        return (layer(*args) * c).sum()

    found = jax.jit(
        jax.grad(lambda *a: loss(lambda x, w, b: nn.linear(x, w, b, format=format), *a), (0, 1, 2))
    )
    plain = jax.grad(lambda *a: loss(lambda x, w, b: x @ w + b, *a), (0, 1, 2))
    for ours, theirs in zip(found(x, w, bias), plain(x, w, bias), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_gradient_of_the_product_is_its_finite_difference() -> None:
    x, w = normal(3, 5), normal(5, 2)
    found = jax.grad(lambda w: nn.linear(x, w).sum())(w)
    step = np.zeros_like(w, np.float64)
    step[2, 1] = 1e-3
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found[2, 1], ((wide @ (w + step) - wide @ (w - step)) / 2e-3).sum(), rtol=1e-5)


@pytest.mark.slow
def test_vmap_and_scan_over_layers() -> None:
    x, w = normal(4, 8), normal(3, 8, 8)
    stacked = jax.vmap(lambda w: nn.linear(x, w))(w)
    np.testing.assert_array_equal(stacked, np.stack([nn.linear(x, one) for one in w]))
    deep = jax.jit(lambda x: jax.lax.scan(lambda h, w: (nn.linear(h, w), None), x, w)[0])(x)
    np.testing.assert_array_equal(deep, nn.linear(nn.linear(nn.linear(x, w[0]), w[1]), w[2]))


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "scale", [None, pytest.param(0.05, marks=pytest.mark.slow), normal(3)[:, None] ** 2 + 0.01]
)
def test_a_batch_is_more_rows_of_one_product(scale: Any) -> None:
    x, w = normal(3, 20), normal(20, 8)
    axes = (0, None if np.ndim(scale) == 0 else 0)
    found = jax.vmap(lambda x, s: nn.linear(x, w, scale=s), axes)(x, scale)
    each = scale if np.ndim(scale) else [scale] * 3
    expected = np.stack([nn.linear(one, w, scale=s) for one, s in zip(x, each, strict=True)])
    np.testing.assert_array_equal(found, expected)
    # Where weights differ, each example is a product of one row.
    merged = jax.make_jaxpr(jax.vmap(nn.linear, (0, None)))(x, w)
    apart = jax.make_jaxpr(jax.vmap(nn.linear))(x, np.stack([w] * 3))
    assert "i32[3,1,8] = dot_general" in str(apart) and "i32[3,8] = dot_general" in str(merged)


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_half_precision_activations_stay_what_they_are(dtype: str) -> None:
    x, w = jnp.asarray(normal(4, 16), dtype), normal(16, 8)
    found = nn.linear(x, w, format="bf16")
    assert found.dtype == dtype
    expected = numpy_layers.linear(np.asarray(x, np.float32), w, None, "bf16").astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(found, np.float32), expected.astype(np.float32))


@pytest.mark.slow
def test_calibrated_scales_are_used() -> None:
    x, w = normal(4, 16), normal(16, 8)
    scale, w_scale = nn.calibrate(x), nn.calibrate(w)
    a, b = (numpy_layers.codes_of(v, np.asarray(s), "int8").astype(np.int32)
            for v, s in ((x, scale), (w, w_scale)))  # fmt: skip
    expected = ((a @ b).astype(np.float32) * np.asarray(scale)) * np.asarray(w_scale)
    np.testing.assert_array_equal(nn.linear(x, w, scale=scale, w_scale=w_scale), expected.astype(np.float32))
    rows = nn.calibrate(x, axis=-1)
    np.testing.assert_array_equal(nn.linear(x, w, scale=rows), nn.linear(x, w))


@pytest.mark.variants(1)
@pytest.mark.parametrize("format", [pytest.param("fp8", marks=pytest.mark.slow), "mx"])
def test_fast_numerics_are_close(format: str) -> None:
    x, w = normal(8, 64), normal(64, 8)
    fast = nn.linear(x, w, format=format, numerics="fast")
    np.testing.assert_allclose(fast, nn.linear(x, w, format=format), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "kernels"), [("int8", 12), ("fp8", 20), ("mx", 40), ("f16", 16)])
def test_layers_compile_like_layers(format: str, kernels: int) -> None:
    """Loops of XLA:CPU, each of which takes twenty milliseconds to compile; by hand fp8 has 8, mx 13."""
    x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in ((257, 1000), (1000, 333)))  # type: ignore[no-untyped-call]
    compiled = jax.jit(lambda x, w: nn.linear(x, w, format=format)).lower(x, w).compile()
    assert (compiled.as_text() or "").count(" fusion(") <= kernels


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMAT_NAMES)
def test_the_profiles_of_a_format_are_those_that_execute_it(format: str) -> None:
    x, w = normal(2, 8), normal(8, 2)
    for profile in FORMATS[format].profiles:
        assert nn.linear(x, w, format=format, profile=profile).shape == (2, 2)
    wrong = {"cpu_sim", "a2a3", "a5"} - set(FORMATS[format].profiles)
    for other in sorted(wrong):
        match = rf"linear: profile '{other}' has no products of format '{format}'; allowed: .*profile='a5'"
        with pytest.raises(pto.ArgumentError, match=match):
            nn.linear(x, w, format=format, profile=other)


def test_blocks_fit_the_smallest_buffers() -> None:
    for format in FORMATS.values():
        for size in (1, 63, 64, 65, 255, 257, 4096, 5000):
            block = block_of(format, size, size, size)
            assert block.m % 16 == block.k % 64 == block.n % 32 == 0
            assert block.m * block.k * format.bytes <= 64 << 10 >= block.k * block.n * format.bytes
            assert block.m * block.n * 4 <= 128 << 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w: nn.linear(x, w.T), r"x \[4, 16\] and w \[8, 16\]; allowed: x \[..., K\].*try: w.T"),
        (lambda x, w: nn.linear(x, w, x[0]), r"got bias \[16\]; allowed: \[N\], here \[8\]"),
        (lambda x, w: nn.linear(x, w, format="int4"), "format: got 'int4'; allowed: int8, fp8, mx"),
        (lambda x, w: nn.linear(x, w, format="mx", scale=1.0), "'mx' has no scales of its own"),
        (lambda x, w: nn.linear(x.astype(int), w), r"x: got an array of int64.*astype\(jnp.float32\)"),
        (lambda x, w: nn.linear(x, w, scale=x[:3]), r"scale: got shape \(3, 16\).*\(4, 1\)"),
        (lambda x, w: nn.linear(x, w, numerics="quick"), "numerics: got 'quick'; allowed: exact, fast"),
        (lambda x, w: nn.linear(x, w, profile="a9"), "unknown profile 'a9'"),
        (lambda x, w: nn.linear(x, w[:0]), "allowed: x"),
    ],
)  # fmt: skip
def test_errors_say_what_fits(call: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        call(normal(4, 16), normal(16, 8))


def test_every_public_name_is_documented() -> None:
    for name in nn.__all__:
        text = inspect.getdoc(getattr(nn, name)) or ""
        assert len(text) > 100 and (inspect.isclass(getattr(nn, name)) or ">>> " in text), name


@pytest.mark.slow
def test_arrays_sharded_over_explicit_axes_need_no_mesh_around_the_call() -> None:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    x, w = np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)
    rows = jax.device_put(x, jax.NamedSharding(mesh, jax.P("d", None)))  # type: ignore[no-untyped-call]
    for found in (nn.linear(rows, w), jax.jit(nn.linear)(rows, w)):
        assert str(jax.typeof(found)) == "float32[4@d,4]"
        np.testing.assert_array_equal(found, nn.linear(x, w))
    np.testing.assert_array_equal(nn.quantise(rows).codes, nn.quantise(x).codes)
