"""Attribute dictionaries."""

import pytest

import pto_jax as pto
from pto_jax.ir import F32, AddressSpace, AttrValue, Pipe, PtrType, RoundMode, ScalarType, SLayout, Symbol
from pto_jax.text import parse, print_program
from pto_jax.text.attributes import ENUMERATIONS, EnumText, member, quoted
from pto_jax.text.dictionaries import print_float, print_value
from tests.tables import every

VALUES: list[tuple[str, AttrValue]] = [
    ("1", 1),
    ("-3 : i32", -3),
    ("0x10", 16),
    ("1.5 : f32", 1.5),
    ("true", True),
    ('"text"', "text"),
    (r'"a\"b\\c\n\09\7F"', 'a"b\\c\n\t\x7f'),
    ('"#not an attribute"', "#not an attribute"),
    ('"<unbalanced"', "<unbalanced"),
    ('[1, [2, 3], "x"]', (1, (2, 3), "x")),
    ("array<i32: 1, 0>", (1, 0)),
    ("@name", Symbol("name")),
    ('@"a b"', Symbol("a b")),
    ("f32", ScalarType(F32)),
    ("!pto.ptr<f32>", PtrType(F32)),
    ("#pto.address_space<vec>", AddressSpace.VEC),
    ("#pto<round_mode CAST_RINT>", RoundMode.RINT),
    ("#pto.other<a, b = [1]>", "#pto.other<a, b = [1]>"),
    ("#pto<other thing>", "#pto<other thing>"),
    ("#alias", "#alias"),
    ("affine_map<(d0) -> (d0)>", "affine_map<(d0) -> (d0)>"),
    ("{a = 1}", "{a = 1}"),
    ("word", "word"),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[t for t, _ in VALUES])
def test_value_is_read_and_reads_back(text: str, value: AttrValue) -> None:
    program = parse(f"%d = tabs %a {{key = {text}}}")
    (op,) = program.functions[0].body.ops
    assert op.attrs == {"key": value}
    assert parse(print_program(program)) == program


@every("style", ENUMERATIONS, ids=lambda e: e.mnemonic)
def test_members_read_back_in_every_spelling(style: EnumText) -> None:
    for value in style.cls:
        word = style.word(value)
        spellings = [style.text(value), *(f"#pto.{m}<{word}>" for m in (style.mnemonic, *style.also))]
        spellings += [f"#pto<{style.mnemonic} {word.upper()}>", f"#pto<{style.mnemonic} {word.lower()}>"]
        for text in spellings:
            (op,) = parse(f"%d = tabs %a {{key = {text}}}").functions[0].body.ops
            assert op.attrs == {"key": value}
            assert type(op.attrs["key"]) is style.cls
        assert print_value(value) == style.text(value)


def test_a_key_alone_is_true_and_keys_may_be_quoted() -> None:
    program = parse('module attributes {flag, "a-b" = 1} {\n}')
    assert program.attrs == {"flag": True, "a-b": 1}
    assert print_program(program) == 'module attributes {"a-b" = 1, flag} {\n}\n'
    assert parse(print_program(program)) == program


def test_attributes_are_in_order_of_their_names() -> None:
    first = parse("%d = tabs %a {b = 1, a = 2}")
    assert first == parse("%d = tabs %a {a = 2} {b = 1}")
    assert print_program(first) == "%d = tabs %a {a = 2, b = 1}\n"


def test_names_of_members() -> None:
    assert member(SLayout, "NoneBox") is SLayout.NONE_BOX
    assert member(Pipe, "pipe_mte2") is Pipe.MTE2
    assert member(Pipe, "MTE9") is None


def test_number_and_string_text() -> None:
    assert [print_float(x) for x in (1e-6, 2.0, -0.0, 1e300)] == ["1.0e-06", "2.0", "-0.0", "1.0e+300"]
    assert quoted('a"\\\n\x01') == r'"a\"\\\n\01"'


DENSE = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%p: !pto.ptr<f32, gm>) attributes {pto.kernel} {
    pto.vecscope {
%m = "pto.vmi.constant_mask"() {value = dense<[true, false]> : tensor<2xi1>} : () -> !pto.vmi.mask<2xpred>
    }
    return
  }
}"""


def test_a_dense_attribute_is_printed_as_it_was_read() -> None:
    program = pto.parse(DENSE)
    shown = print_program(program)
    assert "dense<[true, false]> : tensor<2xi1>" in shown.replace("[ ", "[").replace(" ]", "]")
    assert print_program(pto.parse(shown)) == shown
