"""Operations that break a rule: the line that the message proposes is legal where it is pasted."""

import linecache
import re
import warnings
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.editors.documents import Document, Settings
from pto_jax.editors.edits import actions, applied
from pto_jax.errors import Diagnostic
from pto_jax.isa import instructions
from pto_jax.isa.samples.operations import legal_samples, to_program
from pto_jax.profiles import profile
from pto_jax.text import print_program
from tests.messages.test_mistakes import HEAD, STORE, X, fix_of, refused, run_kernel

TILE = "!pto.tile_buf<vec, 16x64xf32>"
HALF = "!pto.tile_buf<vec, 16x64xf16>"
VIEW = "!pto.partition_tensor_view<16x64xf32>"
WHOLE = "!pto.tensor_view<16x64xf32>"
FUNCTION = f"""\
func.func @k(%p: !pto.ptr<f32>, %q: !pto.ptr<f32>, %s: f16) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %vx = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : {WHOLE}
  %vy = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : {WHOLE}
  %x = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : {WHOLE} -> {VIEW}
  %y = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : {WHOLE} -> {VIEW}
  %t = pto.alloc_tile : {TILE}
  %h = pto.alloc_tile : {HALF}
  pto.tload ins(%x : {VIEW}) outs(%t : {TILE})
  pto.tneg ins(%t : {TILE}) outs(%t : {TILE})
  pto.tcvt ins(%t {{rmode = #pto<round_mode RINT>}} : {TILE}) outs(%h : {HALF})
  pto.tstore ins(%t : {TILE}) outs(%y : {VIEW})
  return
}}
"""
NEG = f"  pto.tneg ins(%t : {TILE}) outs(%t : {TILE})\n"


def errors(text: str) -> list[Diagnostic]:
    return [d for d in pto.verify(pto.parse(text), profile="a2a3") if d.severity == "error"]


#: A line, what is written in its place, and what the message got.
LINES = {
    "a load the other way": (
        f"  pto.tload ins(%x : {VIEW}) outs(%t : {TILE})\n",
        f"  pto.tload ins(%t : {TILE}) outs(%x : {VIEW})\n",
        "%t is a tile"),
    "a store the other way": (
        f"  pto.tstore ins(%t : {TILE}) outs(%y : {VIEW})\n",
        f"  pto.tstore ins(%y : {VIEW}) outs(%t : {TILE})\n",
        "%y is partition_tensor_view"),
    "no second source": (NEG, f"  pto.tadd ins(%t : {TILE}) outs(%t : {TILE})\n", "got 1 source operand(s)"),
    "a source too many": (
        NEG, f"  pto.tneg ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})\n", "got 2 source"),
    "no destination": (NEG, f"  pto.tneg ins(%t : {TILE})\n", "and 0 destination(s)"),
    "two element types": (
        NEG, f"  pto.tadd ins(%t, %h : {TILE}, {HALF}) outs(%t : {TILE})\n", "src1 has element type f16"),
    "a number of another type": (
        NEG, f"  pto.tadds ins(%t, %s : {TILE}, f16) outs(%t : {TILE})\n", "scalar has type f16"),
    "an index for a number": (
        NEG, f"  pto.tshls ins(%t, %c1 : {TILE}, index) outs(%t : {TILE})\n", ""),
    "tiles of the vector unit": (
        NEG, f"  pto.tmatmul ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})\n", "a is a vec tile"),
    "a flag that is not there": (
        NEG, NEG + "  pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID9>]\n", "event is 9"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "wrong", "got"), LINES.values(), ids=LINES)
def test_the_lines_of_a_fix_take_the_place_of_an_operation(line: str, wrong: str, got: str) -> None:
    assert errors(FUNCTION) == [] and line in FUNCTION
    first = errors(FUNCTION.replace(line, wrong))[0]
    assert got in first.message and first.fix and first.span is not None
    lines = FUNCTION.replace(line, wrong).splitlines()
    lines[first.span.line - 1] = first.fix
    assert errors("\n".join(lines)) == []


