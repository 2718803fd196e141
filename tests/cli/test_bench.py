"""The programs that ``pto-jax bench`` measures, and what the command line sets for JAX's cache."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli import bench, bench_examples
from pto_jax.cli.options import KEEP_COMPILED
from pto_jax.examples import EXAMPLES


def test_the_looped_program_has_about_100_instructions_and_is_legal() -> None:
    program = pto.parse(bench.looped_program())
    count = sum(op.name.startswith("t") for op in program.walk())
    assert 80 <= count <= 110 and sum(op.name == "scf.for" for op in program.walk()) == 4
    assert not [d for d in pto.verify(program) if d.severity == "error"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_examples_are_measured_against_computes_the_same(name: str) -> None:
    example = EXAMPLES[name]
    given = example.arguments(1)
    by_hand = {k: np.asarray(v) for k, v in bench_examples.BY_HAND[name](given).items()}
    apart = example.differences(given, by_hand)
    assert set(apart) <= set(by_hand) and max(apart.values()) <= example.bound


def test_unknown_benchmarks_are_named(commands: Any) -> None:
    assert commands("bench", "nope") == 2
    assert "no benchmark nope; known: add_relu_convert" in commands.err


@pytest.mark.parametrize("configured", [True, False])
def test_a_configured_cache_keeps_everything(
    configured: bool, commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEEP_COMPILED, "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if configured:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "cache")
    assert commands("isa", "tadd") == 0
    assert all((name in os.environ) == configured for name in KEEP_COMPILED)
