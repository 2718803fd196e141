"""Mistakes of users: what the message says, and that the fix that it ends with works where it is pasted."""

import linecache
import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main

HEAD = """\
import jax.numpy as jnp, numpy as np, pto_jax as pto

@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
def k(x, y, n):
    vx, vy = (pto.make_tensor_view(p, [16, 64], [64, 1]) for p in (x, y))
    t = pto.alloc_tile("f32", 16, 64)
    u = pto.alloc_tile("f32", 16, 64)
    loaded = pto.tload(t, pto.partition_view(vx, [0, 0], [16, 64]))
    pto.tload(u, pto.partition_view(vx, [0, 0], [16, 64]))
"""
STORE = "pto.tstore(pto.partition_view(vy, [0, 0], [16, 64]), t)"
X = np.ones((16, 64), np.float32)
_NUMBER = count()


def run_kernel(*lines: str, store: bool = True) -> Any:
    """The result of a kernel with these lines between its loads and its store."""
    body = textwrap.indent("\n".join([*lines, *([STORE] if store else [])]), "    ")
    name, source = f"<kernel {next(_NUMBER)}>", HEAD + body + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    return names["k"](X, X.copy(), 3, profile="a2a3")


def refused(call: Callable[[], Any]) -> str:
    """The first line of the message of a call, with the lines of a fix that has several."""
    with pytest.raises(pto.PtoError) as caught:
        call()
    message = str(caught.value)
    # Names are those of the user, and the fix is in the language of the program.
    assert not re.search(r"%\d+\b|usual fix: |\b([a-z]{2,}) \1\b|\ba (index|i8|i16|i32|i64|u8)\b", message)
    return message


def fix_of(message: str) -> str:
    """The fix, without the lines of source below a message."""
    assert "; try:" in message, message
    _, _, rest = message.rpartition("; try:")
    if not rest.startswith("\n"):
        return rest.splitlines()[0].strip()
    block = rest.lstrip("\n").split("\n\n")[0]
    return textwrap.dedent(block)


#: The wrong line, the message, and the line that the fix becomes (``FIX`` is where it is pasted).
LINES = {
    "tile + 1": ("t + 1", "t + 1: got the tile t, which has no Python operators", "pto.tadds(t, t, 1.0)"),
    "number - tile": ("1 - t", "1 - t: got the tile t", "pto.tneg(t, t); pto.tadds(t, t, 1.0)"),
    "tile * tile": ("t * u", "t * u: got the tile t", "pto.tmul(t, t, u)"),
    "tile / 2": ("t / 2", "t / 2: got the tile t", "pto.tdivs(t, t, 2.0)"),
    "- tile": ("-t", "-t: got the kernel tile t", "pto.tneg(t, t)"),
    "jnp": ("jnp.exp(t)", "jnp.exp: got the kernel tile t; allowed: arrays", "pto.texp(t, t)"),
    "np": ("np.sqrt(t)", "np.sqrt: got the kernel tile t; allowed: arrays", "pto.tsqrt(t, t)"),
    "ops": ("pto.ops.texp(t)", "pto.ops.texp: got the kernel tile t", "pto.texp(t, t)"),
    "min": ("min(n, 16)", "min(n, 16): n is known when the program runs; try: ", "pto.minimum(n, 16)"),
    "max": ("max(n, 2)", "max(n, 2): n is known when the program runs; try: ", "pto.maximum(n, 2)"),
    "abs": ("abs(n)", "abs(n): n is known when the program runs", "pto.maximum(n, -n)"),
    "/": ("n / 2", "n / 2: got an index; allowed: floats", "n // 2"),
    "**": ("n ** 2", "n ** 2: n is known when the program runs; try: ", "n * n"),
    "float": ("n + 1.5", "got 1.5 beside an index", 'pto.cast(n, "f32") + 1.5'),
    "constant": (
        'pto.tadds(t, t, pto.constant(1.0, "f16"))',
        "scalar has type f16; allowed: a scalar of type f32, the type of dst", "pto.tadds(t, t, 1.0)"),
    "index": (
        "pto.tmuls(t, t, n)", "has type index; allowed: a scalar", "pto.tmuls(t, t, pto.cast(n, 'f32'))"),
    "column": (
        'm = pto.alloc_tile("f32", 16, 1)', "one row of a row_major tile (1 x f32) takes 4 bytes; allowed: "
        "a multiple of 32", 'pto.alloc_tile("f32", 16, 1, blayout="col_major")'),
    "odd columns": ('m = pto.alloc_tile("f16", 16, 24)', "takes 48 bytes",
                    'pto.alloc_tile("f16", 16, 32, valid=(16, 24))'),
}  # fmt: skip


