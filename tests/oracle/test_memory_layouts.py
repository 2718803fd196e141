"""Global-memory layouts and convolution tiles, against other ways to write them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import ir, isa, oracle
from pto_jax.isa.samples.operations import Sample, to_program
from pto_jax.text.type_text import print_type

pytestmark = pytest.mark.instructions("tload", "tstore")

G = ir.GlobalLayout
I32, U8, F32, F16, E8 = (pto.dtype(n) for n in ("i32", "u8", "f32", "f16", "f8e8m0"))
Array = Any


def window(dims: tuple[int, ...], word: Any = np.int32) -> Array:
    """A window in which every element is another one, as far as the type allows."""
    return (np.arange(1, int(np.prod(dims)) + 1).reshape(dims) % 251).astype(word)


def transfer(
    name: str, t: ir.TileType, data: Array, view: Array, layout: ir.GlobalLayout | None, profile: str
) -> Array:
    """What a load makes of a tile, or a store of a window."""
    types: dict[str, ir.Type] = {"dst": t, "src": ir.PartitionViewType(view.shape, t.dtype)}
    if name == "tstore":
        types = {"dst": types["src"], "src": t}
    sample = Sample(isa.instructions()[name], types, ("src",), {} if layout is None else {"layout": layout})
    given = {"dst": oracle.OracleTile(t, data), "src": view}
    if name == "tstore":
        given = {"dst": view, "src": given["dst"]}
    result = oracle.run(to_program(sample), given, profile=profile)["dst"]
    return result if name == "tstore" else result.data


def load(t: ir.TileType, view: Array, layout: ir.GlobalLayout | None, profile: str, fill: int = 0) -> Array:
    return transfer("tload", t, np.full(t.shape, fill, t.dtype.word), view, layout, profile)


# -- layouts of windows ------------------------------------------------------------------------------


def rows_cols(order: tuple[int, ...], rows: int) -> Callable[[Array], Array]:
    """The five dimensions in another order, the first ``rows`` of them along the rows of a tile."""

    def arranged(x: Array) -> Array:
        turned = x.transpose(order)
        return turned.reshape(int(np.prod(turned.shape[:rows])), -1)

    return arranged


LAYOUTS: dict[ir.GlobalLayout, tuple[tuple[int, ...], Callable[[Array], Array]]] = {
    G.ND: ((2, 1, 3, 4, 5), rows_cols((0, 1, 2, 3, 4), 4)),
    G.DN: ((2, 1, 3, 4, 5), rows_cols((3, 0, 1, 2, 4), 1)),
    G.NZ: ((2, 2, 3, 16, 8), rows_cols((2, 3, 0, 1, 4), 2)),
    G.NC1HWC0: ((2, 2, 3, 2, 8), rows_cols((0, 2, 3, 1, 4), 3)),
    G.MX_A_ZZ: ((1, 2, 3, 16, 2), rows_cols((0, 1, 3, 2, 4), 3)),
    G.MX_A_ND: ((1, 1, 5, 3, 2), rows_cols((0, 1, 2, 3, 4), 3)),
    G.MX_A_DN: ((1, 1, 3, 5, 2), rows_cols((0, 1, 3, 2, 4), 3)),
    G.MX_B_NN: ((1, 2, 3, 16, 2), rows_cols((0, 2, 4, 1, 3), 3)),
    G.MX_B_ND: ((1, 1, 3, 5, 2), rows_cols((0, 1, 2, 4, 3), 4)),
    G.MX_B_DN: ((1, 1, 5, 3, 2), rows_cols((0, 1, 3, 4, 2), 4)),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("name", ["tload", "tstore"])
def test_window_layouts(name: str, layout: ir.GlobalLayout) -> None:
    dims, arranged = LAYOUTS[layout]
    view = window(dims)
    expected = arranged(view)
    rows, cols = expected.shape
    t = ir.TileType(I32, rows + 1, cols + 3, rows, cols)
    if name == "tload":
        found = load(t, view, layout, "cpu_sim")
        np.testing.assert_array_equal(found[:rows, :cols], expected)
        assert not found[rows:].any() and not found[:, cols:].any()
        return
    data = np.zeros(t.shape, np.int32)
    data[:rows, :cols] = expected
    np.testing.assert_array_equal(transfer(name, t, data, np.zeros_like(view), layout, "cpu_sim"), view)


@pytest.mark.parametrize(("v_row", "v_col"), [(19, 3), (1, 1), (32, 5), (0, 4)])
def test_valid_regions_smaller_than_a_window_of_scales(v_row: int, v_col: int) -> None:
    dims, arranged = LAYOUTS[G.MX_A_ZZ]
    view = window(dims, np.uint8)
    t = ir.TileType(E8, 32, 6, v_row, v_col, ir.Loc.MAT, slayout=ir.SLayout.ROW_MAJOR, fractal=32)
    found = load(t, view, G.MX_A_ZZ, "a5", fill=7).view(np.uint8)
    expected = np.full(t.shape, 7, np.uint8)
    expected[:v_row, :v_col] = arranged(view)[:v_row, :v_col]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("blayout", "slayout", "region"),
    [
        (ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR, (18, 24)),
        (ir.BLayout.ROW_MAJOR, ir.SLayout.COL_MAJOR, (24, 21)),
        (ir.BLayout.ROW_MAJOR, ir.SLayout.NONE_BOX, (18, 24)),
        (ir.BLayout.COL_MAJOR, ir.SLayout.NONE_BOX, (24, 21)),
    ],
)
def test_hardware_pads_to_the_end_of_a_block_in_storage(
    blayout: ir.BLayout, slayout: ir.SLayout, region: tuple[int, int]
) -> None:
    t = ir.TileType(I32, 32, 32, 18, 21, ir.Loc.MAT, blayout, slayout, pad=ir.Pad.MAX)
    found = load(t, window((18, 21)), None, "a2a3", fill=5)
    expected = np.full((32, 32), 5)
    expected[: region[0], : region[1]] = (1 << 31) - 1
    expected[:18, :21] = window((18, 21))
    np.testing.assert_array_equal(found, expected)


def test_windows_too_small_and_layouts_without_an_order() -> None:
    t = ir.TileType(I32, 64, 32, 49, 32)
    with pytest.raises(pto.ExecutionError, match="48x32 lanes; 49x32 are transferred"):
        load(t, window((2, 2, 3, 16, 8)), G.NZ, "cpu_sim")
    with pytest.raises(pto.NotExecutableError, match="hif4_a_zz"):
        load(t, window((1, 1, 1, 49, 32)), G.HIF4_A_ZZ, "cpu_sim")


# -- convolution tiles and global memory -------------------------------------------------------------

NDC1HWC0 = """
func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c40 = arith.constant 40 : index
  %c120 = arith.constant 120 : index
  %c240 = arith.constant 240 : index
  %v = pto.make_tensor_view %x, shape = [%c1, %c2, %c2, %c3, %c4], strides = [%c240, %c240, %c120, %c40, %c8]
    {layout = #pto.layout<ndc1hwc0>} : !pto.tensor_view<?x?x?x?x?xf32>
  %w = pto.make_tensor_view %y, shape = [%c1, %c2, %c2, %c3, %c4], strides = [%c240, %c240, %c120, %c40, %c8]
    {layout = #pto.layout<ndc1hwc0>} : !pto.tensor_view<?x?x?x?x?xf32>
  %p = pto.partition_view %v, offsets = [%c0, %c0, %c0, %c0, %c0], sizes = [%c1, %c2, %c2, %c3, %c4]
    : !pto.tensor_view<?x?x?x?x?xf32> -> !pto.partition_tensor_view<1x2x2x3x4xf32>
  %q = pto.partition_view %w, offsets = [%c0, %c0, %c0, %c0, %c0], sizes = [%c1, %c2, %c2, %c3, %c4]
    : !pto.tensor_view<?x?x?x?x?xf32> -> !pto.partition_tensor_view<1x2x2x3x4xf32>
  %t = pto.alloc_tile : !pto.conv_tile<mat, 1x2x2x3x4x8xf32, layout=ndc1hwc0>
  pto.tload ins(%p : !pto.partition_tensor_view<1x2x2x3x4xf32>)
    outs(%t : !pto.conv_tile<mat, 1x2x2x3x4x8xf32, layout=ndc1hwc0>)
  pto.tstore ins(%t : !pto.conv_tile<mat, 1x2x2x3x4x8xf32, layout=ndc1hwc0>)
    outs(%q : !pto.partition_tensor_view<1x2x2x3x4xf32>)
  return
}
"""


def test_an_image_of_blocks_with_gaps_makes_the_round_trip() -> None:
    """Rows of four blocks of 32 elements lie 40 apart; what is between them is not touched."""
    program = pto.parse(NDC1HWC0)
    assert [d for d in pto.verify(program, profile="cpu_sim") if d.severity == "error"] == []
    assert pto.parse(str(program)) == program
    x = np.arange(480, dtype=np.float32) + 1
    written = oracle.run(program, {"x": x, "y": np.zeros(480, np.float32)}, profile="cpu_sim")["y"]
    rows = written.reshape(12, 40)
    np.testing.assert_array_equal(rows[:, :32], x.reshape(12, 40)[:, :32])
    assert not rows[:, 32:].any()
    assert {d.rule for d in pto.verify(program, profile="a2a3") if d.severity == "error"} == {"layouts"}


def blocks(x: Array, c0: int, axis: int) -> Array:
    """Channels along ``axis`` as (c1, c0), filled up with zeros, the block last."""
    missing = -x.shape[axis] % c0
    filled = np.pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])
    split = filled.reshape(*x.shape[:axis], -1, c0, *x.shape[axis + 1 :])
    return np.moveaxis(split, axis + 1, -1)


def fractal(x: Array, c0: int, n0: int = 16) -> Array:
    """Images [n, c, d, h, w] as filter weights [d c1 h w, n1, n0, c0], missing images 9."""
    parts = blocks(x, c0, 1)
    missing = -len(x) % n0
    filled = np.concatenate([parts, np.full((missing, *parts.shape[1:]), 9, x.dtype)])
    n, c1, d, h, w, _ = filled.shape
    return filled.reshape(n // n0, n0, c1, d, h, w, c0).transpose(3, 2, 4, 5, 0, 1, 6).reshape(
        d * c1 * h * w, n // n0, n0, c0
    )  # fmt: skip


PLAIN = window((2, 11, 2, 3))
DEEP = window((3, 11, 2, 2, 3))


@pytest.mark.parametrize(
    ("layout", "conv", "view", "expected"),
    [
        (G.NHWC, ir.Conv(G.NC1HWC0, (2, 2, 2, 3, 8)), PLAIN.transpose(0, 2, 3, 1), blocks(PLAIN, 8, 1)),
        (G.NCHW, ir.Conv(G.NC1HWC0, (2, 2, 2, 3, 8)), PLAIN, blocks(PLAIN, 8, 1)),
        (G.NCHW, ir.Conv(G.FRACTAL_Z, (12, 1, 16, 8)), PLAIN, fractal(PLAIN[:, :, None], 8)),
        (
            G.NCDHW,
            ir.Conv(G.NDC1HWC0, (3, 2, 2, 2, 3, 8)),
            DEEP,
            blocks(DEEP, 8, 1).transpose(0, 2, 1, 3, 4, 5),
        ),
        (G.NCDHW, ir.Conv(G.FRACTAL_Z_3D, (24, 1, 16, 8)), DEEP, fractal(DEEP, 8)),
    ],
)
def test_a5_converts_images_while_loading(
    layout: ir.GlobalLayout, conv: ir.Conv, view: Array, expected: Array
) -> None:
    """Channels that fill up a block are zero; images that do not exist leave what was there."""
    found = load(ir.conv_tile(I32, conv), np.ascontiguousarray(view), layout, "a5", fill=9)
    np.testing.assert_array_equal(found.reshape(conv.shape), expected)


# -- conversions between convolution tiles -----------------------------------------------------------


def convert(src: ir.Conv, dst: ir.Conv, data: Array) -> Array:
    types = {"src": ir.conv_tile(I32, src, ir.Loc.VEC), "dst": ir.conv_tile(I32, dst, ir.Loc.VEC)}
    program = to_program(Sample(isa.instructions()["ttrans"], types, ("src",)))
    assert [d for d in pto.verify(program, profile="a2a3") if d.severity == "error"] == []
    given = {
        "src": oracle.OracleTile(types["src"], data.reshape(1, -1)),
        "dst": oracle.OracleTile(types["dst"], np.full(types["dst"].shape, 9, np.int32)),
    }
    return oracle.run(program, given, profile="a5")["dst"].data.reshape(dst.shape)


def test_convolution_tiles_are_converted_both_ways() -> None:
    groups = window((2, 2, 11, 2, 3))
    blocked = ir.Conv(G.GNC1HWC0, (2, 2, 2, 2, 3, 8))
    expected = blocks(groups, 8, 2)
    expected[..., 1, :, :, 3:] = 9
    made = convert(ir.Conv(G.GNCHW, groups.shape), blocked, groups)
    np.testing.assert_array_equal(made, expected)
    back = convert(blocked, ir.Conv(G.GNCHW, groups.shape), made)
    np.testing.assert_array_equal(back, groups)
    grouped = convert(blocked, ir.Conv(G.FRACTAL_Z, (24, 1, 16, 8)), made)
    for g in range(2):
        np.testing.assert_array_equal(
            grouped[12 * g : 12 * (g + 1), 0, :2], made[g].transpose(1, 2, 3, 0, 4).reshape(12, 2, 8)
        )
        assert (grouped[12 * g : 12 * (g + 1), 0, 2:] == 9).all()


def test_windows_of_weights_are_parts_of_their_matrix() -> None:
    """Row k of the matrix is a channel of a filter tap, column n an image; row boxes are C0 high."""
    conv = ir.Conv(G.FRACTAL_Z, (4, 3, 16, 8))
    data = window(conv.shape)
    matrix = data.transpose(0, 3, 1, 2).reshape(32, 48)
    weights = ir.conv_tile(I32, conv)
    right = ir.TileType(I32, 16, 32, 9, 17, ir.Loc.RIGHT, slayout=ir.SLayout.COL_MAJOR)
    for row, col in ((8, 16), (0, 0)):
        src, dst = print_type(weights), print_type(right)
        program = pto.parse(f"%dst = textract %src[%r, %c] : {src}, index, index -> {dst}")
        given = {"src": oracle.OracleTile(weights, data.reshape(1, -1)), "r": row, "c": col}
        found = oracle.run(program, given, profile="cpu_sim")["dst"].data
        np.testing.assert_array_equal(found, matrix[row : row + 16, col : col + 32])


# -- the prefetch hint -------------------------------------------------------------------------------


def test_prefetch_fills_the_tile_on_the_simulator_only() -> None:
    source, target = "!pto.partition_tensor_view<3x5xi32>", "!pto.tile_buf<vec, 4x8xi32>"
    text = f"pto.tprefetch ins(%src : {source}) outs(%dst : {target})"
    program, view = pto.parse(text), window((3, 5))
    t = ir.TileType(I32, 4, 8)
    for profile in ("cpu_sim", "a2a3", "a5"):
        assert [d for d in pto.verify(program, profile=profile) if d.severity == "error"] == []
        tile = oracle.OracleTile(t, np.full((4, 8), 9, np.int32))
        found = oracle.run(program, {"src": view, "dst": tile}, profile=profile)["dst"].data.reshape(-1)
        expected = np.full(32, 9)
        expected[:15] = view.reshape(-1) if profile == "cpu_sim" else 9
        np.testing.assert_array_equal(found, expected)
