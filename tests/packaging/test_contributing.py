"""The worked examples of CONTRIBUTING.md work as the page states."""

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.cases.comparison import compare_case
from pto_jax.cost import doc_formula, estimate
from pto_jax.devices.machines import machine
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import generate
from pto_jax.lowering.rules import RULES, jitted
from pto_jax.oracle.step import RULES as ORACLE_RULES
from pto_jax.sanitizer.step import SHADOW_RULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {section.partition("\n")[0]: section for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)}
BLOCKS = re.findall(
    r"in `([\w/]+/elementwise\.py)`.*?```python\n(.*?)```",
    SECTIONS["Add an instruction to the tree"],
    re.DOTALL,
)


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


def _block(section: str) -> str:
    (block,) = re.findall(r"```python\n(.*?)```", SECTIONS[section], re.DOTALL)
    return str(block)


def test_the_rule_rejects_a_tile_beyond_its_bound_on_its_profile() -> None:
    names = dict(vars(import_module("pto_jax.isa.elementwise")))
    exec(compile(_block("Add a verifier rule"), "elementwise.py", "exec"), names)
    declaration = isa.instructions()["tsquare"]
    changed = replace(declaration, constraints=(*declaration.constraints, names["square_columns"]))

    def rules(cols: int, profile: Literal["a2a3", "a5"]) -> list[str | None]:
        program = pto.parse(f"%d = tsquare %a : !pto.tile<1x{cols}xf32>")
        return [d.rule for d in pto.verify(program, profile=profile)]

    isa.remove("tsquare")
    isa.add(changed, isa.instructions)
    try:
        assert rules(256, "a2a3") == [] and rules(264, "a5") == []
        assert rules(264, "a2a3") == ["square-columns"]
    finally:
        isa.remove("tsquare")
        isa.add(declaration, isa.instructions)


def test_the_cost_figure_is_one_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    line = eval(f"{{{_block('Add a cost figure')}}}", vars(doc_formula))
    monkeypatch.setattr(doc_formula, "ELEMENTWISE", {**doc_formula.ELEMENTWISE, **line})
    assert str(estimate("tsquare", "f32", 16, 64)).endswith("cycles (doc_formula)")


def test_the_files_that_the_page_names_exist() -> None:
    files = set(re.findall(r"[`(]([\w./]+/[\w.]+\.(?:py|md|json|yml))[`)]", TEXT))
    assert len(files) > 15 and not [f for f in files if not (ROOT / f).is_file()]
