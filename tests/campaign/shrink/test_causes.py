"""Failures that one defect explains have one cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.failures.recorder import Keeper
from pto_jax.generate.options import EVERYTHING, STRAIGHT
from pto_jax.generate.programs import cases
from tests.campaign.shrink.planted import (
    Planted,
    last_column,
    missing,
    next_number,
    swapped,
    unmasked,
    without_sign,
)

DEFECTS = {
    "tadd: off by one ULP": Planted("tadd", next_number, "f32"),
    "tcolexpand: not written": Planted("tcolexpand", last_column),
    "tmuls: sign": Planted("tmuls", without_sign, "f16"),
    "trowsum: outside the valid region": Planted("trowsum", unmasked),
    "tsel: values": Planted("tsel", swapped, "f32"),
}


def _failures(machine: Planted) -> Iterator[Outcome]:
    """Failures of straight programs and of programs with everything in turn."""
    name = machine.instruction
    # Without NaNs, which some of the defects lose as well.
    straight = replace(STRAIGHT, only=frozenset({name, "tmov"}), statements=4, recipes=("uniform", "ties"))
    everything = replace(
        EVERYTHING, only=frozenset({name, "tadd", "tmov"}), statements=4, recipes=("uniform",)
    )
    for pair in zip(cases(9, 100, straight), cases(9, 100, everything), strict=True):
        for case in pair:
            outcome = compare_case(case, Oracle(), machine)
            if outcome.is_failure:
                yield outcome


@pytest.mark.slow
def test_forty_failures_of_five_defects_have_five_causes() -> None:
    keeper, causes = Keeper(None, 20, "oracle", "planted"), Counter[str]()
    for machine in DEFECTS.values():
        for outcome in islice(_failures(machine), 8):
            record = keeper(outcome, Oracle(), machine)
            assert record.instruction == machine.instruction
            causes[record.cause] += 1
    assert causes == Counter(dict.fromkeys(DEFECTS, 8))


def test_a_crash_is_named_after_its_exception_and_machine() -> None:
    machine, keeper = Planted("tadd", missing), Keeper(None, 20, "oracle", "planted")
    outcome = next(_failures(machine))
    assert (
        keeper(outcome, Oracle(), machine).cause == "crash of the tested executor: ZeroDivisionError: planted"
    )
    swapped_roles = compare_case(outcome.case, machine, Oracle())
    found = keeper(swapped_roles, machine, Oracle()).cause
    assert found == "crash of the reference executor: ZeroDivisionError: planted"


def test_a_failure_that_does_not_come_back_is_called_so() -> None:
    outcome = next(_failures(DEFECTS["trowsum: outside the valid region"]))
    record = Keeper(None, 20, "oracle", "oracle")(outcome, Oracle(), Oracle())
    assert record.cause == "not reproduced when it was executed again" and record.instruction == ""
