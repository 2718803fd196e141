"""Kernels and programs written for a GPU are executed here; a wrong one gives other results."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.gpu_code.gpu_execution import Execution, product
from tools.gpu_code.gpu_program import layout, read
from tools.gpu_code.gpu_translation import Refused

SORT = """HloModule jit_pto_case, is_scheduled=true

%less (p.0: s32[], p.1: s32[], p.2: s32[], p.3: s32[]) -> pred[] {
  %p.0 = s32[] parameter(0)
  %p.1 = s32[] parameter(1)
  ROOT %lt = pred[] compare(%p.0, %p.1), direction=LT
}

%sorting (param_0: s32[6,2]) -> (s32[6,2], s32[6,2]) {
  %param_0 = s32[6,2]{1,0} parameter(0)
  %iota.1 = s32[6,2]{1,0} iota(), iota_dimension=1
  ROOT %sort.3.1 = (s32[6,2]{1,0}, s32[6,2]{1,0}) sort(%param_0, %iota.1), dimensions={1}, to_apply=%less
}

ENTRY %main (a: s32[6,2]) -> (s32[6,2], s32[6,2]) {
  %a = s32[6,2]{1,0} parameter(0)
  ROOT %fusion = (s32[6,2]{1,0}, s32[6,2]{1,0}) fusion(%a), kind=kCustom, calls=%sorting
}
"""
#: Every block puts a pair in order and says which of the two comes first.
PAIRS = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @sort_3_1(ptr readnone %0, ptr %1, ptr writeonly %2) #0 {
  %4 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !1
  %5 = shl i32 %4, 1
  %6 = or i32 %5, 1
  %7 = getelementptr i32, ptr %1, i32 %5
  %8 = getelementptr i32, ptr %1, i32 %6
  %9 = load i32, ptr %7, align 4
  %10 = load i32, ptr %8, align 4
  %11 = icmp slt i32 %10, %9
  %12 = select i1 %11, i32 %10, i32 %9
  %13 = select i1 %11, i32 %9, i32 %10
  store i32 %12, ptr %7, align 4
  store i32 %13, ptr %8, align 4
  %14 = getelementptr i32, ptr %2, i32 %5
  %15 = getelementptr i32, ptr %2, i32 %6
  %16 = zext i1 %11 to i32
  %17 = xor i32 %16, 1
  store i32 %16, ptr %14, align 4
  store i32 %17, ptr %15, align 4
  ret void
}
declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #1
attributes #0 = { nounwind }
!1 = !{i32 0, i32 6}
"""
WARPS = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @loop_fusion(ptr readonly %0, ptr writeonly %1) #0 {
  %3 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !1
  %4 = getelementptr i32, ptr %0, i32 %3
  %5 = load i32, ptr %4, align 4
  %6 = tail call i32 @llvm.nvvm.redux.sync.min(i32 %5, i32 -1)
  %7 = tail call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %5, i32 5, i32 31)
  %8 = tail call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %5, i32 3, i32 31)
  %9 = mul i32 %7, 3
  %10 = mul i32 %8, 5
  %11 = add i32 %6, %9
  %12 = add i32 %11, %10
  %13 = getelementptr i32, ptr %1, i32 %3
  store i32 %12, ptr %13, align 4
  ret void
}
declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1
declare i32 @llvm.nvvm.redux.sync.min(i32, i32) #1
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) #1
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32) #1
attributes #0 = { nounwind "nvvm.reqntid"="64,1,1" }
!1 = !{i32 0, i32 64}
"""
FUSION = """%warps (p: s32[64]) -> s32[64] {
  ROOT %p = s32[64]{0} parameter(0)
}

