"""Stores that anyone may have written, continued: a line says what is wrong, and nothing is executed."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.fuzz.store import Store
from pto_jax.cli.main import main
from pto_jax.errors import ArgumentError

#: What a store says in place of what it should.
SAID: tuple[tuple[str, Any], ...] = (
    ("tested", "dut:touch executed {program} {inputs} {outputs}"),
    ("tested", "dut-server:touch executed"),
    ("tested", "python:executing:machine"),
    ("reference", "python:executing:machine"),
    ("tested", "nothing"),
    ("tested", "\x1b[31mred"),
    ("failures", "/etc"),
    ("failures", "../elsewhere"),
    ("failures", 7),
    ("batch", 0),
    ("batch", -1),
    ("batch", "64"),
    ("count", 0),
    ("count", 1 << 63),
    ("seed", None),
    ("profiles", ["a9"]),
    ("profiles", "a5"),
    ("presets", ["none"]),
    ("presets", {"straight": 1, "\x1b[2J": 2}),
    ("focus", {"only": "tadd"}),
    ("focus", {"nothing": []}),
    ("focus", {"only": ["tadd{}"]}),
    ("focus", []),
    ("form", "other"),
    ("lockstep", 1),
    ("opcodes", 0),
    ("span", "all"),
    ("grid", -3),
    ("entry", 3),
    ("case_timeout", "soon"),
    ("case_timeout", 1e300),
    ("dut_timeout", -1),
    ("shrink_seconds", []),
    ("shrink_calls", 1.5),
    ("programs", {"/dev/zero": "0" * 16}),
    ("programs", {"nowhere.pto": "0" * 16}),
    ("programs", 3),
    ("goal", "/dev/zero"),
    ("goal", "../goal.toml"),
    ("goal", ["goal.toml"]),
    ("mutate", "yes"),
    ("mutate", 1),
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("executing.py").write_text("import pathlib\npathlib.Path('executed').touch()\nmachine = None\n")
    known = {**Plan(tested="jit", count=4).to_json(), "generator": 4, "versions": {}, "started": 0.0}
    Store.create("s.db", known).close()
    return tmp_path / "s.db"


@pytest.mark.parametrize(("key", "value"), SAID, ids=[f"{k}-{v!r:.30}" for k, v in SAID])
def test_a_hostile_store_executes_nothing(
    store: Path, capfd: pytest.CaptureFixture[str], key: str, value: Any
) -> None:
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute("UPDATE campaign SET value = ? WHERE key = ?", (json.dumps(value), key))
    before = store.read_bytes()
    assert main(["fuzz", "--resume", "--store", str(store), "--quiet"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and len(err.strip().splitlines()) == 1 and err.startswith("pto-jax fuzz: error: ")
    assert "\x1b" not in err and len(err) < 600
    assert not Path("executed").exists() and not Path("failures").exists()
    assert store.read_bytes() == before


def test_a_plan_survives_its_store() -> None:
    plan = Plan(seed=3, presets=("straight",), profiles=("a5",), failures="f", programs=("a.pto",))
    assert Plan.of_json(json.loads(json.dumps(plan.to_json()))) == plan
    with pytest.raises(ArgumentError, match="batch is 0"):
        Plan.of_json({**plan.to_json(), "batch": 0})
