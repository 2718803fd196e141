"""The measured accuracy: rounding is right, exact results are, and a wrong result would be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.campaign.report import measure as module
from pto_jax.campaign.report.measure import measure, measured, rounded
from pto_jax.cases.ulp import bounds
from pto_jax.ir import DType, dtype
from pto_jax.isa.semantics import Formula


@pytest.mark.parametrize("d", ["f32", "f16"])
def test_rounding_is_that_of_numpy(d: str) -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal(4000) * np.exp2(rng.uniform(-30, 14, 4000))
    t = dtype(d)
    assert np.array_equal(rounded(t, values), values.astype(t.numpy).view(t.word))


def test_exact_results_are_correctly_rounded() -> None:
    found = measure("exact", ["tsqrt"], elements=2048)
    assert list(found) == [("tsqrt", "bf16"), ("tsqrt", "f16"), ("tsqrt", "f32")]
    for key in found:
        assert found[key].worst == found[key].nan == 0 and found[key].elements == 2048


def test_another_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(formula: Formula, d: DType, operands: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        (words,) = operands.values()
        return rounded(d, np.sqrt(words.view(d.numpy).astype(np.float64)) * (1 + 2.0**-9))

    monkeypatch.setattr(module, "reference", off)
    monkeypatch.setattr(module, "DTYPES", ("f16",))
    assert measure("exact", ["tsqrt"], elements=2048)["tsqrt", "f16"].worst >= 2


def test_everything_with_a_bound_is_measured() -> None:
    """Quotients of an expanded operand are left out: each lane is one of tdiv."""
    assert {name for name, _ in bounds()} - set(measured()) == {"trowexpanddiv", "tcolexpanddiv"}
    assert set(measured()) <= set(isa.instructions())
