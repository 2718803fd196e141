"""Edits of a text, its outline and hints of types, without the protocol; positions are characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .. import api
from ..errors import ArgumentError, Diagnostic, ParseError
from ..text.lexer import Kind
from .documents import Document, Name, Settings, Token, tokens

#: Blanks of one level of indentation.
INDENT = "  "
_OPENING, _CLOSING = (Kind.L_BRACE, Kind.L_PAREN, Kind.L_SQUARE), (Kind.R_BRACE, Kind.R_PAREN, Kind.R_SQUARE)


class Edit(NamedTuple):
    """A part of a text and what stands in its place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Action:
    """A change that removes a diagnostic, with its title."""

    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Symbol:
    """A function or value of the outline: where it is defined, and the part of the text that it covers."""

    name: Name
    kind: str
    detail: str
    end: int
    children: tuple[Symbol, ...] = ()


def applied(source: str, edits: Sequence[Edit]) -> str:
    """A text with edits, which do not overlap.

    >>> applied("abc", [Edit(0, 1, "x"), Edit(2, 3, "")])
    'xb'
    """
    for edit in sorted(edits, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


# -- formatting ----------------------------------------------------------------------------------------


def formatted(source: str) -> str:
    r"""A text with two blanks of indentation for each open bracket, and one blank inside of lines.

    Comments and the order of everything stay; more than one empty line becomes one. A text that would be
    read as another program, or cannot be read, stays as it is.

    >>> formatted("func.func @f() {\n%c =  arith.constant 1 : index // one\n return\n}")
    'func.func @f() {\n  %c = arith.constant 1 : index // one\n  return\n}\n'
    """
    all_tokens = [*tokens(source)]
    depth, position, lines = 0, 0, list[str]()
    starts = [t.start for t in all_tokens]
    first = 0
    for line in source.split("\n"):
        end = position + len(line)
        while first < len(starts) and starts[first] < position:
            first += 1
        inside = [t for t in all_tokens[first:] if t.start < end] if line.strip() else []
        leading = next((i for i, t in enumerate(inside) if t.kind not in _CLOSING), len(inside))
        text = _spaced(source, position, end, inside)
        if text or (lines and lines[-1]):
            lines.append(f"{INDENT * max(depth - leading, 0)}{text}" if text else "")
        depth = max(depth + sum((t.kind in _OPENING) - (t.kind in _CLOSING) for t in inside), 0)
        position = end + 1
    result = "\n".join(lines).rstrip("\n") + "\n"
    return result if _same(source, result) else source


def _spaced(source: str, start: int, end: int, inside: Sequence[Token]) -> str:
    """The text of a line, runs of blanks between its tokens as one; comments keep theirs."""
    parts, at = list[str](), start
    for token in inside:
        parts.append(_gap(source[at : token.start]))
        parts.append(token.text)
        at = token.end
    return ("".join(parts) + source[at:end]).strip()


def _gap(text: str) -> str:
    return " " if text and not text.strip() else text


def _same(before: str, after: str) -> bool:
    try:
        return api.parse(before) == api.parse(after)
    except ParseError:
        return False


# -- names ---------------------------------------------------------------------------------------------


def references(document: Document, position: int) -> list[Name]:
    """Every mention of the value or function at a position, its definition included."""
    definition = document.definition(position)
    if definition is None:
        return []
    names = document.names
    return [n for n in names.mentions if n.text == definition.text and names.definition(n) == definition]


def renamed(document: Document, position: int, name: str) -> list[Edit]:
    """The edits that give a value or function another name, with or without its ``%`` or ``@``.

    ArgumentError where nothing has a name there, for a name that cannot be written, and for one that is
    taken.

    >>> renamed(Document("k.pto", "%a = tabs %x"), 0, "b")
    [Edit(start=0, end=2, text='%b')]
    """
    mentions = references(document, position)
    if not mentions:
        raise ArgumentError("rename: got a place without a name", allowed="values (%a) and functions (@f)")
    sign = mentions[0].text[0]
    new = name if name.startswith(sign) else sign + name
    read = [t for t in tokens(new) if t.kind in (Kind.PERCENT_IDENT, Kind.AT_IDENT)]
    if [t.text for t in read] != [new]:
        raise ArgumentError(f"rename: got {name!r}", allowed=f"letters, digits, $, . and _ after {sign}")
    edits = [Edit(n.start, n.end, new) for n in mentions]
    if any(n.text == new for n in document.names.mentions):
        changed = Document(document.name, applied(document.source, edits))
        if len(references(changed, mentions[0].start)) != len(mentions) or not changed.same_names(document):
            raise ArgumentError(f"rename: {new} is taken", allowed="a name that no other value has there")
    return edits


def symbols(document: Document) -> list[Symbol]:
    """The functions of a text with the values that they define; of a fragment its values."""
    values, functions = list[Symbol](), list[Symbol]()
    defining = [n for n in document.names.mentions if n.defines]
    for name in defining:
        if name.text.startswith("@"):
            body = _body(document, name)
            end = document.names.ends.get(body, name.end - 1) + 1
            inner = [n for n in defining if body in n.scopes]
            functions.append(Symbol(name, "function", "", end, tuple(_value(document, n) for n in inner)))
        elif not name.scopes:
            values.append(_value(document, name))
    return [*functions, *values]


def _body(document: Document, function: Name) -> int:
    """Where the body of a function begins, behind its attributes; -1 while it has none."""
    for start in sorted(s for s in document.names.ends if s >= function.end):
        if not document.source[:start].rstrip().endswith("attributes"):
            return start
    return -1


def _value(document: Document, name: Name) -> Symbol:
    end = document.source.find("\n", name.end)
    return Symbol(name, "value", document.type_at(name) or "", len(document.source) if end < 0 else end)


def hints(document: Document, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The types of values that a part of a text defines, where none stands beside the name."""
    for name in document.names.mentions:
        written = document.source[name.end :].lstrip().startswith(":")
        if name.defines and name.text.startswith("%") and start <= name.start < end and not written:
            type_ = document.type_at(name)
            if type_ is not None:
                yield name.end, f": {type_}"


# -- fixes ---------------------------------------------------------------------------------------------

_MEANT = re.compile(r"did you mean ((?:'[^']+'(?: or )?)+)")
_LIST = re.compile(r"(\w+) = \[.*\]")
_SETTING = re.compile(r"\b([a-z_]+)\s*=\s*(#?[\w.]+)")
_TILE = re.compile(r"!pto\.tile(?:_buf)?<[^<>]*>")


def actions(document: Document, diagnostic: Diagnostic, settings: Settings) -> list[Action]:
    """The fixes of a diagnostic as edits, those that leave fewer errors in the text."""
    if diagnostic.span is None:
        return []
    before = _errors(document.diagnostics(settings))
    results = []
    for action in _candidates(document, diagnostic):
        after = Document(document.name, applied(document.source, action.edits)).diagnostics(settings)
        if _errors(after) < before or (diagnostic.severity == "warning" and diagnostic not in after):
            results.append(action)
    return results


def _errors(diagnostics: Sequence[Diagnostic]) -> int:
    # A text that cannot be read has one error, which hides what the verifier would find.
    return sum(d.severity == "error" for d in diagnostics) + 1000 * any(d.rule is None for d in diagnostics)


def _candidates(document: Document, diagnostic: Diagnostic) -> Iterator[Action]:
    span = diagnostic.span
    assert span is not None
    lines = document.source.split("\n")
    if span.line > len(lines):
        return
    first = sum(len(line) + 1 for line in lines[: span.line - 1])
    line, start = lines[span.line - 1], first + span.col - 1
    meant = _MEANT.search(diagnostic.message)
    for word in re.findall(r"'([^']+)'", meant[1]) if meant is not None else ():
        yield Action(f"Replace by {word}", (Edit(start, start + span.length, word),))
    text = diagnostic.fix.partition(" (by constants")[0].strip().strip("`")
    if not text:
        return
    if text.startswith(("%", "pto.", "func.", "scf.")):
        blanks = len(line) - len(line.lstrip())
        written = text.replace("\n", "\n" + line[:blanks])
        title = f"Replace by {text}" if "\n" not in text else f"Replace by {text.count(chr(10)) + 1} lines"
        yield Action(title, (Edit(first + blanks, first + len(line), written),))
    list_ = _LIST.fullmatch(text)
    for m in re.finditer(rf"\b{list_[1]} = \[[^\]]*\]", line) if list_ is not None else ():
        yield Action(f"Replace by {text}", (Edit(first + m.start(), first + m.end(), text),))
    if text.startswith("//"):
        yield Action(f"Replace by {text}", (Edit(start, start + span.length, text),))
    if text.startswith("!pto."):
        yield from (
            Action(f"Replace by {text}", (Edit(first + m.start(), first + m.end(), text),))
            for m in _TILE.finditer(line)
        )
    pairs = _SETTING.findall(text)
    if pairs and not text.startswith(("%", "pto.")):
        title = "Set " + ", ".join(f"{key}={value}" for key, value in pairs)
        edits = [Edit(first + m.start(), first + m.end(), _with(m[0], pairs)) for m in _TILE.finditer(line)]
        if edits:
            yield Action(title, tuple(edits))


def _with(type_: str, pairs: Sequence[tuple[str, str]]) -> str:
    """A type with other values of its fields, which are added where it has none.

    >>> _with("!pto.tile<16x1xf32>", [("blayout", "col_major")])
    '!pto.tile<16x1xf32, blayout=col_major>'
    """
    for key, value in pairs:
        pattern = re.compile(rf"\b{key}\s*=\s*[\w.#?]+")
        if pattern.search(type_):
            type_ = pattern.sub(f"{key}={value}", type_, count=1)
        else:
            type_ = f"{type_[:-1]}, {key}={value}>"
    return type_
