"""exp of exact numerics: rounded to float32 it is the correctly rounded one, wherever that was compared."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import BF16, F16, F32, DType
from pto_jax.lowering import formulas
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

Words = NDArray[Any]


def _computed(words: Words, d: DType = F32) -> Words:
    a = ExactFloat(d)
    with x64():
        return np.asarray(jax.jit(lambda w: a.encode(formulas.exponential(a, a.decode(w))))(words))


def _expected(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """NumPy's exp of 80 bits where the machine has them, rounded once; NaN canonical."""
    with np.errstate(all="ignore"):
        rounded = np.exp(words.view(np.float32).astype(np.longdouble)).astype(np.float32)
    return np.where(np.isnan(rounded), np.uint32(0x7FC00000), rounded.view(np.uint32))


def _words(*values: float) -> NDArray[np.uint32]:
    return np.array(values, np.float32).view(np.uint32)


def test_exp_of_special_and_extreme_numbers() -> None:
    found = _computed(_words(np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38))
    one = int(np.float32(1).view(np.uint32))
    assert [int(w) for w in found] == [0x7F800000, 0, 0x7FC00000, one, one, one, one, 0x7F800000, 0]
    # Around the largest float32, the normal range, the smallest subnormal and half of it.
    edges = np.concatenate(
        [_words(x) + np.arange(-4, 5) for x in (88.72284, -87.33655, -103.27893, -103.97208)]
    )
    words = edges.astype(np.uint32)
    np.testing.assert_array_equal(_computed(words), _expected(words))


def test_exp_of_many_numbers_is_rounded_correctly() -> None:
    rng = np.random.default_rng(0)
    near = rng.uniform(-104, 89, 1 << 17).astype(np.float32).view(np.uint32)
    small = (rng.standard_normal(1 << 16) * np.exp2(rng.integers(-40, 2, 1 << 16))).astype(np.float32)
    some = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    words = np.concatenate([near, small.view(np.uint32), some])
    np.testing.assert_array_equal(_computed(words), _expected(words))


@pytest.mark.nightly
@pytest.mark.slow
def test_exp_of_every_float32_is_rounded_correctly() -> None:
    """Beyond these exponents it is 1, infinity or 0."""
    for sign in (0, 1 << 31):
        for first in range(96 << 23, 134 << 23, 1 << 22):
            words = (np.arange(first, first + (1 << 22)) + sign).astype(np.uint32)
            np.testing.assert_array_equal(_computed(words), _expected(words))


@pytest.mark.parametrize("d", [F16, BF16])
def test_exp_of_every_short_float(d: DType) -> None:
    words = np.arange(1 << 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        values = np.exp(words.view(d.numpy).astype(np.float64)).astype(d.numpy)
    expected = np.where(np.isnan(values.astype(np.float32)), d.canonical_nan, values.view(np.uint16))
    np.testing.assert_array_equal(_computed(words, d), expected)


def _difference(x: jax.Array, y: jax.Array) -> jax.Array:
    a = ExactFloat(F32)
    return a.encode(formulas.exponential_of_difference(a, a.decode(x), a.decode(y)))


def test_exp_of_a_difference_rounds_the_difference_first() -> None:
    """Subnormal operands and differences, which CPUs take for zeros, NaN and infinities among them."""
    rng = np.random.default_rng(1)
    exponents = rng.integers(-149, 8, (2, 1 << 16))
    scaled = (rng.standard_normal(exponents.shape) * np.exp2(exponents)).astype(np.float32)
    near = rng.uniform(-100, 90, (2, 1 << 15)).astype(np.float32)
    words = rng.integers(0, 1 << 32, (2, 1 << 15), dtype=np.uint32)
    close = words & np.uint32(0x80FFFFFF)
    x, y = np.concatenate([scaled.view(np.uint32), near.view(np.uint32), words, close], axis=1)
    with np.errstate(all="ignore"):
        difference = x.view(np.float32) - y.view(np.float32)
    with x64():
        np.testing.assert_array_equal(jax.jit(_difference)(x, y), _expected(difference.view(np.uint32)))


def test_a_product_before_a_difference_is_rounded() -> None:
    """A program's operand may be computed in the function that calls it, where XLA would contract the two."""
    u, v, y = np.random.default_rng(2).standard_normal((3, 1 << 16)).astype(np.float32)

    def together(u: jax.Array, v: jax.Array, y: jax.Array) -> jax.Array:
        return _difference(*(jax.lax.bitcast_convert_type(n, np.uint32) for n in (u * v, y)))

    with x64():
        found = np.asarray(jax.jit(together)(u, v, y))
    np.testing.assert_array_equal(found, _expected((u * v - y).view(np.uint32)))
