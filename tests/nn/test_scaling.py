"""Scaled sums in float32 against the instructions, where exponents are ordinary and where they are not."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import F32
from pto_jax.lowering.numerics import arithmetic
from pto_jax.nn import layers
from pto_jax.nn.quantisation import Settings, settings
from pto_jax.nn.tiling import cut, each, joined

DRAW = np.random.default_rng(0)
M, N = 16, 32


def operands(format: str, power: int, bias_power: int) -> list[Any]:
    largest = 127 * 127 * 64 if format == "int8" else 1 << 24
    total = DRAW.integers(-largest, largest, (2 * M, N), np.int32)
    total[DRAW.random(total.shape) < 0.1] = 0
    if format == "fp8":
        total = total.astype(np.float32) * np.float32(2.0**-18)
    shapes = ((2 * M, 1), (1, N), (1, N))
    powers = (power, power, bias_power)
    lines = [
        (DRAW.standard_normal(s) * 2.0**p).astype(np.float32) for s, p in zip(shapes, powers, strict=True)
    ]
    lines[0][:2, 0] = 0, np.nan
    return [jnp.asarray(a) for a in (total, *lines)]


def by_instructions(how: Settings, total: Any, row: Any, *lines: Any) -> Any:
    """Tile by tile."""

    def tile(total: Any, row: Any, column: Any, *bias: Any) -> Any:
        if total.dtype == np.int32:
            total = pto.ops.tcvt(total, dst="f32", **how.options).array
        result = pto.ops.trowexpandmul(total, row, **how.options)
        result = pto.ops.tcolexpandmul(result, column, **how.options)
        return (pto.ops.tcolexpandadd(result, *bias, **how.options) if bias else result).array

    tiles = each(tile, cut(total, M, N), cut(row, M, 1), *(x[None, None] for x in lines))
    return joined(tiles, *total.shape)


@cache
def _both(format: str) -> tuple[Settings, Any, Any]:
    """The settings, and the scaled sums as the layers compute them and as the instructions do."""
    how = settings("test", format, None, "exact")
    return how, jax.jit(partial(layers.scaled, how)), jax.jit(partial(by_instructions, how))


@pytest.mark.variants(1)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("power", "bias_power", "native"),
    [(-8, -3, True), (-52, -3, False), (-72, -140, False), (-8, -130, False), (60, 0, True)],
)
@pytest.mark.parametrize("format", ["int8", "fp8"])
def test_bits_are_those_of_the_instructions(
    format: str, power: int, bias_power: int, native: bool, biased: bool
) -> None:
    how, layer, instructions = _both(format)
    total, row, column, bias = operands(format, power, bias_power)
    line = bias if biased else None
    given = (row, column, bias) if biased else (row, column)
    found = np.asarray(layer(total, row, column, line))
    expected = np.asarray(instructions(total, *given))
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    if biased:
        assert bool(layers._normal(how, *given)) == native


@pytest.mark.slow
def test_float32_alone_loses_subnormals() -> None:
    how = settings("test", "int8", None, "exact")
    given = operands("int8", -72, -140)
    native = partial(layers._scaled_in, arithmetic(F32, native=True))
    lost = np.asarray(jax.jit(native)(*given))
    expected = np.asarray(by_instructions(how, *given))
    assert (lost.view(np.uint32) != expected.view(np.uint32)).any()
