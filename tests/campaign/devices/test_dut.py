"""Devices under test: what good, bad and hanging commands become."""

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pto_jax.api import load
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle, Run, mismatch
from pto_jax.cli import main
from pto_jax.devices.contract import DECLINED, PROGRAM
from pto_jax.devices.dut import Command
from pto_jax.devices.exchange import load_outputs, outputs_of, save_outputs, write_case
from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError, DeviceError, NotExecutableError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.ir import BF16, ScalarType

PLACES = "{program} {inputs} {outputs}"
ORACLE = Oracle()


@pytest.fixture(scope="module")
def simple() -> Case:
    """A fragment of one elementwise instruction, whose result is defined in every lane."""
    return generate(1, 1, replace(PRESETS["straight"], only=frozenset({"tadd"}), statements=1))


def python(script: str, arguments: str = PLACES) -> str:
    """A command line that executes a Python script on some arguments."""
    literal = script.replace("{", "{{").replace("}", "}}")
    return f"{shlex.quote(sys.executable)} -S -c {shlex.quote(literal)} {arguments}"


def copying(tmp_path: Path, case: Case) -> str:
    """A command that answers with what the interpreter found before."""
    found = tmp_path / "found.npz"
    save_outputs(found, case, ORACLE.run(case))
    return python(f"import shutil, sys; shutil.copy({str(found)!r}, sys.argv[3])")


def test_a_device_that_answers_rightly_is_equal(tmp_path: Path, simple: Case) -> None:
    outcome = compare_case(simple, ORACLE, machine(f"dut:{copying(tmp_path, simple)}"))
    assert outcome.kind == "equal", str(outcome)


def test_a_command_is_found_from_where_the_caller_is(
    tmp_path: Path, simple: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "device"
    script.write_text(f'#!/bin/sh\n{copying(tmp_path, simple).removesuffix(PLACES)} "$@"\n')
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    outcome = compare_case(simple, ORACLE, machine(f"dut:./device {PLACES}"))
    assert outcome.kind == "equal", str(outcome)


def test_a_device_that_lies_is_different(tmp_path: Path, simple: Case) -> None:
    run = ORACLE.run(simple)
    (name, output), *rest = run.outputs.items()
    words = output.words.copy()
    words[0, 0] ^= 1
    save_outputs(tmp_path / "lie.npz", simple, Run({name: replace(output, words=words), **dict(rest)}))
    command = python(f"import shutil, sys; shutil.copy({str(tmp_path / 'lie.npz')!r}, sys.argv[3])")
    outcome = compare_case(simple, ORACLE, Command(command, 20))
    assert outcome.kind == "different"
    assert "first (0, 0)" in outcome.message


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11 (SIGSEGV)"),
        (
            "import sys; [print(i, file=sys.stderr) for i in range(9)]; sys.exit(3)",
            "exit status 3: 4 | 5 | 6 | 7 | 8",
        ),
        ("pass", "outputs: .*no such file"),
        ("import sys; open(sys.argv[3], 'wb').write(b'PK garbage')", "not an .npz file"),
        ("import sys; open(sys.argv[3], 'wb').write(bytes(range(256)) * 99)", "not an .npz file"),
        ("import os, sys; os.mkdir(sys.argv[3])", "got a folder"),
        ("import sys; sys.stderr.buffer.write(bytes(range(256))); sys.exit(1)", "exit status 1: "),
        ("import os, shutil, sys; shutil.rmtree(os.path.dirname(sys.argv[1]))", "outputs.npz: no such file"),
    ],
)
def test_what_goes_wrong_is_a_crash_with_a_reason(simple: Case, script: str, message: str) -> None:
    outcome = compare_case(simple, ORACLE, Command(python(script), 20))
    assert outcome.kind == "crashed"
    plain = message.partition(".*")
    assert plain[0] in outcome.message
    assert plain[2] in outcome.message
    assert "\n" not in outcome.message


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"nobody": np.zeros(3)}, "output nobody: the program has no buffer or tile"),
        ({"OUT": np.zeros((2, 2))}, "got the shape .2, 2.; allowed:"),
        ({"OUT": np.array("text")}, "got <U4"),
        ({"OUT": None, "OUT.valid": np.zeros(3, np.int32)}, "allowed: two integers"),
    ],
)
def test_results_that_cannot_be_are_named(
    tmp_path: Path, simple: Case, arrays: dict[str, np.ndarray | None], message: str
) -> None:
    name, output = next(iter(ORACLE.run(simple).outputs.items()))
    d = output.words.dtype
    found = {
        k.replace("OUT", name): output.words if v is None else v.astype(d) if v.shape == (2, 2) else v
        for k, v in arrays.items()
    }
    np.savez(tmp_path / "found.npz", **found)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=message):
        load_outputs(tmp_path / "found.npz", simple)


