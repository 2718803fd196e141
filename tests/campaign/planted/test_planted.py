"""A campaign finds every bug that is planted in a device within three thousand programs of one seed.

It finds each of thirteen kinds of bugs within four thousand. What a device is compared on is masked by
definedness, as in every campaign with a device. Programs without the operation of a bug have the same results
with and without it, so that only the others are executed.
"""

from functools import cache

import pytest

from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.generate.programs import Case
from tests.campaign.planted.bugs import Bug, Hangs, WrongInstruction, WrongReading, bugs
from tests.campaign.planted.kinds import kinds

PROGRAMS, PROGRAMS_OF_KINDS = 3000, 4000
BUGS, KINDS = list(bugs()), list(kinds())
#: Kinds that some hundred programs show.
SOON = ("tmuls", "trowexpandmul", "tadds")
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
def _case(index: int) -> Case:
    return Generated.of(Plan(seed=1, presets=device_presets())).case(index)


def _finds(bug: WrongInstruction | WrongReading, programs: int) -> int | None:
    """The first program whose results are different."""
    for index in range(programs):
        case = _case(index)
        if all(op.name != bug.operation for op in case.program.walk()):
            continue
        outcome = compare_case(case, Oracle(), bug)
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
    found = _finds(bug, PROGRAMS)
    assert isinstance(bug, Bug) and found is not None
    assert found < FIRST_PROGRAMS or str(bug) not in FIRST


def test_there_are_thirteen_kinds() -> None:
    assert len({str(bug) for bug in KINDS}) == len({bug.operation for bug in KINDS}) == 13


@pytest.mark.slow
@pytest.mark.parametrize("name", SOON)
def test_some_kinds_are_found_at_once(name: str) -> None:
    assert _finds(next(bug for bug in KINDS if bug.operation == name), 500) is not None


@pytest.mark.slow
@pytest.mark.parametrize("bug", KINDS, ids=str)
def test_each_kind_is_found_by_a_campaign_that_nobody_steers(bug: WrongInstruction | WrongReading) -> None:
    assert _finds(bug, PROGRAMS_OF_KINDS) is not None
