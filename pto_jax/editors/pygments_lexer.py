"""PTO text for Pygments: Sphinx, Jupyter, MkDocs, ``pygmentize``. Needs the extra ``highlight``."""

from collections.abc import Iterator, Sequence
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

from .highlighting import Category, pieces

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
