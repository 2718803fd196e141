"""C++ that the assembler emits, read as programs: every form of statement, names, places, errors."""

import re
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import ir
from pto_jax.errors import ParseError
from pto_jax.text.cpp_values import rounded
from tests.text.emitted import ENTRY, HEAD, HELPERS, file, kernel, tile, view


def read(body: str, **options: str) -> ir.Program:
    return pto.parse(file(body, **options), file="k.cpp")


def ops(body: str, **options: str) -> list[ir.Op]:
    """The operations of a section but constants, the tail and the return."""
    found = [op for op in read(body, **options).functions[0].body.ops if op.name != "arith.constant"]
    assert [op.name for op in found[-2:]] == ["barrier", "return"]
    return found[:-2]


def names(body: str, **options: str) -> list[str]:
    return [op.name for op in ops(body, **options)]


def test_a_kernel_becomes_the_program_that_text_gives() -> None:
    body = (
        "set_mask_norm();\n    set_vector_mask(-1, -1);\n    "
        + tile("v10")
        + "    "
        + view("v12", "v1 + v4")
        + "    TLOAD(v10, v12);\n    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n"
        "    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n    TMULS(v10, v10, v94);\n    pipe_barrier(PIPE_V);\n"
    )
    tiles = "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=16, v_row=?, v_col=?, blayout=row_major, "
    tiles += "slayout=none_box, fractal=512, pad=0>"
    text = f"""module {{
  func.func @k(%v1: !pto.ptr<f32>, %v2: !pto.ptr<f32>, %v3: !pto.ptr<i32>, %v4: index, %v5: i32)
      attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %c0_i64 = arith.constant 0 : i64
    %v90 = arith.constant 16 : index
    %v92 = arith.constant 1 : index
    %v94 = arith.constant 0.3333333432674408 : f32
    %v10 = pto.alloc_tile addr = %c0_i64 valid_row = %v90 valid_col = %v90 : {tiles}
    %v12_0 = pto.addptr %v1, %v4 : !pto.ptr<f32> -> !pto.ptr<f32>
    %v12 = pto.make_tensor_view %v12_0, shape = [%v90, %v90], strides = [%v90, %v92]
        {{layout = #pto.layout<nd>}} : !pto.tensor_view<16x16xf32>
    pto.tload ins(%v12 : !pto.tensor_view<16x16xf32>) outs(%v10 : {tiles})
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.tmuls ins(%v10, %v94 : {tiles}, f32) outs(%v10 : {tiles})
    pto.barrier #pto.pipe<PIPE_V>
    pto.barrier #pto.pipe<PIPE_ALL>
    return
  }}
}}"""
    program = read(body)
    assert str(program) == str(pto.parse(text))
    assert program == pto.parse(text)
    assert pto.parse(str(program)) == program


