"""Which products are legal: recorded cases, places, layouts and shapes, and what the messages say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.errors import Diagnostic
from pto_jax.ir import AddressSpace, BLayout, Language, Loc, MemRefType, Op, TileType, Type, Value, dtype
from pto_jax.isa import find, instructions
from pto_jax.isa.check import check_op
from pto_jax.isa.matrix import operand_types
from pto_jax.profiles import PROFILE_NAMES, profile
from pto_jax.vectors.cases import case_instruction, case_program
from pto_jax.vectors.manifest import load_file
from pto_jax.verifier.programs import verify_program

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [
    "tmatmul",
    "tmatmul_acc",
    "tmatmul_bias",
    "tmatmul_mx",
    "tgemv",
    "tgemv_acc",
    "tgemv_bias",
    "tgemv_mx",
]
F16 = ("f32", "f16", "f16")
F8 = ("f32", "f8e4m3", "f8e5m2")
MX = ("a", "a_scale", "b", "b_scale")


def test_every_instruction_of_the_class_is_declared() -> None:
    forms = ("", ".acc", ".bias")
    names = {f"{base}{mx}{form}" for base in ("tmatmul", "tgemv") for mx in ("", ".mx") for form in forms}
    assert {n for n, i in instructions().items() if i.cls == "matrix"} == {*names, "tmatmul.mx.hif4"}


@pytest.mark.parametrize("spelled", ["TMATMUL_ACC", "pto.tmatmul_mx_bias", "tgemv_mx", "tmatmul_mx_hif4"])
def test_documentation_spellings_are_found(spelled: str) -> None:
    found = find(spelled)
    assert found is not None and found.name == spelled.lower().removeprefix("pto.").replace("_", ".")


@pytest.mark.parametrize("file", FILES)
def test_recorded_operations_break_no_rule(file: str) -> None:
    seen = set()
    for case in load_file(GOLDEN / f"{file}.npz"):
        instruction, program = case_instruction(case), case_program(case)
        assert instruction is not None and program.functions[0].body.ops[0].name == instruction.name
        errors = [d for d in verify_program(program, profile("cpu_sim")) if d.severity == "error"]
        assert not errors, (case.id, errors)
        seen.add(instruction.name)
    assert len(seen) == (3 if file.endswith("mx") else 1)


def found(
    name: str, types: dict[str, Type], profile_name: str, form: tuple[str, ...] | None = None
) -> list[Diagnostic]:
    form = form or tuple(n for n in types if n != "dst")
    op = Op(name, tuple(Value(n, types[n]) for n in form), (Value("dst", types["dst"]),))
    return check_op(op, profile(profile_name))


def errors(name: str, types: dict[str, Type], profile_name: str) -> set[tuple[str | None, str | None]]:
    return {(d.rule, d.operand) for d in found(name, types, profile_name) if d.severity == "error"}


def legal(
    profile_name: str, row: tuple[str, ...] = F16, form: tuple[str, ...] = ("a", "b")
) -> dict[str, Type]:
    return operand_types((*form, "dst"), row, (16, 64, 16), profile(profile_name))


def edited(types: dict[str, Type], name: str, **changes: object) -> dict[str, Type]:
    t = types[name]
    assert isinstance(t, TileType)
    return {**types, name: replace(t, **changes)}  # type: ignore[arg-type]


@pytest.mark.parametrize("profile_name", PROFILE_NAMES)
def test_places_are_fixed(profile_name: str) -> None:
    types = legal(profile_name)
    assert not errors("tmatmul", types, profile_name)
    for name in ("a", "b", "dst"):
        assert errors("tmatmul", edited(types, name, loc=Loc.MAT), profile_name) == {("location", name)}


@pytest.mark.parametrize(
    ("profile_name", "severity"), [("cpu_sim", None), ("a2a3", "warning"), ("a5", "warning")]
)
def test_the_order_of_the_left_tile(profile_name: str, severity: str | None) -> None:
    types = legal(profile_name)
    a = types["a"]
    assert isinstance(a, TileType)
    other = BLayout.COL_MAJOR if a.blayout == BLayout.ROW_MAJOR else BLayout.ROW_MAJOR
    messages = found("tmatmul", edited(types, "a", blayout=other), profile_name)
    assert [m.severity for m in messages] == ([severity] if severity else [])


@pytest.mark.parametrize("name", ["tmatmul", "tmatmul.mx"])
def test_layouts_the_backends_assert(name: str) -> None:
    types = legal("a5", F8, MX) if name == "tmatmul.mx" else legal("a5")
    rows = edited(types, "dst", blayout=BLayout.ROW_MAJOR)
    assert errors(name, rows, "a5") == {("layout", "dst")}
    if name == "tmatmul.mx":
        assert errors(name, edited(types, "b_scale", fractal=512), "cpu_sim") >= {("layout", "b_scale")}
        assert errors(name, edited(types, "a", blayout=BLayout.ROW_MAJOR), "cpu_sim") == {("layout", "a")}


def test_local_memrefs_are_tiles_of_their_space() -> None:
    left, right, acc = (
        MemRefType((32, 32), dtype(d), space)
        for d, space in (("f16", AddressSpace.LEFT), ("f16", AddressSpace.RIGHT), ("f32", AddressSpace.ACC))
    )
    assert not errors("tmatmul", {"a": left, "b": right, "dst": acc}, "a5")
    assert errors("tmatmul", {"a": right, "b": right, "dst": acc}, "a5") == {("location", "a")}


def test_accumulators_follow_the_operands() -> None:
    for profile_name in PROFILE_NAMES:
        for row in (
            ("f32", "i8", "i8"),
            ("f16", "f16", "f16"),
            ("i32", "f32", "f32"),
            ("f32", "f16", "bf16"),
        ):
            (rule,) = errors("tmatmul", legal(profile_name, row), profile_name)
            assert rule[0] == "types"
    assert not errors("tmatmul", legal("a5", ("f32", "hif8", "hif8")), "a5")
    assert not errors("tmatmul", legal("a5", F8), "a5")
    assert ("types", "dst") in errors("tmatmul", legal("cpu_sim", F8), "cpu_sim")


def test_shapes_have_to_agree() -> None:
    types = legal("a2a3")
    assert errors("tmatmul", edited(types, "b", rows=32, v_row=32), "a2a3") == {("shapes", "b")}
    bias = legal("a2a3", F16, ("a", "b", "bias"))
    assert errors("tmatmul.bias", edited(bias, "bias", rows=2), "a2a3") == {("bias-row", "bias")}
    half = edited(bias, "bias", dtype=dtype("f16"))
    assert errors("tmatmul.bias", half, "a2a3") == {("types-equal", "bias")}


def test_valid_regions_that_disagree_are_a_warning() -> None:
    types = edited(legal("a5"), "b", v_row=63)
    (warning,) = found("tmatmul", types, "a5")
    assert (warning.rule, warning.severity, warning.operand) == ("regions", "warning", "b")
    assert "M, K, N = 16, 64, 16" in warning.message


@pytest.mark.parametrize("name", ["tmatmul.mx", "tmatmul.mx.acc", "tgemv.mx.bias"])
def test_block_scales_do_not_exist_on_a2a3(name: str) -> None:
    form = {"acc": ("acc", *MX), "bias": (*MX, "bias")}.get(name.rpartition(".")[2], MX)
    rules = {rule for rule, _ in errors(name, legal("a5", F8, form), "a2a3")}
    assert {"types", "type-exists", "tile-capacity"} <= rules
    assert not errors(name.replace("tgemv", "tmatmul"), legal("a5", F8, form), "a5")


def test_scale_tiles_need_their_type_and_size() -> None:
    types = legal("a5", F8, MX)
    assert errors("tmatmul.mx", edited(types, "a_scale", dtype=dtype("u8")), "a5") == {
        ("a_scale-type", "a_scale")
    }
    assert errors("tmatmul.mx", edited(types, "b_scale", rows=1, v_row=1), "a5") == {
        ("scales-cover", "b_scale"),
        ("tile-boxes", "b_scale"),
    }


PRINTED = """
func.func @main(%x: !pto.ptr<f32>, %n: index) {{
  %a = pto.alloc_tile : {a}
  %sa = pto.alloc_tile : {a_scale}
  %b = pto.alloc_tile : {b}
  %sb = pto.alloc_tile : {b_scale}
  %d = pto.alloc_tile : {dst}
  pto.tmatmul.mx ins(%a, %sa, %b, %sb : {a}, {a_scale}, {b}, {b_scale}) outs(%d : {dst})
  return
}}
"""


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize(
    ("a_scale", "b_scale"),
    [
        (
            "scaling, 16x2xf16, slayout=row_major, fractal=32",
            "scaling, 2x16xf16, slayout=row_major, fractal=32",
        ),
        (
            "scaling, 16x2xf8E8M0, slayout=row_major, fractal=32",
            "scaling, 2x16xf8E8M0, blayout=col_major, slayout=col_major, fractal=32",
        ),
    ],
)
def test_scales_without_defined_storage_are_accepted_and_refused_by_every_way_to_run(
    a_scale: str, b_scale: str
) -> None:
    """Compilers print scales as tiles in scaling, with one for 32 elements."""
    types = {
        "a": "left, 16x64xf8E4M3, blayout=col_major, slayout=row_major",
        "a_scale": a_scale,
        "b": "right, 64x16xf8E4M3, slayout=col_major",
        "b_scale": b_scale,
        "dst": "acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024",
    }
    text = PRINTED.format(**{name: f"!pto.tile_buf<{t}>" for name, t in types.items()})
    program, x = pto.parse(text, file="scaled.pto"), np.zeros(4, np.float32)
    findings = {
        (d.rule, d.severity)
        for d in pto.verify(program, profile="a5")
        if d.rule not in ("unwritten", "stores-nothing")
    }
    assert findings == {("scale-form", "warning")}
    kernel = pto.compile(program, "a5")
    for run in (kernel, kernel.eager, lambda *a: pto.oracle.run(program, a, profile="a5")):
        with pytest.raises(pto.NotExecutableError) as found:
            run(x, 0)
        message = str(found.value)
        assert message.startswith("scaled.pto:8:3: error: tmatmul.mx: a_scale is scaling")
        assert "whose scales have no defined storage" in message


def test_a_vector_has_one_row() -> None:
    assert errors("tgemv", legal("a5"), "a5") == {("one-row", "a")}
    assert not errors("tgemv", edited(legal("a5"), "a", v_row=1), "a5")


def test_the_later_form_is_in_no_profile() -> None:
    hif4 = find("tmatmul.mx.hif4")
    assert hif4 is not None and not hif4.executable
    for profile_name in ("cpu_sim", "a5"):
        assert ("types", "dst") in errors(hif4.name, legal(profile_name, F8, MX), profile_name)


def test_modes_are_read_and_checked() -> None:
    program = pto.parse("pto.settf32mode {enable = true, mode = #pto.round_mode<CAST_RINT>}")
    assert str(pto.parse(str(program))) == str(program)
    assert not pto.verify(program, profile="a5")
    (bad,) = pto.verify(pto.parse("sethf32mode {enable = true, mode = CAST_FLOOR}"), profile="a2a3")
    assert bad.rule == "rounding" and "allowed: RINT, ROUND" in bad.message
    (missing,) = pto.verify(pto.parse("sethf32mode {mode = CAST_RINT}"), profile="a2a3")
    assert missing.rule == "attributes-required"


def test_phases_are_read_in_every_spelling() -> None:
    types = "!pto.tile<16x16xf16>, !pto.tile<16x16xf16>"
    for written in ("accPhase = #pto.acc_phase<final>", "phase = #pto<acc_phase Final>"):
        program = pto.parse(
            f"pto.tmatmul ins(%a, %b : {types}) outs(%c : !pto.tile<16x16xf32>) {{{written}}}"
        )
        assert [str(v) for _, v in program.functions[0].body.ops[0].attributes] == ["3"]


@pytest.mark.parametrize(("language", "severity"), [("2026-04", "warning"), ("2026-08", "error")])
def test_scales_as_large_as_the_data_were_legal_before_august(language: Language, severity: str) -> None:
    types = {
        "a": "left, 16x64xf8E4M3FN, blayout=col_major, slayout=row_major",
        "a_scale": "scaling, 16x64xf16",
        "b": "right, 64x16xf8E4M3FN, slayout=col_major",
        "b_scale": "scaling, 2x16xf16, slayout=row_major, fractal=32",
        "dst": "acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024",
    }
    text = PRINTED.format(**{name: f"!pto.tile_buf<{t}>" for name, t in types.items()})
    found = pto.verify(pto.parse(text, language=language), profile="a5")
    (extents,) = (d for d in found if d.rule == "scale-extents")
    assert extents.severity == severity and "a_scale is 16x64, as large as a" in extents.message
