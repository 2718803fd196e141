"""The JAX engine against every recorded case of the public CPU simulator.

A few cases of every instruction are of every run: ``tests/equality/test_instructions.py``.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pto_jax.cases.code import executed
from pto_jax.vectors.cases import unsupported_reason
from pto_jax.vectors.conformance import (
    CaseResult,
    run_case,
    run_case_engine,
    run_case_oracle,
    run_cases_engine,
    run_conformance,
)
from pto_jax.vectors.exclusions import EXCLUSIONS, exclusion
from pto_jax.vectors.manifest import load_file, vector_files

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(GOLDEN.glob("*.npz"))
#: Results that are part of the requirement; a file may hold cases of forms that are not supported yet.
REQUIRED = ("pass", "excluded", "differs", "unsupported")


@pytest.mark.variants(0)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_required_case_passes(path: Path) -> None:
    # Every program is executed once: LLVM's optimisations would cost more than they repay. What they do to
    # the bits is compared in tests/equality, for every instruction, type and mode.
    together = partial(run_cases_engine, apply=partial(executed, "o0"))
    report = run_conformance([path], run_case_engine, together=together)
    assert report.ok, report.summary()
    assert not _beyond(report.results), report.summary()


def _beyond(results: tuple[CaseResult, ...]) -> list[CaseResult]:
    """Passing cases that needed more than one unit in the last place."""
    return [r for r in results if r.status not in REQUIRED or r.max_ulp > 1]


@pytest.mark.slow
def test_a_batch_of_cases_gives_what_each_of_them_gives_alone() -> None:
    recorded = [case for name in ("tadd", "tload") for case in load_file(GOLDEN / f"{name}.npz")[::30]]
    cases = [case for case in recorded if unsupported_reason(case) is None]
    for case, found in zip(cases, run_cases_engine(cases), strict=True):
        alone = run_case_engine(case)
        assert alone.keys() == found.keys()
        for name, after in alone.items():
            np.testing.assert_array_equal(found[name], after, str(case))


@pytest.mark.slow
def test_every_recorded_case_is_executed_and_exclusions_are_few_and_needed() -> None:
    cases = [case for path in vector_files([GOLDEN]) for case in load_file(path)]
    assert len(FILES) == 132 and len(cases) == 6233
    assert not {(case.instruction, reason) for case in cases if (reason := unsupported_reason(case))}
    excluded = [case for case in cases if exclusion(case) is not None]
    assert 0 < len(excluded) <= 0.02 * len(cases)
    assert {exclusion(case) for case in excluded} == set(EXCLUSIONS)
    assert not [case.id for case in excluded if run_case(case, run_case_oracle).agrees]


def test_the_vectors_cover_every_instruction_of_the_elementwise_classes() -> None:
    from pto_jax import isa

    recorded = {p.stem for p in FILES}
    unrecorded = {
        name
        for name, instruction in isa.instructions().items()
        if instruction.cls in ("elementwise", "tile_scalar") and name not in recorded
    }
    # The simulator implements none of these; the interpreter is their only reference.
    assert unrecorded == {"taddrelu", "taddreluconv", "tsubreluconv"}
