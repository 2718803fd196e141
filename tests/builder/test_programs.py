"""The same programs written as text and in Python are equal."""

from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import builder as b
from pto_jax.builder import Kernel

F32 = pto.ptr("f32")
P = "!pto.ptr<f32>"
T = "!pto.tile_buf<vec, 16x16xf32>"
V, W = "!pto.tensor_view<16x16xf32>", "!pto.partition_tensor_view<16x16xf32>"


@pto.kernel(types=(F32, F32, F32))
def manual(ga: Any, gb: Any, gc: Any) -> None:
    """The manual example of the tadd page, in the names of the C++ interface."""
    va = b.GlobalTensor(ga, (16, 16))
    vb = b.GlobalTensor(gb, (16, 16))
    vc = b.GlobalTensor(gc, (16, 16))
    src0 = b.Tile("Vec", "float", 16, 16)
    src1 = b.Tile("Vec", "float", 16, 16)
    dst = b.Tile("Vec", "float", 16, 16)
    b.TASSIGN(src0, 0x1000)
    b.TASSIGN(src1, 0x2000)
    b.TASSIGN(dst, 0x3000)
    e0 = b.TLOAD(src0, va)
    e1 = b.TLOAD(src1, vb)
    b.TSYNC(e0, e1)
    b.TADD(dst, src0, src1)
    b.TSYNC()
    b.TSTORE(vc, dst)


MANUAL = f"""
func.func @manual(%ga: {P}, %gb: {P}, %gc: {P}) attributes {{pto.entry}} {{
  %c16 = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  %c4096_i64 = arith.constant 4096 : i64
  %c8192_i64 = arith.constant 8192 : i64
  %c12288_i64 = arith.constant 12288 : i64
  %va = pto.make_tensor_view %ga, shape = [%c16, %c16], strides = [%c16, %c1] : {V}
  %vb = pto.make_tensor_view %gb, shape = [%c16, %c16], strides = [%c16, %c1] : {V}
  %vc = pto.make_tensor_view %gc, shape = [%c16, %c16], strides = [%c16, %c1] : {V}
  %src0 = pto.alloc_tile : {T}
  %src1 = pto.alloc_tile : {T}
  %dst = pto.alloc_tile : {T}
  pto.tassign %src0, %c4096_i64 : {T}, i64
  pto.tassign %src1, %c8192_i64 : {T}, i64
  pto.tassign %dst, %c12288_i64 : {T}, i64
  %e0 = pto.tload ins(%va : {V}) outs(%src0 : {T}) -> !pto.event
  %e1 = pto.tload ins(%vb : {V}) outs(%src1 : {T}) -> !pto.event
  pto.tsync ins(%e0, %e1 : !pto.event, !pto.event)
  pto.tadd ins(%src0, %src1 : {T}, {T}) outs(%dst : {T})
  pto.tsync
  pto.tstore ins(%dst : {T}) outs(%vc : {V})
  return
}}"""


@pto.kernel(types={"x": F32, "y": F32, "count": "index"})
def boundary(x: Any, y: Any, count: Any) -> None:
    """exp of count x 16 numbers, 16 rows at a time; the last tile is smaller."""
    vx = b.make_tensor_view(x, [count, 16], [16, 1])
    vy = b.make_tensor_view(y, [count, 16], [16, 1])
    for i in b.range(0, count, 16):
        size = b.minimum(count - i, 16)
        tile = b.alloc_tile("f32", 16, 16, valid=(size, 16))
        wx = b.partition_view(vx, [i, 0], [size, 16])
        wy = b.partition_view(vy, [i, 0], [size, 16])
        load = b.tload(tile, wx)
        done = b.texp(tile, tile, wait=load)
        b.tstore(dst=wy, src=tile, wait=[done])


