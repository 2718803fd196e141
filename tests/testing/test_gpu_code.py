"""The check of GPU code reads programs, translates kernels and judges what it finds; it compiles elsewhere.

What needs the compiler for GPUs is the command itself.
"""

from typing import Any

import numpy as np
import pytest

from pto_jax import isa
from pto_jax.examples import EXAMPLES
from pto_jax.isa.samples.operations import legal_samples
from pto_jax.lowering.numerics import Numerics
from pto_jax.profiles import A5
from pto_jax.testing.differential import make_case
from tools.gpu_code import (
    gpu_code,
    gpu_execution,
    gpu_findings,
    gpu_limits,
    gpu_program,
    gpu_target,
    gpu_translation,
)
from tools.gpu_code.gpu_examples import ExampleCode
from tools.gpu_code.gpu_execution import constant
from tools.gpu_code.gpu_findings import Finding
from tools.gpu_code.gpu_program import shapes
from tools.gpu_code.gpu_target import Code
from tools.gpu_code.gpu_translation import Kernel, Refused, kernels, respelled, translated

HLO = """HloModule jit_pto_case, is_scheduled=true

%body (p.1: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %p.1 = (s32[], f32[4,8]{1,0}) parameter(0)
  %get-tuple-element = s32[] get-tuple-element(%p.1), index=0
  %get-tuple-element.1 = f32[4,8]{1,0} get-tuple-element(%p.1), index=1
  %add_fusion = s32[] fusion(%get-tuple-element), kind=kLoop, calls=%fused_add
  %mul_fusion = f32[4,8]{1,0} fusion(%get-tuple-element.1), kind=kLoop, calls=%fused_mul
  ROOT %tuple = (s32[], f32[4,8]{1,0}) tuple(%add_fusion, %mul_fusion)
}

%condition (p.2: (s32[], f32[4,8])) -> pred[] {
  %p.2 = (s32[], f32[4,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p.2), index=0
  ROOT %compare_fusion = pred[] fusion(%i), kind=kLoop, calls=%fused_compare
}

ENTRY %main (a: f32[4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %copy = f32[4,8]{1,0} copy(%a)
  %start = (s32[], f32[4,8]{1,0}) tuple(%zero, %copy)
  %while = (s32[], f32[4,8]{1,0}) while(%start), condition=%condition, body=%body, KNOWN
  ROOT %result = f32[4,8]{1,0} get-tuple-element(%while), index=1
}
"""
KNOWN = 'backend_config={"known_trip_count":{"n":"5"}}'
LLVM = """target triple = "nvptx64-nvidia-cuda"
@shared_0 = private unnamed_addr addrspace(3) global [128 x i32] undef

define ptx_kernel void @loop_fusion(ptr noalias readonly align 16 %0, ptr noalias writeonly %1) #0 {
  %3 = addrspacecast ptr %0 to ptr addrspace(1)
  %4 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !range !2
  %5 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !range !3
  %6 = getelementptr float, ptr addrspace(1) %3, i32 %5
  %7 = load float, ptr addrspace(1) %6, align 4, !invariant.load !4
  %8 = fcmp uno float %7, 0.000000e+00
  %9 = select i1 %8, float -nan(0x3FFFFF), float f0x3F800000
  store float %9, ptr %1, align 4
  ret void
}

declare noundef i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1
declare noundef i32 @llvm.nvvm.read.ptx.sreg.ctaid.x() #1
attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
!2 = !{i32 0, i32 64}
!3 = !{i32 0, i32 128}
"""


@pytest.mark.parametrize(("known", "launches"), [(KNOWN, 1 + 5 * 3), ("metadata={}", 1 + 3)])
def test_launches_of_loops_are_multiplied(known: str, launches: int) -> None:
    program = gpu_program.read(HLO.replace("KNOWN", known))
    assert program.entry == "main" and set(program.computations) == {"main", "body", "condition"}
    assert program.launches() == launches
    (loop,) = (s for s in program.computations["main"] if s.operation == "while")
    assert loop.computation("body") == "body" and loop.operands == ("start",)


def test_members_of_a_tuple_are_operands_of_their_own() -> None:
    """JAX 0.12 writes ``%pair#1`` where JAX 0.10 has an instruction for it."""
    program = gpu_program.read(
        "ENTRY %main (a: u16[4]) -> (s32[2], u16[4]) {\n"
        "  %a = u16[4]{0} parameter(0)\n"
        "  %pair = (u16[4]{0}, s32[2]{0}) fusion(%a), kind=kLoop, calls=%f\n"
        "  ROOT %both = (s32[2]{0}, u16[4]{0}) tuple(%pair#1, %pair#0)\n}\n"
    )
    *_, second, first, root = program.computations["main"]
    assert root.operands == ("pair#1", "pair#0") and program.launches() == 1
    assert (second.operation, second.operands, second.type) == ("get-tuple-element", ("pair",), "s32[2]{0}")
    assert (first.type, first.attributes) == ("u16[4]{0}", "index=0")


