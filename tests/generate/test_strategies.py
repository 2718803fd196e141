"""Strategies give legal programs, words and tiles; preset ``defined`` depends on no undefined lanes."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import InvalidArgument
from numpy.typing import NDArray

from pto_jax import oracle
from pto_jax.cases.targets import Output, _for_interpreter, _of_interpreter
from pto_jax.generate import strategies
from pto_jax.generate.options import DEFINED, MEMORY, STRAIGHT
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.generate.state import Input
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


@pytest.mark.slow
@few
@given(strategies.cases())
def test_a_case_is_shown_without_its_words(case: Case) -> None:
    """Hypothesis shows what fails, and refuses to show very much."""
    assert len(repr(case)) < 3_000


@pytest.mark.slow
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


def _outside_flipped(given: Input) -> Input:
    """The argument with other bits outside its valid region."""
    if not isinstance(given.type, TileType):
        return given
    sizes = given.valid or given.type.valid
    words = ~given.words & given.words.dtype.type((1 << given.type.dtype.bits) - 1)
    words[: sizes[0], : sizes[1]] = given.words[: sizes[0], : sizes[1]]
    return replace(given, words=words)


def _run(case: Case, fill: Literal["ones", "zero"]) -> dict[str, Output]:
    """Valid lanes of the results when undefined lanes read as all ones, or as other bits and zeros."""
    zero = fill == "zero"
    given = {n: _for_interpreter(_outside_flipped(i) if zero else i) for n, i in case.inputs.items()}
    found = oracle.run(
        case.program,
        given,
        profile=replace(case.profile, fresh_tile=fill),
        out_of_region="backing" if zero else "ones",
        entry=case.entry,
        grid=case.grid,
        partial_launch=True,
    )
    return {name: _valid(_of_interpreter(case, name, value)) for name, value in found.items()}


def _valid(output: Output) -> Output:
    if output.valid is None:
        return output
    rows, cols = output.valid
    return replace(output, words=output.words[:rows, :cols])


def _depends(case: Case) -> bool:
    one, other = _run(case, "ones"), _run(case, "zero")
    return any(
        o.valid != other[n].valid or not np.array_equal(o.words, other[n].words) for n, o in one.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1000])
def test_defined_programs_do_not_depend_on_undefined_lanes(start: int) -> None:
    found = [case.index for case in cases(13, 60, DEFINED, start) if _depends(case)]
    assert not found, f"seed 13: {found}"


def test_other_programs_do() -> None:
    uneven = replace(STRAIGHT, uneven=0.5, statements=12)
    assert any(_depends(generate(13, index, uneven)) for index in range(40))


def test_defined_reductions_have_something_to_reduce() -> None:
    """A reduction of an empty region reads a first element, which nothing has written."""
    assert not _depends(generate(7, 5075, DEFINED))
    reductions = replace(DEFINED, only=frozenset(("trowargmin", "tcolmax")), dynamic=0.0, partial=1.0)
    for case in cases(5, 25, reductions):
        tiles = [v.type for op in case.program.walk() if op.name in reductions.only for v in op.ins]
        assert all(t.v_row and t.v_col for t in tiles if isinstance(t, TileType)), case.index


@pytest.mark.slow
def test_positions_name_elements_that_are_there() -> None:
    """In programs of defined data nothing is scattered to places that may be equal."""
    names = frozenset(("tgather", "mgather", "tscatter", "mscatter"))
    for options, expected in (
        (replace(MEMORY, only=names - {"tgather", "tscatter"}), {"mgather", "mscatter"}),
        (replace(DEFINED, only=names), {"mgather", "tgather"}),
        (replace(DEFINED, only=names, functions=1.0), {"mgather", "tgather"}),
    ):
        seen = set()
        for case in cases(3, 12, options):
            seen |= {op.name for op in case.program.walk() if "maskPattern" not in dict(op.attributes)}
            # The interpreter stops at accesses outside of buffers.
            assert not options.defined or not _depends(case), case.index
            assert _run(case, "zero")
        assert seen & names == expected
