"""The common part of the readers: scopes of names, types, regions, and repeated statements.

Generated programs repeat the same lines thousands of times: an unrolled loop is one line with other names.
The first such line is read token by token; a line that differs in the names of values only takes everything
else from it.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import count
from typing import NamedTuple, TypeAlias

from .. import errors, ir
from ..errors import Span
from ..ir import AttrValue, Op, PartitionViewType, TensorViewType, TileType, Type, UnknownType, Value
from ..isa.history import said, unwritten
from . import dictionaries, lexer, names, type_text, types
from .lexer import Cursor, Kind

#: How many of the latest definitions are compared with an undefined name.
_SUGGESTED_FROM = 1000
#: How a line begins that continues no statement.
_STATEMENT = r"[ \t]*(?:%[\w$.:]+(?:[ \t]*,[ \t]*%[\w$.:]+)*[ \t]*=|\w+\.\w|return\b|[}#^@]|//|$)"
#: The operation whose results types may follow from.
CONSTANT = "arith.constant"


class Mention(NamedTuple):
    """A value's name and where it stands in the text."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class _Binding:
    type: Type
    start: int
    end: int
    constant: int | None = None


class Scopes:
    """Values visible at a place of the text.

    As in MLIR a name may be defined once among the names visible together; sibling regions may reuse
    it. A region that is isolated may use names from outside for values of its own, which get other names
    here, for a name is one value to everything that reads a program. With ``open_names`` (fragments) a name
    without a definition becomes a parameter.
    """

    def __init__(self, cursor: Cursor, *, open_names: bool) -> None:
        self._cursor = cursor
        self._bindings: dict[str, _Binding] = {}
        self._levels: list[list[str]] = [[]]
        self._open_names = open_names
        self._parameters: list[str] = []
        #: Names from outside the isolated region, those that it has defined anew, and what is behind it.
        self._outside: frozenset[str] = frozenset()
        self._renamed: dict[str, str] = {}
        self._isolations: list[tuple[int, frozenset[str], dict[str, str]]] = []
        #: Whether the number of a constant was asked for since this was last set.
        self.numbers_asked = False

    def push(self, *, isolated: bool = False) -> None:
        """Enter a region; one that is isolated may define names from outside anew."""
        self._levels.append([])
        if isolated:
            self._isolations.append((len(self._levels), self._outside, self._renamed))
            self._outside, self._renamed = frozenset(self._bindings), {}

    def pop(self) -> None:
        """Leave a region: its names are forgotten."""
        if self._isolations and self._isolations[-1][0] == len(self._levels):
            _, self._outside, self._renamed = self._isolations.pop()
        for name in self._levels.pop():
            del self._bindings[name]
            if self._renamed:
                self._renamed = {n: new for n, new in self._renamed.items() if new != name}

    def _own(self, name: str) -> str:
        """Another name for a value of an isolated region, one that the text does not have."""
        base, mark, number_of_result = name.partition("#")
        taken = self._cursor.source
        fresh = next(n for k in count(2) if f"%{(n := f'{base}_{k}')}" not in taken)
        self._renamed[name] = f"{fresh}{mark}{number_of_result}"
        return self._renamed[name]

    def _actual(self, name: str) -> str:
        """What a name of the text is here."""
        return self._renamed.get(name) or self._renamed.get(f"{name}#0", name)

    def span(self, mention: Mention) -> Span:
        """The place of a mention in the text."""
        return self._cursor.span(mention.start, mention.end)

    def define(self, mention: Mention, type_: Type) -> Value:
        """Bind a name to a new value; ParseError where the name is visible already."""
        first = self._find(mention.name) if self._renamed else self._bindings.get(mention.name)
        if first is not None and mention.name in self._outside and mention.name not in self._renamed:
            mention = Mention(self._own(mention.name), mention.start, mention.end)
        elif first is not None:
            place = self._cursor.span(first.start, first.end)
            kind = "used as a parameter" if mention.name in self._parameters else "defined"
            self._cursor.fail(
                f"got a second definition of %{mention.name}, which was {kind} on line {place.line}, "
                f"column {place.col}",
                start=mention.start,
                end=mention.end,
                allowed="one definition of each value",
                fix="" if f"{mention.name}_2" in self._bindings else f"%{mention.name}_2",
            )
        self._bindings[mention.name] = _Binding(type_, mention.start, mention.end)
        self._levels[-1].append(mention.name)
        return Value(mention.name, type_, self.span(mention))

    def set_constant(self, value: Value, constant: AttrValue) -> None:
        """Remember that a value is an integer constant, for types that follow from it."""
        if isinstance(constant, int) and not isinstance(constant, bool):
            self._bindings[value.name].constant = constant

    def constant(self, mention: Mention) -> int | None:
        """The number of an integer constant, None for other values."""
        self.numbers_asked = True
        binding = self._bindings.get(self._actual(mention.name))
        return None if binding is None else binding.constant

    def known_type(self, name: str) -> Type | None:
        """The type of a value as far as the text so far gives it."""
        binding = self._find(name)
        if binding is None or isinstance(binding.type, UnknownType):
            return None
        return binding.type

    def use(self, mention: Mention, written: Type | None = None, default: Type | None = None) -> Value:
        """A use of a value; ``written`` is the type spelled with it, ``default`` the one it must have.

        ParseError for a value that is not defined, or is of another type than the written one.
        """
        if self._renamed:
            mention = Mention(self._actual(mention.name), mention.start, mention.end)
        binding = self._find(mention.name) or self._open(mention, written)
        if isinstance(written, UnknownType) and written == UnknownType():
            written = None
        result = binding.type
        if isinstance(result, UnknownType):
            result = written or default or result
            binding.type = result
        elif (
            written is not None
            and written is not result
            and written != result
            and not isinstance(written, UnknownType)
        ):
            self._agree(mention, written, binding)
        name = mention.name if mention.name in self._bindings else f"{mention.name}#0"
        return Value(name, result, self.span(mention))

    def use_again(self, name: str, start: int, type_: Type) -> Value | None:
        """A use of a value that is defined under this very name with this type; None for others."""
        end = start + len(name) + 1
        name = self._actual(name) if self._renamed else name
        binding = self._bindings.get(name)
        if binding is None or (binding.type is not type_ and binding.type != type_):
            return None
        return Value(name, binding.type, self._cursor.span(start, end))

    def _find(self, name: str) -> _Binding | None:
        name = self._actual(name) if self._renamed else name
        match = self._bindings.get(name)
        return self._bindings.get(f"{name}#0") if match is None else match

    def _open(self, mention: Mention, written: Type | None = None) -> _Binding:
        if not self._open_names:
            nearby = list(self._bindings)[-_SUGGESTED_FROM:]
            close = names.suggestion(mention.name, nearby, "%")
            fix = ""
            if isinstance(written, TileType) and None not in written.valid and not close:
                fix = _allocation(mention.name, written)
            definition = rf"^[ \t]*%{re.escape(mention.name)}[ \t]*=.*$(?:\n(?!{_STATEMENT}).*$)*"
            later = re.search(definition, self._cursor.source[mention.end :], re.M)
            if later is not None:
                start = mention.end + later.start()
                line = self._cursor.span(start, start).line
                close, fix = f", which line {line} defines after its use", later[0].strip()
            self._cursor.fail(
                f"got the undefined value %{mention.name}{close}",
                start=mention.start,
                end=mention.end,
                allowed="an argument, or the result of an operation before",
                fix=fix,
            )
        self._parameters.append(mention.name)
        binding = _Binding(UnknownType(), mention.start, mention.end)
        self._bindings[mention.name] = binding
        self._levels[0].append(mention.name)
        return binding

    def _agree(self, mention: Mention, written: Type, binding: _Binding) -> None:
        """Accept the old spelling of a view's rank (``<2xf32>``), refuse any other difference."""
        defined = binding.type
        if (
            isinstance(written, TensorViewType | PartitionViewType)
            and type(written) is type(defined)
            and isinstance(defined, TensorViewType | PartitionViewType)
            and written.dtype == defined.dtype
            and written.dims == (len(defined.dims),)
        ):
            return
        place = self._cursor.span(binding.start, binding.end)
        self._cursor.fail(
            f"got %{mention.name} used {_difference(written, defined)} (line {place.line}, "
            f"column {place.col})",
            start=mention.start,
            end=mention.end,
            allowed="the type of its definition",
            fix=_spelled(defined),
        )

    def parameters(self) -> tuple[Value, ...]:
        """The names that were used without a definition, in order of first use."""
        out = []
        for name in self._parameters:
            binding = self._bindings[name]
            out.append(Value(name, binding.type, self._cursor.span(binding.start, binding.end)))
        return tuple(out)


