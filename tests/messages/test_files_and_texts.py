"""Wrong files, wrong options and words of other languages: one message with a fix that works when pasted."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main

VIEW, TILE = "!pto.tensor_view<4x16xf32>", "!pto.tile_buf<vec, 4x16xf32>"
KERNEL = f"""\
func.func @k(%x: {VIEW}, %y: {VIEW}, %n: index) {{
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%x : {VIEW}) outs(%t : {TILE})
  pto.tneg ins(%t : {TILE}) outs(%t : {TILE})
  pto.tstore ins(%t : {TILE}) outs(%y : {VIEW})
  return
}}
"""
X = np.ones((4, 16), np.float32)
LAUNCH = {"kernel": "k.pto", "arguments": ["x", "y", 4]}
BUFFER = {"shape": [4, 16], "type": "f32"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("k.pto").write_text(KERNEL)
    np.savez("in.npz", x=X, y=X, n=4)
    np.savez("typo.npz", X=X, y=X, n=4)
    np.savez("doubles.npz", x=X.astype(float), y=X, n=4)
    np.save("x.npy", X)
    return tmp_path


def _error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


#: A command and its message.
COMMANDS = {
    "more blocks than a launch has": (
        "run k.pto --grid 99999999999999999999", "grid: got 99999999999999999999; allowed: 1 to 65535"),
    "doubles": (
        "run k.pto --inputs doubles.npz",
        "x: got float64; allowed: float32, or its bits as uint32, for f32; try: x.astype(np.float32)"),
    "one array": (
        "run k.pto --inputs x.npy",
        'x.npy: not an .npz file (or a damaged one); try: np.savez("arrays.npz", x=np.load("x.npy"))'),
    "a folder that does not exist": (
        "run k.pto --inputs in.npz --outputs no/such/z.npz",
        "cannot be written: No such file or directory; allowed: a folder that exists; try: mkdir -p no/such"),
    "a folder for a file": (
        "run k.pto --inputs in.npz --outputs .", ".: cannot be written: Is a directory; allowed: the name"),
    "a bound of no result": (
        "diff k.pto k.pto --ulp z=2", "--ulp: got z; allowed: y; try: --ulp y=2"),
    "an array of no argument, for races": (
        "races k.pto --inputs typo.npz", "typo.npz: no argument is called 'X'; allowed: n, x, y"),
    "a number of no argument, for races": (
        "races k.pto --arg q=1", "--arg: no argument is called 'q'; allowed: n, x, y"),
    "an argument without an array, for cases": (
        "emit k.pto --inputs typo.npz --out cases",
        "got no array for argument x (tensor_view<4x16xf32>); it holds X, y, n; allowed: one that is called"),
    "a report of a campaign in no folder": (
        "fuzz --count 1 --junit no/j.xml", "no/j.xml: cannot be written: No such file or directory"),
    "a store in no folder": ("fuzz --count 1 --store no/s.db", "try: mkdir -p no"),
}  # fmt: skip


@pytest.mark.parametrize(("command", "message"), COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("folder")
def test_a_wrong_option_is_one_line(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in _error(capsys, *command.split())


@pytest.mark.usefixtures("folder")
def test_the_folder_of_an_output_can_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "k.pto", "--inputs", "in.npz", "--outputs", "my results/z.npz"]
    fix = _error(capsys, *words).rpartition("; try: ")[2]
    subprocess.run(shlex.split(fix), check=True)
    assert main(words) == 0


@pytest.mark.usefixtures("folder")
def test_the_number_of_an_argument_is_used_by_races() -> None:
    assert main(["races", "k.pto", "--arg", "n=1"]) == 0


#: A description of a step, by its changes, and its message.
STEPS: dict[str, tuple[Any, str]] = {
    "a key twice": ('{"launches": [], "launches": []}', "launches.json: the key 'launches' stands twice"),
    "an empty file": ("", "launches.json:1: got no JSON: Expecting value; allowed: one object"),
    "brackets without end": ("[" * 100_000, "launches.json: got JSON that is nested too deeply"),
    "too few arguments": ({"launches": [{**LAUNCH, "arguments": ["x"]}]}, "got 1; allowed: 3: x, y, n"),
    "text for a number": (
        {"launches": [{**LAUNCH, "arguments": ["x", "y", "4"]}]}, "argument n: got the buffer '4'"),
    "a buffer that fits in no memory": (
        {"launches": [LAUNCH], "buffers": {"x": {**BUFFER, "shape": [10**6] * 3}, "y": BUFFER}},
        "buffers.x.shape: got [1000000, 1000000, 1000000]; allowed: extents that fit into memory"),
    "blocks without end": (
        {"launches": [{**LAUNCH, "blocks": 10**12}]}, "blocks: got 1000000000000; allowed: a number"),
    "another type": (
        {"launches": [LAUNCH], "buffers": {"x": {**BUFFER, "type": "i32"}, "y": BUFFER}},
        "argument x: got an array of int32; allowed: f32"),
}  # fmt: skip


@pytest.mark.parametrize(("step", "message"), STEPS.values(), ids=STEPS)
def test_a_wrong_step_is_one_line(
    step: Any, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(step, dict):
        step = json.dumps({"buffers": {"x": BUFFER, "y": BUFFER}, **step})
    (folder / "launches.json").write_text(step)
    assert message in _error(capsys, "step", ".", "--executor", "interpreter")


def test_an_array_that_no_launch_uses_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "launches.json").write_text(json.dumps({"buffers": {"x": BUFFER}, "launches": [LAUNCH]}))
    assert main(["step", ".", "--executor", "interpreter", "--inputs", "typo.npz"]) == 0
    assert "warning: buffer 'X': no launch uses it; allowed: x, y; try: x" in capsys.readouterr().err


#: A line in words of other languages, what its message got, and the line after the fix.
SPELLINGS = {
    "not a number": ("%c = arith.constant nan : f32", "got 'nan'", "%c = arith.constant FIX"),
    "infinity": ("%c = arith.constant inf : f32", "got 'inf'", "%c = arith.constant FIX"),
    "negative infinity": ("%c = arith.constant -inf : f32", "got 'inf'", "%c = arith.constant FIX"),
    "an exponent alone": ("%c = arith.constant 1e3 : f32", "got 1e3", "%c = arith.constant FIX : f32"),
    "a negative exponent": ("%c = arith.constant -2e-3 : f32", "got -2e-3", "%c = arith.constant FIX : f32"),
    "a call": ("z = pto.tadd(x, y)", "got the name 'z'", "FIX : !pto.tile<f32, 4, 16>"),
}
NUMBERS = {
    "infinity": np.inf,
    "negative infinity": -np.inf,
    "an exponent alone": 1e3,
    "a negative exponent": -2e-3,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_spelling_of_this_language_can_be_pasted(name: str) -> None:
    wrong, got, fixed = SPELLINGS[name]
    with pytest.raises(pto.ParseError, match=re.escape(got)) as caught:
        pto.parse(wrong)
    (diagnostic,) = caught.value.diagnostics
    program = pto.parse(fixed.replace("FIX", diagnostic.fix))
    (op,) = program.walk()
    if name in NUMBERS:
        assert dict(op.attributes)["value"] == pytest.approx(NUMBERS[name])


#: A text of the kernel above and one with a slip, what the message got, and where the fix belongs.
SLIPS = {
    "a missing brace": ("return\n}\n", "return\n", "got end of text", "return\nFIX\n"),
    "a missing parenthesis": ("index) {", "index {", "got '{'", "index FIX {"),
    "another memory": (f"alloc_tile : {TILE}", "alloc_tile : !pto.tile_buf<vector, 4x16xf32>", "got 'vector'",
                       "alloc_tile : !pto.tile_buf<FIX, 4x16xf32>"),
    "another type of a tile": (f"tneg ins(%t : {TILE})", "tneg ins(%t : !pto.tile_buf<vec, 4x16xf16>)",
                               "got %t used with dtype=f16", "tneg ins(%t : FIX)"),
}  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "got", "fixed"), SLIPS.values(), ids=SLIPS)
def test_a_slip_of_the_pen_has_a_fix(right: str, wrong: str, got: str, fixed: str) -> None:
    assert right in KERNEL
    with pytest.raises(pto.ParseError, match=re.escape(got)) as caught:
        pto.parse(KERNEL.replace(right, wrong, 1))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.allowed
    program = pto.parse(KERNEL.replace(right, fixed.replace("FIX", diagnostic.fix), 1))
    assert program == pto.parse(KERNEL)


def test_a_missing_comma_is_proposed() -> None:
    text = "%v = pto.make_tensor_view %p, shape = [%a%b], strides = [%b, %c] : !pto.tensor_view<?x?xf32>"
    with pytest.raises(pto.ParseError, match="got '%b'; allowed: ',' or ']'; try: , %b"):
        pto.parse(text)
    assert pto.parse(text.replace("%b]", ", %b]", 1))


def test_a_typo_of_an_attribute_of_an_instruction_has_a_fix() -> None:
    text = "%z = tcvt %x {rmod = #pto<round_mode FLOOR>} : !pto.tile<f32, 4, 16> -> !pto.tile<i32, 4, 16>"
    (warning,) = pto.verify(pto.parse(text))
    assert warning.fix == "rmode" and "unknown attribute rmod" in warning.message
    assert pto.verify(pto.parse(text.replace("rmod", warning.fix))) == []


def test_destinations_before_sources_are_named() -> None:
    text = KERNEL.replace(f"ins(%t : {TILE}) outs(%t : {TILE})", f"outs(%t : {TILE}) ins(%t : {TILE})", 1)
    with pytest.raises(pto.ParseError, match=r"got 'ins'; allowed: ins\(\.\.\.\) before outs"):
        pto.parse(text)


def test_the_fixes_of_handles_and_pads_are_python_in_kernels() -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
    def wrong(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 8, 16, valid=(n, 16))
        pto.tload(t, pto.partition_view(pto.GlobalTensor(x, (8, 16)), [0, 0], [n, 16]))
        pto.set_validshape(t, 8, 16)
        h = pto.bitcast(t, type=pto.tile_type("i16", 8, 32))
        pto.tnot(h, h)
        u = pto.alloc_tile("f32", 8, 16)
        pto.tfillpad(u, t)
        pto.tstore(pto.GlobalTensor(y, (8, 16)), u)

    listed = pto.verify(wrong.program, profile="a2a3")
    fixes = {d.instruction: d.fix for d in listed if d.severity == "error"}

    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
    def right(x: Any, y: Any, n: Any) -> None:
        names: dict[str, Any] = {"pto": pto, "n": n}
        exec(fixes["set_validshape"], names)
        t = names["t"]
        pto.tload(t, pto.GlobalTensor(x, (8, 16)))
        pto.set_validshape(t, 8, 16)
        h = eval(fixes["bitcast"], names)
        pto.tnot(h, h)
        exec(fixes["tfillpad"], names)
        pto.tfillpad(names["u"], t)
        pto.tstore(pto.GlobalTensor(y, (8, 16)), names["u"])

    assert set(fixes) == {"set_validshape", "bitcast", "tfillpad"}
    assert not [d for d in pto.verify(right.program, profile="a2a3") if d.severity == "error"]


def test_a_missing_attribute_is_python_in_kernels() -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "i": pto.ptr("i32")}, arch="a5")
    def k(x: Any, i: Any) -> None:
        t = pto.alloc_tile("f32", 8, 16)
        j = pto.alloc_tile("i32", 1, 8)
        pto.tload(j, pto.GlobalTensor(i, (1, 8)))
        pto.mgather(t, pto.GlobalTensor(x, (8, 16)), j)

    errors = [d.message for d in pto.verify(k.program) if d.severity == "error"]
    assert errors == ['coalesce is missing; allowed on a5: coalesce="row" or "elem"']


@pytest.mark.parametrize("wrong", ["pto.entri", "pto.kernel_knd = #pto.kernel_kind<vector>"])
def test_an_attribute_that_is_nearly_one_is_named(wrong: str) -> None:
    text = KERNEL.replace("index) {", f"index) attributes {{{wrong}}} {{")
    (warning,) = pto.verify(pto.parse(text))
    name = wrong.partition(" ")[0]
    assert f"got the attribute {name}, which nothing reads; allowed: " in warning.message
    assert pto.verify(pto.parse(text.replace(name, warning.fix))) == []


def test_attributes_of_other_tools_are_left_alone() -> None:
    text = KERNEL.replace("index) {", "index) attributes {pto.align, pto.backend = 1} {")
    assert pto.verify(pto.parse(text)) == []
