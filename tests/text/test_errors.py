"""Errors: the message, and the place it points at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pto_jax.errors import ParseError, PtoError
from pto_jax.text import parse

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
