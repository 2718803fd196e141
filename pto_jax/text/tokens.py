"""The tokens of program text: those of MLIR's generic syntax, all ASCII.

Comments begin with ``//``, or with ``#`` where that is the first character of a line and a blank follows, as
the documentation pages write them.
"""

import re
from enum import Enum


class Kind(Enum):
    """A kind of token; the value is how messages name it."""

    EOF = "end of text"
    BARE_IDENT = "a name"
    AT_IDENT = "a symbol '@name'"
    HASH_IDENT = "an attribute '#name'"
    PERCENT_IDENT = "a value '%name'"
    CARET_IDENT = "a block label '^name'"
    EXCLAMATION_IDENT = "a type '!name'"
    FLOAT_LIT = "a number with a decimal point"
    INTEGER_LIT = "an integer"
    STRING_LIT = "a string"
    BYTES_LIT = "a string of bytes"
    ARROW = "'->'"
    COLON = "':'"
    COMMA = "','"
    ELLIPSIS = "'...'"
    EQUAL = "'='"
    GREATER = "'>'"
    L_BRACE = "'{'"
    L_PAREN = "'('"
    L_SQUARE = "'['"
    LESS = "'<'"
    MINUS = "'-'"
    PLUS = "'+'"
    QUESTION = "'?'"
    R_BRACE = "'}'"
    R_PAREN = "')'"
    R_SQUARE = "']'"
    SLASH = "'/'"
    STAR = "'*'"
    VERTICAL_BAR = "'|'"
    METADATA_BEGIN = "'{-#'"
    METADATA_END = "'#-}'"


#: Kinds of which all tokens are the same characters, by these.
PUNCTUATION = {kind.value[1:-1]: kind for kind in Kind if kind.value.startswith("'")}

#: What closes a bracket.
CLOSING = {
    Kind.L_BRACE: Kind.R_BRACE,
    Kind.L_PAREN: Kind.R_PAREN,
    Kind.L_SQUARE: Kind.R_SQUARE,
    Kind.LESS: Kind.GREATER,
}

# A string of characters has escapes below 128 only; with others it is one of bytes.
_STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|%s[0-9A-Fa-f]))*+"'
_CHARACTERS, _BYTES = _STRING % "[0-7]", _STRING % "[0-9A-Fa-f]"
_NAME = r"[a-zA-Z_][a-zA-Z0-9_$.]*+"
_SUFFIX = r"(?:[0-9]++|[a-zA-Z$._-][a-zA-Z0-9$._-]*+)"
#: Expressions for the name of a value, and for what may stand between tokens besides comments of pages.
VALUE_NAME = f"%{_SUFFIX}"
BLANKS = r"(?:[ \t\n\r\f\v]++|//[^\n]*+)*+"
#: Regular expressions of the kinds; the first that matches is the token, and the most frequent ones stand
#: first.
PATTERNS = {
    Kind.BARE_IDENT: _NAME,
    Kind.PERCENT_IDENT: VALUE_NAME,
    Kind.COMMA: ",",
    Kind.LESS: "<",
    Kind.GREATER: ">",
    Kind.EQUAL: "=",
    Kind.COLON: ":",
    Kind.FLOAT_LIT: r"[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?+",
    Kind.INTEGER_LIT: r"0x[0-9a-fA-F]++|[0-9]++",
    Kind.EXCLAMATION_IDENT: f"!{_SUFFIX}",
    Kind.METADATA_END: r"#-\}",
    Kind.HASH_IDENT: f"#{_SUFFIX}",
    Kind.L_PAREN: r"\(",
    Kind.R_PAREN: r"\)",
    Kind.METADATA_BEGIN: r"\{-#",
    Kind.L_BRACE: r"\{",
    Kind.R_BRACE: r"\}",
    Kind.L_SQUARE: r"\[",
    Kind.R_SQUARE: r"\]",
    Kind.ARROW: "->",
    Kind.MINUS: "-",
    Kind.STRING_LIT: _CHARACTERS,
    Kind.BYTES_LIT: _BYTES,
    Kind.AT_IDENT: f"@(?:{_NAME}|{_BYTES})",
    Kind.QUESTION: r"\?",
    Kind.ELLIPSIS: r"\.\.\.",
    Kind.CARET_IDENT: rf"\^{_SUFFIX}",
    Kind.STAR: r"\*",
    Kind.PLUS: r"\+",
    Kind.SLASH: "/",
    Kind.VERTICAL_BAR: r"\|",
}
_KINDS = (Kind.EOF, *PATTERNS)
_TOKEN = re.compile("|".join(f"({pattern})" for pattern in PATTERNS.values()))
_BLANK = re.compile(BLANKS)
_PAGE_COMMENT = re.compile(r"#(?=[ \t\r\n#]|\Z)[^\n]*+")


def read_token(source: str, position: int) -> tuple[Kind | None, int, int]:
    """Kind, start and end of the first token at or after a character position.

    The kind is None where no token begins with the character at ``start``.

    >>> read_token("  %d = tadd", 0), read_token("// nothing", 0), read_token("a ; b", 1)
    ((<Kind.PERCENT_IDENT: "a value '%name'">, 2, 4), (<Kind.EOF: 'end of text'>, 10, 10), (None, 2, 3))
    """
    start = _after_blanks(source, position)
    token = _TOKEN.match(source, start)
    if token is not None:
        assert token.lastindex is not None
        return _KINDS[token.lastindex], start, token.end()
    if start == len(source):
        return Kind.EOF, start, start
    # The string behind an at sign is what is wrong.
    start += source.startswith('@"', start)
    return None, start, start + 1


def _after_blanks(source: str, position: int) -> int:
    while True:
        blanks = _BLANK.match(source, position)
        assert blanks is not None
        position = blanks.end()
        if source[position : position + 1] != "#":  # Mostly so, and faster than to try the expression.
            return position
        comment = _PAGE_COMMENT.match(source, position)
        if comment is None or source[source.rfind("\n", 0, position) + 1 : position].strip("\ufeff \t\r\f\v"):
            return position
        position = comment.end()
