"""Attribute values and dictionaries, read and printed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from .. import errors, isa
from ..ir import AccPushEpilogue, AddressSpace, AttrValue, CmpMode, RoundMode, SaturationMode, Symbol
from ..isa import find_micro
from .attributes import (
    BY_CLASS,
    BY_MNEMONIC,
    EPILOGUE,
    enumeration,
    epilogue,
    event,
    named_member,
    print_epilogue,
    print_key,
    quoted,
)
from .lexer import Cursor, Kind
from .type_text import print_type

if TYPE_CHECKING:
    from ..isa import Attribute
    from .types import TypeReader

#: Enumerations of keys on instructions without a declaration, for values written as bare words.
_KEYED: dict[str, type[IntEnum]] = {
    "cmp": CmpMode,
    "cmpMode": CmpMode,
    "rmode": RoundMode,
    "sat_mode": SaturationMode,
}
#: Keys whose value may leave out ``#pto.address_space``.
_SPACES = ("location",)
#: Integer attributes that the assembler wants as 32-bit values.
_I32_KEYS = ("rounds", "offset", "upperOrLower", "ffts_mode")
#: Text that is kept as written because no type of the IR describes it.
_VERBATIM = re.compile(r"#[A-Za-z]|array<|affine_map<|dense<|[{<]")
Places = dict[str, errors.Span]


class DictionaryReader:
    """Reads attribute values at the cursor of a type reader."""

    def __init__(self, types: TypeReader) -> None:
        self.types = types
        self.cursor = types.cursor

    def value(self, key: str = "") -> AttrValue:
        """One attribute value, with the type suffix of a number passed over."""
        c = self.cursor
        if c.kind is Kind.STRING_LIT:
            return c.string("")
        if c.kind in (Kind.INTEGER_LIT, Kind.FLOAT_LIT, Kind.MINUS):
            number = c.number("a number")
            if c.accept(Kind.COLON):
                self.types.read()
            return number
        if c.kind is Kind.L_SQUARE:
            return self._list()
        if c.kind is Kind.AT_IDENT:
            return self.symbol()
        if c.kind is Kind.HASH_IDENT:
            return self._hash()
        if c.kind is Kind.L_PAREN:
            return self._function_type()
        if c.kind is Kind.LESS and key in _SPACES:
            return enumeration(c, AddressSpace, "address_space")
        if c.kind in (Kind.L_BRACE, Kind.LESS):
            return self.types.balanced()
        if c.kind is Kind.EXCLAMATION_IDENT or (c.kind is Kind.BARE_IDENT and c.text in ("memref", "vector")):
            return self.types.read()
        if c.kind is Kind.BARE_IDENT:
            return self._word()
        return c.unexpected("the value of an attribute")

    def _word(self) -> AttrValue:
        c = self.cursor
        if c.text in ("true", "false"):
            return c.take() == "true"
        if c.peek()[0] is Kind.LESS:
            word = c.take()
            if word == "array":
                return self._array()
            text = word + self.types.balanced()
            if word == "dense" and c.accept(Kind.COLON):
                text += f" : {c.take()}{self.types.balanced()}"
            return text
        if c.text not in ("_", "dtype") and self.types.starts():
            return self.types.read()
        return c.take()

    def _function_type(self) -> tuple[AttrValue, ...]:
        """``(T, T) -> T``: the types of arguments and those of results."""
        c = self.cursor
        takes = c.enclosed(Kind.L_PAREN, self.types.read)
        c.expect(Kind.ARROW)
        several = c.kind is Kind.L_PAREN
        gives = c.enclosed(Kind.L_PAREN, self.types.read) if several else [self.types.read()]
        return tuple(takes), tuple(gives)

    def _list(self) -> tuple[AttrValue, ...]:
        c = self.cursor
        c.deeper("a list")
        items = c.enclosed(Kind.L_SQUARE, self.value)
        c.shallower()
        return tuple(items)

    def _array(self) -> tuple[AttrValue, ...]:
        """``array<i32: 1, 0>``."""
        c = self.cursor
        opened = c.open(Kind.LESS)
        self.types.read()
        items: list[AttrValue] = []
        if c.accept(Kind.COLON):
            items = list(c.listed(lambda: c.number("a number"), Kind.GREATER))
        c.close(Kind.GREATER, opened)
        return tuple(items)

    def _hash(self) -> AttrValue:
        """``#pto.layout<nd>``, ``#pto<cmp eq>``, or any other attribute as text."""
        c = self.cursor
        start = c.start
        name = c.text.removeprefix("#pto.")
        two_words = c.text == "#pto"
        c.advance()
        if c.kind is not Kind.LESS:
            return c.source[start : c.last_end]
        if two_words:
            name = c.peek()[1]
        if name == EPILOGUE and not two_words:
            return epilogue(c)
        style = BY_MNEMONIC.get(name)
        if style is not None or name == "event":
            c.seek(start)
            return event(c) if style is None else enumeration(c, style.cls, style.mnemonic)
        head = c.source[start : c.last_end]
        return head + self.types.balanced()

    def symbol(self) -> Symbol:
        """``@name`` or ``@"name"``."""
        c = self.cursor
        name = c.expect(Kind.AT_IDENT)[1:]
        return Symbol(name[1:-1] if name.startswith('"') else name)

    # -- dictionaries --------------------------------------------------------------------------------

    def dictionary(self, attributes: dict[str, AttrValue], places: Places, instruction: str | None) -> None:
        """``{key = value, key}``, added to the attributes found so far."""
        c = self.cursor
        c.deeper("an attribute dictionary")
        c.enclosed(Kind.L_BRACE, lambda: self._entry(attributes, places, instruction))
        c.shallower()

    def _entry(self, attributes: dict[str, AttrValue], places: Places, instruction: str | None) -> None:
        c = self.cursor
        start, span = c.start, c.here()
        key = c.string("") if c.kind is Kind.STRING_LIT else c.expect(Kind.BARE_IDENT, "an attribute key")
        value_start = c.start
        value: AttrValue = True
        if c.accept(Kind.EQUAL):
            value_start = c.start
            value = self.value(key)
        self.store(attributes, places, instruction, key, value, (start, span, value_start))

    def trailing(self, attributes: dict[str, AttrValue], places: Places, instruction: str) -> None:
        """`` #key=value``, the attribute spelling of the assembly form."""
        c = self.cursor
        start, span = c.start, c.here()
        key = c.take()[1:]
        c.expect(Kind.EQUAL)
        value_start = c.start
        self.store(attributes, places, instruction, key, self.value(key), (start, span, value_start))

    def store(
        self,
        attributes: dict[str, AttrValue],
        places: Places,
        instruction: str | None,
        key: str,
        value: AttrValue,
        at: tuple[int, errors.Span, int],
    ) -> None:
        """Add an attribute under its declared name; a second one of the name is an error."""
        c = self.cursor
        declared = declared_attribute(instruction, key)
        name = declared.name if declared else key
        if name in places:
            first = places[name]
            c.fail(
                f"got the attribute '{key}' twice (first on line {first.line}, column {first.col})",
                start=at[0],
                end=at[0] + at[1].length,
            )
        expected = declared.type if declared else _keyed(instruction, key)
        if isinstance(value, str) and issubclass(expected, IntEnum):
            value = named_member(c, expected, name, text=value, start=at[2])
        elif type(value) is int and issubclass(expected, IntEnum) and value in list(expected):
            value = expected(value)
        elif isinstance(value, IntEnum) and issubclass(expected, IntEnum):
            # Programs write comparisons of flags as those of tiles, which are numbered differently.
            value = expected.__members__.get(value.name, value)
        attributes[name] = value
        places[name] = at[1]


