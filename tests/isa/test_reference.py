"""The rendered instruction reference."""

from __future__ import annotations

import json

import pytest

from pto_jax.errors import ArgumentError
from pto_jax.isa import find, instructions
from pto_jax.isa.reference import matrix, page, reference


@pytest.mark.parametrize("name", sorted(instructions()))
def test_pages_show_everything(name: str) -> None:
    instruction = instructions()[name]
    for style in ("text", "markdown"):
        text = page(instruction, "text" if style == "text" else "markdown")
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
    text = reference()
    assert "a2a3            f32 f16 bf16 i32 i16" in text
    assert max(len(line) for line in text.splitlines()) < 300


def test_names_are_found_in_any_spelling() -> None:
    assert reference("pto.TADD") == reference("tadd")
    for name in instructions():
        spellings = (name, name.replace(".", "_"), f"pto.{name}", name.replace(".", "_").upper())
        assert all(find(s) is instructions()[name] for s in spellings), name
    assert reference("tmatmul_mx") == reference("tmatmul.mx")
    with pytest.raises(ArgumentError, match="no instruction is called 'tad'"):
        reference("tad")