ENTRY %main (a: s32[64]) -> s32[64] {
  %a = s32[64]{0} parameter(0)
  ROOT %loop_fusion = s32[64]{0} fusion(%a), kind=kLoop, calls=%warps
}
"""
#: Every block copies the four numbers of a tile and adds the block's number.
TILES = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @fusion_6(ptr readonly %0, ptr writeonly %1) #0 {
  %3 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %4 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !1
  %5 = shl i32 %3, 2
  %6 = or i32 %5, %4
  %7 = getelementptr i32, ptr %0, i32 %6
  %8 = load i32, ptr %7, align 4
  %9 = add i32 %8, %3
  %10 = getelementptr i32, ptr %1, i32 %6
  store i32 %9, ptr %10, align 4
  ret void
}
declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1
declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #1
attributes #0 = { nounwind "nvvm.reqntid"="4,1,1" }
!1 = !{i32 0, i32 4}
"""
TILED = """%tiles (p: s32[6,6]) -> s32[6,6] {
  ROOT %p = s32[6,6]{1,0} parameter(0)
}

ENTRY %main (a: s32[6,6]) -> s32[6,6] {
  %a = s32[6,6]{1,0} parameter(0)
  ROOT %fusion.6 = s32[6,6]{1,0} fusion(%a), kind=kCustom, calls=%tiles, backend_config={CONFIG}
}
"""


def _results(hlo: str, llvm: str, argument: NDArray[Any]) -> list[NDArray[np.int32]]:
    pytest.importorskip("llvmlite", reason="a package of the extra dev, which CI has")
    return [r.view(np.int32) for r in Execution(read(hlo), [llvm]).run([argument])]


def _pairs() -> NDArray[np.int32]:
    return np.random.default_rng(0).integers(-9, 9, (6, 2)).astype(np.int32)


def test_a_sort_is_executed_in_its_results() -> None:
    given = _pairs()
    before = given.copy()
    ordered, places = (r.reshape(6, 2) for r in _results(SORT, PAIRS, given))
    np.testing.assert_array_equal(ordered, np.sort(given, 1))
    np.testing.assert_array_equal(places, np.argsort(given, 1, kind="stable"))
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("icmp slt i32 %10, %9", "icmp ult i32 %10, %9"), ("xor i32 %16, 1", "xor i32 %16, 0")],
)
def test_a_wrong_sort_gives_another_order(right: str, wrong: str) -> None:
    given, text = _pairs(), PAIRS.replace(right, wrong)
    assert text != PAIRS
    ordered, places = (r.reshape(6, 2) for r in _results(SORT, text, given))
    expected = np.sort(given, 1), np.argsort(given, 1, kind="stable")
    assert not (np.array_equal(ordered, expected[0]) and np.array_equal(places, expected[1]))


def test_a_sort_without_its_kernel_and_one_that_reads_elsewhere_are_refused() -> None:
    with pytest.raises(Refused, match="sort"):
        _results(SORT, PAIRS.replace("sort_3_1", "loop_fusion"), _pairs())
    with pytest.raises(Refused, match="a sort that reads its operands"):
        _results(SORT, PAIRS.replace("ptr readnone %0", "ptr readonly %0"), _pairs())


def _of_warps(given: NDArray[np.int32]) -> NDArray[np.int32]:
    warps = given.reshape(2, 32)
    down = np.concatenate([warps[:, 3:], warps[:, 29:]], 1)
    total: NDArray[np.int32] = warps.min(1, keepdims=True) + 3 * warps[:, 5:6] + 5 * down
    return total.reshape(-1)


def test_a_fusion_in_tiles_has_a_block_for_each() -> None:
    tiles = '{"block_level_fusion_config":{"output_tiles":[{"sizes":["2","2"]}]}}'
    numbers = np.arange(36, dtype=np.int32).reshape(6, 6)
    (result,) = _results(TILED.replace("CONFIG", tiles), TILES, numbers)
    assert (result == np.arange(36) + np.arange(36) // 4).all()
    with pytest.raises(Refused, match="unknown number of blocks"):
        _results(TILED.replace("CONFIG", "{}"), TILES, numbers)


def test_threads_of_a_warp_reduce_and_read_each_other() -> None:
    given = np.random.default_rng(1).integers(-999, 999, 64).astype(np.int32)
    (result,) = _results(FUSION, WARPS, given)
    np.testing.assert_array_equal(result, _of_warps(given))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("redux.sync.min", "redux.sync.umin"),
        ("redux.sync.min", "redux.sync.max"),
        ("i32 %5, i32 5, i32 31", "i32 %5, i32 6, i32 31"),
        ("i32 %5, i32 3, i32 31", "i32 %5, i32 2, i32 31"),
    ],
)
def test_another_reduction_or_lane_gives_another_result(right: str, wrong: str) -> None:
    given = np.random.default_rng(1).integers(-999, 999, 64).astype(np.int32)
    text = WARPS.replace(right, wrong)
    assert text != WARPS
    (result,) = _results(FUSION, text, given)
    assert not np.array_equal(result, _of_warps(given))