def test_a_result_may_lie_flat_and_have_no_other_shape(simple: Case) -> None:
    name, output = next(iter(ORACLE.run(simple).outputs.items()))
    flat = outputs_of(simple, {name: output.words.reshape(-1)})
    assert np.array_equal(flat.outputs[name].words, output.words)
    rows, cols = output.words.shape
    for shape in ((cols, rows), (1, rows, cols), (1, rows * cols)):
        if shape != output.words.shape:
            with pytest.raises(DeviceError, match=r"got the shape \(.*\); allowed: \("):
                outputs_of(simple, {name: output.words.reshape(shape)})


def test_a_process_that_hangs_ends_with_its_children(tmp_path: Path, simple: Case) -> None:
    note = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    outcome = compare_case(simple, ORACLE, Command(python(script), 1.0))
    assert outcome.kind == "crashed"
    assert "no answer within 1 s; stopped" in outcome.message
    assert _ended(int(note.read_text()))


def test_children_left_behind_end_too(tmp_path: Path, simple: Case) -> None:
    note = tmp_path / "pid"
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))"
    )
    assert compare_case(simple, ORACLE, Command(python(script), 20)).kind == "crashed"
    assert _ended(int(note.read_text()))


def _ended(process: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_device_may_decline(simple: Case) -> None:
    script = f"import sys; print('no such thing', file=sys.stderr); sys.exit({DECLINED})"
    outcome = compare_case(simple, ORACLE, Command(python(script), 20))
    assert outcome.kind == "refused"
    assert "the device declines: no such thing" in outcome.message


def test_several_blocks_need_a_command_that_asks(tmp_path: Path, simple: Case) -> None:
    several = replace(simple, grid=3)
    with pytest.raises(NotExecutableError, match="3 blocks"):
        Command(python("pass"), 20).run(several)
    note = tmp_path / "grid"
    script = f"import sys; open({str(note)!r}, 'w').write(' '.join(sys.argv[4:]))"
    command = python(script, PLACES + " {grid} {profile}")
    with pytest.raises(DeviceError, match="outputs"):
        Command(command, 20).run(several)
    assert note.read_text() == f"3 {simple.profile.name}"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true {program} {inputs}", r"\{outputs\} is missing"),
        ("true {program} {inputs} {outputs} {seed}", r"unknown placeholder \{seed\}; allowed: \{program\}"),
        ("true {program!r:>99999999999} {inputs} {outputs}", r"\{program\} with a conversion or format"),
        ("true {program} {inputs:>9} {outputs}", r"\{inputs\} with a conversion or format"),
        ("true 'x {program}", "No closing quotation"),
        ("true {program", "expected '}'"),
        ("", "got ''"),
        ("no-such-command-here {program} {inputs} {outputs}", "no such command"),
    ],
)
def test_wrong_command_lines_are_refused(command: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Command(command, 1)


def test_a_program_is_written_with_its_profile(tmp_path: Path) -> None:
    kinds = set()
    for case in cases(2, 8, replace(PRESETS["everything"], profiles=("a5",))):
        write_case(tmp_path, case)
        read = load(tmp_path / PROGRAM)
        assert read.attrs == {"pto.target_arch": "a5"}
        assert read.fragment == case.program.fragment
        assert [f.body for f in read.functions] == [f.body for f in case.program.functions]
        kinds.add(read.fragment)
    assert kinds == {True, False}


def test_the_command_line_is_a_device(tmp_path: Path) -> None:
    """``pto-jax run``, in this process: a fragment with a region and a bf16 scalar that execution gives."""
    options = replace(PRESETS["straight"], only=frozenset({"tadds"}), statements=1, profiles=("a5",))
    case = next(c for c in cases(1, 400, options) if _is_dynamic_bf16(c))
    write_case(tmp_path, case)
    files = [str(tmp_path / name) for name in (PROGRAM, "inputs.npz", "outputs.npz")]
    assert main.main(["run", files[0], "--inputs", files[1], "--outputs", files[2]]) == 0
    found = load_outputs(tmp_path / "outputs.npz", case)
    for name, expected in ORACLE.run(case).outputs.items():
        assert mismatch(case, name, found.outputs.get(name), expected, "interpreter") is None


def _is_dynamic_bf16(case: Case) -> bool:
    tiles = [i for i in case.inputs.values() if i.valid is not None and i.valid != i.words.shape]
    return bool(tiles) and any(i.type == ScalarType(BF16) for i in case.inputs.values())
