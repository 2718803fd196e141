"""Legality of data that leaves an accumulator or crosses between buffers."""

from typing import Literal

import pytest

import pto_jax as pto
from pto_jax.isa.rules.block_scales import quant_mode
from pto_jax.profiles import PROFILE_NAMES, profile
from pto_jax.text import print_program
from pto_jax.verifier.programs import verify_program

LAYOUTS = {
    "nd": "blayout=row_major, slayout=none_box",
    "dn": "blayout=col_major, slayout=none_box",
    "nz": "blayout=col_major, slayout=row_major",
    "zz": "blayout=row_major, slayout=row_major",
    "zn": "blayout=row_major, slayout=col_major",
}


def tile(text: str, layout: str = "", rows: int = 32, cols: int = 32) -> str:
    """A tile type from ``acc f32``; matrix tiles are NZ and others ND unless a layout is given."""
    loc, d = text.split()
    order = LAYOUTS[layout or {"mat": "nz", "acc": "nz", "left": "nz", "right": "zn"}.get(loc, "nd")]
    fractal = 1024 if loc == "acc" else 512
    return (
        f"!pto.tile_buf<loc={loc}, dtype={d}, rows={rows}, cols={cols}, v_row={rows}, v_col={cols}, {order}, "
        f"fractal={fractal}, pad=0>"
    )


def found(text: str, name: str) -> dict[str | None, str]:
    return {d.rule: d.severity for d in verify_program(pto.parse(text), profile(name))}


def errors(text: str, name: str) -> set[str | None]:
    return {rule for rule, severity in found(text, name).items() if severity == "error"}


def move(src: str, dst: str, extra: str = "") -> str:
    return f"pto.tmov ins(%s : {src}) outs(%d : {dst}) {extra}"


def scaled(src: str, dst: str, extra: str = "") -> str:
    return f"pto.tmov ins(%s, %q : {src}, i64) outs(%d : {dst}) {extra}"


def with_row(fp: str) -> str:
    return f"pto.tmov ins(%s, %f : {tile('acc f32')}, {fp}) outs(%d : {tile('mat i8')})"


FP = tile("scaling ui64", rows=1)
RELU = "{reluPreMode = #pto<relu_pre_mode normal_relu>}"
DUAL = "{accToVecMode = #pto.acc_to_vec_mode<dual_mode_split_m>}"


@pytest.mark.parametrize(
    ("src", "dst", "legal"),
    [
        ("mat f16", "left f16", "a2a3 a5"),
        ("mat f16", "right f16", "a2a3 a5"),
        ("mat f16", "vec f16", ""),
        ("vec f16", "mat f16", "a5"),
        ("vec f16", "left f16", ""),
        ("acc f32", "mat f16", "a2a3 a5"),
        ("acc f32", "mat f32", "a5"),
        ("acc f32", "vec f32", "a2a3 a5"),
        ("acc f32", "mat i8", ""),
        ("acc i32", "mat i32", "a5"),
        ("mat f16", "left bf16", ""),
        ("mat i16", "left i16", "a2a3"),
    ],
)
def test_places_and_types_of_moves(src: str, dst: str, legal: str) -> None:
    text = move(tile(src), tile(dst))
    assert {n for n in PROFILE_NAMES if not errors(text, n)} == {"cpu_sim", *legal.split()}


@pytest.mark.parametrize(
    ("src", "dst", "legal"),
    [
        ("acc f32", "i8", "a2a3 a5"),
        ("acc f32", "ui8", "a5"),
        ("acc f32", "f16", "a5"),
        ("acc f32", "hif8", "a5"),
        ("acc i32", "f16", "a2a3 a5"),
        ("acc i32", "i16", "a2a3"),
        ("acc i32", "bf16", "a5"),
        ("vec f32", "i8", ""),
    ],
)
def test_quantised_moves(src: str, dst: str, legal: str) -> None:
    text = scaled(tile(src), tile(f"mat {dst}"))
    assert {n for n in ("a2a3", "a5") if not errors(text, n)} == set(legal.split())


