"""The command ``step``: kernels of a folder in order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.runner.test_runner import ADDED, SCALED, STEP, arrays


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
