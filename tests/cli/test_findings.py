"""Findings of ``pto-jax verify`` in the forms of other tools, and notes on versions of the language."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main

GOOD = "%c = tadd %a, %b : !pto.tile<4x16xf32>\n"
BAD = "%c = tadd %a, %b : !pto.tile<4x16xf32>\n%d = tshr %e, %e : !pto.tile<4x16xui64>\n"


@pytest.fixture
def files(commands: Any) -> list[str]:
    texts = {"good.pto": GOOD, "bad.pto": BAD, "worse.pto": "tadd %a,"}
    return [str(commands.file(name, text)) for name, text in texts.items()]


def test_annotations_name_file_line_and_rule(commands: Any, files: list[str]) -> None:
    assert commands("verify", *files, "--profile", "a2a3", "--format", "github") == 1
    lines = commands.out.splitlines()
    assert lines and all(line.startswith("::error file=") for line in lines)
    assert lines[0].startswith("::error file=bad.pto,line=2,col=") and "title=types::tshr: " in lines[0]
    assert lines[-1].startswith("::error file=worse.pto,line=1,col=9,title=verifier::")
    assert commands("verify", files[0], "--format", "github") == 0 and commands.out == ""


def test_sarif_has_rules_and_places(commands: Any, files: list[str]) -> None:
    assert commands("verify", *files, "--profile", "a2a3", "--format", "sarif") == 1
    log = json.loads(commands.out)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first = run["results"][0]
    assert log["version"] == "2.1.0" and rules[first["ruleIndex"]] == first["ruleId"] == "types"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "bad.pto"} and place["region"]["startLine"] == 2
    assert {r["level"] for r in run["results"]} == {"error"}
    assert commands("verify", files[0], "--format", "sarif") == 0
    assert json.loads(commands.out)["runs"][0]["results"] == []


def test_json_has_location_subject_and_the_three_parts_of_the_message(
    commands: Any, files: list[str]
) -> None:
    assert commands("verify", *files, "--profile", "a2a3", "--json") == 1
    first, *_, last = json.loads(commands.out)
    assert (first["file"], first["line"], first["instruction"]) == ("bad.pto", 2, "tshr")
    assert (
        first["rule"] == "types"
        and first["allowed"].startswith("i8, u8")
        and first["got"] in first["message"]
    )
    assert "; allowed" not in first["got"] and last["line"] == 1 and last["fix"] is None
    file = str(commands.file("f8.pto", "%c = tadd %a, %b : !pto.tile<f8e4m3, 4, 32>"))
    assert commands("verify", file, "--profile", "a2a3", "--json") == 1
    (finding,) = [d for d in json.loads(commands.out) if d["rule"] == "types"]
    assert finding["fix"] == 'profile="a5"'
    assert commands("verify", files[0], "--json") == 0 and json.loads(commands.out) == []


def test_files_that_are_missing_are_told_in_every_form(commands: Any) -> None:
    for form in ("text", "github", "json", "sarif"):
        assert commands("verify", "nowhere.pto", "--format", form) == 2
        assert commands.err == "pto-jax verify: error: nowhere.pto: no such file\n"


def test_strict_rejects_warnings(commands: Any) -> None:
    text = 'module attributes {pto.target_arch = "a6"} {\nfunc.func @f(%x: !pto.ptr<f32>) {\nreturn\n}\n}'
    file = commands.file("k.pto", text)
    assert commands("verify", file) == 0 and "accepted (a2a3): 0 errors, 1 warnings" in commands.out
    assert commands("verify", file, "--strict") == 1
    assert ": error: unknown pto.target_arch" in commands.out
    assert "rejected (a2a3, strict): 1 errors, 0 warnings" in commands.out
    assert commands("verify", file, "--strict", "--portable", "--format", "github") == 1
    assert commands.out.startswith("::error ")


TEXT = """\
%z = tcvt %x : !pto.tile<f32, 1, 16> -> !pto.tile<f16, 1, 16>
%w = tcvt %x : !pto.tile<f32, 1, 16> -> !pto.tile<bf16, 1, 16>
"""
NOTE = "k.pto:1:1: note: tcvt: sat_mode is left out, which means OFF here and ON in 2026-04 and in Python"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("k.pto").write_text(TEXT)
    return "k.pto"


def test_verify_notes_the_first_and_counts_the_others(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", file, "--profile", "a5"]) == 0
    verdict, note = capsys.readouterr().out.splitlines()
    assert verdict.endswith("0 errors, 0 warnings")
    assert note == f"{NOTE}; try: sat_mode = OFF (and 1 more)"


@pytest.mark.parametrize("more", [["--language", "2026-08"], ["--profile", "a2a3"], ["--json"]])
def test_verify_is_silent_where_the_version_is_chosen_or_means_the_same(
    more: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", file, *(more if "--profile" in more else ["--profile", "a5", *more])]) == 0
    assert "note" not in capsys.readouterr().out


def test_a_module_that_names_its_version_has_no_note(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(f'module attributes {{pto.language = "2026-04"}} {{\n{TEXT}}}\n')
    assert main(["verify", file, "--profile", "a5"]) == 0
    assert "note" not in capsys.readouterr().out


def test_explain_names_them_in_python() -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f16")}, arch="a5")
    def k(x: Any, y: Any) -> None:
        t = pto.alloc_tile("f32", 1, 16)
        h = pto.alloc_tile("f16", 1, 16)
        pto.tload(t, pto.GlobalTensor(x, (1, 16)))
        pto.tcvt(h, t)
        pto.tstore(pto.GlobalTensor(y, (1, 16)), h)

    (note,) = k.explain().notes
    assert "sat_mode is left out, which means ON here and OFF in texts since 2026-08" in note
    assert k(np.full((1, 16), 1e9, np.float32), np.zeros((1, 16), np.float16))["y"][0, 0] == 65504
