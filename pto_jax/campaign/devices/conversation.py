"""A child process that is written to and read from by turns, and can neither hang nor fill its pipes."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Sequence

from ...errors import DeviceError
from .process import OUTPUT_BYTES, dying_with_us, ending, last_lines, plain

#: Bytes of the first line of an answer, of the error stream in messages, and of one read.
_LINE, _TAIL, _READ = 4096, 4096, 1 << 18
#: Bytes of a pipe, where the system lets them be set, and the number of its call for that.
_PIPE, _SET_PIPE = 1 << 20, 1031
#: Seconds that a process has to end once its input is closed.
_ENDING = 1.0


class Gone(Exception):
    """The process gives no more answers: why, its exit status (None: it was stopped), its last words."""

    def __init__(self, reason: str, status: int | None, output: bytes) -> None:
        super().__init__(reason)
        self.status, self.tail, self.output = status, last_lines(output[-_TAIL:]), plain(output)


class Conversation:
    """A process with its standard streams. ``timeout`` is what an answer may take, in seconds.

    It is the head of a process group of its own, none of which is left after :meth:`end` or this process's
    own end; DeviceError where it cannot be started.
    """

    def __init__(self, words: Sequence[str], timeout: float) -> None:
        self._timeout = timeout
        try:
            self._process = subprocess.Popen(
                dying_with_us(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(f"{words[0]}: cannot be executed: {error.strerror or error}") from None
        process = self._process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        for stream in (self._stdin, self._stdout):
            _widen(stream.fileno())
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)
        self._unsent: deque[memoryview] = deque()
        self._received = bytearray()
        self._errors = bytearray()
        self._deadline = 0.0
        self._finalizer = weakref.finalize(self, _kill, process)

    def send(self, message: bytes) -> None:
        """Send a message, as far as the process takes it now; the rest follows while it is read from."""
        if not self._unsent:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        self._unsent.append(memoryview(message))
        self._write()

    def line(self) -> str:
        """The next line, without its end; the time for an answer begins here. Raises Gone."""
        self._deadline = time.monotonic() + self._timeout
        while (end := self._received.find(b"\n", 0, _LINE + 1)) < 0:
            if len(self._received) > _LINE:
                raise self.gone(f"answered with a line of more than {_LINE} bytes")
            self._wait()
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line.decode("utf-8", errors="replace").strip()

    def exactly(self, count: int) -> bytes:
        """The next ``count`` bytes. Raises Gone."""
        while len(self._received) < count:
            self._wait()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def said(self) -> str:
        """What the process wrote to its error stream since this was asked last, the end of it."""
        with contextlib.suppress(OSError, KeyError):
            self._hear()
        found = plain(bytes(self._errors))
        self._errors.clear()
        return found

    def gone(self, reason: str) -> Gone:
        """What says that the process is stopped, for a reason that its answers give."""
        return self._ended(f"{reason}; stopped", None)

    def ends(self, seconds: float) -> bool:
        """Whether the process ends by itself within some time."""
        try:
            self._process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """Close the process's input, and stop it where that does not end it."""
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        self._finalizer()

    def _wait(self) -> None:
        """Write and read what is possible; Gone where the process has ended or the time is over."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._ended(f"no answer within {self._timeout:g} s; stopped", None)
        for key, _ in self._selector.select(left):
            if key.fileobj is self._stdin:
                self._write()
            elif key.fileobj is self._stderr:
                self._hear()
            else:
                self._listen()

    def _listen(self) -> None:
        part = _read(self._stdout.fileno())
        if part:
            self._received += part
        elif part is not None:
            status = self._status()
            reason = "closed its output; stopped" if status is None else f"{ending(status)} before its answer"
            raise self._ended(reason, status)

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._stdin.fileno(), self._unsent[0])
                if sent == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][sent:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # Where its answers are read, it is noticed that it has ended.
            self._unsent.clear()
        self._selector.unregister(self._stdin)

    def _hear(self) -> None:
        """Keep the end of the error stream."""
        while part := _read(self._stderr.fileno()):
            self._errors += part
            del self._errors[:-OUTPUT_BYTES]
        if part is not None:
            self._selector.unregister(self._stderr)

    def _status(self) -> int | None:
        """How the process ended; None for one that only closed its output."""
        try:
            return self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            return None

    def _ended(self, reason: str, status: int | None) -> Gone:
        with contextlib.suppress(OSError, KeyError):
            self._hear()
        tail = last_lines(bytes(self._errors[-_TAIL:]))
        return Gone(f"{reason}: {tail}" if tail else reason, status, bytes(self._errors))


def _read(stream: int) -> bytes | None:
    """What a stream has now; nothing at its end, None where there may be more later."""
    try:
        return os.read(stream, _READ)
    except BlockingIOError:
        return None


def _widen(pipe: int) -> None:
    """Let a pipe hold several cases, so that neither side waits for the other."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(pipe, _SET_PIPE, _PIPE)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