#: A part of a line, what is written in its place, and the pattern that the fix takes the place of.
PARTS = {
    "one stride": ("strides = [%c64, %c1]", "strides = [%c1]", r"strides = \[%c1\]"),
    "one offset": ("offsets = [%c0, %c0]", "offsets = [%c0]", r"offsets = \[%c0\]"),
    "an offset outside": ("offsets = [%c0, %c0]", "offsets = [%c16, %c0]", r"offsets = \[%c16, %c0\]"),
    "a comment of another language": ("  return\n", "  # done\n  return\n", r"# done"),
    "a memory by its buffer": (
        "%t = pto.alloc_tile : !pto.tile_buf<vec", "%t = pto.alloc_tile : !pto.tile_buf<ub", r"ub"),
    "a mode of another library": ("round_mode RINT", "round_mode NEAREST", "NEAREST"),
    "a loop without a step": (
        NEG, f"  scf.for %i = %c0 to %c16 {{\n{NEG}  }}\n", r"(?=\{$)"),
    "a use before its definition": (
        f"  %t = pto.alloc_tile : {TILE}\n",
        f"  pto.tneg ins(%t : {TILE}) outs(%t : {TILE})\n  %t = pto.alloc_tile : {TILE}\n", None),
}  # fmt: skip


@pytest.mark.parametrize(("part", "wrong", "pattern"), PARTS.values(), ids=PARTS)
def test_the_fix_takes_the_place_of_a_part_of_a_line(part: str, wrong: str, pattern: str | None) -> None:
    text = FUNCTION.replace(part, wrong, 1)
    try:
        first = errors(text)[0]
    except pto.ParseError as error:
        first = error.diagnostics[0]
    assert first.fix and first.span is not None, first
    lines = text.splitlines()
    at = first.span.line - 1
    if pattern is None:  # The definition stands before its use.
        lines.remove(f"  {first.fix}")
        lines.insert(at, first.fix)
    else:
        lines[at], count = re.subn(
            pattern, lambda _: f"{first.fix} ".rstrip(" "), lines[at], count=1, flags=re.M
        )
        assert count == 1
    assert errors("\n".join(lines)) == []


def _line(program: pto.Program) -> str:
    return print_program(program).strip()


def test_instructions_of_a_page_have_its_comments() -> None:
    assert pto.parse(f"# AS Level 1\n%z = tneg %x : {TILE}").fragment


@pytest.mark.parametrize("name", [n for n, i in instructions().items() if i.syntax == "tile" and i.type_vars])
def test_every_instruction_repairs_a_tile_of_another_type(name: str) -> None:
    target = profile("a5")
    sample = next(iter(legal_samples(instructions()[name], target)), None)
    if sample is None:
        assert not instructions()[name].types.get("a5")
        return
    text = _line(to_program(sample))
    wrong = re.sub(r"(\d+x\d+x|dtype ?= ?)(f32|f16|i32|i16|i8|u8|u32|bf16)", r"\1i64", text, count=1)
    found = [d for d in pto.verify(pto.parse(wrong), profile="a5") if d.severity == "error"]
    if found and not any("profile=" in d.fix for d in found):
        fixed = next(d.fix for d in found if d.fix)
        fixed = fixed if "ins(" in fixed or " = " in fixed else text
        assert not [d for d in pto.verify(pto.parse(fixed), profile="a5") if d.severity == "error"]


