"""Pipes by number: several in a function, odd halves, converted accumulators."""

import re

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.runtime.pipes import (
    ACC,
    LEFT,
    MAT,
    RIGHT,
    RNG,
    SLOT,
    VIEW,
    Agree,
    accepted,
    product,
    program,
    vec,
    view,
    whole,
)

RESERVED = (
    'pto.reserve_buffer {{name = "{}", size = 32768, location = #pto.address_space<{}>, auto = true}} -> i32'
)
IMPORTED = 'pto.import_reserved_buffer {{name = "{}", peer_func = @{}}} -> i32'


@pytest.mark.slow
def test_two_pipes_of_a_function_keep_their_tiles_apart(agree: Agree) -> None:
    acc, tile = ACC.format("f32", ""), vec("f32")
    cube = f"""
    %to = {IMPORTED.format("one", "vector")}
    %other = {IMPORTED.format("two", "vector")}
    pto.aic_initialize_pipe {{id = 3, dir_mask = 1, slot_size = 1024}} (c2v_consumer_buf = %to : i32)
    pto.aic_initialize_pipe {{id = 5, dir_mask = 1, slot_size = 1024, slot_num = 2}}
      (c2v_consumer_buf = %other : i32)
    {product("f32", acc)}
    pto.tpush_to_aiv(%acc : {acc}) {{id = 3, split = 0}}
    pto.tmatmul.acc ins(%acc, %left, %right : {acc}, {LEFT}, {RIGHT}) outs(%acc : {acc})
    pto.tpush_to_aiv(%acc : {acc}) {{id = 5, split = 0}}
    """
    vector = f"""
    %to = {RESERVED.format("one", "vec")}
    %other = {RESERVED.format("two", "vec")}
    pto.aiv_initialize_pipe {{id = 7, dir_mask = 1, slot_size = 1024}} (c2v_consumer_buf = %to : i32)
    pto.aiv_initialize_pipe {{id = 3, dir_mask = 1, slot_size = 1024, slot_num = 2}}
      (c2v_consumer_buf = %other : i32)
    {view("%wy", "%y", "f32")}
    %second = pto.tpop_from_aic {{id = 3, split = 0}} -> {tile}
    %first = pto.tpop_from_aic {{id = 7, split = 0}} -> {tile}
    pto.tsub ins(%second, %first : {tile}, {tile}) outs(%second : {tile})
    pto.tadds ins(%second, %half : {tile}, f32) outs(%second : {tile})
    pto.tstore ins(%second : {tile}) outs(%wy : {whole("f32")})
    pto.tfree_from_aic(%second : {tile}) {{id = 3, split = 0}}
    pto.tfree_from_aic {{id = 7, split = 0}}
    """.replace("%second = pto.tpop", "%half = arith.constant 0.5 : f32\n    %second = pto.tpop", 1)
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    y = agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), np.float32), 0)["y"]
    np.testing.assert_array_equal(y, x @ x + np.float32(0.5))


