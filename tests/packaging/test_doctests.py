"""The examples in docstrings: of every module that has some."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Modules whose examples take seconds: they draw, compile or execute many programs.
SLOW = frozenset(
    f"pto_jax.{name}"
    for name in (
        "generate.strategies",
        "lockstep.opcodes",
        "lockstep.stream",
        "lockstep.tables",
        "nn",
    )
)


def modules() -> list[str]:
    """Names of the modules whose text has an example; those of ``lowering/`` as part of the package."""
    found = []
    for folder, package in (("pto_jax", "pto_jax"), ("lowering", "pto_jax.lowering")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>> " in path.read_text():
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                found.append(".".join((package, *(p for p in parts if p != "__init__"))))
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in modules()]
)
def test_examples(name: str) -> None:
    counted = doctest.testmod(import_module(name))
    assert counted.attempted and not counted.failed


def test_packages_modules_and_the_lowering_are_among_them() -> None:
    assert set(modules()) >= {"pto_jax", "pto_jax.builder.control", "pto_jax.lowering.machine.ranges", *SLOW}
