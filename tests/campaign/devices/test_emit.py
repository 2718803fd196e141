"""Case folders and vectors: what is in them, and that they say what was executed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pto_jax.api import load
from pto_jax.cases.expectation import expectation
from pto_jax.cases.targets import Oracle, Run, mismatch
from pto_jax.cli import main
from pto_jax.devices import conversation
from pto_jax.devices.cpp import host
from pto_jax.devices.exchange import load_outputs, result_types
from pto_jax.errors import DeviceError
from pto_jax.files import load_arrays
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.ir import BLayout, TileType
from pto_jax.vectors.cases import element_offsets
from pto_jax.vectors.conformance import run_case_oracle, run_conformance

NEG = "tneg %dst, %src : !pto.tile<2x8xf32, valid=2x5>\n"


def emit(*arguments: str) -> int:
    return main.main(["emit", *arguments])


def same(case: Case, found: Run, expected: Run) -> None:
    for name, output in expected.outputs.items():
        assert mismatch(case, name, found.outputs.get(name), output, "interpreter") is None


@pytest.mark.slow
def test_a_folder_has_the_case_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert emit("--seed", "3", "--count", "6", "--preset", "control", "--out", str(tmp_path)) == 0
    assert "6 cases in" in capsys.readouterr().out
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 6
    for index, folder in enumerate(folders):
        case = generate(3, index, PRESETS["control"])
        expected = Oracle().run(case)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["id"] == case.id and folder.name.endswith(case.id)
        assert [r["name"] for r in manifest["results"]] == list(expected.outputs)
        same(case, load_outputs(folder / "expected.npz", case), expected)
        same(case, conversation.load_outputs(folder / "expected", case, expected.outputs), expected)
        assert load(folder / "case.pto").attrs == {"pto.target_arch": case.profile.name}
        assert sorted(p.stem for p in (folder / "inputs").iterdir()) == sorted(case.inputs)
        assert not (folder / "case.cpp").exists()


def test_raw_files_have_the_order_of_memory(tmp_path: Path) -> None:
    options = replace(PRESETS["straight"], layouts=frozenset({"col"}))
    case = next(c for c in cases(1, 400, options) if _has_columns(c))
    conversation.save_inputs(tmp_path, case)
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
    expected = Oracle().run(case)
    conversation.save_outputs(tmp_path, case, expected)
    name = next(iter(expected.outputs))
    (tmp_path / f"{name}.bin").write_bytes(b"abc")
    with pytest.raises(DeviceError, match=rf"output {name}: got 3 bytes"):
        conversation.load_outputs(tmp_path, case, expected.outputs)
    (tmp_path / f"{name}.bin").unlink()
    with pytest.raises(DeviceError, match="no such file"):
        conversation.load_outputs(tmp_path, case, expected.outputs)


@pytest.mark.nightly
@pytest.mark.slow
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


MODE = "pto.sethf32mode {enable = true, mode = #pto<round_mode ROUND>}\n"
RELU = "taddreluconv %d, %a, %b : !pto.tile<16x32xi8>, !pto.tile<16x32xi16>, !pto.tile<16x32xi16>\n"


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (MODE + NEG, "cpu_sim", "sethf32mode: sets a mode that the C++ interface has no intrinsic for"),
        (RELU, "a2a3", "taddreluconv: the simulator has no such instruction"),
        (RELU, "cpu_sim", "taddreluconv: the simulator has no such instruction"),
        (
            "tcolsum %d, %a : !pto.tile<1x32xu8>, !pto.tile<16x32xu8>\n",
            "a5",
            "tcolsum: operand dst: element types (dst: u8, src: u8) are not supported on cpu_sim",
        ),
        (
            "%s = arith.constant 0 : i32\ntdivs %d, %a, %s : !pto.tile<2x8xi32>, !pto.tile<2x8xi32>, i32\n",
            "a5",
            "the CPU simulator: integer division by zero, or of the smallest number by -1, is undefined",
        ),
    ],
)
def test_what_the_simulator_lacks_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, target: str, reason: str
) -> None:
    file, other = tmp_path / "lacks.pto", tmp_path / "neg.pto"
    file.write_text(text)
    other.write_text(NEG)
    options = ["--out", str(tmp_path / "out"), "--cpp", "manual", "--profile", target]
    assert emit(str(file), *options) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("skipped 000000-")
    assert reason in shown
    assert shown.endswith(", 1 skipped\n")
    assert list((tmp_path / "out").iterdir()) == []
    assert emit(str(file), str(other), *options) == 0
    assert capsys.readouterr().out.endswith("1 cases in " + str(tmp_path / "out") + ", 1 skipped\n")


def test_without_cpp_nothing_is_skipped_for_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "relu.pto"
    file.write_text(RELU)
    assert emit(str(file), "--out", str(tmp_path / "out"), "--profile", "a2a3") == 0


@pytest.mark.nightly
@pytest.mark.slow
def test_masks_are_beside_the_results_in_both_forms(tmp_path: Path) -> None:
    assert emit("--seed", "4", "--count", "8", "--profile", "a5", "--out", str(tmp_path)) == 0
    gaps = 0
    for index, folder in enumerate(sorted(tmp_path.iterdir())):
        case = generate(4, index, replace(PRESETS["straight"], profiles=("a5",)))
        for machine, where in (("a5", folder), ("cpu_sim", folder / "cpu_sim")):
            expected = expectation(case, machine)  # type: ignore[arg-type]
            masks = load_arrays(where / "mask.npz")
            assert sorted(masks) == sorted(expected.run.outputs)
            same(case, conversation.load_outputs(where / "expected", case, masks), expected.run)
            for name, mask in masks.items():
                np.testing.assert_array_equal(mask, expected.compared[name])
                raw = np.fromfile(where / "mask" / f"{name}.bin", np.uint8)
                t, ordered = result_types(case.program)[name], mask.reshape(-1)
                if isinstance(t, TileType):
                    ordered = np.zeros(len(raw), np.bool_)
                    ordered[element_offsets(t)] = mask
                np.testing.assert_array_equal(raw, ordered)
                gaps += int((~mask).sum())
        results = json.loads((folder / "manifest.json").read_text())["results"]
        for r in results:
            left = int(np.prod(r["shape"])) - r["compared"]
            assert left == sum(g["elements"] for g in r["not_compared"])
    assert gaps > 100


def test_the_readme_says_what_is_compared_where_and_how_it_is_built(tmp_path: Path) -> None:
    file = tmp_path / "add.pto"
    file.write_text(
        "%s = arith.constant 2.0 : f32\n"
        "tadddeqrelu %d, %a, %b, %s : !pto.tile<8x16xf16, valid=8x15>, !pto.tile<8x16xi32, valid=8x15>, "
        "!pto.tile<8x16xi32, valid=8x15>, f32\n"
    )
    big = np.full((8, 16), 1 << 20, np.int32)
    np.savez(tmp_path / "in.npz", a=big, b=big, d=np.zeros((8, 16), np.float16))
    options = [str(file), "--inputs", str(tmp_path / "in.npz"), "--profile", "a5", "--cpp"]
    for mode in ("auto", "manual"):
        assert emit(*options, mode, "--out", str(tmp_path / mode)) == 0
        (folder,) = (tmp_path / mode).iterdir()
        text, source = (folder / "README.md").read_text(), (folder / "case.cpp").read_text()
        assert "expected/ and mask/ hold for: Ascend A5. 120 of 128 elements are compared." in text
        assert "- not compared: d, 8 elements: outside the valid region 8x15\n" in text
        assert "cpu_sim/expected/ and cpu_sim/mask/ hold for: CPU simulator." in text
        assert "On the CPU simulator this differs" in text
        assert "- tadddeqrelu at case.pto:3:3: 120 lanes when it is first executed\n" in text
        for line in host.lines(mode):
            assert f"\n{line}\n" in text
            assert f"\n// {line}".rstrip() + "\n" in source
        assert ("-D__CPU_SIM -D__PTO_AUTO__ " in text) == (mode == "auto")
        assert '"$PTO_ISA/include"' in text
        assert 'REFERENCE = "cpu_sim";' in source
        assert (folder / "support" / "stdfloat").read_text() == host.STDFLOAT


def test_a_case_of_the_simulator_is_compared_with_its_own_results(tmp_path: Path) -> None:
    file = tmp_path / "neg.pto"
    file.write_text(NEG)
    assert emit(str(file), "--profile", "cpu_sim", "--cpp", "auto", "--out", str(tmp_path / "out")) == 0
    (folder,) = (tmp_path / "out").iterdir()
    assert 'REFERENCE = ".";\n#else' in (folder / "case.cpp").read_text()
    assert not (folder / "cpu_sim").exists()
    assert "cpu_sim/" not in (folder / "README.md").read_text()


def test_cases_that_compare_nothing_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fresh.pto"
    file.write_text("%t = alloc_tile : !pto.tile<2x8xf32>\ntneg %d, %t : !pto.tile<2x8xf32>\n")
    assert emit(str(file), "--profile", "a5", "--out", str(tmp_path / "out")) == 0
    assert "1 of them compare nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "--count: got 0"),
        (["--preset", "nothing"], "no preset nothing; allowed: straight"),
        (["--inputs", "x.npz"], "allowed: one FILE"),
        (["no-such.pto"], "no such file"),
        (["--seed", "-1"], "0 or more"),
        (["--vectors", "v"], "got --vectors without --profile: vectors do not say theirs"),
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
