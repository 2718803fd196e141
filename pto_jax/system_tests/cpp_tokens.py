"""Tokens of C++ after its macros, and a reader that goes through them."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from ..errors import FileError
from ..text.cpp_tokens import WORD, digits
from . import cpp_program
from .cpp_program import SCALARS, CType

Kind: TypeAlias = Literal["name", "number", "text", "mark", "end"]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)


_WORD = re.compile(WORD, re.VERBOSE)


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
        arguments: list[list[Token]] = []
        i += 1
        if called:
            arguments, i = _arguments(words, i)
        body = [replace(t, line=word.line) for t in _substituted(macro, arguments)]
        yield from _expanded(body, macros, inside | {word.text})


def _arguments(words: Sequence[Token], start: int) -> tuple[list[list[Token]], int]:
    """The arguments of a macro whose bracket opens at ``start``, and what is behind them."""
    arguments: list[list[Token]] = [[]]
    depth, i = 0, start
    while i < len(words):
        text = words[i].text
        depth += (text in "([{") - (text in ")]}")
        if depth == 0:
            break
        if text == "," and depth == 1:
            arguments.append([])
        elif i > start:
            arguments[-1].append(words[i])
        i += 1
    return arguments, i + 1


def _substituted(macro: _Macro, arguments: Sequence[Sequence[Token]]) -> Iterator[Token]:
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    expansion: list[Token] = []
    glue = quote = False
    for word in macro.body:
        if word.text in ("#", "##"):
            quote, glue = word.text == "#", word.text == "##"
            continue
        part = list(values.get(word.text, [word]))
        if quote:
            part = [Token("text", repr(" ".join(t.text for t in part)).replace("'", '"'), word.line)]
        if glue and expansion and part:
            part = _glued(expansion, part)
        expansion += part
        glue = quote = False
    yield from expansion


def _glued(expansion: list[Token], part: list[Token]) -> list[Token]:
    """The last word so far and the first of the next joined to one, then the rest."""
    before = expansion.pop()
    return [replace(before, text=before.text + part[0].text), *part[1:]]


def text_of(token: Token) -> str:
    """The characters that a literal stands for."""
    return str(ast.literal_eval(token.text))


def number_of(token: Token) -> int | float | None:
    """The value of a number; None for what is no number of C++."""
    number = digits(token.text)
    return number if number is None else float(number[0]) if isinstance(number[0], str) else number[0]


#: Words of declarations that say where something lives, which does not matter here.
IGNORED = frozenset(
    "const constexpr static inline extern volatile struct typename class auto __gm__ __global__ "
    "AICORE aicore __aicore__".split()
)


class Reader(ABC):
    """A place in the words of a text, and the types that are known there."""

    def __init__(self, words: Sequence[Token], program: cpp_program.Program, place: str) -> None:
        self.words, self.program, self.place = words, program, place
        self.index = 0
        self.types: dict[str, CType] = {n: CType(n) for n in (*SCALARS, "void", "string", "ifstream")}
        self.types |= {n: CType("void", 1) for n in ("aclrtStream", "aclrtContext")} | {
            "aclError": CType("int")
        }
        self.constants: dict[str, Any] = {"true": True, "false": False, "nullptr": None, "NULL": None}

    # -- words -----------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next word."""
        return self.words[self.index]

    def peek(self, count: int = 1) -> Token:
        """A word behind the next one."""
        return self.words[min(self.index + count, len(self.words) - 1)]

    def at(self, text: str) -> bool:
        """Whether the next word is this one."""
        return self.token.text == text and self.token.kind != "text"

    def next(self) -> Token:
        """Take the next word."""
        token = self.token
        if token.kind == "end":
            raise FileError(f"{self.place}: the text ends too early")
        self.index += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the next word where it is this one."""
        if self.at(text):
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take the next word, which has to be this one."""
        if not self.accept(text):
            raise FileError(f"{self.place}:{self.token.line}: got {self.token.text!r}", allowed=f"{text!r}")

    def name(self) -> str:
        """Take a name."""
        if self.token.kind != "name":
            raise FileError(f"{self.place}:{self.token.line}: got {self.token.text!r}", allowed="a name")
        return self.next().text

    def skip(self, text: str) -> None:
        """Take words up to one, and that."""
        while not self.accept(text):
            self.next()

    # -- types -----------------------------------------------------------------------------------

    def is_type(self) -> bool:
        """Whether a type begins here."""
        return self.token.kind == "name" and (self.token.text in self.types or self.token.text in IGNORED)

    def type(self) -> CType:
        """A type with its pointers; words that say where something lives are left out."""
        self._ignore()
        words: list[str] = []
        while self.token.kind == "name" and (self.token.text in SCALARS or not words):
            words.append(self.name())
            self._ignore()
        if not words:
            raise FileError(f"{self.place}:{self.token.line}: got {self.token.text!r}; allowed: a type")
        alias = self.types.get(words[-1])
        if alias is None and len(words) == 1:
            self.index -= 1
            raise FileError(f"{self.place}:{self.token.line}: got {words[0]!r}", allowed="a type")
        if "unsigned" in words and len(words) > 1:
            alias = CType({1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}[CType(words[-1]).size])
        assert alias is not None
        if self.at("<"):
            self.brackets("<", ">")
        stars, reference = alias.pointers, False
        while self.at("*") or self.at("&") or (self.token.kind == "name" and self.token.text in IGNORED):
            word = self.next().text
            stars += word == "*"
            reference = reference or word == "&"
        return CType(alias.name, stars, reference, alias.fields)

    def _ignore(self) -> None:
        while self.token.text in IGNORED or self.at("["):
            if self.next().text == "[":
                self.skip("]")

    def declarator(self, kind: CType) -> tuple[str, CType, list[cpp_program.Run | None]]:
        """A name with its full type and the sizes of its dimensions; None where it says none."""
        if self.accept("("):
            self.expect("*")
            name = self.name()
            self.expect(")")
            self.brackets()
            return name, CType("void", 1), []
        name = self.name()
        sizes: list[cpp_program.Run | None] = []
        while self.accept("["):
            sizes.append(None if self.at("]") else self.expression().run)
            self.expect("]")
        return name, kind, sizes

    def brackets(self, begin: str = "(", end: str = ")") -> None:
        """Leave out what stands in brackets."""
        depth = 0
        while True:
            text = self.next().text
            depth += (text == begin) - (text == end)
            if depth == 0:
                return

    @abstractmethod
    def expression(self) -> cpp_program.Expression:
        """An expression."""
