"""Reciprocal square roots and sums of float16 without negative ones, as CPUs and GPUs compute them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import F16, F32
from pto_jax.lowering import formulas
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

ROOT = "%d = trsqrt %a : !pto.tile<{}x1024x{}>"


def test_trsqrt_is_correctly_rounded_for_significands_of_both_binades() -> None:
    # The exponent shifts the root by powers of two: two binades are all of them.
    significands = np.random.default_rng(0).integers(0x3F800000, 0x40800000, (16, 16, 1024), np.uint32)
    values = significands.view(np.float32)
    kernel = pto.compile(pto.parse(ROOT.format(16, "f32")))
    root = np.asarray(jax.jit(jax.vmap(lambda a: kernel(a)["d"].array))(values))
    assert np.array_equal(root, (1 / np.sqrt(values.astype(np.longdouble))).astype(np.float32))


def test_trsqrt_of_every_f16() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1024)
    root = np.asarray(pto.compile(pto.parse(ROOT.format(64, "f16")))(values)["d"])
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = (1 / np.sqrt(values.astype(np.float64))).astype(np.float16)
    same = (root.view(np.uint16) == expected.view(np.uint16)) | (np.isnan(root) & np.isnan(expected))
    assert same.all()


@pytest.mark.parametrize("text", [
    ROOT.format(16, "f32"),
    "%s = tsqrt %a : !pto.tile<16x1024xf32>\n%d = trecip %s : !pto.tile<16x1024xf32>",
    "%s = tsqrt %a : !pto.tile<16x1024xf32>\n%d = tdiv %b, %s : !pto.tile<16x1024xf32>",
])  # fmt: skip
def test_no_quotient_by_a_root_becomes_rsqrt(text: str) -> None:
    """The rewriting is the same on every platform, so the CPU's code shows it."""
    kernel = pto.compile(pto.parse(text))
    tiles = [np.ones((16, 1024), np.float32)] * len(kernel.arguments)
    assert "rsqrt(" not in optimized(lambda *given: {n: t.words for n, t in kernel(*given).items()}, *tiles)


def test_a_plain_quotient_by_a_root_becomes_rsqrt() -> None:
    """What the test above would see."""
    assert "rsqrt(" in optimized(lambda x: 1 / jax.lax.sqrt(x), np.ones((16, 1024), np.float32))


def optimized(function: Callable[..., Any], *arguments: Any) -> str:
    """The code that XLA makes of a function for the CPU."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    assert text is not None
    return text


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
