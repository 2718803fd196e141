"""The commands end to end, in this process and once as a program of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.api import resolve_profile
from pto_jax.cli.main import main
from pto_jax.examples import EXAMPLES, ON_RANKS, example

GOLDEN = Path(__file__).parents[1] / "golden"
TILE = "!pto.tile_buf<vec, 16x16xf32>"
ADD = f"pto.tadd ins(%a, %b : {TILE}, {TILE}) outs(%c : {TILE})"
BAD_ADD = f"pto.tadd ins(%a, %b : {TILE}, !pto.tile_buf<vec, 16x16xf16>) outs(%c : {TILE})"


class Shell:
    """Runs commands and keeps what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys = capsys
        self.folder = folder
        self.out = self.err = ""

    def __call__(self, *args: object) -> int:
        status = main([str(a) for a in args])
        self.out, self.err = self.capsys.readouterr()
        return status

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def npz(self, **arrays: Any) -> Path:
        np.savez(self.folder / "in.npz", **arrays)
        return self.folder / "in.npz"


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(capsys, tmp_path)


def add_inputs() -> dict[str, Any]:
    x, y = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    return {"x": x, "y": y, "z": np.zeros(4096, np.float32)}


@pytest.mark.parametrize("name", ["vector_add", "masked_tile"])
def test_examples_run_without_any_input(name: str, shell: Shell) -> None:
    assert shell("run", "--example", name) == 0, shell.err
    assert f"program: {example(name).summary}" in shell.out
    assert "generated, seed 0" in shell.out and "  nan 0" in shell.out


def test_inputs_go_in_and_written_buffers_come_out(shell: Shell) -> None:
    out = shell.folder / "out"
    inputs = shell.npz(arg0=add_inputs()["x"], y=add_inputs()["y"], arg2=add_inputs()["z"])
    assert shell("run", example("vector_add").path, "--inputs", inputs, "--outputs", out) == 0, shell.err
    with np.load(out) as written:
        assert written.files == ["arg2"]
        np.testing.assert_array_equal(written["arg2"], np.arange(1, 4097, dtype=np.float32))
    assert "arg2: f32[4096] = 1 2 3 4 5 6 ...  min 1 max 4096  nan 0" in shell.out


def test_the_final_state_can_be_dumped(shell: Shell) -> None:
    state = shell.folder / "state.npz"
    inputs = shell.npz(**add_inputs())
    run = ("run", "--example", "vector_add", "--inputs", inputs, "--dump-state", state)
    assert shell(*run) == 0, shell.err
    with np.load(state) as held:
        tile = held["tile/z_tile"]
    np.testing.assert_array_equal(tile.reshape(-1), np.arange(1, 4097, dtype=np.float32))


def test_fast_numerics_and_profiles_are_options(shell: Shell) -> None:
    run = ("run", "--example", "add_relu_convert", "--numerics", "fast", "--profile", "a5", "--seed", "3")
    assert shell(*run) == 0, shell.err
    assert "profile: a5 (Ascend A5), numerics fast" in shell.out and "seed 3" in shell.out


def test_a_run_time_rule_is_an_error_with_its_place(shell: Shell) -> None:
    buffers = {"x": np.zeros(3200, np.float32), "y": np.zeros(3200, np.float32)}
    inputs = shell.npz(**buffers, rows=np.asarray(33), cols=np.asarray(10))
    assert shell("run", "--example", "masked_tile", "--inputs", inputs) == 1
    assert "masked_tile.pto:" in shell.err and "error: " in shell.err


def test_verify_says_what_is_wrong_and_where(shell: Shell) -> None:
    good, bad = shell.file("good.pto", ADD), shell.file("bad.pto", BAD_ADD)
    assert shell("verify", good) == 0 and "good.pto: accepted (a2a3): 0 errors" in shell.out
    assert shell("verify", good, bad) == 1
    assert f"{bad}:1:" in shell.out and "error: tadd: " in shell.out and "^" in shell.out
    assert f"{bad}: rejected (a2a3)" in shell.out
    assert shell("verify", "--portable", example("vector_add").path) == 0, shell.out


@pytest.mark.parametrize("form", ["as", "ssa", "dps"])
def test_fmt_prints_the_same_program_in_another_spelling(form: str, shell: Shell) -> None:
    path = example("masked_tile").path
    assert shell("fmt", path, "--form", form) == 0, shell.err
    assert pto.parse(shell.out) == pto.load(path)


