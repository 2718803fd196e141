"""Devices under test that are command lines: a program and inputs in files, results from files.

A :class:`Command` is executed once per case; its placeholders stand for files in a folder of the case. The
contract is in :mod:`.exchange`. The child processes can neither hang nor outlive their caller.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import IO

from ..cases.targets import Run
from ..errors import ArgumentError, DeviceError, Diagnostic, NotExecutableError
from ..generate.programs import Case
from .contract import DECLINED, INPUTS, NEEDED, OUTPUTS, PLACEHOLDERS, PROGRAM
from .exchange import load_outputs, write_case

#: How much of what a process wrote to its error stream is kept, from the end.
_TAIL_LINES, _TAIL_BYTES = 5, 4096
#: And of what goes to the folder of a failure.
OUTPUT_BYTES = 1 << 16


@dataclass(frozen=True)
class Template:
    """A command line with placeholders in braces; ``{{`` and ``}}`` stand for braces themselves.

    Words are split as a shell splits them, and no shell is involved: what replaces a placeholder is
    part of its word whatever characters it has.

    >>> Template.of("true --in={inputs} 'a b'", ("inputs",)).filled({"inputs": "x y.npz"})
    ['true', '--in=x y.npz', 'a b']
    """

    text: str
    words: tuple[str, ...]
    used: frozenset[str]

    @classmethod
    def of(cls, text: str, needed: Sequence[str], allowed: Sequence[str] = ()) -> Template:
        """A command line that has all ``needed`` placeholders and no others but ``allowed`` ones."""
        fields = " ".join(f"{{{n}}}" for n in (*needed, *allowed))
        try:
            words = tuple(shlex.split(text))
            parsed = [part for w in words for part in string.Formatter().parse(w)]
        except ValueError as error:
            raise ArgumentError(f"command {text!r}: {error}", allowed=f"words with {fields}") from None
        if not words:
            raise ArgumentError(f"command: got {text!r}", allowed=f"words with {fields}")
        names = frozenset(name for _, name, *_ in parsed if name is not None)
        for _, name, form, conversion in parsed:
            if form or conversion:
                raise ArgumentError(
                    f"command {text!r}: placeholder {{{name}}} with a conversion or format",
                    allowed=f"{fields}",
                )
        if unknown := sorted(names - {*needed, *allowed}):
            raise ArgumentError(
                f"command {text!r}: unknown placeholder {{{unknown[0]}}}", allowed=f"{fields}"
            )
        if missing := [n for n in needed if n not in names]:
            added = " ".join(f"{{{n}}}" for n in missing)
            raise ArgumentError(
                f"command {text!r}: {added} is missing",
                allowed=f"{fields}",
                fix=f"'{text} {added}'",
            )
        if shutil.which(words[0]) is None:
            raise ArgumentError(
                f"command {text!r}: {words[0]}: no such command", allowed="an executable file"
            )
        return cls(text, words, names)

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """The words of the command line with values for its placeholders."""
        return [w.format_map(values) for w in self.words]


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit status and the last lines of its error stream.

    A negative status is a signal's number; None: it was stopped because it hung.
    """

    status: int | None
    tail: str
    limit: float
    #: Its error stream, the end of a long one.
    output: str = ""

    @property
    def reason(self) -> str:
        """What happened, in words."""
        hung = f"no answer within {self.limit:g} s; stopped"
        what = hung if self.status is None else ending(self.status)
        return f"{what}: {self.tail}" if self.tail else f"{what}: stderr is empty"


def dying_with_us(words: Sequence[str]) -> list[str]:
    """A command that is killed when this process is, where the system has a tool for that.

    Others notice at the end of their input, or when they have answered.
    """
    return [*_death_signal(), *words]


@cache
def _death_signal() -> tuple[str, ...]:
    """What stands before a command that gets a signal at the death of its parent; nothing where it fails."""
    tool = shutil.which("setpriv")
    if tool is None:
        return ()
    before = (tool, "--pdeathsig", "KILL", "--")
    tried = subprocess.run([*before, sys.executable, "-c", ""], capture_output=True, stdin=subprocess.DEVNULL)
    return before if tried.returncode == 0 else ()


