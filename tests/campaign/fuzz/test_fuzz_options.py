"""Options of the command: wrong ones are told in one line; machines and presets follow from the others."""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz import campaign
from pto_jax.campaign.fuzz.plan import (
    LOCKSTEP_ALONE,
    LOCKSTEP_BATCH,
    LOCKSTEP_OPCODES,
    Plan,
    differences,
    identity,
)
from pto_jax.campaign.fuzz.store import Store
from pto_jax.cli import fuzz as commands_fuzz, fuzz_plan
from pto_jax.cli.fuzz_plan import resumed
from pto_jax.generate.options import PRESETS


class _Seen(Exception):
    """What a campaign would have been."""

    def __init__(self, setup: campaign.Setup) -> None:
        self.setup = setup


@pytest.fixture
def setup_of(fuzz: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The campaign that options say, which is not executed."""

    def seen(setup: campaign.Setup, stream: object) -> None:
        raise _Seen(setup)

    def found(*args: object) -> campaign.Setup:
        monkeypatch.setattr(campaign, "run", seen)
        with pytest.raises(_Seen) as raised:
            fuzz(*args)
        return raised.value.setup

    return found


@pytest.mark.parametrize(
    ("options", "pair"),
    [
        ([], ("oracle", "lockstep")),
        (["--profile", "a5", "--count", "8"], ("oracle", "lockstep")),
        (["--preset", "control"], ("oracle", "eager")),
        (["--against", "oracle"], ("oracle", "eager")),
        (["--tested", "oracle"], ("oracle", "oracle:again")),
        (["--tested", "oracle:a5"], ("oracle", "oracle:a5")),
        (["--against", "oracle:a5"], ("oracle:a5", "eager")),
        (["--against", "profile:a5"], ("eager", "profile:a5")),
        (["--against", "sanitizer"], ("eager", "sanitizer")),
        (["--against", "dut:sim {program}"], ("eager", "dut:sim {program}")),
        (["--tested", "jit"], ("oracle", "jit")),
        (["--tested", "jit", "--against", "eager"], ("eager", "jit")),
        (["--dut", "sim {program}"], ("oracle", "dut:sim {program}")),
        (["--lockstep"], ("oracle", "lockstep")),
        (["--lockstep", "--against", "lockstep:grouped"], ("lockstep:grouped", "lockstep")),
    ],
)
def test_machines_follow_from_the_options(setup_of: Any, options: list[str], pair: tuple[str, str]) -> None:
    plan = setup_of(*options).plan
    assert (plan.reference, plan.tested) == pair


def test_presets_suit_the_machines(setup_of: Any) -> None:
    usual = setup_of("--tested", "eager").plan.presets
    assert "straight" in usual and "defined" not in usual and set(usual) <= set(PRESETS)
    assert setup_of("--against", "sanitizer").plan.presets == ("defined",)
    assert setup_of("--tested", "fast").plan.presets == ("straight",)
    assert setup_of("--tested", "fast", "--preset", "control").plan.presets == ("control",)


def test_programs_are_arrays_where_nothing_else_is_said(setup_of: Any) -> None:
    plain = setup_of("--seed", 3).plan
    assert plain.lockstep and plain == setup_of("--seed", 3, "--lockstep").plan
    assert (plain.presets, plain.opcodes, plain.batch) == ((), LOCKSTEP_OPCODES, LOCKSTEP_ALONE)
    digests = setup_of("--lockstep", "--against", "lockstep:grouped").plan
    assert (digests.opcodes, digests.batch) == (None, LOCKSTEP_BATCH)
    cases = setup_of("--tested", "eager").plan
    assert not cases.lockstep and (cases.opcodes, cases.batch) == (None, 64)


def test_a_folder_is_its_texts_or_where_it_has_none_its_kernels_in_cpp(setup_of: Any, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("b.cpp", "a.cce", "inner/c.cpp", "notes.txt"):
        (tmp_path / name).touch()
    names = [str(tmp_path / name) for name in ("a.cce", "b.cpp", "inner/c.cpp")]
    assert list(setup_of("--programs", tmp_path).plan.programs) == names
    (tmp_path / "k.pto").touch()
    assert list(setup_of("--programs", tmp_path).plan.programs) == [str(tmp_path / "k.pto")]


def test_stores_of_campaigns_without_small_tables_stay_theirs() -> None:
    stored = {k: v for k, v in identity(Plan()).items() if k != "opcodes"}
    assert differences(stored, identity(Plan())) == []
    assert differences(stored, identity(Plan(opcodes=20))) == ["opcodes: none, not 20"]


@pytest.mark.parametrize(
    ("platforms", "plugin", "cores", "memory", "workers"),
    [
        ("", False, 2, 1.0, 2),
        ("", False, 100, 1.0, 8),
        ("", False, 100, 1e9, 1),
        ("", True, 4, 1.0, 1),
        ("cuda", False, 4, 1.0, 1),
        ("cpu", True, 4, 1.0, 4),
    ],
)
def test_workers_follow_from_the_machine(
    monkeypatch: pytest.MonkeyPatch, platforms: str, plugin: bool, cores: int, memory: float, workers: int
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr(commands_fuzz, "entry_points", lambda group: ["cuda"] if plugin else [])
    monkeypatch.setattr(commands_fuzz, "find_spec", lambda name: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert commands_fuzz._workers(memory) == workers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "-1"], "--seed: got -1; allowed: 0 or more"),
        (["--seed", str(1 << 70)], "--seed: got 1180591620717411303424; allowed: less than 2**62"),
        (["--count", "0"], "--count: got 0; allowed: 1 or more"),
        (["--start", "-3"], "--start: got -3; allowed: 0 or more"),
        (["--workers", "0"], "--workers: got 0; allowed: 1 or more"),
        (["--batch", "-1"], "--batch: got -1; allowed: 1 or more"),
        (["--case-timeout", "0"], "--case-timeout: got 0; allowed: more than 0 seconds"),
        (["--dut-timeout", "nan"], "--dut-timeout: got nan; allowed: more than 0 seconds"),
        (["--shrink-seconds", "-1"], "--shrink-seconds: got -1.0; allowed: 0 or more"),
        (
            ["--dut-timeout", "60"],
            "got --dut-timeout with oracle and lockstep, no devices; allowed: with --dut",
        ),
        (["--exhaustive", "--dut-timeout", "3"], "got --dut-timeout with oracle and jit, no devices"),
        (["--dut", "true {program} {inputs} {outputs}", "--trust"], "got --trust without --resume"),
        (["--worker-memory", "-1"], "--worker-memory: got -1.0; allowed: 0 or more"),
        (["--max-failures", "-1"], "--max-failures: got -1; allowed: 0 or more"),
        (["--preset", "none"], "no preset none; allowed: straight"),
        (["--profile", "a7"], "got 'a7'; allowed: cpu_sim, a2a3, a5"),
        (["--tested", "eager", "--against", "eager"], "got eager twice"),
        (["--tested", "jit", "--dut", "x"], "got several executors to test: jit; dut:x; allowed: one"),
        (["--lockstep", "--tested", "jit"], "--lockstep with jit to test; allowed: lockstep"),
        (["--programs", "nothing"], "nothing: no such file or folder"),
        (["--programs", "."], ".: no .pto file in this folder"),
        (
            ["--programs", "a.pto", "--preset", "control"],
            "got --preset with --programs; allowed: with generated programs",
        ),
        (
            ["--programs", "a.pto", "--lockstep"],
            "got --lockstep with --programs; allowed: with generated programs",
        ),
        (["--entry", "f"], "got --entry without --programs; try: --programs PATH"),
        (
            ["--grid", "2", "--lockstep"],
            "got --grid with --lockstep, whose programs run on one block",
        ),
        (["--resume"], "got --resume without --store; try: --store FILE"),
        (["--store", "no/such/folder.sqlite"], "no/such/folder.sqlite: cannot be opened as a store"),
        (["--store", "text.sqlite"], "text.sqlite: exists; try: --resume, which continues it"),
        (
            ["--store", "text.sqlite", "--resume"],
            "text.sqlite: is no SQLite file",
        ),
        (["--store", "later.sqlite", "--resume"], "later.sqlite: a store of version 9; allowed: 1"),
        (["--nothing"], "got the unknown argument --nothing"),
    ],
)
def test_wrong_use_is_told(fuzz: Any, options: list[str], message: str) -> None:
    (fuzz.folder / "text.sqlite").write_text("this is text")
    if "later.sqlite" in options:
        Store.create(fuzz.folder / "later.sqlite", {}).close()
        with contextlib.closing(
            sqlite3.connect(fuzz.folder / "later.sqlite", isolation_level=None)
        ) as database:
            database.execute("UPDATE campaign SET value = '9' WHERE key = 'schema'")
    if "a.pto" in options:
        (fuzz.folder / "a.pto").write_text("")
    assert fuzz(*options) == 2
    assert message in fuzz.err and "Traceback" not in fuzz.err


@pytest.mark.slow
def test_a_machine_that_there_is_not_leaves_no_store(fuzz: Any) -> None:
    assert fuzz("--tested", "python:fuzz_machines:nothing", "--store", "s.sqlite") == 2
    assert "fuzz_machines:nothing: module 'fuzz_machines' has no attribute" in fuzz.err
    assert not list(fuzz.folder.glob("s.sqlite*"))


def test_the_command_that_continues_a_campaign_says_what_the_store_does_not_know(
    fuzz: Any, setup_of: Any
) -> None:
    given = ["--seed", "3", "--profile", "a5", "--store", "a b.sqlite", "--quiet", "--minutes", "3"]
    given += ["--dut-server", "true", "--known", "k.txt", "--failures", "/f"]
    (fuzz.folder / "k.txt").write_text("")
    words: list[str] = []
    original = fuzz_plan.plan_of

    def plan(args: Any) -> Plan:
        words.append(resumed(args))
        return original(args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzz_plan, "plan_of", plan)
        setup_of(*given)
    machine = "pto-jax fuzz --dut-server true --store 'a b.sqlite'"
    assert words == [f"{machine} --failures /f --known k.txt --quiet --resume"]


def test_a_file_is_no_folder_for_failures(fuzz: Any, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    for folder in ("kept", "kept/inner"):
        assert fuzz("--tested", "oracle", "--count", 1, "--failures", folder) == 2
        assert fuzz.err.startswith(f"pto-jax fuzz: error: --failures {folder}: ")
        assert "kept is a file; allowed: a folder; try: --failures DIR" in fuzz.err
