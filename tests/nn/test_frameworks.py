"""The shipped examples train a quantised layer in other libraries."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("library", ["equinox", "flax"])
def test_a_quantised_layer_is_trained(library: str) -> None:
    for needed in (library, "optax", "sklearn"):
        pytest.importorskip(needed, reason="needs the extras frameworks and notebooks")
    accuracy = runpy.run_path(str(EXAMPLES / f"quantised_{library}.py"))["train"]()
    assert accuracy > 0.85