@pytest.mark.variants(0)
@pytest.mark.parametrize(("split", "n"), [(3, 13), (4, 13), (3, 15), (4, 1)])
def test_an_odd_number_is_rounded_up_for_the_first_core(agree: Agree, split: int, n: int) -> None:
    acc = ACC.format("f32", ", valid=?x?")
    rows, cols = (8, 16) if split == 3 else (16, 8)
    half, tile = vec("f32", rows, cols, ", valid=?x?"), "!pto.partition_tensor_view<?x?xf32>"
    sizes = "%n, %c16" if split == 3 else "%c16, %n"
    cube = f"""
    %slots = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
    %to = {IMPORTED.format("halves", "vector")}
    pto.aic_initialize_pipe {{id = 4, dir_mask = 1, slot_size = 1024}}
      (c2v_consumer_buf = %to : i32, gm_slot_tensor = %slots : {SLOT})
    {product("f32", ACC.format("f32", ""))}
    %part = pto.alloc_tile valid_row = {sizes.split(", ")[0]} valid_col = {sizes.split(", ")[1]} : {acc}
    pto.tmatmul ins(%left, %right : {LEFT}, {RIGHT}) outs(%part : {acc})
    pto.tpush_to_aiv(%part : {acc}) {{id = 4, split = {split}}}
    """
    vector = f"""
    %slots = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {SLOT}
    %to = {RESERVED.format("halves", "vec")}
    pto.aiv_initialize_pipe {{id = 4, dir_mask = 1, slot_size = 1024}} (gm_slot_tensor = %slots
      : {SLOT}, c2v_consumer_buf = %to : i32)
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %one = arith.subi %c1, %core : index
    %rounded = arith.addi %n, %one : index
    %own = arith.divsi %rounded, %c2 : index
    %up = arith.addi %n, %c1 : index
    %first = arith.divsi %up, %c2 : index
    %start = arith.muli %core, %first : index
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %wy = pto.partition_view %yv, offsets = [{"%start, %c0" if split == 3 else "%c0, %start"}],
      sizes = [{"%own, %c16" if split == 3 else "%c16, %own"}] : {VIEW} -> {tile}
    %t = pto.tpop_from_aic({"%own, %c16" if split == 3 else "%c16, %own"}) {{id = 4, split = {split}}}
      aiv_subblockid(%core64) -> {half}
    pto.tstore ins(%t : {half}) outs(%wy : {tile})
    pto.tfree_from_aic {{id = 4, split = {split}}}
    """
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    expected = np.zeros((16, 16), np.float32)
    part = np.s_[:n, :] if split == 3 else np.s_[:, :n]
    expected[part] = (x @ x)[part]
    out = agree(made, x, np.zeros((8, 16, 16), np.float32), np.zeros((16, 16), np.float32), n)
    np.testing.assert_array_equal(out["y"], expected)


def converting(
    quant: str, relu: str, source: str, target: str, scale: str, arch: str = "a5", s: str = "f32"
) -> pto.Program:
    """x times x goes through a pipe that converts it."""
    attributes = (
        "id = 0, dir_mask = 1, slot_size = 4096, nosplit = true, "
        f"acc_push_epilogue = #pto.acc_push_epilogue<layout = nz2nd, quant = {quant}, relu = {relu}>"
    )
    memory = f"gm_slot_buffer = %s : !pto.ptr<{s}>, " if arch == "a3" else ""
    acc = ACC.format("i32" if source == "i8" else "f32", "")
    mat, right = MAT.format(source), f"!pto.tile_buf<right, 16x16x{source}, slayout=col_major>"
    blayout = "" if arch == "a3" else "blayout=col_major, "
    left = f"!pto.tile_buf<left, 16x16x{source}, {blayout}slayout=row_major>"
    n = 32 if source == "i8" else 16
    acc, mat, left, right = (t.replace("16x16", f"{n}x{n}") for t in (acc, mat, left, right))
    cube = f"""
    %to = {IMPORTED.format("results", "vector")}
    pto.aic_initialize_pipe {{{attributes}}} ({memory}c2v_consumer_buf = %to : i32)
    {view("%wx", "%x", source, f"%c{n}", f"%c{n}")}
    %mx = pto.alloc_tile : {mat}
    %left = pto.alloc_tile : {left}
    %right = pto.alloc_tile : {right}
    %acc = pto.alloc_tile : {acc}
    pto.tload ins(%wx : {whole(source, n, n)}) outs(%mx : {mat})
    pto.tmov ins(%mx : {mat}) outs(%left : {left})
    pto.tmov ins(%mx : {mat}) outs(%right : {right})
    pto.tmatmul ins(%left, %right : {left}, {right}) outs(%acc : {acc})
    {scale}
    pto.tpush_to_aiv(%acc : {acc}) {{id = 0, split = 0}}
    """
    tile = vec(target, n, n)
    vector = f"""
    %to = {RESERVED.format("results", "vec")}
    pto.aiv_initialize_pipe {{{attributes}}} ({memory}c2v_consumer_buf = %to : i32)
    {view("%wy", "%y", target, f"%c{n}", f"%c{n}")}
    %t = pto.tpop_from_aic {{id = 0, split = 0}} -> {tile}
    pto.tstore ins(%t : {tile}) outs(%wy : {whole(target, n, n)})
    pto.tfree_from_aic {{id = 0, split = 0}}
    """
    return accepted(program(arch, cube, vector, source, target, s))


