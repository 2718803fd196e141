"""``pto-jax run --trace``, ``--break``, ``--grid`` and ``--max-steps``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.runtime.debug.tracer import Breakpoint, Stopped, Tracer

X = np.arange(256, dtype=np.float32)


@pytest.fixture
def kernel_file(commands: Any, doubled: str) -> tuple[Path, Path]:
    np.savez(commands.folder / "in.npz", x=X, y=0 * X, n=np.asarray(3))
    return commands.file("k.pto", doubled), Path("in.npz")


def test_a_trace_says_what_every_instruction_read_and_wrote(
    commands: Any, kernel_file: tuple[Path, Path]
) -> None:
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, "--trace") == 0, commands.err
    lines = commands.out.splitlines()
    executed = [line.split()[:3] for line in lines if line.startswith("[")]
    trip = [["k.pto:22", "tload"], ["k.pto:5", "tmuls"], ["k.pto:24", "tstore"]]
    assert [e[1:] for e in executed[2:]] == trip * 3
    at = lines.index("[7] k.pto:5 tmuls")
    assert lines[at + 1 : at + 4] == [
        "      src %t  vec 4x16xf32  valid 4x16  min 64 max 127 nan 0",
        "      scalar %two  2 f32",
        "      dst %u  vec 4x16xf32  valid 4x16  min 128 max 254 nan 0",
    ]
    assert "      dst %yp  y[4x16 at 128, strides 16x1] f32" in lines
    assert "y: f32[256] = 0 2 4 6 8 10 ...  min 0 max 382  nan 0  changed 191 of 256" in lines


def test_a_printed_trace_of_python_is_the_text_of_the_command(
    commands: Any, kernel_file: tuple[Path, Path], doubled: str
) -> None:
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, "--trace") == 0, commands.err
    trace = pto.compile(pto.parse(doubled, file="k.pto")).trace(X, 0 * X, 3)
    assert commands.out.startswith(f"{trace}\nprogram:")


def test_a_micro_trace_has_the_register_file_operations_of_each_lane(
    commands: Any, kernel_file: tuple[Path, Path]
) -> None:
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, "--trace=micro", "--trace-lanes", 2) == 0
    lines = [line.strip() for line in commands.out.splitlines()]
    at = lines.index("SCALAR(scalar) -> B = 2")
    assert lines[at + 1 : at + 8] == [
        "TRF_READ(src, 0, 0) -> A = 0",
        "A * B -> C",
        "TRF_WRITE(dst, 0, 0, C) = 0",
        "TRF_READ(src, 0, 1) -> A = 1",
        "A * B -> C",
        "TRF_WRITE(dst, 0, 1, C) = 2",
        "... 62 more lanes",
    ]
    assert any(line.startswith("not lane-wise, as a whole: reads src, writes dst") for line in lines)


@pytest.mark.parametrize(
    ("profile", "read"), [("a2a3", "nan (all ones, outside the valid region)"), ("cpu_sim", "2 (outside")]
)
def test_lanes_outside_a_source_read_as_the_profile_says(profile: str, read: str) -> None:
    kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<...>", file="add.pto"), profile=profile)
    ones = np.ones((2, 8), np.float32)
    lines: list[str] = []
    kernel.observed(Tracer(lines.append, detail="micro", lanes=16), ones, pto.tile(2 * ones, valid=(1, 3)))
    assert "        TRF_READ(src1, 0, 2) -> B = 2" in lines
    assert any(f"TRF_READ(src1, 0, 3) -> B = {read}" in line for line in lines)
    assert lines.count("        A + B -> C") == 16


def test_a_trace_is_limited(commands: Any, kernel_file: tuple[Path, Path]) -> None:
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, "--trace", "--trace-limit", 8) == 0
    assert "... 7 more instructions; only 8 lines are shown" in commands.out
    assert commands.out.index("only 8") < commands.out.index("program:")


def test_blocks_and_cores_are_named() -> None:
    program = pto.load(EXAMPLES["vector_add"].path)
    lines: list[str] = []
    zeros = np.zeros(4096, np.float32)
    pto.compile(program, grid=2).observed(Tracer(lines.append), zeros, zeros, zeros)
    blocks = [line.split()[2:4] for line in lines if line.startswith("[") and line.endswith("tadd")]
    assert blocks == [["block", "0"], ["block", "1"]]


def test_a_break_saves_everything_that_is_alive(commands: Any, kernel_file: tuple[Path, Path]) -> None:
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, "--break", "5:2") == 0, commands.err
    stopped = (
        "stopped before k.pto:5 tmuls, reached 2 times; 4 tiles, 8 scalars, 2 buffers are in k-line5.npz\n"
    )
    assert commands.out == stopped
    with np.load("k-line5.npz") as state:
        # The second window is loaded; the second product is not there yet.
        np.testing.assert_array_equal(state["tile/t"].reshape(-1), X[64:128])
        np.testing.assert_array_equal(state["tile/main/u"].reshape(-1), 2 * X[:64])
        np.testing.assert_array_equal(state["tile/t/valid"], [4, 16])
        np.testing.assert_array_equal(state["buffer/y"][:128], np.r_[2 * X[:64], 0 * X[:64]])
        assert state["scalar/main/i"] == 1 and state["scalar/two"] == 2.0


def test_a_break_may_name_the_file_and_where_the_state_goes(
    commands: Any, kernel_file: tuple[Path, Path]
) -> None:
    file, inputs = kernel_file
    run = ("run", file, "--inputs", inputs, "--break", "k.pto:24", "--dump-state", "out.npz", "--trace")
    assert commands(*run) == 0, commands.err
    assert "stopped before k.pto:24 tstore;" in commands.out and Path("out.npz").exists()
    assert commands.out.count("tstore") == 1 and "program:" not in commands.out


WRONG: dict[str, tuple[tuple[object, ...], str]] = {
    "no operation": (
        ("--break", 4),
        "no operation begins on line 4 of k.pto; allowed: nearby 3 (arith.constant), 5",
    ),
    "beyond the end": (("--break", 99), "allowed: nearby 20 (partition_view)"),
    "not a line": (("--break", "x"), "allowed: LINE, LINE:COUNT, FILE:LINE or FILE:LINE:COUNT"),
    "never": (("--break", "5:0"), "allowed: LINE"),
    "other file": (("--break", "other.pto:5"), "got the file other.pto; allowed: k.pto"),
    "too few": (("--break", "5:9"), "the program ended; it reached that line 3 times"),
    "no lines": (("--trace", "--trace-limit", 0), "--trace-limit: got 0; allowed: 1 or more"),
    "no lanes": (("--trace", "--trace-lanes", -1), "--trace-lanes: got -1; allowed: 1 or more"),
    "unknown detail": (("--trace=all",), "got 'all'; allowed: instructions, micro"),
    "no blocks": (("--grid", 0), "grid: got 0; allowed: a positive number"),
    "no steps": (("--max-steps", 0), "max_steps: got 0; allowed: a positive number"),
    "no number": (("--grid", "two"), "got 'two'; allowed: an integer"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_one_clear_line(name: str, commands: Any, kernel_file: tuple[Path, Path]) -> None:
    args, message = WRONG[name]
    file, inputs = kernel_file
    assert commands("run", file, "--inputs", inputs, *args) == 2
    assert message in commands.err and "Traceback" not in commands.err
    assert commands.err.rstrip().splitlines()[-1].startswith("pto-jax run: error: ")


def test_breakpoints_and_tracers_are_a_library(doubled: str) -> None:
    program = pto.parse(doubled, file="k.pto")
    kernel = pto.compile(program)
    with pytest.raises(Stopped, match=r"stopped before k\.pto:23 call") as caught:
        kernel.observed(Breakpoint.named(program, "23"), X, 0 * X, 4)
    assert sorted(caught.value.state.tiles) == ["t", "u"]


WHILE = """\
func.func @f(%x: !pto.ptr<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %end = scf.while (%i = %c0) : (index) -> index {
    %more = arith.cmpi slt, %i, %n : index
    scf.condition(%more) %i : index
  } do {
  ^bb0(%i: index):
    %next = arith.addi %i, %c1 : index
    scf.yield %next : index
  }
  pto.store_scalar %zero, %x[%c0] : !pto.ptr<f32>, f32
  return
}
"""


@pytest.mark.parametrize("watching", [(), ("--trace",)])
def test_a_loop_that_does_not_end_is_stopped(watching: tuple[str, ...], commands: Any) -> None:
    file = commands.file("w.pto", WHILE)
    np.savez(commands.folder / "in.npz", x=X, n=np.asarray(50))
    assert commands("run", file, "--inputs", "in.npz", "--max-steps", 40, *watching) == 1
    assert "w.pto:5:" in commands.err and "40" in commands.err and "Traceback" not in commands.err
    assert commands("run", file, "--inputs", "in.npz", "--max-steps", 60, *watching) == 0, commands.err