#: The wrong line, the message, and the line with ``FIX`` where the fix is pasted.
PARTS = {
    "a layout by its name": ('m = pto.alloc_tile("f32", 16, 64, layout="nz")', "alloc_tile: got layout='nz'",
                             'm = pto.alloc_tile("f32", 16, 64, FIX)'),
    "a memory": ('m = pto.alloc_tile("f16", 16, 16, memory="L1")', "alloc_tile: got memory='L1'",
                 'm = pto.alloc_tile("f16", 16, 16, FIX)'),
    "one size": ('m = pto.alloc_tile("f32", 16, 64, valid=8)', "valid: got 8; allowed: two sizes",
                 'm = pto.alloc_tile("f32", 16, 64, FIX)'),
    "a shape": ('m = pto.alloc_tile("f32", (16, 64))', "got no rows and columns", "m = FIX"),
    "a slice of a view": ("pto.tload(t, vx[0:16, 0:64])", "got a slice of ", "pto.tload(t, FIX)"),
    "a slice without an end": ("pto.tload(t, vx[0:, :])", "got a slice of ", "pto.tload(t, FIX)"),
    "a slice from a number": ("pto.tload(t, vx[n - n:n - n + 16])", "got a slice", "pto.tload(t, FIX)"),
    "an element": ("v = t[0, 3]", "got an element of the tile t", "v = FIX"),
    "an element that is set": ("t[0, 3] = 1.0", "got an element of the tile t", "FIX"),
    "the length": ("v = len(t)", "len(t): got a tile; allowed: its sizes", "v = FIX"),
    "a method of arrays": ("t.exp()", "got the attribute 'exp' of the tile t", "FIX"),
    "a format": ('v = f"{n:d}"', "n: got the format 'd'", "FIX"),
    "an index as a condition": ("with pto.if_(n): pto.tneg(t, t)", "if_: got n: index; allowed: i1",
                                "with FIX: pto.tneg(t, t)"),
    "two types": ("v = n + pto.cast(n, 'f32')", "+: got n: index, and ", "v = FIX"),
    "a constant of another type": ("pto.tmuls(t, t, n + 1)", "allowed: a scalar of type f32", "FIX"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "message", "fixed"), PARTS.values(), ids=PARTS)
def test_the_fix_of_a_part_of_a_line_works(line: str, message: str, fixed: str) -> None:
    said = refused(lambda: run_kernel(line))
    assert message in said
    run_kernel(fixed.replace("FIX", fix_of(said)))


#: Lines that no fix repairs, and what their messages got.
PLAIN = {
    "while n: break": "n: n is known when the program runs; allowed: pto.while_(values)",
    "np.arange(n)": "np.arange(n): n is known when the program runs",
    "pto.tadd(t, t, np.ones((16, 64), np.float32))": "got an array of float32 of shape (16, 64)",
    "pto.tneg(t, t.type)": "got the type vec 16x64xf32; allowed: a tile",
    "pto.tneg(pto.partition_view(vx, [0, 0], [16, 64]), t)": "got a partition_tensor_view<16x64xf32>",
    "pto.alloc_tile('f32', n, 64)": "rows: got n: index; allowed: a positive Python integer",
    "pto.alloc_tile(16, 64, 'f32')": "alloc_tile: got (16, 64, 'f32'); allowed: dtype, rows, cols",
}


@pytest.mark.parametrize(("line", "message"), PLAIN.items(), ids=PLAIN)
def test_a_line_without_sense_is_one_clear_error(line: str, message: str) -> None:
    assert message in refused(lambda: run_kernel(line))


def test_an_instruction_that_does_not_exist_is_named() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'tscale'; did you mean"):
        run_kernel("pto.tscale(t, t, 0.5)")


