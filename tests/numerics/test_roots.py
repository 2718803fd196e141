"""Reciprocal square roots: correctly rounded, and in a form that no GPU code generator approximates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto

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
