"""Tokens of program text, and the cursor over them with spans and errors.

The tokens are those of MLIR's generic syntax, all ASCII. Comments begin with ``//``; instructions of
documentation pages, which are no program, also have lines that begin with ``#`` and a blank.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from ..errors import Diagnostic, ParseError, Span


@dataclass(frozen=True, eq=False, slots=True)
class TokenKind:
    """A kind of token; the value is how messages name it."""

    value: str


class Kind:
    """The kinds of tokens.

    No enumeration: naming a member of one takes several times as long, and readers name some per token.
    """

    EOF = TokenKind("end of text")
    BARE_IDENT = TokenKind("a name")
    AT_IDENT = TokenKind("a symbol '@name'")
    HASH_IDENT = TokenKind("an attribute '#name'")
    PERCENT_IDENT = TokenKind("a value '%name'")
    CARET_IDENT = TokenKind("a block label '^name'")
    EXCLAMATION_IDENT = TokenKind("a type '!name'")
    FLOAT_LIT = TokenKind("a number with a decimal point")
    INTEGER_LIT = TokenKind("an integer")
    STRING_LIT = TokenKind("a string")
    BYTES_LIT = TokenKind("a string of bytes")
    ARROW = TokenKind("'->'")
    COLON = TokenKind("':'")
    COMMA = TokenKind("','")
    ELLIPSIS = TokenKind("'...'")
    EQUAL = TokenKind("'='")
    GREATER = TokenKind("'>'")
    L_BRACE = TokenKind("'{'")
    L_PAREN = TokenKind("'('")
    L_SQUARE = TokenKind("'['")
    LESS = TokenKind("'<'")
    MINUS = TokenKind("'-'")
    PLUS = TokenKind("'+'")
    QUESTION = TokenKind("'?'")
    R_BRACE = TokenKind("'}'")
    R_PAREN = TokenKind("')'")
    R_SQUARE = TokenKind("']'")
    SLASH = TokenKind("'/'")
    STAR = TokenKind("'*'")
    VERTICAL_BAR = TokenKind("'|'")
    METADATA_BEGIN = TokenKind("'{-#'")
    METADATA_END = TokenKind("'#-}'")


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
BLANKS = r"[ \t\n\r\f\v]*+(?://[^\n]*+[ \t\n\r\f\v]*+)*+"
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
_ANY = "|".join(f"({pattern})" for pattern in PATTERNS.values())
_TOKEN = re.compile(_ANY)
#: The next token, where no comment of a page stands before it.
_NEXT = re.compile(f"{BLANKS}(?:{_ANY})")
_BLANK = re.compile(BLANKS)
_PAGE_COMMENT = re.compile(r"#(?=[ \t\r\n#]|\Z)[^\n]*+")
_COMMENT_LINE = re.compile(rf"^[ \t\r\f\v]*+{_PAGE_COMMENT.pattern}", re.MULTILINE)


def read_token(source: str, position: int) -> tuple[TokenKind | None, int, int]:
    """Kind, start and end of the first token at or after a character position.

    The kind is None where no token begins with the character at ``start``.

    >>> read_token("  %d = tadd", 0), read_token("// nothing", 0), read_token("a ; b", 1)
    ((TokenKind(value="a value '%name'"), 2, 4), (TokenKind(value='end of text'), 10, 10), (None, 2, 3))
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


#: Larger texts are refused before anything is read.
MAX_CHARACTERS = 16 * 1024 * 1024
#: Nested regions, and nested brackets inside types and attributes.
MAX_DEPTH = 64
#: Longer source lines are left out of messages.
MAX_SHOWN_LINE = 4000
#: What MLIR accepts for a 64-bit attribute, signed or unsigned.
MIN_INTEGER, MAX_INTEGER = -(1 << 63), (1 << 64) - 1

_NEW_LINE = re.compile("\n")
_T = TypeVar("_T")


