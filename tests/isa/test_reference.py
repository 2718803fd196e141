"""The rendered instruction reference, and what pages say of values where readers would guess otherwise."""

import json

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.isa import find, instructions
from pto_jax.isa.declare import Contradiction
from pto_jax.isa.reference import WIDTH, matrix, page
from pto_jax.manual import manual
from pto_jax.profiles import ProfileName
from tests.isa.test_hardware_values import everywhere
from tests.tables import every


@every("name", sorted(instructions()))
def test_pages_show_everything(name: str) -> None:
    instruction = instructions()[name]
    for style in ("text", "markdown"):
        text = " ".join(page(instruction, "text" if style == "text" else "markdown").split())
        for operand in instruction.operands:
            assert operand.name in text
        for constraint in instruction.constraints:
            assert constraint.rule in text and constraint.allowed in text
        for decision in instruction.decisions:
            assert decision.choice in text
            assert not isinstance(decision, Contradiction) or decision.other in text
        for attribute in instruction.attributes:
            assert all(key in text for key in attribute.keys)
    record = json.loads(page(instruction, "json"))
    assert record["name"] == name and len(record["constraints"]) == len(instruction.constraints)


def test_matrix_lists_every_instruction() -> None:
    every = instructions()
    markdown = matrix(every.values(), "markdown").splitlines()
    assert len(markdown) == len(every) + 2
    assert "| tadd | elementwise |" in markdown[2 + list(every).index("tadd")]
    assert set(json.loads(matrix(every.values(), "json"))) == set(every)
    text = matrix(every.values(), "text")
    assert "a2a3            f32 f16 bf16 i32 i16" in text
    assert max(len(line) for line in text.splitlines()) < 300


@every("name", sorted(instructions()))
def test_pages_begin_with_what_a_program_needs(name: str) -> None:
    """Summary, operands and types come before the details; lines fit a terminal."""
    lines = page(instructions()[name]).splitlines()
    headings = [line.partition(" (")[0] for line in lines[1:] if line and not line.startswith(" ")]
    order = ["Class, pipe and status", "Also written", "Operands", "Source operands in the text",
             "Element types", "Result", "Attributes", "Constraints", "Tiles that share no bytes", "Accuracy",
             "Changes of the language", "Sources", "Decisions"]  # fmt: skip
    assert headings == [h for h in order if h in headings]
    assert lines[0].startswith(f"{name}: ")
    assert all(len(line) <= WIDTH or " " not in line.strip() for line in lines)


def test_pages_name_other_spellings_and_what_changed() -> None:
    assert "\nAlso written\n  tmatmul_acc\n" in page(instructions()["tmatmul.acc"])
    assert "\nAlso written\n  memref_alloc (in Python)\n" in page(instructions()["memref.alloc"])
    record = json.loads(page(instructions()["tcvt"], "json"))
    assert [c["kind"] for c in record["changes"]] == ["default"] and record["also"] == []
    assert "  2026-08 default: no sat_mode: " in page(instructions()["tcvt"])
    assert any("other_source" in d for d in record["decisions"])


def test_names_are_found_in_any_spelling() -> None:
    for name in instructions():
        spellings = (name, name.replace(".", "_"), f"pto.{name}", name.replace(".", "_").upper())
        assert all(find(s) is instructions()[name] for s in spellings), name
    assert find("tad") is None


