"""Single operations: what each profile accepts, and what the messages say."""

from collections.abc import Callable

import pytest

import pto_jax as pto
from pto_jax.errors import Diagnostic
from pto_jax.ir import Op
from pto_jax.isa.check import check_op
from pto_jax.profiles import A5

Check = Callable[..., list[Diagnostic]]


def tile(text: str) -> str:
    """A tile type from ``16x64xf32, valid=12x60`` and the like."""
    return f"!pto.tile_buf<vec, {text}>"


def long_tile(dtype: str, v_row: int) -> str:
    """The long spelling, which also has a way to write an empty valid region."""
    return (
        f"!pto.tile_buf<loc=vec, dtype={dtype}, rows=16, cols=64, v_row={v_row}, v_col=64, "
        "blayout=row_major, "
        "slayout=none_box, fractal=512, pad=0>"
    )


def dps(name: str, sources: list[str], destination: str, extra: str = "") -> str:
    names = ", ".join(f"%s{i}" for i, _ in enumerate(sources))
    return f"pto.{name} ins({names}{extra} : {', '.join(sources)}) outs(%d : {destination})"


def errors(found: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(d.rule or "", d.operand or "") for d in found if d.severity == "error"]


F32, F16 = tile("16x64xf32"), tile("16x64xf16")


@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
def test_a_plain_sum_is_accepted(check: Check, profile_name: str) -> None:
    assert check(dps("tadd", [F32, F32], F32), profile_name) == []


def test_a_type_mismatch_names_both_operands_and_types(check: Check) -> None:
    (found,) = check(dps("tadd", [F32, F16], F32))
    assert found.rule == "types-equal" and found.operand == "src1" and found.span is not None
    assert (
        "src1 has element type f16" in found.message and "src0" in found.message
    ) or "dst" in found.message
    assert "f32" in found.message and "no implicit conversion" in found.message


@pytest.mark.parametrize(
    ("name", "dtype", "legal"),
    [
        ("tadd", "bf16", "cpu_sim a2a3 a5"),
        ("tadd", "i8", "cpu_sim a5"),
        ("tadd", "i64", "cpu_sim"),
        ("tadd", "ui16", "cpu_sim a5"),
        ("tadd", "f8E4M3", "cpu_sim a5"),
        ("tsub", "bf16", "cpu_sim a5"),
        ("tsub", "i64", "cpu_sim a5"),
        ("tdiv", "i32", "cpu_sim a5"),
        ("tand", "i64", "cpu_sim"),
        ("tand", "f32", "a2a3 a5"),
        ("tfmod", "f16", "cpu_sim a5"),
        ("taddc", "i64", "cpu_sim a2a3 a5"),
        ("taddc", "f8E5M2", "cpu_sim a5"),
        ("tprelu", "i32", "cpu_sim"),
    ],
)
@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
def test_element_types(check: Check, name: str, dtype: str, legal: str, profile_name: str) -> None:
    t = tile(f"16x64x{dtype}")
    found = check(dps(name, [t, t], t), profile_name)
    assert (errors(found) == []) == (profile_name in legal.split())


@pytest.mark.parametrize("narrow", ["16x1xf32, blayout=col_major", "1x64xf32"])
@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
def test_no_implicit_broadcasting(check: Check, narrow: str, profile_name: str) -> None:
    found = check(dps("tadd", [F32, tile(narrow)], F32), profile_name)
    expected = [d for d in found if d.rule == "no-broadcast"]
    assert [d.operand for d in expected] == ["src1"] and "no implicit broadcasting" in expected[0].message


def test_valid_regions_may_differ_with_a_warning(check: Check) -> None:
    found = check(dps("tadd", [F32, tile("16x64xf32, valid=12x60")], F32))
    assert [(d.severity, d.rule) for d in found] == [("warning", "region-covers")]
    assert "all-one bytes" in found[0].message
    simulated = check(dps("tadd", [F32, tile("16x64xf32, valid=12x60")], F32), "cpu_sim")
    assert "stored" in simulated[0].message
    larger = check(dps("tadd", [F32, F32], tile("16x64xf32, valid=12x60")))
    assert [(d.severity, d.rule) for d in larger] == [("warning", "region-larger")] * 2


@pytest.mark.parametrize("name", ["taddsc", "tsubsc"])
@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
def test_three_operand_forms_demand_equal_regions(check: Check, name: str, profile_name: str) -> None:
    small = tile("16x64xf32, valid=12x60")
    assert errors(check(dps(name, [F32, "f32", small], F32), profile_name)) == [("valid-equal", "src1")]
    unknown = tile("16x64xf32, valid=?x?")
    assert errors(check(dps(name, [unknown, "f32", F32], F32), profile_name)) == []


