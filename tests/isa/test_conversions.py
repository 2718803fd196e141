"""The conversion table of tcvt; conversions have as many valid numbers on both sides."""

import pytest

from pto_jax import ir, isa
from pto_jax.errors import ArgumentError
from pto_jax.ir import RoundMode, SaturationMode
from pto_jax.isa.check import check_op
from pto_jax.isa.rules.conversions import conversion, conversions
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile

ON, OFF = SaturationMode.ON, SaturationMode.OFF


def test_pairs_per_profile() -> None:
    assert len(conversions("a2a3")) == 25
    assert len(conversions("a5")) == 49
    assert len(conversions("cpu_sim")) == 121 + 30 + 6 + 22


@pytest.mark.parametrize(
    ("profile_name", "src", "dst", "mode", "acts"),
    [
        ("a2a3", "f32", "f16", RoundMode.ODD, RoundMode.ODD),
        ("a2a3", "f32", "bf16", RoundMode.ODD, RoundMode.RINT),
        ("a5", "f32", "i32", RoundMode.NONE, RoundMode.TRUNC),
        ("a5", "f32", "hif8", RoundMode.FLOOR, RoundMode.ROUND),
        ("a5", "f16", "f32", RoundMode.FLOOR, None),
        ("cpu_sim", "f32", "f16", RoundMode.FLOOR, RoundMode.RINT),
        ("cpu_sim", "f32", "i8", RoundMode.NONE, RoundMode.TRUNC),
        ("cpu_sim", "i32", "f32", RoundMode.CEIL, RoundMode.RINT),
        ("cpu_sim", "f32", "f32", RoundMode.CEIL, None),
    ],
)
def test_rounding(profile_name: str, src: str, dst: str, mode: RoundMode, acts: RoundMode | None) -> None:
    assert conversion(profile_name, src, dst).rounding(mode) is acts


@pytest.mark.parametrize(
    ("profile_name", "src", "dst", "default"),
    [
        *[(p, s, d, OFF) for p in ("a2a3", "a5") for s, d in (
            ("f16", "u8"), ("f16", "i8"), ("f16", "i16"), ("f32", "i16"), ("i64", "i32"), ("i32", "i16"))],
        ("a2a3", "f32", "i32", ON),
        ("a5", "f32", "f16", ON),
        ("a5", "i16", "f32", None),
        ("cpu_sim", "f32", "i32", OFF),
        ("cpu_sim", "f32", "i4", ON),
    ],
)  # fmt: skip
def test_default_saturation(profile_name: str, src: str, dst: str, default: SaturationMode | None) -> None:
    assert conversion(profile_name, src, dst).saturation(None) is default


def test_a2a3_honours_a_given_mode_only_where_the_default_is_off_or_with_scratch() -> None:
    row = conversion("a2a3", "f32", "i32")
    assert row.saturation(OFF) is ON
    assert row.saturation(OFF, tmp=True) is OFF
    assert conversion("a2a3", "f32", "i16").saturation(ON) is ON
    assert conversion("a5", "f32", "i32").saturation(OFF) is OFF


def test_an_unknown_pair_names_the_alternatives() -> None:
    with pytest.raises(ArgumentError, match="allowed: on a2a3 from bf16: f32, i32"):
        conversion("a2a3", "bf16", "u8")
    with pytest.raises(ArgumentError, match="allowed: cpu_sim, a2a3, a5"):
        conversions("a9")


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
        rules = isa.instructions()["tcvt"].constraints
        (region,) = (r.region for r in rules if r.region is not None and where in r.profiles)
        types = {"src": _tile(s, sizes[0]), "dst": _tile(d, sizes[1])}
        assert region.broken({"src": sizes[0], "dst": sizes[1]}, types) != legal


def _is_legal(op: ir.Op, where: ProfileName, valid: dict[str, tuple[int, int]]) -> bool:
    return not [d for d in check_op(op, profile(where), valid=valid) if d.severity == "error"]
