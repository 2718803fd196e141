"""Answers about a document for a language server, without the protocol; positions are characters.

Definitions of names come from the tokens alone, so that they are available while the text has errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from .. import api, errors, isa, profiles
from ..ir import Program, TileType, Type, Value, program
from ..isa.rules.constraints import spelled
from ..isa.traits import BRANCH, structural_traits
from ..manual import example, manual, topics
from ..text import SUFFIXES, attributes, type_text
from ..text.lexer import Kind, TokenKind, read_token
from ..verifier.functions import LEVELS
from .highlighting import Category, category, constants, operations, pieces


class Token(NamedTuple):
    """A token with its text and its place."""

    kind: TokenKind
    text: str
    start: int
    end: int


class Name(NamedTuple):
    """A mention of a value (``%a``) or a function (``@f``); ``scopes`` are the bodies it stands in."""

    text: str
    start: int
    end: int
    defines: bool
    scopes: tuple[int, ...]


def tokens(source: str) -> Iterator[Token]:
    """The tokens of a text; characters that begin none are left out."""
    position = 1 if source.startswith("\ufeff") else 0
    while True:
        kind, start, end = read_token(source, position)
        if kind is Kind.EOF:
            return
        if kind is not None:
            yield Token(kind, source[start:end], start, end)
        position = end


@dataclass
class Names:
    r"""Every mention of a value or a function in a text, in its order.

    >>> names = Names.of("%a = tabs %x\n%b = tabs %a")
    >>> found = names.at(24)
    >>> found.text, names.definition(found).start
    ('%a', 0)
    """

    mentions: list[Name]
    #: The ends of bodies by their starts; one that is not closed has none.
    ends: Mapping[int, int]

    @classmethod
    def of(cls, source: str) -> Names:
        """The names of a text."""
        reading = _Reading([*tokens(source)])
        return cls(reading.mentions(), reading.ends)

    def at(self, position: int) -> Name | None:
        """The name at a character position, or one that ends there."""
        return next((n for n in self.mentions if n.start <= position <= n.end), None)

    def definition(self, name: Name) -> Name | None:
        """The mention that defines a name: in fragments the first one, where no other does."""
        same = [n for n in self.mentions if n.text == name.text]
        defining = [n for n in same if n.defines and n.scopes == name.scopes[: len(n.scopes)]]
        if name.text.startswith("@"):
            return next((n for n in same if n.defines), None)
        before = [n for n in defining if n.start <= name.start]
        if before or defining:
            return before[-1] if before else defining[0]
        return same[0] if not name.scopes else None

    def visible(self, position: int) -> list[str]:
        """The values that are defined before a position and visible there, the latest first."""

        def inside(name: Name) -> bool:
            return all(start < position <= self.ends.get(start, position) for start in name.scopes)

        before = (n for n in reversed(self.mentions) if n.end < position and n.text.startswith("%"))
        return list(dict.fromkeys(n.text for n in before if inside(n)))


class _Reading:
    """Goes through the tokens of a text and finds the mentions that define."""

    def __init__(self, listed: list[Token]) -> None:
        self.listed = listed
        self.scopes: list[int] = []
        self.ends: dict[int, int] = {}
        self.parentheses = 0
        #: The arguments of a function or a block end with the parenthesis of this depth.
        self.arguments: int | None = None
        self.function = False
        self.found: list[Name] = []
        #: Names of a head, which are visible in the body that follows it.
        self.head: list[int] = []

    def mentions(self) -> list[Name]:
        """Every mention, in the order of the text."""
        for i, token in enumerate(self.listed):
            match token.kind:
                case Kind.L_BRACE:
                    self.opened(i)
                case Kind.R_BRACE if self.scopes:
                    self.ends[self.scopes.pop()] = token.start
                case Kind.L_PAREN:
                    self.parentheses += 1
                    if self.lists_arguments(i):
                        self.arguments = self.parentheses
                        self.function = self.listed[i - 1].kind is Kind.AT_IDENT
                case Kind.R_PAREN:
                    if self.arguments == self.parentheses:
                        self.arguments = None
                    self.parentheses = max(0, self.parentheses - 1)
                case Kind.AT_IDENT:
                    self.mention(token, _FUNCTION in (self.text(i - 1), self.text(i - 2)))
                case Kind.PERCENT_IDENT:
                    self.value(i)
        return self.found

    def text(self, i: int) -> str:
        return self.listed[i].text if 0 <= i < len(self.listed) else ""

    def opened(self, i: int) -> None:
        """A brace: a body, or attributes."""
        self.scopes.append(self.listed[i].start)
        if self.parentheses == 0 and self.text(i - 1) != "attributes":
            for k in self.head:
                name = self.found[k]
                self.found[k] = name._replace(scopes=(*name.scopes, self.listed[i].start))
            self.head = []

    def lists_arguments(self, i: int) -> bool:
        """Whether a parenthesis opens the arguments of a function or a block."""
        before = self.listed[i - 1] if i else None
        if before is not None and before.kind is Kind.CARET_IDENT:
            return self.text(i - 2) not in (",", BRANCH)
        return before is not None and before.kind is Kind.AT_IDENT and self.found[-1].defines

    def value(self, i: int) -> None:
        """A value: bound by a statement, by a head, as an argument, or used."""
        token, following = self.listed[i], self.text(i + 1)
        if self.arguments == self.parentheses and following == ":":
            self.mention(token, True, head=self.function)
        elif self.parentheses or _has_a_body(self.text(i - 1)):
            self.mention(token, following == "=", head=True)
        else:
            self.mention(token, self.bound(i))

    def bound(self, i: int) -> bool:
        """Whether ``%a, %b =`` or ``%r:2 =`` begins here or goes on."""
        while True:
            i += 1
            if self.text(i) == ":" and self.listed[i + 1 : i + 2] and self.text(i + 1).isdigit():
                i += 2
            if self.text(i) != "," or not self.text(i + 1).startswith("%"):
                return self.text(i) == "="
            i += 1

    def mention(self, token: Token, defines: bool, head: bool = False) -> None:
        if defines and head:
            self.head.append(len(self.found))
        self.found.append(Name(token.text, token.start, token.end, defines, tuple(self.scopes)))


#: What stands before the name of a function, at most one word further.
_FUNCTION = "func.func"


def _has_a_body(word: str) -> bool:
    """Whether a word is an operation that binds names for its body."""
    traits = structural_traits(word.removeprefix("pto."))
    return traits is not None and traits.regions is not None and traits.regions.repeats


@dataclass(frozen=True)
class Settings:
    """How texts are verified, as the options of ``pto-jax verify`` say it; None: as the program says."""

    profile: profiles.ProfileName | None = None
    level: int | None = None
    portable: bool = False
    auto_sync: bool = False
    language: program.TextLanguage | None = None

    def changed(self, settings: Mapping[str, object]) -> Settings:
        """The settings with those that an editor sends; ArgumentError for what is none.

        >>> Settings().changed({"profile": "a5", "level": 3}).level
        3
        """
        names = [f.name for f in fields(self)]
        for name, value in settings.items():
            if name not in names:
                raise errors.ArgumentError(f"unknown setting {name!r}", allowed=", ".join(names))
            allowed = _ALLOWED[name]
            if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
                words = ", ".join("null" if a is None else str(a).lower() for a in allowed)
                raise errors.ArgumentError(f"setting {name}: got {value!r}", allowed=f"{words}")
        return replace(self, **cast("dict[str, Any]", settings))


_ALLOWED: Mapping[str, tuple[object, ...]] = {
    "profile": (None, *profiles.PROFILE_NAMES),
    "level": (None, *LEVELS),
    "portable": (False, True),
    "auto_sync": (False, True),
    "language": (None, *program.TEXT_LANGUAGES),
}


@dataclass(frozen=True)
class Completion:
    """A word that may stand where the cursor is, and what it is."""

    text: str
    kind: Literal["instruction", "operation", "value", "attribute", "constant"]
    detail: str = ""


class Document:
    """One version of a text; everything is computed when it is first asked for.

    >>> document = Document("k.pto", "%d = tadd %a, %b : !pto.tile<16x16xf32>")
    >>> document.diagnostics(Settings()), document.hover(6).splitlines()[0]
    ([], '# tadd: Lane-wise sum of two tiles.')
    """

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source

    # -- findings --------------------------------------------------------------------------------------

    def diagnostics(self, settings: Settings) -> list[errors.Diagnostic]:
        """What is wrong with the text: that it cannot be read, else what the verifier finds."""
        try:
            program = api.parse(self.source, self.name, language=settings.language)
            self._typed = program
            return api.verify(
                program,
                settings.profile,
                portable=settings.portable,
                level=settings.level,
                auto_sync=settings.auto_sync,
            )
        except errors.ParseError as error:
            return list(error.diagnostics)
        except errors.PtoError as error:  # A profile that the text names and that there is not.
            return [errors.Diagnostic("error", str(error), errors.Span(self.name, 1, 1))]

    # -- names -----------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> Names:
        """The values and functions of the text."""
        return Names.of(self.source)

    def definition(self, position: int) -> Name | None:
        """The mention that defines the value or function at a position."""
        name = self.names.at(position)
        return None if name is None else self.names.definition(name)

    @cached_property
    def _typed(self) -> Program | None:
        try:
            return api.parse(self.source, self.name)
        except errors.ParseError:
            return None

    @cached_property
    def _types(self) -> dict[tuple[int, int], Type]:
        """The types of values by line and column of their mentions."""
        if self._typed is None:
            return {}
        table: dict[tuple[int, int], Type] = {}

        def note(values: tuple[Value, ...]) -> None:
            table.update(((v.span.line, v.span.col), v.type) for v in values if v.span is not None)

        for function in self._typed.functions:
            note(function.args)
        for op in self._typed.walk():
            note((*op.ins, *op.outs, *op.results))
            for region in op.regions:
                note(region.args)
        return table

    # -- hover -----------------------------------------------------------------------------------------

    def hover(self, position: int) -> str | None:
        """What is at a position, as markdown.

        An instruction's page, a value's type and definition, the members of an enumeration, or the page of
        what a type is.
        """
        if self.name.endswith(SUFFIXES):
            return self._emitted(position)
        result = self._piece(position)
        if result is None:
            return None
        text, kind = result
        match kind:
            case Category.INSTRUCTION:
                return manual(text, "markdown")
            case Category.VALUE | Category.SYMBOL:
                return self._described(position)
            case Category.ATTRIBUTE | Category.CONSTANT:
                return _enumeration(text)
            case Category.TYPE:
                return _type_page(text)
        return None

    def _emitted(self, position: int) -> str | None:
        """What a place in emitted C++ is in the program: a value and its type, the page of an operation."""
        line = self.source.count("\n", 0, position) + 1
        col = position - self.source.rfind("\n", 0, position)
        for op in self._typed.walk() if self._typed is not None else ():
            for value in (*op.ins, *op.outs, *op.results):
                if _covers(value.span, line, col) and value.span != op.span:
                    return f"`{value}: {_short(value.type)}`"
            if _covers(op.span, line, col):
                text = f"`{op.results[0]}: {_short(op.results[0].type)}`\n\n" if op.results else ""
                return f"{text}{manual(op.name, 'markdown') if isa.find(op.name) else f'`{op.name}`'}"
        return None

    def _piece(self, position: int) -> tuple[str, Category] | None:
        # No piece but blanks goes beyond a line.
        first = self.source.rfind("\n", 0, position) + 1
        line = self.source[first:].partition("\n")[0]
        for start, end, kind in pieces(line):
            if start <= position - first < end:
                return line[start:end], kind
        return None

    def _described(self, position: int) -> str | None:
        name = self.names.at(position)
        defining = self.names.definition(name) if name is not None else None
        if name is None or defining is None:
            return None
        start = self.source.rfind("\n", 0, defining.start) + 1
        line = self.source[start:].partition("\n")[0].strip()
        type_ = self.type_at(name)
        text = f"`{name.text}: {type_}`\n\n" if type_ is not None else ""
        return f"{text}```pto\n{line}\n```"

    def type_at(self, name: Name) -> str | None:
        """The type of a mention of a value in a few characters; None while the text has errors."""
        line = self.source.count("\n", 0, name.start) + 1
        type_ = self._types.get((line, name.start - self.source.rfind("\n", 0, name.start)))
        return None if type_ is None else _short(type_)

    def same_names(self, other: Document) -> bool:
        """Whether every mention is defined by the same one as in a text that differs in one name."""

        def order(names: Names) -> list[int | None]:
            places = {id(n): i for i, n in enumerate(names.mentions)}
            result = (names.definition(n) for n in names.mentions)
            return [None if d is None else places[id(d)] for d in result]

        return order(self.names) == order(other.names)

    # -- completion ------------------------------------------------------------------------------------

    def completions(self, position: int) -> list[Completion]:
        """What may stand at a position, of which a part may be written; nothing in C++."""
        if self.name.endswith(SUFFIXES):
            return []
        start = self.source.rfind("\n", 0, position) + 1
        line = self.source[start:position]
        written = _WRITTEN.search(line)
        assert written is not None
        inside = self._piece(position - 1) if position else None
        if inside is not None and inside[1] in (Category.COMMENT, Category.STRING):
            return []
        if written[0].startswith("%"):
            return [Completion(v, "value") for v in self.names.visible(position - len(written[0]))]
        if _STATEMENT.fullmatch(line[: written.start()]):
            return _operations("pto." if written[0].startswith("pto.") else "")
        return [*_attributes(line), *(Completion(c, "constant") for c in sorted(constants()))]


def _covers(span: errors.Span | None, line: int, col: int) -> bool:
    """Whether a place is inside a span."""
    return span is not None and span.line == line and span.col <= col < span.col + span.length


#: The beginning of a word in front of the cursor, and what stands before an operation.
_WRITTEN = re.compile(r"(?:%[\w$.-]*|[\w$.]*)$")
_STATEMENT = re.compile(r"\s*(?:%[^=]*=\s*)?")


def _operations(prefix: str) -> list[Completion]:
    instructions = isa.instructions().values()
    results = [Completion(prefix + i.name, "instruction", i.summary) for i in instructions]
    return results + [Completion(o, "operation") for o in sorted(operations()) if not prefix]


def _attributes(line: str) -> list[Completion]:
    """The attributes of the instruction of a line."""
    words = re.findall(r"[a-zA-Z_][\w$.]*", line)
    name = next((w for w in words if category(w) is Category.INSTRUCTION), "")
    instruction = isa.find(name)
    declared = instruction.attributes if instruction is not None else ()
    return [Completion(a.keys[0] if a.keys else a.name, "attribute", a.meaning) for a in declared]


def _enumeration(word: str) -> str | None:
    """The members of the enumerations that a word names or belongs to."""
    plain = word.removeprefix("#pto.")
    entry = attributes.BY_MNEMONIC.get(plain)
    results = (
        [entry] if entry is not None else [e for e in attributes.ENUMERATIONS if plain in map(e.word, e.cls)]
    )
    return "\n\n".join(f"`{e.mnemonic}`: {', '.join(map(e.word, e.cls))}" for e in results) or None


def _type_page(word: str) -> str | None:
    plain = word.removeprefix("!").removeprefix("pto.")
    if not any(plain in (t.name, *t.also) for t in topics().values()):
        return None
    return manual(plain, "markdown")


def _short(type_: Type) -> str:
    if isinstance(type_, TileType) and type_.conv is None:
        return spelled(type_)
    return type_text.print_type(type_)


def load_tables(settings: Settings) -> None:
    """Load the tables of all instructions, which the first text would wait for."""
    instruction = next(i for i in isa.instructions().values() if i.lane_wise)
    text = example(instruction) or ""
    document = Document("", text)
    document.diagnostics(settings)
    document.hover(text.find(instruction.name))
