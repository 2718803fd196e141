"""The expression of the user's Python code that is being evaluated: messages show it and build fixes of it.

The frames of this package, and of the libraries that call it back, are passed over. Only the text of the
expression is used: nothing of it is evaluated again.
"""

import ast
import copy
import linecache
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..errors import Span

Position = tuple[int | None, int | None, int | None, int | None]

_NAMES = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Expression:
    """An expression of a Python file: its text, its syntax tree, where it stands, and its frame."""

    text: str
    tree: ast.expr
    span: Span
    frame: FrameType = field(repr=False)

    def named(self) -> Iterator[Any]:
        """The objects that the expression names, and those of the names behind it in its line."""
        tree = (n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name))
        for name in dict.fromkeys((*tree, *_NAMES.findall(self.span.text[self.span.col - 1 :]))):
            yield self.frame.f_locals.get(name, self.frame.f_globals.get(name))

    def objects(self) -> Iterator[Any]:
        """The objects that are named, and those that they hold."""
        for value in self.named():
            yield value
            if isinstance(value, list | tuple | set):
                yield from value
            elif isinstance(value, dict):
                yield from value.values()
            elif not isinstance(value, ModuleType | type):
                yield from getattr(value, "__dict__", {}).values()

    @property
    def choice(self) -> ast.IfExp | None:
        """The conditional expression whose condition the expression is: None elsewhere."""
        nodes = [n for s in path(self.span)[-1:] for n in ast.walk(s)]
        choices = (n for n in nodes if isinstance(n, ast.IfExp))
        place = self.span.line, len(self.span.text[: self.span.col - 1].encode())
        return next((n for n in choices if (n.test.lineno, n.test.col_offset) == place), None)

    @property
    def statement(self) -> str:
        """The keyword of a statement that the expression is the condition of, "" elsewhere."""
        line = self.span.text
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        return word if word in ("if", "elif", "while") and f"{word} {self.text}" in line else ""


def libraries() -> tuple[str, ...]:
    """Folders of the libraries that call the package back."""
    return _folders(tuple(name for name in ("jax", "jaxlib", "numpy") if name in sys.modules))


@lru_cache(maxsize=8)
def _folders(names: tuple[str, ...]) -> tuple[str, ...]:
    files = [file for name in names if (file := sys.modules[name].__file__) is not None]
    return tuple(f"{Path(f).parent}/" for f in files)


_PACKAGE = Path(__file__).resolve().parent.parent
#: Folders of the package.
_OWN = (f"{_PACKAGE}/", f"{_PACKAGE.parent / 'lowering'}/")
#: Folders of Python and of what is installed.
_FOLDERS = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
_INSTALLED = ("<frozen ", *(f"{folder}/" for folder in _FOLDERS))


@lru_cache(maxsize=1024)
def _positions(code: CodeType) -> tuple[Position, ...]:
    return tuple(code.co_positions())


def position(code: CodeType, at: int) -> Position:
    """First and last line, first and last column of an instruction of Python: None for what is not known."""
    positions, index = _positions(code), at // 2
    return positions[index] if 0 <= index < len(positions) else (None, None, None, None)


def expression() -> Expression | None:
    """The expression that the caller of the package evaluates; None where its text is not to be had.

    >>> expression() is None or isinstance(expression(), Expression)
    True
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*_OWN, *libraries())):
        frame = frame.f_back
    return _expression(frame, frame.f_lasti) if frame is not None else None


def failing_expression(error: BaseException, file: str) -> tuple[Expression, bool] | None:
    """The expression that raised an error of Python or a library, and whether it called a library.

    It is that of the innermost frame outside of libraries; ``file`` is code of the user wherever it is
    installed. None where its text is not to be had.
    """
    own, trace, result = f"{Path(file).parent}/", error.__traceback__, None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == file or name.startswith(own) or not name.startswith((*_OWN, *_INSTALLED)):
            result = trace
        trace = trace.tb_next
    written = _expression(result.tb_frame, result.tb_lasti) if result is not None else None
    return None if result is None or written is None else (written, result.tb_next is not None)


def path(span: Span) -> list[ast.stmt]:
    """The statements around a line of the user's code, the one that begins there last; [] of other lines."""
    tree, result = _tree("".join(linecache.getlines(span.file))), list[ast.stmt]()
    while True:
        inner = (n for n in ast.iter_child_nodes(tree) if isinstance(n, ast.stmt)) if tree is not None else ()
        tree = next((n for n in inner if _first(n) <= span.line <= (n.end_lineno or n.lineno)), None)
        if tree is None:
            return []
        result.append(tree)
        if tree.lineno == span.line:
            return result


