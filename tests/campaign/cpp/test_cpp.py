"""Programs in C++: golden texts, what is refused, and that every brace and name closes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pto_jax import ir
from pto_jax.api import parse
from pto_jax.cases.targets import Oracle
from pto_jax.devices.cpp.host import prelude, source, translate
from pto_jax.devices.cpp.writer import identifier, literal, tile
from pto_jax.errors import NotExecutableError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.generate.state import Input
from pto_jax.profiles import profile
from pto_jax.text.cpp_names import member

T = "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=row_major, slayout=none_box, fractal=512, pad=0>"  # noqa: E501
BYTES = T.replace("f32", "i8").replace("cols=16", "cols=32").replace("v_col=16", "v_col=32")
ADD = f"pto.tadd ins(%src0, %src1 : {T}, {T}) outs(%dst : {T})"
LOADS = """
func.func @add(%a: !pto.tensor_view<16x16xf32>, %b: !pto.tensor_view<16x16xf32>,
               %c: !pto.tensor_view<16x16xf32>) attributes {pto.entry} {
  %zero = arith.constant 0 : index
  %n = arith.constant 16 : index
  %ga = pto.partition_view %a, offsets = [%zero, %zero], sizes = [%n, %n] : V -> P
  %gb = pto.partition_view %b, offsets = [%zero, %zero], sizes = [%n, %n] : V -> P
  %gc = pto.partition_view %c, offsets = [%zero, %zero], sizes = [%n, %n] : V -> P
  %src0 = pto.alloc_tile : T
  %src1 = pto.alloc_tile : T
  %dst = pto.alloc_tile : T
  pto.tload ins(%ga : P) outs(%src0 : T)
  pto.tload ins(%gb : P) outs(%src1 : T)
  pto.tadd ins(%src0, %src1 : T, T) outs(%dst : T)
  pto.tstore ins(%dst : T) outs(%gc : P)
  return
}"""
VIEW, PART = "!pto.tensor_view<16x16xf32>", "!pto.partition_tensor_view<16x16xf32>"


def case_of(text: str, target: str = "cpu_sim") -> Case:
    """A case of some text, with zeros for inputs."""
    spelled = re.sub(r"\bT\b", T, re.sub(r"\bV\b", VIEW, re.sub(r"\bP\b", PART, text)))
    program = parse(spelled)
    function = program.functions[0]
    inputs = {}
    for a in function.args:
        shape = () if not isinstance(a.type, ir.TileType | ir.TensorViewType) else (16, 16)
        inputs[a.name] = Input(a.type, np.zeros(shape, a.type.dtype.word))  # type: ignore[arg-type, union-attr]
    return Case("0" * 16, 0, 0, profile(target), program, inputs, {})


def device(text: str, mode: str, outputs: tuple[str, ...] = ()) -> str:
    return translate(case_of(text), outputs, mode).device  # type: ignore[arg-type]


def test_the_addition_of_the_page_in_auto_mode() -> None:
    assert device(ADD, "auto", ("dst",)) == (
        "using VecF32_16x16 = Tile<TileType::Vec, float, 16, 16>;\n\n"
        "static AICORE void fragment(VecF32_16x16& src0, VecF32_16x16& src1, VecF32_16x16& dst)\n"
        "{\n    TADD(dst, src0, src1);\n}"
    )


def test_the_addition_of_the_page_in_manual_mode() -> None:
    text = device(LOADS, "manual", ("c",))
    body = [
        line.strip()
        for line in text.splitlines()
        if re.match(r"\s+(T[A-Z]|set_flag|wait_flag|pipe|Vec)", line)
    ]
    assert body == [
        "VecF32_16x16 src0;",
        "TASSIGN(src0, 0x0);",
        "VecF32_16x16 src1;",
        "TASSIGN(src1, 0x400);",
        "VecF32_16x16 dst;",
        "TASSIGN(dst, 0x800);",
        "TLOAD(src0, ga);",
        "pipe_barrier(PIPE_MTE2);",
        "TLOAD(src1, gb);",
        "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);",
        "wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);",
        "TADD(dst, src0, src1);",
        "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
        "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);",
        "TSTORE(gc, dst);",
    ]
    assert "View<float> ga(a.data() + zero * a.GetStride(3) + zero * a.GetStride(4), " in text
    assert "TASSIGN" not in device(LOADS, "auto", ("c",))


def test_the_host_reads_and_writes_what_the_program_names() -> None:
    host = translate(case_of(LOADS), ("c",), "manual").host
    assert 'std::vector<char> araw = read_file(from + "/a.bin");' in host
    assert "AnyShape(1, 1, 1, 16, 16), AnyStride(0, 0, 0, 16, 1)" in host
    assert "add(a, b, c);" in host
    assert host.count("write_file(") == 1
    assert 'write_file(to + "/c.bin", craw.data(), craw.size());' in host


@pytest.mark.parametrize(
    ("t", "spelled"),
    [
        (ir.TileType(ir.F32, 8, 16), "Tile<TileType::Vec, float, 8, 16>"),
        (ir.TileType(ir.F32, 8, 16, 5, 16), "Tile<TileType::Vec, float, 8, 16, BLayout::RowMajor, 5>"),
        (
            ir.TileType(ir.I8, 8, 32, None, 3),
            "Tile<TileType::Vec, int8_t, 8, 32, BLayout::RowMajor, DYNAMIC, 3>",
        ),
        (
            ir.TileType(ir.I8, 8, 32, 0, 3),
            "Tile<TileType::Vec, int8_t, 8, 32, BLayout::RowMajor, DYNAMIC, 3>",
        ),
        (
            ir.TileType(
                ir.F16, 16, 32, loc=ir.Loc.LEFT, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR
            ),
            "Tile<TileType::Left, half, 16, 32, BLayout::ColMajor, 16, 32, SLayout::RowMajor>",
        ),
    ],
)
def test_tile_types_have_as_many_arguments_as_they_need(t: ir.TileType, spelled: str) -> None:
    assert tile(t) == spelled


def test_members_and_constants() -> None:
    assert member(ir.MxQuantAlg.OCP_MX_FP4_E2M1) == "MxQuantAlg::OcpMxFp4E2M1"
    assert member(ir.AccToVecMode.DUAL_MODE_SPLIT_M) == "AccToVecMode::DualModeSplitM"
    assert member(ir.StPhase.FINAL) == "STPhase::Final"
    assert literal(-1, ir.U64) == "uint64_t{18446744073709551615ull}"
    assert (
        literal(float("nan"), ir.BF16) == "static_cast<bfloat16_t>(std::numeric_limits<float>::quiet_NaN())"
    )
    assert len({identifier(n) for n in ("for", "for_", "x#0", "x_0", "0", "v0", "TADD", "x")}) == 8


LOOP = f"""
func.func @loop(%x: {T}, %y: {T}) attributes {{pto.entry}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.constant 4 : index
  %a, %b = scf.for %i = %zero to %n step %one iter_args(%p = %x, %q = %y) -> ({T}, {T}) {{
    SWAP
  }}
  return
}}"""


def test_a_loop_hands_its_values_on_all_at_once() -> None:
    text = device(LOOP.replace("SWAP", f"scf.yield %q, %p : {T}, {T}"), "manual")
    body = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate(body) if line.startswith("for ("))
    assert body[start:][:9] == [
        "for (int64_t i_1_ = zero; i_1_ < n; i_1_ += one) {",
        "int64_t i = i_1_;",
        "VecF32_16x16 p = a;",
        "VecF32_16x16 q = b;",
        "a = q;",
        "b = p;",
        "}",
        "}",
    ]


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (
            "%n = arith.constant 2 : i32\n%m = arith.ceildivsi %n, %n : i32\n" + ADD,
            "auto",
            "2:1: error: arith",
        ),
        (LOOP.replace("SWAP", f"scf.yield %q, %p : {T}, {T}"), "auto", r":6:.*scf.for: hands on the tile %a"),
        (
            LOOP.replace("SWAP", f"%m = pto.alloc_tile : {T}\n    scf.yield %m, %p : {T}, {T}"),
            "manual",
            "scf.for: hands on the tile %m, which is made anew on every trip",
        ),
        (
            f"%at = arith.constant 0 : i64\n%t = pto.alloc_tile addr = %at : {T}\n"
            f"pto.trelu ins(%x : {T}) outs(%t : {T})",
            "auto",
            ":2:1: error: alloc_tile: gives a tile an address",
        ),
        (
            "pto.sethf32mode {enable = true, mode = #pto<round_mode ROUND>}\n" + ADD,
            "manual",
            ":1:1: error: sethf32mode: sets a mode",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_place(text: str, mode: str, message: str) -> None:
    with pytest.raises(NotExecutableError, match=message):
        device(text, mode)


def test_tiles_must_fit_their_memory() -> None:
    big = T.replace("rows=16, cols=16, v_row=16, v_col=16", "rows=256, cols=512, v_row=256, v_col=512")
    text = "%t = pto.alloc_tile : T\n%u = pto.alloc_tile : T\npto.tmov ins(%t : T) outs(%u : T)"
    with pytest.raises(NotExecutableError, match=":2:1: error: alloc_tile: tiles in vec take 1048576 bytes"):
        device(text.replace(": T", f": {big}"), "manual")


@pytest.mark.slow
def test_generated_programs_close_what_they_open_and_define_what_they_use() -> None:
    written = 0
    for preset in ("straight", "control", "aliases", "everything"):
        for case in cases(5, 24, replace(PRESETS[preset], profiles=("cpu_sim",))):
            try:
                text = source(case, Oracle().run(case).outputs, "manual")
            except NotExecutableError as error:
                assert "error: " in str(error)
                continue
            own = text.removeprefix(text[: text.index("namespace kernel")])
            for left, right in ("{}", "()"):
                assert own.count(left) == own.count(right), str(case.program)
            _uses_are_defined(own)
            written += 1
    assert written > 20


def _uses_are_defined(text: str) -> None:
    """Every tile, view and scalar variable of generated code is declared before it is used."""
    defined = set(re.findall(r"(?:[&*>\w]|\]) ([a-z]\w*)(?= = |;|\(|,|\))", text))
    defined |= {n for group in re.findall(r"auto \[([^\]]*)\]", text) for n in group.split(", ")}
    used = set(re.findall(r"(?<=[(, ])([a-z]{1,2}\d+_?)(?=[,).])", text))
    assert used <= defined, used - defined


def test_an_argument_whose_static_region_is_empty_starts_empty() -> None:
    empty = T.replace("v_col=16", "v_col=0")
    host = translate(case_of(ADD.replace(T, empty)), ("dst",), "auto").host
    assert host.count("(0u);") == 3
    assert "16u" not in host


def test_the_host_says_how_many_blocks_there_are() -> None:
    counted = LOADS.replace("%zero =", "%blocks = pto.get_block_num\n  %zero =")
    host = translate(replace(case_of(counted), grid=3), ("c",), "manual").host
    assert "cpu_sim::runtime_config().num_cores = 3;" in host
    assert "for (uint32_t block = 0; block < 3; ++block) {" in host
    assert "num_cores" not in translate(replace(case_of(LOADS), grid=3), ("c",), "manual").host


def test_the_prelude_is_the_same_for_all() -> None:
    assert prelude() == prelude()
    hint, headers = (
        prelude().index(t) for t in ("#define PTO_CPU_VECTORIZE_LOOP\n", "#include <pto/pto-inst.hpp>")
    )
    # The simulator's headers expand the hint, and with it Clang sums in another order.
    assert hint < headers


def test_a_window_with_constant_sizes_has_these_sizes() -> None:
    text = """
