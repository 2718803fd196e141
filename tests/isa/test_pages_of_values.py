"""Pages say of values what execution does, where readers would guess otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.manual import manual
from pto_jax.profiles import ProfileName
from tests.isa.test_hardware_values import everywhere


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tmov.fp", "two's complement"),
        ("tsort32", "a zero word"),
        ("tpartargmax", "on a5 also where one is NaN"),
        ("tile", "left, right, top and bottom"),
        ("tile", "one row of all elements"),
        ("tquant.mx", "-0 included"),
        ("taddc", "f32 rounds after each of the two operations"),
        ("tsubsc", "f32 rounds after each of the two operations"),
        ("tcvt", "65504 in f16"),
        ("tcmp", "On cpu_sim the mask tile is cleared first"),
        ("tload", "floats of 8 and 4 bits have zero only"),
        ("tshls", "modulo 32"),
    ],
)
def test_pages_name_the_value(name: str, words: str) -> None:
    assert words in " ".join(manual(name).split())


@pytest.mark.parametrize(
    ("profile", "source", "target", "attributes", "rule"),
    [
        ("a2a3", "i32", "f16", "rmode = #pto<round_mode floor>", "rounding-effect"),
        ("a2a3", "i32", "f16", "rmode = #pto<round_mode rint>", None),
        ("a5", "f32", "hif8", "rmode = #pto<round_mode trunc>", "rounding-effect"),
        ("a5", "i16", "u32", "sat_mode = #pto<saturation_mode off>", "saturation-effect"),
        ("a5", "i16", "u32", "sat_mode = #pto<saturation_mode on>", None),
    ],
)
def test_modes_of_tcvt_without_effect_are_named(
    profile: ProfileName, source: str, target: str, attributes: str, rule: str | None
) -> None:
    tiles = [f"!pto.tile_buf<vec, 1x32x{d}>" for d in (source, target)]
    text = f"pto.tcvt ins(%a : {tiles[0]}) outs(%d : {tiles[1]}) {{{attributes}}}"
    found = pto.verify(pto.parse(text), profile=profile)
    assert [d.rule for d in found] == ([] if rule is None else [rule])


def test_tcvt_does_what_its_page_says() -> None:
    def converted(
        profile: ProfileName, source: str, target: str, x: object, attributes: str = ""
    ) -> list[float]:
        tiles = [f"!pto.tile_buf<vec, 1x32x{d}>" for d in (source, target)]
        text = f"pto.tcvt ins(%a : {tiles[0]}) outs(%d : {tiles[1]}) {{{attributes}}}"
        values = np.resize(np.asarray(x, pto.dtype(source).numpy), (1, 32))
        (got,) = everywhere(text, profile, {"a": values}, "d")
        return [float(v) for v in got[0, :3]]

    on, floor = "sat_mode = #pto<saturation_mode on>", "rmode = #pto<round_mode floor>"
    assert converted("cpu_sim", "f32", "f16", [np.inf, np.nan, 1.5], on) == [65504, 65504, 1.5]
    assert converted("cpu_sim", "i64", "i64", [(1 << 53) + 1, 5, -1], on) == [1 << 53, 5, -1]
    assert converted("a2a3", "i32", "f16", [2051, 2049, 1], floor) == [2052, 2048, 1]
    assert converted("a5", "i16", "u32", [-1, 5, -9], "sat_mode = #pto<saturation_mode off>") == [0, 5, 0]
    assert converted("a5", "f32", "f32", [1.5, 2.5, -0.7]) == [2, 2, -1]
    assert converted("a2a3", "f32", "i32", [1.7, -1.7, 2.5], "rmode = #pto<round_mode odd>") == [1, -1, 2]