def test_types_are_element_types_dimensions_and_bytes() -> None:
    assert shapes("(s32[], /*index=1*/bf16[4,8]{1,0}, pred[3]{0}, f8e4m3fn[2])") == [
        ("s32", (), 4),
        ("bf16", (4, 8), 2),
        ("pred", (3,), 1),
        ("f8e4m3fn", (2,), 1),
    ]


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("%a = fadd float %b, 1.500000e+00", 0x3FF8000000000000),
        ("%a = fadd float %b, f0x7FC00000", 0x7FF8000000000000),
        ("%a = fadd double %b, f0x36A0000000000000", 0x36A0000000000000),
        ("%a = fadd double %b, -qnan", 0xFFF8000000000000),
        ("%a = select i1 %c, float %b, float -nan(0x3FFFFF)", 0xFFFFFFFFE0000000),
        ("%a = select i1 %c, float %b, float +qnan", 0x7FF8000000000000),
        ("%a = fcmp olt double %b, -inf", 0xFFF0000000000000),
        ("%a = fadd float %b, -0.000000e+00", 0x8000000000000000),
    ],
)
def test_constants_are_bits_of_doubles(text: str, bits: int) -> None:
    assert respelled(text).endswith(f"0x{bits:016X}")


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("%a = select i1 %b, half +qnan, half %c", "half 0xH7E00"),
        ("%a = select i1 %b, half -nan(0x3), half %c", "half 0xHFE03"),
        ("%a = fcmp oeq bfloat -inf, %b", "bfloat 0xRFF80"),
        ("%a = fadd half f0x3C00, %b", "half 0xH3C00"),
    ],
)
def test_constants_of_narrow_types_are_their_own_bits(text: str, constant: str) -> None:
    assert constant in respelled(text)


def test_integers_and_names_stay() -> None:
    text = "%1.5 = add i32 %inf, 15\n%2 = getelementptr i8, ptr %nan.1, i64 3"
    assert respelled(text) == text


def test_a_kernel_becomes_a_function_of_its_thread_and_block() -> None:
    (kernel,) = kernels(LLVM)
    assert kernel == Kernel("loop_fusion", ("read", "written"), 64, 128, cooperative=False)
    text = translated(LLVM, [kernel])
    assert "%5 = add i32 %pto_thread, 0" in text and "%4 = add i32 %pto_number, 0" in text
    assert "addrspace" not in text and "nvvm" not in text and "define void @run_kernel_loop_fusion(" in text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%9 = tail call float @llvm.nvvm.ex2.approx.ftz.f(float %7)", "llvm.nvvm.ex2.approx.ftz.f"),
        ('%9 = call i32 asm "mov.b32 $0, 1;", "=r"()', "inline assembly"),
        ("%9 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.y()", "register tid.y"),
    ],
)
def test_what_is_not_known_is_refused(line: str, why: str) -> None:
    text = LLVM.replace("%8 = fcmp", f"{line}\n  %8 = fcmp")
    with pytest.raises(Refused, match=why):
        translated(text, kernels(text))


def test_a_shuffle_meets_the_other_threads() -> None:
    line = "%9 = tail call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %4, i32 16, i32 31)"
    text = LLVM.replace("%8 = fcmp", f"{line}\n  %8 = fcmp")
    (kernel,) = kernels(text)
    assert kernel.cooperative
    assert "%9 = call i32 @pto_shuffle_down(i32 %pto_thread, i32 %4, i32 16)" in translated(text, [kernel])


def _finding(monkeypatch: pytest.MonkeyPatch, ptx: str, bits: int = 0, scratch: int = 0) -> Finding:
    """What is said of tadd with such PTX, executed with so many bits other than the interpreter's."""
    sample = next(legal_samples(isa.instructions()["tadd"], A5))

    class Compiler:
        def compile(self, function: Any, arguments: Any) -> Code:
            return Code(HLO.replace("KNOWN", KNOWN), (), ptx, scratch, 100)

    class Execution:
        def __init__(self, *_: Any) -> None:
            self.host = self
            self.is_coarse = False

        def run(self, leaves: Any, coarse: int) -> list[Any]:
            case = make_case(sample, A5)
            words = np.stack([case.reference(i)["dst"] for i in range(4)])
            words.reshape(-1)[:bits] ^= 1
            return [np.frombuffer(words.tobytes(), np.uint8)]

    monkeypatch.setattr(gpu_execution, "Execution", Execution)
    monkeypatch.setitem(gpu_limits.table()["launches"], "tadd", 16)
    examiner = gpu_findings.Examiner("h100", Compiler(), gpu_execution.Executor())  # type: ignore[arg-type]
    return examiner.operation(sample, A5, 0)