def _allocation(name: str, t: TileType) -> str:
    """The operation that defines a tile."""
    from ..isa.views import ALLOC_TILE

    return f"%{name} = pto.{ALLOC_TILE} : {_spelled(t)}"


def _spelled(t: Type) -> str:
    """The text of a type, of tiles the short one."""
    from ..isa.rules.constraints import spelled

    return spelled(t) if isinstance(t, TileType) else type_text.print_type(t)


def _difference(written: Type, defined: Type) -> str:
    """``as A but defined as B``, for tiles only the parameters that differ."""
    if isinstance(written, TileType) and isinstance(defined, TileType):
        parts = []
        for f in fields(TileType):
            here, there = getattr(written, f.name), getattr(defined, f.name)
            if here != there:
                parts.append(f"{f.name}={_word(here)} but defined with {f.name}={_word(there)}")
        return "with " + ", ".join(parts)
    return f"as {type_text.print_type(written)} but defined as {type_text.print_type(defined)}"


def _word(value: object) -> str:
    name = getattr(value, "name", value)
    return "?" if name is None else str(name).lower()


class Reader(ABC):
    """Reads one text.

    The parts of the grammar are functions of a reader, in the modules beside this one; what a statement is,
    :class:`.programs.ProgramReader` knows, which puts them together.
    """

    def __init__(self, text: str, file: str, language: ir.Language | None = None) -> None:
        self._asked: ir.Language | None = language
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
        result = ir.language(name)
        if result is None:
            self.cursor.fail_since(
                start, f'got {ir.LANGUAGE_KEY} = "{name}"; allowed: {", ".join(ir.LANGUAGES)}'
            )
        self.language = self._asked or result  # pyright: ignore[reportAttributeAccessIssue]
        self._unwritten = unwritten(self.language)

    def completed(self, name: str, attributes: dict[str, ir.AttrValue]) -> tuple[ir.Attrs, tuple[str, ...]]:
        """The attributes of an instruction, with those that the version says unwritten, and their names."""
        more = said(name, attributes, self._unwritten) if name in self._unwritten else None
        if more:
            attributes = {**more, **attributes}
        return tuple(sorted(attributes.items())) if attributes else (), tuple(more or ())

    @abstractmethod
    def statement(self) -> ir.Op:
        """One operation with the names it binds."""

    @abstractmethod
    def blocks(self, first: list[ir.Op]) -> ir.Op:
        """The blocks of a body of several, of which the operations of the first one are read."""

    def region(
        self, args: list[tuple[Mention, ir.Type]], *, label: bool = False, isolated: bool = False
    ) -> ir.Region:
        """``{ ... }`` with the given arguments; with ``label`` they stand in ``^name(...):``."""
        c = self.cursor
        opened = c.start
        c.region_begins()
        c.expect(Kind.L_BRACE, "to open the body")
        self.scopes.push(isolated=isolated)
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
        name, c = self.name(), self.cursor
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


