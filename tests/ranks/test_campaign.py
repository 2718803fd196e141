"""Campaigns on several ranks: right programs, mutants of them, and the executors that take both."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax import errors
from pto_jax.cases import targets
from pto_jax.cases.comparison import compare_case
from pto_jax.cli.main import main
from pto_jax.devices.machines import machine
from pto_jax.failures import folder, search
from pto_jax.generate import ranks
from pto_jax.generate.options import IN_TURN, PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.schedules.ranks import RankReport

RIGHT, MUTANTS = (replace(PRESETS["ranks"], mutants=share) for share in (0.0, 1.0))
Output = pytest.CaptureFixture[str]


def _kinds(made: list[Case], tested: str) -> set[str]:
    return {compare_case(case, machine("oracle"), machine(tested)).kind for case in made}


@pytest.mark.slow
def test_right_programs_have_no_finding_and_one_result_in_all_orders() -> None:
    assert _kinds(list(cases(21, 4, RIGHT)), "races") == {"equal"}


@pytest.mark.slow
def test_every_mutant_has_a_finding_a_deadlock_or_other_bits() -> None:
    made = list(cases(21, 8, MUTANTS))
    assert _kinds(made, "races") == {"refused"}
    assert all(case.origin[-1].startswith("lacks a") for case in made)


def test_a_mutant_is_the_right_program_without_one_thing() -> None:
    for seed in range(12):
        right, mutant = (ranks.draw(random.Random(seed), mutant=m) for m in (False, True))
        assert right.protocols == mutant.protocols and right.elements == mutant.elements
        assert right.text != mutant.text and not right.lacks and mutant.lacks


def test_every_protocol_and_everything_that_is_needed_is_drawn() -> None:
    drawn = [ranks.draw(random.Random(seed), mutant=True) for seed in range(150)]
    assert {p for d in drawn for p in d.protocols} == set(ranks.PROTOCOLS)
    lacks = {d.lacks.partition(" (")[0] for d in drawn}
    assert lacks == {"a fence", "a wait", "a wait for a copy", "a half of the window for each turn"}
    assert {d.grid for d in drawn} == {1, 2}
    assert {d.count for d in drawn} == {2, 3, 4} and len({d.types["x"] for d in drawn}) == 5


@pytest.mark.variants(1)
@pytest.mark.parametrize(("tested", "count"), [("jit", 2), ("eager", 1), ("sanitizer", 4)])
def test_executors_give_the_bits_of_the_interpreter(tested: str, count: int) -> None:
    assert _kinds(list(cases(22, count, replace(RIGHT, statements=1))), tested) == {"equal"}


@pytest.mark.parametrize("tested", ["vmap", "dut:true {program} {inputs} {outputs}", "lockstep"])
def test_other_executors_refuse_in_one_line(tested: str) -> None:
    (case,) = cases(22, 1, RIGHT)
    outcome = compare_case(case, machine("oracle"), machine(tested))
    assert outcome.kind == "refused" and outcome.refusals == ("a program for several processors",)


@pytest.mark.slow
def test_a_wrong_verdict_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without findings, mutants are told apart by other bits, or are failures by themselves."""
    (right,) = cases(21, 1, RIGHT)
    with monkeypatch.context() as patch:
        patch.setattr("pto_jax.schedules.ranks.judge", lambda *_, **__: RankReport())
        for mutant in cases(21, 6, MUTANTS):
            with pytest.raises(errors.PtoError):
                targets.judged(mutant)
        assert targets.judged(right)
    found = ranks.draw(random.Random(3), mutant=True)
    wrong = replace(right, program=pto.parse(found.text), origin=())
    outcome = compare_case(wrong, machine("oracle"), machine("races"))
    assert outcome.is_failure or outcome.kind == "stopped"


def test_a_case_in_a_failure_folder_is_executed_again(tmp_path: Path) -> None:
    for case in (*cases(23, 1, RIGHT), *cases(23, 1, MUTANTS)):
        outcome = compare_case(case, machine("oracle"), machine("races"))
        about = folder.About("tput", "why", "oracle", "races")
        made = folder.read(folder.save(tmp_path / outcome.kind, case, search.Finding(outcome), about)).case
        assert (made.ranks, made.origin) == (case.ranks, case.origin)
        assert {n: i.words.tolist() for n, i in made.inputs.items()} == {
            n: i.words.tolist() for n, i in case.inputs.items()
        }
        assert compare_case(made, machine("oracle"), machine("races")).kind == outcome.kind


@pytest.mark.parametrize("ranks", [3, {"count": 0}, {"count": 2, "shared": 3}, {"count": 2, "context": [1]}])
def test_a_folder_that_says_no_ranks_is_one_clear_error(ranks: object, tmp_path: Path) -> None:
    (case,) = cases(23, 1, RIGHT)
    outcome = compare_case(case, machine("oracle"), machine("oracle"))
    path = folder.save(tmp_path, case, search.Finding(outcome), folder.About("", "why", "oracle", "jit"))
    report = json.loads((path / "report.json").read_text())
    report["shrunk"]["ranks"] = ranks
    (path / "report.json").write_text(json.dumps(report))
    with pytest.raises(
        errors.FileError, match=r"on several processors, ranks \(count, shared, context, peers\)"
    ):
        folder.read(path)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_command_takes_the_preset(tmp_path: Path, capsys: Output) -> None:
    given = ["--preset", "ranks", "--workers", "1", "--quiet", "--failures", str(tmp_path)]
    assert main(["fuzz", *given, "--tested", "races", "--count", "4"]) == 0
    assert "races against oracle" in capsys.readouterr().out
    assert main(["fuzz", "--list-presets"]) == 0
    assert "2 to 4 processors" in capsys.readouterr().out and "ranks" not in IN_TURN


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("options", [RIGHT, MUTANTS], ids=["right", "mutants"])
def test_hundreds_of_programs_have_the_right_verdict(options: object) -> None:
    kinds = _kinds(list(cases(31, 300, options)), "races")  # type: ignore[arg-type]
    assert kinds == ({"equal"} if options is RIGHT else {"refused"})


@pytest.mark.nightly
@pytest.mark.slow
def test_a_hundred_programs_are_compiled_to_the_bits_of_the_interpreter() -> None:
    assert _kinds(list(cases(32, 100, RIGHT)), "jit") == {"equal"}