TB, VB, WB = (
    "!pto.tile_buf<vec, 16x16xf32, valid=?x16>",
    "!pto.tensor_view<?x16xf32>",
    "!pto.partition_tensor_view<?x16xf32>",
)
BOUNDARY = f"""
module {{ func.func @boundary(%x: {P}, %y: {P}, %count: index) attributes {{pto.entry}} {{
  %c16 = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %vx = pto.make_tensor_view %x, shape = [%count, %c16], strides = [%c16, %c1] : {VB}
  %vy = pto.make_tensor_view %y, shape = [%count, %c16], strides = [%c16, %c1] : {VB}
  scf.for %i = %c0 to %count step %c16 {{
    %0 = arith.subi %count, %i : index
    %size = arith.minsi %0, %c16 : index
    %tile = pto.alloc_tile valid_row = %size : {TB}
    %wx = pto.partition_view %vx, offsets = [%i, %c0], sizes = [%size, %c16] : {VB} -> {WB}
    %wy = pto.partition_view %vy, offsets = [%i, %c0], sizes = [%size, %c16] : {VB} -> {WB}
    %load = pto.tload ins(%wx : {WB}) outs(%tile : {TB}) -> !pto.event
    pto.tsync ins(%load : !pto.event)
    %done = pto.texp ins(%tile : {TB}) outs(%tile : {TB}) -> !pto.event
    pto.tsync ins(%done : !pto.event)
    pto.tstore ins(%tile : {TB}) outs(%wy : {WB})
  }}
  return
}} }}"""


@pto.kernel(types=(F32, F32, F32), arch="a5")
def matmul(x: Any, y: Any, z: Any, *, steps: int = 2) -> None:
    """A product accumulated over blocks of the inner dimension."""
    vx = b.GlobalTensor(x, (16, steps * 16))
    vy = b.GlobalTensor(y, (steps * 16, 16))
    vz = b.GlobalTensor(z, (16, 16))
    a_mat = b.alloc_tile("f32", 16, 16, loc="mat")
    b_mat = b.alloc_tile("f32", 16, 16, loc="mat")
    left = b.alloc_tile("f32", 16, 16, loc="left")
    right = b.alloc_tile("f32", 16, 16, loc="right")
    acc = b.alloc_tile("f32", 16, 16, loc="acc")
    for k in b.range(steps):
        at = k * 16
        wx = b.partition_view(vx, (0, at), (16, 16))
        wy = b.partition_view(vy, (at, 0), (16, 16))
        b.tload(a_mat, wx)
        b.tload(b_mat, wy)
        b.tmov(left, a_mat)
        b.tmov(right, b_mat)
        with b.if_(k == 0):
            b.tmatmul(acc, left, right)
        with b.else_():
            b.TMATMUL_ACC(acc, acc, left, right)
    b.tstore(vz, acc)


M = "!pto.tile_buf<mat, 16x16xf32, blayout=col_major, slayout=row_major>"
L = "!pto.tile_buf<left, 16x16xf32, blayout=col_major, slayout=row_major>"
R = "!pto.tile_buf<right, 16x16xf32, blayout=row_major, slayout=col_major>"
A = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
VX, VY = "!pto.tensor_view<16x32xf32>", "!pto.tensor_view<32x16xf32>"
MATMUL = f"""
module attributes {{pto.target_arch = "a5"}} {{
  func.func @matmul(%x: {P}, %y: {P}, %z: {P}) attributes {{pto.entry}} {{
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c32], strides = [%c32, %c1] : {VX}
    %vy = pto.make_tensor_view %y, shape = [%c32, %c16], strides = [%c16, %c1] : {VY}
    %vz = pto.make_tensor_view %z, shape = [%c16, %c16], strides = [%c16, %c1] : {V}
    %a_mat = pto.alloc_tile : {M}
    %b_mat = pto.alloc_tile : {M}
    %left = pto.alloc_tile : {L}
    %right = pto.alloc_tile : {R}
    %acc = pto.alloc_tile : {A}
    scf.for %k = %c0 to %c2 step %c1 {{
      %at = arith.muli %k, %c16 : index
      %wx = pto.partition_view %vx, offsets = [%c0, %at], sizes = [%c16, %c16] : {VX} -> {W}
      %wy = pto.partition_view %vy, offsets = [%at, %c0], sizes = [%c16, %c16] : {VY} -> {W}
      pto.tload ins(%wx : {W}) outs(%a_mat : {M})
      pto.tload ins(%wy : {W}) outs(%b_mat : {M})
      pto.tmov ins(%a_mat : {M}) outs(%left : {L})
      pto.tmov ins(%b_mat : {M}) outs(%right : {R})
      %0 = arith.cmpi eq, %k, %c0 : index
      scf.if %0 {{
        pto.tmatmul ins(%left, %right : {L}, {R}) outs(%acc : {A})
      }} else {{
        pto.tmatmul.acc ins(%acc, %left, %right : {A}, {L}, {R}) outs(%acc : {A})
      }}
    }}
    pto.tstore ins(%acc : {A}) outs(%vz : {V})
    return
  }}
}}"""


