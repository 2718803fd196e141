"""Codes of whole arrays against the instructions tile by tile, also of arrays without elements."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn
from pto_jax.ir import TileType

SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-130), 3e38, -3e38, 2.0**-126], np.float32
)
SCALES = np.array([1.0, 2.0**-100, 2.0**-127, 2.0**-149, 0, -0.5, np.inf, np.nan, 3e38, 1.17e-38] + [0.3] * 6)


def numbers(*shape: int) -> Any:
    """Numbers of all exponents, some special."""
    rng = np.random.default_rng(7)
    words = rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32)
    near = rng.standard_normal(shape).astype(np.float32)
    mixed = np.where(rng.random(shape) < 0.5, near, words.view(np.float32))
    mixed[:, :: shape[1] // 8] = np.resize(SPECIAL, mixed[:, :: shape[1] // 8].shape)
    return mixed


@pytest.mark.variants(1)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_codes_under_a_scale(numerics: Any) -> None:
    x, scale = numbers(16, 64), SCALES.astype(np.float32)[:, None]
    options: dict[str, Any] = {"profile": "a5", "numerics": numerics}
    if numerics == "fast":
        # A subnormal number is flushed where XLA computes with it, and where is not promised.
        x = np.where(np.abs(x) < 2.0**-100, 0, x).astype(np.float32)
        scale = np.ones_like(scale)
    inverse = np.asarray(pto.ops.tdivs(1.0, scale.repeat(8, 1), **options).array)[:, :1]
    scaled = pto.ops.trowexpandmul(x, inverse, **options)
    expected = np.asarray(pto.ops.tcvt(scaled, dst="f8e4m3", sat_mode="ON", **options).array)
    codes = nn.quantise(x, scale, format="fp8", numerics=numerics).codes
    np.testing.assert_array_equal(np.asarray(codes).view(np.uint8), expected.view(np.uint8))


@pytest.mark.variants(1)
@pytest.mark.parametrize("format", ["fp8", "int8"])
def test_codes_of_rows_and_columns_are_those_of_each(format: Any) -> None:
    x, w = numbers(16, 64), numbers(64, 48)
    x[5], w[:, 7] = 2.0**-140, 0
    x[6] = np.where(np.isfinite(x[6]), x[6], 1)
    how = nn.quantisation.settings("linear", format, None, "exact")
    pair = jax.jit(lambda x, w: nn.quantisation.rows_and_columns(how, x, w))(x, w)
    apart = nn.quantise(x, format=format, axis=1), nn.quantise(w, format=format, axis=0)
    for ours, expected in zip(pair, apart, strict=True):
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))


@pytest.mark.variants(0)
@pytest.mark.parametrize("profile", ["a5", "cpu_sim"])
def test_groups_of_an_exponent(profile: Any) -> None:
    x = numbers(16, 256)
    x[2, :32], x[3, 32:64] = 0, 2.0**-149
    element = {"a5": "f8e4m3", "cpu_sim": "i8"}[profile]
    line = TileType("f32", 1, x.size // 32)
    types = (element, TileType("u8", 16, 32), line, line)
    expected = pto.ops.tquant_mx(x, dst=types, profile=profile)
    for axis in (0, 1):
        given = x if axis else x.T
        codes, scale = nn.quantise(jnp.asarray(given), format="mx", axis=axis, profile=profile)
        words = [np.asarray(a).view(np.uint8) for a in (codes, scale)]
        a, b = words if axis else [w.T for w in words]
        np.testing.assert_array_equal(a, np.asarray(expected[0].words))
        np.testing.assert_array_equal(b, np.asarray(expected[1].words)[:, :8])


SHAPES = ((0,), (0, 4), (4, 0), (2, 0, 3))


@pytest.mark.variants(1)
@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("format", ["int8", "fp8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_codes_and_scales_of_nothing(shape: tuple[int, ...], format: str, axis: int | None) -> None:
    x = jnp.zeros(shape)
    codes, scale = nn.quantise(x, format=format, axis=axis)  # type: ignore[arg-type]
    expected = np.max(np.abs(np.asarray(x)), axis=axis, keepdims=axis is not None, initial=0)
    assert codes.shape == shape and scale.shape == expected.shape
    zeros = nn.calibrate(jnp.zeros(1), format=format)  # type: ignore[arg-type]
    np.testing.assert_array_equal(scale, np.broadcast_to(zeros, scale.shape))
    assert nn.dequantise(codes, scale).shape == shape
    assert codes.dtype == {"int8": "int8", "fp8": "float8_e4m3fn"}[format]


@pytest.mark.variants(3)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("shape", SHAPES)
def test_groups_of_nothing(shape: tuple[int, ...], axis: int) -> None:
    codes, scale = nn.quantise(jnp.zeros(shape), format="mx", axis=axis)
    groups = list(shape)
    groups[axis] = -(-shape[axis] // 32)
    assert (codes.shape, list(scale.shape)) == (shape, groups)
    assert f"{codes.dtype} {scale.dtype}" == "float8_e4m3fn float8_e8m0fnu"
    assert nn.dequantise(codes, scale, axis=axis).shape == shape


def test_a_batch_without_rows_is_quantised_under_jit() -> None:
    codes, scale = jax.jit(lambda x: nn.quantise(x, axis=-1))(jnp.zeros((0, 3, 4)))
    assert codes.shape == (0, 3, 4) and scale.shape == (0, 3, 1)
