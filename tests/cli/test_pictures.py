"""Commands that write pictures."""

import json

from tests.cli.conftest import TILE, Commands


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