def test_right_code_has_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = _finding(monkeypatch, "add.rn.f32 \t%r1, %r2, %r3;\ndiv.rn.f64 %r;\nsqrt.rn.f64 %r;")
    assert not finding.problems and finding.executed == "equal" and finding.lanes == 8192
    assert finding.launches == 16 and not finding.marks


@pytest.mark.parametrize(
    ("ptx", "problem"),
    [
        ("fma.rn.f32 \t%r1, %r2, %r3, %r4;", "contraction: fma.rn.f32"),
        ("fma.rn.f16x2 \t%r1, %r2, %r3, %r4;", "contraction: fma.rn.f16x2"),
        ("add.rn.ftz.f32 \t%r1, %r2, %r3;", "flush: add.rn.ftz.f32"),
        ("div.full.f32 \t%r1, %r2, %r3;", "approximation: div.full.f32"),
        ("rsqrt.approx.f64 \t%r1, %r2;", "approximation: rsqrt.approx.f64"),
        ("mma.sync.aligned.m16n8k8 \t{%r1};", "matrix unit: mma.sync.aligned.m16n8k8"),
    ],
)
def test_code_that_changes_bits_is_a_problem(monkeypatch: pytest.MonkeyPatch, ptx: str, problem: str) -> None:
    assert _finding(monkeypatch, ptx).problems == [problem]


def test_a_wrong_bit_and_scratch_memory_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = _finding(monkeypatch, "", bits=3, scratch=500)
    assert finding.executed == "differs" and finding.different == 3
    assert finding.problems == ["scratch: 500 bytes for 100 of arguments", "bits: 3 of 8192 lanes differ"]
    shown = list(gpu_code.summary([finding]))
    assert shown[0].startswith("h100: 1 operations of 1 instructions; executed here: 0 equal")
    assert any(line.startswith("WRONG tadd ") for line in shown)


def test_more_launches_than_the_table_has_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_findings, "launches", lambda instruction: 15)
    assert _finding(monkeypatch, "").problems == ["launches: 16, allowed 15"]


def test_limits_are_of_known_instructions_and_have_reasons() -> None:
    table, known = gpu_limits.table(), isa.instructions()
    assert table["launches"].keys() | table["scratch"].keys() <= known.keys() | {"chain"}
    for approximation in table["approximations"]:
        assert set(approximation["instructions"]) <= known.keys()
        assert approximation["marks"] and len(approximation["why"]) > 20


def test_without_the_compiler_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_target, "_is_installed", lambda module: module != "llvmlite")
    assert gpu_code.main(["--only", "tadd"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "this environment lacks llvmlite" in line and "pip install" in line and "gpu-check" in line


@pytest.mark.parametrize(
    "wrong", [["--only", "tno"], ["--sample", "0"], ["--jobs", "0"], ["--seed", "-1"], ["--lanes", "0"]]
)
def test_wrong_use_is_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_code.main(wrong) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert wrong[0] in line


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("s32[2]{0} constant({-1, 7})", np.array([-1, 7], np.int32)),
        ("f64[2,2]{1,0} constant({ { 1, inf }, { -0.5, nan } })", np.array([[1, np.inf], [-0.5, np.nan]])),
        ("pred[3]{0} constant({1, 0, 1})", np.array([True, False, True])),
        ("u8[] constant(200)", np.array(200, np.uint8)),
    ],
)
def test_constants_are_their_bytes(line: str, values: Any) -> None:
    program = gpu_program.read(f"ENTRY %main () -> s32[] {{\n  ROOT %c = {line}, metadata={{}}\n}}\n")
    (step,) = program.computations["main"]
    assert constant(step).tobytes() == values.tobytes()


def test_a_constant_that_is_not_written_out_is_refused() -> None:
    program = gpu_program.read("ENTRY %main () -> s32[] {\n  ROOT %c = u32[256]{0} constant({...})\n}\n")
    with pytest.raises(Refused, match="constant u32"):
        constant(*program.computations["main"])


TRITON = """@global_smem = external local_unnamed_addr addrspace(3) global [0 x i8], align 16

define ptx_kernel void @pto_product(ptr noalias align 256 %0, ptr noalias align 256 %1) local_unnamed_addr #0 {
  %3 = tail call i32 asm sideeffect "mov.u32 $0, 0x0; ld.global.b32 { $0 }, [ $1 + 0 ];", "=r,l"(ptr addrspace(1) %0) #0
  %4 = bitcast i32 %3 to float
  %5 = tail call float asm "fma.rn.f32 $0, $1, $2, $3;", "=f,f,f,f"(float %4, float %4, float %4) #0
  %6 = bitcast float %5 to i32
  tail call void asm sideeffect "st.global.v2.b32 [ $2 + 0 ], { $0, $1 };", "r,r,l"(i32 %3, i32 %6, ptr addrspace(1) %1) #0
  ret void
}

attributes #0 = { nounwind "nvvm.reqntid"="128,1,1" }
"""  # noqa: E501


