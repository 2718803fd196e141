"""What fragments and tile arguments give back, where regions and blocks are involved."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.errors import NotExecutableError

T = "!pto.tile_buf<vec, 4x8xf32>"
V = "!pto.partition_tensor_view<4x8xf32>"
W = "!pto.tensor_view<8x8xf32>"


def test_a_buffer_written_through_a_name_of_a_region_is_an_output() -> None:
    program = pto.parse(f"""
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    scf.if %f {{
      %g = pto.partition_view %w, offsets = [%c4, %c0], sizes = [%c4, %c8] : {W} -> {V}
      pto.tstore ins(%t : {T}) outs(%g : {V})
    }}""")
    tile, buffer = np.full((4, 8), 3, np.float32), np.zeros((8, 8), np.float32)
    given = {"t": oracle.OracleTile(pto.TileType(pto.dtype("f32"), 4, 8), tile), "w": buffer, "f": True}
    kernel = pto.compile(program)
    assert kernel.outputs == ("w",)
    expected = oracle.run(program, given)["w"]
    assert (expected[4:] == 3).all()
    np.testing.assert_array_equal(kernel(t=tile, w=buffer, f=True)["w"], expected)


@pytest.mark.parametrize(
    "text, found",
    [
        (f"func.func @k(%t: {T}) {{\n return\n}}", "the tile argument %t"),
        (f"pto.tneg ins(%a : {T}) outs(%b : {T})", "the tile argument %a"),
    ],
)
def test_several_blocks_share_buffers_only(text: str, found: str) -> None:
    """Every block has tiles of its own, so none can be an argument or a result."""
    program = pto.parse(text)
    tiles = {v.name: np.zeros((4, 8), np.float32) for v in program.functions[0].args}
    with pytest.raises(NotExecutableError, match=f"got {found} on 2 blocks"):
        pto.compile(program, grid=2)(**tiles)


@pytest.mark.parametrize("axis", ["row", "col"])
def test_tscatter_into_its_source_is_for_the_simulator_as_hardware_clears_it_first(axis: str) -> None:
    mode = f"axis = #pto<scatter_axis SCATTER_{axis.upper()}>, maskPattern = #pto.mask_pattern<P1111>"
    program = pto.parse(f"pto.tscatter ins(%t {{{mode}}} : {T}) outs(%t : {T})")
    data = np.arange(32, dtype=np.float32).reshape(4, 8) + 1
    given = {"t": oracle.OracleTile(pto.TileType(pto.dtype("f32"), 4, 8), data)}
    expected = oracle.run(program, given, profile="cpu_sim")["t"].data
    assert expected.any()
    np.testing.assert_array_equal(pto.compile(program, profile="cpu_sim")(data)["t"], expected)
    with pytest.raises(pto.VerifyError, match="dst apart from src"):
        pto.compile(program, profile="a5")


def test_a_window_that_a_fragment_writes_yields_its_buffer() -> None:
    text = """
%zero = arith.constant 0 : index
%two = arith.constant 2 : index
%eight = arith.constant 8 : index
%g = pto.partition_view %w, offsets = [%zero, %eight], sizes = [%two, %eight] :
    !pto.tensor_view<4x16xf32> -> !pto.partition_tensor_view<2x8xf32>
pto.tstore ins(%x : !pto.tile_buf<loc=vec, dtype=f32, rows=2, cols=8, v_row=2, v_col=8, blayout=row_major,
    slayout=none_box, fractal=512, pad=0>) outs(%g : !pto.partition_tensor_view<2x8xf32>)
"""
    kernel = pto.compile(pto.parse(text), profile="cpu_sim")
    out = kernel.eager(w=np.zeros((4, 16), np.float32), x=np.ones((2, 8), np.float32))
    assert list(out) == ["w"]
    expected = np.zeros((4, 16), np.float32)
    expected[:2, 8:] = 1
    np.testing.assert_array_equal(np.asarray(out["w"]), expected)


@pytest.mark.variants(1)
@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_open_valid_sizes_of_a_result_are_those_of_its_sources_inside_of_its_type(profile: str) -> None:
    wide = "!pto.tile_buf<vec, 16x32xf32, valid=?x?>"
    column = "!pto.tile_buf<vec, 16x1xf32, valid=?x?, blayout=col_major>"
    program = pto.parse(
        f"%r = trowsum %a, %t : ({wide}, {wide}) -> {column}\n"
        f"%x = trowexpandmul %a, %r : ({wide}, {column}) -> {wide}\n"
    )
    words = np.random.default_rng(3).standard_normal((16, 32)).astype(np.float32)
    a = pto.tile(words, valid=(np.int32(11), np.int32(27)))
    kernel = pto.compile(program, profile, checks=True, warn=False)
    found, report = kernel(a, a)
    assert not report.problems()
    assert [int(n) for n in (found["r"].valid_rows, found["r"].valid_cols)] == [11, 1]
    tile = oracle.OracleTile(pto.TileType(pto.dtype("f32"), 16, 32).with_valid(None, None), words, 11, 27)
    expected = oracle.run(program, {"a": tile, "t": tile}, profile=profile)
    for name, t in expected.items():
        rows, cols = t.v_row, t.v_col
        np.testing.assert_array_equal(np.asarray(found[name])[:rows, :cols], np.asarray(t.data)[:rows, :cols])