@pytest.mark.variants(5)
@pytest.mark.parametrize(("line", "message", "fix"), LINES.values(), ids=LINES)
def test_the_fix_of_a_line_of_a_kernel_works(line: str, message: str, fix: str) -> None:
    said = refused(lambda: run_kernel(f"v = {line}" if not line.startswith("m =") else line))
    assert message in said and said.startswith("<kernel ")
    assert fix_of(said) == fix
    # What only computes in place is no value.
    run_kernel(fix if fix.startswith("pto.t") else f"v = {fix}")


def test_a_condition_becomes_an_operation() -> None:
    said = refused(lambda: run_kernel("if n > 3:", "    pto.tadds(t, t, 1.0)"))
    assert "n > 3: n is known when the program runs; try: " in said
    run_kernel(fix_of(said), "    pto.tadds(t, t, 1.0)")
    assert fix_of(refused(lambda: run_kernel("for i in range(n):", "    pass"))) == "pto.range(n)"
    run_kernel("for i in pto.range(n):", "    pto.tadds(t, t, 1.0)")


def test_a_variable_that_a_loop_changes_is_carried() -> None:
    lines = ["s = pto.constant(0)", "for i in pto.range(0, 4):", "    s = s + i"]
    said = refused(lambda: run_kernel(*lines, "pto.tadds(t, t, pto.cast(s, 'f32'))"))
    assert "s is assigned in the loop (" in said and "and used after it" in said
    fixed = [lines[0], *fix_of(said).splitlines(), "pto.tadds(t, t, pto.cast(s, 'f32'))"]
    np.testing.assert_array_equal(run_kernel(*fixed)["y"], X + 6)
    lines[2] = "    s += i * 2"
    said = refused(lambda: run_kernel(*lines, "v = s + 1"))
    run_kernel(lines[0], *fix_of(said).splitlines(), "v = s + 1")


def test_a_kernel_that_stores_nothing_is_warned_of() -> None:
    with pytest.warns(pto.PtoWarning, match="@k stores to no argument, so that its result is empty") as seen:
        assert run_kernel("pto.tadds(t, t, 1.0)", store=False) == {}
    (message,) = {str(w.message) for w in seen if "stores to no" in str(w.message)}
    assert run_kernel("pto.tadds(t, t, 1.0)", fix_of(message), store=False)["y"][0, 0] == 2


PROGRAM = "%z = taddreluconv %x, %y : (TYPE, !pto.tile<f32, 4, 16>) -> !pto.tile<f16, 4, 16>"


def test_a_valid_region_that_the_program_does_not_leave_open() -> None:
    def run(t: str) -> Any:
        with warnings.catch_warnings(action="ignore"):
            kernel = pto.compile(pto.parse(PROGRAM.replace("TYPE", t)), profile="a2a3")
        return kernel(pto.tile(X[:4, :16], valid=(3, 10)), X[:4, :16])

    said = refused(lambda: run("!pto.tile<f32, 4, 16>"))
    assert said.startswith("argument 'x': got a valid region of 3x10; allowed: the whole 4x16 tile; try: ")
    run(fix_of(said))


def test_an_element_type_that_the_profile_does_not_have() -> None:
    said = refused(lambda: pto.ops.tcvt(X, dst="f8e4m3", profile="a2a3"))
    assert said == (
        "error: tcvt: operand dst: element types (dst: f8e4m3, src: f32) are not supported on a2a3; "
        'allowed from f32: f16, bf16, f32, i16, i32, i64; try: profile="a5"'
    )
    assert pto.ops.tcvt(X, dst="f8e4m3", **eval(f"dict({fix_of(said)})")).dtype.name == "f8e4m3"


RESULT = {
    "result + 1": "result.array + 1",
    "2 * result": "2 * result.array",
    "result > 0": "result.array > 0",
    "-result": "-result.array",
    "result @ w": "result.array @ w",
    "w @ result": "w @ result.array",
    "result + result": "result.array + result.array",
    "abs(result)": "abs(result.array)",
}
#: Attributes of arrays, and the attribute of the tile's array.
ATTRIBUTES = {
    "result.T": "result.array.T",
    "result.sum()": "result.array.sum",
    "result.at[0]": "result.array.at",
}