@pytest.mark.parametrize(
    ("text", "name", "rule"),
    [
        (move(tile("vec f32"), tile("vec f32"), RELU), "a5", "acc-only"),
        (move(tile("acc f32"), tile("mat f16"), DUAL), "a5", "acc-only"),
        (scaled(tile("acc f32"), tile("vec i8"), DUAL), "a5", "dual-mode"),
        (move(tile("acc f32"), tile("vec f32", "dn"), DUAL), "a5", "dual-mode"),
        (move(tile("acc f32", "zz"), tile("mat f16")), "a5", "acc-layout"),
        (move(tile("acc f32"), tile("mat f16", "nd")), "a2a3", "acc-layout"),
        (move(tile("mat f16"), tile("right f16", "nz")), "a2a3", "cube-layout"),
        (move(tile("mat f32", "nd", 1, 8), tile("bias f32", rows=1, cols=8)), "a2a3", "small-buffer"),
        (move(tile("mat f32", "nd", 1), tile("scaling f32", rows=1)), "a5", "place-types"),
        (f"pto.tmov ins(%s, %q : {tile('acc f32')}, f32) outs(%d : {tile('mat i8')})", "a5", "word-type"),
        (with_row(tile("vec ui64", rows=1)), "a2a3", "fp-place"),
    ],
)
def test_rules_on_one_move(text: str, name: str, rule: str) -> None:
    assert errors(text, name) == {rule}


def test_what_is_only_warned_of() -> None:
    assert found(move(tile("acc f32"), tile("vec f32")), "a2a3") == {"acc-to-vec": "warning"}
    assert found(with_row(tile("scaling f16", rows=1)), "a2a3") == {"fp-type": "warning"}


FORMS: tuple[Literal["as", "dps"], ...] = ("as", "dps")
ACC, WIDE = tile("acc f32"), tile("acc f32", rows=64, cols=64)
VIEW = "!pto.partition_tensor_view<32x32xi8>"


@pytest.mark.parametrize(
    "text",
    [
        f"%d = tmov.fp %s, %f : {ACC}, {FP} -> {tile('mat i8')}",
        f"pto.tmov_fp ins(%s, %f : {ACC}, {FP}) outs(%d : {tile('mat i8')}) {RELU}",
        f"%d = textract.fp %s, %f[%r, %c] : {WIDE}, {FP}, index, index -> {tile('mat i8')}",
        f"pto.textract_fp ins(%s, %f, %r, %c : {WIDE}, {FP}, index, index) outs(%d : {tile('mat i8')})",
        f"pto.tinsert_fp ins(%s, %f, %r, %c : {ACC}, {FP}, index, index) "
        f"outs(%d : {tile('mat i8', rows=64, cols=64)})",
        f"pto.textract ins(%s, %q, %r, %c : {WIDE}, i64, index, index) outs(%d : {tile('mat i8')})",
        f"pto.tstore_fp ins(%s, %f : {ACC}, {FP}) outs(%d : {VIEW})",
        f"pto.tstore ins(%s, %q : {ACC}, i64) outs(%d : {VIEW}) {RELU}",
        scaled(ACC, tile("mat i8"), RELU),
    ],
)
def test_spellings_are_legal_and_survive_printing(text: str) -> None:
    for name in PROFILE_NAMES:
        assert not errors(text, name)
    program = pto.parse(text)
    for form in FORMS:
        assert not errors(print_program(program, form), "a2a3")


def test_modes_follow_the_element_types() -> None:
    scalar = quant_mode("a2a3", "f32", "i8", vector=False)
    vector = quant_mode("a2a3", "f32", "i8", vector=True)
    assert scalar is not None and vector is not None
    assert (scalar.short, vector.short) == (True, True)
    simulated = quant_mode("cpu_sim", "f32", "i8", vector=False)
    assert simulated is not None and not simulated.short
    assert quant_mode("a2a3", "f32", "f16", vector=True) is None
    assert quant_mode("a5", "i32", "i16", vector=False) is None
