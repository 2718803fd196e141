"""Tokens of program text: their kinds and places."""

from __future__ import annotations

import pytest

from pto_jax.text.lexer import Kind, TokenKind, read_token


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