#: Statements and the operations that they become.
FORMS: dict[str, list[str]] = {
    "int64_t v9 = (int64_t)((uint64_t)v4 + (uint64_t)v90);": ["arith.addi"],
    "int64_t v9 = (int64_t)((uint64_t)v4 - (uint64_t)v90);": ["arith.subi"],
    "int64_t v9 = v4 * v90;": ["arith.muli"],
    "int64_t v9 = v4 / v90;": ["arith.divsi"],
    "int64_t v9 = v4 % v90;": ["arith.remsi"],
    "uint64_t v9 = (uint64_t)v4 / (uint64_t)v90;": ["arith.divui"],
    "int64_t v9 = v4 < v90 ? v4 : v90;": ["arith.minsi"],
    "int64_t v9 = v4 < v93 ? v93 : v4;": ["arith.maxsi"],
    "int64_t v9 = v4 > v90 ? v90 : v4;": ["arith.minsi"],
    "int64_t v9 = v4 > v90 ? v4 : v90;": ["arith.maxsi"],
    "int64_t v9 = v4 < v90 ? v93 : v92;": ["arith.cmpi", "arith.select"],
    "int64_t v9 = (int64_t)v5;": ["arith.index_cast"],
    "int32_t v9 = (int32_t)v4;": ["arith.index_cast"],
    "size_t v9 = (size_t)v4;": [],
    "float v9 = (float)v5;": ["arith.sitofp"],
    "bool v9 = v4 == v90 && v5 != v95;": ["arith.cmpi", "arith.cmpi", "arith.andi"],
    "bool v9 = v4 <= v90 || v5 >= v95;": ["arith.cmpi", "arith.cmpi", "arith.ori"],
    "bool v9 = !(v4 > v90);": ["arith.cmpi", "arith.xori"],
    "int64_t v9 = -v4;": ["arith.subi"],
    "int32_t v9 = (v3)[v4];": ["load_scalar"],
    "float v9 = (v1)[v4 / v90];": ["arith.divsi", "load_scalar"],
    "(v3)[v4] = v5;": ["store_scalar"],
    "(v3)[v93] = v95;": ["store_scalar"],
    "int32_t v9[48]; v9[v4] = v5; int32_t v8 = v9[v4];": [
        "declare_local_array",
        "local_array_set",
        "local_array_get",
    ],
    "__gm__ float *v9 = v1 + v4; float v8 = (v9)[v93];": ["addptr", "load_scalar"],
    "pipe_barrier(PIPE_MTE2);": ["barrier"],
    "set_flag(PIPE_S, PIPE_MTE3, EVENT_ID7);": ["set_flag"],
    "wait_flag(PIPE_V, PIPE_MTE2, (event_t)v4);": ["arith.index_cast", "arith.index_cast", "wait_flag_dyn"],
    "event_t v9 = (event_t)v4; set_flag(PIPE_V, PIPE_MTE2, v9);": [
        "arith.index_cast",
        "arith.index_cast",
        "set_flag_dyn",
    ],
    "get_buf(PIPE_V, 1, 0); rls_buf(PIPE_V, 1, 0);": ["get_buf", "rls_buf"],
    "get_buf(PIPE_MTE2, v4, 0); rls_buf(PIPE_MTE2, v4, 0);": ["get_buf_dyn", "rls_buf_dyn"],
    "pipe_barrier(PIPE_ALL); dsb(DSB_DDR);": ["barrier", "fence.barrier_all"],
    "pipe_barrier(PIPE_ALL); dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE); dsb((mem_dsb_t)0);": [
        "barrier",
        "cmo.cacheinvalid",
        "fence.barrier_all",
    ],
    "PTOAS__DCCI_SINGLE_CACHE_LINE(v1);": ["cmo.cacheinvalid"],
    "int64_t v9 = get_block_idx();": ["get_block_idx", "arith.index_cast"],
    "for (int64_t i9 = v93; i9 < v4; i9 += v92) { pipe_barrier(PIPE_V); }": ["scf.for"],
    "for (size_t i9 = (size_t)v93; i9 < ((size_t)v4); i9 += (size_t)v92) { pipe_barrier(PIPE_V); }": [
        "scf.for"
    ],
    "if (v4 == v90) { pipe_barrier(PIPE_V); } else { pipe_barrier(PIPE_M); }": ["arith.cmpi", "scf.if"],
    "if (v4 < v90) { pipe_barrier(PIPE_V); } else if (v4 == v90) { pipe_barrier(PIPE_M); }": [
        "arith.cmpi",
        "scf.if",
    ],
    "RoundMode v9 = RoundMode::CAST_RINT;": [],
    "{ pipe_barrier(PIPE_V); };": ["barrier"],
}


@pytest.mark.parametrize("statement", FORMS)
def test_every_form_of_statement_is_read_and_printed(statement: str) -> None:
    assert names(statement) == FORMS[statement]
    program = read(statement)
    assert pto.parse(str(program)) == program


def test_constants_are_rounded_once_and_keep_their_names() -> None:
    program = read("int64_t v9 = v4 + v90; int32_t v8 = v5 + v95;")
    values = {op.results[0].name: op.attrs["value"] for op in program.walk() if op.name == "arith.constant"}
    assert values == {"v90": 16, "v95": 7}
    # Half way between two numbers in double precision, but not in the text.
    assert rounded("1.00000005960464477540") == float(np.float32(1) + np.spacing(np.float32(1)))
    assert rounded("1.00000005960464477539") == 1.0
    assert rounded("1e400") == float("inf") and rounded("1e-400") == 0


@pytest.mark.parametrize(("text", "value"), [("017", 15), ("0x1fU", 31), ("12", 12), ("00", 0)])
def test_whole_numbers_are_those_of_the_language(text: str, value: int) -> None:
    program = read(f"int32_t v9 = v5 + {text};")
    assert [op.attrs["value"] for op in program.walk() if op.name == "arith.constant"] == [value]