def _keyed(instruction: str | None, key: str) -> type[Any]:
    """The type of values of a key that no declaration has; micro-operations keep strings."""
    expected = _KEYED.get(key)
    return str if expected is None or (instruction and find_micro(instruction)) else expected


def declared_attribute(instruction: str | None, key: str) -> Attribute | None:
    """The declaration of an instruction's attribute in any of its spellings."""
    declaration = isa.find(instruction) if instruction is not None else None
    return declaration.attribute(key) if declaration is not None else None


# -- printing ----------------------------------------------------------------------------------------


def print_value(value: AttrValue, key: str = "") -> str:
    """An attribute value as it is read back."""
    if value is None:
        return "unit"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, IntEnum):
        style = BY_CLASS.get(type(value))
        return style.text(value) if style else quoted(value.name)
    if isinstance(value, int):
        return f"{value} : i32" if key in _I32_KEYS else str(value)
    if isinstance(value, float):
        return print_float(value)
    if isinstance(value, Symbol):
        return print_symbol(value.name)
    if isinstance(value, str):
        return value if _reads_back(value) else quoted(value)
    if isinstance(value, AccPushEpilogue):
        return print_epilogue(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(print_value(v) for v in value) + "]"
    return print_type(value)


def _reads_back(text: str) -> bool:
    """Whether the text, printed without quotes, is an attribute that is kept as exactly this text."""
    from .types import TypeReader

    if not _VERBATIM.match(text):
        return False
    try:
        reader = DictionaryReader(TypeReader(Cursor(text, "")))
        return reader.value() == text and reader.cursor.kind is Kind.EOF
    except errors.ParseError:
        return False


def print_float(value: float) -> str:
    """A finite number with the decimal point that MLIR asks for.

    >>> print_float(1e-6), print_float(2.0)
    ('1.0e-06', '2.0')
    """
    text = repr(float(value))
    mantissa, mark, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + mark + exponent


def print_symbol(name: str) -> str:
    """``@name``, quoted where the name is not an identifier."""
    return "@" + print_key(name)


def _declared_text(declared: Attribute | None, value: AttrValue) -> str:
    """A member of an enumeration that goes by another name with an instruction, "" for other values."""
    if declared is None or not declared.mnemonic or not isinstance(value, IntEnum):
        return ""
    return f"#pto<{declared.mnemonic} {BY_CLASS[type(value)].word(value)}>"


def print_attributes(attributes: Iterable[tuple[str, AttrValue]], instruction: str | None = None) -> str:
    """A dictionary with a blank before it, or nothing when there are no attributes."""
    entries = []
    for key, value in attributes:
        declared = declared_attribute(instruction, key)
        spelled = declared.keys[0] if declared else key
        if value is True and instruction is None:
            entries.append(print_key(spelled))
        else:
            entries.append(
                f"{print_key(spelled)} = {_declared_text(declared, value) or print_value(value, key)}"
            )
    return " {" + ", ".join(entries) + "}" if entries else ""
