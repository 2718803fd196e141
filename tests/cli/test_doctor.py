"""What ``pto-jax doctor`` finds: of this installation, and of settings that break it."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import jax
import pytest

from pto_jax.cli import doctor
from pto_jax.lowering import canary
from pto_jax.testing import device_check
from tests.cli.conftest import Commands


def _found(commands: Commands, *options: str) -> tuple[int, dict[str, Any]]:
    status = commands("doctor", "--json", *options)
    record = json.loads(commands.out)
    assert record["ok"] == (status == 0)
    return status, {f["name"]: f for f in record["findings"]}


@pytest.mark.slow
def test_this_installation_is_usable(commands: Commands) -> None:
    status, found = _found(commands)
    assert status == 0, found
    assert found["jax"]["found"] == jax.__version__
    assert "cpu" in found["devices"]["found"] and found["x64"]["found"].startswith("off")
    assert "lanes equal those of the interpreter" in found["exact"]["found"]
    assert "testing" in found["extras"]["found"]


@pytest.mark.slow
def test_compiled_arithmetic_that_is_not_exact_is_named(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "failures", lambda platform: ("sums are reordered",))
    code, found = _found(commands)
    assert code == 1 and found["compiler"]["status"] == "failed"
    assert found["compiler"]["found"] == "sums are reordered on cpu"
    assert "XLA_FLAGS" in found["compiler"]["fix"]


def test_missing_and_old_packages_fail(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"": ["jax>=99", "nowhere-to-be-had>=1", "numpy>=2.0"]}
    monkeypatch.setattr(doctor, "requires", lambda name: needed[""] if name == "pto_jax" else [])
    assert commands("doctor", "--no-check") == 1
    assert f"jax:          failed: got {jax.__version__}; allowed: >=99; try: pip install" in commands.out
    assert "nowhere-to-be-had: failed: not installed" in commands.out
    assert commands.out.splitlines()[-1] == "failed: jax, nowhere-to-be-had (0 warnings)"


def test_packages_that_extras_miss_are_listed(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "pto_jax": ["numpy>=2", "jax[fast]>=0.1; extra == 'gpu'", 'pto_jax[gpu]; extra == "dev"'],
        "jax": ["plugin-to-be-had; extra == 'fast'"],
    }
    monkeypatch.setattr(doctor, "requires", lambda name: listed.get(name, []))
    monkeypatch.setattr(doctor, "_names_of_extras", lambda: ["gpu", "dev", "nothing"])
    _, found = _found(commands, "--no-check")
    for extra in ("gpu", "dev"):
        assert found[f"[{extra}]"]["found"].startswith("absent: plugin-to-be-had (pip install")
    assert found["extras"]["found"] == "nothing"


def test_a_tree_that_is_not_installed_has_no_extras(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_PACKAGE", "no_such_package")
    status, found = _found(commands, "--no-check")
    assert status == 0 and found["extras"]["found"] == "none" and "numpy" in found


def test_the_cache_folder_is_examined(commands: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "one").write_bytes(bytes(2**19))
    before = jax.config.values["jax_compilation_cache_dir"]
    try:
        _use(folder)
        assert _found(commands, "--no-check")[1]["cache"]["found"].endswith("cache: 1 files, 0.5 MiB")
        _use(folder / "one" / "no")
        status, found = _found(commands, "--no-check")
        assert status == 0 and found["cache"]["status"] == "warning"
        assert "cannot be written" in found["cache"]["found"]
    finally:
        _use(before)


def _use(folder: Path | None) -> None:
    name = str(folder) if folder else None
    jax.config.update("jax_compilation_cache_dir", name)  # type: ignore[no-untyped-call]


def test_results_that_differ_fail(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = device_check.Outcome(lanes=4, different=1, failures=["tadd: 1 of 4 lanes differ", "more"])
    monkeypatch.setattr(device_check, "quick_samples", lambda profile: iter([None]))
    monkeypatch.setattr(device_check, "check_sample", lambda *args: wrong)
    monkeypatch.setattr(device_check, "EXACTNESS", ())
    status, found = _found(commands)
    assert status == 1 and found["exact"]["found"] == "tadd: 1 of 4 lanes differ and 1 more"


def test_what_breaks_an_examination_is_a_finding(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("Unable to initialize backend 'tpu'\nmore")

    monkeypatch.setattr(jax, "devices", broken)
    status, found = _found(commands, "--no-check")
    assert status == 1
    assert found["devices"]["found"] == "RuntimeError: Unable to initialize backend 'tpu'"


def test_the_quick_samples_have_one_of_every_class() -> None:
    from pto_jax.profiles import PROFILES

    taken = list(device_check.quick_samples(PROFILES["a5"]))
    classes = {s.instruction.cls for s in taken}
    assert classes >= {"elementwise", "tile_scalar", "reduce_expand", "matrix", "layout", "irregular"}
    assert any(s.instruction.converts for s in taken) and len(taken) <= 12


def test_the_page_lists_every_extra() -> None:
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (root / "docs/tutorials/install.md").read_text().partition("| extra |")[2]
    rows = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert sorted(name for row in rows for name in re.findall(r"`([\w-]+)`", row)) == sorted(extras)


def test_what_is_no_file_in_the_cache_folder_is_named(commands: Commands, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe-cache")
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))  # type: ignore[no-untyped-call]
    try:
        _, found = _found(commands, "--no-check")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)  # type: ignore[no-untyped-call]
    assert found["cache"]["status"] == "warning" and "pipe-cache is no file" in found["cache"]["found"]
