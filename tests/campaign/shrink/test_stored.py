"""Failures that need several operations are named after the first whose result differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.kernels import kernel, kernels_only, watched
from pto_jax.cases.targets import Oracle, Run
from pto_jax.failures.recorder import Keeper
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case
from pto_jax.interpreter import Execution
from pto_jax.oracle import storage
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Step


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
