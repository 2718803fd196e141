"""What all parts of the grammar read: names, lists of types, and regions of statements."""

from abc import ABC, abstractmethod

from .. import errors, ir
from ..isa.history import said, unwritten
from . import dictionaries, types
from .lexer import Cursor
from .scope import Mention, Scopes
from .tokens import Kind


class Reader(ABC):
    """Reads one text.

    The parts of the grammar are functions of a reader, in the modules beside this one; what a statement is,
    :class:`.programs.ProgramReader` knows, which puts them together.
    """

    def __init__(self, text: str, file: str, language: ir.Language | None = None) -> None:
        self._asked = language
        self.language: ir.Language = language or ir.PRESENT
        self._unwritten = unwritten(self.language)
        self.cursor: Cursor = Cursor(text, file)
        self.types: types.TypeReader = types.TypeReader(self.cursor)
        self.attributes: dictionaries.DictionaryReader = dictionaries.DictionaryReader(self.types)
        self.scopes: Scopes = Scopes(self.cursor, open_names=True)
        self._unused = 0
        #: How many arguments without a name the function has so far.
        self._arguments = 0

    def named_language(self, attributes: dict[str, ir.AttrValue], start: int) -> None:
        """Take the version out of a module's attributes; it holds where the caller asked for none."""
        if ir.LANGUAGE_KEY not in attributes:
            return
        name = attributes.pop(ir.LANGUAGE_KEY)
        found = ir.language(name)
        if found is None:
            self.cursor.fail_since(
                start, f'found {ir.LANGUAGE_KEY} = "{name}"; allowed: {", ".join(ir.LANGUAGES)}'
            )
        self.language = self._asked or found  # pyright: ignore[reportAttributeAccessIssue]
        self._unwritten = unwritten(self.language)

    def completed(self, name: str, found: dict[str, ir.AttrValue]) -> tuple[ir.Attrs, tuple[str, ...]]:
        """The attributes of an instruction, with those that the version says unwritten, and their names."""
        more = said(name, found, self._unwritten) if name in self._unwritten else None
        if more:
            found = {**more, **found}
        return tuple(sorted(found.items())), tuple(more or ())

    @abstractmethod
    def statement(self) -> ir.Op:
        """One operation with the names it binds."""

    @abstractmethod
    def blocks(self, first: list[ir.Op]) -> ir.Op:
        """The blocks of a body of several, of which the operations of the first one are read."""

    def region(self, args: list[tuple[Mention, ir.Type]], *, label: bool = False) -> ir.Region:
        """``{ ... }`` with the given arguments; with ``label`` they stand in ``^name(...):``."""
        c = self.cursor
        opened = c.start
        c.region_begins()
        c.expect(Kind.L_BRACE, "to open the body")
        self.scopes.push()
        values = [self.scopes.define(m, t) for m, t in args]
        if label and c.accept(Kind.CARET_IDENT):
            if c.kind is Kind.L_PAREN:
                values += c.enclosed(Kind.L_PAREN, self.argument)
            c.expect(Kind.COLON, "after the block label")
        ops: list[ir.Op] = []
        while c.kind not in (Kind.R_BRACE, Kind.EOF):
            if c.kind is Kind.CARET_IDENT:
                ops = [self.blocks(ops)]
                break
            ops.append(self.statement())
            if c.text == "loc":
                self.location()
        c.close(Kind.R_BRACE, opened)
        self.scopes.pop()
        c.region_ends()
        return ir.Region(tuple(ops), tuple(values))

    def argument(self) -> ir.Value:
        """``%name: T``, a name that is defined here."""
        mention = self.mention()
        self.cursor.expect(Kind.COLON, "before the type of the argument")
        value = self.scopes.define(mention, self.types.read())
        self.location()
        return value

    def location(self) -> None:
        """`` loc("name")``: where something stands or what it was called, which says nothing here."""
        c = self.cursor
        if c.kind is Kind.BARE_IDENT and c.text == "loc" and c.peek()[0] is Kind.L_PAREN:
            c.advance()
            self.types.balanced()

    def name(self) -> Mention:
        """``%name``."""
        c = self.cursor
        start, end = c.start, c.end
        return Mention(c.expect(Kind.PERCENT_IDENT)[1:], start, end)

    def mention(self) -> Mention:
        """``%name`` or ``%name#1``."""
        c = self.cursor
        name = self.name()
        if c.kind is Kind.HASH_IDENT and c.start == name.end and c.text[1:].isdigit():
            number = c.take()[1:].lstrip("0") or "0"
            return Mention(f"{name.name}#{number}", name.start, c.last_end)
        return name

    def unused(self) -> Mention:
        """A name for a result that the text does not bind."""
        self._unused += 1
        return Mention(f"_unused.{self._unused}", self.cursor.start, self.cursor.start)

    def mentions(self) -> list[Mention]:
        """``%a, %b``, possibly none."""
        c = self.cursor
        out: list[Mention] = []
        while c.kind is Kind.PERCENT_IDENT:
            out.append(self.mention())
            if not c.accept(Kind.COMMA):
                break
            if c.kind is not Kind.PERCENT_IDENT:
                c.unexpected("a value '%name' after ','")
        return out

    def type_list(self) -> list[ir.Type]:
        """``T`` or ``(T, T)``."""
        c = self.cursor
        is_list = c.kind is Kind.L_PAREN
        return c.enclosed(Kind.L_PAREN, self.types.read) if is_list else [self.types.read()]

    def position(self, span: errors.Span) -> int:
        """The character position at which a span starts."""
        return self.cursor.offset(span)