def test_a_carried_scalar_is_an_iteration_argument() -> None:
    body = """int64_t v9;
    v9 = v93;
    for (int64_t i8 = v93; i8 < v4; i8 += v92) {
        int64_t v7 = v9;
        v9 = (int64_t)((uint64_t)v7 + (uint64_t)i8);
    }
    int64_t v6 = v9;
    (v3)[v6] = v5;"""
    loop, store = ops(body)
    (result,) = loop.results
    assert [v.name for v in loop.group("inits")] == ["v93"]
    assert loop.regions[0].ops[-1].name == "scf.yield"
    assert store.ins[2].name == result.name


def test_branches_hand_on_scalars_and_what_one_of_them_leaves_open_is_no_value() -> None:
    body = "int32_t v9; if (v4 == v93) { v9 = v95; } else { v9 = v5; } (v3)[v93] = v9;"
    _, branch, store = ops(body)
    assert store.ins[0].name == branch.results[0].name
    assert [r.ops[-1].name for r in branch.regions] == ["scf.yield", "scf.yield"]
    with pytest.raises(ParseError, match="got 'v9', which has no value on every way here"):
        read("int32_t v9; if (v4 == v93) { v9 = v95; } (v3)[v93] = v9;")


def test_a_subview_is_a_tile_at_its_own_address() -> None:
    part = (
        "Tile<TileType::Vec, float, 16, 16, BLayout::RowMajor, 1, 8, SLayout::NoneBox, 512, PadValue::Null>"
    )
    body = (
        f"{part} v9; {part} v8 = v9; uint64_t v7 = (uint64_t)(v4 * v90); TASSIGN(v8, v7); TEXPANDS(v8, v94);"
    )
    _, cast, made, _ = ops(body)
    assert (made.name, str(made.results[0].type)) == ("alloc_tile", "vec 16x16xf32 valid 1x8")
    assert made.group("addr")[0].name == cast.results[0].name


def test_a_tile_that_is_placed_again_moves() -> None:
    assert names(tile("v9") + "TASSIGN(v9, v4);") == ["alloc_tile", "arith.index_cast", "tassign"]


def test_a_reshaped_tile_shares_the_bytes_of_its_source() -> None:
    body = tile("v9") + "Tile<TileType::Vec, float, 8, 32> v8; TRESHAPE(v8, v9); TEXPANDS(v8, v94);"
    _, alias, product = ops(body)
    assert (alias.name, alias.ins[0].name, product.outs[0].name) == ("treshape", "v9", "v8")
    assert pto.parse(str(read(body))) == read(body)


def test_elements_and_valid_sizes_of_tiles() -> None:
    body = tile("v9") + "v9.SetValidShape(v92, v4); float v8 = v9.GetValue(v93); v9.SetValue(v92, v8);"
    assert names(body) == ["alloc_tile", "set_validshape", "tgetval", "tsetval"]


def test_views_of_run_time_sizes_and_their_pointers() -> None:
    shape, stride = "pto::Shape<1, 1, 1, -1, 16>", "pto::Stride<-1, -1, -1, -1, -1>"
    t = f"GlobalTensor<float, {shape}, {stride}, pto::Layout::DN>"
    body = (
        f"{shape} v9 = {shape}(v92, v92, v92, v4, v90); {stride} v8 = {stride}(v4, v4, v4, v90, v92);"
        f"{t} v7 = {t}(v1 + (v93 + v4 * v90), v9, v8);"
        "__gm__ float *v6 = PTOAS__GLOBAL_TENSOR_DATA(v7); float v5b = (v6)[v93];"
    )
    *_, moved, made, loaded = ops(body)
    assert str(made.results[0].type) == "tensor_view<?x16xf32>"
    assert made.attrs["layout"] is ir.GlobalLayout.DN
    assert loaded.ins[0].name == moved.results[0].name == made.ins[0].name


