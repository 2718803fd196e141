"""Reading C++ of plain kind: words and types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ...errors import FileError
from . import cpp_program, cpp_tokens
from .cpp_values import SCALARS, CType

#: Words of declarations that say where something lives, which does not matter here.
IGNORED = frozenset(
    "const constexpr static inline extern volatile struct typename class auto __gm__ __global__ "
    "AICORE aicore __aicore__".split()
)


class Reader(ABC):
    """A place in the words of a text, and the types that are known there."""

    def __init__(self, words: Sequence[cpp_tokens.Token], program: cpp_program.Program, place: str) -> None:
        self.words, self.program, self.place = words, program, place
        self.index = 0
        self.types: dict[str, CType] = {n: CType(n) for n in (*SCALARS, "void", "string", "ifstream")}
        self.types |= {n: CType("void", 1) for n in ("aclrtStream", "aclrtContext")} | {
            "aclError": CType("int")
        }
        self.constants: dict[str, Any] = {"true": True, "false": False, "nullptr": None, "NULL": None}

    # -- words -----------------------------------------------------------------------------------

    @property
    def token(self) -> cpp_tokens.Token:
        """The next word."""
        return self.words[self.index]

    def peek(self, count: int = 1) -> cpp_tokens.Token:
        """A word behind the next one."""
        return self.words[min(self.index + count, len(self.words) - 1)]

    def at(self, text: str) -> bool:
        """Whether the next word is this one."""
        return self.token.text == text and self.token.kind != "text"

    def next(self) -> cpp_tokens.Token:
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
            raise FileError(f"{self.place}:{self.token.line}: found {self.token.text!r}; expected {text!r}")

    def name(self) -> str:
        """Take a name."""
        if self.token.kind != "name":
            raise FileError(f"{self.place}:{self.token.line}: found {self.token.text!r}; expected a name")
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
        known = self.types.get(words[-1])
        if known is None and len(words) == 1:
            self.index -= 1
            raise FileError(f"{self.place}:{self.token.line}: found {words[0]!r}; expected a type")
        if "unsigned" in words and len(words) > 1:
            known = CType({1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}[CType(words[-1]).size])
        assert known is not None
        if self.at("<"):
            self.brackets("<", ">")
        stars, reference = known.pointers, False
        while self.at("*") or self.at("&") or (self.token.kind == "name" and self.token.text in IGNORED):
            word = self.next().text
            stars += word == "*"
            reference = reference or word == "&"
        return CType(known.name, stars, reference, known.fields)

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
