"""``pto-jax diff``: translation validation of a pass over a program."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.files import read_text
from pto_jax.generate.inputs import STYLES, draw, shape_of
from pto_jax.ir import ALL_DTYPES, BF16, F16, F32, I8, DType, MemRefType, PtrType, TensorViewType
from pto_jax.validation.translation import pair, validate

ADDED = ("pto.tmuls ins(%t, %two : {0}, f32)", "pto.tadd ins(%t, %t : {0}, {0})")
OTHER = ("constant 2.0", "constant 2.0000002384185791")
#: The loop makes one trip more, which leaves the buffer where the program before does not.
LONGER = ("%i = %c0 to %n step", "%i = %c0 to %c5 step")


def changed(text: str, *replacement: str) -> str:
    tile = "!pto.tile_buf<vec, 4x16xf32>"
    old, new = (part.format(tile) for part in replacement)
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def files(commands: Any, doubled: str) -> tuple[Path, Path]:
    return commands.file("before.pto", doubled), commands.file("after.pto", changed(doubled, *ADDED))


def test_a_correct_pass_is_equal_on_every_input(commands: Any, files: tuple[Path, Path]) -> None:
    assert commands("diff", *files, "--count", 6, "--seed", 1) == 0, commands.err
    assert commands.out == "equal: y on 6 generated inputs, seed 1 (profile a2a3, numerics exact)\n"


def test_a_wait_that_a_pass_has_lost_is_a_new_warning(commands: Any) -> None:
    text = read_text(EXAMPLES["add_relu_convert"].path)
    (lost, *_) = [line for line in text.splitlines(keepends=True) if "pto.wait_flag" in line]
    files = commands.file("before.pto", text), commands.file("after.pto", text.replace(lost, ""))
    assert commands("diff", *files, "--count", 1) == 0, commands.err
    assert "after.pto:" in commands.out and "nothing orders it after" in commands.out
    assert commands.out.splitlines()[-1].startswith("equal: ")
    assert commands("diff", files[1], files[1], "--count", 1) == 0 and "warning" not in commands.out


_DYNAMIC, _VIEW = "!pto.tile_buf<vec, 4x16xf32, valid=?x16>", "!pto.tensor_view<?x?xf32>"
_PART = "!pto.partition_tensor_view<?x16xf32>"
#: -x, four rows at a time.
NEGATED = f"""\
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %xv = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {_VIEW}
  %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {_VIEW}
  %t = pto.alloc_tile valid_row = %c4 : {_DYNAMIC}
  scf.for %i = %c0 to %c4 step %c1 {{
    %r = arith.muli %i, %c4 : index
    %xp = pto.partition_view %xv, offsets = [%r, %c0], sizes = [%c4, %c16] : {_VIEW} -> {_PART}
    %yp = pto.partition_view %yv, offsets = [%r, %c0], sizes = [%c4, %c16] : {_VIEW} -> {_PART}
    pto.tload ins(%xp : {_PART}) outs(%t : {_DYNAMIC})
    pto.tneg ins(%t : {_DYNAMIC}) outs(%t : {_DYNAMIC})
    pto.tstore ins(%t : {_DYNAMIC}) outs(%yp : {_PART})
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("valid_row = %c4", "valid_row = %c2", "alloc_tile"),
        ("to %c4 step", "to %c2 step", "scf.for"),
        (
            "%x, shape = [%c16, %c16], strides = [%c16",
            "%x, shape = [%c16, %c16], strides = [%c4",
            "make_tensor_view",
        ),
        ("%yv, offsets = [%r, %c0]", "%yv, offsets = [%i, %c0]", "partition_view"),
    ],
)
def test_the_only_change_is_named(commands: Any, old: str, new: str, name: str) -> None:
    after = NEGATED.replace(old, new)
    assert after != NEGATED
    files = commands.file("before.pto", NEGATED), commands.file("after.pto", after)
    assert commands("diff", *files, "--count", 1, "--failures", "found") == 1, commands.err
    (line,) = [line for line in commands.out.splitlines() if line.startswith("the only change: ")]
    assert line.startswith(f"the only change: {name} (")
    assert "before.pto:" in line
    assert "after.pto:" in line


