"""Findings of ``pto-jax verify`` in the forms of other tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
