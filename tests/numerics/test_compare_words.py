"""Comparisons of words agree with IEEE comparisons of the values they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from pto_jax.ir import BF16, F16, F32, CmpMode, DType
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

_VALUES: dict[CmpMode, Callable[[Any, Any], Any]] = {
    CmpMode.EQ: operator.eq,
    CmpMode.NE: operator.ne,
    CmpMode.LT: operator.lt,
    CmpMode.LE: operator.le,
    CmpMode.GT: operator.gt,
    CmpMode.GE: operator.ge,
}


def _special_words(d: DType) -> np.ndarray:
    """Zeros, the subnormals' and normals' limits, infinities and NaNs of both signs."""
    infinity = ((1 << d.exponent) - 1) << d.mantissa
    normal = 1 << d.mantissa
    codes = [0, 1, 2, normal - 1, normal, normal + 1, infinity - 1, infinity, infinity + 1]
    codes += [(1 << (d.bits - 1)) - 1, infinity | normal >> 1]
    return np.array([c | s << (d.bits - 1) for c in codes for s in (0, 1)], d.word)


@pytest.mark.parametrize("d", [F32, F16, BF16], ids=lambda d: d.name)
def test_words_compare_as_values(d: DType) -> None:
    words = _special_words(d)
    x, y = (w.reshape(-1) for w in np.meshgrid(words, words))
    with np.errstate(invalid="ignore"):
        u, v = (w.view(d.numpy).astype(np.float64) for w in (x, y))
    a = ExactFloat(d)
    with x64():
        found = jax.jit(lambda x, y: [a.compare_words(m, x, y) for m in _VALUES])(x, y)
        zero = jax.jit(lambda x: [a.compare_words(m, x, d.word.type(0)) for m in _VALUES])(x)
    for mode, of_both, of_zero in zip(_VALUES, found, zero, strict=True):
        np.testing.assert_array_equal(of_both, _VALUES[mode](u, v), mode.name)
        np.testing.assert_array_equal(of_zero, _VALUES[mode](u, 0.0), f"{mode.name} 0")
