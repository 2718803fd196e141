"""Case folders and vectors: what is in them, and that they say what was executed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pto_jax import cli
from pto_jax.api import load
from pto_jax.campaign.devices import binary
from pto_jax.campaign.devices.exchange import load_outputs
from pto_jax.campaign.results import Run, mismatch
from pto_jax.campaign.targets import Oracle
from pto_jax.errors import DeviceError
from pto_jax.files import load_arrays
from pto_jax.testing.conformance import run_conformance
from pto_jax.testing.execute import run_case_oracle
from pto_jax.testing.generate import Case, cases, generate
from pto_jax.testing.generate_options import PRESETS
from pto_jax.types import BLayout, TileType

NEG = "tneg %dst, %src : !pto.tile<2x8xf32, valid=2x5>\n"


def emit(*arguments: str) -> int:
    return cli.main(["emit", *arguments])


def same(case: Case, found: Run, wanted: Run) -> None:
    for name, output in wanted.outputs.items():
        assert mismatch(case, name, found.outputs.get(name), output, "interpreter") is None


def test_a_folder_has_the_case_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emit("--seed", "3", "--count", "6", "--preset", "control", "--out", str(tmp_path)) == 0
    assert "6 cases in" in capsys.readouterr().out
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 6
    for index, folder in enumerate(folders):
        case = generate(3, index, PRESETS["control"])
        wanted = Oracle().run(case)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["id"] == case.id and folder.name.endswith(case.id)
        assert [r["name"] for r in manifest["results"]] == list(wanted.outputs)
        same(case, load_outputs(folder / "expected.npz", case), wanted)
        same(case, binary.load_outputs(folder / "expected", case, wanted.outputs), wanted)
        assert load(folder / "case.pto").attrs == {"pto.target_arch": case.profile.name}
        assert sorted(p.stem for p in (folder / "inputs").iterdir()) == sorted(case.inputs)
        assert not (folder / "case.cpp").exists()


def test_raw_files_have_the_order_of_memory(tmp_path: Path) -> None:
    case = next(c for c in cases(1, 400, PRESETS["straight"]) if _has_columns(c))
    binary.save_inputs(tmp_path, case)
    name, i = next((n, i) for n, i in case.inputs.items() if _columns(i.type))
    raw = np.frombuffer((tmp_path / f"{name}.bin").read_bytes(), i.words.dtype)
    np.testing.assert_array_equal(raw, i.words.T.reshape(-1))
    scalar = next(n for n, i in case.inputs.items() if i.words.shape == ())
    assert len((tmp_path / f"{scalar}.bin").read_bytes()) == case.inputs[scalar].words.itemsize


def _has_columns(case: Case) -> bool:
    inputs = case.inputs.values()
    return any(_columns(i.type) for i in inputs) and any(i.words.shape == () for i in inputs)


def _columns(t: object) -> bool:
    return isinstance(t, TileType) and t.blayout == BLayout.COL_MAJOR and not t.boxed and t.cols > 1


def test_raw_results_of_another_size_are_no_results(tmp_path: Path) -> None:
    case = generate(3, 0)
    wanted = Oracle().run(case)
    binary.save_outputs(tmp_path, case, wanted)
    name = next(iter(wanted.outputs))
    (tmp_path / f"{name}.bin").write_bytes(b"abc")
    with pytest.raises(DeviceError, match=rf"output {name}: found 3 bytes"):
        binary.load_outputs(tmp_path, case, wanted.outputs)
    (tmp_path / f"{name}.bin").unlink()
    with pytest.raises(DeviceError, match="no such file"):
        binary.load_outputs(tmp_path, case, wanted.outputs)


def test_vectors_of_generated_programs_conform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--out", str(tmp_path / "cases"), "--vectors", str(tmp_path / "vectors")]
    assert emit("--count", "24", "--profile", "cpu_sim", *folders) == 0
    assert " vectors of " in capsys.readouterr().out
    vectors = tmp_path / "vectors"
    report = run_conformance([vectors], lambda case: run_case_oracle(case, "cpu_sim"), {})
    assert report.ok, report.summary()
    assert "0 fail" in report.summary()
    manifests = [json.loads(str(load_arrays(f)["manifest"][()])) for f in vectors.iterdir()]
    assert len(manifests) > 40
    assert any(o["role"] == "gm" for entries in manifests for e in entries for o in e["operands"])


def test_a_vector_that_lies_fails(tmp_path: Path) -> None:
    folders = ["--out", str(tmp_path / "cases"), "--vectors", str(tmp_path)]
    file = tmp_path / "neg.pto"
    file.write_text(NEG)
    assert emit(str(file), "--profile", "cpu_sim", *folders) == 0
    arrays = load_arrays(tmp_path / "tneg.npz")
    key = next(k for k in arrays if k.endswith("dst/after"))
    changed = arrays[key].copy()
    changed[3] ^= 0x80
    np.savez(tmp_path / "tneg.npz", **{**arrays, key: changed})  # type: ignore[arg-type]
    assert not run_conformance([tmp_path / "tneg.npz"], lambda c: run_case_oracle(c, "cpu_sim"), {}).ok


def test_a_file_with_inputs(tmp_path: Path) -> None:
    file, given = tmp_path / "neg.pto", tmp_path / "in.npz"
    file.write_text(NEG)
    src = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.savez(given, src=src, dst=np.zeros((2, 8), np.float32))
    out = tmp_path / "out"
    assert emit(str(file), "--inputs", str(given), "--out", str(out), "--profile", "a5", "--cpp", "auto") == 0
    (folder,) = out.iterdir()
    found = np.fromfile(folder / "expected" / "dst.bin", np.float32).reshape(2, 8)
    np.testing.assert_array_equal(found[:, :5], -src[:, :5])
    assert not found[:, 5:].any()
    assert np.fromfile(folder / "expected" / "dst.valid.bin", "<i4").tolist() == [2, 5]
    assert "TNEG(dst, src);" in (folder / "case.cpp").read_text()
    assert "case.cpp" in (folder / "README.md").read_text()


def test_cases_that_cpp_has_no_words_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mode.pto"
    file.write_text("pto.sethf32mode {enable = true, mode = #pto<round_mode ROUND>}\n" + NEG)
    assert emit(str(file), "--out", str(tmp_path / "out"), "--cpp", "manual", "--profile", "cpu_sim") == 1
    shown = capsys.readouterr().out
    assert "1 cases not written" in shown
    assert f"{file}:1:1: error: sethf32mode" in shown
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "--count is 0"),
        (["--preset", "nothing"], "no preset nothing; allowed: straight"),
        (["--inputs", "x.npz"], "belongs to exactly one FILE"),
        (["no-such.pto"], "no such file"),
        (["--seed", "-1"], "0 or more"),
    ],
)
def test_wrong_use_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert emit(*arguments, "--out", str(tmp_path / "out")) == 2
    assert message in capsys.readouterr().err


def test_presets_are_taken_in_turn(tmp_path: Path) -> None:
    assert emit("--count", "2", "--preset", "straight", "--preset", "aliases", "--out", str(tmp_path)) == 0
    second = sorted(tmp_path.iterdir())[1]
    case = generate(0, 1, replace(PRESETS["aliases"]))
    assert [f.body for f in load(second / "case.pto").functions] == [f.body for f in case.program.functions]