def _first(statement: ast.stmt) -> int:
    """The first line of a statement, that of its decorators."""
    return min((d.lineno for d in getattr(statement, "decorator_list", ())), default=statement.lineno)


def definition(span: Span) -> ast.stmt | None:
    """The statement of the user's code that begins at a location: None where its file cannot be read."""
    return next(reversed(path(span)), None)


def with_keyword(function: ast.FunctionDef, name: str) -> str:
    r"""The head of a function whose argument is keyword-only, and has no type in its decorators.

    >>> head = "@kernel(types={'x': X, 'n': 'index'})\ndef k(x, n): pass"
    >>> print(with_keyword(ast.parse(head).body[0], "n"))
    @kernel(types={'x': X})
    def k(x, *, n):
    """
    made = copy.deepcopy(function)
    at = next(i for i, a in enumerate(made.args.args) if a.arg == name)
    made.args.kwonlyargs.append(ast.arg(made.args.args.pop(at).arg))
    made.args.kw_defaults.append(None)
    for node in (n for d in made.decorator_list for n in ast.walk(d)):
        if isinstance(node, ast.Dict):
            pairs = [(k, v) for k, v in zip(node.keys, node.values, strict=True)
                     if not (isinstance(k, ast.Constant) and k.value == name)]  # fmt: skip
            node.keys, node.values = [k for k, _ in pairs], [v for _, v in pairs]
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.List | ast.Tuple):
            del node.value.elts[at : at + 1]
    made.body = [ast.Pass()]
    return ast.unparse(made).removesuffix("\n    pass")


def span_of(file: str, tree: ast.stmt) -> Span:
    """The location of the first line of a statement."""
    text = linecache.getline(file, tree.lineno).rstrip("\n")
    column = len(text.encode()[: tree.col_offset].decode(errors="ignore"))
    return Span(file, tree.lineno, column + 1, max(1, len(text) - column), text, python=True)


@lru_cache(maxsize=8)
def _tree(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _expression(frame: FrameType, at: int) -> Expression | None:
    code = frame.f_code
    first, last, start, end = position(code, at)
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).rstrip("\n") for n in range(first, last + 1)]
    if not lines[0]:
        return None
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    text = textwrap.dedent("\n".join(part.decode(errors="ignore") for part in encoded))
    column = len(lines[0].encode()[:start].decode(errors="ignore"))
    length = max(1, len(text) if last == first else len(lines[0]) - column)
    span = Span(code.co_filename, first, column + 1, length, lines[0], python=True)
    try:
        return Expression(" ".join(text.split()), ast.parse(f"({text})", mode="eval").body, span, frame)
    except SyntaxError:
        return _head(text, span, frame)


def argument(name: str, position: int | None = None, otherwise: str | None = None) -> str:
    """The user's text of an argument of a call, by keyword or position, else the name of the parameter.

    >>> argument("x")
    'x'
    """
    written = expression()
    call = written.tree if written is not None else None
    otherwise = name if otherwise is None else otherwise
    if not isinstance(call, ast.Call):
        return otherwise
    named = next((k.value for k in call.keywords if k.arg == name), None)
    placed = call.args[position] if position is not None and position < len(call.args) else None
    tree = named or placed
    if tree is None or isinstance(tree, ast.Starred):
        return otherwise
    atom = isinstance(tree, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant)
    return ast.unparse(tree) if atom else f"({ast.unparse(tree)})"


def call_with(extra: int, count: int) -> str:
    """The user's call with ``count`` positional arguments for ``extra``: the last one again, or fewer.

    "" where the call is not to be had.
    """
    written = expression()
    call = written.tree if written is not None else None
    if not isinstance(call, ast.Call) or len(call.args) != extra or not extra:
        return ""
    args = (call.args + [call.args[-1]] * count)[:count]
    return ast.unparse(ast.Call(call.func, args, call.keywords))


def sides(tree: ast.expr | None) -> list[str]:
    """The two operands of an operator or a comparison of the user's code; none of other expressions.

    >>> sides(ast.parse("a + b * c", mode="eval").body), sides(None)
    (['a', 'b * c'], [])
    """
    match tree:
        case ast.BinOp(left, _, right) | ast.Compare(left, [_], [right]):
            return [ast.unparse(left), ast.unparse(right)]
    return []


def _head(text: str, span: Span, frame: FrameType) -> Expression | None:
    """The expression of a statement with a block, where Python gives the whole statement as its place."""
    try:
        statement = ast.parse(text).body[0]
    except SyntaxError:
        return None
    match statement:
        case ast.While(test=tree) | ast.If(test=tree) | ast.With(items=[ast.withitem(context_expr=tree)]):
            return Expression(ast.unparse(tree), tree, span, frame)
    return None