@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
@pytest.mark.parametrize("name", ["taddreluconv", "tsubreluconv"])
def test_relu_conversion(check: Check, name: str, profile_name: str) -> None:
    assert check(dps(name, [F32, F32], F16), profile_name) == []
    assert errors(check(dps(name, [F32, F32], F32), profile_name)) == [("types", "dst")]
    small = tile("16x64xf16, valid=8x64")
    assert ("valid-equal", "src0") in errors(check(dps(name, [F32, F32], small), profile_name))
    empty32, empty16 = long_tile("f32", 0), long_tile("f16", 0)
    assert errors(check(dps(name, [empty32, empty32], empty16), profile_name)) == [("non-empty", "dst")]
    column = tile("16x64xf16, blayout=col_major")
    assert errors(check(dps(name, [F32, F32], column), profile_name)) == [("layout", "dst")]


def test_conversion_shapes(check: Check) -> None:
    assert check(dps("tcvt", [F32], F16)) == []
    assert errors(check(dps("tcvt", [F32], tile("16x32xf16")))) == [("shape-equal", "dst")]
    assert errors(check(dps("tcvt", [F32], tile("16x64xf16, valid=8x64")))) == [("valid-equal", "dst")]
    (found,) = check(dps("tcvt", [tile("16x64xbf16")], tile("16x64xui8")))
    assert found.rule == "types" and "bf16" in found.message


def test_conversion_modes_without_effect_are_warnings(check: Check) -> None:
    text = dps("tcvt", [F32], tile("16x64xi32"), " {sat_mode = #pto<saturation_mode OFF>}")
    (found,) = check(text, "a2a3")
    assert (found.severity, found.rule) == ("warning", "saturation-effect")
    assert check(text, "a5") == []
    odd = dps("tcvt", [F32], tile("16x64xi32"), " {rmode = #pto<round_mode ODD>}")
    assert [d.rule for d in check(odd, "a5")] == ["rounding-effect"]


@pytest.mark.parametrize(
    ("layout", "legal"),
    [("blayout=row_major", "cpu_sim a2a3 a5"), ("blayout=col_major", "cpu_sim"),
     ("blayout=row_major, slayout=col_major", "cpu_sim a2a3 a5")],
)  # fmt: skip
@pytest.mark.parametrize("profile_name", ["cpu_sim", "a2a3", "a5"])
def test_layouts_of_tadd(check: Check, layout: str, legal: str, profile_name: str) -> None:
    t = tile(f"16x64xf32, {layout}")
    assert (errors(check(dps("tadd", [t, t], t), profile_name)) == []) == (profile_name in legal.split())


@pytest.mark.parametrize("name", "tadds tmuls tdivs tmaxs tlrelu tsubs tmins tfmods".split())
def test_simulator_restrictions_of_tile_scalar_forms(check: Check, name: str) -> None:
    column = tile("16x64xf32, blayout=col_major")
    row_major_only = name in ("tadds", "tmuls", "tdivs", "tmaxs", "tlrelu")
    found = errors(check(dps(name, [column, "f32"], column), "cpu_sim"))
    assert sorted(found) == ([("layout", "dst"), ("layout", "src")] if row_major_only else [])
    mat = "!pto.tile_buf<mat, 16x64xf32>"
    elsewhere = errors(check(dps(name, [mat, "f32"], mat), "cpu_sim"))
    assert sorted(elsewhere) == [("location", "dst"), ("location", "src")]


def test_the_scalar_has_the_type_of_the_tile(check: Check) -> None:
    assert errors(check(dps("tadds", [F32, "f16"], F32))) == [("scalar-type", "scalar")]
    assert errors(check(dps("tadds", [tile("16x64xui16"), "i16"], tile("16x64xui16")), "a5")) == []


def test_a_view_is_no_tile(check: Check) -> None:
    view = "!pto.partition_tensor_view<16x64xf32>"
    (found,) = check(dps("tadd", [F32, view], F32))
    assert (found.rule, found.operand) == ("operand-kind", "src1") and "allowed: a tile" in found.message


def test_operand_lists_that_fit_no_overload(check: Check) -> None:
    (found,) = check(dps("tadd", [F32], F32))
    assert found.rule == "operands" and "(src0: tile, src1: tile)" in found.message


def test_types_have_to_be_given(check: Check) -> None:
    found = check("%d = pto.tadd %a, %b : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>")
    assert {d.rule for d in found} == {"type-given"}
    assert {d.operand for d in found} == {"src0", "src1", "dst"}


def test_unknown_attributes_name_the_known_ones(check: Check) -> None:
    (found,) = check(dps("tcvt", [F32], F16, " {speed = 3 : i32}"))
    assert (found.rule, found.severity) == ("attribute-known", "warning")
    assert "no effect; allowed: rmode, sat_mode" in found.message
    (value,) = check(dps("tcvt", [F32], F16, " {rmode = true}"))
    assert value.rule == "attribute-value" and "RINT" in value.message