@pytest.mark.parametrize(("text", "fix"), ATTRIBUTES.items())
def test_attributes_of_arrays_are_those_of_the_array_of_a_tile(text: str, fix: str) -> None:
    result, name = pto.ops.tneg(X), f"<expression {text}>"
    linecache.cache[name] = (len(text), None, [text], name)
    said = refused(lambda: eval(compile(text, name, "eval"), {"result": result}))
    assert "got an attribute of arrays on a Tile (vec 16x64xf32); allowed: its array" in said
    assert fix_of(said) == fix and eval(fix, {"result": result}) is not None
    assert not hasattr(result, "T") and not hasattr(result, "nothing")


@pytest.mark.parametrize(("text", "fix"), RESULT.items())
def test_a_tile_is_no_array(text: str, fix: str) -> None:
    result, name = pto.ops.tneg(X[:, :16]), f"<expression {text}>"
    linecache.cache[name] = (len(text), None, [text], name)
    names = {"result": result, "w": np.ones((16, 16), np.float32)}
    said = refused(lambda: eval(compile(text, name, "eval"), names))
    assert said.startswith(f"{text}: a Tile (vec 16x16xf32) is not an array; allowed: instructions")
    assert fix_of(said) == fix
    assert eval(fix, names).shape == (16, 16)


#: Functions of one number on a tile, and of its first element.
NUMBERS = {
    "float(result)": "float(result.array[0, 0])",
    "int(result)": "int(result.array[0, 0])",
    "round(result, 2)": "round(result.array[0, 0], 2)",
    "bool(result)": "bool(result.array[0, 0])",
}


@pytest.mark.parametrize(("text", "fix"), NUMBERS.items())
def test_a_tile_is_no_number(text: str, fix: str) -> None:
    result, name = pto.ops.tneg(X), f"<expression {text}>"
    linecache.cache[name] = (len(text), None, [text], name)
    said = refused(lambda: eval(compile(text, name, "eval"), {"result": result}))
    assert said.startswith(f"{text}: a Tile (vec 16x64xf32) is not an array") and fix_of(said) == fix
    assert eval(fix, {"result": result}) == eval(fix.partition("(")[0])(-1)


def test_a_tile_has_no_format_of_numbers_and_no_truth_value() -> None:
    result = pto.ops.tneg(X)
    assert f"{result}" == str(result)
    assert "a Tile (vec 16x64xf32) is not an array" in refused(lambda: f"{result:.3f}")
    assert "a Tile (vec 16x64xf32) is not an array" in refused(lambda: 1 if result else 0)


def test_an_axis_that_a_transformation_took_is_put_back() -> None:
    kernel = pto.compile(pto.parse("%z = tadd %x, %y : !pto.tile<f32, 16, 64>"))
    said = refused(lambda: jax.vmap(kernel)(X, X))
    assert said == "argument 'x': got shape (64,); allowed: vec 16x64xf32; try: X[None]"
    x = y = eval(fix_of(said))
    assert jax.vmap(kernel)(x, y)["z"].shape == (1, 16, 64)


def test_functions_take_the_array_of_a_tile() -> None:
    result = pto.ops.tneg(X)
    assert float(jnp.sum(result)) == float(np.sum(result)) == -X.size


@pytest.mark.slow
def test_codes_and_scale_are_no_weights() -> None:
    text = "nn.linear(x, nn.quantise(w))"
    names = {"nn": pto.nn, "pto": pto, "x": X, "w": np.ones((64, 32), np.float32)}
    linecache.cache["<linear>"] = (len(text), None, [text], "<linear>")
    said = refused(lambda: eval(compile(text, "<linear>", "eval"), names))
    assert said.startswith("linear: w: got scales [64, 1] of codes [64, 32], which do not belong to columns")
    assert eval(f"nn.linear(x, {fix_of(said)})", {**names, "nn": pto.nn}).shape == (16, 32)


TEXTS = {
    "z = tadd x, y : !pto.tile<f32, 4, 16>": "got the name 'z'; allowed: values, which start with %",
    "%z = tadd x, %y : !pto.tile<f32, 4, 16>": "got the name 'x'; allowed: values, which start with %",
    "%z = pto.tadd %x, y : !pto.tile<f32, 4, 16>": None,
}


