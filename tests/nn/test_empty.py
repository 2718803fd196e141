"""Arrays without elements: no codes, and scales that are those of zeros."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pto_jax import nn

SHAPES = ((0,), (0, 4), (4, 0), (2, 0, 3))


@pytest.mark.variants(8)
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
