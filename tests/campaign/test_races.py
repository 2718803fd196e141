"""The check of order as an executor of campaigns: programs that order their pipes, and mutants of them."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

import pto_jax as pto
from pto_jax import errors
from pto_jax.cases import mutation, targets
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import LegalOrders, Oracle
from pto_jax.cli.main import main
from pto_jax.generate.options import IN_TURN, PRESETS
from pto_jax.generate.programs import Case, cases, generate
from tests.order.test_campaign import channel, orders, without
from tests.order.texts import HEAD, add, load, set_, store, sync, wait

STEP = load("a") + sync("MTE2", "V") + add("d", "a") + sync("V", "MTE3") + store("d")


@pytest.mark.slow
def test_programs_that_order_their_pipes_have_the_bits_of_their_text_in_other_orders() -> None:
    for case in cases(11, 12, PRESETS["ordered"]):
        assert compare_case(case, Oracle(), LegalOrders()).kind == "equal", case


@pytest.mark.slow
def test_another_order_shows_what_a_flag_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, mutants that lost flags give other bits: the orders are adversarial."""
    monkeypatch.setattr(targets, "races", lambda *_, **__: [])
    kinds = []
    for case in cases(11, 8, PRESETS["ordered"]):
        tokens = [op for op in case.program.walk() if orders(op) and op.name == "set_flag"]
        for op in tokens[:3]:
            mutant = replace(case, program=without(case.program, *channel(case.program, op)))
            kinds.append(compare_case(mutant, Oracle(), LegalOrders()).kind)
    assert kinds.count("different") >= 5 and set(kinds) <= {"different", "equal"}, kinds


def _case(body: str, *origin: str) -> Case:
    program = pto.parse(HEAD + body + "return\n}", "k.pto")
    case = generate(1, 0)
    return replace(case, program=program, profile=pto.profile("a2a3"), entry="f", origin=origin)


@pytest.mark.parametrize(
    ("origin", "error"),
    [((), errors.UndefinedDataError), (("k.pto", "a flag was taken away"), errors.NotExecutableError)],
)
def test_a_finding_is_a_failure_but_of_mutants(origin: tuple[str, ...], error: type[errors.PtoError]) -> None:
    with pytest.raises(error, match="nothing orders it after tload"):
        LegalOrders().run(_case(STEP.replace(sync("MTE2", "V"), ""), *origin))


@pytest.mark.slow
def test_own_programs_lose_flags_and_barriers_when_they_are_mutated() -> None:
    text = (
        HEAD + STEP + "pto.barrier <PIPE_ALL>\n" + set_("V", "MTE2", 3) + wait("V", "MTE2", 3) + "return\n}"
    )
    program, changes = pto.parse(text, "k.pto"), ""
    for seed in range(60):
        made = mutation.mutated(program, pto.profile("a2a3"), random.Random(seed))
        changes += "; ".join(made.changes)
    assert "set_flag and 1 more of its flag was taken away" in changes
    assert "barrier was taken away" in changes and "was moved" in changes


def test_mutants_of_programs_without_order_are_those_they_were() -> None:
    tile = "!pto.tile<16x16xf32>"
    program = pto.parse(f"tadd %c, %a, %b : {tile}\ntmul %d, %c, %b : {tile}")
    made = [mutation.mutated(program, pto.profile("a5"), random.Random(seed)).changes for seed in (2, 3, 4)]
    assert made == [
        ("<text>:1:1: tadd became tcolsum",),
        ("size 16 became 32",),
        ("valid rows 16 became 15",),
    ]


@pytest.mark.slow
def test_the_command_takes_the_check_as_an_executor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--workers", "1", "--quiet", "--failures", str(tmp_path)]
    assert main(["fuzz", "--tested", "races", "--count", "3", *folder]) == 0
    assert "races against oracle" in capsys.readouterr().out
    assert "ordered" in PRESETS and "ordered" not in IN_TURN


@pytest.mark.slow
def test_the_command_mutates_the_order_of_own_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.pto").write_text(HEAD + STEP + "return\n}")
    given = ["--programs", str(tmp_path / "k.pto"), "--mutate", "--workers", "1", "--quiet"]
    assert main(["fuzz", "--tested", "races", *given, "--count", "6", "--failures", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "refused" in out and "6 cases" in out