def test_a_difference_leaves_a_folder_that_reproduces_it(
    commands: Any, files: tuple[Path, Path], doubled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = commands.file("wrong.pto", changed(doubled, *OTHER))
    assert commands("diff", files[0], wrong, "--failures", "found", "--arg", "n=2") == 1
    found, part, where = commands.out.splitlines()
    assert found.startswith("different: input 0: y[") and " ULP apart; " in found
    assert (
        part == "the programs part where wrong.pto:5: tmuls computes something else than before.pto:5: tmuls"
    )
    folder = Path("found/diff-before-wrong-seed0-0")
    assert where == f"programs, input, outputs and report.json are in {folder}"
    report = json.loads((folder / "report.json").read_text())
    index = report["index"]
    with np.load(folder / "before-outputs.npz") as before, np.load(folder / "after-outputs.npz") as after:
        assert before["y"].view(np.uint32)[index] == int(report["before_bits"], 16)
        assert after["y"].view(np.uint32)[index] == int(report["after_bits"], 16)
        assert (before["y"].view(np.uint32) != after["y"].view(np.uint32)).sum() == report["different"]
    assert (folder / "after.pto").read_text() == wrong.read_text()
    monkeypatch.chdir(folder)
    command = shlex.split(report["command"])
    assert commands(*command[1:]) == 1 and f"y[{index}]" in commands.out
    with np.load("inputs.npz") as inputs:
        assert inputs["n"] == 2


def test_a_second_failure_gets_a_folder_of_its_own(
    commands: Any, files: tuple[Path, Path], doubled: str
) -> None:
    wrong = commands.file("wrong.pto", changed(doubled, *OTHER))
    for _ in range(2):
        assert commands("diff", files[0], wrong, "--arg", "n=2", "--count", 1) == 1
    assert sorted(p.name for p in Path().glob("diff-*")) == [
        "diff-before-wrong-seed0-0",
        "diff-before-wrong-seed0-0-2",
    ]


def test_a_rule_that_only_the_program_after_breaks_is_a_difference(
    commands: Any, files: tuple[Path, Path], doubled: str
) -> None:
    longer = changed(doubled, *LONGER).replace("%c4 = ", "%c5 = arith.constant 5 : index\n    %c4 = ")
    assert commands("diff", files[0], commands.file("longer.pto", longer), "--count", 1) == 1
    assert "different: input 0: only the program after breaks a rule: longer.pto:" in commands.out
    assert "index" not in json.loads(Path("diff-before-longer-seed0-0/report.json").read_text())


def test_inputs_that_the_program_before_refuses_are_not_used(doubled: str) -> None:
    program = pto.parse(doubled)
    result = validate(pair(program, program), count=8, seed=1)
    assert result.failure is None and result.compared == 8 and result.refused > 0


def test_buffers_may_change_their_kind_and_names(doubled: str) -> None:
    after = changed(doubled, "%x: !pto.ptr<f32>", "%in: memref<16x16xf32>").replace(
        "make_tensor_view %x", "make_tensor_view %in"
    )
    both = pair(pto.parse(doubled), pto.parse(after))
    assert validate(both, count=1, scalars={"n": 1}).failure is None


def test_fragments_are_compared_by_name() -> None:
    before = pto.parse("%c = tadd %a, %b : !pto.tile<4x16xf32>")
    swapped = pto.parse("%c = tadd %b, %a : !pto.tile<4x16xf32>")
    other = pto.parse("%c = tsub %b, %a : !pto.tile<4x16xf32>")
    assert validate(pair(before, swapped), count=4).failure is None
    failure = validate(pair(before, other), count=4).failure
    assert failure is not None and "c[0, " in str(failure)


SIGNATURES: dict[str, tuple[tuple[str, str], str]] = {
    "fewer": ((", %n: index)", ")"), "the arguments differ: main(x: ptr<f32>, y: ptr<f32>, n: index)"),
    "other type": (("%n: index)", "%n: i32)"), "argument 2 differs: before n: index, after n: i32"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_programs_with_other_arguments_cannot_be_compared(
    name: str, commands: Any, files: tuple[Path, Path], doubled: str
) -> None:
    replacement, message = SIGNATURES[name]
    text = changed(doubled, *replacement).replace("to %n step", "to %c4 step")
    assert commands("diff", files[0], commands.file("other.pto", text)) == 2
    assert message in commands.err and commands.err.count("\n") == 1


WRONG: dict[str, tuple[tuple[object, ...], str]] = {
    "no count": (("--count", 0), "--count: got 0; allowed: 1 or more"),
    "negative seed": (("--seed", -1), "--seed: got -1; allowed: 0 or more"),
    "unknown argument": (("--arg", "m=1"), "got the scalar argument 'm'; allowed: n"),
    "no number": (("--arg", "n=x"), "allowed: NAME=N with an integer N"),
    "nothing fits": (
        ("--arg", "n=9"),
        "none of 60 generated inputs keeps to the rules of the program before",
    ),
    "missing input": (("--inputs", "none.npz"), "none.npz: no such file"),
    "unknown profile": (("--profile", "a9"), "got 'a9'; allowed: cpu_sim, a2a3, a5"),
    "no blocks": (("--grid", 0), "grid: got 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_one_clear_line(name: str, commands: Any, files: tuple[Path, Path]) -> None:
    args, message = WRONG[name]
    assert commands("diff", *files, *args) == 2
    assert message in commands.err and "Traceback" not in commands.err
    assert commands.err.rstrip().splitlines()[-1].startswith("pto-jax diff: error: ")


def test_missing_and_unwritable_files_are_named(
    commands: Any, files: tuple[Path, Path], doubled: str
) -> None:
    assert commands("diff", files[0], "none.pto") == 2 and "none.pto: no such file" in commands.err
    wrong = commands.file("wrong.pto", changed(doubled, *OTHER))
    commands.file("taken", "")
    assert commands("diff", files[0], wrong, "--arg", "n=2", "--failures", "taken") == 2
    assert "taken" in commands.err and "cannot be made" in commands.err


def test_programs_that_write_nothing_cannot_be_compared(commands: Any) -> None:
    file = commands.file("f.pto", "func.func @f(%x: !pto.ptr<f32>) {\n  return\n}\n")
    assert commands("diff", file, file) == 2
    assert "got two programs that write no buffer" in commands.err


@pytest.mark.parametrize("d", ALL_DTYPES, ids=str)
def test_every_element_type_has_values_of_every_style(d: DType) -> None:
    for style in STYLES:
        values = draw(np.random.default_rng(1), d, (40, 5), style)
        assert values.shape == (40, 5) and values.dtype == (bool if d.name == "i1" else d.numpy)


def test_special_values_occur_and_large_arrays_repeat() -> None:
    rng = np.random.default_rng(0)
    special = draw(rng, F16, (4000,), "special").astype(np.float32)
    assert np.isnan(special).any() and np.isinf(special).any() and np.nanmedian(np.abs(special)) < 8
    assert not np.isnan(draw(rng, BF16, (4000,), "ordinary").astype(np.float32)).any()
    assert draw(rng, I8, (1100, 1000), "bits").shape == (1100, 1000)
    assert shape_of(PtrType(F32), None) == (1 << 16,)
    assert shape_of(TensorViewType((None, 3), F32), None) == (64, 3)
    assert shape_of(MemRefType((2, 3), F32, strides=(8, 1)), 11) == (11,)


CONVERTS = """module {
func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f16>) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %large = arith.constant 1.0e6 : f32
  %xv = pto.make_tensor_view %x, shape = [%c1, %c32], strides = [%c32, %c1] : !pto.tensor_view<?x?xf32>
  %yv = pto.make_tensor_view %y, shape = [%c1, %c32], strides = [%c32, %c1] : !pto.tensor_view<?x?xf16>
  %xw = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c1, %c32]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x32xf32>
  %yw = pto.partition_view %yv, offsets = [%c0, %c0], sizes = [%c1, %c32]
    : !pto.tensor_view<?x?xf16> -> !pto.partition_tensor_view<1x32xf16>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x32xf32>
  %h = pto.alloc_tile : !pto.tile_buf<vec, 1x32xf16>
  pto.tload ins(%xw : !pto.partition_tensor_view<1x32xf32>) outs(%t : !pto.tile_buf<vec, 1x32xf32>)
  pto.texpands ins(%large : f32) outs(%t : !pto.tile_buf<vec, 1x32xf32>)
  pto.tcvt ins(%t : !pto.tile_buf<vec, 1x32xf32>) outs(%h : !pto.tile_buf<vec, 1x32xf16>)
  pto.tstore ins(%h : !pto.tile_buf<vec, 1x32xf16>) outs(%yw : !pto.partition_tensor_view<1x32xf16>)
  return
}
}
"""


def test_one_text_runs_under_two_versions_of_the_language(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = commands.file("convert.pto", CONVERTS)
    same = ("--profile", "a5", "--count", "2")
    assert commands("diff", file, file, *same) == 0
    assert commands("diff", file, file, *same, "--language", "2026-04") == 0
    versions = ("--language", "2026-04", "--language-after", "2026-08")
    assert commands("diff", file, file, *same, *versions, "--failures", "found") == 1
    assert "different: input 0: y[" in commands.out
    folder = next(Path("found").iterdir())
    report = json.loads((folder / "report.json").read_text())
    assert (int(report["before_bits"], 16), int(report["after_bits"], 16)) == (0x7BFF, 0x7C00)
    monkeypatch.chdir(folder)
    assert commands(*shlex.split(report["command"])[1:]) == 1


def test_versions_are_options_of_commands_that_read_programs(commands: Any) -> None:
    file = commands.file("convert.pto", CONVERTS)
    assert commands("fmt", file) == 0
    assert 'pto.language = "2026-08"' in commands.out and "sat_mode" not in commands.out
    assert commands("fmt", file, "--language", "2026-04") == 0
    assert 'pto.language = "2026-04"' in commands.out and "sat_mode" not in commands.out
    again = commands.file("again.pto", commands.out)
    assert (
        commands("diff", again, file, "--profile", "a5", "--count", "1", "--language-after", "2026-04") == 0
    )
    assert commands("verify", file, "--language", "2026-04") == 0
    assert commands("verify", file, "--language", "2025-01") == 2 and "2026-04" in commands.err


def test_the_changes_of_the_language_are_one_table(commands: Any) -> None:
    assert commands("isa", "--changes") == 0
    lines = commands.out.splitlines()
    assert lines[0].startswith("2026-08 tcvt default: ") and lines[0].endswith(" -> OFF")
    assert any(line.startswith("2026-08 taddrelu new") for line in lines)
    assert commands("isa", "--changes", "--json") == 0
    assert {row["kind"] for row in json.loads(commands.out)} == {"default", "new", "removed", "form", "rule"}


EXPANSION = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: !pto.ptr<{0}, gm>, %y: !pto.ptr<{0}, gm>) attributes {{pto.kernel}} {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %size = arith.constant 256 : i64
    %step = arith.constant 1 : {0}
    %odd = arith.constant {1} : {0}
    %ub = pto.castptr %zero : i64 -> !pto.ptr<{0}, ub>
    pto.mte_gm_ub %x, %ub, %zero, %size nburst(%one, %size, %size)
      : !pto.ptr<{0}, gm>, !pto.ptr<{0}, ub>, i64, i64, i64, i64, i64
    pto.vecscope {{
      %all = pto.pset_b{2} "PAT_ALL" : !pto.mask<b{2}>
      %r = pto.vlds %ub[%c0] : !pto.ptr<{0}, ub> -> !pto.vreg<{3}x{0}>
      %s = pto.vadds %r, %step, %all : !pto.vreg<{3}x{0}>, {0}, !pto.mask<b{2}> -> !pto.vreg<{3}x{0}>
      {4}
      pto.vsts %t, %ub[%c0], %all : !pto.vreg<{3}x{0}>, !pto.ptr<{0}, ub>, !pto.mask<b{2}>
    }}
    pto.mte_ub_gm %ub, %y, %size nburst(%one, %size, %size)
      : !pto.ptr<{0}, ub>, !pto.ptr<{0}, gm>, i64, i64, i64, i64
    return
  }}
}}
"""
RIGHT = "%t = pto.vadds %r, %step, %all : !pto.vreg<{1}x{0}>, {0}, !pto.mask<b{2}> -> !pto.vreg<{1}x{0}>"
ONE_WRONG = """%m = pto.vcmps %r, %odd, %all, "eq"
        : !pto.vreg<{1}x{0}>, {0}, !pto.mask<b{2}> -> !pto.mask<b{2}>
      %t = pto.vsel %r, %s, %m
        : !pto.vreg<{1}x{0}>, !pto.vreg<{1}x{0}>, !pto.mask<b{2}> -> !pto.vreg<{1}x{0}>"""


@pytest.mark.variants(1)
@pytest.mark.parametrize(("element", "bits", "value"), [("i16", 16, -12345), ("i8", 8, 77)])
def test_every_value_of_small_elements_is_tried(commands: Any, element: str, bits: int, value: int) -> None:
    lanes = 2048 // bits
    texts = [
        EXPANSION.format(element, value, bits, lanes, line.format(element, lanes, bits))
        for line in (RIGHT, ONE_WRONG)
    ]
    before, after, same = (
        commands.file(n, t) for n, t in zip(("b.pto", "a.pto", "s.pto"), (*texts, texts[0]), strict=True)
    )
    assert commands("diff", before, same, "--count", 1, "--exhaustive") == 0, commands.err
    assert ", with every value of x (profile a5" in commands.out
    assert commands("diff", before, after, "--count", 1, "--exhaustive") == 1
    assert "1 of" in commands.out


def test_values_of_larger_elements_are_not_enumerated(commands: Any, files: tuple[Path, Path]) -> None:
    assert commands("diff", *files, "--count", 1, "--exhaustive") == 2
    assert "no source has such elements; allowed: elements of one or two bytes" in commands.err
    assert commands("diff", *files, "--exhaustive", "--corpus") == 2
