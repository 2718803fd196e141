"""How programs are printed, as far as they know: the reader and printer of text registers itself."""

import sys
from collections.abc import Callable
from typing import Any

_PRINTER: list[Callable[[Any], str]] = []


def register(printer: Callable[[Any], str]) -> None:
    """Print programs with ``printer`` from now on."""
    _PRINTER[:] = [printer]


def text_of(program: Any) -> str:
    """The text of a program."""
    if not _PRINTER:
        # Where programs come out of a pickle nothing has loaded the printer; the builder of programs does.
        getattr(sys.modules[__name__.partition(".")[0]], "builder")  # noqa: B009
    return _PRINTER[0](program)
