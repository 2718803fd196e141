"""Baselines: causes of failures that are known, in a text file with a line for each."""

from collections.abc import Iterable
from pathlib import Path

from ..files import read_text, write_text
from ..files.terminal import one_line

_HEAD = """\
# Causes that are known: failures of these do not count. A line for each, as pto-jax fuzz and report print it.
"""


def read_known(path: str | Path) -> frozenset[str]:
    """The causes in a file; lines that begin with # are remarks. FileError where it cannot be read."""
    lines = (line.strip() for line in read_text(path, regular=True).splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def write_known(path: str | Path, causes: Iterable[str]) -> None:
    """Write the causes, each once and in order; FileError where that is not possible."""
    listed = sorted({named(cause) for cause in causes})
    write_text(path, _HEAD + "".join(f"{line}\n" for line in listed))


def named(cause: str) -> str:
    r"""A cause on one line, as baselines have it.

    >>> named("tadd f32: values\nmore")
    'tadd f32: values'
    """
    lines = cause.splitlines()
    return one_line(lines[0].strip()) if lines else "unknown"