func.func @part(%a: !pto.tensor_view<16x16xf32>, %b: !pto.tensor_view<16x16xf32>) attributes {pto.entry} {
  %zero = arith.constant 0 : index
  %ga = pto.subview %a, offsets = [%zero, %zero], sizes = [8, 4] : V -> !pto.partition_tensor_view<8x4xf32>
  return
}"""
    assert "AnyShape(1, 1, 1, 8, 4)" in device(text, "manual")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"pto.taddreluconv ins(%a, %a : {T}, {T}) outs(%d : {T.replace('f32', 'f16')})",
            "taddreluconv: the simulator has no such instruction",
        ),
        (
            f"pto.taddrelu ins(%a, %a : {T}, {T}) outs(%d : {T})",
            "taddrelu: the simulator has no such instruction",
        ),
        (
            f"%s = arith.constant 2.0 : f32\n"
            f"pto.trems ins(%a, %s, %t : {T}, f32, {T.replace('rows=16', 'rows=32')}) outs(%d : {T})",
            "trems: a scratch tile of another type than dst",
        ),
        (
            f"pto.trowsum ins(%a, %t : {T}, {T}) "
            f"outs(%d : {T.replace('rows=16', 'rows=32').replace('v_row=16', 'v_row=?')})",
            "trowsum: dst has other rows than src",
        ),
        (
            f"pto.tsqrt ins(%a : {T}) outs(%d : {T.replace('v_row=16', 'v_row=?')})",
            "tsqrt: dst and src have other valid sizes in their types",
        ),
        (
            f"pto.trsqrt ins(%a : {T}) outs(%d : {T.replace('v_row=16', 'v_row=15')})",
            "trsqrt: dst and src have other valid sizes in their types",
        ),
        (
            f"pto.tdequant ins(%a, %b, %c : {T.replace('f32', 'i32')}, {T}, "
            f"{T.replace('rows=16', 'rows=32')}) outs(%d : {T})",
            "tdequant: scale and offset of several types",
        ),
        (
            f"pto.tcvt ins(%a : {T.replace('f32', 'f16')}) outs(%d : {T.replace('f32', 'bf16')})",
            "tcvt: f16 and bf16; Clang has no conversion between them",
        ),
        (
            f"pto.mscatter ins(%a, %i : {BYTES.replace('i8', 'f8E5M2')}, {BYTES.replace('i8', 'i32')}) "
            "outs(%g : !pto.partition_tensor_view<16x32xf8E5M2>) {coalesce = #pto<coalesce elem>, "
            "scatterAtomicOp = #pto<scatter_atomic_op add>, scatterOob = #pto<scatter_oob wrap>}",
            "mscatter: adds up 8-bit floats; the simulator has no such operator",
        ),
    ],
)
def test_what_the_simulator_does_not_define_is_refused_for_it(text: str, message: str) -> None:
    with pytest.raises(NotExecutableError, match=message):
        device(text, "manual")


def test_an_allocation_has_one_place_in_all_calls() -> None:
    text = f"""