def test_a_barrier_that_some_threads_do_not_reach_is_refused() -> None:
    given = np.random.default_rng(1).integers(-999, 999, 64).astype(np.int32)
    line = "  %5 = load i32, ptr %4, align 4\n"
    some = "  %c = icmp ult i32 %3, 40\n  br i1 %c, label %a, label %b\na:\n"
    meet = "  tail call void @llvm.nvvm.barrier0()\n  br label %b\nb:\n"
    declared = "declare void @llvm.nvvm.barrier0() #1\n"
    every = WARPS.replace(line, line + "  tail call void @llvm.nvvm.barrier0()\n") + declared
    (result,) = _results(FUSION, every, given)
    np.testing.assert_array_equal(result, _of_warps(given))
    with pytest.raises(Refused, match="a barrier that not every thread reaches"):
        _results(FUSION, WARPS.replace(line, line + some + meet) + declared, given)


CALL = (
    "ENTRY %main () -> s32[] {{\n  ROOT %call = (s32[2,3,4]{{{order}}}, s8[64]{{0}}) custom-call(%x, %y), "
    'custom_call_target="{target}", backend_config={{"gemm_backend_config":{{"alpha_real":1,"beta":{beta},'
    '"dot_dimension_numbers":{{"lhs_contracting_dimensions":["2"],"rhs_contracting_dimensions":["1"],'
    '"lhs_batch_dimensions":["0"],"rhs_batch_dimensions":["0"]}},"epilogue":"DEFAULT"}}}}\n}}\n'
)
_KINDS = ["s8[2,3,5]{2,1,0}", "s8[2,5,4]{1,2,0}"]


def _call(order: str = "2,1,0", target: str = "__cublas$lt$matmul", beta: int = 0) -> Any:
    program = read(CALL.format(order=order, target=target, beta=beta))
    return program.computations["main"][0]


def _factors() -> tuple[NDArray[np.int8], NDArray[np.int8], list[NDArray[np.uint8]]]:
    """Two batches of matrices, and their bytes, the right ones with columns in a row."""
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 3, 5), (2, 5, 4)))
    stored = x, np.ascontiguousarray(y.swapaxes(1, 2))
    return x, y, [np.frombuffer(a.tobytes(), np.uint8) for a in stored]


@pytest.mark.parametrize("order", ["2,1,0", "1,2,0"])
def test_products_of_integers_are_sums_as_they_lie(order: str) -> None:
    x, y, given = _factors()
    total, workspace = product(_call(order), _KINDS, given)
    expected = x.astype(np.int32) @ y.astype(np.int32)
    stored = expected if order == "2,1,0" else expected.swapaxes(1, 2)
    np.testing.assert_array_equal(total.view(np.int32), stored.reshape(-1))
    assert workspace.nbytes == 64


def test_a_product_of_other_numbers_is_another() -> None:
    x, y, given = _factors()
    expected = (x.astype(np.int32) @ y.astype(np.int32)).reshape(-1)
    for kinds in (["u8[2,3,5]{2,1,0}", _KINDS[1]], [_KINDS[0], "s8[2,5,4]{2,1,0}"]):
        assert not np.array_equal(product(_call(), kinds, given)[0].view(np.int32), expected)


@pytest.mark.parametrize(
    ("step", "kinds"),
    [
        (_call(target="__cublas$other"), _KINDS),
        (_call(beta=1), _KINDS),
        (_call(), [_KINDS[0], "f32[2,5,4]{1,2,0}"]),
    ],
)
def test_other_calls_of_a_library_are_refused(step: Any, kinds: list[str]) -> None:
    with pytest.raises(Refused):
        product(step, kinds, _factors()[2])


def test_a_layout_is_from_the_outermost_dimension_to_the_innermost() -> None:
    assert layout("s8[2,5,4]{1,2,0}") == (0, 2, 1) and layout("s8[7]{0}") == (0,) and layout("s8[]") == (0,)
