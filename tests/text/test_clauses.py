"""What stands in ``ins(...)`` besides sources and their types, and names of attributes."""

import pytest

import pto_jax as pto
from pto_jax.ir import GatherAxis, Precision, PrintFormat, ScatterAxis
from pto_jax.text import parse, print_program

ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
MAT = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
FP, WINDOW = "!pto.tile_buf<scaling, 1x16xui64>", "!pto.partition_tensor_view<16x16xi8>"
WIDE, NARROW = "!pto.tile_buf<vec, 4x32xf32>", "!pto.tile_buf<vec, 4x16xf32>"


@pytest.mark.parametrize(
    ("text", "name", "sources"),
    [
        (f"pto.tstore ins(%s : {ACC} fp %f : {FP}) outs(%w : {WINDOW})", "tstore_fp", "s f"),
        (
            f"pto.textract ins(%s, %r, %c : {ACC}, index, index fp %f : {FP}) outs(%d : {MAT})",
            "textract_fp",
            "s f r c",
        ),
        (
            f"pto.tinsert ins(%s, %r, %c : {ACC}, index, index fp %f : {FP}) outs(%d : {MAT})",
            "tinsert_fp",
            "s f r c",
        ),
        (
            f"pto.tinsert ins(%s, %r, %c : {ACC}, index, index pre_quant %p : i64) outs(%d : {MAT})",
            "tinsert",
            "s p r c",
        ),
        (
            f"pto.textract ins(%s, %r, %c, %p : {ACC}, index, index, i64) outs(%d : {MAT})",
            "textract",
            "s p r c",
        ),
    ],
)
def test_parameters_of_a_quantisation_stand_behind_the_sources(text: str, name: str, sources: str) -> None:
    program = parse(text)
    (op,) = program.walk()
    assert op.name == name and [v.name for v in op.ins] == sources.split()
    assert parse(print_program(program)) == program
    # The fp clause is how the assembler spells it today.
    if name.endswith("_fp"):
        assert " fp %f : " in print_program(program) and "_fp" not in print_program(program)


@pytest.mark.parametrize(("word", "member"), [("row", GatherAxis.GATHER_ROW), ("col", GatherAxis.GATHER_COL)])
def test_a_mask_packs_along_an_axis(word: str, member: GatherAxis) -> None:
    mask = "maskPattern = #pto.mask_pattern<P0101>"
    text = f'pto.tgather ins(%s, {{{mask}}} : {WIDE}, "{word}") outs(%d : {NARROW})'
    program = parse(text)
    (op,) = program.walk()
    assert op.attrs["axis"] is member
    printed = print_program(program)
    assert f', "{word}")' in printed and "axis" not in printed and parse(printed) == program
    for form in ("as", "ssa"):
        (other,) = parse(print_program(program, form)).walk()
        assert other.attrs == op.attrs
    spread = f'pto.tscatter ins(%s, {{{mask}}} : {NARROW}, "{word}") outs(%d : {WIDE})'
    (op,) = parse(spread).walk()
    assert op.attrs["axis"] is ScatterAxis(int(member)) and parse(str(parse(spread))) == parse(spread)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tdiv", "div"), ("trem", "rem"), ("tfmod", "fmod"), ("texp", "exp"), ("tlog", "log"),
        ("tsqrt", "sqrt"), ("trsqrt", "rsqrt"), ("trecip", "recip"), ("trowexpanddiv", "div"),
        ("tcolexpanddiv", "div"), ("tpow", "pow"),
    ],
)  # fmt: skip
def test_a_precision_is_called_by_its_function(name: str, function: str) -> None:
    count = _sources(name)
    names, types = ", ".join(f"%s{i}" for i in range(count)), ", ".join([WIDE] * count)
    said = f"{{precisionType = #pto<{function}_precision high_precision>}}"
    program = parse(f"pto.{name} ins({names} : {types}) outs(%d : {WIDE}) {said}")
    (op,) = program.walk()
    assert op.attrs == {"precision": Precision.HIGH_PRECISION}
    assert said in print_program(program) and parse(print_program(program)) == program
    plain = parse(f"pto.{name} ins({names} : {types}) outs(%d : {WIDE}) {{precision = HIGH_PRECISION}}")
    assert plain == program


def _sources(name: str) -> int:
    from pto_jax import isa

    instruction = isa.find(name)
    assert instruction is not None
    return len(instruction.forms[0])


def test_formats_of_prints() -> None:
    text = f"pto.tprint ins(%t : {WIDE}) {{printFormat = #pto<print_format width10_precision6>}}"
    (op,) = parse(text).walk()
    assert op.attrs == {"format": PrintFormat.WIDTH10_PRECISION6} and parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'pto.tgather ins(%s : {WIDE}, "up") outs(%d : {NARROW})', "got the axis 'up'; allowed: row, col"),
        (f'pto.tabs ins(%s : {WIDE}, "row") outs(%d : {WIDE})', "got the axis 'row'; allowed: none"),
        (f"pto.tabs ins(%s : {WIDE} fp %f : {FP}) outs(%d : {WIDE})", "got 'fp'; allowed: ')'"),
        (f"pto.tstore ins(%s : {ACC} fp %f) outs(%w : {WINDOW})", "allowed: ':'"),
    ],
)
def test_wrong_clauses_are_named(text: str, message: str) -> None:
    with pytest.raises(pto.ParseError) as error:
        parse(text)
    assert message in str(error.value)
