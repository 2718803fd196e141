"""Sources may be in a destination's place: an instruction reads them all before it writes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pto_jax import isa
from pto_jax.ir import Loc, TileType
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.oracle.step import Step
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import BATCH, computes, make_case
from tests.covering import covering

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


@pytest.mark.variants(20)
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
