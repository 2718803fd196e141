"""Pictures of tiles: every element type and mark, sampling, and what a reader of a cell sees."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import TILE_DTYPES, DType
from pto_jax.pictures import Picture, array, tile
from tools import pictures as readme

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def titles(picture: Picture) -> list[str]:
    """The titles of cells, in the order in which they are drawn; the text is XML."""
    root = ElementTree.fromstring(picture.svg)
    return [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}title")]


def count(picture: Picture, kind: str) -> int:
    return len(re.findall(rf'<rect [^>]*class="{kind}"[^>]*><title', picture.svg))


@pytest.mark.parametrize("d", TILE_DTYPES, ids=str)
def test_every_element_type_has_its_bits(d: DType) -> None:
    words = (np.arange(256).reshape(8, 32) % (1 << min(d.bits, 16))).astype(d.word)
    picture = tile(pto.tile(words, dtype=d, valid=(5, 31)))
    found = titles(picture)
    assert len(found) == 256 and f"vec 8x32x{d}" in picture.label
    for i, j in ((0, 7), (4, 30), (7, 31)):
        assert f"bits 0x{int(words[i, j]):0{-(-d.bits // 4)}x}" in found[32 * i + j]
    assert sum("outside the valid region" in t for t in found) == count(picture, "outside") == 256 - 5 * 31


def test_nan_infinite_saturated_and_undefined_lanes_have_their_marks() -> None:
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    x[0, :4] = [np.nan, np.inf, -np.inf, 7e4]
    half = pto.ops.tcvt(pto.tile(x, valid=(2, 5)), dst="f16", sat_mode="ON")
    undefined = np.zeros((4, 16), bool)
    undefined[1, 1] = undefined[3, 3] = True  # The second one is outside the valid region.
    picture = tile(half, undefined=undefined)
    assert (count(picture, "nan"), count(picture, "undefined")) == (1, 1)
    assert "[0, 3] 65504, bits 0x7bff: at the limit of f16" in titles(picture)
    assert "[1, 1] 17, bits 0x4c40: undefined" in titles(picture)
    for words in ("1 NaN", "1 undefined"):
        assert f">{words}<" in picture.svg
    assert "at the limit of f16" not in tile(half, saturated=np.zeros((4, 16), bool)).svg
    infinite = tile(pto.tile(x))
    assert count(infinite, "inf") == 2 and ">-Inf<" in infinite.svg and ">2 Inf<" in infinite.svg


@pytest.mark.parametrize(
    ("dtype", "numbers", "marked"),
    [
        ("i8", [-128, 127, 0, 1], 2),
        ("u8", [0, 255, 1, 2], 1),
        ("i4", [7, 8, 0, 1], 0),
        ("u64", [0, 2**64 - 1, 5, 6], 1),
    ],
)
def test_limits_of_integers_count_as_saturated(dtype: str, numbers: list[int], marked: int) -> None:
    d = pto.dtype(dtype)
    picture = tile(pto.tile(np.array([numbers * 8], d.numpy), dtype=d))
    assert sum("at the limit" in t for t in titles(picture)) == 8 * marked


def test_the_largest_float_has_a_scale() -> None:
    limits = np.finfo(np.float32)
    picture = tile(np.array([[limits.min, limits.max]], np.float32))
    assert "nan" not in picture.svg.partition("</defs>")[2].lower()
    assert ">-3.4e38<" in picture.svg or ">-3e38<" in picture.svg
    assert "no finite numbers" in tile(np.full((1, 8), np.nan, np.float32)).svg


def test_pairs_show_both_numbers() -> None:
    picture = tile(pto.tile(np.array([[0x21] * 32], np.uint8), dtype="f4e2m1_pair"))
    assert titles(picture)[0] == "[0, 0] 0.5 and 1, bits 0x21"


@pytest.mark.parametrize("valid", [(0, 8), (4, 0), (0, 0)])
def test_an_empty_region_has_no_frame(valid: tuple[int, int]) -> None:
    picture = tile(pto.tile(X, valid=valid))
    assert "(empty)" in picture.label and 'class="frame"' not in picture.svg
    assert count(picture, "outside") == 32


def test_a_large_tile_is_sampled_and_its_marks_are_counted() -> None:
    x = np.zeros((100, 300), np.float32)
    x[1, 1] = np.nan  # Not drawn.
    picture = tile(x)
    assert "drawn: every 2nd row and every 5th column" in picture.svg and ">1 NaN<" in picture.svg
    assert len(titles(picture)) == 50 * 60 and "[98, 295] 0, " in picture.svg


def test_a_batch_shows_its_first_tile_with_its_own_region() -> None:
    made = jax.vmap(lambda x, n: pto.tile(x, valid=(n, 8)))(np.stack([X, X + 1]), np.array([1, 3]))
    picture = tile(made)
    assert "tile 0 of 2, valid 1x8" in picture.svg and titles(picture)[0].startswith("[0, 0] 0, ")


def test_the_interpreters_tiles_and_arrays_are_drawn() -> None:
    t = pto.TileType("f32", 4, 8)
    oracle = tile(pto.oracle.OracleTile(t, X, 2, 3))
    assert oracle.label == "tile vec 4x8xf32, valid 2x3"
    assert "4x8xbf16" in tile(X.astype(ml_dtypes.bfloat16)).label
    words = array("b", np.array([[0x21, 0x43]], np.uint8), pto.dtype("f4e2m1x2"))
    assert [t.partition(",")[0] for t in titles(words)] == ["[0", "[0", "[0", "[0"]
    flat = array("s", np.arange(130, dtype=np.int32), pto.dtype("i32"))
    assert "128 elements, 2 at the end not drawn" in flat.label
    assert "no elements" in array("e", np.zeros((0, 4), np.int32), pto.dtype("i32")).svg


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        ([1], {}, "got a list; allowed: a tile, or an array"),
        (np.zeros(3, np.float32), {}, r"got an array float32\[3\]"),
        (np.zeros((1, 8), np.complex64), {}, "got an array complex64"),
        (X, {"undefined": np.zeros((2, 8), bool)}, r"undefined: got bool\[2, 8\]; allowed: bool\[4, 8\]"),
        (X, {"saturated": np.zeros((4, 8))}, r"saturated: got float64\[4, 8\]"),
        (X, {"saturated": [[True], []]}, r"saturated: got object\[\]; allowed: bool\[4, 8\]"),
    ],
)
def test_what_is_no_tile_is_one_clear_error(x: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        tile(x, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (np.zeros((2, 8)), pto.dtype("f32"), "got float64 as f32; allowed: an array, and its element type"),
        (X, "f32", "as a str; allowed: an array, and its element type"),
        ([[1], []], pto.dtype("i32"), "got object as i32"),
    ],
)
def test_buffers_are_drawn_in_their_own_type(values: Any, kind: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        array("y", values, kind)


def test_a_traced_tile_is_an_error() -> None:
    with pytest.raises(pto.ArgumentError, match="got a traced tile"):
        jax.jit(lambda x: tile(pto.tile(x)).label)(X)


def test_the_text_is_the_same_each_time_and_follows_the_theme() -> None:
    assert tile(X).svg == tile(X.copy()).svg == tile(X)._repr_svg_()
    assert "prefers-color-scheme:dark" in tile(X).svg and "[data-theme=dark]" in tile(X).svg


def test_pictures_are_saved_under_names_in_svg(tmp_path: Path) -> None:
    picture = tile(X)
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == picture.svg
    for name, fix in (("", "picture"), (".", "picture"), (tmp_path / "x.png", "x")):
        with pytest.raises(pto.ArgumentError, match=rf"names in \.svg; try: {fix}\.svg"):
            picture.save(name)
    with pytest.raises(pto.ArgumentError, match="path: got None; allowed: the name of a file"):
        picture.save(None)  # type: ignore[arg-type]
    with pytest.raises(pto.FileError, match="cannot be written"):
        picture.save(tmp_path / "missing" / "x.svg")


def test_names_are_escaped() -> None:
    assert "&lt;b&gt;" in tile(X, name="<b>").svg and 'aria-label="&lt;b&gt;' in tile(X, name="<b>").svg


def test_the_readmes_picture_is_what_the_product_draws() -> None:
    drawn = readme.picture().svg
    assert readme.PICTURE.read_text(encoding="utf-8") == drawn, "to be written by tools.pictures --update"
    assert drawn.count("at the limit of f16") == 5 and drawn.count("NaN") == 4


def test_the_tutorials_pictures_are_those_of_their_programs() -> None:
    for page, pictures in ((readme.TUTORIAL, readme.of_the_tutorial()), (readme.RANKS, readme.of_ranks())):
        text = page.read_text(encoding="utf-8").replace("../", "")
        for path, picture in pictures.items():
            assert path.read_text(encoding="utf-8") == picture.svg, "to be written by tools.pictures --update"
            assert f"({path.relative_to(readme.DOCS)})" in text


def test_long_numbers_of_a_scale_do_not_meet() -> None:
    svg = tile(np.float32([[0.123456, 0.654321]])).svg
    assert "0.12346" in svg and "0.65432" in svg and "0.38889" not in svg
    assert all(f">{n}<" in tile(np.float32([[0, 100]])).svg for n in (0, 50, 100))


def test_a_number_that_nearly_fits_is_itself() -> None:
    cells = tile(np.float32([[65504, -65504, -70000] * 4])).svg
    assert ">-65504<" in cells and ">-70000<" in cells and "e4<" not in cells
