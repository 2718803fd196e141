"""Folders of raw files with a description."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.cli.main import main
from pto_jax.errors import FileError
from pto_jax.system_tests.run import executor, run_system_tests

KERNEL = """
module attributes {pto.target_arch = "a5"} {
  func.func @scale(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>, %f: f32) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %a = pto.make_tensor_view %x, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
    %b = pto.make_tensor_view %out, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
    %p = pto.partition_view %a, offsets = [%c0, %c0], sizes = [%c1, %c8]
      : !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
    %q = pto.partition_view %b, offsets = [%c0, %c0], sizes = [%c1, %c8]
      : !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
    pto.tload ins(%p : !pto.partition_tensor_view<1x8xf32>) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    pto.tmuls ins(%t, %f : !pto.tile_buf<vec, 1x8xf32>, f32) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%q : !pto.partition_tensor_view<1x8xf32>)
    return
  }
}
"""
CASE: dict[str, Any] = {
    "program": "k.pto",
    "inputs": {"x": "x.bin", "f": 2.5},
    "expected": {"out": "golden.bin"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    case = tmp_path / "scaled"
    case.mkdir()
    x = np.arange(8, dtype=np.float32)
    x.tofile(case / "x.bin")
    (x * np.float32(2.5)).tofile(case / "golden.bin")
    (case / "k.pto").write_text(KERNEL)
    (case / "case.json").write_text(json.dumps(CASE))
    return case


def outcome(folder: Path) -> tuple[str, str]:
    (found,) = run_system_tests(folder.parent, executor("oracle")).outcomes
    return found.kind, found.message


@pytest.mark.slow
def test_a_folder_of_raw_files_passes(folder: Path) -> None:
    assert outcome(folder) == ("pass", "")
    assert main(["conformance", "--st", str(folder)]) == 0


def test_the_first_difference_is_told_and_tolerances_count(folder: Path) -> None:
    golden = np.fromfile(folder / "golden.bin", np.float32)
    golden[3] = np.nextafter(golden[3], np.float32(9))
    golden.tofile(folder / "golden.bin")
    message = "out: element 3 of 8: expected 0x40f00001, got 0x40f00000; 1 differ"
    assert outcome(folder) == ("differs", message)
    near = CASE | {"expected": {"out": {"file": "golden.bin", "rtol": 1e-6}}}
    (folder / "case.json").write_text(json.dumps([near, near | {"name": "again"}]))
    report = run_system_tests(folder.parent, executor("oracle"))
    assert [(o.case, o.kind) for o in report.outcomes] == [("scaled_0", "pass"), ("again", "pass")]
    assert len(run_system_tests(folder.parent, executor("oracle"), only="/again").outcomes) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {"x": "y.bin", "f": 1}}, "case.json: y.bin: no such file beside it"),
        ({"inputs": {"z": "x.bin"}}, "case.json: got z; allowed: the arguments of scale: x, out, f"),
        ({"entry": "other"}, "case.json: entry: got other; allowed: one of scale"),
        ({"expected": {"f": "x.bin"}}, "f is an f32, which holds no result"),
        ({"program": "gone.pto"}, "gone.pto"),
        ({"inputs": {"x": "nothing.bin", "f": 1}}, "case.json: nothing.bin: got an empty file"),
        ({"expected": {"out": "nothing.bin"}}, "case.json: nothing.bin: got an empty file; allowed: raw el"),
        ({"expected": {"out": "part.bin"}}, "case.json: part.bin: got 12 bytes for out, which has 32; allow"),
        (
            {"expected": {"x": "x.bin"}},
            "expected: got x, which scale only reads; allowed: what it writes",
        ),
    ],
)
def test_what_a_case_lacks_is_its_outcome(folder: Path, change: dict[str, object], message: str) -> None:
    (folder / "case.json").write_text(json.dumps(CASE | change))
    (folder / "nothing.bin").write_bytes(b"")
    (folder / "part.bin").write_bytes((folder / "golden.bin").read_bytes()[:12])
    kind, said = outcome(folder)
    assert kind == "script" and message in said


def test_an_integer_for_a_float_argument_is_that_number(folder: Path) -> None:
    (np.arange(8, dtype=np.float32) * 2).tofile(folder / "golden.bin")
    (folder / "case.json").write_text(json.dumps(CASE | {"inputs": {"x": "x.bin", "f": 2}}))
    assert outcome(folder) == ("pass", "")


def test_a_key_that_stands_twice_is_an_error(folder: Path) -> None:
    (folder / "case.json").write_text('{"program": "k.pto", "program": "other.pto"}')
    with pytest.raises(FileError, match=r"case\.json: not JSON: the key 'program' stands twice"):
        outcome(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([3], "got 3; allowed: an object, or a list of them"),
        (CASE | {"grid": 2}, "got grid = 2; allowed: name \\(str\\), program \\(str\\)"),
        ({"program": "k.pto"}, "got a case without program or expected"),
        (CASE | {"inputs": {"x": None}}, "input x: got None; allowed: the name of a file, or a number"),
        (CASE | {"expected": {"out": {"ulp": 1}}}, "allowed: the name of a file, or file, rtol and atol"),
        *(
            (CASE | {"expected": {"out": {"file": "a", key: limit}}}, "got the tolerances .* from 0 on")
            for key in ("rtol", "atol")
            for limit in ("b", "0.1", True, -1, None)
        ),
    ],
)
def test_wrong_descriptions_are_errors(folder: Path, content: object, message: str) -> None:
    (folder / "case.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match=message):
        outcome(folder)
