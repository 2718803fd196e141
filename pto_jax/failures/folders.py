"""Parts of failure folders, and baselines: files of causes that do not count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from ..files import read_text, write_text
from ..files.read import unusable
from ..files.terminal import one_line

if TYPE_CHECKING:
    from ..vectors.compare import Comparison


def first_difference(
    comparison: Comparison | None, output: str, reference: str, tested: str
) -> dict[str, Any]:
    """The first element that differs, as entries of a report; the names of three of them are given."""
    first = comparison.first if comparison is not None else None
    if comparison is None or first is None:
        return {}
    expected, actual = first.bits
    return {
        output: first.operand,
        "index": first.index,
        "type": first.dtype.name,
        reference: expected,
        tested: actual,
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
            raise unusable(folder, "made", error) from None
        return folder
    raise FileError(f"{parent / name}: exists, as do 998 more of that name")


# -- baselines ---------------------------------------------------------------------------------------

_HEAD = """\
# Causes that are known: failures of these do not count. A line for each, as pto-jax fuzz and report print it.
"""


def read_known(path: str | Path) -> frozenset[str]:
    """The causes in a file; lines that begin with # are remarks. FileError where it cannot be read."""
    lines = (line.strip() for line in read_text(path, regular=True).splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def write_known(path: str | Path, causes: Iterable[str]) -> None:
    """Write the causes, each once and in order; FileError where that is not possible."""
    lines = sorted({named(cause) for cause in causes})
    write_text(path, _HEAD + "".join(f"{line}\n" for line in lines))


def named(cause: str) -> str:
    r"""A cause on one line, as baselines have it.

    >>> named("tadd f32: values\nmore")
    'tadd f32: values'
    """
    lines = cause.splitlines()
    return one_line(lines[0].strip()) if lines else "unknown"
