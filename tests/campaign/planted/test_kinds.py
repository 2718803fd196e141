"""A campaign that nobody steers finds each of thirteen kinds of bugs within four thousand programs.

What a device is compared on is masked by definedness, as in every campaign with a device.
"""

from __future__ import annotations

from functools import cache

import pytest

from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.generate.programs import Case
from tests.campaign.planted.bugs import WrongInstruction, WrongReading
from tests.campaign.planted.kinds import kinds

PROGRAMS = 4000
KINDS = list(kinds())
#: Kinds that some hundred programs show.
SOON = ("tmuls", "trowexpandmul", "tadds")


@cache
def _case(index: int) -> Case:
    return Generated.of(Plan(seed=1, presets=device_presets())).case(index)


def found(bug: WrongInstruction | WrongReading, programs: int) -> int | None:
    """The first program on which the bug shows."""
    for index in range(programs):
        case = _case(index)
        if all(op.name != bug.operation for op in case.program.walk()):
            continue
        if compare_case(case, Oracle(), bug).kind == "different":
            return index
    return None


def test_there_are_thirteen_kinds() -> None:
    assert len({str(bug) for bug in KINDS}) == len({bug.operation for bug in KINDS}) == 13


@pytest.mark.slow
@pytest.mark.parametrize("name", SOON)
def test_some_kinds_are_found_at_once(name: str) -> None:
    assert found(next(bug for bug in KINDS if bug.operation == name), 500) is not None


@pytest.mark.slow
@pytest.mark.parametrize("bug", KINDS, ids=str)
def test_each_kind_is_found_by_a_campaign_that_nobody_steers(bug: WrongInstruction | WrongReading) -> None:
    assert found(bug, PROGRAMS) is not None
