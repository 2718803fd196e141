"""What a language server answers about a text, without the protocol: positions are characters of the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, cast

from .. import api, errors, isa, profiles
from ..ir import Program, TileType, Type, Value, languages
from ..isa.rules.advice import spelled
from ..manual import example, manual, topics
from ..text import attributes, type_text
from ..verifier.functions import LEVELS
from .highlighting import Category, category, constants, operations, pieces
from .names import Name, Names


@dataclass(frozen=True)
class Settings:
    """How texts are verified, as the options of ``pto-jax verify`` say it; None: as the program says."""

    profile: profiles.ProfileName | None = None
    level: int | None = None
    portable: bool = False
    auto_sync: bool = False
    language: languages.Language | None = None

    def changed(self, given: Mapping[str, object]) -> Settings:
        """The settings with those that an editor sends; ArgumentError for what is none.

        >>> Settings().changed({"profile": "a5", "level": 3}).level
        3
        """
        names = [f.name for f in fields(self)]
        for name, value in given.items():
            if name not in names:
                raise errors.ArgumentError(f"unknown setting {name!r}; allowed: {', '.join(names)}")
            allowed = _ALLOWED[name]
            if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
                words = ", ".join("null" if a is None else str(a).lower() for a in allowed)
                raise errors.ArgumentError(f"setting {name} is {value!r}; allowed: {words}")
        return replace(self, **cast("dict[str, Any]", given))


_ALLOWED: Mapping[str, tuple[object, ...]] = {
    "profile": (None, *profiles.PROFILE_NAMES),
    "level": (None, *LEVELS),
    "portable": (False, True),
    "auto_sync": (False, True),
    "language": (None, *languages.LANGUAGES),
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
        found: dict[tuple[int, int], Type] = {}

        def note(values: tuple[Value, ...]) -> None:
            found.update(((v.span.line, v.span.col), v.type) for v in values if v.span is not None)

        for function in self._typed.functions:
            note(function.args)
        for op in self._typed.walk():
            note((*op.ins, *op.outs, *op.results))
            for region in op.regions:
                note(region.args)
        return found

    # -- hover -----------------------------------------------------------------------------------------

    def hover(self, position: int) -> str | None:
        """What is at a position, as markdown.

        An instruction's page, a value's type and definition, the members of an enumeration, or the page of
        what a type is.
        """
        found = self._piece(position)
        if found is None:
            return None
        text, kind = found
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
        place = (
            self.source.count("\n", 0, name.start) + 1,
            name.start - self.source.rfind("\n", 0, name.start),
        )
        type_ = self._types.get(place)
        shown = f"`{name.text}: {_short(type_)}`\n\n" if type_ is not None else ""
        return f"{shown}```pto\n{line}\n```"

    # -- completion ------------------------------------------------------------------------------------

    def completions(self, position: int) -> list[Completion]:
        """What may stand at a position, of which a part may be written."""
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


#: The beginning of a word in front of the cursor, and what stands before an operation.
_WRITTEN = re.compile(r"(?:%[\w$.-]*|[\w$.]*)$")
_STATEMENT = re.compile(r"\s*(?:%[^=]*=\s*)?")


def _operations(prefix: str) -> list[Completion]:
    instructions = isa.instructions().values()
    found = [Completion(prefix + i.name, "instruction", i.summary) for i in instructions]
    return found + [Completion(o, "operation") for o in sorted(operations()) if not prefix]


def _attributes(line: str) -> list[Completion]:
    """The attributes of the instruction of a line."""
    words = re.findall(r"[a-zA-Z_][\w$.]*", line)
    name = next((w for w in words if category(w) is Category.INSTRUCTION), "")
    instruction = isa.find(name)
    listed = instruction.attributes if instruction is not None else ()
    return [Completion(a.keys[0] if a.keys else a.name, "attribute", a.meaning) for a in listed]


def _enumeration(word: str) -> str | None:
    """The members of the enumerations that a word names or belongs to."""
    plain = word.removeprefix("#pto.")
    named = attributes.BY_MNEMONIC.get(plain)
    found = (
        [named] if named is not None else [e for e in attributes.ENUMERATIONS if plain in map(e.word, e.cls)]
    )
    return "\n\n".join(f"`{e.mnemonic}`: {', '.join(map(e.word, e.cls))}" for e in found) or None


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