def test_scratch_of_wide_float_row_reductions_has_a_row_for_each_of_the_source() -> None:
    """A2/A3 folds rows of more than 256 bytes in scratch, all at once."""
    from pto_jax.api import parse, verify

    def warned(cols: int, rows: int, profile: str = "a2a3", dtype: str = "f32") -> bool:
        src, tmp = f"!pto.tile_buf<vec, 16x{cols}x{dtype}>", f"!pto.tile_buf<vec, {rows}x{cols}x{dtype}>"
        dst = f"!pto.tile_buf<vec, 16x1x{dtype}, blayout=col_major>"
        made = f"%s = pto.alloc_tile : {src} %t = pto.alloc_tile : {tmp} %d = pto.alloc_tile : {dst}"
        text = f"func.func @k() {{ {made} pto.trowmax ins(%s, %t : {src}, {tmp}) outs(%d : {dst}) return }}"
        return any(d.rule == "tmp-size" for d in verify(parse(text), profile))

    assert warned(128, 1) and not warned(128, 16) and not warned(64, 1)
    assert not warned(128, 1, "a5") and not warned(128, 1, dtype="i32")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tmov.fp", "two's complement"),
        ("tsort32", "a zero word"),
        ("tpartargmax", "on a5 also where one is NaN"),
        ("tile", "left, right, top and bottom"),
        ("tile", "one row of all elements"),
        ("tquant.mx", "-0 included"),
        ("taddc", "f32 rounds after each of the two operations"),
        ("tsubsc", "f32 rounds after each of the two operations"),
        ("tcvt", "65504 in f16"),
        ("tcmp", "On cpu_sim the mask tile is cleared first"),
        ("tload", "floats of 8 and 4 bits have zero only"),
        ("tshls", "modulo 32"),
    ],
)
def test_pages_name_the_value(name: str, words: str) -> None:
    assert words in " ".join(manual(name).split())


@pytest.mark.parametrize(
    ("profile", "source", "target", "attributes", "rule"),
    [
        ("a2a3", "i32", "f16", "rmode = #pto<round_mode floor>", "rounding-effect"),
        ("a2a3", "i32", "f16", "rmode = #pto<round_mode rint>", None),
        ("a5", "f32", "hif8", "rmode = #pto<round_mode trunc>", "rounding-effect"),
        ("a5", "i16", "u32", "sat_mode = #pto<saturation_mode off>", "saturation-effect"),
        ("a5", "i16", "u32", "sat_mode = #pto<saturation_mode on>", None),
    ],
)
def test_modes_of_tcvt_without_effect_are_named(
    profile: ProfileName, source: str, target: str, attributes: str, rule: str | None
) -> None:
    tiles = [f"!pto.tile_buf<vec, 1x32x{d}>" for d in (source, target)]
    text = f"pto.tcvt ins(%a : {tiles[0]}) outs(%d : {tiles[1]}) {{{attributes}}}"
    found = pto.verify(pto.parse(text), profile=profile)
    assert [d.rule for d in found] == ([] if rule is None else [rule])


def test_tcvt_does_what_its_page_says() -> None:
    def converted(
        profile: ProfileName, source: str, target: str, x: object, attributes: str = ""
    ) -> list[float]:
        tiles = [f"!pto.tile_buf<vec, 1x32x{d}>" for d in (source, target)]
        text = f"pto.tcvt ins(%a : {tiles[0]}) outs(%d : {tiles[1]}) {{{attributes}}}"
        values = np.resize(np.asarray(x, pto.dtype(source).numpy), (1, 32))
        (got,) = everywhere(text, profile, {"a": values}, "d")
        return [float(v) for v in got[0, :3]]

    on, floor = "sat_mode = #pto<saturation_mode on>", "rmode = #pto<round_mode floor>"
    assert converted("cpu_sim", "f32", "f16", [np.inf, np.nan, 1.5], on) == [65504, 65504, 1.5]
    assert converted("cpu_sim", "i64", "i64", [(1 << 53) + 1, 5, -1], on) == [1 << 53, 5, -1]
    assert converted("a2a3", "i32", "f16", [2051, 2049, 1], floor) == [2052, 2048, 1]
    assert converted("a5", "i16", "u32", [-1, 5, -9], "sat_mode = #pto<saturation_mode off>") == [0, 5, 0]
    assert converted("a5", "f32", "f32", [1.5, 2.5, -0.7]) == [2, 2, -1]
    assert converted("a2a3", "f32", "i32", [1.7, -1.7, 2.5], "rmode = #pto<round_mode odd>") == [1, -1, 2]
