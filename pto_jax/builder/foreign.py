"""Errors of Python and of libraries that got a value of the program where they take one of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..errors import PtoError
from ..files import user_code
from . import places
from .synchronise import Event
from .values import Handle


def refuse(error: BaseException, file: str) -> None:
    """Raise BuildError for an error whose text names the class of a value that the expression has.

    All other errors are the author's. ``file`` is that of the function that is being built.
    """
    named = re.search(rf"\b({'|'.join(_classes(Handle))}|{Event.__name__})\b", str(error))
    failed = user_code.failed(error, file) if named and not isinstance(error, PtoError) else None
    if named is None or failed is None:
        return
    written, in_library = failed
    value = next((v for v in written.objects() if type(v).__name__ == named[1]), None)
    if value is None:
        return
    message, allowed, fix = value.objection(written)
    if not (in_library or isinstance(error, LookupError) or _complete(written.tree)):
        mine = value.spelled(written)
        reason = re.sub(rf"'?\b{named[1]}\b'?( object)?", mine, str(error).partition("\n")[0])
        message = f"{message} ({reason})"
    places.fail(message, written.span, allowed=allowed, fix=fix)


def _complete(tree: ast.expr) -> bool:
    """Whether the expression shows without the error's own words what was asked of a value."""
    return isinstance(tree, ast.BinOp | ast.UnaryOp | ast.Compare) or (
        isinstance(tree, ast.Call) and bool(tree.args)
    )


def _classes(kind: type[Handle]) -> Iterator[str]:
    yield kind.__name__
    for inner in kind.__subclasses__():
        yield from _classes(inner)
