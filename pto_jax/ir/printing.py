"""How programs are printed, as far as they know: the reader and printer of text registers itself."""

from collections.abc import Callable
from typing import Any

_PRINTER: list[Callable[[Any], str]] = []


def register(printer: Callable[[Any], str]) -> None:
    """Print programs with ``printer`` from now on."""
    _PRINTER[:] = [printer]


def text_of(program: Any) -> str:
    """The text of a program."""
    return _PRINTER[0](program) if _PRINTER else repr(program)
