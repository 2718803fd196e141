"""Kernels whose text has a cube part and a vector part, and no entry."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.analysis.entries import arguments, select_entry
from pto_jax.analysis.resolve import with_entry

ACC = "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=col_major, "
ACC += "slayout=row_major, fractal=1024, pad=0>"
VEC = "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=row_major, "
VEC += "slayout=none_box, fractal=512, pad=0>"
CUBE, VECTOR = (f"attributes {{pto.kernel_kind = #pto.kernel_kind<{k}>}}" for k in ("cube", "vector"))
LEFT, RIGHT = (
    f"!pto.tile_buf<loc={loc}, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout={b}, slayout={s}, "
    "fractal=512, pad=0>"
    for loc, b, s in (("left", "col_major", "row_major"), ("right", "row_major", "col_major"))
)
#: A product goes whole from the cube core to both vector cores; each stores it, plus two, in its own place.
TEXT = f"""\
module attributes {{pto.target_arch = "a2a3"}} {{
func.func @mm_aic(%y: !pto.ptr<f32>, %n: i32) {CUBE} {{
  %zero = arith.constant 0 : i32
  pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (gm_slot_buffer = %y : !pto.ptr<f32>,
    c2v_consumer_buf = %zero : i32, v2c_consumer_buf = %zero : i32)
  %a = pto.alloc_tile : {LEFT}
  %b = pto.alloc_tile : {RIGHT}
  %c = pto.alloc_tile : {ACC}
  pto.tmatmul ins(%a, %b : {LEFT}, {RIGHT}) outs(%c : {ACC})
  pto.tpush_to_aiv(%c : {ACC}) {{split = 0}}
  return
}}
func.func @mm_aiv(%y: !pto.ptr<f32>, %n: i32, %core: i32) {VECTOR} {{
  %zero = arith.constant 0 : i32
  pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (gm_slot_buffer = %y : !pto.ptr<f32>,
    c2v_consumer_buf = %zero : i32, v2c_consumer_buf = %zero : i32)
  %p = pto.tpop_from_aic {{split = 0}} -> {VEC}
  %at = arith.index_cast %core : i32 to index
  %one = arith.constant 1 : index
  %rows = arith.constant 16 : index
  %size = arith.constant 256 : index
  %two = arith.constant 2 : index
  %from = arith.muli %at, %rows : index
  %all = arith.muli %rows, %two : index
  %v = pto.make_tensor_view %y, shape = [%all, %rows], strides = [%rows, %one] : !pto.tensor_view<?x?xf32>
  %c0 = arith.constant 0 : index
  %w = pto.partition_view %v, offsets = [%from, %c0], sizes = [%rows, %rows]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x16xf32>
  pto.tadds ins(%p, %f : {VEC}, f32) outs(%p : {VEC})
  pto.tstore ins(%p : {VEC}) outs(%w : !pto.partition_tensor_view<16x16xf32>)
  pto.tfree_from_aic {{split = 0}}
  return
}}
}}
""".replace("  pto.tadds", "  %f = arith.constant 2.0 : f32\n  pto.tadds")


def test_both_parts_get_the_same_arguments_and_vector_cores_their_number() -> None:
    program = with_entry(pto.parse(TEXT))
    entry = select_entry(program, None)
    assert entry.name == "mm" and [a.name for a in arguments(program, entry)] == ["y", "n"]


def test_each_vector_core_takes_what_is_whole() -> None:
    y = np.zeros(512, np.float32)
    program, wanted = pto.parse(TEXT), np.full(512, 2, np.float32)
    expected = oracle.run(program, {"y": y, "n": 0}, profile="cpu_sim")["y"]
    np.testing.assert_array_equal(expected, wanted)
    found = pto.compile(program, "cpu_sim", warn=False)(y=y, n=np.int32(0))["y"]
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_a_private_part_that_nobody_calls_is_a_part() -> None:
    for private in ("mm_aiv", "mm_aic"):
        program = pto.parse(TEXT.replace(f"func.func @{private}(", f"func.func private @{private}("))
        assert select_entry(with_entry(program), None).name == "mm"
        found = oracle.run(program, {"y": np.zeros(512, np.float32), "n": 0}, profile="cpu_sim")["y"]
        np.testing.assert_array_equal(found, np.full(512, 2, np.float32))


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("@mm_aiv(", "@mm_aiv(%other: i64, ", 1).replace("vector", "cube"),
        TEXT.replace(CUBE, CUBE.replace("{", "{pto.entry, ", 1)),
    ],
    ids=["two of one kind", "an entry"],
)
def test_other_programs_stay_as_they_are(changed: str) -> None:
    program = pto.parse(changed)
    assert with_entry(program) is program


def test_a_function_that_is_not_private_is_the_entry() -> None:
    text = "func.func @k() {{ return }} func.func {} @inner() {{ return }}"
    assert [f.name for f in pto.parse(text.format("private")).entries] == ["k"]
    assert pto.parse(text.format("")).entries == ()
