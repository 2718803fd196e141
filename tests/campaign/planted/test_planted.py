"""A campaign finds every bug that is planted in a device, within two thousand programs of one seed.

Programs without the operation of a bug have the same results with and without it, so that only the others
are executed.
"""

from __future__ import annotations

from functools import cache

import pytest

from pto_jax.campaign.comparison import compare_case
from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.targets import Oracle
from pto_jax.cli.fuzz import device_presets
from pto_jax.generate.programs import Case
from tests.campaign.planted.bugs import Bug, WrongInstruction, WrongReading, bugs

PROGRAMS = 2000
BUGS = list(bugs())


@cache
def _cases() -> tuple[list[Case], dict[str, list[int]]]:
    source = Generated.of(Plan(seed=1, presets=device_presets()))
    cases = [source.case(index) for index in range(PROGRAMS)]
    having: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        for name in {op.name for op in case.program.walk()}:
            having.setdefault(name, []).append(index)
    return cases, having


def _finds(bug: WrongInstruction | WrongReading) -> int | None:
    """The first program whose results are different."""
    cases, having = _cases()
    for index in having.get(bug.operation, ()):
        if compare_case(cases[index], Oracle(), bug).kind == "different":
            return index
    return None


def test_there_are_as_many_bugs_as_promised() -> None:
    assert len(BUGS) >= 75 and len({str(b) for b in BUGS}) == len(BUGS)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_campaign_finds_the_bug(bug: WrongInstruction | WrongReading) -> None:
    assert isinstance(bug, Bug) and _finds(bug) is not None
