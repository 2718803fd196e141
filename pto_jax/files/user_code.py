"""The expression of the user's Python code that is being evaluated: messages show it and build fixes of it.

The frames of this package, and of the libraries that call it back, are passed over. Only the text of the
expression is used: nothing of it is evaluated again.
"""

import ast
import linecache
import sys
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from ..errors import Span

_Position = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class Expression:
    """An expression of a Python file: its text, its syntax tree, and where it stands."""

    text: str
    tree: ast.expr
    span: Span

    @property
    def statement(self) -> str:
        """The keyword of a statement that the expression is the condition of, "" elsewhere."""
        line = self.span.text
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        return word if word in ("if", "elif", "while") and f"{word} {self.text}" in line else ""


def _passed_over() -> tuple[str, ...]:
    """Folders whose frames are no code of the user."""
    return _folders(tuple(name for name in ("jax", "jaxlib", "numpy") if name in sys.modules))


@lru_cache(maxsize=8)
def _folders(libraries: tuple[str, ...]) -> tuple[str, ...]:
    package = Path(__file__).resolve().parent.parent
    files = [file for name in libraries if (file := sys.modules[name].__file__) is not None]
    return (f"{package}/", f"{package.parent / 'lowering'}/", *(f"{Path(f).parent}/" for f in files))


@lru_cache(maxsize=1024)
def _positions(code: CodeType) -> tuple[_Position, ...]:
    return tuple(code.co_positions())


def expression() -> Expression | None:
    """The expression that the caller of the package evaluates; None where its text is not to be had.

    >>> expression() is None or isinstance(expression(), Expression)
    True
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(Path(frame.f_code.co_filename)).startswith(_passed_over()):
        frame = frame.f_back
    if frame is None:
        return None
    positions, index = _positions(frame.f_code), frame.f_lasti // 2
    first, last, start, end = positions[index] if 0 <= index < len(positions) else (None, None, None, None)
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, n).rstrip("\n") for n in range(first, last + 1)]
    if not lines[0]:
        return None
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    text = textwrap.dedent("\n".join(part.decode(errors="ignore") for part in encoded))
    column = len(lines[0].encode()[:start].decode(errors="ignore"))
    length = max(1, len(text) if last == first else len(lines[0]) - column)
    span = Span(frame.f_code.co_filename, first, column + 1, length, lines[0], python=True)
    try:
        return Expression(" ".join(text.split()), ast.parse(f"({text})", mode="eval").body, span)
    except SyntaxError:
        return _condition(text, span)


def sides(tree: ast.expr | None) -> list[str]:
    """The two operands of an operator or a comparison of the user's code; none of other expressions.

    >>> sides(ast.parse("a + b * c", mode="eval").body), sides(None)
    (['a', 'b * c'], [])
    """
    match tree:
        case ast.BinOp(left, _, right) | ast.Compare(left, [_], [right]):
            return [ast.unparse(left), ast.unparse(right)]
    return []


def _condition(text: str, span: Span) -> Expression | None:
    """The condition of a statement, where Python gives the whole statement as the place of it."""
    try:
        statement = ast.parse(text).body[0]
    except SyntaxError:
        return None
    if not isinstance(statement, ast.While | ast.If):
        return None
    return Expression(ast.unparse(statement.test), statement.test, span)
