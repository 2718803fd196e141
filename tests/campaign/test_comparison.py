"""Cases on two machines: agreement, and differences told with their place."""

from dataclasses import dataclass, replace

import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Engine, Oracle, Run
from pto_jax.generate.options import Options
from pto_jax.generate.programs import Case, cases, generate

TINY = Options(
    profiles=("a5",),
    statements=4,
    elements=512,
    only=frozenset({"tadd", "tmuls", "trelu", "tmov"}),
    shapes=0.0,
    dynamic=1.0,
)


@dataclass(frozen=True)
class Spoilt:
    """An interpreter whose results have one wrong bit."""

    name: str = "spoilt"

    def run(self, case: Case) -> Run:
        outputs = dict(Oracle().run(case).outputs)
        name = next(iter(outputs))
        words = outputs[name].words.copy()
        words[1, 2] ^= 1
        return Run({**outputs, name: replace(outputs[name], words=words)})


@dataclass(frozen=True)
class Broken:
    name: str = "broken"

    def run(self, case: Case) -> Run:
        raise ZeroDivisionError("boom")


@pytest.mark.slow
def test_engine_and_interpreter_agree() -> None:
    for case in cases(1, 4, TINY):
        assert compare_case(case, Oracle(), Engine()).kind == "equal"
    for case in cases(1, 3, replace(TINY, control=0.5)):
        outcome = compare_case(case, Oracle(), Engine("jit"))
        assert not outcome.is_failure, str(outcome)


def test_a_difference_is_found_and_told() -> None:
    case = generate(1, 0, TINY)
    outcome = compare_case(case, Oracle(), Spoilt())
    assert outcome.is_failure and outcome.kind == "different" and outcome.mismatch is not None
    assert "first (1, 2)" in outcome.message and outcome.mismatch.output in outcome.message
    assert case.id in str(outcome) and str(case.program) in str(outcome)


def test_a_crash_is_a_failure() -> None:
    outcome = compare_case(generate(1, 0, TINY), Oracle(), Broken())
    assert outcome.is_failure and outcome.message == "broken: ZeroDivisionError: boom"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_fragment_buffer_written_through_a_view_has_the_name_of_the_argument() -> None:
    only = frozenset({"tstore"})
    views = [c for c in cases(1, 40, replace(TINY, only=only)) if c.program.fragment]
    assert views and all("tstore" in str(c.program) for c in views)
    for case in views[:3]:
        outcome = compare_case(case, Oracle(), Engine())
        assert outcome.kind == "equal", str(outcome)
