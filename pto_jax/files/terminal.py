"""What commands print: free of characters that steer a terminal, whatever names and messages hold.

Program text, stores and failure folders come from anyone, and their texts are printed. While
:func:`escaping` is in force, control characters, and those that reorder text, are printed as escapes, and
so is what the encoding of a stream lacks. Files are written unchanged.
"""

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

#: Control characters but tab and line feed, and those that change the direction of text or end a line.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: What findings say of themselves behind their place, and the carets on a line of their own.
_SEVERITY = re.compile(r"(?m)^((?:\S.*?: )?)(error|warning)(?=: )")
_MARK = re.compile(r"(?m)^([ \t]*)(\^+)$")
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;35m", "mark": "\x1b[1;32m"}
_PLAIN = "\x1b[0m"


def escaped(text: str) -> str:
    r"""A text with escapes in place of what steers a terminal.

    >>> escaped("red \x1b[31m")
    'red \\x1b[31m'
    """
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """A text on one line, its line feeds escaped too."""
    return escaped(text).replace("\n", "\\n")


def in_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether findings are printed in colours: on a terminal, unless ``NO_COLOR`` is set.

    ``FORCE_COLOR`` asks for them elsewhere, too.

    >>> in_colour(io.StringIO()), in_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    (False, True)
    >>> in_colour(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"})
    False
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM", "") not in ("", "dumb")


def _coloured(text: str) -> str:
    """An escaped text with the severities of findings, and the marks under their places, in colours."""
    marked = _SEVERITY.sub(lambda m: f"{m[1]}{_COLOURS[m[2]]}{m[2]}{_PLAIN}", text)
    return _MARK.sub(lambda m: f"{m[1]}{_COLOURS['mark']}{m[2]}{_PLAIN}", marked)


@contextmanager
def escaping() -> Iterator[None]:
    """Escapes what is printed to the standard streams; failing to print names the stream."""
    with ExitStack() as stack:
        for redirect, stream, name in (
            (redirect_stdout, sys.stdout, "standard output"),
            (redirect_stderr, sys.stderr, "standard error"),
        ):
            if stream is None:  # It was closed when the process began; print would take the other one.
                stream = stack.enter_context(Path(os.devnull).open("w"))
            if isinstance(stream, io.TextIOWrapper):
                stack.callback(stream.reconfigure, errors=stream.errors)
                stream.reconfigure(errors="backslashreplace")
            stack.enter_context(redirect(cast(TextIO, _Escaping(stream, name))))
        yield


class _Escaping:
    """A text stream that escapes. A carriage return that begins a text is a line drawn anew."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._coloured = in_colour(stream)

    def write(self, text: str) -> int:
        again = "\r" if text.startswith("\r") else ""
        with self._named():
            plain = escaped(text[len(again) :])
            self._stream.write(again + (_coloured(plain) if self._coloured else plain))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._named():
            self._stream.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Names the stream in the error of a write that failed."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def table(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    r"""Lines of equal columns; the first ``left`` columns are set to the left.

    >>> print("\n".join(table([["name", "n"], ["tadd", "12"]])))
    name   n
    tadd  12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Processes started here are deaf to the interrupt key from their first moment.

    SIGTERM waits until they are started: who starts them can then end them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended: list[int] = []
    key = signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A handler is none of a new process, where SIGTERM has to end it.
    end = signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, key)
        signal.signal(signal.SIGTERM, end)
        if ended:
            signal.raise_signal(signal.SIGTERM)