def test_newer_llvm_reads_the_same() -> None:
    """JAX 0.12's LLVM: other separators in assembly, roundings as arguments, what may alias as metadata."""
    lines = {
        "mov.u32 $0, 0x0; ld": r"mov.u32 $0, 0x0;\0A\09ld",
        "  ret void": "  call void @llvm.experimental.noalias.scope.decl(metadata !9)\n  ret void",
    }
    new = TRITON
    for old, line in lines.items():
        assert old in new
        new = new.replace(old, line)
    new += '!8 = distinct !{!8, i1 false, !"domain"}\n!9 = distinct !{!9, !8, !"scope"}\n'
    assert translated(new, kernels(new, {"pto_product": 4})) == translated(
        TRITON, kernels(TRITON, {"pto_product": 4})
    )
    rounded = "%a = call double @llvm.nvvm.fmul.f64(double %b, double 2.0, /* rnd=rn */ i32 1)\n"
    text, used = gpu_translation._intrinsics(rounded)
    assert used == ["mul.rn.d"] and "@nv_mul_rn_d(double %b, double 2.0)" in text


def test_the_assembly_of_triton_is_known() -> None:
    (kernel,) = kernels(TRITON, {"pto_product": 4})
    assert (kernel.blocks, kernel.threads) == (4, 128)
    text = translated(TRITON, [kernel])
    assert "%3 = call i32 @pto_load_32_1(ptr %0)\n" in text and " asm " not in text and "external" not in text
    assert "%5 = call float @llvm.fma.f32(float %4, float %4, float %4)" in text
    assert "call void @pto_store_32_2(i32 %3, i32 %6, ptr %1)" in text
    some = TRITON.replace('"mov.u32 $0, 0x0; ld', '"mov.u32 $0, 0x0; @$2 ld').replace(
        "%0) #0", "%0, i1 true) #0"
    )
    assert "%3 = call i32 @pto_load_if_32_1(ptr %0, i1 true)\n" in translated(some, [kernel])
    with pytest.raises(Refused, match="external data"):
        translated(TRITON.replace("[0 x i8]", "i32"), [kernel])


@pytest.mark.parametrize(
    ("blocks", "exact", "fast", "scratch", "problem"),
    [
        (1, 21, 17, 0, "launches: 21 in exact numerics, 17 in fast; allowed 20 and twice fast's"),
        (1, 19, 9, 0, "launches: 19 in exact numerics, 9 in fast; allowed 20 and twice fast's"),
        (4, 40, 9, 0, "launches: 40 in exact numerics, allowed 30"),
        (4, 30, 31, 0, "launches: 31 in fast numerics, allowed 30"),
        (1, 3, 3, 150, "scratch: 150 bytes for 100 of arguments, allowed 1.0 bytes per byte"),
        (1, 20, 10, 100, None),
    ],
)
def test_an_example_keeps_its_promises(
    monkeypatch: pytest.MonkeyPatch, blocks: int, exact: int, fast: int, scratch: int, problem: str | None
) -> None:
    monkeypatch.setattr(gpu_limits, "example", lambda name: {"exact": 30, "fast": 30, "scratch": 1.0})
    launches: dict[Numerics, int] = {"exact": exact, "fast": fast}
    code = ExampleCode("softmax", "h100", blocks, launches, scratch, 100)
    assert code.problems == ([] if problem is None else [problem])
    assert str(code).startswith(f"softmax [h100]: launches {exact} exact, {fast} fast; scratch ")


def test_scratch_memory_above_the_arguments_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_limits, "example", lambda name: {"exact": 9, "fast": 9, "scratch": 2.0})
    code = ExampleCode("softmax", "h100", 1, {"exact": 9, "fast": 9}, 101, 100)
    assert code.problems == ["scratch: 101 bytes for 100 of arguments, more without a reason"]
    monkeypatch.setattr(gpu_limits, "above_arguments", lambda name: "records are wider than values")
    assert not code.problems


def test_every_shipped_example_has_limits() -> None:
    table = gpu_limits.table()
    assert set(table["examples"]) == set(EXAMPLES)
    above = {name for name, limits in table["examples"].items() if limits["scratch"] > 1}
    assert above == table["above_arguments"].keys()
    assert all(len(reason) > 20 for reason in table["above_arguments"].values())
    assert ExampleCode("softmax", "h100", 1, error="TypeError: x").problems == ["TypeError: x"]