class Source:
    """A text and the places of its characters."""

    __slots__ = ("_begin", "_line", "_lines", "_shown", "_starts", "_stop", "file", "source")

    def __init__(self, source: str, file: str) -> None:
        self.source = source
        self.file = file
        self._starts: list[int] = []
        self._lines: dict[int, str] = {}
        #: The line that the last span is of: its number, where it begins and ends, and its text.
        self._line, self._begin, self._stop, self._shown = 0, 0, -1, ""
        if len(source) > MAX_CHARACTERS:
            self.fail_at(f"the text has {len(source)} characters; at most {MAX_CHARACTERS} are read", 0, 1)

    def span(self, start: int, end: int) -> Span:
        """The place of characters ``start`` to ``end`` (cut at the end of the first line)."""
        if not self._begin <= start <= self._stop:
            self._go_to_line(start)
        length = (end if end < self._stop else self._stop) - start
        return Span(self.file, self._line, start - self._begin + 1, length if length > 1 else 1, self._shown)

    def _go_to_line(self, position: int) -> None:
        """Keep what spans need of the line that has a character; the next one is mostly of the same line."""
        if not self._starts:
            self._starts = [0, *(match.end() for match in _NEW_LINE.finditer(self.source))]
        line = self._line = bisect_right(self._starts, position)
        self._begin = self._starts[line - 1]
        self._stop = self._starts[line] - 1 if line < len(self._starts) else len(self.source)
        text = self._lines.get(line)
        if text is None:
            is_short = self._stop - self._begin <= MAX_SHOWN_LINE
            text = self.source[self._begin : self._stop].rstrip("\r") if is_short else ""
            self._lines[line] = text
        self._shown = text

    def offset(self, span: Span) -> int:
        """The character position of a span of this text."""
        return self._starts[span.line - 1] + span.col - 1

    def fail_at(self, message: str, start: int, end: int, allowed: str = "", fix: str = "") -> NoReturn:
        """Raise a ParseError at the given characters."""
        raise ParseError(Diagnostic("error", message, self.span(start, end), allowed=allowed, fix=fix))