@pytest.mark.variants(1)
@pytest.mark.parametrize("relu", ["no_relu", "normal_relu"])
@pytest.mark.parametrize(
    ("quant", "target"), [("f32_f16", "f16"), ("no_convert", "f32"), ("f32_bf16", "bf16")]
)
def test_accumulators_are_converted_on_their_way(agree: Agree, quant: str, target: str, relu: str) -> None:
    made = converting(quant, relu, "f32", target, "")
    x = (RNG.standard_normal((16, 16)) * 3).astype(np.float32)
    d = pto.dtype(target).numpy
    out = agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), d), 0)
    exact = x.astype(np.float64) @ x.astype(np.float64)
    exact = np.maximum(exact, 0) if relu == "normal_relu" else exact
    np.testing.assert_allclose(out["y"].astype(np.float64), exact, 1e-2, 1e-2)
    assert (exact < 0).any() == (relu == "no_relu")


def test_a_scale_is_that_of_its_pipe_and_the_last_one_set(agree: Agree) -> None:
    scale = """
    %wrong = arith.constant 64.0 : f32
    %scale = arith.constant 0.125 : f32
    pto.set_quant_scalar(%wrong : f32) {id = 0}
    pto.set_quant_scalar(%scale : f32) {id = 0}
    """
    made = converting("qf322f16_pre_scalar", "normal_relu", "f32", "f16", scale)
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), np.float16), 0)
    np.testing.assert_array_equal(out["y"], (np.maximum(x @ x, 0) * 0.125).astype(np.float16))


@pytest.mark.instructions("set_quant_vector")
@pytest.mark.variants(0)
def test_integers_are_dequantised_by_columns_on_a2a3(agree: Agree) -> None:
    """The words of a scaling tile hold f32 scales; without a number they are those of pipe 0."""
    scale = """
    %wv = pto.make_tensor_view %s, shape = [%c1, %c32], strides = [%c32, %c1] : !pto.tensor_view<?x?xui64>
    %ww = pto.partition_view %wv, offsets = [%c0, %c0], sizes = [%c1, %c32]
      : !pto.tensor_view<?x?xui64> -> !pto.partition_tensor_view<1x32xui64>
    %mw = pto.alloc_tile : !pto.tile_buf<mat, 1x32xui64>
    %fp = pto.alloc_tile : !pto.tile_buf<scaling, 1x32xui64>
    pto.tload ins(%ww : !pto.partition_tensor_view<1x32xui64>) outs(%mw : !pto.tile_buf<mat, 1x32xui64>)
    pto.tmov ins(%mw : !pto.tile_buf<mat, 1x32xui64>) outs(%fp : !pto.tile_buf<scaling, 1x32xui64>)
    pto.set_quant_vector(%fp : !pto.tile_buf<scaling, 1x32xui64>)
    """
    made = converting("deqf16_vec", "no_relu", "i8", "f16", scale, "a3", "ui64")
    x = RNG.integers(-4, 5, (32, 32)).astype(np.int8)
    scales = (2.0 ** RNG.integers(-3, 4, 32)).astype(np.float32)
    words = scales.view(np.uint32).astype(np.uint64)
    out = agree(made, x, words, np.zeros((32, 32), np.float16), 0)
    product = x.astype(np.int32) @ x.astype(np.int32)
    np.testing.assert_array_equal(out["y"], (product * scales).astype(np.float16))


def test_flags_of_a_block_tell_the_vector_cores_apart(agree: Agree) -> None:
    """The second vector core waits for flag 0 of its own, which is number 16 of the cube core."""
    acc, tile = ACC.format("f32", ""), vec("f32", 8)
    windows = "%wy = pto.partition_view %yv, offsets = [{}, %c0], sizes = [%c8, %c16] : {} -> {}"
    cube = f"""
    {product("f32", acc)}
    {view("%ws", "%s", "f32")}
    pto.set_intra_block <PIPE_FIX>, 0
    pto.wait_intra_block <PIPE_FIX>, 1
    pto.tstore ins(%acc : {acc}) outs(%ws : {whole("f32")})
    pto.fence.barrier_all #pto.fence_scope<gm>
    pto.set_intra_block <PIPE_FIX>, 16
    """
    vector = f"""
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %first = arith.cmpi eq, %core, %c0 : index
    %start = arith.muli %core, %c8 : index
    %t = pto.alloc_tile : {tile}
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %sv = pto.make_tensor_view %s, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    {windows.format("%start", VIEW, whole("f32", 8))}
    {windows.format("%start", VIEW, whole("f32", 8)).replace("%wy", "%ws").replace("%yv", "%sv")}
    pto.wait_intra_block <PIPE_MTE2>, 0
    pto.cmo.cacheinvalid all #pto.address_space<gm>
    pto.tload ins(%ws : {whole("f32", 8)}) outs(%t : {tile})
    pto.tstore ins(%t : {tile}) outs(%wy : {whole("f32", 8)})
    scf.if %first {{
      pto.set_intra_block <PIPE_MTE3>, 1
    }}
    """
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    before = np.full((16, 16), 7, np.float32)
    out = agree(made, x, before, np.zeros((16, 16), np.float32), 0)
    np.testing.assert_array_equal(out["y"], np.concatenate([before[:8], (x @ x)[8:]]))


