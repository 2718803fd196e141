"""Windows, pads and counts where no recorded vectors are; sources that are in the place of a destination."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.ir import Loc, TileType
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.oracle.step import Step
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import BATCH, computes, make_case
from tests.covering import covering

I32 = pto.dtype("i32")


def tile(values: object, v_row: int | None = None, v_col: int | None = None) -> oracle.OracleTile:
    data = np.asarray(values, np.int32)
    return oracle.OracleTile(TileType(I32, *data.shape), data, v_row, v_col)


def run(text: str, profile: str = "cpu_sim", **given: Any) -> dict[str, Any]:
    return dict(oracle.run(pto.parse(text), given, profile=profile))


def test_a_window_that_leaves_the_source_is_an_error_and_reads_ones_where_nothing_is_checked() -> None:
    text = """
    %dst = textract %src[%r, %c] : !pto.tile<4x8xi32>, index, index -> !pto.tile<2x8xi32>
    """
    source = np.arange(32, dtype=np.int32).reshape(4, 8)
    np.testing.assert_array_equal(run(text, src=tile(source), r=1, c=0)["dst"].data, source[1:3])
    kernel = pto.compile(pto.parse(text), checks=False)
    for row, expected in ((1, source[1:3]), (3, np.vstack([source[3], [-1] * 8])), (-1, np.full((2, 8), -1))):
        np.testing.assert_array_equal(kernel(src=source, r=row, c=0)["dst"], expected)
    for row in (3, -1):
        with pytest.raises(pto.ExecutionError, match=f"offset {row} and size 2 in dimension 0 of src"):
            run(text, src=tile(source), r=row, c=0)


@pytest.mark.parametrize(("profile", "rows"), [("cpu_sim", 4), ("a2a3", 3), ("a5", 3)])
def test_hardware_fills_the_valid_rows_of_the_destination(profile: str, rows: int) -> None:
    text = """
    pto.tfillpad ins(%src : !pto.tile<4x8xi32>) outs(%dst : !pto.tile<4x8xi32>) {padValue = 7}
    """
    given = {
        "src": tile(np.ones((4, 8)), 2, 3),
        "dst": tile(np.zeros((4, 8)), 3, 5),
    }
    program = pto.parse(text)
    result = oracle.run(program, given, profile=profile)["dst"]
    expected = np.zeros((4, 8), np.int32)
    expected[:rows] = 7
    expected[:2, :3] = 1
    np.testing.assert_array_equal(result.data, expected)


#: Their results are a handle, an element and global memory; HiF4 is not executed.
_NO_TILES = frozenset(("talias", "tsetval", "mscatter", "tmatmul.mx.hif4", "tquant.hif4"))


@pytest.fixture(name="events")
def _events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the instruction that is executed does: names of sources it reads, "" where it writes."""
    events: list[str] = []
    cells, scatter = Step.cells, Step.scatter

    def reads(self: Step, name: str, positions: Any) -> Any:
        if isa.instructions()[self.op.name].operand(name).role in ("in", "inout"):
            events.append(name)
        return cells(self, name, positions)

    def writes(self: Step, words: Any, positions: Any, name: str = "dst") -> None:
        events.append("")
        scatter(self, words, positions, name)

    monkeypatch.setattr(Step, "cells", reads)
    monkeypatch.setattr(Step, "scatter", writes)
    yield events


def _places(sample: Sample, *roles: str) -> dict[str, Loc]:
    operands = ((n, t, sample.instruction.operand(n).role) for n, t in sample.types.items())
    return {n: t.loc for n, t, role in operands if isinstance(t, TileType) and role in roles}


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", [n for n, i in isa.instructions().items() if computes(i)])
def test_sources_are_read_before_results_are_written(name: str, events: list[str]) -> None:
    wrote = False
    for profile in PROFILES.values():
        for sample in covering(legal_samples(isa.instructions()[name], profile)):
            case = make_case(sample, profile)
            written = set(_places(sample, "out", "inout").values())
            near = {n for n, loc in _places(sample, "in", "inout").items() if loc in written}
            for b in range(BATCH):
                events.clear()
                case.reference(b)
                first = events.index("") if "" in events else len(events)
                wrote |= first < len(events)
                late = near.intersection(events[first:])
                assert not late, f"{case.label} [{profile.name}] reads {late} after it has written"
    assert wrote != (name in _NO_TILES)