@pytest.mark.parametrize("number", [tile("16x16xi16"), "!pto.ptr<i32>", "!pto.tensor_view<4x4xi32>"])
def test_every_value_of_a_group_is_what_its_operand_is(number: str) -> None:
    view = "!pto.tensor_view<16x24xi32>"
    text = (
        f"func.func @f(%w: {view}, %x: {number}, %n: index) {{\n%g = pto.partition_view %w, offsets = "
        f"[%n, %x], sizes = [%n, %n] : {view} -> !pto.partition_tensor_view<?x?xi32>\nreturn\n}}\n"
    )
    (found,) = [d for d in pto.verify(pto.parse(text)) if d.severity == "error"]
    assert found.operand == "offsets" and "allowed: a scalar" in found.message


@pytest.mark.parametrize("given", [F32, "f32", "!pto.ptr<f32>", "!pto.async_event"])
def test_a_handle_is_no_tile_number_or_pointer(check: Check, given: str) -> None:
    found = check(f"pto.tpop(%t, %p : {F32}, {given}) {{split = 0}}")
    assert [d.operand for d in found if d.severity == "error"] == ["pipe"]


def test_undeclared_instructions_are_named() -> None:
    (found,) = check_op(Op("thashfind"), A5)
    assert found.rule == "supported" and "thashfind is not supported by this version" in found.message


@pytest.mark.parametrize(
    ("name", "source", "result"),
    [
        ("tstore", "!pto.tile<f32, 4, 64>", "!pto.partition_tensor_view<4x64xf32>"),
        ("tput", "!pto.partition_tensor_view<4x64xf32>", "!pto.partition_tensor_view<4x64xf32>"),
        ("tabs", "memref<16x16xf32, #pto.address_space<vec>>", "memref<16x16xf32, #pto.address_space<vec>>"),
    ],
)
def test_memory_that_is_written_is_there_before(check: Check, name: str, source: str, result: str) -> None:
    found = [d for d in check(f"%d = pto.{name} %s : ({source}) -> {result}") if d.severity == "error"]
    (told,) = [d.message for d in found if d.rule == "destination"]
    assert told.startswith("%d is a new result; allowed: a destination that is there, as in outs(%d)")


@pytest.mark.parametrize("dtype", ["f8E4M3", "f8E5M2", "hif8"])
def test_small_floats(check: Check, dtype: str) -> None:
    t = tile(f"16x64x{dtype}")
    move = dps("tmov", [t], t)
    assert check(move, "a5") == []
    assert {d.rule for d in check(move, "a2a3") if d.severity == "error"} >= {"type-exists"}
    simulated = check(move, "cpu_sim")
    assert {(d.severity, d.rule) for d in simulated} == {("warning", "type-exists")}


def test_power_types_depend_on_the_precision(check: Check) -> None:
    t = tile("16x64xbf16")
    assert errors(check(dps("tpow", [t, t], t), "a5")) == [("precision-types", "dst")]
    text = dps("tpow", [t, t], t, " {precision = #pto<precision HIGH_PRECISION>}")
    assert errors(check(text, "a5")) == []


def test_a2a3_compares_integers_for_equality_only(check: Check) -> None:
    t, mask = tile("16x64xi32"), tile("16x32xui8, valid=16x8")
    less = dps("tcmp", [t, t], mask, " {cmpMode = #pto<cmp lt>}")
    assert errors(check(less, "a2a3")) == [("i32-equality", "")]
    assert errors(check(less, "a5")) == [] == errors(check(less, "cpu_sim"))
    assert errors(check(dps("tcmp", [t, t], mask, " {cmpMode = #pto<cmp ne>}"), "a2a3")) == []


def test_masks_have_a_bit_for_every_lane(check: Check) -> None:
    short = tile("16x32xui8, valid=16x4")
    assert errors(check(dps("tsel", [short, F32, F32], F32), "cpu_sim")) == [("mask-holds", "mask")]
    rows = tile("8x32xui8, valid=8x8")
    assert errors(check(dps("tsel", [rows, F32, F32], F32), "a5")) == [("mask-holds", "mask")]
    assert errors(check(dps("tsel", [F32, F32, F32], F32), "a5")) == [("mask-type", "mask")]


def test_an_accumulator_needs_an_old_value(check: Check) -> None:
    t = "!pto.tile_buf<vec, 16x64xf32>"
    found = check(f"%d = pto.taxpy %s, %k : ({t}, f32) -> {t}")
    assert [(d.severity, d.rule) for d in found] == [("warning", "old-value")]
    assert check(dps("taxpy", [F32, "f32"], F32)) == []
