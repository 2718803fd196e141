"""``pto-jax diff`` on folders and on series of dumps, and what it says of them."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pto_jax.examples import EXAMPLES
from pto_jax.failures.junit import JunitCase, junit
from pto_jax.files import read_text

TILE, VIEW = "!pto.tile_buf<vec, 4x16xf32>", "!pto.tensor_view<?x?xf32>"
WINDOW = "!pto.partition_tensor_view<4x16xf32>"
#: z = (x + y) * y, with the instructions in one line each.
LINES = {
    "head": """\
module attributes {"pto.target_arch" = "a3"} {
  func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = arith.constant 4 : index
    %c = arith.constant 16 : index
"""
    + "".join(
        f"    %v{n} = pto.make_tensor_view %{n}, shape = [%r, %c], strides = [%c, %c1] : {VIEW}\n"
        f"    %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%r, %c] : {VIEW} -> {WINDOW}\n"
        for n in "xyz"
    )
    + "".join(f"    %t{n} = pto.alloc_tile : {TILE}\n" for n in "abcd"),
    "load x": f"    pto.tload ins(%px : {WINDOW}) outs(%ta : {TILE})\n",
    "load y": f"    pto.tload ins(%py : {WINDOW}) outs(%tb : {TILE})\n",
    "add": f"    pto.tadd ins(%ta, %tb : {TILE}, {TILE}) outs(%tc : {TILE})\n",
    "mul": f"    pto.tmul ins(%tc, %tb : {TILE}, {TILE}) outs(%td : {TILE})\n",
    "store": f"    pto.tstore ins(%td : {TILE}) outs(%pz : {WINDOW})\n",
    "tail": "    return\n  }\n}\n",
}
RIGHT = "".join(LINES.values())
#: The loads in the other order, and other names.
MOVED = "".join(LINES[n] for n in ("head", "load y", "load x", "add", "mul", "store", "tail")).replace(
    "%t", "%s"
)
WRONG = RIGHT.replace("tadd", "tsub")
DROPPED = RIGHT.replace(LINES["add"], "")
ADDED = RIGHT.replace(LINES["mul"], f"    pto.tneg ins(%tc : {TILE}) outs(%tc : {TILE})\n{LINES['mul']}")
CLOSE = RIGHT.replace(
    LINES["mul"],
    f"    %k = arith.constant 1.0000001 : f32\n"
    f"    pto.tmuls ins(%tc, %k : {TILE}, f32) outs(%tc : {TILE})\n{LINES['mul']}",
)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, after in (("a", MOVED), ("b", WRONG), ("inner/c", RIGHT), ("d", DROPPED), ("e", "nonsense {")):
        for part, text in (("before", RIGHT), ("after", after)):
            file = Path(part, f"{name}.pto")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    Path("before/f.pto").write_text(RIGHT)
    Path("before/g.pto").write_text("broken before {")
    Path("after/g.pto").write_text(RIGHT)
    Path("after/h.pto").write_text(RIGHT)
    return tmp_path


def test_a_corpus_is_judged_program_by_program(commands: Any, folders: Path) -> None:
    options = ("--count", 4, "--json", "out.json", "--junit", "out.xml", "--workers", 1)
    assert commands("diff", "--corpus", "before", "after", *options) == 1
    assert "7 programs: 1 equal, 1 same, 2 different, 2 rejected, 1 skipped" in commands.out
    assert "first program that differs:\n  b.pto: different: input 0: z[" in commands.out
    assert "only after: 1 programs, h.pto first" in commands.out
    report = json.loads(Path("out.json").read_text())
    kinds = {p["name"]: p["kind"] for p in report["programs"]}
    assert kinds == {
        "a.pto": "equal",
        "b.pto": "different",
        "d.pto": "different",
        "e.pto": "rejected",
        "f.pto": "rejected",
        "g.pto": "skipped",
        "inner/c.pto": "same",
    }
    wrong = report["programs"][1]
    assert report["first"] == "b.pto" and wrong["inputs"] == 1
    assert wrong["before"] == "before/b.pto:19: tadd" and wrong["after"] == "after/b.pto:19: tsub"
    suite = ElementTree.parse("out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "4", "1")
    assert "after/b.pto:19: tsub computes something else" in str(suite[1][0].text)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (WRONG, "after.pto:19: tsub computes something else than before.pto:19: tadd"),
        (DROPPED, "before.pto:19: tadd has no counterpart after"),
        (ADDED, "after.pto:20: tneg has no counterpart before"),
        (
            RIGHT.replace("ins(%td", "ins(%tc"),
            "after.pto:21: tstore computes something else than before.pto:21: tstore",
        ),
        (
            MOVED.replace("tmul", "tsub"),
            "after.pto:20: tsub computes something else than before.pto:20: tmul",
        ),
    ],
)
def test_two_programs_part_at_an_instruction(
    commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("before.pto").write_text(RIGHT)
    Path("after.pto").write_text(text)
    assert commands("diff", "before.pto", "after.pto", "--count", 2) == 1
    assert f"\nthe programs part where {where}\n" in commands.out


def test_a_series_is_searched_for_the_first_wrong_dump(commands: Any, tmp_path: Path) -> None:
    texts = [RIGHT, MOVED, RIGHT + "\n", WRONG, WRONG.replace("%t", "%q"), WRONG]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.pto").write_text(text)
    assert commands("diff", "--series", tmp_path, "--count", 2) == 1
    first = f"first in {tmp_path / '3.pto'}, not in {tmp_path / '2.pto'}: input 0: z["
    assert first in commands.out and "3.pto:19: tsub computes something else than" in commands.out
    files = [tmp_path / f"{n}.pto" for n in range(3)]
    assert commands("diff", "--series", *files, "--count", 2) == 0
    assert "1 programs: 1 same" in commands.out


def test_a_series_of_folders_is_searched_for_each_program(commands: Any, tmp_path: Path) -> None:
    for number, (a, b) in enumerate([(RIGHT, RIGHT), (MOVED, WRONG), (DROPPED, WRONG)]):
        folder = tmp_path / f"pass{number}"
        folder.mkdir()
        (folder / "a.pto").write_text(a)
        (folder / "b.pto").write_text(b)
    assert commands("diff", "--series", tmp_path, "--count", 2) == 1
    assert f"a.pto: different: first in {tmp_path / 'pass2' / 'a.pto'}, not in" in commands.err
    assert f"b.pto: different: first in {tmp_path / 'pass1' / 'b.pto'}, not in" in commands.err


def test_results_may_be_units_in_the_last_place_apart(commands: Any, tmp_path: Path) -> None:
    before, after = tmp_path / "before.pto", tmp_path / "after.pto"
    before.write_text(RIGHT)
    after.write_text(CLOSE)
    options = ("--count", 3, "--failures", tmp_path)
    assert commands("diff", before, after, *options) == 1
    assert commands("diff", before, after, *options, "--ulp", 4) == 0
    assert commands("diff", before, after, *options, "--ulp", "z=4") == 0
    assert commands("diff", before, after, *options, "--ulp", "z=0", "--ulp", 4) == 1
    assert commands("diff", before, after, "--ulp", "z") == 2
    assert "--ulp: got z; allowed: N or NAME=N" in commands.err


def test_an_input_beside_a_program_is_tried_first(commands: Any, tmp_path: Path) -> None:
    for part, text in (("before", RIGHT), ("after", WRONG)):
        (tmp_path / part).mkdir()
        (tmp_path / part / "k.pto").write_text(text)
    zeros = np.zeros((4, 16), np.float32)
    np.savez(tmp_path / "before" / "k.npz", x=zeros, y=zeros + 1, z=zeros)
    report = tmp_path / "out.json"
    assert commands("diff", "--corpus", tmp_path / "before", tmp_path / "after", "--json", report) == 1
    (found,) = json.loads(report.read_text())["programs"]
    assert found["element"]["before"] == "0x3f800000" and found["element"]["after"] == "0xbf800000"


WRONG_USE: dict[str, tuple[tuple[str, ...], str]] = {
    "one folder": (
        ("--corpus", "before"),
        "--corpus: got one folder, or more than two; allowed: BEFORE and AFTER",
    ),
    "no folder": (("--corpus", "before", "nowhere"), "nowhere: no such folder"),
    "a file": (("--corpus", "before", "before/a.pto"), "before/a.pto: no folder"),
    "empty": (("--corpus", "empty", "after"), "empty: no .pto file in this folder"),
    "both": (("--corpus", "--series", "before", "after"), "allowed: one of them"),
    "one dump": (("--series", "before/a.pto"), "--series: got fewer than two dumps"),
    "mixed": (("--series", "before", "after/a.pto"), "files and folders"),
    "one program": (("before/a.pto",), "got one program, or more than two; allowed: two"),
    "json of two": (
        ("before/a.pto", "after/a.pto", "--json", "x"),
        "got --json with two programs; allowed: with --corpus or --series",
    ),
    "workers": (("--corpus", "before", "after", "--workers", "0"), "--workers: got 0"),
    "scalars": (
        ("--corpus", "before", "after", "--arg", "n=1"),
        "got --arg with --corpus or --series; allowed: with two programs",
    ),
    "fast": (
        ("--corpus", "before", "after", "--numerics", "fast"),
        "--numerics: got fast with --corpus or --series",
    ),
}


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use_is_one_line(commands: Any, folders: Path, name: str) -> None:
    Path("empty").mkdir()
    given, message = WRONG_USE[name]
    assert commands("diff", *given) == 2
    assert message in commands.err and len(commands.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_workers_give_the_same_verdicts(commands: Any, folders: Path) -> None:
    shutil.rmtree("after/inner")
    reports = []
    for workers in (1, 2):
        commands(
            "diff", "--corpus", "before", "after", "--count", 2, "--json", "o.json", "--workers", workers
        )
        programs = json.loads(Path("o.json").read_text())["programs"]
        reports.append([{k: v for k, v in p.items() if k != "seconds"} for p in programs])
    assert reports[0] == reports[1]


def test_junit_holds_what_xml_has_no_form_for() -> None:
    made = junit("s", [JunitCase("a\x1b<", "error", "b\x00&", 0.5, "c\ud800")])
    case = ElementTree.fromstring(made)[0][0]
    assert case.get("name") == "a?<" and case[0].get("message") == "b?&" and case[0].text == "c?"


def test_new_warnings_are_shown(commands: Any, tmp_path: Path) -> None:
    text = read_text(EXAMPLES["add_relu_convert"].path)
    (lost, *_) = [line for line in text.splitlines(keepends=True) if "pto.wait_flag" in line]
    for folder, said in (("old", text), ("new", text.replace(lost, ""))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.pto").write_text(said)
    report = tmp_path / "report.json"
    status = commands("diff", "--corpus", tmp_path / "old", tmp_path / "new", "--count", 1, "--json", report)
    assert status == 0, commands.err
    assert "k.pto: equal" in commands.err
    assert "nothing orders it after" in commands.err
    (program,) = json.loads(report.read_text())["programs"]
    assert any("nothing orders it after" in warning for warning in program["warnings"])


def test_nothing_compared_is_no_success(commands: Any, folders: Path) -> None:
    for folder in ("none", "other"):
        Path(folder).mkdir()
        Path(folder, "k.pto").write_text("nonsense {")
    assert commands("diff", "--corpus", "none", "other", "--junit", "out.xml") == 1
    assert "no program was compared" in commands.err and "1 programs: 1 skipped" in commands.out
    suite = ElementTree.parse("out.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists children there")
def test_a_comparison_that_is_ended_leaves_no_processes(folders: Path) -> None:
    for n in range(4):
        (folders / "before" / f"n{n}.pto").write_text(RIGHT)
        (folders / "after" / f"n{n}.pto").write_text(MOVED)
    command = [sys.executable, "-m", "pto_jax", "diff", "--corpus", "before", "after", "--workers", "2"]
    process = subprocess.Popen([*command, "--count", "999999"], stderr=subprocess.PIPE, text=True)
    children, until = Path(f"/proc/{process.pid}/task/{process.pid}/children"), time.monotonic() + 60
    while len(children.read_text().split()) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    process.terminate()
    try:
        # Workers would hold the stream open.
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and error.endswith("pto-jax diff: interrupted\n")
    assert "Traceback" not in error
