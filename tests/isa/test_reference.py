"""The rendered instruction reference."""

from __future__ import annotations

import json

from pto_jax.isa import find, instructions
from pto_jax.isa.declare import Contradiction
from pto_jax.isa.reference import WIDTH, matrix, page
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
