"""Failure folders from anyone: nothing that they name is executed, and broken ones are one line."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.cli.main import main
from pto_jax.failures.folder import EXPECTED, GOT, INPUTS, REPORT, SHRUNK, About, save
from pto_jax.failures.search import Finding
from pto_jax.generate.programs import Case
from tests.campaign.shrink.conftest import MARKER
from tests.files.archives import HOSTILE


def named(folder: Path, **changes: Any) -> None:
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps(report | changes))


def marking(tmp_path: Path) -> str:
    return f'{shlex.quote(sys.executable)} -c \'open("{tmp_path}/{MARKER}", "w")\''


MACHINES: dict[str, Callable[[Path], str]] = {
    "command": lambda p: f"dut:{marking(p)} {{program}} {{inputs}} {{outputs}}",
    "module": lambda p: "python:hostile:WRONG_ADDITION",
}


@pytest.mark.parametrize("role", ["tested", "reference"])
@pytest.mark.parametrize("kind", MACHINES)
def test_what_only_the_folder_names_is_not_executed(
    kind: str, role: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = MACHINES[kind](tmp_path)
    named(folder, **{"reference": "oracle", "tested": "oracle", role: machine})
    for path in (folder, folder.parent.parent):
        assert main(["replay", str(path)]) == 2
        out, error = capsys.readouterr()
        assert error.count("\n") == 1 and f"not executed: {machine}; allow it with --trust, or name" in error
        # The results that the folder keeps stand for the machine.
        assert f"recorded results of {machine}" in out
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("kind", MACHINES)
def test_it_is_executed_where_the_user_says_so(
    kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = MACHINES[kind](tmp_path)
    named(folder, tested=machine)
    for more in (["--trust"], ["--tested", machine]):
        assert main(["replay", str(folder), *more]) == 1
        assert (tmp_path / MARKER).exists() and "not executed" not in capsys.readouterr().err
        (tmp_path / MARKER).unlink()
        sys.modules.pop("hostile", None)


def test_naming_one_machine_does_not_trust_the_other(folder: Path, tmp_path: Path) -> None:
    machine = MACHINES["module"](tmp_path)
    named(folder, reference=machine, tested=machine)
    assert main(["replay", str(folder), "--tested", "oracle"]) == 2
    assert not (tmp_path / MARKER).exists()
    assert main(["replay", str(folder), "--tested", "oracle", "--against", "oracle"]) == 0


def test_recorded_results_are_compared_with_the_other_machine(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named(folder, tested=MACHINES["module"](tmp_path))
    assert main(["replay", str(folder)]) == 2
    assert "different: " in capsys.readouterr().out
    (folder / GOT).write_bytes((folder / EXPECTED).read_bytes())
    assert main(["replay", str(folder)]) == 2
    assert "does not show any more: equal" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--original"], []])
def test_without_recorded_results_nothing_is_executed(
    more: list[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named(folder, tested=MACHINES["module"](tmp_path))
    if not more:
        (folder / GOT).unlink()
    assert main(["replay", str(folder), *more]) == 2
    assert "not executed\n" in capsys.readouterr().out and not (tmp_path / MARKER).exists()


def test_names_with_line_feeds_and_escapes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named(folder, tested="dut:sim\n\x1b[2Jall is well", id="1\x1b]0;title\x07")
    assert main(["replay", str(folder)]) == 2
    out, error = capsys.readouterr()
    assert "\x1b" not in out + error and error.count("\n") == 1 and "sim\\n\\x1b[2Jall is well" in error


def _report(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / REPORT).write_text(text)


def _entry(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: named(folder, **changes)


def _pipe(name: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def _inputs(change: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        with np.load(folder / INPUTS) as held:
            arrays = {name: change(array) for name, array in held.items()}
        np.savez(folder / INPUTS, **arrays)

    return spoil


def _structured(array: np.ndarray[Any, Any]) -> Any:
    return array.view([("a", f"u{array.dtype.itemsize}")])


def _spelled(array: np.ndarray[Any, Any]) -> Any:
    return np.zeros(array.shape, f"S{array.dtype.itemsize}")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "deep report": (_report("[" * 100_000), "nested more than 64 levels"),
    "deep entry": (_report('{"id": ' + "[" * 500 + "]" * 500 + "}"), "nested more than 64 levels"),
    "half a pair": (_entry(profile="\udc80"), "profile: got '\\udc80'; allowed"),
    "no number": (_report('{"seed": NaN}'), "NaN is no JSON number"),
    "truth for a number": (_entry(seed=True), "seed: got True; allowed: int"),
    "no blocks": (_entry(shrunk={"entry": None, "grid": True, "ulp": {}}), "grid (1 or more)"),
    "negative bound": (_entry(shrunk={"entry": None, "grid": 1, "ulp": {"x": -1}}), "ulp (numbers"),
    "long value": (_entry(kind=["x" * 10_000]), "...; allowed: str"),
    "unknown machine": (_entry(tested="\x1b[2J"), "executor \\x1b[2J: unknown"),
    "machine of two lines": (_entry(tested="jit\n\x1b[2J"), "executor jit\\n\\x1b[2J: unknown"),
    "pipe for a report": (_pipe(REPORT), "got a pipe or a device"),
    "pipe for a program": (_pipe(SHRUNK), "got a pipe or a device"),
    "pipe for inputs": (_pipe(INPUTS), "got a pipe or a device"),
    "structured inputs": (_inputs(_structured), "structured type"),
    "text inputs": (_inputs(_spelled), "or its words as"),
    "bomb": (lambda f: (f / INPUTS).write_bytes(HOSTILE["bomb"][0]()), "unpacks to"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_hostile_folder_is_one_line(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, message = BROKEN[name]
    spoil(folder)
    assert main(["replay", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pto-jax replay: error: ") and message in error and error.count("\n") == 1, error


def test_a_full_disk_leaves_the_folder_that_was_there(failed: Path, tmp_path: Path) -> None:
    from pto_jax.errors import FileError
    from pto_jax.generate.programs import generate
    from tests.files.test_write import small_disk

    case: Case = replace(generate(3, 0), seed=6, index=1)
    finding = Finding(compare_case(case, Oracle(), Oracle()))
    final = save(tmp_path, case, finding, About("", "why", "oracle", "oracle"))
    before = {p.name: p.read_bytes() for p in final.iterdir()}
    with small_disk(200), pytest.raises(FileError):
        save(tmp_path, case, finding, About("", "why", "oracle", "eager"))
    assert {p.name: p.read_bytes() for p in final.iterdir()} == before
    assert [p.name for p in final.parent.iterdir()] == [final.name]
