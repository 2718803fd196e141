"""``pto-jax run --sanitize``."""

from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.errors import ArgumentError

_TILE = "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8>"
_PROGRAM = f"""func.func @main(%y: !pto.partition_tensor_view<8x8xf32>) attributes {{pto.entry}} {{
  %t = pto.alloc_tile : {_TILE}
  %one = arith.constant 1.0 : f32
  FILL
  pto.tadds ins(%t, %one : {_TILE}, f32) outs(%t : {_TILE})
  pto.tstore ins(%t : {_TILE}) outs(%y : !pto.partition_tensor_view<8x8xf32>)
  return
}}
"""


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.pto"
    path.write_text(_PROGRAM.replace("FILL", ""))
    return str(path)


def test_undefined_data_is_told_with_its_place_lanes_and_origin(
    bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--sanitize", bad]) == 1
    told = capsys.readouterr().err
    assert f"{bad}:6:3: error: tstore: undefined data reaches global memory: %t (src)" in told
    assert "64 of 64 lanes, rows 0 to 7, columns 0 to 7" in told
    assert f"never written (alloc_tile at {bad}:2:3)" in told
    assert ":5:3" not in told


def test_strict_tells_every_use(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--sanitize=strict", bad]) == 1
    assert f"{bad}:5:3: error: tadds: a result depends on undefined data" in capsys.readouterr().err


def test_a_defined_program_has_the_results_of_a_plain_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "good.pto"
    path.write_text(_PROGRAM.replace("FILL", f"pto.texpands ins(%one : f32) outs(%t : {_TILE})"))
    assert main(["run", "--sanitize", str(path)]) == 0
    out = capsys.readouterr().out
    assert "y: f32[8, 8] = 2 2 2" in out and "sanitizer: no undefined data" in out


def test_a_tile_of_a_fragment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fragment.pto"
    narrow = "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=8, v_row=4>"
    path.write_text(f"%d = pto.tabs %s : ({narrow}) -> {_TILE}\n")
    assert main(["run", "--sanitize", str(path)]) == 1
    told = capsys.readouterr().err
    assert "a result of the program: %d, 32 of 64 lanes, rows 4 to 7, columns 0 to 7" in told
    assert "outside the valid region 4x8 of %s (src)" in told


@pytest.mark.parametrize(
    "more", [["--numerics", "fast"], ["--trace"], ["--dump-state", "x.npz"], ["--break", "3"]]
)
def test_options_of_the_engine_are_refused(
    more: list[str], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--sanitize", bad, *more]) == 2
    assert "with --sanitize, which the reference interpreter executes" in capsys.readouterr().err


def test_compile_names_the_sanitizer() -> None:
    with pytest.raises(ArgumentError, match="run --sanitize"):
        pto.compile(pto.parse("%d = pto.tabs %s : !pto.tile<f32, 1, 8>"), out_of_region="poison")


def test_the_report_in_python_is_the_one_the_command_prints(
    bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = pto.sanitize(pto.load(bad), {"y": np.zeros((8, 8), np.float32)})
    assert main(["run", "--sanitize", bad]) == 1
    # The verifier's warnings come first.
    assert capsys.readouterr().err.rstrip("\n").endswith(str(report))
    assert [d.span.line for d in report.diagnostics if d.span] == [6]
    good = pto.parse(_PROGRAM.replace("FILL", f"pto.texpands ins(%one : f32) outs(%t : {_TILE})"))
    assert str(pto.sanitize(good, {"y": np.zeros((8, 8), np.float32)})).startswith("sanitizer: no und")
