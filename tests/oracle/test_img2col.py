"""Image-to-column and its registers; how convolution tiles are written and what is rejected."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import BLayout, Conv, Geometry, GlobalLayout, Loc, SLayout, TileType, conv_tile
from pto_jax.text.type_text import print_type

G = GlobalLayout
I32 = pto.dtype("i32")
Array = Any


def window(dims: tuple[int, ...]) -> Array:
    return (np.arange(1, int(np.prod(dims)) + 1).reshape(dims) % 251).astype(np.int32)


GEOMETRY = Geometry(filter=(2, 3), stride=(2, 1), dilation=(1, 2), padding=(2, 1, 1, 0), pad_value=77)


def columns(image: Array, g: Geometry) -> Array:
    """Windows of [n, c1, h, w, c0] as rows, taken from an image that is padded first."""
    left, right, top, bottom = g.padding
    sides = ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0))
    padded = np.pad(image, sides, constant_values=g.pad_value)
    (kh, kw), (sh, sw), (dh, dw) = g.filter, g.stride, g.dilation
    high, wide = padded.shape[2] - dh * (kh - 1), padded.shape[3] - dw * (kw - 1)
    rows = []
    for n in range(len(image)):
        for y in range(0, high, sh):
            for x in range(0, wide, sw):
                taken = padded[n, :, y : y + dh * kh : dh, x : x + dw * kw : dw]
                rows.append(taken[:, :kh, :kw].reshape(-1))
    return np.array(rows)


def image_to_column(
    text: str, conv: Conv, data: Array, v: tuple[int, int], profile: str, at: tuple[int, int] = (0, 0)
) -> Array:
    left = TileType(
        I32, 64, 128, *v, Loc.LEFT, BLayout.ROW_MAJOR if profile == "a2a3" else BLayout.COL_MAJOR,
        SLayout.ROW_MAJOR,
    )  # fmt: skip
    src = print_type(conv_tile(I32, conv))
    filled = text.replace("SRC", src).replace("DST", print_type(left))
    given = {"src": oracle.OracleTile(conv_tile(I32, conv), data.reshape(1, -1)), "m": at[0], "k": at[1]}
    program = pto.parse(filled)
    used = {v.name for v in program.functions[0].args}
    given = {n: g for n, g in given.items() if n in used}
    results = oracle.run(program, given, profile=profile)
    return results["dst"].data[: v[0], : v[1]]


PLAIN_TEXT = "%dst = pto.timg2col %src : SRC -> DST"
AT = "%dst = pto.timg2col %src, %m, %k : (SRC, index, index) -> DST"


@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_image_to_column_takes_the_windows_of_a_convolution(profile: str) -> None:
    image = window((2, 2, 5, 6, 8))
    conv = Conv(G.NC1HWC0, image.shape, GEOMETRY)
    expected = columns(image, GEOMETRY)
    assert expected.shape == (2 * 3 * 5, 96)
    found = image_to_column(PLAIN_TEXT, conv, image, (30, 96), profile)
    np.testing.assert_array_equal(found, expected)
    part = image_to_column(AT, conv, image, (7, 20), profile, (13, 41))
    np.testing.assert_array_equal(part, expected[13:20, 41:61])
    beyond = image_to_column(AT, conv, image, (20, 20), profile, (25, 90))
    np.testing.assert_array_equal(beyond[:5, :6], expected[25:, 90:])
    assert (beyond[5:] == 77).all() and (beyond[:, 6:] == 77).all()


CONFIGURED = """
pto.setfmatrix %f {mode = FMATRIX_MODE} : !pto.conv_tile<mat, 1x1x5x6x8xi32, layout=nc1hwc0, padding=1x1x1x1>
pto.set_img2col_padding %g {mode = FMATRIX_MODE} : !pto.fmatrix_config<pad_value=5>
pto.set_img2col_rpt %g : !pto.fmatrix_config<pad_value=5>
%dst = pto.timg2col %src {mode = FMATRIX_READ} : (SRC) -> DST
"""


@pytest.mark.parametrize(
    ("written", "read", "profile", "loaded"),
    [
        ("A_MANUAL", "A_MANUAL", "a5", True),
        ("A_MANUAL", "A_MANUAL", "a2a3", True),
        ("B_MANUAL", "B_MANUAL", "a5", True),
        ("A_MANUAL", "A_AUTO", "a5", False),
        ("A_AUTO", "A_MANUAL", "a5", False),
        ("A_MANUAL", "A_MANUAL", "cpu_sim", False),
    ],
)
def test_registers_hold_what_configuration_left(written: str, read: str, profile: str, loaded: bool) -> None:
    image = window((1, 1, 5, 6, 8))
    own = Geometry(filter=(3, 3), pad_value=1)
    text = CONFIGURED.replace("FMATRIX_MODE", f"FMATRIX_{written}").replace("FMATRIX_READ", f"FMATRIX_{read}")
    used = replace(own, padding=(1, 1, 1, 1), pad_value=5) if loaded else own
    expected = columns(image, used)
    conv = Conv(G.NC1HWC0, image.shape, own)
    f = conv_tile(I32, Conv(G.NC1HWC0, (1, 1, 5, 6, 8), Geometry(padding=(1, 1, 1, 1))))
    left = TileType(
        I32, 32, 72, len(expected), 72, Loc.LEFT,
        BLayout.ROW_MAJOR if profile == "a2a3" else BLayout.COL_MAJOR, SLayout.ROW_MAJOR,
    )  # fmt: skip
    program = pto.parse(
        text.replace("SRC", print_type(conv_tile(I32, conv))).replace("DST", print_type(left))
    )
    given = {
        "src": oracle.OracleTile(conv_tile(I32, conv), image.reshape(1, -1)),
        "f": oracle.OracleTile(f, np.zeros(f.shape, np.int32)),
        "g": None,
    }
    found = oracle.run(program, given, profile=profile)["dst"].data
    np.testing.assert_array_equal(found[: len(expected)], expected)


def test_the_other_feature_map_has_registers_of_its_own() -> None:
    """Sizes of B do not touch A; the padding value is one for both."""
    image = window((1, 1, 3, 3, 8))
    conv = Conv(G.NC1HWC0, image.shape, Geometry(filter=(2, 2), padding=(1, 0, 0, 0)))
    text = """
    pto.setfmatrix %g {mode = FMATRIX_B_MANUAL} : !pto.fmatrix_config<fmap=3x3, pad_value=3>
    pto.set_img2col_padding %g {mode = FMATRIX_B_MANUAL} : !pto.fmatrix_config<fmap=3x3, pad_value=3>
    %dst = pto.timg2col %src : SRC -> DST
    """
    src, left = conv_tile(I32, conv), TileType(
        I32, 16, 32, 6, 32, Loc.LEFT, BLayout.COL_MAJOR, SLayout.ROW_MAJOR
    )  # fmt: skip
    program = pto.parse(text.replace("SRC", print_type(src)).replace("DST", print_type(left)))
    given = {"src": oracle.OracleTile(src, image.reshape(1, -1)), "g": None}
    found = oracle.run(program, given, profile="a5")["dst"].data[:6]
    np.testing.assert_array_equal(found, columns(image, replace(conv.geometry, pad_value=3)))


def test_channels_beyond_those_of_the_image_are_padding_on_hardware() -> None:
    image = window((1, 1, 2, 2, 8))
    conv = Conv(G.NC1HWC0, image.shape, Geometry(pad_value=99, channels=5))
    for profile, expected in (("cpu_sim", image), ("a5", np.where(np.arange(8) < 5, image, 99))):
        found = image_to_column(PLAIN_TEXT, conv, image, (4, 8), profile)
        np.testing.assert_array_equal(found, expected.reshape(4, 8))


# -- what is rejected --------------------------------------------------------------------------------

IMAGE = "!pto.conv_tile<mat, 1x2x3x4x8xf32, layout=nc1hwc0>"


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        (f"%d = pto.tadd %a, %a : ({IMAGE}, {IMAGE}) -> {IMAGE}", "a5", "allowed: an ordinary tile"),
        (
            "%t = pto.alloc_tile : !pto.conv_tile<mat, 1x2x3x4x4xf32, layout=nc1hwc0>",
            "a5",
            "blocks of 4 channels; allowed: 8",
        ),
        (
            "%t = pto.alloc_tile : !pto.conv_tile<mat, 2x3x4x8xf32, layout=nc1hwc0>",
            "a5",
            "with 4 dimensions; allowed: 5",
        ),
        (
            "pto.tload ins(%v : !pto.partition_tensor_view<16x16xf32>) outs(%t : "
            "!pto.tile_buf<mat, 16x16xf32, slayout=row_major>) {layout = #pto.layout<nd>}",
            "a2a3",
            "v has layout nd|src has layout nd",
        ),
        (
            f"pto.tload ins(%v : !pto.partition_tensor_view<1x2x3x5x8xf32>) outs(%t : {IMAGE})",
            "a5",
            "1x2x3x5x8, the convolution tile 1x2x3x4x8; allowed for layout nc1hwc0: 1x2x3x4x8",
        ),
        (
            "%d = pto.timg2col %s : !pto.conv_tile<mat, 1x1x2x2x8xf32, layout=nc1hwc0, filter=3x3> -> "
            "!pto.tile_buf<left, 16x72xf32, blayout=col_major, slayout=row_major>",
            "a5",
            "the filter takes 3 rows of an image of 2 with 0 of padding",
        ),
    ],
)
def test_findings_say_what_is_allowed(text: str, profile: str, message: str) -> None:
    found = [d.message for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "error"]
    assert any(part in m for m in found for part in message.split("|")), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mat, 1x2x?x4x8xf32, layout=nc1hwc0>", "static ones"),
        ("<mat, 1x2x3x4x8xf32>", "layout="),
        ("<mat, 1x2x3x4x8xf32, layout=nc1hwc0, filter=3>", "2 sizes, as in filter=1x1"),
        ("<mat, 1x2x3x4x8xf32, layout=nc1hwc0, filters=3x3>", "unknown key 'filters'"),
        ("<mat, 1x2x3x4x8xf32, layout=nc1hwc0, filter=3x3, filter=3x3>", "'filter' twice"),
        ("<mat, 1x2x3x4x8xf32, layout=nc1>", "nc1"),
        ("<mat, 1x2x3x4x8xf32, layout=nc1hwc0, pad_value=-1>", "a number"),
    ],
)
def test_types_that_are_no_convolution_tiles(text: str, message: str) -> None:
    with pytest.raises(pto.ParseError, match=message):
        pto.parse(f"%t = pto.alloc_tile : !pto.conv_tile{text}")


def test_types_are_printed_as_they_are_read() -> None:
    geometry = "fmap=3x4, filter=2x2, stride=2x1, padding=0x0x1x0, pad_value=0xbf800000, channels=9"
    text = f"!pto.conv_tile<vec, 1x2x3x4x8xf32, layout=nc1hwc0, {geometry}>"
    program = pto.parse(f"%t = pto.alloc_tile : {text}")
    assert text in str(program) and pto.parse(str(program)) == program
