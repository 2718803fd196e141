"""The fixes that messages on tile types propose: each is text, and the text is accepted."""

import re

import pytest

import pto_jax as pto
from pto_jax.ir import TileType
from pto_jax.isa.rules.constraints import largest

COLUMN = "!pto.tile_buf<vec, {0}x1xf32, blayout=col_major>"


def errors(text: str, profile: str = "a2a3") -> list[str]:
    return [d.message for d in pto.verify(pto.parse(text), profile) if d.severity == "error"]


@pytest.mark.parametrize(
    ("parameters", "fix"),
    [
        ("f32, 16, 1", "one number per row is a column: blayout=col_major"),
        ("f32, 13, 1", "one number per row is a column: blayout=col_major, rows=16 with v_row=13"),
        ("f32, 13, 37", "cols=40 with v_col=37"),
        ("f16, 13, 37, v_col=30", "cols=48 with v_col=30"),
        ("i8, 13, 37, v_col=?", "cols=64"),
        ("f32, 13, 37, blayout=col_major", "rows=16 with v_row=13"),
    ],
)
def test_sizes_that_are_no_whole_blocks(parameters: str, fix: str) -> None:
    found = errors(f"%d = tneg %a : !pto.tile<{parameters}>", "cpu_sim")
    assert any(m.endswith(f"allowed: a multiple of 32; try: {fix}") for m in found), found
    dtype, rows, cols, *_ = parameters.split(", ")
    keys = dict(re.findall(r"(\w+)=(\w+)", fix))
    fixed = {"dtype": dtype, "rows": rows, "cols": cols} | keys
    if "col_major" in parameters:
        fixed["blayout"] = "col_major"
    text = ", ".join(f"{k}={v}" for k, v in fixed.items())
    assert not errors(f"%d = tneg %a : !pto.tile<{text}>", "cpu_sim")


@pytest.mark.parametrize("valid", ["", "valid=13x1, ", "valid=?x1, "])
def test_a_column_for_a_lane_wise_instruction_is_named_as_a_row(valid: str) -> None:
    t = f"!pto.tile_buf<vec, 16x1xf32, {valid}blayout=col_major>"
    scale = "pto.tmuls ins({0}, %s : {1}, f32) outs({0} : {1})"
    alloc = (
        f"%c2 = arith.constant 2 : index\n%t = pto.alloc_tile {'valid_row = %c2 ' * ('?' in valid)}: {t}\n"
    )
    found = errors(f"func.func @f(%s: f32) {{\n{alloc}{scale.format('%t', t)}\nreturn\n}}")
    line = re.search(r"try: compute on the same bytes as a row: (%t_row = .* -> (\S.*))$", found[0])
    assert line is not None, found
    row = scale.format("%t_row", line.group(2))
    assert not errors(f"func.func @f(%s: f32) {{\n{alloc}{line.group(1)}\n{row}\nreturn\n}}")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (
            f"tmuls ins(%a, %s : {COLUMN.format(13)}, f32) outs(%a : {COLUMN.format(13)})",
            "allocate %a as a row of numbers, !pto.tile_buf<vec, 1x16xf32, valid=1x13>",
        ),
        (
            "%d = tneg %a : !pto.tile<f16, 16, 37, blayout=col_major>",
            "allocate %a as !pto.tile_buf<vec, 16x48xf16, valid=16x37>",
        ),
        (
            f"trowsum ins(%a, %b : {COLUMN.format(16)}, !pto.tile<f32, 16, 8>) "
            f"outs(%c : {COLUMN.format(16)})",
            "allocate %a as !pto.tile_buf<vec, 16x8xf32, valid=16x1>",
        ),
    ],
)
def test_other_column_major_tiles_are_allocated_row_major(text: str, fix: str) -> None:
    assert any(m.endswith(f"; try: {fix}") for m in errors(text))
    spelled = fix[fix.index("!pto") :]
    assert not errors(f"%d = tneg %a : {spelled}")


@pytest.mark.parametrize(
    ("parameters", "fits"),
    [
        ("vec, 4096x64xf32", "768x64"),
        ("vec, 1x65536xf32", "1x49152"),
        ("vec, 4096x65536xf32", "4096x8"),
        ("left, 1024x64xf16, slayout=row_major", "512x64"),
        ("vec, 8192x9xf32, blayout=col_major", "5456x9"),
    ],
)
def test_a_tile_too_large_names_the_largest_that_fits(parameters: str, fits: str) -> None:
    (found, *_) = [m for m in errors(f"%t = pto.alloc_tile : !pto.tile_buf<{parameters}>") if "bytes" in m]
    advice = re.search(r"the largest that fits: (\d+)x(\d+); try: !pto", found)
    assert advice is not None and "x".join(advice.groups()) == fits
    place, _, rest = parameters.partition(", ")
    _, _, rest = rest.partition("x")
    fixed = f"{place}, {fits}x{rest.partition('x')[2]}"
    assert not errors(f"%t = pto.alloc_tile : !pto.tile_buf<{fixed}>")


def test_a_tile_that_no_blocking_of_one_axis_makes_fit_gets_no_advice() -> None:
    assert largest(TileType(pto.dtype("f32"), 8192, 65536), 192 * 1024) is None
