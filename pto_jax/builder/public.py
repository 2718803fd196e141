"""Functions that authors of kernels call: a call that does not fit is one error, at its line, with a fix."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import update_wrapper, wraps
from itertools import chain, permutations
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from ..errors import nearest
from ..files import user_code
from .places import fail, here

P = ParamSpec("P")
R = TypeVar("R")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Arguments by position whose orders are tried for a fix.
MOST_ARGUMENTS = 4
#: Keywords of all functions that build operations.
COMMON = ("wait", "type", "named")
#: Values of arguments that a call leaves out, for its fix.
_EXAMPLES = {
    "dtype": '"f32"',
    "rows": "16",
    "cols": "64",
    "shape": "(16, 64)",
    "condition": "True",
    "upper": "4",
    "lower": "4",
    "kind": '"vector"',
}


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose signature is checked with a message of the package.

    >>> from pto_jax import BuildError, builder as b
    >>> try:
    ...     b.tile_type("f32", dtype="f32")
    ... except BuildError as error:
    ...     print(error.diagnostics[0].allowed.partition(", loc")[0])
    b.tile_type(dtype, rows, cols
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            refuse_call(function, args, kwargs)
            raise

    return checked


class Opener(Generic[P, R]):
    """A function whose result is used with ``with`` or ``for``: without a call of it both are refused."""

    def __init__(self, function: Callable[P, R]) -> None:
        update_wrapper(self, function)
        self._function = public(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __enter__(self) -> NoReturn:
        """Refuse the function in the place of its result."""
        self._uncalled()

    def __exit__(self, *error: object) -> None:
        """Do nothing: the entrance is refused."""

    def __iter__(self) -> Iterator[Any]:
        self._uncalled()

    def _uncalled(self) -> NoReturn:
        line = re.search(rf"[\w.]*\b{self._function.__name__}\b", here().span.text)
        text = line[0] if line is not None else self._function.__name__
        fix = _completed(ast.Call(ast.parse(text, mode="eval").body, [], []), self._function)
        fail(f"{text}: got the function without a call", allowed=_shown(text, self._function), fix=fix)


def refuse_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise BuildError where arguments do not fit a signature."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return
    written = user_code.expression()
    call = written.tree if written is not None and isinstance(written.tree, ast.Call) else None
    name = ast.unparse(call.func) if call is not None else function.__name__
    parameters = signature.parameters
    unknown = next((k for k in kwargs if k not in parameters), None)
    count = len(args) - ("self" in parameters)
    missing = [p.name for p in _required(function)[count:] if p.name not in kwargs]
    got = f"no {missing[0]}" if missing else f"{count} argument(s) by position"
    got = f"the keyword {unknown!r}" if unknown is not None else got
    fix = _completed(call, function) if call is not None else ""
    fail(f"{name}: got {got}", allowed=_shown(name, function), fix=fix)


def _required(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.default is p.empty and p.kind in _POSITIONAL and p.name != "self"]


def _shown(name: str, function: Callable[..., Any]) -> str:
    """The call with its parameters: ``name(a, b=, c=)``."""
    parameters = inspect.signature(function).parameters.values()
    arguments = [
        p.name if p.default is p.empty else f"{p.name}="
        for p in parameters
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in ("self", "named")
    ]
    return f"{name}({', '.join(arguments)})"


def _completed(call: ast.Call, function: Callable[..., Any]) -> str:
    """The call of a function of Python that its signature takes, "" where none is near."""
    whole = inspect.signature(function)
    signature = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != "self"])
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]

    def fits(args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
        try:
            signature.bind(*args, **{k.arg: k.value for k in keywords if k.arg})
        except TypeError:
            return False
        return True

    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    names = [*positional, *(p.name for p in parameters if p.name not in positional)]
    required = {p.name for p in _required(function)}
    return completed(call, names, required, lambda *_: _EXAMPLES, fits, len(positional))


_Arguments = tuple[Sequence[ast.expr], Sequence[ast.keyword]]


def completed(
    call: ast.Call,
    names: Sequence[str],
    required: Collection[str],
    examples: Callable[[Sequence[ast.expr], Sequence[ast.keyword]], Mapping[str, str]],
    fits: Callable[[Sequence[ast.expr], Sequence[ast.keyword]], bool],
    positional: int | None = None,
) -> str:
    """The call with its arguments in another order, spread, renamed, completed or left out; "" for others.

    ``names`` are those of the parameters, of which ``positional`` may have a place; ``examples`` has the
    values of parameters that are ``required`` and left out.
    """
    orders = list(permutations(call.args)) if len(call.args) <= MOST_ARGUMENTS else [tuple(call.args)]
    renamed = [_renamed(k, names) for k in call.keywords]
    fitting = [k for k in renamed if k.arg in (*names, *COMMON)]
    exact = [k for k in call.keywords if k.arg in (*names, *COMMON)]
    placed = [k.value for k in call.keywords if k not in exact]
    incomplete = len(required) > len(call.args) and placed
    spread = [e for a in call.args for e in (a.elts if isinstance(a, ast.Tuple | ast.List) else [a])]

    def with_examples(args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> _Arguments:
        by_name = {k.arg for k in keywords}
        free = [n for n in names if n not in by_name]
        missing = [n for n in free[len(args) :] if n in required]
        values = examples(args, keywords)
        extra = [ast.parse(values[n], mode="eval").body for n in missing if n in values]
        if len(extra) != len(missing) or (
            extra and not by_name and free[len(args) :][: len(extra)] != missing
        ):
            return args, keywords
        added = [ast.keyword(n, v) for n, v in zip(missing, extra, strict=True)]
        return ([*args, *extra], keywords) if not by_name else (args, [*keywords, *added])

    candidates: Iterator[_Arguments] = chain(
        [([*call.args, *placed], exact)] if incomplete else [],
        ((order, renamed) for order in orders),
        [(spread, renamed), (call.args, fitting), (call.args[:positional], fitting)],
        (with_examples(order, fitting) for order in orders),
        [with_examples([], [])] if positional is not None else [],
    )
    for args, keywords in candidates:
        if fits(args, keywords):
            return ast.unparse(ast.Call(call.func, list(args), list(keywords)))
    return ""


def _renamed(keyword: ast.keyword, names: Sequence[str]) -> ast.keyword:
    exact = keyword.arg in names or keyword.arg in COMMON
    return ast.keyword(keyword.arg if exact else nearest(keyword.arg, names) or keyword.arg, keyword.value)
