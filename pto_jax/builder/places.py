"""Where in a Python file a program is being built, and what the file calls the values it binds."""

import functools
import linecache
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import NoReturn

from ..errors import BuildError, Diagnostic, Span
from ..files import user_code

#: Files whose code only passes a call on: a kernel is built when a cached property is first read.
_INNER = (str(Path(__file__).parent), functools.__file__)
_NAMES = re.compile(r"[A-Za-z_]\w*")
_TARGETS = r"[A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*"
_ASSIGNMENT = re.compile(rf"\s*({_TARGETS})\s*,?\s*(?::[^=]*)?=\s*(\(?)\s*")
_NOTHING_MORE = re.compile(r"\s*(?:[#;].*)?")
_CLOSED = re.compile(r"\s*\)\s*(?:[#;].*)?")
_IN_PLACE = re.compile(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|//|<<|>>)=[^=]")
#: The names that a statement with a block gives to what it opens.
_OPENS = re.compile(
    rf"\s*(?:for\s+([\w\s,()]+?)\s+in\s.*|with\s(?:(?!\sas\s).)*\sas\s*\(?\s*({_TARGETS})\s*,?\s*\)?\s*:.*)"
)


@dataclass(frozen=True)
class Place:
    """An expression of a Python file.

    ``targets`` are the names that the statement gives to its value, where the expression is all it
    assigns; ``variables`` those of the loop or ``with`` that it opens.
    """

    span: Span
    targets: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def target(self, index: int = 0, count: int = 1) -> str | None:
        """The name of one of ``count`` values, None where the file has none for it."""
        return self.targets[index] if len(self.targets) == count else None


def here() -> Place:
    """The expression outside this package that is being evaluated."""
    frame: FrameType = sys._getframe(1)
    inner = (*_INNER, *user_code.libraries())
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inner):
        frame = frame.f_back
    place = user_code.position(frame.f_code, frame.f_lasti)
    return _place(frame.f_code.co_filename, frame.f_lineno, place)


def _place(file: str, line: int, position: user_code.Position) -> Place:
    first, last, start, end = position
    if first is None or last is None or start is None or end is None:
        return Place(Span(file, line, 1, 1, _source(file, line), python=True))
    text = _source(file, first)
    column = _characters(text, start)
    last_text = text if last == first else _source(file, last)
    end_column = _characters(last_text, end)
    length = end_column - column if last == first else len(text) - column
    span = Span(file, first, column + 1, max(length, 1), text, python=True)
    before, after = text[:column], last_text[end_column:]
    # Older versions of Python give the whole statement as the place where its block is opened.
    opened = _OPENS.fullmatch(text)
    if opened is not None:
        return Place(span, variables=tuple(_NAMES.findall(opened.group(1) or opened.group(2))))
    if not before.strip():
        in_place = _IN_PLACE.match(text[column:])
        if in_place is not None:
            return Place(span, (in_place.group(1),))
        before = f"{_source(file, first - 1)}\n{before}"
    assignment = _ASSIGNMENT.fullmatch(before)
    if assignment is None or not _ends(after, _source(file, last + 1), bool(assignment.group(2))):
        return Place(span)
    return Place(span, tuple(_NAMES.findall(assignment.group(1))))


def _ends(after: str, following: str, in_parentheses: bool) -> bool:
    """Whether an assigned expression ends here, with the parenthesis around it."""
    if not in_parentheses:
        return _NOTHING_MORE.fullmatch(after) is not None
    return _CLOSED.fullmatch(after if after.strip() else following) is not None


def _source(file: str, line: int) -> str:
    return linecache.getline(file, line).rstrip("\n")


def _characters(text: str, column: int) -> int:
    """A position in bytes of UTF-8 as one in characters."""
    return len(text.encode()[:column].decode(errors="ignore"))


def definition(code: CodeType) -> Span:
    """The line with the ``def`` of a function, below its decorators."""
    line = code.co_firstlineno
    lines = range(line, line + 64) if code.co_name.isidentifier() else ()
    for number in lines:
        text = _source(code.co_filename, number)
        if text.lstrip().startswith(("def ", "async def ")):
            indent = len(text) - len(text.lstrip())
            return Span(code.co_filename, number, indent + 1, len(text.strip()), text, python=True)
    return Span(code.co_filename, line, 1, 1, _source(code.co_filename, line), python=True)


def fail(
    message: str,
    span: Span | None = None,
    *,
    instruction: str | None = None,
    operand: str | None = None,
    allowed: str = "",
    fix: str = "",
) -> NoReturn:
    """Raise BuildError at a place of the Python file: where it is now, unless another one is given."""
    place = span or here().span
    raise BuildError(
        Diagnostic("error", message, place, instruction, operand, "call", allowed=allowed, fix=fix)
    )
