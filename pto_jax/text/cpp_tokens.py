"""Words of C++ text, with their places and the names of source values in the comments above them."""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ..errors import Span
from .lexer import VALUE_NAME, Source

_T = TypeVar("_T")
#: Expression for one word: a name with its namespaces, a number, a string, or a mark.
WORD = r"""(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
    |(?P<number>0[xX][0-9A-Fa-f]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[uUlLfF]*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<mark><<<|<<=|<<|\#\#|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|[^\s\w])"""
#: What a number is: its digits, whole or with a fraction, and its suffix.
_WHOLE = re.compile(r"(0[xX][0-9A-Fa-f]+|0[0-7]*|[1-9]\d*)([uU]?(?:ll|LL|[lL])?|(?:ll|LL|[lL])[uU])\Z")
_FRACTION = re.compile(r"((?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)([fFlL]?)\Z")
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*(?:.|\n)*?\*/)|(?P<line>^[ \t]*\#(?:[^\n\\/]|\\\n|\\|/(?![/*]))*)|" + WORD,
    re.VERBOSE | re.MULTILINE,
)
#: The comment of the assembler that names the source values of the statement below it.
_NAMES = re.compile(rf"//\s*pto:((?:\s*{VALUE_NAME},?)+)\s*\Z", re.ASCII)
#: Statements may nest regions and expressions no deeper.
MAX_DEPTH = 64


def digits(text: str) -> tuple[int | str, str] | None:
    """The value of a whole number, or the digits of another one, and its suffix; None where it is none.

    >>> digits("0x10uL"), digits("017"), digits("1.5f"), digits("1.5u")
    ((16, 'uL'), (15, ''), ('1.5', 'f'), None)
    """
    whole = _WHOLE.match(text)
    if whole is not None:
        octal = whole[1][:1] == "0" and whole[1].isdigit()
        return int(whole[1], 8 if octal else 0), whole[2]
    fraction = _FRACTION.match(text)
    return None if fraction is None else (fraction[1], fraction[2])


class Words(Source):
    """The words of a text and a place among them; directives of the preprocessor are one word each.

    >>> words = Words("v1 = v2; // pto: %x", "k.cpp")
    >>> words.take(), words.text, words.at("=")
    ('v1', '=', True)
    """

    __slots__ = ("_commented", "_comments", "depth", "index", "starts", "text", "texts")

    def __init__(self, source: str, file: str) -> None:
        super().__init__(source, file)
        self.texts: list[str] = []
        self.starts: list[int] = []
        self._commented: list[int] = []
        self._comments: list[tuple[str, ...]] = []
        texts, starts = self.texts, self.starts
        for match in _TOKEN.finditer(source):
            text = match[0]
            kind = match.lastgroup
            if kind == "comment":
                self._comment(text)
                continue
            texts.append(text if kind != "line" else " ".join(text.replace("\\\n", " ").split()))
            starts.append(match.start())
        texts.append("")
        starts.append(len(source))
        self.depth = self.index = 0
        self.text = texts[0]

    def _comment(self, text: str) -> None:
        match = _NAMES.match(text)
        if match is None:
            return
        names = tuple(name.strip(" \t,%") for name in match[1].split())
        if self._commented and self._commented[-1] == len(self.texts):
            self._comments[-1] += names
        else:
            self._commented.append(len(self.texts))
            self._comments.append(names)

    def source_name(self, index: int, *, shared: bool = False) -> str | None:
        """The source value that the statement at a word stands for, None where it names none or several.

        Of statements in a row that name the same value, the last one stands for it; with ``shared`` any.
        """
        place = bisect_right(self._commented, index) - 1
        if place < 0 or self._commented[place] != index or len(self._comments[place]) != 1:
            return None
        following = self._comments[place + 1] if place + 1 < len(self._comments) else ()
        return None if following == self._comments[place] and not shared else self._comments[place][0]

    # -- words ---------------------------------------------------------------------------------------

    def go(self, index: int) -> None:
        """Continue at a word."""
        self.index = index
        self.text = self.texts[index]

    def take(self) -> str:
        """The text of the current word, which is passed over."""
        text = self.text
        self.index += 1
        self.text = self.texts[self.index] if self.index < len(self.texts) else ""
        return text

    def peek(self, count: int = 1) -> str:
        """A word behind the current one."""
        index = self.index + count
        return self.texts[index] if index < len(self.texts) else ""

    def at(self, text: str) -> bool:
        """Whether the current word is this one."""
        return self.text == text

    def accept(self, text: str) -> bool:
        """Pass over the current word if it is this one; whether it was."""
        if self.text != text:
            return False
        self.take()
        return True

    def expect(self, text: str) -> None:
        """Pass over this word; ParseError where the current one is another."""
        if self.text != text:
            self.unexpected(f"'{text}'")
        self.take()

    def is_name(self) -> bool:
        """Whether the current word is a name."""
        return self.text[:1].isalpha() or self.text[:1] == "_"

    def name(self) -> str:
        """Pass over a name and return it; ParseError for another word."""
        if not self.is_name():
            self.unexpected("a name")
        return self.take()

    def listed(self, read: Callable[[], _T], end: str) -> list[_T]:
        """Items separated by commas up to the word ``end``, which is passed over."""
        items: list[_T] = []
        while self.text != end:
            items.append(read())
            if not self.accept(","):
                break
        self.expect(end)
        return items

    def closing(self, index: int) -> int:
        """The word that closes the bracket at a word; ParseError where none does."""
        opening = self.texts[index]
        closing = {"(": ")", "{": "}", "[": "]", "<": ">"}.get(opening)
        if closing is None:
            label = f"'{opening[:40]}'" if opening else "end of text"
            return self.fail(f"got {label}; allowed: a bracket", index)
        depth = 0
        for i in range(index, len(self.texts)):
            text = self.texts[i]
            if text == opening:
                depth += 1
            elif text == closing:
                depth -= 1
                if depth == 0:
                    return i
        return self.fail(f"got '{opening}' that nothing closes", index)

    # -- places and errors ---------------------------------------------------------------------------

    def place(self, index: int) -> Span:
        """The place of a word."""
        start = self.starts[index]
        return self.span(start, start + len(self.texts[index]))

    def unexpected(self, expected: str) -> NoReturn:
        """Raise a ParseError that names the current word and what was expected."""
        text = f"'{self.text[:40]}'" if self.text else "end of text"
        self.fail(f"got {text}; allowed: {expected}")

    def fail(self, message: str, index: int | None = None) -> NoReturn:
        """Raise a ParseError at the current word, or at a given one."""
        at = min(self.index if index is None else index, len(self.starts) - 1)
        start = self.starts[at]
        self.fail_at(message, start, start + len(self.texts[at]))
