"""What folders that show a failure have in common, and words that messages of one cause share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError

if TYPE_CHECKING:
    from ..vectors.compare import Comparison


#: What differs between messages of one cause, and the length of what is left.
_INCIDENTAL = (
    (re.compile(r"(?<![\w.])(?:~?/[\w.+@-]+)+/?|\b[A-Za-z]:\\\\\S+"), "PATH"),
    (re.compile(r"\b0x[0-9a-fA-F]+"), "0xN"),
    (re.compile(r"%\w+"), "%"),
    (re.compile(r"\b[rs]?\d+(?:\.\d+)?\b"), "N"),
)
_LONGEST = 120


def first_difference(comparison: Comparison | None, output: str, wanted: str, found: str) -> dict[str, Any]:
    """The first element that differs, as entries of a report; the names of three of them are given."""
    first = comparison.first if comparison is not None else None
    if comparison is None or first is None:
        return {}
    expected, actual = first.bits
    return {
        output: first.operand,
        "index": first.index,
        "type": first.dtype.name,
        wanted: expected,
        found: actual,
        "ulp": first.ulp,
        "different": comparison.different,
    }


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder under a name that is free, and return its path."""
    for i in range(1, 1000):
        folder = parent / (name if i == 1 else f"{name}-{i}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise FileError(f"{folder}: cannot be made: {error.strerror or error}") from None
        return folder
    raise FileError(f"{parent / name}: exists, as do 998 more of that name")


def normalised(message: str) -> str:
    """The last words of an error, without paths, addresses, names of values and numbers.

    >>> normalised(": loading | sim.cc:81: no tile %t3 at 0x7f00 in /tmp/x1/case.pto")
    'sim.cc:N: no tile % at 0xN in PATH'
    """
    lines = [part for part in re.split(r"\n| \| ", message.lstrip(": ")) if part.strip()]
    text = lines[-1].strip() if lines else ""
    for pattern, plain in _INCIDENTAL:
        text = pattern.sub(plain, text)
    return text[:_LONGEST].rstrip()
