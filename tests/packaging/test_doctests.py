"""The examples in docstrings: of every module that has some."""

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import pto_jax

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


#: Errors that a line of an example does not raise: they need a kernel, or a compiler that loses bits.
NO_EXAMPLE = {"BuildError", "ExactnessError", "ExecutionError", "NotExecutableError"}


def public() -> Iterator[tuple[str, object]]:
    """Every public class and function, those of public modules included."""
    for name in pto_jax.__all__:
        value = getattr(pto_jax, name)
        if not isinstance(value, ModuleType):
            yield name, value
        elif name not in ("ops", "builder"):
            yield from ((f"{name}.{n}", getattr(value, n)) for n in getattr(value, "__all__", ()))


def test_every_public_class_and_function_has_an_example() -> None:
    listed = {n: v for n, v in public() if callable(v) and v.__module__.startswith("pto_jax")}
    assert len(listed) > 60
    missing = {n for n, v in listed.items() if ">>> " not in (inspect.getdoc(v) or "")}
    assert missing == NO_EXAMPLE


def test_packages_modules_and_the_lowering_are_among_them() -> None:
    assert set(modules()) >= {"pto_jax", "pto_jax.builder.control", "pto_jax.lowering.machine.ranges", *SLOW}
