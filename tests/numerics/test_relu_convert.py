"""Sums and differences that float16 holds without negative ones: computed in float32, where CPUs flush."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import F16, F32
from pto_jax.lowering import formulas
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

COUNT = 1 << 18
#: Exponent fields: subnormal, around the smallest float16, its subnormals and its largest, and any.
FIELDS = ((0, 3), (0, 120), (98, 106), (100, 116), (135, 145), (0, 256))


def words(low: int, high: int, seed: int) -> NDArray[np.uint32]:
    rng = np.random.default_rng(seed)
    fields = rng.integers(low, high, COUNT).astype(np.uint32) << np.uint32(23)
    fractions = rng.integers(0, 1 << 32, COUNT, np.uint64).astype(np.uint32) & np.uint32(0x807FFFFF)
    # Few bits of fraction, so that many sums are ties.
    few = np.where(rng.random(COUNT) < 0.5, np.uint32(0x80700001), np.uint32(0xFFFFFFFF))
    return np.asarray(fractions & few | fields)


def expected(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.uint16]:
    with np.errstate(all="ignore"):
        total = x.view(np.float32) + y.view(np.float32)
        half = np.minimum(np.where(total > 0, total, 0), 65504).astype(np.float16)
    return np.where(np.isnan(total), np.uint16(F16.canonical_nan), half.view(np.uint16))


@pytest.mark.parametrize("operation", ["add", "sub"])
@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_words_are_those_of_the_exact_sum(operation: str, fields: tuple[int, int]) -> None:
    x, y = words(*fields, 1), words(*fields, 2)
    tiny, near = words(0, 2, 3), words(100, 104, 4)
    x[: COUNT // 4], y[: COUNT // 4] = tiny[: COUNT // 4], near[: COUNT // 4]
    x[-1000:] = y[-1000:] ^ np.uint32(1 << 31 if operation == "add" else 0)
    with x64():
        code = jax.jit(lambda x, y: formulas.relu_convert(ExactFloat(F32), F16, operation, x, y))
        result = np.asarray(code(x, y))
    sign = np.uint32(0 if operation == "add" else 1 << 31)
    np.testing.assert_array_equal(result, expected(x, y ^ sign))