#: Longer lines are read as they come.
_MAX_LINE = 2000
_NAME = re.compile(f"%({lexer.VALUE_NAME[1:]})")
#: What stands behind a line that ends a statement: the next one, or the end of the region. No operation goes
#: on with ``%name =``, nor with the name of an operation, while ``%name,`` may be a further operand.
_NEXT = re.compile(rf"[ \t\r]*\n{lexer.BLANKS}(?:{lexer.VALUE_NAME}[ \t]*=|[a-z]+\.|return\b|\}})")


class Line(NamedTuple):
    """A statement that fills the rest of its line: the texts between its names, and the names."""

    texts: tuple[str, ...]
    names: list[str]
    start: int
    end: int

    def places(self, start: int) -> list[int]:
        """Where its names begin, if it begins at ``start``."""
        starts = []
        for text, name in zip(self.texts, self.names, strict=False):
            starts.append(start + len(text))
            start += len(text) + len(name) + 1
        return starts


class _Read(NamedTuple):
    """A statement that was read; the types that its names had before, and the names of tiles in it."""

    line: Line
    types: list[Type | None]
    op: Op
    spelled: frozenset[str]


class _Known(NamedTuple):
    """A statement that came again; its values by their position among the names of its line."""

    op: Op
    used: tuple[tuple[int, Type], ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    results: tuple[int, ...]
    spelled: frozenset[str]


#: Statements by what they say besides names; None for one of which more than that decides what it is.
_Lines: TypeAlias = dict[tuple[str, ...], _Read | _Known | None]
#: Statements that are kept for each version of the language.
_KEPT = 4096


@lru_cache(maxsize=16)
def _lines(asked: ir.Language | None, language: ir.Language) -> _Lines:
    return {}


class Statements:
    """The statements that were read, by what they say besides names: those of all texts without aliases."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._own: _Lines = {}
        self._known = self._own

    def select(self, asked: ir.Language | None, language: ir.Language, aliases: bool) -> None:
        """Read on in a version of the language, with names for types or without."""
        self._known = self._own if aliases else _lines(asked, language)

    def line(self) -> Line | None:
        """The rest of the line at the cursor, None where that is certainly no statement by itself."""
        source, start = self._cursor.source, self._cursor.start
        stop = source.find("\n", start, start + _MAX_LINE)
        if stop < 0:
            return None
        end = start + len(source[start:stop].rstrip())
        if source[end - 1] in "{," or not _NEXT.match(source, end):
            return None
        parts = _NAME.split(source[start:end])
        return Line(tuple(parts[::2]), parts[1::2], start, end)

    def again(self, line: Line, scopes: Scopes, spelled: set[str]) -> Op | None:
        """Pass over a line and give its statement, if one like it was read with operands of these types."""
        entry = self._known.get(line.texts)
        if isinstance(entry, _Read):
            entry = self._known[line.texts] = _compared(*entry)
        if entry is None:
            return None
        c, op, names, places = self._cursor, entry.op, line.names, line.places(line.start)
        values: dict[int, Value] = {}
        for at, t in entry.used:
            value = scopes.use_again(names[at], places[at], t)
            if value is None:
                return None
            values[at] = value
        c.seek(line.end)
        for at, result in zip(entry.results, op.results, strict=True):
            mention = Mention(names[at], places[at], places[at] + len(names[at]) + 1)
            values[at] = scopes.define(mention, result.type)
        if op.name == CONSTANT:
            scopes.set_constant(values[0], op.attributes[0][1])
        spelled |= entry.spelled
        return Op(
            op.name,
            tuple([values[at] for at in entry.ins]),
            tuple([values[at] for at in entry.outs]),
            tuple([values[at] for at in entry.results]),
            op.attributes,
            (),
            op.groups,
            op.form,
            c.span(line.start, line.end),
            op.implied,
        )

    def remember(self, line: Line, types: list[Type | None], op: Op, spelled: set[str]) -> None:
        """Keep the operation that was read of a line; ``types`` are those that its names had before."""
        if self._cursor.last_end == line.end and line.texts not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[line.texts] = _Read(line, types, op, frozenset(spelled))


def _compared(line: Line, types: list[Type | None], op: Op, spelled: frozenset[str]) -> _Known | None:
    """The values of a line by the positions of their names.

    None where more than their types decides what the line means: where it is not all of the statement, a
    name in it is no value of the operation, or an operand had no type.
    """
    if op.span is None or op.span.length != line.end - line.start:
        return None
    places = {column: i for i, column in enumerate(line.places(op.span.col))}
    ins, outs, results = (
        tuple([places.get(v.span.col, -1) if v.span is not None else -1 for v in values])
        for values in (op.ins, op.outs, op.results)
    )
    positions, values = (*ins, *outs, *results), (*op.ins, *op.outs, *op.results)
    if set(positions) != set(range(len(line.names))):
        return None
    if any(line.names[at] != v.name for at, v in zip(positions, values, strict=True)):
        return None
    mentions = {at: types[at] for at in (*ins, *outs)}
    compared = tuple((at, t) for at, t in mentions.items() if t is not None)
    return _Known(op, compared, ins, outs, results, spelled) if len(compared) == len(mentions) else None
