"""Strategies give legal programs, words of their type and tiles with valid regions."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import InvalidArgument
from numpy.typing import NDArray

from pto_jax.generate import strategies
from pto_jax.generate.programs import Case
from pto_jax.ir import F16, TileType
from pto_jax.profiles import PROFILE_NAMES, ProfileName
from pto_jax.runtime.tiles import Tile
from pto_jax.verifier.programs import verify_program

# The same examples on every run: a rare finding of a random search must not fail an unrelated change.
few = settings(
    max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def _errors(case: Case) -> list[str]:
    return [str(d) for d in verify_program(case.program, case.profile) if d.severity == "error"]


@pytest.mark.slow
@few
@given(strategies.cases())
def test_cases_are_legal(case: Case) -> None:
    assert not _errors(case)


@few
@given(strategies.cases())
def test_a_case_is_shown_without_its_words(case: Case) -> None:
    """Hypothesis shows what fails, and refuses to show very much."""
    assert len(repr(case)) < 3_000


@few
@given(strategies.instructions("trowsum"), strategies.profiles())
def test_cases_with_one_instruction(case: Case, profile: ProfileName) -> None:
    assert not _errors(case) and profile in PROFILE_NAMES
    assert [op.name for op in case.program.walk() if op.name.startswith("trow")] == ["trowsum"]


def test_an_instruction_that_nothing_generates_is_an_error() -> None:
    with pytest.raises(InvalidArgument, match="instructions\\('tpop'\\): no profile of"):
        strategies.instructions("tpop")


@few
@given(strategies.values("f16", (4, 16)))
def test_values_are_words(found: NDArray[Any]) -> None:
    assert found.dtype == F16.word and found.shape == (4, 16)


@few
@given(strategies.tiles(), strategies.tiles(TileType(F16, 4, 16, 3, None)))
def test_tiles_have_valid_regions(any_tile: Tile, half: Tile) -> None:
    for tile in (any_tile, half):
        assert 0 <= int(tile.valid_rows) <= tile.type.rows and 0 <= int(tile.valid_cols) <= tile.type.cols
        assert tile.words.shape == tile.type.shape and tile.words.dtype == tile.type.dtype.word
    assert half.type.dtype == F16 and int(half.valid_rows) == 3
