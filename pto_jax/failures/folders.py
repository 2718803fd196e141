"""What folders that show a failure have in common, and words that messages of one cause share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError

if TYPE_CHECKING:
    from ..vectors.compare import Comparison


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