#: A wrong line of a kernel, and what the message got.
KERNEL = {
    "two element types": (
        'h = pto.alloc_tile("f16", 16, 64)\npto.tadd(t, t, h)', "src1 has element type f16"),
    "tiles of the vector unit": ("pto.tmatmul(t, u, u)", "a vec tile"),
    "a source too many": ("pto.tneg(t, t, u)", "allowed: tneg(dst, src)"),
    "a destination alone": ("pto.tadd(u)", "allowed: tadd(dst, src0, src1)"),
    "a truth value": ("pto.tadds(t, t, True)", "got True"),
    "a number as text": ("pto.tadds(t, t, '1')", "got '1'"),
    "a number of JAX": ("pto.tadds(t, t, jnp.float32(2))", "got Array(2., dtype=float32)"),
    "one stride": ("v = pto.make_tensor_view(x, [16, 64], [1])", "got 1 of strides"),
    "one offset": ("pto.tload(t, pto.partition_view(vx, [0], [16, 64]))", "got 1 of offsets"),
    "one size": ("v = pto.partition_view(vx, [0, 0], 16)", "got 16; allowed: a number for each dimension"),
    "a window outside": ("pto.tload(t, pto.partition_view(vx, [8, 0], [16, 64]))", "window [8, 24)"),
    "a float for a size": ("v = pto.make_tensor_view(x, [16.0, 64], [64, 1])", "got 16.0"),
    "a float for a bound": ("for i in pto.range(0, 4.0): pto.tneg(t, t)", "got 4.0"),
    "a valid region outside": ('v = pto.alloc_tile("f32", 16, 64, valid=(17, 64))', "v_row=17"),
    "a tile of a megabyte": ('v = pto.alloc_tile("f32", 4096, 64)', "tile of 1048576 bytes"),
    "a mode of another library": (
        'h = pto.alloc_tile("f16", 16, 64)\npto.tcvt(h, t, rmode="nearest")', "got 'nearest'"),
    "a flag that is not there": ('pto.set_flag("MTE2", "V", 9)', "event is 9"),
}  # fmt: skip
#: Where the fix is pasted, for those that take the place of a part of the line.
PASTED = {
    "a truth value": "pto.tadds(t, t, FIX)", "a number as text": "pto.tadds(t, t, FIX)",
    "one stride": "v = pto.make_tensor_view(x, [16, 64], FIX)",
    "one offset": "pto.tload(t, pto.partition_view(vx, FIX, [16, 64]))",
    "one size": "v = pto.partition_view(vx, [0, 0], FIX)",
    "a window outside": "pto.tload(t, pto.partition_view(vx, FIX, [16, 64]))",
    "a float for a size": "v = pto.make_tensor_view(x, [FIX, 64], [64, 1])",
    "a float for a bound": "for i in pto.range(0, FIX): pto.tneg(t, t)",
    "a valid region outside": "v = FIX", "a tile of a megabyte": "v = FIX",
    "a mode of another library": "pto.tcvt(h, t, FIX)",
}  # fmt: skip


@pytest.mark.parametrize("name", KERNEL)
def test_the_fix_of_a_line_of_a_kernel_works(name: str) -> None:
    line, got = KERNEL[name]
    message = refused(lambda: run_kernel(line))
    assert got in message.splitlines()[0]
    fixed = PASTED.get(name, "FIX").replace("FIX", fix_of(message))
    *before, _ = line.split("\n")
    with warnings.catch_warnings(
        action="ignore"
    ):  # Nothing has loaded the other tiles, or waits for the flag.
        run_kernel(*before, fixed)


def test_an_array_of_numpy_becomes_an_argument() -> None:
    head = HEAD.replace("@pto", "A = 2 * np.ones((16, 64), np.float32)\n@pto")
    for line in ("pto.tadd(t, t, A)", "pto.tload(t, A)"):
        names: dict[str, Any] = {}
        source = head + f"    {line}\n    {STORE}\n"
        linecache.cache["<array>"] = (len(source), None, source.splitlines(keepends=True), "<array>")
        exec(compile(source, "<array>", "exec"), names)
        message = refused(lambda: names["k"](X, X.copy(), 3, profile="a2a3"))  # noqa: B023
        assert "got an array of float32 of shape (16, 64)" in message
        fix = fix_of(message).strip()
        assert "A is an argument of the kernel" in fix
        typed = head.replace('{"x"', '{"A": pto.ptr("f32"), "x"').replace("k(x", "k(A, x")
        repaired = typed + "".join(f"    {part}\n" for part in (*fix.splitlines(), STORE))
        exec(compile(repaired, "<repaired>", "exec"), names)
        result = names["k"](2 * X, X, X.copy(), 3, profile="a2a3")["y"]
        np.testing.assert_array_equal(result, 3 * X if "tadd" in line else 2 * X)


