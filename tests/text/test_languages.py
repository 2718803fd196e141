"""Versions of the language: one text, read as each of them, says what it said then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.ir import LANGUAGES, PRESENT, HistByte, Language, SaturationMode
from pto_jax.isa.history import changes, unwritten
from pto_jax.isa.irregular import counted_byte
from pto_jax.text import parse, print_program

TILE, NARROW = "!pto.tile_buf<vec, 1x32xi32>", "!pto.tile_buf<vec, 1x32xui8>"
CONVERT = f"pto.tcvt ins(%a {{rmode = #pto<round_mode TRUNC>}} : {TILE}) outs(%b : {NARROW})"
X = np.array([[1, -2, 300, -300, 255, 256, 2**31 - 1, 0] * 4], np.int32)
#: Clamped to the type's range, and the low 8 bits.
CLAMPED = np.array([[1, 0, 255, 0, 255, 255, 255, 0] * 4], np.uint8)
WRAPPED = X.astype(np.uint8)
MARKED = f'module attributes {{pto.language = "2026-04"}} {{\n  {CONVERT}\n}}'


def results(program: Any) -> list[np.ndarray[Any, Any]]:
    """The destination, however the program is executed, on the profile whose conversions can wrap."""
    kernel, b = pto.compile(program, profile="a5", warn=False), np.zeros((1, 32), np.uint8)
    source, target = (v.type for v in (*next(program.walk()).ins, *next(program.walk()).outs))
    tiles = {"a": oracle.OracleTile(source, X), "b": oracle.OracleTile(target, b)}
    ways = (
        kernel(a=X, b=b)["b"].array,
        kernel.eager(a=X, b=b)["b"].array,
        oracle.run(program, tiles, profile="a5")["b"].data,
    )
    return [np.asarray(way).view(np.uint8) for way in ways]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        (CONVERT, None, WRAPPED),
        (CONVERT, "2026-08", WRAPPED),
        (CONVERT, "2026-04", CLAMPED),
        (MARKED, None, CLAMPED),
        (MARKED, "2026-08", WRAPPED),
        (MARKED, "2026-04", CLAMPED),
        (CONVERT.replace("TRUNC>", "TRUNC>, satmode = #pto<saturation_mode ON>"), None, CLAMPED),
        (CONVERT.replace("TRUNC>", "TRUNC>, sat_mode = #pto<saturation_mode OFF>"), "2026-04", WRAPPED),
    ],
)
def test_one_text_gives_the_bits_of_its_version(
    text: str, language: Language | None, expected: np.ndarray[Any, Any]
) -> None:
    assert (CLAMPED != WRAPPED).any()
    program = pto.parse(text, language=language)
    assert program.language == (language or ("2026-04" if text is MARKED else PRESENT))
    for found in results(program):
        np.testing.assert_array_equal(found, expected)
    again = parse(print_program(program))
    assert again == program and again.digest == program.digest
    for form in ("as", "ssa", "dps", None):
        printed = print_program(program, form)
        assert print_program(parse(printed), form) == printed
        assert next(parse(printed).walk()).attrs == next(program.walk()).attrs


def test_programs_that_were_no_text_keep_the_defaults_of_their_headers(tmp_path: Path) -> None:
    built = pto.parse(CONVERT, language="2026-04")
    built = pto.Program(built.functions, fragment=True, fragment_results=built.fragment_results)
    assert built.language is None and "sat_mode" not in next(built.walk()).attrs
    assert pto.parse(str(built)) == built
    (tmp_path / "built.pto").write_text(str(built))
    assert pto.load(tmp_path / "built.pto") == built
    assert pto.load(tmp_path / "built.pto", language="2026-08") != built
    out = pto.ops.tcvt(X, dst="u8", rmode="TRUNC", profile="a5")
    assert (np.asarray(out.array) == CLAMPED).all()


def test_what_a_version_says_unwritten_gives_no_warning() -> None:
    half = CONVERT.replace("32xi32", "32xf32").replace("32xui8", "32xf16")
    assert not pto.verify(pto.parse(half), "a2a3")
    off = half.replace("TRUNC>", "TRUNC>, sat_mode = #pto<saturation_mode OFF>")
    (warning,) = pto.verify(pto.parse(off), "a2a3")
    assert warning.rule == "saturation-effect"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('module attributes {pto.language = "2027-01"} {\n}', '"2027-01"; allowed: 2026-04, 2026-08'),
        ('module attributes {"pto.language" = 4} {\n}', '"4"; allowed: 2026-04, 2026-08'),
        ("pto.slot_marker %a", "got 'pto.slot_marker', which the language of 2026-08 removed; allowed: "),
    ],
)
def test_messages_name_the_version(text: str, message: str) -> None:
    with pytest.raises(pto.ParseError) as error:
        pto.parse(text)
    assert message in str(error.value) and str(error.value).startswith("<text>:1:")


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(pto.ArgumentError, match="language: got '2025-12'; allowed: 2026-04, 2026-08"):
        pto.parse(CONVERT, language="2025-12")  # type: ignore[arg-type]


def test_one_table_has_every_default_that_changed() -> None:
    listed = {(name, c.language) for name, c in changes() if c.kind == "default"}
    declared = {
        (name, d.language)
        for name, i in isa.instructions().items()
        for a in i.attributes
        for d in a.unwritten
    }
    assert listed == declared == {("tcvt", "2026-08"), ("thistogram", "2026-08")}
    assert unwritten(LANGUAGES[0]) == {}
    assert unwritten(PRESENT) == {
        "tcvt": (("sat_mode", SaturationMode.OFF, ()),),
        "thistogram": (("byte", HistByte.BYTE_1, ("isMSB",)),),
    }


@pytest.mark.parametrize(
    ("attributes", "language", "byte"),
    [
        ("", "2026-08", 1),
        ("", "2026-04", 3),
        (" {byte = 2 : i32}", "2026-08", 2),
        (" {isMSB = true}", "2026-08", 3),
    ],
)
def test_a_histogram_counts_the_byte_of_its_version(attributes: str, language: Language, byte: int) -> None:
    src, idx = "!pto.tile_buf<vec, 4x32xui32>", "!pto.tile_buf<vec, 8x32xui8>"
    text = f"pto.thistogram ins(%s, %i : {src}, {idx}) outs(%d : !pto.tile_buf<vec, 4x256xui32>){attributes}"
    op = next(pto.parse(text, language=language).walk())
    assert counted_byte(32, op.attrs) == byte
    assert pto.parse(str(pto.parse(text, language=language))) == pto.parse(text, language=language)


def test_a_lone_function_is_an_entry_in_texts_of_april() -> None:
    text = "func.func @kernel(%x: i32) -> i32 {\n  return %x : i32\n}\n"
    assert {d.rule for d in pto.verify(pto.parse(text, language="2026-04"))} == {"entry"}
    assert not pto.verify(pto.parse(text))
