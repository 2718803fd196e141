"""The conversion table of tcvt."""

from __future__ import annotations

import pytest

from pto_jax.errors import ArgumentError
from pto_jax.ir import RoundMode, SaturationMode
from pto_jax.isa.rules.conversions import conversion, conversions

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
