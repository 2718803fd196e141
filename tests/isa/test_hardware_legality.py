"""What the vendor's hardware tests have and headers assert: legality, values, and where f16 rounds."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.profiles import ProfileName
from tests.isa.test_hardware_values import PROFILES, everywhere

RNG = np.random.default_rng(7)


def _errors(text: str, profile: ProfileName) -> list[str | None]:
    return [d.rule for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "error"]


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
@pytest.mark.parametrize("axis", ["row", "col"])
def test_a_source_smaller_than_the_places_of_a_mask(profile: ProfileName, axis: str) -> None:
    """A 16x64 source whose 8x40 elements are valid spreads over every fourth place; the others become 0."""
    s = "!pto.tile_buf<vec, 16x64xf32, valid=8x40>"
    d = "!pto.tile_buf<vec, 16x256xf32>" if axis == "row" else "!pto.tile_buf<vec, 64x64xf32>"
    mask = f"maskPattern = #pto.mask_pattern<P0010>, scatterType = #pto<scatter_axis scatter_{axis}>"
    text = f"pto.tscatter ins(%s : {s}) outs(%d : {d}) {{{mask}}}"
    assert _errors(text, profile) == []
    assert _errors(text, "cpu_sim") == ["mask-region"]
    x = RNG.normal(size=(16, 64)).astype(np.float32)
    old = np.ones((16, 256) if axis == "row" else (64, 64), np.float32)
    (got,) = everywhere(text, profile, {"s": x, "d": old}, "d")
    expected = np.zeros_like(old)
    if axis == "row":
        expected[:8, 1:160:4] = x[:8, :40]
    else:
        expected[1:32:4, :40] = x[:8, :40]
    np.testing.assert_array_equal(got, expected)


def test_an_odd_number_of_interleaved_columns() -> None:
    """The second half of the sequence begins at a column of src0, as the golden of the hardware test does."""
    t = "!pto.tile_buf<vec, 4x8xf32, valid=4x5>"
    text = f"pto.tinterleave ins(%a, %b : {t}, {t}) outs(%c, %d : {t}, {t})"
    assert _errors(text, "a5") == [] and _errors(text, "cpu_sim") == ["columns-even"]
    a, b = RNG.normal(size=(2, 4, 8)).astype(np.float32)
    first, second = everywhere(text, "a5", {"a": a, "b": b}, "c", "d")
    sequence = np.stack([a[:, :5], b[:, :5]], axis=2).reshape(4, 10)
    np.testing.assert_array_equal(first[:, :5], sequence[:, :5])
    np.testing.assert_array_equal(second[:, :5], sequence[:, 4:9])


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_columns_behind_a_concatenation_stay(profile: ProfileName) -> None:
    s, d = "!pto.tile_buf<vec, 4x8xf32>", "!pto.tile_buf<vec, 4x24xf32>"
    text = f"pto.tconcat ins(%a, %b : {s}, {s}) outs(%d : {d})"
    assert _errors(text, profile) == [] and _errors(text, "cpu_sim") == ["columns-sum"]
    a, b = RNG.normal(size=(2, 4, 8)).astype(np.float32)
    old = RNG.normal(size=(4, 24)).astype(np.float32)
    (got,) = everywhere(text, profile, {"a": a, "b": b, "d": old}, "d")
    np.testing.assert_array_equal(got, np.concatenate([a, b, old[:, 16:]], axis=1))


@pytest.mark.parametrize(("rows", "wrong"), [(512, []), (1024, ["tile-capacity"])])
def test_right_tiles_of_twice_their_buffer(rows: int, wrong: list[str]) -> None:
    right = f"!pto.tile_buf<right, {rows}x128xf16, blayout=row_major, slayout=col_major>"
    text = f"func.func @k() {{\n  %t = pto.alloc_tile : {right}\n  return\n}}"
    found = pto.verify(pto.parse(text), profile="a2a3")
    assert [d.rule for d in found if d.severity == "error"] == wrong
    assert "tile-capacity" in [d.rule for d in found]


NUMBERS = np.random.default_rng(5)
SHAPE = (4, 64)


def _values(kind: Any, low: float, high: float) -> NDArray[Any]:
    return NUMBERS.uniform(low, high, SHAPE).astype(kind)


@pytest.mark.variants(3)
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
    x = NUMBERS.random(SHAPE).astype(kind)
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
