"""The interpreter in a second process gives what the first one gives, errors included."""

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Again, Oracle
from pto_jax.devices.machines import machine
from pto_jax.errors import ExecutionError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, generate
from tests.campaign.blocks import ROW


@pytest.fixture(scope="module")
def again() -> Again:
    made = machine("oracle:again")
    assert isinstance(made, Again)
    return made


@pytest.mark.slow
def test_cases_of_every_preset_are_the_same_in_both_processes(again: Again) -> None:
    # Programs on ranks that lack something may wait for ever.
    complete = (replace(options, mutants=0.0) for options in PRESETS.values())
    cases = [generate(5, i, options) for i, options in enumerate(complete)]
    assert Counter(compare_case(case, Oracle(), again).kind for case in cases) == {"equal": len(cases)}


@pytest.mark.slow
def test_errors_keep_their_kind_and_place(again: Again, tmp_path: Path) -> None:
    file = tmp_path / "row.pto"
    file.write_text(ROW)
    made = Programs.of(Plan(programs=(str(file),), tested="oracle:again"))
    # Generated inputs keep the rule; every other case has a row outside the buffer.
    cases = [made.case(i, 0) for i in range(8)]
    cases[::2] = [_with_row(case, 9) for case in cases[::2]]
    stopped = [(case, error) for case in cases if (error := error_of(case)) is not None]
    assert 0 < len(stopped) < len(cases)
    for case, here in stopped:
        with pytest.raises(ExecutionError) as there:
            again.run(case)
        assert str(there.value) == str(here) and there.value.diagnostics == here.diagnostics


def _with_row(case: Case, row: int) -> Case:
    number = replace(case.inputs["r"], words=np.full_like(case.inputs["r"].words, row))
    return replace(case, inputs={**case.inputs, "r": number})


def error_of(case: Case) -> ExecutionError | None:
    try:
        Oracle().run(case)
    except ExecutionError as error:
        return error
    return None


@pytest.mark.slow
def test_a_process_that_is_gone_is_a_finding_and_the_next_case_has_another(again: Again) -> None:
    case = generate(5, 0)
    expected = again.run(case).outputs
    assert again.process is not None and again.process.pid is not None
    os.kill(again.process.pid, signal.SIGKILL)
    again.process.join()
    with pytest.raises(RuntimeError, match="the second process of the interpreter ended"):
        again.run(case)
    assert again.run(case).outputs.keys() == expected.keys()
