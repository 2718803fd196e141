"""Mistakes of newcomers in calls, texts and types: the fix of each message works where it is pasted."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.errors import parts_of

X = np.ones((16, 64), np.float32)
TEXT = "%z = tadd %x, %y : !pto.tile<f32, 16, 64>"


def _tile(x: Any) -> pto.oracle.OracleTile:
    return pto.oracle.OracleTile(pto.tile_type("f32", 16, 64), x)


NAMES = {"pto": pto, "np": np, "X": X, "TEXT": TEXT, "TILE": _tile}


def kernel(*args: Any, **kwargs: Any) -> Any:
    """A call of the sum of two tiles."""
    return pto.compile(pto.parse(TEXT), profile="a2a3")(*args, **kwargs)


def refused(call: Callable[[], Any]) -> pto.PtoError:
    with pytest.raises(pto.PtoError) as caught:
        call()
    message = str(caught.value).splitlines()[0]
    # The rules for words, on messages as they are shown.
    assert not re.search(
        r"\b([a-z]{2,}) \1\b|\ba (index|i8|i16|i32|i64|f\d+)\b|usual fix|\bfound\b(?! in)", message
    )
    return caught.value


#: The mistake, what its message got, and the call that its fix becomes (``FIX`` is where it is pasted).
CALLS = {
    "a profile by its architecture": (
        'pto.ops.tadd(X, X, profile="a3")', "unknown profile 'a3'", "pto.ops.tadd(X, X, FIX)"),
    "a typo of an option": (
        'pto.compile(pto.parse(TEXT), numerics="fats")', "numerics: got 'fats'",
        "pto.compile(pto.parse(TEXT), FIX)"),
    "a typo of a value": (
        'pto.ops.tcvt(X, dst="f16", rmode="FLOR")', "tcvt: got rmode='FLOR'",
        'pto.ops.tcvt(X, dst="f16", FIX)'),
    "a typo of a keyword": (
        'pto.ops.tcvt(X, dst="f16", rmod="FLOOR")', "tcvt: got the keyword 'rmod'",
        'pto.ops.tcvt(X, dst="f16", FIX)'.replace("FIX", "**dict(FIX)")),
    "doubles": (
        "kernel(X.astype(float), X)", "argument 'x': got an array of float64",
        "(lambda x: kernel(FIX, X))(X.astype(float))"),
    "integers": (
        "kernel(X, X.astype(int))", "argument 'y': got an array of int64",
        "(lambda y: kernel(X, FIX))(X.astype(int))"),
    "a transposed array": (
        "kernel(X.T, X)", "argument 'x': got shape (64, 16)", "(lambda x: kernel(FIX, X))(X.T)"),
    "a flat array": (
        "kernel(X.ravel(), X)", "argument 'x': got shape (1024,)",
        "(lambda x: kernel(FIX, X))(X.ravel())"),
    "a batch": (
        "kernel(X[None], X[None])", "argument 'x': got shape (1, 16, 64)",
        "(lambda jax: FIX(X[None], X[None]))(__import__('jax'))"),
    "one array too few": ("kernel(X)", "got x; allowed: also y", "(lambda x, y: FIX)(X, X)"),
    "one array too many": (
        "kernel(X, X, X)", "got 3 arguments; allowed: 2: x, y", "(lambda x, y: FIX)(X, X)"),
    "another name": (
        "kernel(x=X, yy=X)", "got the argument 'yy'", "kernel(x=X, **dict(FIX))"),
    "a vector for a tile": (
        "pto.ops.tneg(X[0])", "got an array of shape (64,)", "(lambda x: pto.ops.tneg(FIX))(X[0])"),
    "doubles in an instruction": (
        "pto.ops.tneg(X.astype(float))", "got an array of float64",
        "(lambda x: pto.ops.tneg(FIX))(X.astype(float))"),
    "a number for a tile": ("pto.ops.tadd(X, 1.0)", "tadd: source 1 (src1): got float", "FIX(X, 1.0)"),
    "a tile for a number": ("pto.ops.tadds(X, X)", "tadds: source 1 (scalar)", "FIX(X, X)"),
    "text for a program": ("pto.compile(TEXT)", "got text", "(lambda text: pto.compile(FIX))(TEXT)"),
    "text that is verified": ("pto.verify(TEXT)", "got text", "(lambda text: pto.verify(FIX))(TEXT)"),
    "a buffer of the hardware": (
        'pto.tile_type("f16", 16, 16, loc="L0A")', "loc: got 'L0A'", 'pto.tile_type("f16", 16, 16, FIX)'),
    "a format in the place of the bias": (
        'pto.nn.linear(X, X.T, "fp8")', "linear: bias: got 'fp8'", "pto.nn.linear(X, X.T, FIX)"),
    "one size of a valid region": (
        'pto.tile_type("f32", 16, 64, valid=8)', "valid: got 8; allowed: two sizes",
        'pto.tile_type("f32", 16, 64, FIX)'),
    "an option in a call": (
        "kernel(X, X, grid=1)", "got the argument 'grid'; allowed: x, y",
        "(lambda program: FIX(X, X))(pto.parse(TEXT))"),
    "a kernel for a program": (
        "pto.verify(pto.compile(pto.parse(TEXT)))", "got a kernel; allowed: a program",
        "(lambda kernel: pto.verify(FIX))(pto.compile(pto.parse(TEXT)))"),
    "bytes for text": (
        "pto.parse(TEXT.encode())", "parse: got a bytes; allowed: text",
        "(lambda text: pto.parse(FIX))(TEXT.encode())"),
    "a format in capitals": (
        'pto.nn.linear(X, X.T, format="INT8")', "linear: format: got 'INT8'", "pto.nn.linear(X, X.T, FIX)"),
    "a format by its long name": (
        'pto.nn.linear(X, X.T, format="mxfp8")', "linear: format: got 'mxfp8'", "pto.nn.linear(X, X.T, FIX)"),
    "numerics of another name": (
        'pto.nn.linear(X, X.T, numerics="quick")', "linear: numerics: got 'quick'",
        "pto.nn.linear(X, X.T, FIX)"),
    "a bias for the inputs": (
        "pto.nn.linear(X, X.T, np.ones(64, np.float32))", "linear: got bias [64]",
        "(lambda bias: pto.nn.linear(X, X.T, FIX))(np.ones(64, np.float32))"),
    "no reference": (
        "pto.straight_through(pto.ops.tneg, None)", "straight_through: reference: got None",
        "pto.straight_through(pto.ops.tneg, FIX)"),
    "an element type of another library": (
        'pto.ops.tcvt(X, dst="float8", profile="a5")', "tcvt: dst: got 'float8'",
        'pto.ops.tcvt(X, FIX, profile="a5")'),
    "an element type by position": (
        'pto.ops.tcvt(X, "f16")', "tcvt: source 1: got str", "pto.ops.tcvt(X, FIX)"),
    "codes of a format without scales": (
        'pto.nn.quantise(X, format="f16")', "format 'f16' has no codes; allowed: int8, fp8, mx",
        "(lambda x, jnp: FIX)(X, __import__('jax').numpy)"),
    "an array for weights": (
        'pto.nn.save_weights("w", X)', "save_weights: got an ndarray; allowed: a mapping", "FIX"),
    "an array for the arguments": (
        "pto.sanitize(pto.parse(TEXT), X)", "function fragment: got an array",
        "(lambda x, y: pto.sanitize(pto.parse(TEXT), [TILE(v) for v in FIX]))(X, X)"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "got", "fixed"), CALLS.values(), ids=CALLS)
def test_the_fix_of_a_call_works(call: str, got: str, fixed: str) -> None:
    names = {**NAMES, "kernel": kernel}
    if "jax.vmap" in fixed or call.startswith("kernel(X[None]"):
        names["kernel"] = pto.compile(pto.parse(TEXT), profile="a2a3")
    error = refused(lambda: eval(call, names))
    assert got in str(error) and "; allowed: " in str(error)
    fix = parts_of(str(error).splitlines()[0])[2]
    assert fix, str(error)
    fix = fix.replace("=...", "='FLOOR'" if "rmode" in fix else "=X")
    with warnings.catch_warnings(action="ignore"):
        eval(fixed.replace("FIX", fix), names)


#: Mistakes that no fix repairs: the message names what it got and what is allowed, and is no traceback.
PLAIN = {
    "pto.parse(None)": "parse: got None; allowed: text",
    "pto.load(None)": "path: got None; allowed: the name of a file",
    'pto.load("kernel.py")': "kernel.py: got Python code; allowed: PTO text",
    "pto.verify(None)": "got None; allowed: a program",
    "pto.races(3)": "got an int; allowed: a program",
    "pto.cost(None)": "got None; allowed: a program",
    "pto.oracle.run(TEXT, {})": "got text; allowed: a program",
    'pto.oracle.run(None, {}, profile="a5")': "got None; allowed: a program",
    "pto.sanitize(None)": "got None; allowed: a program",
    "pto.kernel(3)": "kernel: got 3; allowed: a Python function",
    "pto.kernel(types=3)(lambda x: None)": "kernel: types: got 3; allowed: types by name",
    'pto.kernel(profile="a5")(lambda: None)': "kernel: got the keyword 'profile'; allowed: types, name",
    'pto.tile(X, valid=("a", 2))': "tile: valid rows: got the text 'a'; allowed: index (an integer)",
    "pto.tile(X, valid=3)": "tile: valid: got 3; allowed: (rows, cols)",
    "pto.straight_through(None, None)": "straight_through: kernel: got None; allowed: a function",
    'pto.nn.calibrate(X, percentile="a")': "calibrate: percentile: got 'a'; allowed: 0 to 100",
    'pto.nn.linear(X, X.T, format="int4")': "linear: format: got 'int4'; allowed: int8",
    "pto.ops.tload(X)": "tload works on more than tiles and numbers; allowed: pto.tload in a kernel",
    "pto.tadd(X, X, X)": "tadd: no program is being built here; allowed: inside a function with @pto.kernel",
    "kernel(X, 'y')": "argument 'y': got the text 'y'; allowed: an array",
}


@pytest.mark.parametrize(("call", "message"), PLAIN.items(), ids=PLAIN)
def test_a_call_without_sense_is_one_clear_error(call: str, message: str) -> None:
    assert message in str(refused(lambda: eval(call, {**NAMES, "kernel": kernel})))


#: The mistake in a text, what the message got, and the word that its fix takes the place of.
TEXTS = {
    "an instruction": (TEXT.replace("tadd", "tadde"), "unknown instruction 'tadde'", "tadde"),
    "an operation": (
        "%c = arith.constan 1 : i32", "unknown operation 'arith.constan'", "arith.constan"),
    "a value of an attribute": (
        "%z = tcvt %x {rmode = #pto<round_mode FLOR>} : !pto.tile<f32, 16, 64> -> !pto.tile<f16, 16, 64>",
        "got the unknown round_mode 'FLOR'", "FLOR"),
    "a memory": (
        "%z = tneg %x : !pto.tile_buf<vecc, 16x64xf32>", "got 'vecc'", "vecc"),
    "a type": ("%z = tneg %x : !pto.tile_bfu<vec, 16x64xf32>", "got the unknown type", "!pto.tile_bfu"),
    "an operation without its dialect": (
        "func @f() {\n  return\n}", "unknown instruction 'func'", "func"),
    "a word between two types": (
        "%z = tcvt %x : !pto.tile<f32, 16, 64> to !pto.tile<f16, 16, 64>", "got 'to' between two", "to"),
    "a key of a type": (
        "%z = tneg %x : !pto.tile_buf<loc=vec, dtyp=f32, rows=16, cols=64>",
        "got the unknown key 'dtyp'", "dtyp"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "got", "word"), TEXTS.values(), ids=TEXTS)
def test_the_word_that_is_meant_can_be_pasted_into_the_text(text: str, got: str, word: str) -> None:
    (diagnostic,) = refused(lambda: pto.parse(text)).diagnostics
    assert got in diagnostic.message and diagnostic.fix
    assert diagnostic.span is not None
    start = diagnostic.span.col - 1
    assert text[start : start + len(word)] == word
    assert len(pto.parse(text[:start] + diagnostic.fix + text[start + len(word) :]).functions) == 1


FUNCTION = """\
func.func @k(%x: !pto.tensor_view<16x64xf32>, %y: !pto.tensor_view<16x64xf32>) {
  %half = arith.constant 0.5 : f32
  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  pto.tload ins(%x : !pto.tensor_view<16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
  pto.tmuls ins(%t, %half : !pto.tile_buf<vec, 16x64xf32>, f32) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%y : !pto.tensor_view<16x64xf32>)
  return
}
"""
#: A line of the function, what is written instead, the message, and the line that the fix becomes.
LINES = {
    "no allocation": (
        "  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>\n", "",
        "got the undefined value %t; allowed: an argument, or the result of an operation before", "  FIX\n"),
    "an integer for a float": (
        "  %half = arith.constant 0.5 : f32\n", "  %half = arith.constant 2 : f32\n",
        "got the integer 2 of type f32; allowed: a number with a decimal point",
        "  %half = arith.constant FIX : f32\n"),
    "a name without a sign": (
        "ins(%t, %half :", "ins(t, %half :", "got 't'; allowed: a value '%name'", "ins(FIX, %half :"),
    "one name twice": (
        "  return\n", "  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>\n  return\n",
        "got a second definition of %t, which was defined on line 3",
        "  FIX = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>\n  return\n"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "wrong", "message", "fixed"), LINES.values(), ids=LINES)
def test_the_fix_of_a_line_of_text_works(line: str, wrong: str, message: str, fixed: str) -> None:
    error = refused(lambda: pto.parse(FUNCTION.replace(line, wrong, 1)))
    assert message in str(error)
    (diagnostic,) = error.diagnostics
    text = FUNCTION.replace(line, fixed.replace("FIX", diagnostic.fix), 1)
    assert pto.verify(pto.parse(text), profile="a2a3", raise_on_error=True) == []


def test_a_number_becomes_a_constant() -> None:
    text = "%z = tadds %x, 2.5 : !pto.tile<f32, 16, 64>, f32"
    (diagnostic,) = refused(lambda: pto.parse(text)).diagnostics
    assert "got '2.5'; allowed: a value '%name'" in diagnostic.message
    fixed = f"{diagnostic.fix}\n{text.replace('2.5', '%c')}"
    assert pto.verify(pto.parse(fixed), profile="a2a3") == []


def test_a_comma_that_is_missing_is_named() -> None:
    (diagnostic,) = refused(lambda: pto.parse(TEXT.replace(", %y", " %y"))).diagnostics
    assert "a comma before an operand %y" in diagnostic.message


def test_a_file_name_is_no_program(tmp_path: Path) -> None:
    file = tmp_path / "sum.pto"
    file.write_text(TEXT)
    error = refused(lambda: pto.parse(str(file)))
    assert "parse: got the name of a file" in str(error)
    assert eval(error.fix, NAMES).functions


def test_an_array_for_a_tile_of_the_interpreter() -> None:
    program = pto.parse(TEXT)
    error = refused(lambda: pto.sanitize(program, (X, X)))
    assert "argument x: got an ndarray; allowed: an OracleTile of vec 16x64xf32" in str(error)
    made = eval(error.fix, {**NAMES, "x": X})
    assert pto.sanitize(program, (made, made)).findings == ()


def test_a_float_for_an_index_is_made_an_integer() -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
    def k(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 16, 64)
        pto.tload(t, pto.GlobalTensor(x, (16, 64)))
        pto.tstore(pto.GlobalTensor(y, (16, 64)), t)

    error = refused(lambda: k(X, 0 * X, 3.5))
    assert error.fix == "int(3.5)" and k(X, 0 * X, eval(error.fix))["y"][0, 0] == 1
    assert refused(lambda: k([["a"] * 64] * 16, X, 3)).fix == ""
    error = refused(lambda: k([[True] * 64] * 16, 0 * X, 3))
    assert k(eval(error.fix, NAMES), 0 * X, 3)["y"][0, 0] == 1


def test_a_gradient_of_an_instruction_names_what_has_one() -> None:
    import jax

    error = refused(lambda: jax.grad(lambda x: pto.ops.tneg(x).array.sum())(X))
    fixed = eval(f"lambda f, x, jax: {error.fix}", {})
    gradient = jax.grad(lambda x: fixed(lambda v: pto.ops.tneg(v).array, x, jax).sum())(X)
    np.testing.assert_array_equal(gradient, X)


@pytest.mark.slow
def test_the_profile_of_a_focus_can_be_pasted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["fuzz", "--only", "tadd", "--dtype", "f8e4m3", "--count", "1", "--profile", "a2a3"]
    assert main([*asked, "--tested", "eager"]) == 2
    fix = re.findall(r"; try: (.*)", capsys.readouterr().err)[0].split()
    assert main([*asked[:-2], *fix, "--tested", "eager", "--workers", "1"]) == 0


UNORDERED = """\
func.func @k(%x: !pto.tensor_view<16x64xf32>, %y: !pto.tensor_view<16x64xf32>) attributes {pto.entry} {
  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  pto.tload ins(%x : !pto.tensor_view<16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
  pto.tneg ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
  pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
  pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
  pto.tstore ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%y : !pto.tensor_view<16x64xf32>)
  return
}
"""
EMITTED = """\
__global__ AICORE void k(__gm__ float *v1, __gm__ float *v2) {
    Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, 16, 64> v5;
    TASSIGN(v5, 0);
    pto::Shape<1, 1, 1, 16, 64> v11 = pto::Shape<1, 1, 1, 16, 64>();
    pto::Stride<1024, 1024, 1024, 64, 1> v12 = pto::Stride<1024, 1024, 1024, 64, 1>();
    GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND>
        v13 = GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>,
                           pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND>(v1, v11, v12);
    GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>, pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND>
        v14 = GlobalTensor<float, pto::Shape<1, 1, 1, 16, 64>,
                           pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND>(v2, v11, v12);
    TLOAD(v5, v13);
    TADDS(v5, v5, 1.0f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(v14, v5);
}
"""
BUILT = """\
@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32")})
def k(x, y):
    t = pto.alloc_tile("f32", 16, 64)
    pto.tload(t, pto.GlobalTensor(x, (16, 64)))
    pto.tneg(t, t)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(pto.GlobalTensor(y, (16, 64)), t)
"""


def _python(text: str, file: Path) -> pto.Program:
    file.write_text(f"import pto_jax as pto\n{text}")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    program: pto.Program = names["k"].program
    return program


def _loaded(text: str, file: Path) -> pto.Program:
    file.write_text(text)
    return pto.load(file)


@pytest.mark.parametrize(
    ("text", "suffix", "read"),
    [(UNORDERED, ".pto", _loaded), (EMITTED, ".cpp", _loaded), (BUILT, ".py", _python)],
    ids=["text", "c++", "python"],
)
def test_the_flag_of_a_race_can_be_pasted_in_the_language_of_the_program(
    text: str, suffix: str, read: Callable[[str, Path], pto.Program], tmp_path: Path
) -> None:
    found = pto.races(read(text, tmp_path / f"k{suffix}"))
    assert found[0].missing.startswith("PIPE_MTE2 -> PIPE_V; try: ")
    match = re.search(r"try: (.+) behind (\w+), (.+) before (\w+)", found[0].missing)
    assert match is not None
    set_, first, wait, second = match.groups()
    lines = []
    for line in text.splitlines():
        word = line.strip().lower()
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + wait] if word.removeprefix("pto.").startswith(second) else []
        lines += [line]
        lines += [indent + set_] if word.removeprefix("pto.").startswith(first) else []
    assert pto.races(read("\n".join(lines) + "\n", tmp_path / f"repaired{suffix}")) == []
