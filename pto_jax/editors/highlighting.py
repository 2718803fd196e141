"""Categories of the tokens of program text, and the lexer for Pygments (extra ``highlight``).

Tokens are those of the reader, and the tables of the reader state which words are instructions, operations,
types and values of attributes. Sphinx, Jupyter, MkDocs and ``pygmentize`` use the lexer.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from typing import ClassVar

from pygments.lexer import Lexer
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Punctuation,
    String,
    Text,
    Whitespace,
    _TokenType,
)

from .. import isa
from ..ir import find_dtype
from ..text import attributes, programs
from ..text.formats import PREDICATES, LiteralItem, find_format, format_names
from ..text.lexer import Kind, read_token


class Category(Enum):
    """What a piece of text is."""

    COMMENT = "comment"
    STRING = "string"
    NUMBER = "number"
    VALUE = "value"
    SYMBOL = "symbol"
    TYPE = "type"
    ATTRIBUTE = "attribute"
    LABEL = "label"
    INSTRUCTION = "instruction"
    OPERATION = "operation"
    KEYWORD = "keyword"
    CONSTANT = "constant"
    NAME = "name"
    PUNCTUATION = "punctuation"
    ERROR = "error"
    BLANK = "blank"


#: Words that the reader expects in fixed places, beside those of the formats of operations.
_FIXED = (
    "module", "func.func", "attributes", "private", "public", "nested", "ins", "outs", "iter_args", "to",
    "step", "do", "else", "case", "default", "dense", "strided", "offset", "offsets", "count", "event", "loc",
    "vector", "memref", "no_tmp", "value", "T",
)  # fmt: skip
_BY_KIND = {
    Kind.STRING_LIT: Category.STRING,
    Kind.BYTES_LIT: Category.STRING,
    Kind.INTEGER_LIT: Category.NUMBER,
    Kind.FLOAT_LIT: Category.NUMBER,
    Kind.PERCENT_IDENT: Category.VALUE,
    Kind.AT_IDENT: Category.SYMBOL,
    Kind.EXCLAMATION_IDENT: Category.TYPE,
    Kind.HASH_IDENT: Category.ATTRIBUTE,
    Kind.CARET_IDENT: Category.LABEL,
}
_COMMENT = re.compile(r"(?://|#)[^\n]*")
#: Sizes behind the first one, as in 16x64xf32 and ?x37, and the start of an element type.
SIZES = r"(?<=[0-9?])x(?:[0-9]+x)*(?:[0-9]+(?![a-zA-Z0-9_$.]))?"
_SIZES = re.compile(SIZES)
_PREFIX = "pto."


@cache
def instructions() -> frozenset[str]:
    """Names of instructions and their other spellings, without ``pto.``."""
    return frozenset({*isa.instructions(), *isa.ALIASES})


@cache
def operations() -> frozenset[str]:
    """Names of operations that are no instructions: arithmetic, control flow, calls."""
    return frozenset({*format_names(), *programs.CONTROL, *programs.SPELLED}) - instructions()


@cache
def keywords() -> frozenset[str]:
    """Words in fixed places of functions and operations."""
    formats = (find_format(name) for name in format_names())
    literals = (i.text for f in formats if f is not None for i in f.items if isinstance(i, LiteralItem))
    return frozenset({*_FIXED, *(word for word in literals if word.isidentifier())})


@cache
def constants() -> frozenset[str]:
    """Names of the members of enumerations, and of the enumerations, as attributes have them."""
    members = {e.word(m) for e in attributes.ENUMERATIONS for m in e.cls}
    compared = {word for words in PREDICATES.values() for word in words}
    return frozenset({"true", "false", "unit", *members, *attributes.BY_MNEMONIC, *compared})


def category(word: str) -> Category:
    """What a bare word is.

    >>> [category(w).value for w in ("pto.tadd", "scf.for", "ins", "PIPE_V", "f32", "blayout_of_mine")]
    ['instruction', 'operation', 'keyword', 'constant', 'type', 'name']
    """
    plain = word.removeprefix(_PREFIX)
    if plain in instructions():
        return Category.INSTRUCTION
    if plain in operations():
        return Category.OPERATION
    if word in keywords():
        return Category.KEYWORD
    if word in constants() or word.removeprefix(attributes.EVENT_PREFIX).isdigit():
        return Category.CONSTANT
    return Category.TYPE if find_dtype(word) is not None else Category.NAME


def pieces(source: str) -> Iterator[tuple[int, int, Category]]:
    """Start, end and category of every piece of a text, without gaps, as far as the text is long.

    >>> [(text[a:b], c.value) for text in ("%d = tadd // sum",) for a, b, c in pieces(text) if b - a > 1]
    [('%d', 'value'), ('tadd', 'instruction'), ('// sum', 'comment')]
    """
    position = 1 if source.startswith("\ufeff") else 0
    if position:
        yield 0, 1, Category.BLANK
    while True:
        kind, start, end = read_token(source, position)
        yield from _between(source, position, start)
        if kind is Kind.EOF:
            return
        if kind is None:
            yield start, end, Category.ERROR
        elif kind is Kind.BARE_IDENT:
            yield from _word(source, start, end)
        else:
            yield start, end, _BY_KIND.get(kind, Category.PUNCTUATION)
        position = end


def _between(source: str, start: int, end: int) -> Iterator[tuple[int, int, Category]]:
    """Blanks and comments."""
    position = start
    for comment in _COMMENT.finditer(source, start, end):
        if comment.start() > position:
            yield position, comment.start(), Category.BLANK
        yield comment.start(), comment.end(), Category.COMMENT
        position = comment.end()
    if end > position:
        yield position, end, Category.BLANK


def _word(source: str, start: int, end: int) -> Iterator[tuple[int, int, Category]]:
    sizes = _SIZES.match(source, start, end)
    if sizes is not None:
        yield start, sizes.end(), Category.NUMBER
        start = sizes.end()
    if end > start:
        yield start, end, category(source[start:end])


_TOKENS: dict[Category, _TokenType] = {
    Category.COMMENT: Comment.Single,
    Category.STRING: String.Double,
    Category.NUMBER: Number,
    Category.VALUE: Name.Variable,
    Category.SYMBOL: Name.Function,
    Category.TYPE: Keyword.Type,
    Category.ATTRIBUTE: Name.Decorator,
    Category.LABEL: Name.Label,
    Category.INSTRUCTION: Name.Builtin,
    Category.OPERATION: Keyword,
    Category.KEYWORD: Keyword.Reserved,
    Category.CONSTANT: Name.Constant,
    Category.NAME: Name.Attribute,
    Category.PUNCTUATION: Punctuation,
    Category.ERROR: Error,
    Category.BLANK: Whitespace,
}


class PtoLexer(Lexer):
    """Highlights PTO text with the tokens of the reader.

    >>> from pygments.token import Name
    >>> [text for token, text in PtoLexer().get_tokens("%d = tadd %a, %b") if token is Name.Builtin]
    ['tadd']
    """

    name = "PTO"
    aliases: ClassVar[Sequence[str]] = ["pto"]
    filenames: ClassVar[Sequence[str]] = ["*.pto"]
    mimetypes: ClassVar[Sequence[str]] = ["text/x-pto"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Position, token and text of every piece."""
        for start, end, category in pieces(text):
            yield start, _TOKENS.get(category, Text), text[start:end]

    @staticmethod
    def analyse_text(text: str) -> float:
        """How sure it is that a text is PTO: its types are."""
        return 0.9 if "!pto." in text else 0.0
