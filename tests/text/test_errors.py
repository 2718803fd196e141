"""Tokens of program text, and errors: the message, and the place it points at."""

import re
from pathlib import Path

import pytest

from pto_jax.errors import ParseError, PtoError
from pto_jax.text import parse
from pto_jax.text.lexer import Kind, TokenKind, read_token

CASES = (Path(__file__).parent / "invalid.pto").read_text(encoding="utf-8").split("// -----\n")[1:]


def failure(text: str, file: str = "<text>") -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text, file)
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.splitlines()[0][3:60])
def test_invalid_program(case: str) -> None:
    header = re.match(r"// (\d+):(\d+): (.*)\n", case)
    assert header is not None
    (found,) = failure(case).diagnostics
    assert found.span is not None
    assert header.group(3) in found.message
    assert (found.span.line, found.span.col) == (int(header.group(1)), int(header.group(2)))


def test_error_shows_file_line_column_and_caret() -> None:
    error = failure("%d = tadd %a, %b\n\n  %e = pto.tfoo %a\n", "kernel.pto")
    assert isinstance(error, PtoError)
    assert str(error) == (
        "kernel.pto:3:8: error: unknown instruction 'pto.tfoo'\n  %e = pto.tfoo %a\n       ^^^^^^^^"
    )


@pytest.mark.parametrize("text", ["", "  \n\n", "// only a comment\n", "# only a comment"])
def test_text_without_content_is_an_error(text: str) -> None:
    assert "allowed: a module, a function or instructions" in str(failure(text))


def test_operations_know_their_place() -> None:
    program = parse("%d = tadd %a,\n  %b : !pto.tile<f32, 8, 8>\n%e = tabs %d\n", "file.pto")
    first, second = program.functions[0].body.ops
    assert first.span is not None and second.span is not None
    assert str(first.span) == "file.pto:1:1"
    assert str(second.span) == "file.pto:3:1"
    assert second.span.length == len("%e = tabs %d")
    assert [str(v.span) for v in first.ins] == ["file.pto:1:11", "file.pto:2:3"]


def test_very_long_lines_are_left_out_of_messages() -> None:
    error = failure("%d = tabs %a " + " " * 5000 + "?")
    assert len(str(error)) < 200


def tokens(source: str) -> list[tuple[TokenKind | None, str]]:
    listed: list[tuple[TokenKind | None, str]] = []
    position = 0
    while True:
        kind, start, position = read_token(source, position)
        if kind is Kind.EOF:
            return listed
        listed.append((kind, source[start:position]))


@pytest.mark.parametrize(("source", "expected"), [
    ("16x16xf32", ["INTEGER_LIT 16", "BARE_IDENT x16xf32"]),
    ("0x1F 0xg", ["INTEGER_LIT 0x1F", "INTEGER_LIT 0", "BARE_IDENT xg"]),
    ("1. 1.5e-3 1e5", ["FLOAT_LIT 1.", "FLOAT_LIT 1.5e-3", "INTEGER_LIT 1", "BARE_IDENT e5"]),
    ("%0a %a-b.c$", ["PERCENT_IDENT %0", "BARE_IDENT a", "PERCENT_IDENT %a-b.c$"]),
    ("-> - > -1", ["ARROW ->", "MINUS -", "GREATER >", "MINUS -", "INTEGER_LIT 1"]),
    ("#pto<x> #0 !t ^bb0", ["HASH_IDENT #pto", "LESS <", "BARE_IDENT x", "GREATER >", "HASH_IDENT #0",
                            "EXCLAMATION_IDENT !t", "CARET_IDENT ^bb0"]),
    ("{-# #-} { -#", ["METADATA_BEGIN {-#", "METADATA_END #-}", "L_BRACE {", "MINUS -", "None #"]),
    ('@f @"a b" @1', ["AT_IDENT @f", 'AT_IDENT @"a b"', "None @", "INTEGER_LIT 1"]),
    (r'"a\"b\0A" "\80" "é"', [r'STRING_LIT "a\"b\0A"', r'BYTES_LIT "\80"', 'STRING_LIT "é"']),
    ('"open\n"', ['None "', "BARE_IDENT open", 'None "']),
    ('@"open', ['None "', "BARE_IDENT open"]),
    ("... ..", ["ELLIPSIS ...", "None .", "None ."]),
    ("é²", ["None é", "None ²"]),
])  # fmt: skip
def test_tokens(source: str, expected: list[str]) -> None:
    names = {kind: name for name, kind in vars(Kind).items() if isinstance(kind, TokenKind)}
    assert [f"{names[kind] if kind else None} {text}" for kind, text in tokens(source)] == expected


@pytest.mark.parametrize("source", [
    "a // b\n// c\nd", "# page\na\n  ## page\n# d\nd", "a\n#\nd", "# page\r\na d#", "a d // \ufeff é",
])  # fmt: skip
def test_comments(source: str) -> None:
    assert [text for kind, text in tokens(source) if kind is Kind.BARE_IDENT] == ["a", "d"]


def test_a_string_without_an_end_is_read_in_linear_time() -> None:
    assert read_token('"' + "ab" * 200_000, 0)[0] is None