@pytest.mark.parametrize(("line", "got"), [
    ("vx.rows", "got the attribute 'rows' of a tensor_view<16x64xf32>"),
    ("vx + 1", "vx + 1: got the view vx of global memory"),
])  # fmt: skip
def test_a_view_is_no_array(line: str, got: str) -> None:
    assert got in refused(lambda: run_kernel(line))


@pytest.mark.parametrize("name", [n for n in LINES if n != "an index for a number"])
def test_editors_offer_the_lines_of_a_fix(name: str) -> None:
    line, wrong, _ = LINES[name]
    settings = Settings(profile="a2a3")
    document = Document("k.pto", FUNCTION.replace(line, wrong))
    first = next(d for d in document.diagnostics(settings) if d.severity == "error")
    results = [applied(document.source, a.edits) for a in actions(document, first, settings)]
    assert any(errors(text) == [] for text in results)


def test_hardware_that_has_an_operation_is_the_fix() -> None:
    text = f"%z = tmov %x : {TILE} -> !pto.tile_buf<mat, 16x64xf32, blayout=col_major, slayout=row_major>"
    (first, *_) = errors(text)
    assert first.fix == 'profile="a5"'
    assert not [d for d in pto.verify(pto.parse(text), profile="a5") if d.severity == "error"]


def test_the_first_ten_wrong_instructions_of_a_text_have_searched_fixes() -> None:
    tiles = "(!pto.tile<i32, 4, 16>, !pto.tile<f16, 4, 16>) -> !pto.tile<bf16, 4, 16>"
    line = f"%z{{0}} = taddreluconv %x{{0}}, %y{{0}} : {tiles}"
    found = pto.verify(pto.parse("\n".join(line.format(i) for i in range(30))), "a2a3")
    lines = {d.span.line for d in found if d.fix and d.span}
    assert lines == set(range(1, 11)) and {d.span.line for d in found if d.span} == set(range(1, 31))


SHAPE = f"shape = [%c16, %c64], strides = [%c64, %c1] : {WHOLE}"


def test_a_shape_becomes_that_of_its_type() -> None:
    text = FUNCTION.replace(SHAPE, SHAPE.replace("[%c16, %c64]", "[%c16, %c16]"), 1)
    first = errors(text)[0]
    assert first.fix == "shape = [%c16, %c64]"
    assert errors(text.replace("shape = [%c16, %c16]", first.fix)) == []


@pytest.mark.parametrize("wrong", [
    "offsets = [%c0, %c0], sizes = [%c64, %c64] : {0} -> !pto.partition_tensor_view<?x?xf32>",
    "offsets = [%c0, %c16], sizes = [%c16, %c64] : {0} -> !pto.partition_tensor_view<?x?xf32>",
])  # fmt: skip
def test_a_window_is_moved_where_it_fits(wrong: str) -> None:
    """One that is larger than its view has no offset, so that none is proposed."""
    right = f"offsets = [%c0, %c0], sizes = [%c16, %c64] : {WHOLE} -> {VIEW}"
    text = FUNCTION.replace(right, wrong.format(WHOLE), 1).replace(
        f"pto.tload ins(%x : {VIEW})", "pto.tload ins(%x : !pto.partition_tensor_view<?x?xf32>)"
    )
    window = next(d for d in errors(text) if "window" in d.message)
    assert window.fix == ("" if "%c64, %c64" in wrong else "offsets = [%c0, %c0]")
    if window.fix:
        assert errors(text.replace("offsets = [%c0, %c16]", window.fix)) == []