func.func private @make(%p: {T}) -> {T} {{
  %t = pto.alloc_tile : {T}
  pto.trelu ins(%p : {T}) outs(%t : {T})
  return %t : {T}
}}
func.func @main(%x: {T}) attributes {{pto.entry}} {{
  %a = func.call @make(%x) : ({T}) -> {T}
  %b = func.call @make(%a) : ({T}) -> {T}
  return
}}"""
    case = case_of(text)
    entry = case.program.function("main")
    assert entry is not None
    inputs = {a.name: Input(a.type, np.zeros((16, 16), np.uint32)) for a in entry.args}  # type: ignore[arg-type]
    made = translate(replace(case, inputs=inputs, entry="main"), (), "manual").device
    addresses = re.findall(r"TASSIGN\(t, (0x[0-9a-f]+)\);", made)
    assert len(addresses) == 2
    assert len(set(addresses)) == 1


def test_tiles_of_memories_that_the_simulator_has_as_one_may_not_meet() -> None:
    scaling = T.replace(
        "loc=vec, dtype=f32, rows=16, cols=16, v_row=16, v_col=16", "loc=scaling, dtype=ui64, SIZE"
    )
    scaling = scaling.replace("SIZE", "rows=1, cols=16, v_row=1, v_col=16")
    text = (
        "%zero = arith.constant 0 : i64\n%at = arith.constant 512 : i64\n"
        f"%t = pto.alloc_tile addr = %zero : {T}\n%u = pto.alloc_tile addr = %at : {scaling}\n"
        f"pto.trelu ins(%x : {T}) outs(%t : {T})"
    )
    with pytest.raises(NotExecutableError, match="one memory for vec and scaling"):
        device(text, "manual")
    assert "TASSIGN(u, at)" in device(text.replace(" 512 ", " 1024 "), "manual")


def test_the_host_compares_by_the_element_type() -> None:
    kinds = {
        "f32": "Rule{32, 0x7fffffff, 0x7f800001, 0x7fffffff, 0}",
        "bf16": "Rule{16, 0x7fff, 0x7f81, 0x7fff, 0}",
        "i8": "Rule{8, 0x7f, 0x1, 0x0, 0}",
        "hif8": "Rule{8, 0xff, 0x80, 0x80, 0}",
        "f8E4M3FN": "Rule{8, 0x7f, 0x7f, 0x7f, 0}",
        "f8E5M2": "Rule{8, 0x7f, 0x7d, 0x7f, 0}",
    }
    for kind, rule in kinds.items():
        t = T.replace("f32", kind).replace("cols=16", "cols=32").replace("v_col=16", "v_col=32")
        text = source(case_of(f"pto.tmov ins(%x : {t}) outs(%y : {t})"), ("y",), "auto")
        assert f'same &= compare(to, reference, "y", {rule}, true);' in text
        assert ("static_assert(!std::is_same_v<bfloat16_t" in text) == (kind == "bf16")
    loose = replace(case_of(ADD), ulp={"dst": 2})
    assert "0x7fffffff, 2}, true);" in source(loose, ("dst",), "auto")


def test_tiles_that_the_simulator_copies_need_manual_mode() -> None:
    text = f"pto.tsqrt ins(%a : {T}) outs(%d : {T})"
    with pytest.raises(NotExecutableError, match="tsqrt: the simulator takes its tiles by value"):
        device(text, "auto")
    assert "TSQRT(d, a);" in device(text, "manual")