@pytest.mark.parametrize("name", [*EXAMPLES, *ON_RANKS])
def test_fmt_writes_an_example_as_its_author_did(name: str, shell: Shell) -> None:
    assert shell("fmt", "--example", name) == 0, shell.err
    text, program = shell.out, pto.load(example(name).path)
    assert pto.parse(text) == program
    profile = resolve_profile(program, None).name
    findings = [(d.rule, d.severity) for d in pto.verify(pto.parse(text), profile)]
    assert findings == [(d.rule, d.severity) for d in pto.verify(program, profile)]


@pytest.mark.slow
def test_conformance_prints_a_table_and_writes_json(shell: Shell) -> None:
    report = shell.folder / "report.json"
    assert shell("conformance", GOLDEN / "tadd.npz", "--json", report) == 0, shell.out
    assert shell.out.splitlines()[0].split()[:3] == ["instruction", "cases", "pass"]
    data = json.loads(report.read_text())
    assert data["ok"] and data["profile"] == "cpu_sim" and data["totals"]["fail"] == 0


def test_conformance_fails_on_one_wrong_byte(shell: Shell) -> None:
    with np.load(GOLDEN / "tabs.npz") as held:
        arrays = dict(held)
    arrays["tabs_000/dst/after"] = arrays["tabs_000/dst/after"].copy()
    arrays["tabs_000/dst/after"][0] ^= 1
    np.savez(shell.folder / "tabs.npz", **arrays)
    assert shell("conformance", shell.folder) == 1
    assert "FAIL " in shell.out and "tabs_000 f32_full: 1 of 128 elements differ" in shell.out


def test_isa_prints_the_matrix_and_one_page(shell: Shell) -> None:
    assert shell("isa") == 0 and "tadd" in shell.out and "taddreluconv" in shell.out
    assert shell("isa", "TADD") == 0 and shell.out.startswith("tadd: ") and "a2a3: f32 " in shell.out
    assert shell("isa", "pto.tcvt", "--json") == 0
    record = json.loads(shell.out)
    assert record["name"] == "tcvt" and {a["name"] for a in record["attributes"]} == {"rmode", "sat_mode"}
    assert shell("isa", "--json") == 0 and len(json.loads(shell.out)) > 57
    assert shell("isa", "tad") == 2 and "is called 'tad'; allowed: tand, tadd, " in shell.err
    assert shell.err.rstrip().endswith("; try: pto-jax isa tand")


USAGE: dict[str, tuple[list[str], str]] = {
    "unknown command": (
        ["fly"],
        "got 'fly'; allowed: run, diff, verify, fmt, conformance, isa, cost, step, and 10 more",
    ),
    "unknown option": (["run", "--fast"], "got the unknown argument --fast; allowed"),
    "misspelt option": (
        ["run", "--example", "softmax", "--sede=3"],
        "see --help; try: --seed=3",
    ),
    "nothing to run": (["run"], "either a FILE or --example"),
    "two things to run": (["run", "x.pto", "--example", "vector_add"], "either a FILE or --example"),
    "unknown example": (["run", "--example", "nope"], "no example is called 'nope'; allowed: vector_add"),
    "unknown profile": (
        ["run", "--example", "vector_add", "--profile", "a9"],
        "allowed: cpu_sim, a2a3, a5",
    ),
    "unknown numerics": (["run", "--example", "vector_add", "--numerics", "x"], "allowed: exact, fast"),
    "unknown entry": (["run", "--example", "vector_add", "--entry", "g"], "vector_add"),
    "negative seed": (["run", "--example", "vector_add", "--seed", "-1"], "--seed: got -1"),
    "missing program": (["run", "none.pto"], "none.pto: no such file"),
    "standard input": (["verify", "-"], "-: no such file; try: /dev/stdin"),
    "a scalar that is no integer": (
        ["run", "--example", "softmax", "--arg", "rows=4.5"],
        "--arg rows: got float64; allowed: a scalar of type",
    ),
    "missing inputs": (["run", "--example", "vector_add", "--inputs", "no.npz"], "no.npz: no such file"),
    "folder as program": (["run", "."], "got a folder"),
    "verify nothing": (["verify"], "required: FILE"),
    "verify missing": (["verify", "none.pto"], "none.pto: no such file"),
    "nothing to print": (["fmt"], "either a FILE or --example"),
    "unknown form": (["fmt", "x.pto", "--form", "c"], "got 'c'; allowed: as, ssa, dps, generic"),
    "missing vectors": (["conformance", "none.npz"], "none.npz: no such file"),
    "unwritable": (
        ["run", "--example", "vector_add", "--outputs", "/no/such/folder/out.npz"],
        "cannot be written",
    ),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_use_is_one_clear_line_and_status_2(name: str, shell: Shell) -> None:
    args, message = USAGE[name]
    assert shell(*args) == 2
    assert message in shell.err and "Traceback" not in shell.err
    assert shell.err.rstrip().splitlines()[-1].startswith("pto-jax")


def test_unknown_options_show_the_usage_of_their_command(shell: Shell) -> None:
    assert shell("doctor", "--fast") == 2
    assert shell.err.startswith("usage: pto-jax doctor ")


def test_options_without_a_resemblance_are_not_proposed(shell: Shell) -> None:
    assert shell("fuzz", "--budget", "10") == 2
    assert shell.err.splitlines() == [
        "usage: pto-jax fuzz [options]",
        "pto-jax fuzz: error: got the unknown arguments --budget 10; allowed: options, see --help",
    ]


@pytest.mark.slow
def test_numbers_of_one_processor_come_from_an_option(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    assert shell("run", "--example", "softmax", "--arg", "rows=3", "--outputs", str(out)) == 0
    assert "rows=3" in shell.out
    written = np.load(out)["y"]
    assert written[:3].all() and not written[3:].any()


def test_without_a_command_all_commands_are_shown(shell: Shell) -> None:
    assert shell() == 2
    assert "races " in shell.err and "Execute a program" in shell.err


WRONG_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"z": None}, "got no array for argument z"),
    "unknown": ({"w": np.zeros(1)}, "no argument is called 'w'"),
    "wrong type": ({"x": np.zeros(4096)}, "got float64; allowed: float32"),
    "too small": ({"x": np.zeros(100, np.float32)}, "got 100 elements"),
    "text": ({"x": np.array("abc")}, "an array of <U3"),
    "objects": ({"x": np.array([{}], object)}, "holds Python objects"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_input_arrays_are_named(name: str, shell: Shell) -> None:
    changes, message = WRONG_INPUTS[name]
    arrays = {k: v for k, v in {**add_inputs(), **changes}.items() if v is not None}
    assert shell("run", "--example", "vector_add", "--inputs", shell.npz(**arrays)) == 2
    assert "in.npz: " in shell.err and message in shell.err and shell.err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"text", b"PK" * 1000])
