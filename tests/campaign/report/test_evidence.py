"""What failure folders show in a report, also those that somebody spoiled, and how a campaign grew."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.api import parse
from pto_jax.campaign.fuzz.batch import Failure
from pto_jax.campaign.report.html import growth, page
from pto_jax.campaign.report.model import (
    ARRAYS,
    Block,
    CampaignReport,
    Contents,
    evidence,
    report,
    throughput,
)
from pto_jax.campaign.report.text import text
from pto_jax.cases.shown import brief
from pto_jax.devices.exchange import program_text
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import cases
from tests.files.archives import HOSTILE

PROGRAM = "tneg %d, %a : !pto.tile<2x8xf32, valid=2x3>\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "found"
    made.mkdir()
    (made / "shrunk.pto").write_text(PROGRAM)
    told = {
        "message": "d: 1 of 6 elements differ",
        "only": "fails with profile a5, not with a2a3",
        "origin": ["k.pto", "tabs became tneg"],
    }
    (made / "report.json").write_text(json.dumps(told))
    expected = np.arange(16, dtype=np.float32).reshape(2, 8)
    expected[0, 0] = np.nan
    got = expected.copy()
    got.view(np.uint32)[0, 0] ^= 1
    # One element inside of the valid region, one outside.
    got[1, 2], got[1, 5] = 0.5, 7
    np.savez(made / "inputs.npz", a=expected, n=np.int32(3))
    valid = {"d.valid": np.array([2, 3], np.int32)}
    np.savez(made / "expected.npz", d=expected, e=expected[:1], **valid)
    np.savez(made / "got.npz", d=got, e=expected, **valid)
    return made


def test_a_folder_shows_program_inputs_and_differences(folder: Path) -> None:
    found = evidence(folder)
    assert found.program == PROGRAM and found.missing == ""
    assert found.inputs[1] == "n  int32 scalar: 3"
    assert found.inputs[0].startswith("a  float32 2x8: nan (0x7fc00000) 1 (0x3f800000)")
    assert found.message == "d: 1 of 6 elements differ"
    assert found.differences == (
        "d[1, 2]: 0.5 (0x3f000000), expected 10 (0x41200000)",
        "e: float32 (2, 8), expected float32 (1, 8)",
    )
    assert found.only.startswith("fails with profile a5") and found.origin[1] == "tabs became tneg"


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _link(file: Path, to: str = "") -> None:
    file.unlink()
    file.symlink_to(to or file.name)


def _hostile(folder: Path, name: str) -> None:
    (folder / "inputs.npz").write_bytes(HOSTILE[name][0]())


SPOILED: dict[str, Callable[[Path], object]] = {
    "no report": lambda f: (f / "report.json").unlink(),
    "no program": lambda f: (f / "shrunk.pto").unlink(),
    "long program": lambda f: (f / "shrunk.pto").write_text("x" * (1 << 17)),
    "no text": lambda f: (f / "shrunk.pto").write_bytes(b"\xff\xfe"),
    "deep report": lambda f: (f / "report.json").write_text("[" * 10_000),
    "no arrays": lambda f: (f / "inputs.npz").write_bytes(b"PK"),
    "objects": lambda f: np.savez(f / "got.npz", d=np.array([{}], object)),
    "pipe": lambda f: _pipe(f / "shrunk.pto"),
    "pipe of inputs": lambda f: _pipe(f / "inputs.npz"),
    "link to itself": lambda f: _link(f / "report.json"),
    "complex numbers": lambda f: np.savez(f / "got.npz", d=np.ones((2, 8), complex)),
    "texts": lambda f: np.savez(f / "inputs.npz", a=np.array("\x1b[2J")),
    "three bytes": lambda f: np.savez(f / "inputs.npz", a=np.zeros(3, "V3")),
    "long floats": lambda f: np.savez(f / "expected.npz", d=np.zeros(3, np.longdouble)),
    "region of texts": lambda f: np.savez(f / "expected.npz", **{"d.valid": np.array(["a", "b"])}),
    "program that is a folder": lambda f: _folder(f / "shrunk.pto"),
    "endless program": lambda f: _link(f / "shrunk.pto", "/dev/zero"),
    "report from elsewhere": lambda f: _link(f / "report.json", "/proc/self/environ"),
    "cut arrays": lambda f: (f / "got.npz").write_bytes((f / "got.npz").read_bytes()[:-30]),
    "NaN in the report": lambda f: (f / "report.json").write_text('{"only": NaN}'),
    **{f"inputs: {n}": partial(_hostile, name=n) for n in HOSTILE},
}


@pytest.mark.parametrize("region", [[np.nan, 1.0], [-5, -9], [1 << 62, 1 << 62], [[1, 2]], [True, False]])
def test_regions_that_are_none_show_differences_or_nothing(folder: Path, region: Any) -> None:
    expected = np.zeros((2, 8), np.float32)
    np.savez(folder / "expected.npz", d=expected, **{"d.valid": np.array(region)})
    found = evidence(folder)
    assert found.missing == "" and all(line.startswith("d") for line in found.differences)


def test_few_of_many_arrays_are_shown(folder: Path) -> None:
    np.savez(folder / "inputs.npz", **{f"a{n}": np.zeros(1) for n in range(200)})
    found = evidence(folder)
    assert len(found.inputs) == ARRAYS + 1 and found.inputs[-1] == f"{200 - ARRAYS} more"


@pytest.mark.variants(20)
@pytest.mark.parametrize("name", SPOILED)
def test_what_cannot_be_read_is_said(folder: Path, name: str) -> None:
    SPOILED[name](folder)
    found = evidence(folder)
    assert found.program == "" and len(found.missing.splitlines()) == 1
    assert "<p" in page(_report(str(folder)))


@pytest.mark.parametrize("told", ["[]", "3", '{"only": 3, "origin": "x"}', '{"only": null, "origin": [{}]}'])
def test_other_values_of_a_report_are_left_out(folder: Path, told: str) -> None:
    (folder / "report.json").write_text(told)
    found = evidence(folder)
    assert found.program == PROGRAM and found.only == ""


def _report(folder: str | None) -> CampaignReport:
    failure = Failure(3, "id", "different", "a5", "tneg", "wrong", "message", folder, {})
    campaign = {
        "tested": "jit", "reference": "oracle", "seed": 1,
        "bins": {"tadd|*|*|odd|*|*|*": 2, "tneg|*|*|*|*|*|loop": 1},
    }  # fmt: skip
    blocks = [
        Block(100.0, 64, 90.0, "0", 10, 1, 1),
        Block(160.0, 64, 50.0, "0", 5, 2, 0),
        Block(200.0, 64, 40.0, "0", 0, 1, 1),
    ]
    contents = Contents("s.db", campaign, blocks, failures=[failure])
    contents.coverage["tadd|f32|-|odd|row|-|straight"] = 7
    return report(contents)


def test_growth_is_the_sum_of_what_was_new() -> None:
    found = throughput([Block(10.0, 4, 5.0, "0", 3, 1, 1), Block(5.0, 4, 5.0, "0", 2)])
    assert found.growth == ((0.0, 0, 0, 0), (5.0, 2, 0, 0), (10.0, 5, 1, 1))
    svg = growth(replace(found, seconds=100.0), 1, "coverage cells")
    assert "1 min 40 s" in svg and "coverage cells: 5" in svg


def test_page_and_text_show_the_evidence_and_the_goal(folder: Path) -> None:
    made = _report(str(folder))
    html = page(made)
    for shown in ("Shrunk program", "tneg %d, %a", "Difference", "k.pto; tabs became tneg", "failures: 4"):
        assert shown in html, shown
    order = [
        html.index(f'<section id="{key}"') for key in ("failures", "goal", "never", "throughput", "growth")
    ]
    assert order == sorted(order)
    assert "goal: 1 of 2 bins reached\n  not reached: tneg control loop: 0 of 1" in text(made)
    assert made.plain()["goal"][0] == {"bin": "tadd|*|*|odd|*|*|*", "at_least": 2, "reached": 7}


def test_the_page_marks_the_instruction_and_spells_types_short(folder: Path) -> None:
    long = "v_row=2, v_col=3, blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    t = f"!pto.tile_buf<loc=vec, dtype=f32, rows=2, cols=8, {long}"
    (folder / "shrunk.pto").write_text(f"tabs %d, %a : {t}, {t}\ntneg %d, %a : {t}, {t}\n")
    html = page(_report(str(folder)))
    assert "<mark>tneg %d, %a : !pto.tile_buf&lt;vec, 2x8xf32, valid=2x3&gt;" in html
    assert html.count("<mark>") == 1


@pytest.mark.variants(1)
@pytest.mark.parametrize("preset", ["straight", "control", "memory"])
def test_short_types_say_the_same(preset: str) -> None:
    for case in cases(5, 8, PRESETS[preset]):
        program = program_text(case)
        assert parse(brief(program)) == parse(program)


def test_types_are_those_of_all_failures_of_a_cause() -> None:
    kinds = [{"types": "f16"}, {"types": "f32"}, {"types": "f16"}, {}]
    failures = [Failure(n, "id", "different", "a5", "tneg", "w", "m", None, d) for n, d in enumerate(kinds)]
    (cause,) = report(Contents("s.db", {"tested": "jit", "reference": "oracle"}, failures=failures)).causes
    assert cause.types == ("f16", "f32")
