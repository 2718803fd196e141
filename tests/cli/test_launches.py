"""``pto-jax run`` and ``diff`` with other numbers of blocks, and ``step`` with kernels of a folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runner.test_runner import ADDED, SCALED, STEP, arrays

NUMBERED = """\
func.func @numbers(%y: !pto.ptr<f32>) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %n = arith.constant 2.5 : f32
  %b = pto.get_block_idx
  %r = arith.index_cast %b : i64 to index
  %v = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.partition_view %v, offsets = [%r, %c0], sizes = [%c1, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  pto.texpands ins(%n : f32) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%w : !pto.partition_tensor_view<1x8xf32>)
  return
}
"""
FEW = (
    "k.pto:7:3: error: get_block_idx: 1 block (grid=1) writes 8 of the 32 elements of view %v (argument y); "
    "allowed: a grid that covers it; try: --grid 4"
)


@pytest.fixture
def file(commands: Any) -> Path:
    found: Path = commands.file("k.pto", NUMBERED)
    return found


@pytest.mark.parametrize("options", [(), ("--sanitize",), ("--trace",)], ids=str)
def test_run_says_which_grid_it_needs(commands: Any, file: Path, options: tuple[str, ...]) -> None:
    assert commands("run", file, *options) == 1
    (first, *_) = commands.err.splitlines() or commands.out.splitlines()
    assert first == FEW and "Traceback" not in commands.err


@pytest.mark.parametrize(("options", "rows"), [(("--partial-launch",), 1), (("--grid", 4), 4)], ids=str)
def test_run_executes_what_it_is_told_to(
    commands: Any, file: Path, options: tuple[Any, ...], rows: int
) -> None:
    assert commands("run", file, *options, "--outputs", "out.npz") == 0, commands.err
    found = np.load(commands.folder / "out.npz")["y"].reshape(4, 8)
    assert ((found == 2.5).all(1) == (np.arange(4) < rows)).all()


def test_diff_compares_whole_launches(commands: Any, file: Path) -> None:
    assert commands("diff", file, file, "--count", 1) == 1
    assert FEW in commands.err + commands.out
    assert commands("diff", file, file, "--count", 1, "--partial-launch") == 0, commands.err


def test_too_many_blocks_are_named_too(commands: Any, file: Path) -> None:
    assert commands("run", file, "--grid", 5) == 1
    assert "block 4 of 0 to 4 (grid=5) leaves view %v (argument y) of 4x8 elements" in commands.err


def test_a_step_is_executed_and_its_buffers_are_written(commands: Any) -> None:
    (commands.folder / "step/aiv").mkdir(parents=True)
    for name, text in (("aiv/scaled.cpp", SCALED), ("added.pto", ADDED), ("launches.json", json.dumps(STEP))):
        (commands.folder / "step" / name).write_text(text)
    np.savez(commands.folder / "in.npz", **arrays())
    options = ("--inputs", "in.npz", "--outputs", "out.npz", "--executor", "interpreter")
    assert commands("step", "step", *options) == 0
    assert "0: aiv/scaled.cpp, 2 blocks: writes h\n1: added.pto, 1 block: writes y" in commands.out
    with np.load(commands.folder / "out.npz") as out:
        assert sorted(out) == ["h", "x", "y"]
        assert out["y"][0, 0] == np.float32(256) * np.float32(0.333333343) + np.float32(0.5)
    assert commands("step", "nowhere", *options) == 2
