"""Blocks, cube and vector cores, pipes and flags: deterministic, and equal to the reference interpreter."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.lowering import disjoint_parts

RNG = np.random.default_rng(4)
V = "!pto.tile_buf<vec, 16x16xf32>"
H = "!pto.tile_buf<vec, 8x16xf32>"
N = "!pto.tile_buf<vec, 16x8xf32>"
M = "!pto.tile_buf<mat, 16x16xf32, blayout=col_major, slayout=row_major>"
L = "!pto.tile_buf<left, 16x16xf32, blayout=col_major, slayout=row_major>"
R = "!pto.tile_buf<right, 16x16xf32, slayout=col_major>"
A = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
W = "!pto.tensor_view<?x?xf32>"


def window(rows: int, cols: int) -> str:
    return f"!pto.partition_tensor_view<{rows}x{cols}xf32>"


CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4, 8, 16, 32, 48, 64, 256))


def equal_everywhere(text: str, *args: Any, profile: str = "a5", grid: int = 1) -> dict[str, Any]:
    """Results of a launch, which may be a part of what the program is written for."""
    program = pto.parse(text)
    kernel = pto.compile(program, profile, grid=grid, partial_launch=True)
    expected = oracle.run(program, args, profile=profile, grid=grid, partial_launch=True)
    for found in (kernel(*args), kernel.eager(*args)):
        for name, array in expected.items():
            assert np.asarray(found[name]).tobytes() == array.tobytes(), name
    return expected


# -- blocks ------------------------------------------------------------------------------------------

BLOCKS = f"""
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  {CONSTANTS}
  %b = pto.get_block_idx
  %n = pto.get_block_num
  %i = arith.index_cast %b : i64 to index
  %last = arith.index_cast %n : i64 to index
  %vx = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
  %vy = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : {W}
  %row = arith.muli %i, %c8 : index
  %wx = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
  %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
  %t = pto.alloc_tile : {H}
  %sum = pto.alloc_tile : {H}
  pto.tload ins(%wx : {window(8, 16)}) outs(%t : {H})
  pto.tload ins(%wy : {window(8, 16)}) outs(%sum : {H})
  pto.tmul ins(%sum, %t : {H}, {H}) outs(%sum : {H})
  pto.tadd ins(%sum, %t : {H}, {H}) outs(%sum : {H})
  pto.tstore ins(%sum : {H}) outs(%wy : {window(8, 16)})
  return
}}"""


@pytest.mark.variants(1)
@pytest.mark.parametrize("grid", [1, 2, 8])
def test_blocks_run_in_order_each_with_its_number(grid: int) -> None:
    x, y = RNG.normal(size=(64, 16)).astype(np.float32), RNG.normal(size=(8, 16)).astype(np.float32)
    out = equal_everywhere(BLOCKS, x, y, grid=grid)["y"]
    for b in range(grid):
        part = x[8 * b : 8 * b + 8]
        y = y * part + part
    assert out.tobytes() == y.tobytes()


@pytest.mark.filterwarnings(r"ignore:[\s\S]*nothing has written before")
def test_a_block_starts_with_fresh_local_memory() -> None:
    """Every block finds its tiles as the profile leaves fresh ones, not as the block before left them."""
    text = f"""
    func.func @k(%y: !pto.ptr<f32>) attributes {{pto.entry}} {{
      {CONSTANTS}
      %b = pto.get_block_idx
      %i = arith.index_cast %b : i64 to index
      %row = arith.muli %i, %c8 : index
      %one = arith.constant 1.0 : f32
      %vy = pto.make_tensor_view %y, shape = [%c256, %c16], strides = [%c16, %c1] : {W}
      %wy = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
      %t = pto.alloc_tile : {H}
      pto.tadds ins(%t, %one : {H}, f32) outs(%t : {H})
      pto.tstore ins(%t : {H}) outs(%wy : {window(8, 16)})
      return
    }}"""
    for grid in (2, 20):
        out = equal_everywhere(text, np.zeros((256, 16), np.float32), profile="cpu_sim", grid=grid)["y"]
        assert (out[: 8 * grid] == 1).all() and not out[8 * grid :].any()


def test_a_grid_batches_and_needs_a_positive_number() -> None:
    x, y = RNG.normal(size=(3, 64, 16)).astype(np.float32), RNG.normal(size=(3, 8, 16)).astype(np.float32)
    kernel = pto.compile(pto.parse(BLOCKS), grid=8)
    batched = np.asarray(jax.vmap(kernel)(x, y)["y"])
    for i in range(3):
        assert batched[i].tobytes() == np.asarray(kernel(x[i], y[i])["y"]).tobytes()
    with pytest.raises(pto.ArgumentError, match="grid: got 0"):
        pto.compile(pto.parse(BLOCKS), grid=0)


def striped(offset: str, step: int, out: str = "%row") -> str:
    """Block b copies 8 rows, negated, from its place of x to rows ``out`` of y."""
    return f"""
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %at: index) attributes {{pto.entry}} {{
      {CONSTANTS}
      %step = arith.constant {step} : index
      %b = pto.get_block_idx
      %i = arith.index_cast %b : i64 to index
      %far = arith.muli %i, %step : index
      %row = arith.addi %far, {offset} : index
      %vx = pto.make_tensor_view %x, shape = [%c256, %c16], strides = [%c16, %c1] : {W}
      %vy = pto.make_tensor_view %y, shape = [%c256, %c16], strides = [%c16, %c1] : {W}
      %t = pto.alloc_tile : {H}
      scf.for %half = %c0 to %c2 step %c1 {{
        %col = arith.muli %half, %c8 : index
        %wx = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
        %wy = pto.partition_view %vy, offsets = [{out}, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
        pto.tload ins(%wx : {window(8, 16)}) outs(%t : {H})
        pto.tneg ins(%t : {H}) outs(%t : {H})
        pto.tstore ins(%t : {H}) outs(%wy : {window(8, 16)})
      }}
      return
    }}"""


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("offset", "step", "out", "apart"),
    [
        ("%c0", 8, "%row", True),
        ("%c3", 9, "%row", True),
        ("%c0", 8, "%c0", False),
        ("%c0", 4, "%row", False),
        pytest.param("%at", 8, "%row", False, marks=pytest.mark.slow),
    ],
)
def test_blocks_run_at_once_where_they_provably_do_not_meet(
    offset: str, step: int, out: str, apart: bool
) -> None:
    text = striped(offset, step, out)
    x, y = RNG.normal(size=(256, 16)).astype(np.float32), RNG.normal(size=(256, 16)).astype(np.float32)
    equal_everywhere(text, x, y, 2, grid=20)
    kernel = pto.compile(pto.parse(text), "a5", grid=20, partial_launch=True)
    in_order = " 20:i64[]" in str(jax.make_jaxpr(lambda *a: kernel(*a))(x, y, 2))
    assert in_order != apart


@pytest.mark.slow
def test_the_proof_is_not_tried_on_more_than_it_can_walk() -> None:
    """Its budget is one for all blocks: a large launch runs in order instead of taking minutes to prove."""
    program = pto.parse(striped("%c0", 8))
    for sizes, grid, proven in ((8 * 20, 20, True), (8 * 4000, 4000, False)):
        buffers = (("x", sizes * 16), ("y", sizes * 16))
        assert (disjoint_parts(program, "k", grid, buffers) is not None) == proven


SUBBLOCKS = f"""
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.entry}} {{
  {CONSTANTS}
  %b = pto.get_block_idx
  %s = pto.get_subblock_idx
  %n = pto.get_subblock_num
  %bn = arith.muli %b, %n : i64
  %bs = arith.addi %bn, %s : i64
  %i = arith.index_cast %bs : i64 to index
  %row = arith.muli %i, %c8 : index
  %vx = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
  %vy = pto.make_tensor_view %y, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
  %wx = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
  %wy = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c8, %c16] : {W} -> {window(8, 16)}
  %t = pto.alloc_tile : {H}
  pto.tload ins(%wx : {window(8, 16)}) outs(%t : {H})
  pto.tneg ins(%t : {H}) outs(%t : {H})
  pto.tstore ins(%t : {H}) outs(%wy : {window(8, 16)})
  return
}}"""


def test_both_vector_cores_of_a_block_run() -> None:
    x = RNG.normal(size=(64, 16)).astype(np.float32)
    out = equal_everywhere(SUBBLOCKS, x, np.zeros_like(x), grid=3)["y"]
    assert out[:48].tobytes() == (-x[:48]).tobytes() and not out[48:].any()


# -- pipes -------------------------------------------------------------------------------------------


def pipe_program(cube: str, vector: str, entry: str = "") -> str:
    """A cube and a vector function that meet in a pipe of both directions."""
    setup = "{dir_mask = 3, slot_size = 1024"
    return f"""module attributes {{pto.target_arch = "a5"}} {{
    func.func @cube(%x: !pto.ptr<f32>, %n: index) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
      {CONSTANTS}
      %to = pto.import_reserved_buffer {{name = "c2v", peer_func = @vector}} -> i32
      %from = pto.reserve_buffer
        {{name = "v2c", size = 8192, location = #pto.address_space<mat>, auto = true}}
        -> i32
      pto.aic_initialize_pipe {setup}}} (c2v_consumer_buf = %to : i32, v2c_consumer_buf = %from : i32)
      %vx = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
      %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {window(16, 16)}
      %m = pto.alloc_tile : {M}
      %l = pto.alloc_tile : {L}
      %r = pto.alloc_tile : {R}
      %a = pto.alloc_tile : {A}
      {cube}
      return
    }}
    func.func @vector(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index)
        attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
      {CONSTANTS}
      %from = pto.reserve_buffer
        {{name = "c2v", size = 8192, location = #pto.address_space<vec>, auto = true}}
        -> i32
      %to = pto.import_reserved_buffer {{name = "v2c", peer_func = @cube}} -> i32
      pto.aiv_initialize_pipe {setup}}} (c2v_consumer_buf = %from : i32, v2c_consumer_buf = %to : i32)
      %s64 = pto.get_subblock_idx
      %s = arith.index_cast %s64 : i64 to index
      %vy = pto.make_tensor_view %y, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
      {vector}
      return
    }}
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
      {entry}
      func.call @cube(%x, %n) : (!pto.ptr<f32>, index) -> ()
      func.call @vector(%x, %y, %n) : (!pto.ptr<f32>, !pto.ptr<f32>, index) -> ()
      return
    }}
    }}"""


PRODUCT = f"""
      pto.tload ins(%wx : {window(16, 16)}) outs(%m : {M})
      pto.tmov ins(%m : {M}) outs(%l : {L})
      pto.tmov ins(%m : {M}) outs(%r : {R})
      pto.tmatmul ins(%l, %r : {L}, {R}) outs(%a : {A})"""


def put(tile: str, t: str, row: str, rows: int, cols: int, col: str = "%c0") -> str:
    return f"""
      %w_{tile} = pto.partition_view %vy, offsets = [{row}, {col}], sizes = [%c{rows}, %c{cols}]
        : {W} -> {window(rows, cols)}
      pto.tstore ins(%{tile} : {t}) outs(%w_{tile} : {window(rows, cols)})"""


def matrices() -> tuple[Any, Any]:
    """Small integers, whose products are exact in every order."""
    return RNG.integers(-3, 4, (64, 16)).astype(np.float32), np.zeros((64, 16), np.float32)


@pytest.mark.parametrize(
    ("split", "t", "start"),
    [(1, H, ("%c8", "%c0")), (2, N, ("%c0", "%c8"))],
)
def test_halves_of_a_product_go_to_the_two_vector_cores(split: int, t: str, start: tuple[str, str]) -> None:
    rows, cols = (8, 16) if split == 1 else (16, 8)
    x, y = matrices()
    text = pipe_program(
        f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = {split}}}",
        f"""%row = arith.muli %s, {start[0]} : index
            %col = arith.muli %s, {start[1]} : index
            %t = pto.tpop_from_aic {{split = {split}}} -> {t}
            {put("t", t, "%row", rows, cols, "%col")}
            pto.tfree_from_aic {{split = {split}}}""",
    )
    out = equal_everywhere(text, x, y, 1)["y"]
    assert (out[:16] == x[:16] @ x[:16]).all() and not out[16:].any()


def test_without_split_the_first_vector_core_has_the_whole_tile() -> None:
    x, y = matrices()
    text = pipe_program(
        f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = 0}}",
        f"""%first = arith.cmpi eq, %s, %c0 : index
            scf.if %first {{
              %t = pto.tpop_from_aic {{split = 0}} -> {V}
              {put("t", V, "%c0", 16, 16)}
              pto.tfree_from_aic {{split = 0}}
            }}""",
    )
    assert (equal_everywhere(text, x, y, 1)["y"][:16] == x[:16] @ x[:16]).all()


def test_pipes_in_both_directions_keep_their_order_through_loops() -> None:
    """The vector cores negate what they get and send it back; the cube core multiplies that again."""
    x, y = matrices()
    text = pipe_program(
        f"""{PRODUCT}
          scf.for %i = %c0 to %c3 step %c1 {{
            pto.tpush_to_aiv(%a : {A}) {{split = 1}}
            %back = pto.tpop_from_aiv {{split = 1}} -> {M}
            pto.tmov ins(%back : {M}) outs(%l : {L})
            pto.tfree_from_aiv {{split = 1}}
            pto.tmatmul ins(%l, %r : {L}, {R}) outs(%a : {A})
          }}""",
        f"""scf.for %i = %c0 to %c3 step %c1 {{
            %t = pto.tpop_from_aic {{split = 1}} -> {H}
            %at = arith.muli %i, %c16 : index
            %half = arith.muli %s, %c8 : index
            %row = arith.addi %at, %half : index
            {put("t", H, "%row", 8, 16)}
            %u = pto.alloc_tile : {H}
            pto.tneg ins(%t : {H}) outs(%u : {H})
            pto.tfree_from_aic {{split = 1}}
            pto.tpush_to_aic(%u : {H}) {{split = 1}}
          }}""",
    )
    out = equal_everywhere(text, x, y, 1)["y"]
    square = x[:16] @ x[:16]
    for i in range(3):
        assert (out[16 * i : 16 * i + 16] == square).all()
        square = -square @ x[:16]


def test_every_block_has_pipes_of_its_own() -> None:
    x, y = matrices()
    text = pipe_program(
        f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}",
        f"""%b64 = pto.get_block_idx
            %b = arith.index_cast %b64 : i64 to index
            %at = arith.muli %b, %c16 : index
            %half = arith.muli %s, %c8 : index
            %row = arith.addi %at, %half : index
            %t = pto.tpop_from_aic {{split = 1}} -> {H}
            {put("t", H, "%row", 8, 16)}
            pto.tfree_from_aic {{split = 1}}""",
    )
    out = equal_everywhere(text, x, y, 1, grid=4)["y"]
    assert (out == np.tile(x[:16] @ x[:16], (4, 1))).all()


def test_a_core_that_waits_for_ever_is_an_error_with_its_place() -> None:
    x, y = matrices()
    text = pipe_program(
        f"{PRODUCT}\n pto.tpush_to_aiv(%a : {A}) {{split = 1}}",
        f"""scf.for %i = %c0 to %c2 step %c1 {{
            %t = pto.tpop_from_aic {{split = 1}} -> {H}
            pto.tfree_from_aic {{split = 1}}
          }}""",
    )
    program = pto.parse(text)
    for run in (pto.compile(program, "a5"), lambda *a: oracle.run(program, a, profile="a5")):
        with pytest.raises(
            pto.ExecutionError, match="vector0 waits for a tile in the pipe for ever"
        ) as found:
            run(x, y, 1)
        assert [d.rule for d in found.value.diagnostics] == ["deadlock"] * 2
        assert found.value.diagnostics[0].span is not None


def test_flags_order_what_cores_do_to_global_memory() -> None:
    """The vector section comes first in the text, and waits for what the cube section stores."""
    x, y = matrices()
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
      {CONSTANTS}
      %vx = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
      %vy = pto.make_tensor_view %y, shape = [%c64, %c16], strides = [%c16, %c1] : {W}
      %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {window(16, 16)}
      %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {window(16, 16)}
      %wz = pto.partition_view %vy, offsets = [%c16, %c0], sizes = [%c16, %c16] : {W} -> {window(16, 16)}
      pto.section.vector {{
        %t = pto.alloc_tile : {V}
        pto.sync.wait <PIPE_MTE2>, 3
        pto.tload ins(%wy : {window(16, 16)}) outs(%t : {V})
        pto.tneg ins(%t : {V}) outs(%t : {V})
        pto.tstore ins(%t : {V}) outs(%wz : {window(16, 16)})
      }}
      pto.section.cube {{
        %m = pto.alloc_tile : {M}
        %l = pto.alloc_tile : {L}
        %r = pto.alloc_tile : {R}
        %a = pto.alloc_tile : {A}
        {PRODUCT}
        pto.tstore ins(%a : {A}) outs(%wy : {window(16, 16)})
        pto.sync.set <PIPE_FIX>, 3
      }}
      return
    }}
    }}"""
    out = equal_everywhere(text, x, y, 1)["y"]
    square = x[:16] @ x[:16]
    assert (out[:16] == square).all() and (out[16:32] == -square).all()
