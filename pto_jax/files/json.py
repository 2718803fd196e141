"""JSON from files that anyone may have written: finite numbers, bounded depth, errors of one line."""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from ..errors import FileError
from .read import read_text

#: Levels of nesting; what this package writes has fewer than ten.
MAX_DEPTH = 64


def read_json(path: str | Path, *, regular: bool = False) -> Any:
    """The value in a JSON file; FileError says what is wrong with it."""
    return parse_json(read_text(path, regular=regular), str(path))


def parse_json(text: str, place: str) -> Any:
    """The value of a JSON text; ``place`` is the name that the FileError uses.

    >>> parse_json('{"a": [1, 2.5]}', "here")
    {'a': [1, 2.5]}
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise FileError(f"{place}: JSON nested more than {MAX_DEPTH} levels deep, the limit") from None
    except ValueError as error:
        raise FileError(f"{place}: not JSON: {error}") from None
    _check(value, place)
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _check(value: Any, place: str) -> None:
    """Raise FileError for what is nested too deeply, and for numbers beyond every float."""
    level, depth = [value], 0
    while level:
        if any(isinstance(v, float) and not math.isfinite(v) for v in level):
            raise FileError(f"{place}: not JSON: a number is too large")
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        if inner and depth >= MAX_DEPTH:
            raise FileError(f"{place}: JSON nested more than {MAX_DEPTH} levels deep, the limit")
        level, depth = [v for values in inner for v in values], depth + 1
