"""Of generated programs that order their pipes, operations that order are taken away: the loss is found."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pto_jax.analysis.resolve import resolve
from pto_jax.analysis.roots import hands_token
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import cases
from pto_jax.ir import Op, Program, Region
from pto_jax.order import judge
from tests.generate.test_generate import in_steps
from tests.verifier.test_removed_order import _without


def kinds(program: Program) -> set[str]:
    """The kinds of findings about a program."""
    return {finding.kind for finding in judge(resolve(program))}


def _less(program: Program, lost: Op) -> Program:
    functions = tuple(replace(f, body=_without(f.body, lost)) for f in program.functions)
    return replace(program, functions=functions)


@pytest.mark.slow
@pytest.mark.nightly
def test_300_programs_have_no_finding() -> None:
    for case in (c for c in cases(5, 330, PRESETS["sync"]) if not in_steps(c.program)):
        assert kinds(case.program) == set(), case.index


def _executed(region: Region, numbers: dict[str, object]) -> Iterator[Op]:
    """The operations but those in loops whose constant bounds leave no trip."""
    for op in region.ops:
        if op.name == "arith.constant":
            numbers[op.results[0].name] = op.attrs["value"]
        yield op
        first, end = (numbers.get(v.name) for v in op.ins[:2]) if op.name == "scf.for" else (None, None)
        if not (isinstance(first, int) and isinstance(end, int) and first >= end):
            for inner in op.regions:
                yield from _executed(inner, numbers)


@pytest.mark.parametrize("count", [6, pytest.param(40, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_99_of_100_lost_tokens_are_found(count: int) -> None:
    told: Counter[bool] = Counter()
    # What surrounds a fragment may hand tokens to it.
    for case in (c for c in cases(4, count, PRESETS["sync"]) if not c.program.fragment):
        executed = (op for f in case.program.functions for op in _executed(f.body, {}))
        for lost in filter(hands_token, executed):
            told[bool(kinds(_less(case.program, lost)) & {"deadlock", "unmatched"})] += 1
    assert told[True] >= 0.99 * told.total() and told.total() >= count, told
