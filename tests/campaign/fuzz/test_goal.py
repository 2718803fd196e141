"""Goals: what their files say, that programs reach them, and what is told of bins that are not reached."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pto_jax as pto
from pto_jax.campaign.fuzz.coverage import of_program
from pto_jax.campaign.fuzz.goal import Aimed, described, goal_lines, parse_goal, reached, read_goal
from pto_jax.campaign.fuzz.plan import Plan, in_lockstep
from pto_jax.campaign.lockstep import covered_cells
from pto_jax.errors import ArgumentError
from pto_jax.generate.options import PRESETS, STRAIGHT
from pto_jax.verifier.programs import verify_program

GOAL = """\
at_least = 2

[[bins]]
instruction = ["tcvt", "tquant"]
type = ["f16", "i8"]
attribute = ["rmode=rint", "rmode=FLOOR"]
region = ["odd", "empty"]
control = ["straight", "loop"]

[[bins]]                      # every form of a class
instruction = "reduce_expand"
operands = "*"
at_least = 1

[[bins]]
instruction = ["tadd", "textract"]
layout = ["row", "nz"]
control = ["branch", "call"]
"""


def test_bins_are_the_combinations_that_are_legal() -> None:
    listed = {str(b): b.at_least for b in parse_goal(GOAL, "goal.toml")}
    assert listed["tcvt|f16|rmode=RINT|odd|*|*|loop"] == 2
    assert listed["trowsum|*|*|*|*|none|*"] == 1 and listed["textract|*|*|*|nz|*|call"] == 2
    # tadd has no tile in boxes, tquant no result of type f16.
    assert "tadd|*|*|*|nz|*|call" not in listed and "tquant|f16|rmode=RINT|odd|*|*|loop" not in listed
    on_a5 = parse_goal('[[bins]]\ninstruction = "tadd"\ntype = "*"', "goal.toml", ("a5",))
    assert "i64" not in {b["type"] for b in on_a5} and {"f32", "bf16"} <= {b["type"] for b in on_a5}


@pytest.mark.variants(0)
@pytest.mark.parametrize("kernels", [False, True])
def test_programs_are_aimed_at_bins_in_turn(kernels: bool) -> None:
    bins = parse_goal(GOAL, "goal.toml")[:: 6 if kernels else 3]
    source = Aimed(3, (PRESETS["straight"], PRESETS["everything"]), bins, kernels)
    missed = []
    for index, expected in enumerate(bins):
        case = source.case(index)
        assert (case.seed, case.index) == (3, index)
        assert not [d for d in verify_program(case.program, case.profile) if d.severity == "error"]
        if not any(map(expected.has, of_program(case.program))):
            missed.append(described(expected))
    # Functions over pointers have no tile without an element.
    assert not [m for m in missed if not (kernels and "empty" in m)], missed
    again = Aimed(3, (PRESETS["straight"], PRESETS["everything"]), bins, kernels)
    assert again.case(1).program == source.case(1).program


def test_tables_in_lockstep_are_aimed_at_the_bins_that_they_can_reach(tmp_path: Path) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(
        'at_least = 20\n[[bins]]\ninstruction = ["tcvt", "tadd"]\ntype = ["f16", "i16"]\n'
        'region = ["odd", "empty", "full"]\n[[bins]]\ninstruction = "taddc"\noperands = "*"\n'
        '[[bins]]\ninstruction = "tmatmul"\n[[bins]]\ninstruction = "tadd"\ncontrol = "loop"\n'
    )
    plan = in_lockstep(Plan(tested="lockstep", goal=str(path)))
    cells = Counter[str]()
    for start in range(0, 24 * plan.tables.span, plan.tables.span):
        cells += covered_cells(plan.tables.of(start), 0, start, start + 64)
    missed = {described(b) for b, n in reached(read_goal(path), cells) if n < b.at_least}
    assert missed == {"tmatmul", "tadd control loop"}
    assert {cell.partition("|")[0] for cell in cells} == {"tcvt", "tadd", "taddc"}
    path.write_text('[[bins]]\ninstruction = "tmatmul"\n')
    with pytest.raises(ArgumentError, match="programs in lockstep reach none of its targets"):
        plan.tables.of(0)


def test_cells_say_operands_and_what_surrounds_them() -> None:
    text = """
    func.func private @inner(%a: T, %b: T) { pto.taddc ins(%a, %b : T, T) outs(%b : T) return }
    func.func @main(%a: T, %b: T, %c: i1, %i: index) attributes {pto.entry} {
      func.call @inner(%a, %b) : (T, T) -> ()
      scf.for %k = %i to %i step %i {
        scf.if %c { pto.taddc ins(%a, %b, %a : T, T, T) outs(%b : T) }
        pto.tabs ins(%a : T) outs(%b : T)
      }
      return
    }""".replace("T", "!pto.tile<16x16xf32, valid=3x16>")
    assert set(of_program(pto.parse(text))) == {
        "taddc|f32|-|odd|row|none|call",
        "taddc|f32|-|odd|row|src2|branch",
        "tabs|f32|-|odd|row|-|loop",
    }


def test_what_is_not_reached_is_named() -> None:
    bins = parse_goal(GOAL, "goal.toml")[:2]
    cells = Counter({"tcvt|f16|rmode=RINT|odd|row|-|straight": 3, "tcvt|f16|rmode=RINT|odd|row|-|loop": 1})
    assert [n for _, n in reached(bins, cells)] == [3, 1]
    told = "  not reached: tcvt type f16 attribute rmode=RINT region odd control loop: 1 of 2"
    assert list(goal_lines(bins, cells, 9)) == ["goal: 1 of 2 bins reached", told]
    assert list(goal_lines(bins, {}, 1))[2:] == ["  and 1 more"]


WRONG = {
    'bins = "x"': "g.toml:1: a goal has one [[bins]] or more, each with an instruction",
    "[[bins]]\ninstruction = [": "g.toml:2: no TOML: ",
    '[[bins]]\ntype = "f16"': "g.toml:1: no instruction; allowed: names, ",
    '# a\n\n[[bins]]\ninstruction = ["tadd",\n  "tcvtt"]': (
        "g.toml:5: no generated instruction or class tcvtt (did you mean 'tcvt'"
    ),
    '[[bins]]\ninstruction = "tadd"\n\n[[bins]]\ninstruction = "tsub"\ntype = "float"': (
        "g.toml:6: type float; allowed: "
    ),
    '[[bins]]\ninstruction = "tadd"\nregion = ["odd", "whole"]': (
        "g.toml:3: region whole; allowed: full partial odd empty dynamic *"
    ),
    '[[bins]]\ninstruction = "tmatmul"\ntype = "i64"': "g.toml:3: type i64: no operation of tmatmul is such",
    '[[bins]]\ninstruction = "tcvt"\nattribute = "rmode=UP"': "declared: rmode=NONE rmode=RINT",
    '[[bins]]\ninstruction = "tadd"\nregions = "odd"': (
        "g.toml:3: no key regions (did you mean 'region'?); allowed: instruction type"
    ),
    '[[bins]]\ninstruction = 3': "g.toml:2: instruction: got 3; allowed: a string, or a list of strings",
    'at_least = 0\n[[bins]]\ninstruction = "tadd"': "g.toml:1: at_least: got 0; allowed: a number",
    '[[bins]]\ninstruction = "tadd"\nat_least = true': "g.toml:3: at_least: got True; allowed",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_what_is_no_goal_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        parse_goal(text, "g.toml")
    told = str(raised.value)
    assert message in told and told.startswith("g.toml:") and len(told.splitlines()) == 1


@pytest.mark.nightly
@pytest.mark.slow
def test_a_campaign_says_which_bins_it_has_not_reached(fuzz: Any) -> None:
    Path("goal.toml").write_text('[[bins]]\ninstruction = "taddc"\noperands = "*"\nat_least = 99\n')
    named = ["--against", "python:fuzz_machines:right", "--tested", "python:fuzz_machines:right"]
    options = [*named, "--goal", "goal.toml", "--count", 4, "--quiet", "--preset", "straight"]
    named[3] = options[3] = "python:fuzz_machines:wrong"
    assert fuzz(*options, "--store", "s.db", "--shrink-calls", 0) == 1
    assert "goal: 0 of 2 bins reached\n  not reached: taddc operands none: " in fuzz.out
    assert fuzz("--resume", "--store", "s.db", *named, "--count", 6) == 1 and "6 cases" in fuzz.out
    Path("goal.toml").write_text('[[bins]]\ninstruction = "tadd"\n')
    assert fuzz("--resume", "--store", "s.db", *named, "--count", 8) == 2
    assert "s.db: got another campaign: goal_digest: " in fuzz.err
    for more, message in (
        (["--only", "tadd"], "got --only tadd with --goal, whose targets are instructions"),
        (["--programs", "goal.toml"], "got --goal with --programs; allowed: with generated programs"),
        (["--goal", "none.toml"], "none.toml: "),
    ):
        assert fuzz("--goal", "goal.toml", *more, "--count", 1) == 2
        assert message in fuzz.err and len(fuzz.err.strip().splitlines()) == 1


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", ["set_flag", "barrier", "treshape", "store_scalar"])
def test_operations_that_statements_make_are_goals(name: str) -> None:
    bins = parse_goal(f'[[bins]]\ninstruction = "{name}"\n', "g.toml")
    source = Aimed(1, (STRAIGHT,), bins)
    assert all(any(map(bins[0].has, of_program(source.case(i).program))) for i in range(4))
