"""Conversions have as many valid numbers on both sides, of packed types and of pairs of numbers too."""

from __future__ import annotations

import pytest

from pto_jax import ir
from pto_jax.isa.check import check_op, run_time_rules
from pto_jax.isa.rules.conversions import conversions
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile

FOUR_BITS = {d.name for d in ir.TILE_DTYPES if d.packed or d.pair_of or d.bits == 4}
PACKED = [(p, *pair) for p in PROFILE_NAMES for pair in conversions(p) if set(pair) & FOUR_BITS]
#: Valid rows and numbers of the source and of the destination, and whether both are legal together.
REGIONS = [
    ((4, 128), (4, 128), True),
    ((3, 2), (3, 2), True),
    ((1, 2), (1, 128), False),
    ((1, 128), (1, 2), False),
    ((4, 64), (3, 64), False),
    ((4, 126), (4, 128), False),
]


def _tile(name: str, valid: tuple[int | None, int | None]) -> ir.TileType:
    d = ir.dtype(name)
    return ir.TileType(d, 4, 128 // d.numbers).with_valid(*valid)


@pytest.mark.parametrize(("source", "destination", "legal"), REGIONS)
def test_valid_regions_of_packed_conversions_hold_as_many_numbers(
    source: tuple[int, int], destination: tuple[int, int], legal: bool
) -> None:
    """A packed source that is smaller than the destination in elements is no exception."""
    assert {p for p, _, _ in PACKED} == set(PROFILE_NAMES)
    for where, s, d in PACKED:
        sizes = [(rows, n // ir.dtype(t).numbers) for t, (rows, n) in ((s, source), (d, destination))]
        static, dynamic = (
            ir.Op(
                "tcvt",
                (ir.Value("s", _tile(s, valid[0])),),
                (ir.Value("d", _tile(d, valid[1])),),
                attributes=ir.attrs(rmode=ir.RoundMode.RINT),
            )
            for valid in (sizes, [(None, None)] * 2)
        )
        assert _is_legal(static, where, {}) == legal, (where, s, d)
        assert _is_legal(dynamic, where, {"s": sizes[0], "d": sizes[1]}) == legal, (where, s, d)
        assert _is_legal(dynamic, where, {})
        (rule,) = run_time_rules(dynamic, profile(where))
        assert rule.region is not None
        types = {"src": _tile(s, sizes[0]), "dst": _tile(d, sizes[1])}
        assert rule.region.broken({"src": sizes[0], "dst": sizes[1]}, types) != legal


def _is_legal(op: ir.Op, where: ProfileName, valid: dict[str, tuple[int, int]]) -> bool:
    return not [d for d in check_op(op, profile(where), valid=valid) if d.severity == "error"]
