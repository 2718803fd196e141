"""Failures shrink to the instruction at fault, or to the few operations they need."""

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.recording import numbered, record
from pto_jax.cases.targets import Oracle
from pto_jax.failures import Shrunk, shrink
from pto_jax.generate.options import PRESETS, STRAIGHT
from pto_jax.generate.programs import Case, cases
from pto_jax.generate.selection import catalogue
from pto_jax.ir import Op, TileType
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.verifier.programs import verify_program
from tests.campaign.shrink.planted import (
    WRONG_ADDITION,
    Altered,
    Defect,
    Planted,
    failures,
    last_column,
    missing,
    next_number,
    unmasked,
    without_sign,
)

DEFECTS: tuple[Defect, ...] = (unmasked, next_number, last_column, without_sign, missing)


def _instructions(case: Case) -> list[str]:
    """Instructions that a case executes and in which a defect can be planted: those that write a tile."""
    events = record(numbered(case)).events
    written = {e.op.name for e in events if any(isinstance(v.type, TileType) for v in e.op.destinations)}
    return sorted(written - {"tsetval"})


def _operations(shrunk: Shrunk) -> list[str]:
    return [op.name for op in shrunk.case.program.walk() if op.name != "arith.constant"]


def _checked(case: Case, machine: Planted) -> int | None:
    """How many operations a failure shrinks to, where the machine fails on the case."""
    if not compare_case(case, Oracle(), machine).is_failure:
        return None
    found = shrink(case, Oracle(), machine, seconds=20)
    operations = _operations(found)
    assert found.outcome.is_failure, (case.index, machine)
    assert found.instruction == machine.instruction, (case.index, machine, found.instruction)
    assert found.instruction in operations and len(operations) <= 3, (case.index, machine, operations)
    assert not [d for d in verify_program(found.case.program, case.profile) if d.severity == "error"]
    return len(operations)


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    "preset",
    # Kernels of micro-operations have no instruction of tiles: tests/campaign/micro makes theirs small;
    # those of the cube unit are one chain.
    # Programs on ranks are protocols, of which nothing can be left out.
    [p for p in PRESETS if p not in ("micro", "cube", "ranks")],
)
def test_planted_defects_shrink_to_their_instruction(preset: str) -> None:
    counts = []
    for n, case in enumerate(cases(3, 8, PRESETS[preset])):
        names = _instructions(case)
        for i in range(3 if names else 0):
            defect = DEFECTS[(n + i) % len(DEFECTS)]
            counts.append(_checked(case, Planted(names[(n + i) % len(names)], defect)))
    found = [c for c in counts if c is not None]
    assert len(found) >= 6 and statistics.median(found) == 1, counts


@pytest.mark.nightly
@pytest.mark.slow
def test_defects_of_every_class_shrink_to_their_instruction() -> None:
    """Every third instruction of the profile, each with one kind of defect."""
    found, names = Counter[int](), list(catalogue("a5", 512))[::3]
    for n, name in enumerate(names):
        options = replace(STRAIGHT, only=frozenset({name, "tmov"}), statements=3, elements=512)
        for case in cases(4, 3, replace(options, profiles=("a5",))):
            defect = DEFECTS[n % len(DEFECTS)]
            count = _checked(case, Planted(name, defect)) if name in _instructions(case) else None
            if count is not None:
                found[count] += 1
                break
    assert found.total() >= 24 and found[1] > 0.9 * found.total(), (found, len(names))


# -- failures that need several operations ---------------------------------------------------------


class _ShortLoop(ReferenceMachine):
    """Loops lose their last trip."""

    def unrolls(self, op: Op, trips: int) -> bool:
        return False

    def loop(self, frame: Any, trips: Any, inits: Any, body: Any) -> Any:
        return super().loop(frame, int(trips) - (int(trips) > 1), inits, body)


class _NoAddresses(ReferenceMachine):
    """Tiles at the same address do not share bytes."""

    def allocate(self, op: Op, type: TileType, address: Any) -> Any:
        return super().allocate(op, type, None)


class _NoMoves(ReferenceMachine):
    """A tile stays where it is when it gets another address."""

    def rebind(self, op: Op, ref: Any, type: TileType, address: Any) -> Any:
        return ref.storage


class _FirstRow(ReferenceMachine):
    """Windows begin in the first row."""

    def window(self, op: Op, ref: Any, type: TileType, row: Any, col: Any) -> Any:
        return super().window(op, ref, type, 0, col)


class _FirstElement(ReferenceMachine):
    """Scalars are read from the first element."""

    def element(self, op: Op, ref: Any, position: Any, dtype: Any) -> Any:
        return super().element(op, ref, 0, dtype)


def _altered_failures(machine: Altered, preset: str, seed: int = 5, start: int = 0) -> Iterator[Case]:
    drawn = cases(seed, 60, PRESETS[preset], start=start)
    return (c for c in drawn if compare_case(c, Oracle(), machine).is_failure)


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    "machine, preset, operation, most, seed, start",
    [
        (_ShortLoop, "everything", "scf.for", 5, 5, 0),
        (_NoAddresses, "aliases", "alloc_tile", 5, 5, 0),
        (_NoMoves, "aliases", "tassign", 3, 7, 20),
        (_FirstRow, "aliases", "subview", 3, 5, 0),
        (_FirstElement, "control", "tgetval", 3, 5, 40),
    ],
)
def test_failures_of_several_operations_shrink_to_them(
    machine: type[ReferenceMachine], preset: str, operation: str, most: int, seed: int, start: int
) -> None:
    altered = Altered(machine)
    case = next(_altered_failures(altered, preset, seed, start))
    found = shrink(case, Oracle(), altered, seconds=20)
    operations = _operations(found)
    assert found.outcome.is_failure and operation in operations and len(operations) <= most, operations
    assert found.instruction in operations and found.instruction != "alloc_tile"


@pytest.mark.slow
def test_the_same_failure_shrinks_to_the_same_case() -> None:
    machine, case = WRONG_ADDITION, next(failures("control")).case
    first, again = (shrink(case, Oracle(), machine, seconds=60) for _ in range(2))
    assert str(first.case.program) == str(again.case.program) and first.steps == again.steps
    assert all((first.case.inputs[n].words == again.case.inputs[n].words).all() for n in first.case.inputs)


def test_time_ends_a_search_with_what_was_found() -> None:
    machine, case = WRONG_ADDITION, next(failures("control")).case
    found = shrink(case, Oracle(), machine, seconds=1e-9)
    assert found.outcome.is_failure and found.instruction and found.steps == 1


def test_a_case_that_does_not_fail_stays_as_it_is() -> None:
    (case,) = cases(6, 1)
    found = shrink(case, Oracle(), Oracle(), seconds=5)
    assert (found.steps, found.instruction, found.outcome.kind) == (1, "", "equal")
    assert found.case.program == case.program