def test_a_number_of_the_first_vector_core_signals_the_second_one_on_a2a3_only() -> None:
    """Both vector cores wait for flag 2, which the cube core sets once."""
    vector = f"""
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %start = arith.muli %core, %c8 : index
    %t = pto.alloc_tile : {vec("f32", 8)}
    %yv = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %wy = pto.partition_view %yv, offsets = [%start, %c0], sizes = [%c8, %c16] : {VIEW} -> {whole("f32", 8)}
    pto.wait_intra_block <PIPE_V>, 2
    pto.texpands ins(%one : f32) outs(%t : {vec("f32", 8)})
    pto.tstore ins(%t : {vec("f32", 8)}) outs(%wy : {whole("f32", 8)})
    """.replace("%core64 =", "%one = arith.constant 1.0 : f32\n    %core64 =", 1)
    arguments = np.zeros((16, 16), np.float32), np.zeros(1, np.float32), np.zeros((16, 16), np.float32), 0
    made = program("a3", "pto.set_intra_block <PIPE_FIX>, 2", vector)
    for run in (pto.compile(made), lambda *a: oracle.run(made, a)):
        assert (np.asarray(run(*arguments)["y"]) == 1).all()
    one = program("a5", "pto.set_intra_block <PIPE_FIX>, 2", vector)
    for run in (pto.compile(one), lambda *a: oracle.run(one, a)):
        with pytest.raises(pto.ExecutionError, match="vector1 waits for flag 2 for ever"):
            run(*arguments)


def product_with_itself(setup: str, split: int, left: str = LEFT) -> str:
    """A cube core that takes the halves of the vector cores as one matrix and stores its square into y."""
    mat, acc = MAT.format("f32"), ACC.format("f32", "")
    return f"""
    %z = arith.constant 0 : i32
    %from = {RESERVED.format("p", "mat")}
    pto.aic_initialize_pipe {setup}v2c_consumer_buf = %from : i32)
    {view("%wy", "%y", "f32")}
    %left = pto.alloc_tile : {left}
    %right = pto.alloc_tile : {RIGHT}
    %acc = pto.alloc_tile : {acc}
    %m = pto.tpop_from_aiv {{split = {split}}} -> {mat}
    pto.tmov ins(%m : {mat}) outs(%left : {left})
    pto.tmov ins(%m : {mat}) outs(%right : {RIGHT})
    pto.tfree_from_aiv {{split = {split}}}
    pto.tmatmul ins(%left, %right : {left}, {RIGHT}) outs(%acc : {acc})
    pto.tstore ins(%acc : {acc}) outs(%wy : {whole("f32")})
    """