def test_cube_kernels_say_so() -> None:
    body = (
        tile("v10", place="Mat")
        + tile("v11", place="Left")
        + tile("v12", place="Right")
        + tile("v13", place="Acc")
        + "TEXTRACT(v11, v10, v93, v93); TMATMUL(v13, v11, v12); TMATMUL_ACC(v13, v13, v11, v12);"
        + view("v14", "v1")
    )
    a = "GlobalTensor<float, pto::Shape<1, 1, 1, 16, 16>, pto::Stride<256, 256, 256, 16, 1>, pto::Layout::ND>"
    atomic = f"TSTORE<Tile<TileType::Acc, float, 16, 16>, {a}, AtomicType::AtomicAdd>(v14, v13);"
    program = read(body + atomic, section="CUBE")
    assert program.functions[0].attrs["pto.kernel_kind"] is ir.KernelKind.CUBE
    assert program.attrs["pto.target_arch"] == "a2a3"
    store = next(op for op in program.walk() if op.name == "tstore")
    assert store.attrs["atomicType"] is ir.AtomicType.ATOMIC_ADD


def test_the_folder_names_the_profile() -> None:
    text = file("pipe_barrier(PIPE_V);")
    for folder, arch in (("out/a5/kernels", "a5"), ("out/a2a3/kernels", "a2a3"), ("out", None)):
        program = pto.parse(text, file=f"{folder}/k.cpp")
        assert program.attrs.get("pto.target_arch") == arch


@pytest.mark.parametrize("comment", ["%0x10", "%1.5", "%ä", "%2nd"])
def test_a_comment_without_a_name_of_the_text_names_nothing(comment: str) -> None:
    body = f"// pto: {comment}\n    int64_t v9 = v4 * v90;\n"
    program = pto.parse(file(body), file="k.cpp")
    assert "v9" in [v.name for op in program.walk() for v in op.results]
    assert pto.parse(str(program)).functions[0].name == program.functions[0].name


def test_names_come_from_the_entry_and_from_comments() -> None:
    body = (
        "// pto: %row\n    int64_t v9 = v4 * v90;\n    // pto: %16, %17\n    int64_t v8 = v9 / v90 * v4;\n"
        "    // pto: %t__tile\n    "
        + tile("v10").replace("uint64_t", "// pto: %t__tile\n    uint64_t")
        + "// pto: %t__tile\n    int64_t v7 = v9 * v4;"
    )
    program = pto.parse(file(body) + ENTRY, file="k.cpp")
    assert [a.name for a in program.functions[0].args] == [
        "x",
        "y",
        "table",
        "rows",
        "__pypto_spmd_block_idx",
    ]
    assert [v.name for op in program.walk() for v in op.results if op.name != "arith.constant"] == [
        "row",
        "v8_0",
        "v8",
        "t__tile",
        "v7",
    ]


def test_operations_have_their_places_in_the_file() -> None:
    text = file(tile("v10") + "TMULS(\n        v10, v10,\n        v94\n    );\n    pipe_barrier(PIPE_V);")
    program = pto.parse(text, file="k.cpp")
    lines = text.splitlines()
    for op in program.walk():
        assert op.span is not None
        assert op.span.file == "k.cpp"
        assert lines[op.span.line - 1] == op.span.text
    product = next(op for op in program.walk() if op.name == "tmuls")
    assert product.span is not None and product.ins[1].span is not None
    assert lines[product.span.line - 1][product.span.col - 1 :].startswith("TMULS(")
    assert lines[product.ins[1].span.line - 1][product.ins[1].span.col - 1 :].startswith("v94")


PIPE = "TPipe<0, Direction::DIR_C2V, 1024, 8, 8, true>"


def mixed(called: str) -> str:
    """Both kernels of a mixed program, and the entry of one of them."""
    t = "Tile<TileType::Acc, float, 16, 16>"
    cube = (
        f"auto v9 = {PIPE}(v1, v95, v95);" + tile("v10", place="Acc") + f"TPUSH<{PIPE}, {t}, "
        "TileSplitAxis::TILE_NO_SPLIT>(v9, v10);"
    )
    vector = (
        f"auto v9 = {PIPE}(v1, v95, v95);" + tile("v10").partition("uint64_t")[0] + f"TPOP<{PIPE}, {t}, "
        f"TileSplitAxis::TILE_NO_SPLIT>(v9, v10); TFREE<{PIPE}, TileSplitAxis::TILE_NO_SPLIT>(v9);"
    )
    args = "__gm__ float *v1, int32_t v5"
    parts = [
        HEAD,
        HELPERS,
        kernel(cube, args, "CUBE", "m_aic"),
        kernel(vector, f"{args}, int32_t v6", "VEC", "m_aiv"),
    ]
    more = ", __pypto_spmd_subblock_idx" if called == "m_aiv" else ""
    entry = (
        f'extern "C" void kernel_entry(__gm__ int64_t *args) {{ {called}(x, __pypto_spmd_block_idx{more}); }}'
    )
    return "".join([*parts, entry])


