"""Public cases of micro-operations: every way to execute them gives the bits of the interpreter.

PTO_CORPUS names a checkout of August 2026 or later. A case is judged by its own comparison too. Cases of
threads are not executed, with an error that says so.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import Program
from pto_jax.system_tests.run import run_system_tests, system_tests

_FOLDER = Path(os.environ.get("PTO_CORPUS", "")) / "test/vpto/cases"
_PRESENT = bool(os.environ.get("PTO_CORPUS")) and _FOLDER.is_dir()
pytestmark = pytest.mark.skipif(
    not _PRESENT, reason="PTO_CORPUS does not name a PTOAS checkout of August 2026 (test/vpto/cases)"
)
_CASES = system_tests(_FOLDER) if _PRESENT else []
#: Parts of the names of cases of threads.
_NOT_EXECUTED = ("simt",)


def _bytes(array: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(array)).reshape(-1).view(np.uint8).tobytes()


def _require_equal(way: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert set(found) == set(expected), way
    wrong = [n for n, value in expected.items() if _bytes(found[n]) != _bytes(value)]
    assert not wrong, f"{way} and the interpreter differ in {', '.join(wrong)}"


def every_way(
    program: Program, entry: str, arguments: Mapping[str, Any], grid: int
) -> Mapping[str, np.ndarray]:
    """The buffers that a kernel writes, of equal bits under jit, vmap, eagerly and interpreted."""
    given = dict(arguments)
    expected = {n: np.asarray(v) for n, v in oracle.run(program, given, entry=entry, grid=grid).items()}
    kernel = pto.compile(program, entry=entry, warn=False, grid=grid)
    _require_equal("a call", kernel(**given), expected)
    with jax.enable_x64(True):
        _require_equal("jit", jax.jit(lambda values: kernel(**values))(given), expected)
    buffers = {n: v for n, v in given.items() if isinstance(v, np.ndarray) and v.ndim}
    scalars = {n: v for n, v in given.items() if n not in buffers}
    batch = {n: np.stack([v, np.roll(v, 1), v]) for n, v in buffers.items()}
    with jax.enable_x64(True):
        together = jax.jit(jax.vmap(lambda values: kernel(**values, **scalars)))(batch)
    for at in (0, 2):
        _require_equal("vmap", {n: np.asarray(v)[at] for n, v in together.items()}, expected)
    with jax.disable_jit():
        _require_equal("eager execution", kernel.eager(**given), expected)
    return expected


def _executes(name: str) -> bool:
    return not any(part in name for part in _NOT_EXECUTED)


_EXECUTED = [c for c in _CASES if _executes(c.name)]


@pytest.mark.parametrize("folder", [c.folder for c in _EXECUTED], ids=[c.name for c in _EXECUTED])
def test_every_way_to_execute_a_case_gives_equal_bits(folder: Path) -> None:
    (outcome,) = run_system_tests(folder, every_way).outcomes
    assert outcome.kind == "pass", f"{outcome.kind}: {outcome.message}"


def test_all_cases_without_threads_are_executed_and_others_are_refused_by_name() -> None:
    assert len(_EXECUTED) == 236
    for case in _CASES:
        if not _executes(case.name):
            with pytest.raises(pto.ParseError, match=r"which is not executed|unknown element type 'vector'"):
                pto.load(case.kernels)