def test_files_that_are_no_npz_are_named(content: bytes, shell: Shell) -> None:
    path = shell.file("in.npz", content)
    assert shell("run", "--example", "vector_add", "--inputs", path) == 2
    assert "in.npz: " in shell.err and shell.err.count("\n") == 1


MALFORMED: dict[str, bytes] = {
    "not utf-8": b"\xff\xfe\x00module",
    "half a line": b"pto.tadd ins(%a, %b",
    "unknown instruction": b"pto.tfly ins(%a : f32) outs(%b : f32)",
    "unknown type": b"%0 = tadd %a, %b : !pto.tile<16x16xf31>",
    "negative tile": b"%0 = tadd %a, %b : !pto.tile<-1x16xf32>",
    "binary": bytes(range(256)),
    "open brackets": b"(" * 50_000,
    "deep module": b"module {" * 5_000,
    "no closing brace": b"module { func.func @f() {",
}


@pytest.mark.parametrize("command", ["verify", "fmt", "run"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_programs_never_end_in_a_traceback(name: str, command: str, shell: Shell) -> None:
    path = shell.file("bad.pto", MALFORMED[name])
    assert shell(command, path) in (1, 2)
    printed = shell.out + shell.err
    assert "bad.pto" in printed and "Traceback" not in printed


@pytest.mark.parametrize("command", ["verify", "run"])
def test_huge_tiles_are_refused_before_anything_is_allocated(command: str, shell: Shell) -> None:
    path = shell.file("huge.pto", "%0 = tadd %a, %b : !pto.tile<99999999999x99999999999xf32>")
    assert shell(command, path) == 1
    assert "huge.pto: error: " in shell.out + shell.err or "huge.pto:1:" in shell.out + shell.err


def test_an_empty_program_has_nothing_to_run(shell: Shell) -> None:
    assert shell("run", shell.file("empty.pto", "")) in (1, 2)
    assert "Traceback" not in shell.err and shell.err


@pytest.mark.slow
def test_the_installed_command_runs_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pto_jax.cli.main", "run", "--example", "vector_add"],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "z: f32[64, 64]" in done.stdout, done.stderr
    assert done.stderr == ""


def test_version_and_help(shell: Shell) -> None:
    assert shell("--version") == 0 and shell.out == f"pto-jax {pto.__version__}\n"
    assert shell("--help") == 0
    for command in ("run", "diff", "verify", "fmt", "conformance", "isa"):
        assert command in shell.out
