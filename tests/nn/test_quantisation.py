"""Scales, codes and back, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn
from tests.nn import numpy_layers

X = np.random.default_rng(1).standard_normal((5, 7, 70)).astype(np.float32) * 3
LARGEST = {"int8": 127.0, "fp8": 448.0}


def bits(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x).view(np.uint8)


@pytest.mark.variants(3)
@pytest.mark.parametrize(
    ("format", "axis"),
    [("int8", None), ("int8", -1), ("int8", 1), ("fp8", (0, 2)), ("fp8", None)],
)
def test_scales_of_every_axis(format: str, axis: Any) -> None:
    found = np.asarray(nn.calibrate(X, format=format, axis=axis))
    top = np.abs(X).max(axis=axis, keepdims=axis is not None)
    np.testing.assert_array_equal(found, top / np.float32(LARGEST[format]))
    assert found.dtype == np.float32 and np.broadcast_shapes(found.shape, X.shape) == X.shape


@pytest.mark.parametrize("axis", [None, 0])
def test_percentiles(axis: Any) -> None:
    found = np.asarray(nn.calibrate(X, axis=axis, percentile=90))
    top = np.percentile(np.abs(X), 90, axis=axis, keepdims=axis is not None)
    np.testing.assert_allclose(found, top / 127, rtol=1e-6)


@pytest.mark.variants(3)
@pytest.mark.parametrize("format", LARGEST)
@pytest.mark.parametrize("axis", [None, -1, (0, 2)])
def test_codes_are_those_of_numpy_and_come_back(format: str, axis: Any) -> None:
    scale = np.asarray(nn.calibrate(X, format=format, axis=axis))
    codes, kept = nn.quantise(X, scale, format=format)
    np.testing.assert_array_equal(kept, scale)
    np.testing.assert_array_equal(bits(codes), bits(numpy_layers.codes_of(X, scale, format)))
    values = np.asarray(nn.dequantise(codes, scale))
    np.testing.assert_array_equal(values, np.asarray(codes).astype(np.float32) * scale)
    assert np.abs(values - X).max() <= (0.51 if format == "int8" else 16.5) * scale.max()


def test_scales_of_every_element_and_of_scalars() -> None:
    scale = np.abs(X) + 1
    codes = nn.quantise(X, scale).codes
    np.testing.assert_array_equal(codes, numpy_layers.codes_of(X, scale, "int8"))
    one = nn.quantise(np.float32(3.0), 0.5)
    assert one.codes.shape == () and int(one.codes) == 6


def test_without_a_scale_it_follows_from_the_rows() -> None:
    codes, scale = nn.quantise(X)
    assert scale.shape == (5, 7, 1)
    np.testing.assert_array_equal(scale, nn.calibrate(X, axis=-1))
    assert np.abs(np.asarray(codes)).max(-1).tolist() == [[127] * 7] * 5


@pytest.mark.slow
@pytest.mark.parametrize("axis", [-1, 0])
def test_groups_share_a_power_of_two(axis: int) -> None:
    codes, scale = nn.quantise(X, format="mx", axis=axis)
    moved = np.moveaxis(X, axis, -1)
    expected, powers = numpy_layers.groups_of(np.ascontiguousarray(moved).reshape(-1, moved.shape[-1]))
    found = np.moveaxis(np.asarray(codes), axis, -1).reshape(expected.shape)
    np.testing.assert_array_equal(bits(found), bits(expected))
    exponents = np.moveaxis(np.asarray(scale), axis, -1).reshape(powers.shape)
    np.testing.assert_array_equal(exponents.astype(np.float64), powers)
    values = np.moveaxis(np.asarray(nn.dequantise(codes, scale, axis=axis)), axis, -1).reshape(expected.shape)
    wide = np.repeat(powers, 32, 1)[:, : expected.shape[1]]
    np.testing.assert_array_equal(values, (expected.astype(np.float64) * wide).astype(np.float32))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_the_scale_of_a_nan_is_nan_wherever_it_stands(axis: int | None) -> None:
    for row, column in ((0, 0), (3, 5), (40, 299)):
        x = np.ones((41, 300), np.float32)
        x[row, column] = -np.nan
        scale = np.broadcast_to(nn.calibrate(x, axis=axis), x.shape)
        touched = {None: np.s_[:, :], 0: np.s_[:, column], -1: np.s_[row]}[axis]
        assert np.isnan(scale[touched]).all() and np.isnan(scale).sum() == scale[touched].size


def test_zeros_infinities_and_nans() -> None:
    x = np.array([[0, 0], [np.nan, 1], [np.inf, 1]], np.float32)
    codes, scale = nn.quantise(x[:1])
    assert codes.tolist() == [[0, 0]] and np.isfinite(scale).all()
    assert nn.quantise(x[1:2], 1.0).codes.tolist() == [[0, 1]]
    assert nn.quantise(x[2:], 1.0).codes.tolist() == [[127, 1]]
    assert np.isnan(np.asarray(nn.quantise(x[1:2], 1.0, format="fp8").codes[0, 0], np.float32))


@pytest.mark.variants(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_widened(dtype: str) -> None:
    x = jnp.asarray(X, dtype)
    codes, scale = nn.quantise(x)
    again = nn.quantise(np.asarray(x, np.float32))
    np.testing.assert_array_equal(codes, again.codes)
    np.testing.assert_array_equal(scale, again.scale)


def test_under_jit_and_vmap() -> None:
    each = jax.jit(jax.vmap(lambda x: nn.quantise(x)))(X)
    np.testing.assert_array_equal(each.codes, nn.quantise(X).codes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.calibrate(X, format="mx"), "format 'mx' has no scales; allowed: int8, fp8"),
        (lambda: nn.calibrate(X, percentile=101), "percentile: got 101; allowed: 0 to 100"),
        (lambda: nn.quantise(np.float32(1)), "for an array of 0 axes; allowed: None, or an array"),
        (lambda: nn.calibrate(X, axis=3), "axis: got 3 for an array of 3 axes; allowed: -3 to 2"),
        (lambda: nn.quantise(X, 1.0, format="mx"), "format 'mx' finds its scales itself"),
        (lambda: nn.quantise(X, format="mx", axis=None), "axis: got None for format 'mx'; allowed: one axis"),
        (lambda: nn.quantise(X, format="bf16"), "format 'bf16' has no codes; allowed: int8, fp8, mx"),
        (lambda: nn.quantise(X.astype(np.int32)), "got an array of int32; allowed: float32"),
        (lambda: nn.quantise(X, X[:2]), r"scale: got shape \(2, 7, 70\); allowed: .*\(5, 7, 70\)"),
        (lambda: nn.dequantise(X, 1.0), "codes are float32; allowed: int8, float8_e4m3fn"),
    ],
)
def test_errors_say_what_fits(call: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        call()


@pytest.mark.variants(1)
@pytest.mark.parametrize(("size", "axis"), [((7, 5), 0), ((64, 5), 0), ((32, 32), -2), ((3, 1, 33), 1)])
def test_exponents_of_another_axis_are_refused(size: tuple[int, ...], axis: int) -> None:
    x = np.arange(math.prod(size), dtype=np.float32).reshape(size)
    codes, scale = nn.quantise(x, format="mx", axis=axis)
    at = axis % len(size)
    with pytest.raises(
        pto.ArgumentError, match=rf"codes along axis -1; try: nn\.dequantise\(codes, scale, axis={at}\)"
    ):
        nn.dequantise(codes, scale)
    values = np.asarray(nn.dequantise(codes, scale, axis=at))
    assert np.abs(values - x).max() <= x.max() / 8
    with pytest.raises(pto.ArgumentError, match=r"scale: got shape .* for codes of shape .*; allowed: \("):
        nn.dequantise(codes, np.concatenate([scale, scale], at), axis=at)


def test_numbers_of_numpy_are_axes_and_percentiles() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for axis in (np.int64(1), [np.int32(-1)]):
        np.testing.assert_array_equal(nn.calibrate(x, axis=axis), nn.calibrate(x, axis=1))  # type: ignore[arg-type]
    for percentile in (np.float32(50), np.int64(50)):
        np.testing.assert_array_equal(
            nn.calibrate(x, percentile=percentile),  # type: ignore[arg-type]
            nn.calibrate(x, percentile=50),
        )
    codes, scale = nn.quantise(x, format="mx", axis=np.int64(1))  # type: ignore[arg-type]
    np.testing.assert_array_equal(codes, nn.quantise(x, format="mx", axis=1).codes)
    assert nn.dequantise(codes, scale, axis=np.int64(1)).shape == x.shape  # type: ignore[arg-type]
