"""Failures that one defect explains have one cause, named after the first operation that differs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.kernels import kernel, kernels_only, watched
from pto_jax.cases.targets import Oracle, Run
from pto_jax.failures.recorder import Keeper
from pto_jax.generate.options import EVERYTHING, PRESETS, STRAIGHT
from pto_jax.generate.programs import Case, cases
from pto_jax.interpreter import Execution
from pto_jax.oracle import storage
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Step
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


@pytest.mark.nightly
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


class _Forgetful(ReferenceMachine):
    """A product is wrong where an absolute value was computed before: alone it is right."""

    before = False

    def compute(self, execution: Execution, step: Step) -> None:
        super().compute(execution, step)
        if execution.instruction.name == "tmul" and self.before and 0 not in step.region:
            words = step.stored("dst").copy()
            words[0, 0] ^= words.dtype.type(1)
            step.scatter(words, storage.map_of(step.type("dst")))
        self.before |= execution.instruction.name == "tabs"


class Forgetful:
    name = "dut:forgetful"

    def run(self, case: Case) -> Run:
        return Oracle(machine=_Forgetful).run(case)


OPTIONS = kernels_only(
    replace(
        PRESETS["straight"],
        only=frozenset({"tmul", "tabs", "tneg", "tmov", "tmax"}),
        dtypes=frozenset({"f32", "i32"}),
        recipes=("uniform",),
        statements=5,
        dynamic=0.0,
        partial=0.0,
    )
)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_failure_in_company_is_named_after_the_first_result_that_differs() -> None:
    device, found = Forgetful(), set()
    for index in range(24):
        case = kernel(2, index, OPTIONS)
        outcome = compare_case(case, Oracle(), device)
        if outcome.is_failure:
            record = Keeper(None, 20, "oracle", device.name, calls=300, kernels=True)(
                outcome, Oracle(), device
            )
            found.add(record.instruction)
    assert found == {"tmul"}


@pytest.mark.variants(1)
@pytest.mark.parametrize("calls", [1, 4])
def test_a_search_that_ends_early_names_it_as_well(calls: int) -> None:
    device = Forgetful()
    outcomes = (compare_case(kernel(2, index, OPTIONS), Oracle(), device) for index in range(30))
    outcome = next(o for o in outcomes if o.is_failure)
    record = Keeper(None, 20, "oracle", device.name, calls=calls, kernels=True)(outcome, Oracle(), device)
    assert record.instruction == "tmul"


@pytest.mark.slow
def test_intermediates_are_stored_once_and_change_nothing() -> None:
    stored = 0
    for index in range(12):
        case = kernel(5, index, kernels_only(PRESETS["control"]))
        made = watched(case)
        if made is None:
            continue
        watching, seen = made
        plain, with_stores = Oracle().run(case).outputs, Oracle().run(watching).outputs
        assert all(np.array_equal(o.words, with_stores[n].words) for n, o in plain.items())
        assert with_stores.keys() == plain.keys() | seen.keys()
        stored += len(seen)
    assert stored > 20