@pytest.mark.variants(1)
@pytest.mark.parametrize(("split", "physical"), [(0, 16), (1, 8), (2, 16), (2, 8)])
@pytest.mark.parametrize("arch", ["a3", "a5"])
def test_a_push_of_a_vector_core_counts_valid_rows_and_columns(
    agree: Agree, arch: str, split: int, physical: int
) -> None:
    """The cube core gets what is valid of both halves side by side, whatever the tiles' physical size is."""
    rows, cols = {0: (16, 16), 1: (8, 16), 2: (16, 8)}[split]
    shape = {0: (32, 32), 1: (2 * physical, 16), 2: (16, 2 * physical)}[split]
    t = vec("f32", *shape, f", valid={rows}x{cols}")
    memory = "gm_slot_buffer = %s : !pto.ptr<f32>, " if arch == "a3" else ""
    setup = f"{{dir_mask = 2, slot_size = 1024}} ({memory}c2v_consumer_buf = %z : i32, "
    left = LEFT if arch == "a5" else LEFT.replace("blayout=col_major, ", "")
    start = {0: "%c0, %c0", 1: "%start, %c0", 2: "%c0, %start"}[split]
    vector = f"""
    %z = arith.constant 0 : i32
    %to = {IMPORTED.format("p", "cube")}
    pto.aiv_initialize_pipe {setup}v2c_consumer_buf = %to : i32)
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %start = arith.muli %core, %c8 : index
    {view("%wx", "%x", "f32")}
    %part = pto.partition_view %wxv, offsets = [{start}], sizes = [%c{rows}, %c{cols}]
      : {VIEW} -> {whole("f32", rows, cols)}
    %t = pto.alloc_tile : {t}
    pto.tload ins(%part : {whole("f32", rows, cols)}) outs(%t : {t})
    pto.tpush_to_aic(%t : {t}) {{split = {split}}}
    """
    cube = product_with_itself(setup, split, left)
    made = accepted(program(arch, cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros(1024, np.float32), np.zeros((16, 16), np.float32), 0)
    np.testing.assert_array_equal(out["y"], x @ x)


@pytest.mark.variants(3)
@pytest.mark.filterwarnings("ignore:.*the product is written to its 16x16 corner")
@pytest.mark.parametrize("rows", ["8", "?"])
def test_the_second_half_begins_behind_half_of_the_valid_rows(agree: Agree, rows: str) -> None:
    """Eight of 16 rows are valid: four for each vector core, whose tiles have room for eight."""
    acc = ACC.format("f32", f", valid={rows}x16")
    size = "valid_row = %n " if rows == "?" else ""
    half = vec("f32", 8, 16, ", valid=4x16")
    cube = f"""
    %to = {IMPORTED.format("p", "vector")}
    pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (c2v_consumer_buf = %to : i32)
    {product("f32", ACC.format("f32", ""))}
    %part = pto.alloc_tile {size}: {acc}
    pto.tmatmul ins(%left, %right : {LEFT}, {RIGHT}) outs(%part : {acc})
    pto.tpush_to_aiv(%part : {acc}) {{split = 1}}
    """
    vector = f"""
    %to = {RESERVED.format("p", "vec")}
    pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (c2v_consumer_buf = %to : i32)
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %four = arith.constant 4 : index
    %start = arith.muli %core, %four : index
    {view("%wy", "%y", "f32")}
    %part = pto.partition_view %wyv, offsets = [%start, %c0], sizes = [%four, %c16]
      : {VIEW} -> {whole("f32", 4)}
    %t = pto.tpop_from_aic {{split = 1}} -> {half}
    pto.tstore ins(%t : {half}) outs(%part : {whole("f32", 4)})
    pto.tfree_from_aic {{split = 1}}
    """
    made = accepted(program("a5", cube, vector))
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), np.float32), 8)
    expected = np.zeros((16, 16), np.float32)
    expected[:8] = (x @ x)[:8]
    np.testing.assert_array_equal(out["y"], expected)


def halves(split: int, physical: int) -> pto.Program:
    """Each vector core pushes n rows or columns of x, the second one those behind the first one's."""
    shape = (2 * physical, 16) if split == 1 else (16, 2 * physical)
    t = vec("f32", *shape, ", valid=?x?")
    window, sizes = "!pto.partition_tensor_view<?x?xf32>", ("%n", "%c16")[:: 1 if split == 1 else -1]
    start = "%start, %c0" if split == 1 else "%c0, %start"
    setup = "{dir_mask = 2, slot_size = 1024} (c2v_consumer_buf = %z : i32, "
    vector = f"""
    %z = arith.constant 0 : i32
    %to = {IMPORTED.format("p", "cube")}
    pto.aiv_initialize_pipe {setup}v2c_consumer_buf = %to : i32)
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %start = arith.muli %core, %n : index
    {view("%wx", "%x", "f32")}
    %part = pto.partition_view %wxv, offsets = [{start}], sizes = [{", ".join(sizes)}] : {VIEW} -> {window}
    %t = pto.alloc_tile valid_row = {sizes[0]} valid_col = {sizes[1]} : {t}
    pto.tload ins(%part : {window}) outs(%t : {t})
    pto.tpush_to_aic(%t : {t}) {{split = {split}}}
    """
    cube = product_with_itself(setup, split)
    return accepted(program("a5", cube, vector))


