"""Programs of the preset ``defined`` give the same whatever undefined lanes hold."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from pto_jax import oracle
from pto_jax.cases.targets import Output, _for_interpreter, _of_interpreter
from pto_jax.generate.options import DEFINED, STRAIGHT
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.generate.state import Input
from pto_jax.ir import TileType


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