@pto.kernel(types=(F32, "i32"))
def branches(p: Any, n: Any) -> None:
    """A branch that hands out a tile and a number, a loop that carries values."""
    first = b.alloc_tile("f32", 16, 16)
    second = b.alloc_tile("f32", 16, 16)
    with b.if_((n > 3) & (n != 7)) as branch:
        b.texpands(first, 1.5)
        branch.give(first, 0)
    with branch.else_():
        scaled = b.cast(n, "index")
        branch.give(second, scaled)
    tile, start = branch.results
    loop = b.range(start, 10, 2, carried=[n, 0.5])
    for i, count, sum in loop:
        i32 = b.cast(i, "i32")
        loop.give(count + i32, sum * 2.0)
    count, total = loop.results
    b.tadds(tile, tile, b.select(count < 0, -total, total))
    b.tstore(b.GlobalTensor(p, (16, 16), named="view"), tile)


BRANCHES = f"""
func.func @branches(%p: {P}, %n: i32) attributes {{pto.entry}} {{
  %c3_i32 = arith.constant 3 : i32
  %c7_i32 = arith.constant 7 : i32
  %cst = arith.constant 1.5 : f32
  %c0 = arith.constant 0 : index
  %c10 = arith.constant 10 : index
  %c2 = arith.constant 2 : index
  %cst_1 = arith.constant 0.5 : f32
  %cst_2 = arith.constant 2.0 : f32
  %c0_i32 = arith.constant 0 : i32
  %c16 = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  %first = pto.alloc_tile : {T}
  %second = pto.alloc_tile : {T}
  %0 = arith.cmpi sgt, %n, %c3_i32 : i32
  %1 = arith.cmpi ne, %n, %c7_i32 : i32
  %2 = arith.andi %0, %1 : i1
  %tile, %start = scf.if %2 -> ({T}, index) {{
    pto.texpands ins(%cst : f32) outs(%first : {T})
    scf.yield %first, %c0 : {T}, index
  }} else {{
    %scaled = arith.index_cast %n : i32 to index
    scf.yield %second, %scaled : {T}, index
  }}
  %count_1, %total = scf.for %i = %start to %c10 step %c2 iter_args(%count = %n, %sum = %cst_1)
      -> (i32, f32) {{
    %i32 = arith.index_cast %i : index to i32
    %3 = arith.addi %count, %i32 : i32
    %4 = arith.mulf %sum, %cst_2 : f32
    scf.yield %3, %4 : i32, f32
  }}
  %5 = arith.cmpi slt, %count_1, %c0_i32 : i32
  %6 = arith.negf %total : f32
  %7 = arith.select %5, %6, %total : f32
  pto.tadds ins(%tile, %7 : {T}, f32) outs(%tile : {T})
  %view = pto.make_tensor_view %p, shape = [%c16, %c16], strides = [%c16, %c1] : {V}
  pto.tstore ins(%tile : {T}) outs(%view : {V})
  return
}}"""


