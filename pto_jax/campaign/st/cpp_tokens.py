"""Words of C++ texts, with macros written out."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

Kind: TypeAlias = Literal["name", "number", "text", "mark", "end"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)
_WORD = re.compile(
    r"""(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
    |(?P<number>0[xX][0-9A-Fa-f]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[uUlLfF]*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<mark><<<|<<=|<<|\#\#|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|[^\s\w])""",
    re.VERBOSE,
)
_DEFINE = re.compile(r"^\s*#\s*define\s+(?P<name>\w+)(?P<parameters>\([^)]*\))?(?P<body>.*)$")


@dataclass(frozen=True)
class Token:
    """A word, the line that it stands in, and whether it touches the word before."""

    kind: Kind
    text: str
    line: int
    joined: bool = False


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


def tokens(text: str) -> list[Token]:
    """The words of a text, preprocessed: includes and conditions are left out, both branches are kept."""
    text = _COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text)
    macros: dict[str, _Macro] = {}
    words: list[Token] = []
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line, first = lines[number], number + 1
        number += 1
        if line.lstrip().startswith("#"):
            while line.endswith("\\") and number < len(lines):
                line = line[:-1] + lines[number]
                number += 1
            defined = _DEFINE.match(line)
            if defined is not None:
                parameters = defined["parameters"]
                names = None if parameters is None else tuple(re.findall(r"\w+", parameters))
                macros[defined["name"]] = _Macro(names, tuple(_words(defined["body"], first)))
            continue
        words += _words(line, first)
    return [*_expanded(words, macros, frozenset()), Token("end", "the end", len(lines))]


def _words(line: str, number: int) -> Iterator[Token]:
    end = 0
    for match in _WORD.finditer(line):
        kind = cast(Kind, match.lastgroup)
        yield Token(kind, match[0].removeprefix("std::"), number, match.start() == end)
        end = match.end()


def _expanded(
    words: Sequence[Token], macros: Mapping[str, _Macro], inside: frozenset[str]
) -> Iterator[Token]:
    """Words with the macros written out that are not being written out already."""
    i = 0
    while i < len(words):
        word = words[i]
        macro = macros.get(word.text) if word.kind == "name" and word.text not in inside else None
        called = macro is not None and macro.parameters is not None
        if macro is None or (called and (i + 1 >= len(words) or words[i + 1].text != "(")):
            yield word
            i += 1
            continue
        given: list[list[Token]] = []
        i += 1
        if called:
            given, i = _arguments(words, i)
        body = [replace(t, line=word.line) for t in _substituted(macro, given)]
        yield from _expanded(body, macros, inside | {word.text})


def _arguments(words: Sequence[Token], start: int) -> tuple[list[list[Token]], int]:
    """The arguments of a macro whose bracket opens at ``start``, and what is behind them."""
    given: list[list[Token]] = [[]]
    depth, i = 0, start
    while i < len(words):
        text = words[i].text
        depth += (text in "([{") - (text in ")]}")
        if depth == 0:
            break
        if text == "," and depth == 1:
            given.append([])
        elif i > start:
            given[-1].append(words[i])
        i += 1
    return given, i + 1


def _substituted(macro: _Macro, given: Sequence[Sequence[Token]]) -> Iterator[Token]:
    values = dict(zip(macro.parameters or (), given, strict=False))
    made: list[Token] = []
    glue = quote = False
    for word in macro.body:
        if word.text in ("#", "##"):
            quote, glue = word.text == "#", word.text == "##"
            continue
        part = list(values.get(word.text, [word]))
        if quote:
            part = [Token("text", repr(" ".join(t.text for t in part)).replace("'", '"'), word.line)]
        if glue and made and part:
            part = _glued(made, part)
        made += part
        glue = quote = False
    yield from made


def _glued(made: list[Token], part: list[Token]) -> list[Token]:
    """The last word so far and the first of the next joined to one, then the rest."""
    before = made.pop()
    return [replace(before, text=before.text + part[0].text), *part[1:]]


def text_of(token: Token) -> str:
    """The characters that a literal stands for."""
    return str(ast.literal_eval(token.text))


def number_of(token: Token) -> int | float:
    """The value of a number."""
    text = token.text.lower()
    if text.startswith("0x"):
        return int(text.rstrip("ul"), 16)
    if text.endswith("f") or "." in text or "e" in text:
        return float(text.rstrip("fl"))
    return int(text.rstrip("ul"))
