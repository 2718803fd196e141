"""The sanitizer as a machine of a campaign."""

from __future__ import annotations

from dataclasses import replace

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle, Sanitizer
from pto_jax.devices.machines import machine
from pto_jax.failures.differences import difference
from pto_jax.generate.options import PRESETS, STRAIGHT
from pto_jax.generate.programs import cases


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