class Cursor(Source):
    """The current token of a text and the operations a recursive-descent reader needs.

    >>> c = Cursor("tadd %d", "<text>")
    >>> c.text, c.take(), c.text
    ('tadd', 'tadd', '%d')
    """

    __slots__ = (
        "depth",
        "end",
        "kind",
        "last_end",
        "regions",
        "start",
        "text",
    )

    def __init__(self, source: str, file: str) -> None:
        super().__init__(source, file)
        self.regions = self.depth = 0
        self.kind = Kind.EOF
        self.text = ""
        self.start = self.end = self.last_end = 0
        self.end = 1 if source.startswith("\ufeff") else 0
        self.advance()

    # -- tokens --------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Go to the next token."""
        self.last_end = self.end
        match = _NEXT.match(self.source, self.end)
        if match is not None:
            group = match.lastindex or 0
            self.kind = _KINDS[group]
            self.text = text = match[group]
            self.end = end = match.end()
            self.start = end - len(text)
        else:
            self.kind, self.start, self.end = self._token(self.end)
            self.text = self.source[self.start : self.end]

    def _token(self, position: int) -> tuple[TokenKind, int, int]:
        kind, start, end = read_token(self.source, position)
        if kind is None:
            comment = _PAGE_COMMENT.match(self.source, start)
            if comment is not None:
                self._refuse_comment(comment)
            self.fail(self._unreadable(start), start=start, end=end)
        return kind, start, end

    def refuse_page_comments(self) -> None:
        """ParseError for a comment that only documentation pages have."""
        comment = _COMMENT_LINE.search(self.source) if "#" in self.source else None
        if comment is not None:
            self._refuse_comment(comment)

    def _refuse_comment(self, comment: re.Match[str]) -> NoReturn:
        text = comment[0].strip()
        self.fail_at(f"got {text}", comment.end() - len(text), comment.end(), "//", f"//{text[1:]}")

    def _unreadable(self, start: int) -> str:
        match self.source[start : start + 1]:
            case '"':
                return (
                    "got a string that is not closed on its line (or has an unknown escape); "
                    'allowed escapes: \\n \\t \\\\ \\" and two hexadecimal digits'
                )
            case ("%" | "#" | "!" | "^" | "@") as sign:
                return f"got {sign!r} without a name after it"
            case character:
                return f"got the character {character!r}, which no PTO text contains here"

    def seek(self, position: int) -> None:
        """Continue at a character position, which must be the start of a token."""
        self.end = position
        self.advance()

    def peek(self) -> tuple[TokenKind, str]:
        """Kind and text of the token after the current one."""
        kind, start, end = self._token(self.end)
        return kind, self.source[start:end]

    def skip_brackets(self) -> None:
        """Pass the group that the bracket here opens, without a look at what is in it."""
        depth = 0
        while self.kind is not Kind.EOF:
            depth += (self.kind in CLOSING) - (self.kind in CLOSING.values())
            self.advance()
            if depth <= 0:
                return

    def at(self, kind: TokenKind, text: str | None = None) -> bool:
        """Whether the current token is of a kind and, where one is given, has a text."""
        return self.kind is kind and (text is None or self.text == text)

    def at_word(self, word: str) -> bool:
        """Whether the current token is this bare identifier."""
        return self.kind is Kind.BARE_IDENT and self.text == word

    def take(self) -> str:
        """The text of the current token, which is passed over."""
        text = self.text
        self.advance()
        return text

    def accept(self, kind: TokenKind) -> bool:
        """Pass over the current token if it is of the kind; whether it was."""
        if self.kind is not kind:
            return False
        self.advance()
        return True

    def accept_word(self, word: str) -> bool:
        """Pass over the current token if it is this bare identifier; whether it was."""
        if not self.at_word(word):
            return False
        self.advance()
        return True

    def expect(self, kind: TokenKind, role: str = "") -> str:
        """Pass over a token of the kind and return its text; ``role`` says what it stands for.

        ParseError where the current token is of another kind.
        """
        if self.kind is not kind:
            self.unexpected(kind.value + (f" ({role})" if role else ""))
        return self.take()

    def expect_word(self, word: str) -> None:
        """Pass over this bare identifier; ParseError where the current token is another."""
        if not self.accept_word(word):
            self.unexpected(f"'{word}'")

    def open(self, bracket: TokenKind, role: str = "") -> int:
        """Pass over an opening bracket as :meth:`expect` does, and return where it stands."""
        opened = self.start
        self.expect(bracket, role)
        return opened

    def close(self, kind: TokenKind, opened: int) -> None:
        """Pass over a closing bracket; ParseError, with the place it was opened at, for another token."""
        if self.kind is not kind:
            place = self.span(opened, opened + 1)
            self.unexpected(
                f"{kind.value} to close '{self.source[opened]}' of line {place.line}, column {place.col}"
            )
        self.advance()

    def listed(self, read: Callable[[], _T], end: TokenKind) -> list[_T]:
        """Items separated by commas up to (not including) a token of the kind ``end``."""
        items: list[_T] = []
        while self.kind is not end:
            items.append(read())
            if not self.accept(Kind.COMMA):
                break
        return items

    def enclosed(self, bracket: TokenKind, read: Callable[[], _T], role: str = "") -> list[_T]:
        """Items separated by commas between a bracket of the kind and the one that closes it."""
        opened = self.open(bracket, role)
        items = self.listed(read, CLOSING[bracket])
        self.close(CLOSING[bracket], opened)
        return items

    # -- numbers -------------------------------------------------------------------------------------

    def integer(self, role: str) -> int:
        """An integer literal with an optional minus sign; ParseError for another token, or beyond 64 bits."""
        start = self.start
        negative = self.accept(Kind.MINUS)
        text = self.expect(Kind.INTEGER_LIT, role)
        return self._integer_value(text, negative, start)

    def _integer_value(self, text: str, negative: bool, start: int) -> int:
        hexadecimal = text.startswith("0x")
        digits = text[2:] if hexadecimal else text
        value = int(digits, 16 if hexadecimal else 10) if len(digits) <= 20 else MAX_INTEGER + 1
        value = -value if negative else value
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            allowed = f"{MIN_INTEGER} to {MAX_INTEGER}"
            self.fail_since(start, f"got an integer that does not fit 64 bits; allowed: {allowed}")
        return value

    def number(self, role: str) -> int | float:
        """An integer or a number with a decimal point; ParseError for another token, or one too large."""
        if self.kind is Kind.FLOAT_LIT or (self.kind is Kind.MINUS and self.peek()[0] is Kind.FLOAT_LIT):
            start = self.start
            sign = -1.0 if self.accept(Kind.MINUS) else 1.0
            text = self.take()
            value = float(text)
            if value == float("inf"):
                self.fail_since(start, "got a number too large for any PTO type")
            return sign * value
        return self.integer(role)

    def string(self, role: str) -> str:
        """The contents of a string literal, escapes replaced; ParseError for another token."""
        text = self.text
        self.expect(Kind.STRING_LIT, role)
        return _unescaped(text[1:-1]) if "\\" in text else text[1:-1]

    # -- places and errors ---------------------------------------------------------------------------

    def here(self) -> Span:
        """The place of the current token."""
        return self.span(self.start, self.end)

    def found(self) -> str:
        """The current token as messages name it."""
        if self.kind is Kind.EOF:
            return "end of text"
        return f"'{self.text if len(self.text) <= 40 else self.text[:37] + '...'}'"

    def unexpected(self, expected: str) -> NoReturn:
        """Raise a ParseError that names the current token and what was expected."""
        value = expected.startswith("a value ")
        fix = f"%{self.text}" if value and self.text.isidentifier() else ""
        if value and re.fullmatch(r"\d+(\.\d+)?", self.text):
            fix = f"%c = arith.constant {self.text} : {'f32' if '.' in self.text else 'index'}"
        closing = re.match(r"'([\])}>])'", expected) or (
            self.kind is Kind.EOF and re.search(r"'(})'$", expected)
        )
        if closing and self.text.startswith("%"):
            expected, fix = f"',' or {expected}", f", {self.text}"
        elif closing:
            fix = closing[1]
        self.fail(f"got {self.found()}", allowed=expected, fix=fix)

    def fail(
        self,
        message: str,
        *,
        start: int | None = None,
        end: int | None = None,
        allowed: str = "",
        fix: str = "",
    ) -> NoReturn:
        """Raise a ParseError at the current token, or at the given characters."""
        begin = self.start if start is None else start
        stop = self.end if end is None else end
        self.fail_at(message, begin, stop, allowed, fix)

    def fail_since(self, start: int, message: str) -> NoReturn:
        """Raise a ParseError at all that was read since a character."""
        self.fail(message, start=start, end=self.last_end)

    def deeper(self, what: str) -> None:
        """Count one level of nesting inside an operation; ParseError beyond the limit.

        :meth:`shallower` undoes it.
        """
        self.depth += 1
        self._limit(what, self.depth)

    def shallower(self) -> None:
        """Count one level of nesting less."""
        self.depth -= 1

    def region_begins(self) -> None:
        """Count one region; ``region_ends`` undoes it.

        Regions count apart, so that no other spelling of an operation inside them is too deep.
        """
        self.regions += 1
        self._limit("a region", self.regions)

    def region_ends(self) -> None:
        """Count one region less."""
        self.regions -= 1

    def _limit(self, what: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.fail(f"got {what} nested more than {MAX_DEPTH} levels deep, the limit")


def _unescaped(body: str) -> str:
    """The characters that a text stands for."""
    escapes = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
    out: list[str] = []
    position = 0
    while position < len(body):
        character = body[position]
        if character != "\\":
            out.append(character)
            position += 1
        elif (escaped := escapes.get(body[position + 1 : position + 2])) is not None:
            out.append(escaped)
            position += 2
        else:
            out.append(chr(int(body[position + 1 : position + 3], 16)))
            position += 3
    return "".join(out)
