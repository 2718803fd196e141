"""Commands take C++ that the assembler emitted; ``diff`` compares it with its source."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.text.emitted import ENTRY, file, tile, view

T = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>"
)
SOURCE = f"""func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %table: !pto.ptr<i32>, %rows: index,
    %__pypto_spmd_block_idx: i32) attributes {{pto.entry}} {{
  %third = arith.constant 0.333333343 : f32
  %n = arith.constant 16 : index
  %one = arith.constant 1 : index
  %from = pto.make_tensor_view %x, shape = [%n, %n], strides = [%n, %one] : !pto.tensor_view<16x16xf32>
  %to = pto.make_tensor_view %y, shape = [%n, %n], strides = [%n, %one] : !pto.tensor_view<16x16xf32>
  %a = pto.alloc_tile : {T}
  %b = pto.alloc_tile : {T}
  pto.tload ins(%from : !pto.tensor_view<16x16xf32>) outs(%a : {T})
  pto.tmuls ins(%a, %third : {T}, f32) outs(%b : {T})
  pto.tstore ins(%b : {T}) outs(%to : !pto.tensor_view<16x16xf32>)
  return
}}
"""
BODY = (
    view("v12", "v1")
    + view("v13", "v2")
    + tile("v10")
    + "TLOAD(v10, v12); set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n"
    "    TMULS(v10, v10, v94);\n"
    "    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); TSTORE(v13, v10);"
)
EMITTED = file(BODY) + ENTRY


def test_a_source_and_its_emitted_kernel_are_equal(commands: Any) -> None:
    before, after = commands.file("k.pto", SOURCE), commands.file("k.cpp", EMITTED)
    assert commands("diff", before, after, "--count", 3) == 0
    assert "equal: y on 3 generated inputs" in commands.out


def test_the_first_instruction_that_computes_other_bits_is_named(commands: Any) -> None:
    wrong = EMITTED.replace("TMULS(v10, v10, v94)", "TADDS(v10, v10, v94)")
    before, after = commands.file("k.pto", SOURCE), commands.file("k.cpp", wrong)
    assert commands("diff", before, after, "--count", 1) == 1
    line = next(i for i, text in enumerate(wrong.splitlines(), 1) if "TADDS" in text)
    assert f"k.cpp:{line}: tadds computes something else than" in commands.out
    (folder,) = commands.folder.glob("diff-k-k-seed0-*")
    assert (folder / "after.cpp").read_text() == wrong
    assert "pto-jax diff before.pto after.cpp" in json.loads((folder / "report.json").read_text())["command"]


def test_arguments_match_by_the_names_of_the_entry(commands: Any) -> None:
    """The source has its buffers in another order; by position it would store to its input."""
    swapped = SOURCE.replace("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>", "%y: !pto.ptr<f32>, %x: !pto.ptr<f32>")
    before, after = commands.file("k.pto", swapped), commands.file("k.cpp", EMITTED)
    assert commands("diff", before, after, "--count", 2) == 0
    assert commands("diff", before, commands.file("v.cpp", file(BODY)), "--count", 1) == 1


def test_a_scalar_that_only_the_kernel_has_gets_a_value(commands: Any) -> None:
    base = file(
        BODY.replace("(v1, v12s", "(v1 + v6, v12s"),
        args="__gm__ float *v1, __gm__ float *v2, __gm__ int32_t *v3, int64_t v4, int64_t v6, int32_t v5",
    )
    before, after = commands.file("k.pto", SOURCE), commands.file("k.cpp", base)
    assert commands("diff", before, after) == 2
    assert "try: --arg v4=N for a scalar that only after has" in commands.err
    assert commands("diff", before, after, "--count", 2, "--arg", "v6=0") == 0


def test_folders_are_compared_by_path_and_by_name(commands: Any, tmp_path: Path) -> None:
    for name, text in (
        ("before/aiv/k.pto", SOURCE),
        ("before/m.pto", SOURCE),
        ("after/aiv/k.cpp", EMITTED),
        ("after/aic/m_aic.cpp", EMITTED),
        ("after/other.cpp", EMITTED),
    ):
        path = commands.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert commands("diff", "--corpus", "before", "after", "--count", 1, "--workers", 1) == 0
    assert "2 programs: 2 equal" in commands.out
    assert "only after: 1 programs, other.cpp first" in commands.out


@pytest.mark.parametrize("command", [("fmt",), ("verify",), ("cost",), ("run",), ("run", "--sanitize=uses")])
def test_commands_take_the_file(commands: Any, command: tuple[str, ...]) -> None:
    name, *options = command
    assert commands(name, commands.file("k.cpp", EMITTED), *options) == 0


def test_text_of_another_name_is_read_as_the_language_says(commands: Any) -> None:
    path = commands.file("kernel.txt", EMITTED)
    assert commands("fmt", path, "--language", "c++") == 0
    assert "pto.tmuls ins(%v10" in commands.out
    assert commands("fmt", path) == 1


def test_what_is_not_read_is_shown_with_its_place(commands: Any) -> None:
    wrong = EMITTED.replace("TMULS(v10, v10, v94)", "TWHAT(v10)")
    assert commands("verify", commands.file("k.cpp", wrong)) == 1
    line = next(i for i, text in enumerate(wrong.splitlines(), 1) if "TWHAT" in text)
    assert f"k.cpp:{line}:5: error: got the unknown intrinsic 'TWHAT'" in commands.out + commands.err
