"""Every shipped example against a NumPy formula, on random input and on its defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.examples import EXAMPLES, example
from pto_jax.text import print_program

Arrays = dict[str, NDArray[Any]]


def vector_add(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    x, y = (rng.standard_normal(4096).astype(np.float32) for _ in range(2))
    return {"x": x, "y": y, "z": np.zeros_like(x)}, {"z": x + y}


def add_relu_convert(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    x, y = (rng.standard_normal(8192).astype(np.float32) * 5e4 for _ in range(2))
    total = np.minimum(np.maximum(x + y, 0), np.float32(65504))
    return {"x": x, "y": y, "z": np.zeros(8192, np.float16)}, {"z": total.astype(np.float16)}


def masked_tile(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    rows, cols = 13, 45
    x = rng.standard_normal((40, 80)).astype(np.float32)
    y = rng.standard_normal((40, 80)).astype(np.float32)
    expected = y.copy()
    window = np.s_[3 : 3 + rows, 5 : 5 + cols]
    expected[window] = np.maximum(x[window], 0) * np.float32(0.5)
    return {"x": x, "y": y, "rows": np.asarray(rows), "cols": np.asarray(cols)}, {"y": expected}


def conversion_chain(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    x = (rng.standard_normal(2048) * 6).astype(np.float32)
    half = (x * np.float32(16)).astype(np.float16)
    q = np.clip(np.rint(half.astype(np.float32)), -128, 127).astype(np.int8)
    y = q.astype(np.float32) * np.float32(0.0625)
    arguments: Arrays = {"x": x, "q": np.zeros(2048, np.int8), "y": np.zeros(2048, np.float32)}
    arguments["scale"], arguments["inverse"] = (np.asarray(v, np.float32) for v in (16, 0.0625))
    return arguments, {"q": q, "y": y}


FORMULAS: dict[str, Callable[[np.random.Generator], tuple[Arrays, Arrays]]] = {
    f.__name__: f for f in (vector_add, add_relu_convert, masked_tile, conversion_chain)
}


def test_every_example_has_a_formula() -> None:
    assert set(FORMULAS) == set(EXAMPLES)
    assert {path.stem for path in example("vector_add").path.parent.glob("*.pto")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_compute_their_formula(name: str) -> None:
    arguments, expected = FORMULAS[name](np.random.default_rng(7))
    kernel = pto.compile(pto.load(example(name).path))
    outputs = kernel(**arguments)
    assert set(outputs) == set(expected) == set(kernel.outputs)
    for key, array in expected.items():
        found = np.asarray(outputs[key])
        assert found.dtype == array.dtype and found.shape == array.shape
        np.testing.assert_array_equal(found.view(np.uint8), np.ascontiguousarray(array).view(np.uint8))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_examples_are_accepted_without_a_warning(name: str, profile: str) -> None:
    assert pto.verify(pto.load(example(name).path), profile=profile) == []


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("form", ["as", "ssa", "dps"])
def test_examples_survive_every_spelling(name: str, form: Any) -> None:
    program = pto.load(example(name).path)
    assert pto.parse(print_program(program, form=form)) == program
