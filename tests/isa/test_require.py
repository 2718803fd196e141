"""Rules of one expression: what they check, say, test on run-time sizes and break."""

from dataclasses import replace

import pytest

from pto_jax.api import parse
from pto_jax.ir import F16, F32, Loc, TileType
from pto_jax.isa import Constraint, instructions
from pto_jax.isa.rules.require import QUANTITIES, Rule, require
from pto_jax.profiles import profile
from pto_jax.verifier.programs import verify_program

FULL = TileType(F32, 16, 64)


def messages(constraint: Constraint, dst: str, src: str, profile_name: str = "a5") -> list[str]:
    """What an instruction that has this rule alone reports about it."""
    instruction = instructions()["tabs"]
    kept = instruction.constraints
    text = f"pto.tabs ins(%s : !pto.tile_buf<{src}>) outs(%d : !pto.tile_buf<{dst}>)"
    object.__setattr__(instruction, "constraints", (constraint,))
    try:
        found = verify_program(parse(text), profile(profile_name))
    finally:
        object.__setattr__(instruction, "constraints", kept)
    return [d.message.partition("; try: ")[0] for d in found if d.rule == constraint.rule]


CASES = [
    ("dst.bytes <= src.bytes", "vec, 16x64xf32", "vec, 16x32xf32",
     "dst has 4096 bytes; allowed: at most 2048, the bytes of src"),
    ("dst.rows >= src.valid_rows", "vec, 1x64xf32", "vec, 8x64xf32",
     "dst has 1 row; allowed: at least 8, the valid rows of src"),
    ("src.dtype == dst.dtype", "vec, 16x64xf32", "vec, 16x64xf16",
     "src has element type f16; allowed: f32, the element type of dst"),
    ("src.loc == vec", "vec, 16x64xf32", "acc, 16x64xf32", "src is an acc tile; allowed: vec"),
    ("dst.cols % 128 == 0", "vec, 16x64xf32", "vec, 16x64xf32",
     "dst has 64 columns; allowed: a multiple of 128"),
    ("dst.layout == ZZ", "vec, 16x64xf32", "vec, 16x64xf32",
     "dst has layout ND; allowed: ZZ (row_major, boxes row_major)"),
    ("dst.rows >= 32 and dst.rows % 64 == 0", "vec, 16x64xf32", "vec, 16x64xf32",
     "dst has 16 rows; allowed: at least 32 and a multiple of 64"),
    ("dst.rows == 1 or dst.cols == 1", "vec, 16x64xf32", "vec, 16x64xf32",
     "dst has 16 rows; allowed: 1, or 1 for the columns of dst"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "dst", "src", "message"), CASES)
def test_a_message_has_the_numbers_of_the_operation(condition: str, dst: str, src: str, message: str) -> None:
    assert messages(require("r", condition, source="test"), dst, src) == [message]


def test_a_rule_does_not_object_to_unknown_sizes() -> None:
    rule = require("r", "dst.valid_rows == src.valid_rows and dst.cols == 1", source="test")
    assert messages(rule, "vec, 16x64xf32, valid=?x64", "vec, 16x64xf32") == [
        "dst has 64 columns; allowed: 1"
    ]
    rule = require("r", "dst.valid_rows == src.valid_rows", source="test")
    assert messages(rule, "vec, 16x64xf32, valid=?x64", "vec, 16x64xf32") == []


def test_a_guard_a_reason_and_profiles_are_part_of_the_message() -> None:
    rule = require(
        "r", "it.rows == 1", ("a5",), it=("dst", "src"), when="it.cols != 8", why="a row", source="t"
    )
    assert rule.allowed == "rows of dst, src: 1 (a row), where the columns of the operand are not 8"
    assert messages(rule, "vec, 16x8xf32", "vec, 16x64xf32") == ["src has 16 rows; allowed on a5: 1 (a row)"]
    assert messages(rule, "vec, 16x8xf32", "vec, 16x64xf32", "a2a3") == []


def test_a_comparison_of_valid_sizes_is_a_test_of_run_time_sizes() -> None:
    rule = require("r", "dst.cols >= src0.valid_cols + src1.valid_cols", run_time=True, source="test")
    assert rule.region is not None
    sizes = {"dst": (4, 64), "src0": (4, 40), "src1": (4, 24)}
    types = dict.fromkeys(sizes, FULL)
    assert not rule.region.broken(sizes, types)
    assert rule.region.broken({**sizes, "src1": (4, 25)}, types)


def test_the_edit_changes_what_the_condition_measures() -> None:
    rule = require("r", "src.loc == vec", source="test")
    types = {"src": FULL, "dst": FULL}
    assert rule.breaks is not None and rule.breaks(types, {}, profile("a5"))
    assert types == {"src": replace(FULL, loc=Loc.MAT), "dst": FULL}
    legal = {"dst": replace(FULL, dtype=F16)}
    assert not rule.breaks(legal, {}, profile("a5"))


def test_expressions_name_operands_and_quantities_that_exist() -> None:
    unknown = []
    for instruction in instructions().values():
        operands = {o.name for o in instruction.operands}
        for constraint in instruction.constraints:
            if isinstance(constraint.check, Rule):
                unknown += [
                    (instruction.name, constraint.rule, name, quantity)
                    for name, quantity in constraint.check.measured
                    if quantity not in QUANTITIES or (name not in operands and quantity != "given")
                ]
    assert unknown == []
