"""The rendered instruction reference."""

from __future__ import annotations

import json

import pytest

from pto_jax.isa import find, instructions
from pto_jax.isa.reference import WIDTH, matrix, page


@pytest.mark.parametrize("name", sorted(instructions()))
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


@pytest.mark.parametrize("name", sorted(instructions()))
def test_pages_begin_with_what_a_program_needs(name: str) -> None:
    """Summary, operands and types come before the details; lines fit a terminal."""
    lines = page(instructions()[name]).splitlines()
    headings = [line.partition(" (")[0] for line in lines[1:] if line and not line.startswith(" ")]
    order = ["Class, pipe and status", "Operands", "Source operands in the text", "Element types", "Result",
             "Attributes", "Constraints", "Accuracy", "Decisions", "Sources"]  # fmt: skip
    assert headings == [h for h in order if h in headings]
    assert lines[0].startswith(f"{name}: ")
    assert all(len(line) <= WIDTH or " " not in line.strip() for line in lines)


def test_names_are_found_in_any_spelling() -> None:
    for name in instructions():
        spellings = (name, name.replace(".", "_"), f"pto.{name}", name.replace(".", "_").upper())
        assert all(find(s) is instructions()[name] for s in spellings), name
    assert find("tad") is None
