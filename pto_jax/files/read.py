"""Bounded reading of whole files, and of JSON with finite numbers and bounded depth."""

import codecs
import errno
import json
import math
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from ..errors import ArgumentError, FileError, one_of

#: Bytes that a text may have: the characters that the parser reads at most, four bytes each.
MAX_TEXT = 1 << 26
#: Sets another limit, in bytes, for every kind of file.
VARIABLE = "PTO_JAX_MAX_FILE_BYTES"


def limit(default: int) -> int:
    """The number of bytes that may be read: ``default``, or what the environment says."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0):
        raise ArgumentError(f"{VARIABLE}: got {text!r}", allowed="a number of bytes")
    return int(text)


def read_bytes(path: str | Path, most: int = MAX_TEXT, *, regular: bool = False) -> bytes:
    """The content of a file, or of a pipe up to its end.

    Raises FileError when it cannot be read or has more bytes than the :func:`limit`; nothing beyond it is
    read. ``regular`` refuses pipes and devices, which may keep a reader waiting for ever.
    """
    allowed = limit(most)
    with opened(path, regular=regular) as file:
        content = file.read(allowed + 1)
    if len(content) > allowed:
        raise FileError(f"{path}: got more than {allowed} bytes, the limit", fix=f"{VARIABLE}=N")
    return content


def read_text(path: str | Path, most: int = MAX_TEXT, *, regular: bool = False) -> str:
    """The text of a UTF-8 file; otherwise as :func:`read_bytes`."""
    content = read_bytes(path, most, regular=regular)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        result = content[error.start]
        marked = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        fix = (
            f"iconv -f UTF-16 -t UTF-8 -o utf8{Path(path).suffix} {shlex.quote(str(path))}" if marked else ""
        )
        got = f"{path}: not UTF-8 text (byte {error.start} is 0x{result:02x})"
        raise FileError(got, allowed="text in UTF-8" if marked else "", fix=fix) from None


def require_name(path: object) -> None:
    """ArgumentError for what names no file."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"path: got {one_of(path)}", allowed="the name of a file")


@contextmanager
def opened(path: str | Path, *, regular: bool = False) -> Iterator[IO[bytes]]:
    """A file that is open for reading; whatever goes wrong with it is a FileError."""
    require_name(path)
    try:
        if regular and not stat.S_ISREG(Path(path).stat().st_mode) and not Path(path).is_dir():
            raise FileError(f"{path}: got a pipe or a device", allowed="a file")
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        fix = "/dev/stdin" if str(path) == "-" else ""
        raise FileError(f"{path}: no such file", fix=fix) from None
    except IsADirectoryError:
        raise FileError(f"{path}: got a folder", allowed="a file") from None
    except (OSError, ValueError) as error:
        raise unusable(path, "read", error) from None


def reason(error: Exception) -> str:
    """What went wrong, without the name of the file."""
    return getattr(error, "strerror", None) or str(error)


def unusable(path: str | Path, action: str, error: Exception) -> FileError:
    """The error for a file or folder that cannot be ``read``, ``written`` or ``made``, with a way out.

    >>> print(unusable("out/z.npz", "written", FileNotFoundError(errno.ENOENT, "No such file or directory")))
    out/z.npz: cannot be written: No such file or directory; allowed: a folder that exists; try: mkdir -p out
    """
    number, fix = (error.errno if isinstance(error, OSError) else None) or 0, ""
    if number == errno.ENOENT and action != "read":
        fix = f"mkdir -p {shlex.quote(str(Path(path).parent))}"
    got = f"{path}: cannot be {action}: {reason(error)}"
    return FileError(got, allowed=_WAYS_OUT.get(number, ""), fix=fix)


_WAYS_OUT = {
    errno.ENOENT: "a folder that exists",
    errno.EISDIR: "the name of a file",
    errno.ENOTDIR: "a file in a folder",
    errno.EEXIST: "a new name, or a folder",
    errno.EACCES: "a file that you may read and write",
    errno.EROFS: "a folder that you may write",
}


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
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=each_once)
    except RecursionError:
        raise FileError(f"{place}: JSON nested more than {MAX_DEPTH} levels deep, the limit") from None
    except ValueError as error:
        raise FileError(f"{place}: not JSON: {error}") from None
    _check(value, place)
    return value


def each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for a key that it has twice, of which one value would be lost.

    >>> each_once([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return values


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
