"""Failure folders damaged in every file and every entry: no traceback, no execution, nothing lost."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.cli.main import main
from pto_jax.failures.folder import EXPECTED, GOT, INPUTS, ORIGINAL, ORIGINAL_INPUTS, REPORT, SHRUNK
from tests.campaign.shrink.conftest import MARKER
from tests.files.test_write import small_disk

Spoil = Callable[[Path], object]
FILES = (SHRUNK, ORIGINAL, INPUTS, ORIGINAL_INPUTS, EXPECTED, GOT, REPORT)
ENTRIES = ("id", "seed", "index", "profile", "reference", "tested", "kind", "instruction", "signature")
PARTS = ("shrunk", "original", "cause", "message", "only")
VALUES: tuple[Any, ...] = (None, -1, 1 << 70, [], {"a": {"b": [[]]}}, "\x1b[2J\n\x07")


def _linked(file: Path, to: str) -> None:
    file.unlink()
    file.symlink_to(to)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


#: What becomes of one file.
DAMAGE: dict[str, Spoil] = {
    "folder": _folder,
    "pipe": _pipe,
    "endless": partial(_linked, to="/dev/zero"),
    "link to itself": lambda f: _linked(f, f.name),
    "link to nowhere": partial(_linked, to="/nowhere"),
    "file of the system": partial(_linked, to="/etc/passwd"),
    "nothing": lambda f: f.write_bytes(b""),
    "half": lambda f: f.write_bytes(f.read_bytes()[: f.stat().st_size // 2]),
    "zeros": lambda f: f.write_bytes(bytes(100_000)),
    "no text": lambda f: f.write_bytes(b"\xff" * 1000),
}


def _entry(folder: Path, key: str, value: Any) -> None:
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps(report | {key: value}))


def _without(folder: Path, key: str) -> None:
    report = json.loads((folder / REPORT).read_text())
    (folder / REPORT).write_text(json.dumps({k: v for k, v in report.items() if k != key}))


def _program(folder: Path, text: str) -> None:
    (folder / SHRUNK).write_text(text)


def _arrays(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    with np.load(folder / name) as held:
        arrays = {k: change(v) for k, v in held.items()}
    np.savez(folder / name, **arrays)


SPOILED: dict[str, Spoil] = {
    **{f"{file}: {d}": lambda f, s=spoil, n=file: s(f / n) for file in FILES for d, spoil in DAMAGE.items()},  # type: ignore[misc]
    **{f"without {k}": partial(_without, key=k) for k in (*ENTRIES, *PARTS)},
    **{f"{k} is {v!r:.20}": partial(_entry, key=k, value=v) for k in (*ENTRIES, *PARTS) for v in VALUES},
    "many blocks": partial(_entry, key="shrunk", value={"entry": None, "grid": 1 << 40, "ulp": {}}),
    "entry of escapes": partial(_entry, key="shrunk", value={"entry": "\x1b[2J\n", "grid": 1, "ulp": {}}),
    "deep program": partial(_program, text="{" * 100_000),
    "deep attribute": partial(_program, text="module attributes {a = " + "[" * 50_000),
    "escapes in a program": partial(_program, text="\x1b]0;t\x07 nonsense \x1b[2J"),
    "long line": partial(_program, text="%" + "a" * 1_000_000 + " = ?"),
    "large tile": lambda f: _program(f, (f / SHRUNK).read_text().replace("rows=", "rows=99999999")),
    **{
        f"{name}: {what}": partial(_arrays, name=name, change=change)
        for name in (INPUTS, EXPECTED, GOT)
        for what, change in {
            "complex": lambda v: v.astype(complex),
            "texts": lambda v: np.array("x"),
            "one dimension more": lambda v: v.reshape(1, *v.shape),
            "empty": lambda v: v.reshape(-1)[:0],
        }.items()
    },
}


def _kept(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and not p.is_symlink()}


def test_there_are_hundreds() -> None:
    assert len(SPOILED) > 150


@pytest.mark.variants(0)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", SPOILED)
@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_a_spoiled_folder_is_told_in_words(
    command: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SPOILED[name](folder)
    (folder / "notes.txt").write_text("mine")
    before = _kept(folder)
    status = main([command, str(folder), *(["--calls", "3"] if command == "shrink" else [])])
    out, error = capsys.readouterr()
    assert status in (0, 1, 2)
    assert not {"\x1b", "\x07"} & set(out + error) and "Traceback" not in out + error
    assert len(error) < 10_000 and (status != 2 or error)
    assert not Path(MARKER).exists() and (folder / "notes.txt").read_text() == "mine"
    assert status != 2 or _kept(folder) == before


def test_a_failure_of_another_kind_leaves_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _kept(folder)
    broken = ["--tested", "dut:false {program} {inputs} {outputs}", "--calls", "9"]
    assert main(["shrink", str(folder), *broken]) == 1
    assert f"{folder}: different: crashed: dut:false" in capsys.readouterr().out
    assert _kept(folder) == before


@pytest.mark.parametrize("spoil", [lambda f: f.write_text("x = ="), lambda f: f.unlink()])
def test_a_damaged_folder_does_not_stop_the_others(
    spoil: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = folder.parent / "seed9-9"
    shutil.copytree(folder, other)
    spoil(folder / SHRUNK)
    tested = ["--tested", "python:tests.campaign.shrink.planted:WRONG_ADDITION"]
    assert main(["replay", "failures", *tested]) == 2
    out, error = capsys.readouterr()
    assert "reproduced: different: " in out and error.count("\n") == 1 and SHRUNK in error
    assert main(["shrink", "failures", *tested, "--calls", "3"]) == 2
    out, error = capsys.readouterr()
    assert f"failures/cause/{other.name}: smaller: " in out and error.count("\n") == 1


def test_what_others_put_into_a_folder_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "logs").mkdir()
    (folder / "logs" / REPORT).write_text("another")
    (folder / "away").symlink_to("/nowhere")
    named = ["--tested", "python:tests.campaign.shrink.planted:WRONG_ADDITION"]
    with small_disk(200):
        assert main(["shrink", str(folder), "--calls", "5", *named]) == 2
    assert "cannot be written" in capsys.readouterr().err and (folder / "notes.txt").exists()
    assert main(["shrink", str(folder), "--calls", "20", *named]) == 0
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "away").is_symlink()
    assert (folder / "logs" / REPORT).read_text() == "another"
    assert not [p for p in folder.parent.iterdir() if p != folder]
    shutil.rmtree(folder / "logs")
    assert main(["replay", str(folder), *named]) == 1
