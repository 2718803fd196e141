"""Commands that write files and pictures: the file that was there stays until the new one is complete."""

import json
from pathlib import Path

import numpy as np
import pytest

from pto_jax.files import load_arrays
from tests.cli.conftest import TILE, Commands
from tests.files.archives import HOSTILE, written
from tests.files.test_write import small_disk

GOLDEN = Path(__file__).parents[1] / "golden"
COMMANDS: dict[str, list[object]] = {
    "run --outputs": ["run", "--example", "vector_add", "--outputs", "out"],
    "run --dump-state": ["run", "--example", "vector_add", "--dump-state", "out"],
    "run --break": ["run", "--example", "vector_add", "--break", "14", "--dump-state", "out"],
    "conformance --json": ["conformance", GOLDEN / "tadd.npz", "--executor", "oracle", "--json", "out"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_the_previous_file(name: str, commands: Commands) -> None:
    commands.file("out", "before")
    with small_disk(20):
        assert commands(*COMMANDS[name]) == 2, commands.err
    assert commands.err == f"pto-jax {name.split()[0]}: error: out: cannot be written: File too large\n"
    assert [p.name for p in commands.folder.iterdir()] == ["out"]
    assert (commands.folder / "out").read_text() == "before"
    assert commands(*COMMANDS[name]) == 0, commands.err
    assert (commands.folder / "out").stat().st_size > 20


def test_a_full_disk_leaves_the_previous_cases(commands: Commands) -> None:
    emit = ("emit", "--out", "cases", "--count", "1", "--profile", "a5")
    assert commands(*emit) == 0
    (case,) = (commands.folder / "cases").iterdir()
    before = {p: p.read_bytes() for p in case.rglob("*") if p.is_file()}
    with small_disk(100):
        assert commands(*emit) == 2
    assert commands.err.count("\n") == 1 and "cannot be written" in commands.err
    assert {p: p.read_bytes() for p in case.rglob("*") if p.is_file()} == before
    assert list((commands.folder / "cases").iterdir()) == [case]


def test_a_full_disk_leaves_no_half_of_a_difference(commands: Commands, doubled: str) -> None:
    commands.file("before.pto", doubled)
    commands.file("after.pto", doubled.replace("2.0", "3.0"))
    command = ("diff", "before.pto", "after.pto", "--arg", "n=4", "--count", "1")
    with small_disk(100):
        assert commands(*command) == 2, commands.out
    assert commands.err.count("\n") == 1 and "cannot be written" in commands.err
    assert sorted(p.name for p in commands.folder.iterdir()) == ["after.pto", "before.pto"]
    assert commands(*command) == 1
    (folder,) = (p for p in commands.folder.iterdir() if p.is_dir())
    assert load_arrays(folder / "inputs.npz").keys() == {"x", "y", "n"}


@pytest.mark.parametrize("name", ["promises more than there is", "structured", "bomb", "objects"])
def test_hostile_inputs_are_one_line(name: str, commands: Commands) -> None:
    path = written(commands.folder, name)
    assert commands("run", "--example", "vector_add", "--inputs", path) == 2
    assert commands.err.count("\n") == 1 and HOSTILE[name][1] in commands.err
    assert commands("conformance", path) == 2
    assert commands.err.count("\n") == 1 and HOSTILE[name][1] in commands.err


def test_endless_files_are_one_line(commands: Commands) -> None:
    for command in ("verify", "fmt", "run"):
        assert commands(command, "/dev/zero") == 2
        assert "/dev/zero: got more than 67108864 bytes, the limit" in commands.err
    assert commands("run", "--example", "vector_add", "--inputs", "/dev/zero") == 2
    assert commands.err.count("\n") == 1 and "got a pipe or a device" in commands.err


def test_devices_take_outputs(commands: Commands) -> None:
    assert commands("run", "--example", "vector_add", "--outputs", "/dev/null") == 0, commands.err
    assert commands("run", "--example", "vector_add", "--outputs", "/dev/full") == 2
    assert commands.err == "pto-jax run: error: /dev/full: cannot be written: No space left on device\n"


def test_elements_of_other_types_of_the_same_width_are_refused(commands: Commands) -> None:
    np.savez(
        commands.folder / "in.npz", x=np.zeros(4096, "S4"), y=np.zeros(4096, "f4"), z=np.zeros(4096, "f4")
    )
    assert commands("run", "--example", "vector_add", "--inputs", "in.npz") == 2
    assert "argument 'x': got an array of |S4; allowed: an array of numbers" in commands.err


def test_run_writes_a_picture_of_each_written_buffer(commands: Commands) -> None:
    assert commands("run", "--example", "conversion_chain", "--pictures", "out/p") == 0
    assert sorted(p.name for p in (commands.folder / "out/p").iterdir()) == ["q.svg", "y.svg"]
    assert "pictures: 2 in out/p" in commands.out


def test_run_with_a_breakpoint_writes_all_tiles(commands: Commands, doubled: str) -> None:
    file = commands.file("double.pto", doubled)
    assert commands("run", file, "--break", "23", "--pictures", "p") == 0
    assert sorted(p.name for p in (commands.folder / "p").iterdir()) == ["t.svg", "u.svg", "x.svg", "y.svg"]
    assert "%t vec 4x16xf32" in (commands.folder / "p/t.svg").read_text()


def test_a_folder_that_cannot_be_made_is_one_error(commands: Commands) -> None:
    commands.file("taken", "")
    assert commands("run", "--example", "vector_add", "--pictures", "taken") == 2
    message = "taken: cannot be made: File exists; allowed: a new name, or a folder"
    assert commands.err == f"pto-jax run: error: {message}\n"


def test_verify_writes_memory_of_programs_that_do_not_fit(commands: Commands, doubled: str) -> None:
    file = commands.file("double.pto", doubled)
    assert commands("verify", file, "--memory", "m.svg") == 0
    assert "on-chip memory of @main" in (commands.folder / "m.svg").read_text()
    large = commands.file(
        "large.pto", doubled.replace(TILE, TILE.replace("4x16xf32", "512x256xf32, valid=4x16"))
    )
    assert commands("verify", large, "--memory", "l.svg") == 1
    assert 'class="over"' in (commands.folder / "l.svg").read_text()


def test_verify_names_the_rules_that_prevent_a_picture(commands: Commands, doubled: str) -> None:
    file = commands.file("wrong.pto", doubled.replace("4x16xf32>", "4x3xf32>"))
    assert commands("verify", file, "--memory", "m.svg") == 1
    assert commands.err.startswith("pto-jax verify: m.svg is not written: got errors (")
    assert not (commands.folder / "m.svg").exists()
    assert commands("verify", file, file, "--memory", "m.svg") == 2
    assert "--memory: got 2 files; allowed: one" in commands.err


def test_cost_writes_a_timeline_as_picture_and_trace(commands: Commands, doubled: str) -> None:
    file = commands.file("double.pto", doubled)
    assert commands("cost", file, "--arg", "n=2", "--timeline", "t.svg") == 0
    assert "@main on a2a3" in (commands.folder / "t.svg").read_text()
    assert commands("cost", file, "--arg", "n=2", "--timeline", "t.json") == 0
    assert json.loads((commands.folder / "t.json").read_text())["otherData"]["profile"] == "a2a3"
    assert commands("cost", file, "--timeline", "t.png") == 2
    assert "names in .svg or .json" in commands.err
