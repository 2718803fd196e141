"""Failures shrink to the instruction at fault."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from pto_jax.campaign.judge import judge
from pto_jax.campaign.shrink import Shrunk, shrink
from pto_jax.campaign.targets import Oracle
from pto_jax.testing.generate import Case, cases
from pto_jax.testing.generate_options import PRESETS
from pto_jax.verifier import verify_program
from tests.campaign.shrink.planted import (
    Defect,
    Planted,
    last_column,
    missing,
    next_number,
    unmasked,
    without_sign,
)

DEFECTS: tuple[Defect, ...] = (unmasked, next_number, last_column, without_sign, missing)


def _instructions(case: Case) -> list[str]:
    """Instructions of a case in which a defect can be planted: those that write a tile called dst."""
    handles = {"treshape", "tgetval", "tsetval", "tassign", "tstore"}
    return sorted({op.name for op in case.program.walk() if op.name.startswith("t")} - handles)


def _failures(preset: str, count: int) -> Iterator[tuple[Case, Planted]]:
    for n, case in enumerate(cases(3, count, PRESETS[preset])):
        names = _instructions(case)
        for i, defect in enumerate(DEFECTS if names else ()):
            machine = Planted(names[(n + i) % len(names)], defect)
            if judge(case, Oracle(), machine).is_failure:
                yield case, machine


def _operations(shrunk: Shrunk) -> list[str]:
    return [op.name for op in shrunk.case.program.walk() if op.name != "arith.constant"]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_planted_defects_shrink_to_their_instruction(preset: str) -> None:
    counts, names = [], set()
    for case, machine in _failures(preset, 10):
        found = shrink(case, Oracle(), machine, seconds=20)
        operations = _operations(found)
        assert found.outcome.is_failure, (case.index, machine)
        assert found.instruction == machine.instruction, (case.index, machine, found.instruction)
        assert found.instruction in operations and len(operations) <= 3, (case.index, machine, operations)
        assert not [d for d in verify_program(found.case.program, case.profile) if d.severity == "error"]
        counts.append(len(operations))
        names.add(found.instruction)
    assert statistics.median(counts) == 1 and len(counts) >= 15 and len(names) >= 5, (counts, names)