def test_both_files_of_a_mixed_program_are_the_same_program() -> None:
    first, second = (pto.parse(mixed(f"m_{half}"), file=f"m_{half}.cpp") for half in ("aic", "aiv"))
    assert first == second
    assert pto.parse(str(first)) == first
    vector = first.functions[1]
    assert [a.name for a in vector.args] == ["x", "__pypto_spmd_block_idx", "__pypto_spmd_subblock_idx"]
    transfers = [op.name for op in first.walk() if op.name[:2] in ("ai", "tp", "tf")]
    assert transfers == [
        "aic_initialize_pipe",
        "tpush_to_aiv",
        "aiv_initialize_pipe",
        "tpop_from_aic",
        "tfree_from_aic",
    ]


def test_inline_functions_are_called() -> None:
    helper = """static __aicore__ inline void zero(__gm__ float *p, int64_t rows) {
#if defined(__DAV_VEC__)
    constexpr float nothing = 0;
    const int64_t at = static_cast<int64_t>(rows) * 16;
    (p)[at] = nothing;
#endif  // __DAV_VEC__
}
"""
    text = HEAD + HELPERS + helper + kernel("zero(v1, v4);")
    program = pto.parse(text, file="k.cpp")
    assert [(f.name, f.private) for f in program.functions] == [("zero", True), ("k", False)]
    kernel_ = pto.compile(program)
    out = np.asarray(
        kernel_(np.ones(64, np.float32), np.ones(1, np.float32), np.ones(1, np.int32), 2, 0)["v1"]
    )
    assert out[32] == 0 and out.sum() == 63


def test_communication_is_read_and_verified_and_not_executed() -> None:
    body = (
        "pto::comm::WaitCmp v9 = pto::comm::WaitCmp::GE;"
        "pto::comm::NotifyOp v8 = pto::comm::NotifyOp::AtomicAdd;"
        + view("v10", "v1")
        + view("v11", "v2")
        + tile("v12")
        + view("v14", "v3").replace("float", "int32_t")
        + "pto::comm::TPUT(v10, v11, v12); pto::comm::TNOTIFY(v14, v95, v8); pto::comm::TWAIT(v14, v95, v9);"
    )
    program = read(body)
    assert [op.name for op in program.walk() if op.name in ("tput", "tnotify", "twait")] == [
        "tput",
        "tnotify",
        "twait",
    ]
    assert pto.parse(str(program)) == program