@pto.kernel(types=("index", "i32"), entry=False, private=True)
def offset(block: Any, width: Any) -> Any:
    return block * b.cast(width, "index")


@pto.kernel(types=(b.tile_type("f32", 16, 16), float), entry=False)
def shift(tile: Any, by: Any) -> None:
    b.TADDS(tile, tile, by)


@pto.kernel(types=(F32,))
def calls(p: Any) -> None:
    """Helper functions: one with a result, one that changes a tile."""
    view = b.GlobalTensor(p, (64, 16))
    at = offset(2, 16)
    tile = b.alloc_tile("f32", 16, 16)
    b.tload(tile, view[at, 0])
    shift(tile, 3.0)
    shift(tile, 4)
    b.tstore(view[at, 0], tile)


V64 = "!pto.tensor_view<64x16xf32>"
CALLS = f"""
module {{
  func.func private @offset(%block: index, %width: i32) -> index {{
    %0 = arith.index_cast %width : i32 to index
    %1 = arith.muli %block, %0 : index
    return %1 : index
  }}
  func.func @shift(%tile: {T}, %by: f32) {{
    pto.tadds ins(%tile, %by : {T}, f32) outs(%tile : {T})
    return
  }}
  func.func @calls(%p: {P}) attributes {{pto.entry}} {{
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16_i32 = arith.constant 16 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant 3.0 : f32
    %cst_1 = arith.constant 4.0 : f32
    %view = pto.make_tensor_view %p, shape = [%c64, %c16], strides = [%c16, %c1] : {V64}
    %at = func.call @offset(%c2, %c16_i32) : (index, i32) -> (index)
    %tile = pto.alloc_tile : {T}
    pto.tload ins(%view[%at, %c0] : {V64}) outs(%tile : {T})
    func.call @shift(%tile, %cst) : ({T}, f32) -> ()
    func.call @shift(%tile, %cst_1) : ({T}, f32) -> ()
    pto.tstore ins(%tile : {T}) outs(%view[%at, %c0] : {V64})
    return
  }}
}}"""

KERNELS: dict[str, tuple[Kernel, str]] = {
    "manual": (manual, MANUAL),
    "boundary": (boundary, BOUNDARY),
    "matmul": (matmul, MATMUL),
    "branches": (branches, BRANCHES),
    "calls": (calls, CALLS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_python_and_text_give_one_program(name: str) -> None:
    kernel, text = KERNELS[name]
    assert kernel.program == pto.parse(text)


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_of_a_kernel_reads_back_and_verifies(name: str) -> None:
    kernel, _ = KERNELS[name]
    assert pto.parse(str(kernel)) == kernel.program
    assert [d for d in kernel.verify() if d.severity == "error"] == []


def test_a_difference_is_seen() -> None:
    assert manual.program != pto.parse(MANUAL.replace("pto.tadd", "pto.tsub"))


def test_calling_a_kernel_compiles_and_runs_it() -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 16, 16), dtype=np.float32)
    out = manual(x, y, np.zeros_like(x), profile="cpu_sim")
    np.testing.assert_array_equal(np.asarray(out["gc"]), x + y)
    assert manual.compile(profile="cpu_sim").outputs == ("gc",)


def test_options_of_a_call_and_names_of_arguments() -> None:
    import jax

    given = np.ones((3, 64 * 16), np.float32)
    out = jax.jit(jax.vmap(lambda p: calls(p=p, profile="a5", numerics="fast")["p"]))(given)
    want = np.ones((3, 64, 16), np.float32)
    want[:, 32:48] = 8
    np.testing.assert_array_equal(np.asarray(out).reshape(want.shape), want)


def test_keyword_only_parameters_are_constants_of_the_program() -> None:
    longer = matmul.specialise(steps=3)
    assert "16x48xf32" in str(longer) and "16x32xf32" in str(matmul)
    with pytest.raises(pto.BuildError, match="no keyword-only parameter 'size'"):
        matmul.specialise(size=3)
