"""Every instruction spelling that the documentation pages print."""

from typing import Literal

import pytest

from pto_jax.ir import CmpMode, Op, Program, RoundMode, ScalarType, TileType, UnknownType
from pto_jax.text import parse, print_program

TADD_AS = "%dst = tadd %src0, %src1 : !pto.tile<...>"
TADD_SSA = "%dst = pto.tadd %src0, %src1 : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
TADD_DPS = """\
pto.tadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>)
          outs(%dst : !pto.tile_buf<...>)"""
TADD_SSA_TYPED = (
    "%result = pto.tadd %src0, %src1 : (!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>) "
    "-> !pto.tile<f32, 16, 16>"
)
TADD_DPS_TYPED = """\
pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)
          outs(%result : !pto.tile_buf<f32, 16, 16>)"""
TADD_DESTINATION = "pto.tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>"
TADD_LINES = """\
%dst = pto.tadd %src0, %src1
    : (!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>)
    -> !pto.tile<f32, 16, 16>"""
TADDSC_AS = "%dst = taddsc %src0, %scalar, %src1 : !pto.tile<...>, f32, !pto.tile<...>"
TADDSC_SSA = (
    "%dst = pto.taddsc %src0, %scalar, %src1 : (!pto.tile<...>, dtype, !pto.tile<...>) -> !pto.tile<...>"
)
TADDSC_DPS = (
    "pto.taddsc ins(%src0, %scalar, %src1 : !pto.tile_buf<...>, dtype, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
TADDSC_AUTO = f"# Auto mode: compiler/runtime-managed placement and scheduling.\n{TADDSC_SSA}"
TADDSC_MANUAL = f"""\
# Manual mode: bind resources explicitly before issuing the instruction.
# Optional for tile operands:
# pto.tassign %arg0, @tile(0x1000)
# pto.tassign %arg1, @tile(0x2000)
{TADDSC_SSA}"""
TADDSC_FORM = f"{TADDSC_AS}\n# AS Level 2 (DPS)\n{TADDSC_DPS}"
TROWEXPANDADD_AS = "%dst = trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
TROWEXPANDADD_SSA = "%dst = pto.trowexpandadd %src0, %src1 : !pto.tile<...>, !pto.tile<...> -> !pto.tile<...>"
TROWEXPANDADD_DPS = (
    "pto.trowexpandadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
TADDRELUCONV_AS = "%dst = taddreluconv %src0, %src1 : !pto.tile<...>"
TADDRELUCONV_SSA = "%dst = pto.taddreluconv %src0, %src1 : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
TADDRELUCONV_DPS = (
    "pto.taddreluconv ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
PAGES = {
    "tadd-as": (TADD_AS, "tadd", "as"),
    "tadd-ssa": (TADD_SSA, "tadd", "ssa"),
    "tadd-dps": (TADD_DPS, "tadd", "dps"),
    "tadd-ssa-typed": (TADD_SSA_TYPED, "tadd", "ssa"),
    "tadd-dps-typed": (TADD_DPS_TYPED, "tadd", "dps"),
    "tadd-destination-first": (TADD_DESTINATION, "tadd", "as_dst"),
    "tadd-three-lines": (TADD_LINES, "tadd", "ssa"),
    "taddsc-as": (TADDSC_AS, "taddsc", "as"),
    "taddsc-ssa": (TADDSC_SSA, "taddsc", "ssa"),
    "taddsc-dps": (TADDSC_DPS, "taddsc", "dps"),
    "taddsc-auto": (TADDSC_AUTO, "taddsc", "ssa"),
    "taddsc-manual": (TADDSC_MANUAL, "taddsc", "ssa"),
    "trowexpandadd-as": (TROWEXPANDADD_AS, "trowexpandadd", "as"),
    "trowexpandadd-ssa": (TROWEXPANDADD_SSA, "trowexpandadd", "ssa"),
    "trowexpandadd-dps": (TROWEXPANDADD_DPS, "trowexpandadd", "dps"),
    "taddreluconv-as": (TADDRELUCONV_AS, "taddreluconv", "as"),
    "taddreluconv-ssa": (TADDRELUCONV_SSA, "taddreluconv", "ssa"),
    "taddreluconv-dps": (TADDRELUCONV_DPS, "taddreluconv", "dps"),
}


def only(program: Program) -> Op:
    (op,) = program.functions[0].body.ops
    return op


@pytest.mark.parametrize(("text", "name", "form"), PAGES.values(), ids=PAGES.keys())
def test_page_spelling_is_read_and_printed_back(text: str, name: str, form: str) -> None:
    program = parse(text)
    op = only(program)
    assert program.fragment
    assert (op.name, op.form) == (name, form)
    destination = op.destinations[0].name
    assert program.fragment_results == (destination,)
    sources = ["src0", "scalar", "src1"] if name == "taddsc" else ["src0", "src1"]
    assert [v.name for v in op.ins] == sources
    assert bool(op.outs) == (form in ("dps", "as_dst"))
    assert parse(print_program(program)) == program


@pytest.mark.parametrize("text", [TADD_AS, TADD_SSA, TADDSC_SSA, TADDSC_AS, TADDSC_DPS, TADDRELUCONV_AS])
def test_one_line_spellings_print_as_the_page_prints_them(text: str) -> None:
    assert print_program(parse(text)) == text + "\n"


def test_the_three_spellings_print_as_each_other() -> None:
    for text in (TADD_SSA_TYPED, TADD_DPS_TYPED):
        program = parse(text)
        assert print_program(program, "ssa") == TADD_SSA_TYPED + "\n"
        assert print_program(program, "as") == "%result = tadd %src0, %src1 : !pto.tile<f32, 16, 16>\n"
        again = parse(print_program(program, "dps"))
        assert only(again) == only(parse(TADD_DPS_TYPED))


def test_page_with_two_spellings_of_one_instruction() -> None:
    program = parse(TADDSC_FORM)
    first, second = program.functions[0].body.ops
    assert first.results[0].name == second.outs[0].name == "dst"
    assert program.fragment_results == ("dst",)
    assert [v.name for v in program.functions[0].args] == ["src0", "scalar", "src1"]


def test_literal_dots_and_dtype_are_unknown_types() -> None:
    op = only(parse(TADDSC_SSA))
    assert [v.type for v in op.ins] == [
        UnknownType("!pto.tile<...>", "tile"),
        UnknownType("dtype", "scalar"),
        UnknownType("!pto.tile<...>", "tile"),
    ]
    assert only(parse(TADDSC_AS)).results[0].type == UnknownType()


def test_one_type_is_the_type_of_every_tile_but_not_of_scalars() -> None:
    op = only(parse("%d = tadds %a, %s : !pto.tile<f32, 16, 16>"))
    assert isinstance(op.results[0].type, TileType)
    assert op.ins[0].type == op.results[0].type
    assert op.ins[1].type == UnknownType()


def test_type_of_the_result_may_end_the_list() -> None:
    op = only(parse("%dst = texpands %scalar : f32, !pto.tile<f32, 8, 8>"))
    assert isinstance(op.ins[0].type, ScalarType)
    assert isinstance(op.results[0].type, TileType)


OTHER = {
    "indexed-load": "%t0 = tload %sv[%c0, %c1] : (!pto.memref<...>, index, index) -> !pto.tile<...>",
    "indexed-load-destination": (
        "tload %tile, %tensor[%r, %c] : (!pto.tile<f32,16,16>, !pto.memref<f32,5>) -> !pto.tile<f32,16,16>"
    ),
    "indexed-store": "tstore %t1, %sv_out[%c0, %c1]",
    "indexed-store-fp": "tstore.fp %src, %fp, %sv_out[%c0, %c1]",
    "store-ssa": "pto.tstore %src, %mem : (!pto.tile<...>, !pto.partition_tensor_view<MxNxdtype>) -> ()",
    "trailing-attribute": "%d = tcmp %a, %b #cmp=gt : !pto.tile<f32, 16, 16>",
    "two-results": "%d, %n = tmrgsort %a, %b {exhausted = false}",
    "two-typed-results": (
        "%v, %i = tpartargmin %a, %b, %c, %d : !pto.tile<...> -> (!pto.tile<...>, !pto.tile<...>)"
    ),
    "no-types": "%d = tadd %a, %b",
    "barrier-class": "pto.tsync<TADD>",
    "events": "tsync %e0, %e1 : !pto.event<...>, !pto.event<...>",
    "nothing": "pto.tsync",
    "empty-clauses": "pto.setfmatrix ins(%tile : !pto.tile_buf<...>) outs()",
    "print": "pto.tprint %src : !pto.tile<...> -> ()",
    "type-without-sign": "%d = pto.mgather %m, %i : (!pto.partition_tensor_view<MxNxdtype>, pto.tile<...>)",
    "one-scalar": "%d = tci %S {descending = false} : !pto.tile<i32, 1, 16>",
    "explicitly-untyped": "%d = pto.tadds %a, %s : (!pto.tile<f32, 8, 8>, _) -> !pto.tile<f32, 8, 8>",
    "generic": (
        '"pto.tmov"(%src, %dst, %pre) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>, '
        "reluPreMode = #pto<relu_pre_mode normal_relu>}> : "
        "(!pto.tile<f32, 8, 8>, !pto.tile<i8, 8, 32>, i64) -> ()"
    ),
    "generic-default": '"pto.tadd"(%a, %b, %d) : (!pto.tile<...>, !pto.tile<...>, !pto.tile<...>) -> ()',
    "typed-one-by-one": "pto.tmov ins(%s : !pto.tile<f32, 8, 8>, %q : i64) outs(%d : !pto.tile<i8, 8, 32>)",
    "dictionary-after-comma": (
        "pto.tgather ins(%s, {maskPattern = #pto.mask_pattern<P0101>} : !pto.tile<f32, 1, 32>) "
        "outs(%d : !pto.tile<f32, 1, 32>)"
    ),
    "tile-of-subview": "%d = pto.subview %s, %r, %c : (!pto.tile<...>, i16, i16) -> !pto.tile<...>",
    "alias": "%d = pto.talias %s : (!pto.tile<f32, 8, 8>) -> !pto.tile<f32, 8, 8>",
    "reshape-dps": "pto.treshape ins(%s : !pto.tile_buf<...>) outs(%d : !pto.tile_buf<...>)",
}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_other_spelling_reads_back_in_every_form(text: str) -> None:
    program = parse(text)
    assert parse(print_program(program)) == program
    for form in ("as", "ssa", "dps"):
        again = parse(print_program(program, form))
        assert only(again).name == only(program).name
        assert [v.name for v in only(again).ins] == [v.name for v in only(program).ins]
        assert [v.name for v in only(again).destinations] == [v.name for v in only(program).destinations]


def test_indexed_operands_are_grouped() -> None:
    load = only(parse(OTHER["indexed-load"]))
    assert load.groups == (("src", 1), ("offsets", 2))
    assert [v.name for v in load.ins] == ["sv", "c0", "c1"]
    store = only(parse(OTHER["indexed-store"]))
    assert [v.name for v in store.ins] == ["t1", "c0", "c1"]
    assert [v.name for v in store.outs] == ["sv_out"]
    assert only(parse("%d = textract %s[%r, %c] : !pto.tile<...> -> !pto.tile<...>")).groups == ()


def test_attributes_have_their_declared_names_and_members() -> None:
    assert only(parse(OTHER["trailing-attribute"])).attrs == {"cmpMode": CmpMode.GT}
    for spelled in ('{cmp = "gt"}', "{cmpMode = #pto.cmp<GT>}", "{cmpMode = #pto<cmp gt>}"):
        assert only(parse(f"%d = tcmp %a, %b {spelled}")).attrs == {"cmpMode": CmpMode.GT}
    for mode in ("RINT", "CAST_RINT", "cast_rint"):
        op = only(parse(f"%d = tcvt %a {{rmode = #pto<round_mode {mode}>}}", language="2026-04"))
        assert op.attrs == {"rmode": RoundMode.RINT}


def test_generic_form_separates_sources_and_destinations() -> None:
    op = only(parse(OTHER["generic"]))
    assert [v.name for v in op.ins] == ["src", "pre"]
    assert [v.name for v in op.outs] == ["dst"]
    assert list(op.attrs) == ["reluPreMode"]
    op = only(parse(OTHER["generic-default"]))
    assert ([v.name for v in op.ins], [v.name for v in op.outs]) == (["a", "b"], ["d"])


def test_documentation_names_are_made_canonical() -> None:
    text = "%d = tmatmul_acc %c, %a, %b\n%e = tmov.m2l %m\ntstore.fp %d, %f, %g"
    names = [op.name for op in parse(text).functions[0].body.ops]
    assert names == ["tmatmul.acc", "tmov", "tstore_fp"]


def test_bound_result_becomes_an_allocation_and_a_destination() -> None:
    text = """
    func.func @f(%a: !pto.tile<f32, 8, 8>) {
      %d = tadd %a, %a : !pto.tile<f32, 8, 8>
      return
    }
    """
    ops = parse(print_program(parse(text), "dps")).functions[0].body.ops
    assert [op.name for op in ops] == ["alloc_tile", "tadd", "return"]
    assert [v.name for v in ops[1].outs] == ["d"]


def test_existing_destination_is_named_first() -> None:
    text = """
    func.func @f(%a: !pto.tile<f32, 8, 8>) {
      pto.tadd ins(%a, %a : !pto.tile<f32, 8, 8>, !pto.tile<f32, 8, 8>) outs(%a : !pto.tile<f32, 8, 8>)
      return
    }
    """
    program = parse(text)
    for form in ("as", "ssa"):
        printed = print_program(program, form)
        assert "pto.tadd %a, %a, %a : !pto.tile<f32, 8, 8>" in printed
        assert parse(printed) == program


def test_a_window_that_is_written_is_no_result() -> None:
    text = "pto.tstore ins(%s : !pto.tile<f32, 4, 64>) outs(%w : !pto.partition_tensor_view<4x64xf32>)\n"
    for form in ("as", "ssa"):
        assert " = " not in print_program(parse(text), form)
        assert parse(print_program(parse(text), form)) == parse(text)


def test_a_destination_beside_a_scalar_source_has_the_type_written_for_it() -> None:
    program = parse("pto.texpands ins(%s : f32) outs(%d : !pto.tile_buf<vec, 4x8xf32>)")
    assert [str(v.type) for v in program.functions[0].args] == ["f32", "vec 4x8xf32"]


def test_an_address_without_a_definition_is_an_i64() -> None:
    program = parse("%t = pto.alloc_tile addr = %at : !pto.tile_buf<vec, 4x8xf32>")
    assert [(str(v), str(v.type)) for v in program.functions[0].args] == [("%at", "i64")]


@pytest.mark.parametrize("form", [None, "as", "ssa", "dps"])
@pytest.mark.parametrize("around", ["{}", "func.func @f(%a: !pto.tile<f32, 8, 16>) {{\n{}\n}}"])
def test_results_of_a_group_are_bound_together(around: str, form: Literal["as", "ssa", "dps"] | None) -> None:
    column = "!pto.tile_buf<vec, 8x1xi32, blayout=col_major>, !pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
    program = parse(around.format(f"%r:2 = pto.trowargmax %a : (!pto.tile<f32, 8, 16>) -> ({column})"))
    assert parse(print_program(program, form)) == program
