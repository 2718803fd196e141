"""The worked example of CONTRIBUTING.md does what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.cases.comparison import compare_case
from pto_jax.devices.machines import machine
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import generate
from pto_jax.lowering.rules import RULES, jitted
from pto_jax.oracle.step import RULES as ORACLE_RULES
from pto_jax.sanitizer.step import SHADOW_RULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"in `([\w/]+/elementwise\.py)`.*?```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def tsquare() -> Iterator[None]:
    """The blocks, executed with the names of the files they belong into; afterwards nothing is left."""
    for file, block in BLOCKS:
        room = file.removesuffix("/elementwise.py").replace("/", ".").removeprefix("pto_jax.")
        names: dict[str, Any] = dict(vars(import_module(f"pto_jax.{room}.elementwise")))
        exec(compile(block, file, "exec"), names)
        if "TSQUARE" in names:
            isa.add(names["TSQUARE"], isa.instructions)
    yield
    isa.remove("tsquare")
    for table in (RULES, ORACLE_RULES, SHADOW_RULES):
        del table["tsquare"]
    jitted.cache_clear()


def test_there_is_a_block_for_every_room() -> None:
    rooms = [file.rpartition("/")[0] for file, _ in BLOCKS]
    assert rooms == ["pto_jax/isa", "lowering", "pto_jax/oracle", "pto_jax/sanitizer"]


def test_the_instruction_executes_and_machines_agree() -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(2, 32)
    np.testing.assert_array_equal(np.asarray(pto.ops.function("tsquare")(x).array), x * x)
    options = replace(PRESETS["straight"], only=frozenset({"tsquare"}), profiles=("a5",))
    case = next(c for c in (generate(1, i, options) for i in range(20)) if "tsquare" in str(c.program))
    assert compare_case(case, machine("oracle"), machine("eager")).kind == "equal"


def test_undefined_lanes_and_forbidden_types_are_reported() -> None:
    program = pto.parse("%d = tsquare %a : !pto.tile<1x8xf32>")
    t = pto.TileType("f32", 1, 8)
    report = pto.sanitize(program, {"a": pto.oracle.OracleTile(t, np.zeros((1, 8), np.float32), 1, 6)})
    assert "2 of 8 lanes" in str(report)
    wrong = pto.verify(pto.parse("%d = tsquare %a : !pto.tile<1x8xi32>"), profile="a2a3")
    assert [d.rule for d in wrong] == ["types"]
