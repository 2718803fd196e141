"""Where f16 rounds in taxpy, tfusedmuladd and trsqrt: as the vendor's hardware tests have it, by profile."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.profiles import ProfileName
from tests.isa.test_hardware_values import PROFILES, everywhere

RNG = np.random.default_rng(5)
SHAPE = (4, 64)


def _values(kind: Any, low: float, high: float) -> NDArray[Any]:
    return RNG.uniform(low, high, SHAPE).astype(kind)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("target", [np.float16, np.float32])
def test_the_product_of_taxpy(profile: ProfileName, target: Any) -> None:
    old, x, factor = _values(target, -100, 100), _values(np.float16, -100, 100), np.float16(3.3)
    name = {np.float16: "f16", np.float32: "f32"}[target]
    s, d = (f"!pto.tile_buf<vec, 4x64x{t}>" for t in ("f16", name))
    text = f"pto.taxpy ins(%x, %s : {s}, f16) outs(%d : {d})"
    (got,) = everywhere(text, profile, {"x": x, "s": factor, "d": old}, "d")
    once = (old.astype(np.float64) + x.astype(np.float64) * np.float64(factor)).astype(target)
    rounded = (old + (x * factor).astype(target)).astype(target)
    assert (once != rounded).any()
    twice = profile == "cpu_sim" or (profile == "a2a3" and target == np.float16)
    np.testing.assert_array_equal(got, rounded if twice else once)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_the_product_of_tfusedmuladd(profile: ProfileName, kind: Any) -> None:
    x, old, y = (_values(kind, -25, 25) for _ in range(3))
    t = f"!pto.tile_buf<vec, 4x64x{'f16' if kind == np.float16 else 'f32'}>"
    text = f"pto.tfusedmuladd ins(%x, %y : {t}, {t}) outs(%d : {t})"
    (got,) = everywhere(text, profile, {"x": x, "y": y, "d": old}, "d")
    wide = (x.astype(np.float32) * old.astype(np.float32) + y.astype(np.float32)).astype(kind)
    expected = x * old + y if profile != "cpu_sim" else wide
    assert kind == np.float32 or (wide != x * old + y).any()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_the_precise_form_of_trsqrt(profile: ProfileName, precise: bool, kind: Any) -> None:
    x = RNG.random(SHAPE).astype(kind)
    x[0, :5] = (0.0, -0.0, np.inf, -1.0, np.nan)
    t = f"!pto.tile_buf<vec, 4x64x{'f16' if kind == np.float16 else 'f32'}>"
    attribute = " {precisionType = #pto<rsqrt_precision high_precision>}" if precise else ""
    text = f"pto.trsqrt ins(%x, %w : {t}, {t}) outs(%d : {t}){attribute}"
    (got,) = everywhere(text, profile, {"x": x, "w": x}, "d")
    with np.errstate(all="ignore"):
        once = (1 / np.sqrt(x.astype(np.float64))).astype(kind)
        twice = (1 / np.sqrt(x)).astype(kind)
    assert (once != twice).any()
    np.testing.assert_array_equal(got, twice if precise and profile == "a5" else once)
