"""No undefined bit is called defined, whatever fills it; the sanitizer as a machine of a campaign."""

from dataclasses import replace

import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle, Sanitizer
from pto_jax.devices.machines import machine
from pto_jax.failures.differences import difference
from pto_jax.generate.options import PRESETS, STRAIGHT, Options
from pto_jax.generate.programs import cases
from pto_jax.generate.selection import catalogue
from pto_jax.profiles import PROFILE_NAMES
from pto_jax.sanitizer.step import SHADOW_RULES, ShadowStep, shadow_of
from tests.campaign.sanitizer.definedness_fills import CheckedMachine, Report, check

#: Nothing generates a print.
NAMES = sorted(SHADOW_RULES.keys() - {"tprint"})


def only(name: str) -> Options:
    profiles = tuple(p for p in PROFILE_NAMES if name in catalogue(p, STRAIGHT.elements))
    return replace(
        STRAIGHT,
        only=frozenset({name}),
        profiles=profiles,
        uneven=0.6,
        partial=0.7,
        statements=1,
        elements=512,
    )


@pytest.mark.slow
def test_every_instruction_on_spoilt_arguments() -> None:
    report = Report()
    for name in NAMES:
        for case in cases(2, 1, only(name)):
            check(case, report, 0.7)
    assert not report.missed, "\n".join(report.missed)
    assert report.kinds["undefined"] > 90


@pytest.mark.variants(1)
@pytest.mark.parametrize("preset", ["control", "aliases", "everything"])
def test_whole_programs(preset: str) -> None:
    report = Report()
    for case in cases(4, 8, replace(PRESETS[preset], elements=512)):
        check(case, report, 0.4)
    assert not report.missed, "\n".join(report.missed)


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", ["tadd", "trowsum", "ttrans", "tmatmul", "tload", "tsel", "tsort32"])
def test_a_rule_that_forgets_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = SHADOW_RULES[name]

    def forgets(step: ShadowStep) -> None:
        machine = step.machine
        assert isinstance(machine, CheckedMachine)
        rule(step)
        for written, positions, _ in machine.shadow_writes:
            shadow, address = shadow_of(step.tile(written))
            shadow.define(positions, step.dtype(written), address)

    monkeypatch.setitem(SHADOW_RULES, name, forgets)
    report = Report()
    for case in cases(2, 12, only(name)):
        check(case, report, 0.7)
    assert any("memory" in text for text in report.missed)


def test_a_rule_that_writes_elsewhere_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHADOW_RULES, "tadd", lambda step: step.define((1, 1)))
    report = Report()
    for case in cases(2, 4, only("tadd")):
        check(case, report)
    assert any("without a shadow" in text for text in report.missed)


@pytest.mark.slow
def test_programs_that_read_no_undefined_lane_are_silent() -> None:
    for case in cases(11, 40, PRESETS["defined"]):
        outcome = compare_case(case, Oracle(), machine("sanitizer:strict"))
        assert outcome.kind in ("equal", "stopped"), str(outcome)


def test_no_defined_program_takes_the_maximum_of_nothing() -> None:
    only = frozenset({"trowmax", "tcolmax"})
    options = replace(PRESETS["defined"], only=only, profiles=("cpu_sim",), partial=1.0, dynamic=1.0)
    for case in cases(2, 12, replace(options, elements=512, statements=2)):
        outcome = compare_case(case, Oracle(), Sanitizer())
        assert not outcome.is_failure, str(outcome)


def test_undefined_data_is_a_failure_of_the_case() -> None:
    options = replace(STRAIGHT, only=frozenset({"tadd"}), uneven=1.0, partial=1.0)
    outcomes = [compare_case(case, Oracle(), Sanitizer()) for case in cases(3, 20, options)]
    found = [o for o in outcomes if o.is_failure]
    assert found and all(o.kind == "different" for o in found)
    assert "undefined data is a result of the program" in found[0].message
    assert "outside the valid region" in found[0].message
    cause = difference(found[0], None, None)
    assert (cause.kind, cause.detail) == ("undefined data", "outside the valid region")


def test_names_say_the_mode_and_the_profile() -> None:
    assert machine("sanitizer").name == "sanitizer"
    assert machine("sanitizer:strict:a5").name == "sanitizer:strict:a5"
