"""Jumps of Python out of regions: operations behind them would not be built, for any pass or condition."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NoReturn

from ..errors import Span
from ..files import user_code
from .places import fail

_Jump = ast.Return | ast.Continue | ast.Break
_MORE, _STOP = "more", "stop"


def check(block: Span | None) -> None:
    """Refuse a jump at the end of a block behind which more of the function, or another pass, follows."""
    path = user_code.path(block) if block is not None else []
    if not path or block is None or not isinstance(path[-1], ast.With):
        return
    jump, outer = path[-1].body[-1], list(pairwise(path))[::-1]
    while isinstance(jump, ast.With):
        jump = jump.body[-1]
    if not isinstance(jump, _Jump):
        return
    for parent, child in outer:
        passes = isinstance(parent, ast.For | ast.While)
        rest = _behind(parent, child)
        if rest or (passes and not isinstance(jump, ast.Continue)):
            break
        if passes or isinstance(parent, ast.FunctionDef):
            return
    else:
        return
    parts = _apart(path[-1], jump, rest) if rest and child is path[-1] else []
    _refuse(jump, block.file, without_break(parent) if isinstance(jump, ast.Break) else _text(parts))


def last_return(function: Span) -> Span:
    """The last line with a value of a function that is returned; its own where it has none."""
    tree = user_code.definition(function)
    lines = [n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value] if tree is not None else []
    last = max(lines, key=lambda n: n.lineno, default=None)
    return user_code.span_of(function.file, last) if last is not None else function


def _behind(parent: ast.stmt, child: ast.stmt) -> Sequence[ast.stmt]:
    """What follows a statement in the block that has it."""
    blocks: list[list[ast.stmt]] = [getattr(parent, name, []) for name in ("body", "orelse")]
    return next((b[b.index(child) + 1 :] for b in blocks if child in b), ())


def check_taken(outer: Span | None, inner: Span | None) -> None:
    """Refuse a jump under a condition of Python, out of the block that was built last of a statement.

    ``inner`` is the location of the block, ``outer`` that of the statement, which has more behind it.
    """
    path = user_code.path(inner) if inner is not None else []
    if outer is None or len(path) < 2 or path[-2].lineno != outer.line:
        return
    rest = _behind(path[-2], path[-1])
    blocks = [path[-1], *(s for s in rest[:1] if _is_else(s))]
    jump = next(_jumps(blocks[-1]), None)
    if jump is not None and len(rest) >= len(blocks):
        _refuse(jump, outer.file, "")


def _refuse(jump: _Jump, file: str, fix: str) -> NoReturn:
    fail(
        f"{type(jump).__name__.lower()}: got a jump out of a block, behind which nothing is built",
        user_code.span_of(file, jump),
        allowed="blocks that run to their end, the rest in pto.else_(), and loops with pto.while_",
        fix=fix,
    )


def without_break(tree: ast.stmt | None) -> str:
    """A loop that a ``break`` ends as one whose values decide, "" where it has another form."""
    if not (isinstance(tree, ast.For) and isinstance(tree.target, ast.Name) and _is_range(tree.iter)):
        return ""
    call, counter = tree.iter, tree.target.id
    assert isinstance(call, ast.Call)
    lower, upper, step = _bounds(list(map(ast.unparse, call.args)))
    prefix = ast.unparse(call.func).removesuffix("range")
    at = next((i for i, s in enumerate(tree.body) if any(_jumps(s))), -1)
    if isinstance(tree.body[at], ast.Break):
        # A loop that ends in its first pass.
        once = copy.deepcopy(tree)
        end = f"{prefix}minimum({upper}, {lower} + 1)"
        if lower.isdecimal():
            end = str(int(lower) + 1) if upper.isdecimal() else f"{prefix}minimum({upper}, {int(lower) + 1})"
        once.iter = ast.parse(f"{prefix}range({lower}, {end})", mode="eval").body
        once.body = once.body[:at] or [ast.Pass()]
        return _text([once])
    parts = _apart(tree.body[at], next(_jumps(tree.body[at]), None), tree.body[at + 1 :])
    if not parts or not isinstance(parts[0], ast.With):
        return ""
    condition = _condition(parts[0])
    head = f"""\
loop = {prefix}while_({lower}, True)
with loop.test() as ({counter}, {_MORE}):
    loop.condition(({counter} < {upper}) & {_MORE}, {counter}, {_MORE})
with loop.do() as ({counter}, {_MORE}):
    {_STOP} = {ast.unparse(condition.args[0])}
"""
    module = ast.parse(head)
    do = module.body[-1]
    assert isinstance(do, ast.With)
    condition.args = [ast.Name(_STOP)]
    give = ast.parse(f"loop.give({counter} + {step}, ~{_STOP})").body
    do.body = [*tree.body[:at], *do.body, *parts, *give]
    return _text(module.body)


def _jumps(statement: ast.stmt) -> Iterator[_Jump]:
    """The jumps out of the blocks of a statement; those of loops in it are their own."""
    if isinstance(statement, _Jump):
        yield statement
    if isinstance(statement, ast.With | ast.If):
        for inner in statement.body:
            yield from _jumps(inner)


def _is_else(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.With) and ast.unparse(statement.items[0]).endswith("else_()")


def _is_range(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Call) and ast.unparse(tree.func).endswith(".range") and not tree.keywords


def _bounds(texts: Sequence[str]) -> tuple[str, str, str]:
    lower, upper = ("0", texts[0]) if len(texts) == 1 else texts[:2]
    return lower, upper, texts[2] if len(texts) > 2 else "1"


def _condition(block: ast.With) -> ast.Call:
    call = block.items[0].context_expr
    assert isinstance(call, ast.Call)
    return call


def _apart(block: ast.stmt, jump: ast.stmt | None, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A branch without the jump at its end, and what follows it as its other side; none of other blocks."""
    if not (isinstance(block, ast.With) and block.body[-1] is jump):
        return []
    call = block.items[0].context_expr
    if not (isinstance(call, ast.Call) and ast.unparse(call.func).endswith("if_")):
        return []
    first = copy.deepcopy(block)
    first.body = first.body[:-1] or [ast.Pass()]
    prefix = ast.unparse(call.func).removesuffix("if_")
    other = ast.With([ast.withitem(ast.parse(f"{prefix}else_()", mode="eval").body)], list(rest))
    return [first, other] if rest else [first]


def _text(statements: Sequence[ast.stmt]) -> str:
    module = ast.Module(list(statements), [])
    return ast.unparse(ast.fix_missing_locations(module))
