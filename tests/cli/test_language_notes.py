"""``verify`` and ``explain`` name attributes that another version of the language reads otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main

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
