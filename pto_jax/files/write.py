"""Writing files and folders that appear when they are complete, in place of what was there."""

import contextlib
import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .read import require_name, unusable

#: The name of the standard output.
STDOUT = "-"
#: Folders whose entries stand for open descriptors and devices, whatever they lead to.
_SYSTEM = ("/dev/fd/", "/dev/std", "/proc/")


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 file as :func:`replacing` does; half a surrogate pair is written as an escape."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file as :func:`replacing` does."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file whose content is that of ``path`` once the block has ended without an error.

    Until then, and when the block raises, ``path`` stays as it was. Raises FileError for what cannot be
    written; ``-`` is the standard output.
    """
    with _told(path), _destination(path) as file:
        yield file


@contextmanager
def folder_replacing(path: Path) -> Iterator[Path]:
    """A new folder that takes the place of ``path`` once the block has ended without an error.

    It stands beside ``path`` with a dot before its name until then; what a killed process left there is
    removed. Folders above it are made.
    """
    where = Path(os.path.realpath(path))
    part, old = (where.with_name(f".{where.name}{end}") for end in ("", ".old"))
    with _told(path):
        if old.exists() and not where.exists():
            # A process was killed between the two renames below.
            old.rename(where)
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)
        if where.exists() and not where.is_dir():
            raise NotADirectoryError(None, "got a file; allowed: a folder")
        part.mkdir(parents=True)
    try:
        yield part
        with _told(path):
            if where.exists():
                where.rename(old)
            part.rename(where)
    finally:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _told(path: str | Path) -> Iterator[None]:
    """Makes what goes wrong with a file a FileError; a reader that closed its pipe is for the caller."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise unusable(path, "written", error) from None


def _destination(path: str | Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    require_name(path)
    if str(path) == STDOUT:
        return _standard_output()
    where = Path(path)
    try:
        there = where.stat()
    except FileNotFoundError:
        return _replacement(_followed(where), None)
    descriptor = _descriptor(there)
    if descriptor is not None:
        return os.fdopen(os.dup(descriptor), "wb")
    # Opening a folder says what is wrong with it.
    if not stat.S_ISREG(there.st_mode) or str(Path.cwd() / where).startswith(_SYSTEM):
        return where.open("wb")
    return _replacement(_followed(where), there)


def _followed(path: Path) -> Path:
    """What a link leads to in the end, there or not."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.stdout is None:
        raise OSError("the standard output is closed")
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    held = io.BytesIO()  # Notebooks have streams of text only.
    yield held
    sys.stdout.write(held.getvalue().decode("utf-8", errors="backslashreplace"))


def _descriptor(there: os.stat_result) -> int | None:
    """The open descriptor of a file that is our own standard output or error stream."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if os.path.samestat(there, os.fstat(stream.fileno())):
                stream.flush()
                return stream.fileno()
    return None


@contextmanager
def _replacement(path: Path, there: os.stat_result | None) -> Iterator[IO[bytes]]:
    """A new file that is renamed to ``path`` at the end."""
    if there is not None and not os.access(path, os.W_OK):
        raise PermissionError(None, "it is read-only")
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    # The system applies the mask of the process to the permissions of a new file.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if there is not None:
                _keep_owner(file.fileno(), there)
            yield file
            file.flush()
            if there is not None:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _keep_owner(descriptor: int, there: os.stat_result) -> None:
    """Give a new file the permissions, and where that is allowed the owner, of the one it replaces."""
    result = os.fstat(descriptor)
    if (result.st_uid, result.st_gid) != (there.st_uid, there.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, there.st_uid, there.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(there.st_mode) & 0o777)