@pytest.mark.slow
@pytest.mark.parametrize(("split", "physical"), [(1, 8), (2, 8), (2, 16)])
def test_run_time_halves_of_vector_cores_are_joined_where_the_first_one_ends(
    agree: Agree, split: int, physical: int
) -> None:
    made, x = halves(split, physical), RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    out = agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), np.float32), 8)
    np.testing.assert_array_equal(out["y"], x @ x)
    for n in (0, 1, 5, 7):
        agree(made, x, np.zeros(1, np.float32), np.zeros((16, 16), np.float32), n)


@pytest.mark.slow
def test_run_time_halves_that_a_tile_has_no_room_for_are_an_error() -> None:
    text = str(halves(1, 16)).replace("%start = arith.muli %core, %n", "%start = arith.muli %core, %c0")
    given = np.ones((16, 16), np.float32), np.zeros(1, np.float32), np.zeros((16, 16), np.float32), 9
    with pytest.raises(pto.ExecutionError, match="tpop_from_aiv: got 9; allowed: at most 8 valid rows of ea"):
        pto.compile(pto.parse(text))(*given)
    with pytest.raises(pto.PtoError, match="tpop_from_aiv: "):
        pto.compile(pto.parse(text)).eager(*given)


def test_a_vector_core_pushes_its_own_half_only() -> None:
    """The core that ``aiv_subblockid`` names is the one that executes the push."""
    plain = str(halves(1, 8))
    (push,) = re.findall(r"pto\.tpush_to_aic.*", plain)
    text = plain.replace(push, f"{push} aiv_subblockid(%core64)")
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    given = {"x": x, "s": np.zeros(1, np.float32), "y": np.zeros((16, 16), np.float32), "n": 8}
    np.testing.assert_array_equal(oracle.run(pto.parse(text), given)["y"], x @ x)
    other = plain.replace(push, f"%other = arith.constant 1 : i64\n{push} aiv_subblockid(%other)")
    with pytest.raises(pto.PtoError, match="tpush_to_aic: got aiv_subblockid 1 on vector core 0; allowed"):
        oracle.run(pto.parse(other), given)


@pytest.mark.instructions("set_quant_scalar")
@pytest.mark.parametrize(("target", "least", "most"), [("i8", -128, 127), ("ui8", 0, 255)])
def test_scaled_bytes_are_signed_where_their_type_is(target: str, least: int, most: int) -> None:
    scale = "%scale = arith.constant 2.0 : f32\n    pto.set_quant_scalar(%scale : f32) {id = 0}"
    made = converting("qf322b8_pre_scalar", "no_relu", "f32", target, scale)
    x = RNG.integers(-4, 5, (16, 16)).astype(np.float32)
    d = pto.dtype(target).numpy
    given = {"x": x, "s": np.zeros(1, np.float32), "y": np.zeros((16, 16), d), "n": 0}
    expected = np.clip(x @ x * 2, least, most)
    assert (expected < 0).any() == (target == "i8")
    np.testing.assert_array_equal(oracle.run(made, given)["y"], expected.astype(d))


@pytest.mark.instructions("set_flag", "wait_flag")
def test_flags_between_pipes_are_those_of_one_core() -> None:
    """What the first vector core sets does not end the wait of the second one."""
    flag = "[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"
    vector = f"""
    %core64 = pto.get_subblock_idx
    %core = arith.index_cast %core64 : i64 to index
    %first = arith.cmpi eq, %core, %c0 : index
    scf.if %first {{
      pto.set_flag{flag}
    }}
    pto.wait_flag{flag}
    """
    given = {name: np.zeros((16, 16), np.float32) for name in "xy"} | {"s": np.zeros(1, np.float32), "n": 0}
    with pytest.raises(pto.ExecutionError, match="PIPE_V of core vector1 waits for flag"):
        oracle.run(program("a5", "", vector), given)