def execute(
    words: Sequence[str],
    folder: Path,
    limit: float,
    *,
    inside: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Execute a command in the caller's working directory, with its error stream kept in a folder.

    ``inside``: in that folder, and with what it prints kept too. ``variables`` are added to the environment.
    It hangs when it takes ``limit`` seconds. DeviceError where the command cannot be started.

    The command is the head of a process group of its own, none of which is left when this returns.
    """
    with (folder / "stderr.txt").open("w+b") as errors:
        try:
            process = subprocess.Popen(
                dying_with_us(words),
                stdin=subprocess.DEVNULL,
                stdout=errors if inside else subprocess.DEVNULL,
                stderr=errors,
                cwd=folder if inside else None,
                env={**os.environ, **(variables or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(
                f"{words[0]}: {error.strerror or error}", allowed="an executable file"
            ) from None
        with _group(process.pid):
            try:
                process.wait(limit)
                hung = False
            except subprocess.TimeoutExpired:
                hung = True
        status = process.wait()
        # The command may have removed the folder.
        output = _end_of(errors)
    return Ended(None if hung else status, last_lines(output[-_TAIL_BYTES:]), limit, plain(output))


@contextlib.contextmanager
def _group(leader: int) -> Iterator[None]:
    """Ends a process group, also when its head has ended and its children have not."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _end_of(file: IO[bytes]) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - OUTPUT_BYTES))
    return file.read()


def declined(reason: str) -> NotExecutableError:
    """What says that a device does not execute a case."""
    return NotExecutableError(Diagnostic("error", f"the device declines: {reason or 'no reason given'}"))


def failed(reason: str, output: str) -> DeviceError:
    """What says that a device failed, with what it wrote to its error stream."""
    error = DeviceError(reason)
    error.output = output
    return error


def plain(stream: bytes) -> str:
    """What a device wrote, as text."""
    return stream.decode("utf-8", errors="replace")


def last_lines(stream: bytes) -> str:
    r"""The last lines of an error stream, on one line.

    >>> last_lines(bytes(range(97, 101)) + b"\n\n  x\x1b[31m ")
    'abcd | x?[31m'
    """
    text = stream.decode("utf-8", errors="replace")
    label = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return " | ".join([line.strip() for line in label.splitlines() if line.strip()][-_TAIL_LINES:])


def ending(status: int) -> str:
    """An exit status in words.

    >>> ending(-11), ending(3)
    ('ended by signal 11 (SIGSEGV)', 'exit status 3')
    """
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else "unknown"
    return f"ended by signal {-status} ({name})"


@dataclass(frozen=True)
class Command:
    """A command line that executes one case; ``timeout`` is in seconds."""

    command: str
    timeout: float
    _template: Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        template = Template.of(self.command, NEEDED, [n for n in PLACEHOLDERS if n not in NEEDED])
        object.__setattr__(self, "_template", template)

    @property
    def name(self) -> str:
        """The machine as the command line of this package names it."""
        return f"dut:{self.command}"

    def run(self, case: Case) -> Run:
        """The outputs of one case from one process.

        NotExecutableError where it declines, DeviceError where it ends otherwise than it should.
        """
        if case.grid > 1 and not self._template.used & {"grid", "folder"}:
            raise declined(f"{case.grid} blocks; the command has neither {{grid}} nor {{folder}}")
        with tempfile.TemporaryDirectory(prefix="pto-jax-dut-", ignore_cleanup_errors=True) as path:
            folder = Path(path)
            write_case(folder, case)
            values = {
                "program": str(folder / PROGRAM),
                "inputs": str(folder / INPUTS),
                "outputs": str(folder / OUTPUTS),
                "grid": str(case.grid),
                "profile": case.profile.name,
                "folder": path,
            }
            ended = execute(self._template.filled(values), folder, self.timeout)
            if ended.status != 0:
                raise _failure(ended)
            return replace(load_outputs(folder / OUTPUTS, case), log=ended.output)


def _failure(ended: Ended) -> Exception:
    if ended.status == DECLINED:
        return declined(ended.tail)
    return failed(ended.reason, ended.output)