def test_a_definition_of_several_lines_is_moved_whole() -> None:
    line = f"  %t = pto.alloc_tile : {TILE}\n"
    parts = "  %t = pto.alloc_tile\n    : !pto.tile_buf<vec,\n      16x64xf32>\n"
    wrong = FUNCTION.replace(line, NEG + parts)
    with pytest.raises(pto.ParseError) as raised:
        pto.parse(wrong)
    fix = raised.value.diagnostics[0].fix
    assert fix == parts.strip()
    lines = wrong.replace(parts, "")
    assert errors(lines.replace(NEG, f"{fix}\n{NEG}", 1)) == []


DYNAMIC = "!pto.tile_buf<vec, 16x64x{}, valid=?x{}>"


@pytest.mark.parametrize("cols", ["?", "64"])
def test_a_tile_of_run_time_sizes_is_made_with_them(cols: str) -> None:
    old, new = DYNAMIC.format("i32", cols), DYNAMIC.format("f32", cols)
    sizes = "valid_row = %c1 " + ("valid_col = %c64 " if cols == "?" else "")
    lines = f"  %u = pto.alloc_tile {sizes}: {old}\n  %v = pto.alloc_tile {sizes}: {new}\n"
    wrong = f"  pto.texp ins(%u : {old}) outs(%v : {new})\n"
    text = FUNCTION.replace("  return\n", f"{lines}{wrong}  return\n")
    first = errors(text)[0]
    assert first.fix and errors(text.replace(wrong, f"{first.fix}\n")) == []


def test_no_tile_without_its_sizes_is_proposed() -> None:
    t = DYNAMIC.format("f32", "?")
    with pytest.raises(pto.ParseError) as raised:
        pto.parse(
            FUNCTION.replace("  return\n", f"  pto.tneg ins(%none : {t}) outs(%none : {t})\n  return\n")
        )
    assert "got the undefined value %none" in str(raised.value) and not raised.value.diagnostics[0].fix


@pytest.mark.parametrize(
    ("name", "types", "wrong", "target"),
    [
        ("tgather", {"a": "5x32xf32", "i": "3x32xi16", "d": "3x32xf32"}, "i", "cpu_sim"),
        ("tgather", {"a": "5x32xi64", "i": "3x32xu16", "d": "3x32xi64"}, "i", "a5"),
        ("trowargmax", {"a": "5x64xbf16", "d": "16x1xi16, valid=5x1, blayout=col_major"}, "d", "a5"),
        ("tcolargmax", {"a": "5x64xu16", "d": "1x64xi16"}, "d", "a5"),
        ("tcvt", {"a": "8x32xi8", "d": "8x32xbf16"}, "d", "a2a3"),
    ],
)
def test_the_fix_changes_the_operand_of_the_message_alone(
    name: str, types: dict[str, str], wrong: str, target: str
) -> None:
    spelled = {n: f"!pto.tile_buf<vec, {t}>" for n, t in types.items()}
    *sources, destination = spelled
    ins = f"{', '.join(f'%{n}' for n in sources)} : {', '.join(spelled[n] for n in sources)}"
    text = f"pto.{name} ins({ins}) outs(%{destination} : {spelled[destination]})"
    (error,) = [d for d in pto.verify(pto.parse(text), profile=target) if d.severity == "error"]
    assert error.fix is not None
    others = [t for n, t in spelled.items() if n != wrong]
    assert spelled[wrong] not in error.fix and all(t in error.fix for t in others)
    assert error.fix.count("!pto.tile_buf<") == len(spelled)
    assert not [d for d in pto.verify(pto.parse(error.fix), profile=target) if d.severity == "error"]