@pytest.mark.parametrize(("text", "message"), TEXTS.items())
def test_names_of_values_start_with_a_sign(text: str, message: str | None) -> None:
    said = refused(lambda: pto.parse(text))
    if message is not None:
        assert message in said
        assert len(pto.parse(fix_of(said)).functions[0].body.ops) == 1


def test_methods_of_compiled_kernels_are_those_of_kernels() -> None:
    @pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
    def k(x: Any, y: Any) -> None:
        t = pto.alloc_tile("f32", 16, 64)
        pto.tload(t, pto.GlobalTensor(x, (16, 64)))
        pto.tstore(pto.GlobalTensor(y, (16, 64)), t)

    assert all(callable(getattr(k, name)) for name in ("map", "eager", "lower"))
    np.testing.assert_array_equal(k.eager(X, 0 * X)["y"], X)


def test_a_rule_of_an_execution_says_what_it_got() -> None:
    text = (
        "%z = trowmax %x, %t : (!pto.tile<f32, 16, 16, valid=?x?>, !pto.tile<f32, 16, 16>) -> "
        "!pto.tile<f32, 16, 1, blayout=col_major, valid=?x1>"
    )
    kernel = pto.compile(pto.parse(text), profile="a2a3")
    said = refused(lambda: kernel.eager(pto.tile(X[:, :16], valid=(0, 16)), X[:, :16]))
    assert "trowmax: got valid regions src 0x16, dst 0x1; allowed: valid rows and columns, or neither" in said
    kernel.eager(pto.tile(X[:, :16], valid=(16, 16)), X[:, :16])


def test_arguments_name_what_they_got() -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
    def k(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 16, 64)
        pto.tload(t, pto.GlobalTensor(x, (16, 64)))
        pto.tstore(pto.GlobalTensor(y, (16, 64)), t)

    message = "k: argument 'n': got the float 3.5; allowed: index (an integer); try: int(3.5)"
    assert refused(lambda: k(X, X, 3.5)) == message
    truth = [[True] * 64] * 16
    said = refused(lambda: k(truth, X, 3))
    assert "argument 'x': got the list" in said and fix_of(said) == "np.asarray(truth, np.float32)"
    assert k(eval(fix_of(said)), X, 3)["y"].sum() == X.size
    assert "argument 'x': got the list" in refused(lambda: k([["a"] * 64] * 16, X, 3))


@pytest.mark.slow
def test_a_device_that_exits_names_its_status(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    device = ["fuzz", "--dut", "false {program} {inputs} {outputs}", "--count", "1", "--workers", "1"]
    assert main(device) != 0
    assert "DeviceError: exit status 1: stderr is empty" in capsys.readouterr().out


@pytest.mark.slow
def test_a_focus_that_no_instruction_has_names_the_types(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["fuzz", "--only", "tadd", "--dtype", "f8e4m3", "--count", "1", "--profile", "a2a3"]
    assert main([*asked, "--tested", "jit"]) == 2
    message = (
        "tadd has no f8e4m3 on a2a3; allowed: f32, f16, bf16, i16, i32; profiles that have it: cpu_sim, a5"
    )
    assert f"{message}; try: --profile cpu_sim" in capsys.readouterr().err


def test_a_device_with_a_wrong_shape_names_both(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.pto").write_text("tadd %d, %a, %b : !pto.tile<16x64xi32>")
    Path("short.py").write_text(
        "import sys, numpy as np\n_, outputs = sys.argv[1:]\nnp.savez(outputs, d=np.zeros((3, 64), np.int32))"
    )
    Path("call.sh").write_text(f'"{sys.executable}" short.py "$2" "$3"\n')
    asked = ["fuzz", "--programs", "add.pto", "--dut", "sh call.sh {program} {inputs} {outputs}"]
    assert main([*asked, "--count", "1", "--workers", "1", "--shrink-calls", "0"]) != 0
    said = capsys.readouterr().out
    assert "crashed: DeviceError: output d: got the shape (N, N); allowed: (N, N)\n" in said
    assert "first: DeviceError: output d: got the shape (3, 64); allowed: (16, 64)\n" in said