#: What is not read: part of a kernel, and what the message says.
REFUSED: dict[str, str] = {
    "while (v4 < v90) { }": "got the statement 'while",
    "printf(v4);": "got the unknown intrinsic 'printf'",
    "TWHAT(v4);": "got the unknown intrinsic 'TWHAT'",
    "v4 = v90;": "got an assignment to 'v4', which has a value already",
    "v77 = v90;": "got the statement 'v77 = v90', a form that is not read",
    "float v9 = 1.5u;": "got the number '1.5u'; allowed: numbers of C",
    "int64_t v9 = 08;": "got the number '08'; allowed: numbers of C",
    "int64_t v9 = v77;": "got 'v77', which is not defined here",
    "int64_t v9 = v4 << v90;": "got '<<'; allowed: ';'",
    "goto end;": "got the statement 'goto end', a form that is not read",
    "dsb(DSB_DDR);": "got a dsb without pipe_barrier(PIPE_ALL) before it",
    "dcci(v1, v2);": "got the statement 'dcci ( v1 , v2 )', a form that is not read",
    "set_flag(PIPE_X, PIPE_V, EVENT_ID0);": "got 'PIPE_X', which is not defined here",
    "set_vector_mask(0, 1);": "got the statement 'set_vector_mask ( 0 , 1 )'",
    "for (int64_t i = v93; i <= v4; i += v92) { }": "got '<='; allowed: 'i <'",
    "Tile<TileType::Vec, float, 16, 16> v9; TEXPANDS(v9, v94);": "got the tile 'v9' without an address",
    "Tile<TileType::Nowhere, float, 16, 16> v9;": "got 'TileType::Nowhere'; allowed: a member of Loc",
    "Tile<TileType::Vec, double, 16, 16> v9;": "got the unknown element type 'double'",
    "TADD(v4, v4, v4);": r"got TADD\(index, index, index\), which is none of: TADD\(dst, src0, src1\)",
    "return; pipe_barrier(PIPE_V);": "got the statement 'return', a form that is not read",
    "Tile<TileType::Vec, float, 8, 8, BLayout::RowMajor, -1, -1> v9(v92, v92);"
    "if (v4 == v93) { v9.SetValidShape(v4, v4); }": "got SetValidShape of a tile without an address",
    "#else": "got '#else' inside a section",
    "int64_t v9 = f(v4);": "got a call of 'f' in an expression",
    "int32_t v9 = v4 == v90 ? (v3)[v93] : v5;": "got a choice between values that are loaded",
    "for (int64_t i = v93; i < v4; i += v92) {": "got '{' that nothing closes",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_read_is_one_error_with_its_place(statement: str) -> None:
    text = file(f"\n{statement}\n")
    with pytest.raises(
        ParseError,
        match=REFUSED[statement]
        .replace("(PIPE_ALL)", r"\(PIPE_ALL\)")
        .replace("( v1 , v2 )", r"\( v1 , v2 \)")
        .replace("( 0 , 1 )", r"\( 0 , 1 \)"),
    ) as caught:
        pto.parse(text, file="k.cpp")
    (finding,) = caught.value.diagnostics
    assert finding.span is not None
    assert finding.span.file == "k.cpp"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got no kernel"),
        ("int x = 3;", "got 'int x = 3 ;"),
        ("static __aicore__ void k() {", "got '{' that nothing closes"),
        ("static __aicore__ int k() { }", "got 'static __aicore__ int k"),
        ("static __aicore__ void k(double v1) { }", "got an argument of type 'double'"),
    ],
)
def test_files_without_a_kernel_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        pto.parse(text, language="c++")


def test_reading_is_chosen_by_the_name_or_by_the_language(tmp_path: Any) -> None:
    text = file("pipe_barrier(PIPE_V);")
    for suffix in (".cpp", ".cc", ".cxx", ".cce"):
        path = tmp_path / f"k{suffix}"
        path.write_text(text)
        assert pto.load(path).functions[0].name == "k"
    assert pto.parse(text, language="c++") == pto.load(path)
    with pytest.raises(ParseError):
        pto.parse(text)
    with pytest.raises(pto.ArgumentError, match="language: got 'c'; allowed: 2026-04, 2026-08, c\\+\\+"):
        pto.parse(text, language="c")  # type: ignore[arg-type]


def test_a_kernel_executes_alike_in_the_engine_and_the_interpreter() -> None:
    body = (
        view("v12", "v1")
        + view("v13", "v2")
        + tile("v10")
        + "TLOAD(v10, v12); set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);"
        "for (int64_t i = v93; i < v4; i += v92) { TMULS(v10, v10, v94); pipe_barrier(PIPE_V); }"
        "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); TSTORE(v13, v10);"
    )
    program = read(body)
    x = np.arange(256, dtype=np.float32)
    out = pto.compile(program)(x, np.zeros(256, np.float32), np.zeros(1, np.int32), 3, 0)["v2"]
    expected = x
    for _ in range(3):
        expected = expected * np.float32(0.333333343)
    np.testing.assert_array_equal(np.asarray(out).ravel(), expected)
    assert not [d for d in pto.verify(program, level=3) if d.severity == "error"]


def test_a_file_that_ends_anywhere_is_one_error() -> None:
    body = (
        tile("v10") + view("v12", "v1 + v4") + "TLOAD(v10, v12);\nif (v4 < v90)\n    TMULS(v10, v10, v94);\n"
    )
    body += "for (int64_t i9 = v93; i9 < v4; i9 += v92)\n    pipe_barrier(PIPE_V);\n"
    body += "int32_t v8[4];\nv8[v93] = v5;\n"
    text = file(body) + ENTRY
    words = [match.start() for match in re.finditer(r"\S+", text)]
    read = 0
    for cut in words:
        try:
            pto.parse(text[:cut], file="k.cpp")
            read += 1
        except ParseError as error:
            assert error.diagnostics[0].span is not None
    # The kernel is whole before its entry.
    assert 0 < read < 10
