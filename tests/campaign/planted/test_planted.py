"""A campaign finds every bug that is planted in a device, within three thousand programs of one seed.

Programs without the operation of a bug have the same results with and without it, so that only the others
are executed.
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
from tests.campaign.planted.bugs import Bug, Hangs, WrongInstruction, WrongReading, bugs

PROGRAMS = 3000
BUGS = list(bugs())
#: What a first campaign has to find, with the programs that it may take: bugs that real devices had.
FIRST = {
    "trowmax: NaN is ignored",
    "tmul: the last odd column is left out",
    "tshrs: shifts of 16 bits by 15 and more give zero",
    "ttrans: the corner of an odd transposition is left out",
    "tcvt: f32 to f16 rounds ties toward zero",
    "taddc: sums of two small integers wrap",
}
FIRST_PROGRAMS = 2000


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
        outcome = compare_case(cases[index], Oracle(), bug)
        if outcome.kind == "different" or Hangs.__name__ in outcome.message:
            return index
    return None


def test_there_are_as_many_bugs_as_promised() -> None:
    assert len(BUGS) >= 75 and len({str(b) for b in BUGS}) == len(BUGS)
    assert {str(b) for b in BUGS} >= FIRST


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_campaign_finds_the_bug(bug: WrongInstruction | WrongReading) -> None:
    found = _finds(bug)
    assert isinstance(bug, Bug) and found is not None
    assert found < FIRST_PROGRAMS or str(bug) not in FIRST
