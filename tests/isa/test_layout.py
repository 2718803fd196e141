"""Spellings and rules of the rearranging instructions."""

from typing import Literal

import pytest

import pto_jax as pto
from pto_jax.profiles import profile
from pto_jax.text import print_program
from pto_jax.verifier.programs import verify_program


def errors(text: str, name: str = "a5") -> set[str | None]:
    found = verify_program(pto.parse(text), profile(name))
    return {d.rule for d in found if d.severity == "error"}


FORMS: tuple[Literal["as", "dps"], ...] = ("as", "dps")
TILE = "!pto.tile<8x16xf32>"


@pytest.mark.parametrize(
    "text",
    [
        f"%d0, %d1 = tinterleave %a, %b : {TILE}, {TILE} -> {TILE}, {TILE}",
        f"%d0, %d1 = tdeinterleave %a, %b : {TILE}, {TILE} -> {TILE}, {TILE}",
        f"%d0, %d1 = tdeinterleave %a : !pto.tile<8x32xf32> -> {TILE}, {TILE}",
        f"%d = tconcat %a, %b : {TILE}, {TILE} -> !pto.tile<8x32xf32>",
        f"%d = ttrans %a : {TILE} -> !pto.tile<16x8xf32>",
        f"pto.ttrans ins(%a, %t : {TILE}, {TILE}) outs(%d : !pto.tile<16x8xf32>)",
        f"%d = textract %a[%r, %c] : !pto.tile<16x64xf32>, index, index -> {TILE}",
        f"pto.tinsert ins(%a, %r, %c : {TILE}, index, index) outs(%d : !pto.tile<16x64xf32>)",
        f"pto.tfillpad ins(%a : {TILE}) outs(%d : {TILE}) {{padValue = 1065353216}}",
    ],
)
def test_spellings_are_legal_and_survive_printing(text: str) -> None:
    assert not errors(text)
    program = pto.parse(text)
    for form in FORMS:
        assert not errors(print_program(program, form))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"pto.tfillpad ins(%a : {TILE}) outs(%d : {TILE})", "pad-given"),
        (f"%d = tconcat %a, %b : {TILE}, {TILE} -> {TILE}", "columns-sum"),
    ],
)
def test_rules_on_one_operation(text: str, rule: str) -> None:
    assert errors(text) == {rule}


def test_a_window_at_a_known_place_lies_in_the_tile() -> None:
    text = f"""
    %r = arith.constant 9 : index
    %c = arith.constant 0 : index
    %d = textract %a[%r, %c] : !pto.tile<16x16xf32>, index, index -> {TILE}
    """
    assert errors(text) == {"window"}
