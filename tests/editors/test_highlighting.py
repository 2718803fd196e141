"""Highlighting follows the reader: no text of the tree has an unknown token, and all tables are its own."""

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest
from pygments.token import Error

from pto_jax.editors.highlighting import Category, PtoLexer, category, constants, keywords, pieces
from pto_jax.isa import ALIASES, instructions
from pto_jax.manual import example
from pto_jax.text.lexer import Cursor, Kind
from tools import textmate

ROOT = Path(__file__).parents[2]
#: The text of tests/text/invalid.pto breaks the rules of tokens on purpose.
INVALID = ROOT / "tests" / "text" / "invalid.pto"
TEXTS = sorted(p for folder in ("pto_jax", "tests") for p in (ROOT / folder).rglob("*.pto"))
EXAMPLES = "\n".join(text for i in instructions().values() if (text := example(i)) is not None)


def texts() -> list[str]:
    return [EXAMPLES, *(path.read_text() for path in TEXTS)]


def shown(source: str) -> list[tuple[str, Category]]:
    """The pieces that are no blanks."""
    return [(source[a:b], c) for a, b, c in pieces(source) if c is not Category.BLANK]


def test_texts_have_no_error_tokens_and_no_gaps() -> None:
    assert len(TEXTS) > 40 and INVALID in TEXTS
    for path in TEXTS:
        source = path.read_text()
        found = list(pieces(source))
        assert "".join(source[a:b] for a, b, _ in found) == source
        errors = [source[a:b] for a, b, c in found if c is Category.ERROR]
        assert not errors or path == INVALID, (path, errors)


def test_pieces_are_the_tokens_of_the_reader() -> None:
    readable = [source for source in texts() if source != INVALID.read_text()]
    for source in readable[::5]:
        cursor, tokens = Cursor(source, "text"), []
        while cursor.kind is not Kind.EOF:
            tokens.append(cursor.take())
        drawn = [text for text, c in shown(source) if c is not Category.COMMENT]
        # Sizes and the element type behind them are one token in two colours.
        assert "".join(drawn) == "".join(tokens) and len(drawn) >= len(tokens)


def test_every_instruction_and_operation_is_one_in_every_spelling() -> None:
    for name in (*instructions(), *ALIASES):
        assert category(name) is category(f"pto.{name}") is Category.INSTRUCTION
    source = (ROOT / "tests/programs/loops.pto").read_text()
    words = dict(shown(source))
    assert words["scf.for"] is Category.OPERATION and words["module"] is Category.KEYWORD
    assert words["index"] is Category.TYPE and words["slt"] is Category.CONSTANT


def test_words_that_the_reader_expects_are_keywords() -> None:
    called = re.compile(r'\b(?:at|accept|expect)_word\("([\w.]+)"\)')
    expected = {w for p in (ROOT / "pto_jax/text").glob("*.py") for w in called.findall(p.read_text())}
    assert len(expected) > 15 and expected <= keywords()
    assert {"RINT", "PIPE_MTE2", "row_major", "slt", "true"} <= constants()


def test_sizes_and_types_have_their_colours() -> None:
    drawn = shown("!pto.tile_buf<vec, 16x64xf32, valid=?x37> 0x40xbf16 %x EVENT_ID3")
    assert [(t, c.value) for t, c in drawn if c in (Category.NUMBER, Category.TYPE)] == [
        ("!pto.tile_buf", "type"), ("16", "number"), ("x64x", "number"), ("f32", "type"), ("x37", "number"),
        ("0x40", "number"), ("x", "number"), ("bf16", "type"),
    ]  # fmt: skip
    assert drawn[-1] == ("EVENT_ID3", Category.CONSTANT) and drawn[-2] == ("%x", Category.VALUE)


# -- Pygments ------------------------------------------------------------------------------------------


def test_pygments_shows_the_same_text_without_errors() -> None:
    for source in texts():
        tokens = list(PtoLexer(stripnl=False, ensurenl=False).get_tokens(source))
        assert "".join(text for _, text in tokens) == source.removeprefix("\ufeff")
        assert source == INVALID.read_text() or not [t for t, _ in tokens if t is Error]


def test_the_entry_point_names_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["pto"].partition(":")
    assert getattr(importlib.import_module(module), name) is PtoLexer
    assert PtoLexer.analyse_text(EXAMPLES) > 0.5 and PtoLexer.analyse_text("int main() {}") == 0
    assert PtoLexer.filenames == ["*.pto"] and PtoLexer.aliases == ["pto"]


# -- TextMate ------------------------------------------------------------------------------------------


def drawn_by_grammar(source: str) -> list[tuple[str, str]]:
    """Text and scope of what the rules of the committed grammar match, line by line as editors do."""
    record = json.loads(textmate.GRAMMAR.read_text())
    patterns = [(re.compile(p["match"]), p["name"]) for p in record["patterns"]]
    found = []
    for line in source.removeprefix("\ufeff").split("\n"):
        position = 0
        while position < len(line):
            matches = ((p.match(line, position), scope) for p, scope in patterns)
            match, scope = next(((m, s) for m, s in matches if m), (None, ""))
            if match is None or match.end() == position:
                position += 1
                continue
            found.append((match[0].strip(), scope))
            position = match.end()
    return found


def test_the_committed_grammar_is_the_one_of_the_declarations() -> None:
    written = textmate.GRAMMAR.read_text(encoding="utf-8")
    assert written == textmate.grammar(), "python -m tools.textmate writes it"


@pytest.mark.variants(1)
@pytest.mark.parametrize("part", range(4))
def test_the_grammar_draws_what_the_reader_reads(part: int) -> None:
    for source in texts()[part::4]:
        expected = [(t.strip(), textmate.SCOPES[c]) for t, c in shown(source)]
        assert drawn_by_grammar(source) == expected
