"""Devices that answer case after case from one process, and the bytes that are exchanged with them.

The process can neither hang nor fill its pipes. A case costs the device's own time only. The raw form of a
case is one ``.bin`` file per argument or result, little-endian elements in the order of memory: buffers row
by row, tiles in the order of their layout (:mod:`pto_jax.vectors.cases`), 4-bit elements of packed types two
to a byte. Scalars are single elements, truth values a byte. ``NAME.valid.bin`` has the valid rows and columns
of a tile as two 32-bit integers. The contract of a device is in :mod:`.exchange`.
"""

import contextlib
import math
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.entries import fragment_outputs, select_entry, written_buffers
from ..cases.targets import Output, Run
from ..errors import DeviceError, FileError, UnusableDeviceError
from ..files import MAX_ARRAYS, read_bytes, write_bytes
from ..generate.programs import Case
from ..ir import DType, ScalarType, TileType
from ..runtime.array_files import REGION
from ..vectors import cases
from .contract import DECLINED, DECLINES, FAILED, OK
from .dut import OUTPUT_BYTES, Template, declined, dying_with_us, ending, failed, last_lines, plain
from .exchange import Array, input_arrays, outputs_of, program_text, result_types, stored_form


@dataclass(frozen=True)
class Slot:
    """The array of a result: its name, element type and shape."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """The bytes of its elements."""
        return self.dtype.itemsize * math.prod(self.shape)

    @cached_property
    def head(self) -> bytes:
        """The line that stands before its elements."""
        sizes = "".join(f" {n}" for n in self.shape)
        return f"{self.name} {self.dtype.name} {self.size}{sizes}\n".encode()


@dataclass(frozen=True)
class Request:
    """What a device is sent for a case, and the arrays that its answer has, in order."""

    case: Case
    message: bytes
    results: tuple[Slot, ...]

    @cached_property
    def size(self) -> int:
        """The bytes of an answer's arrays."""
        return sum(slot.size for slot in self.results)

    def run(self, answer: bytes) -> Run:
        """The results in the arrays of an answer; DeviceError for those that cannot be."""
        arrays: dict[str, Array] = {}
        at = 0
        for slot in self.results:
            count = math.prod(slot.shape)
            words: NDArray[np.generic] = np.frombuffer(answer, slot.dtype, count, at)
            arrays[slot.name] = words.reshape(slot.shape)
            at += slot.size
        return outputs_of(self.case, arrays)


def request(case: Case, text: str | None = None, written: Sequence[str] | None = None) -> Request:
    """A case as it is sent to a device; ``text`` is its program, ``written`` what that writes, where known.

    >>> import pto_jax as pto
    >>> from pto_jax.generate.state import Input
    >>> t = pto.TileType("i32", 1, 8)
    >>> a = Input(t, np.arange(8, dtype=np.uint32).reshape(1, 8))
    >>> program = pto.parse("tneg %d, %a : !pto.tile<1x8xi32>")
    >>> made = request(Case("id", 0, 0, pto.profile("a5"), program, {"a": a, "d": a}, {}))
    >>> made.message.split()[:4], [slot.name for slot in made.results], made.size
    ([b'case', b'id', b'a5', b'1'], ['d', 'd.valid'], 40)
    """
    inputs = _with_regions(case)
    results = tuple(_results(case, inputs, _written(case) if written is None else written))
    program = (program_text(case) if text is None else text).encode()
    numbers = f"{case.grid} {len(program)} {len(inputs)} {len(results)}"
    parts = [f"case {case.id} {case.profile.name} {numbers}\n".encode(), program]
    for name, array in inputs.items():
        parts += (_slot(name, array.dtype, array.shape).head, array.tobytes())
    return Request(case, b"".join([*parts, *(slot.head for slot in results)]), results)


def _with_regions(case: Case) -> dict[str, Array]:
    """The inputs as arrays, the valid sizes of every tile among them."""
    arrays: dict[str, Array] = {}
    for name, array in input_arrays(case.inputs).items():
        arrays[name] = array
        i = case.inputs.get(name)
        if i is not None and isinstance(i.type, TileType):
            valid = i.valid or (i.type.valid if i.type.is_static else i.type.shape)
            arrays[name + REGION] = np.array(valid, np.int32)
    return arrays


def _written(case: Case) -> Sequence[str]:
    program = case.program
    if program.fragment:
        return fragment_outputs(program)
    return written_buffers(program, select_entry(program, case.entry))


def _results(case: Case, inputs: Mapping[str, Array], written: Sequence[str]) -> Iterator[Slot]:
    """The arrays of everything that a program writes."""
    types = {} if all(name in inputs for name in written) else result_types(case.program)
    for name in written:
        t: Any = case.inputs[name].type if name in inputs else types[name]
        if isinstance(t, ScalarType):
            continue
        form = inputs.get(name)
        if form is None:
            form = stored_form(t)
        yield _slot(name, form.dtype, form.shape)
        if isinstance(t, TileType):
            yield _slot(name + REGION, np.dtype(np.int32), (2,))


_SLOTS: dict[tuple[str, np.dtype[np.generic], tuple[int, ...]], Slot] = {}


def _slot(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Slot:
    """The one slot of a name, type and shape: campaigns have few of them."""
    key = (name, dtype, shape)
    slot = _SLOTS.get(key)
    if slot is None:
        if len(_SLOTS) > 1 << 14:
            _SLOTS.clear()
        slot = _SLOTS[key] = Slot(*key)
    return slot


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
            raise DeviceError(
                f"{words[0]}: {error.strerror or error}", allowed="an executable file"
            ) from None
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
            self._wait(f"only {len(self._received)} of the {count} bytes asked for")
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    @property
    def rest(self) -> int:
        """The bytes that are there and that nobody has taken."""
        return len(self._received)

    def said(self) -> str:
        """What the process wrote to its error stream since this was asked last, the end of it."""
        with contextlib.suppress(OSError, KeyError):
            self._hear()
        text = plain(bytes(self._errors))
        self._errors.clear()
        return text

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

    def _wait(self, said: str = "no answer") -> None:
        """Write and read what is possible; Gone where the process has ended or the time is over.

        ``said`` is what there is of an answer.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._ended(f"{said} within {self._timeout:g} s; stopped", None)
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


VALID = ".valid.bin"


def save_inputs(folder: Path, case: Case) -> None:
    """Write the inputs of a case into a folder that exists."""
    for name, i in case.inputs.items():
        write_bytes(folder / f"{name}.bin", _bytes(i.type, i.type.dtype, i.words))


def save_outputs(folder: Path, case: Case, run: Run) -> None:
    """Write the results of a case into a folder that exists."""
    types = result_types(case.program)
    for name, output in run.outputs.items():
        write_bytes(folder / f"{name}.bin", _bytes(types[name], output.dtype, output.words))
        if output.valid is not None:
            write_bytes(folder / f"{name}{VALID}", np.array(output.valid, "<i4").tobytes())


def save_masks(folder: Path, case: Case, masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Write masks of results into a folder that exists: a byte per element, in the order of the result."""
    types = result_types(case.program)
    for name, mask in masks.items():
        t, ordered = types[name], mask.astype(np.uint8).reshape(-1)
        if isinstance(t, TileType):
            # Places of a padded row hold no element: they are not compared.
            ordered = np.zeros(cases.storage_elements(t), np.uint8)
            ordered[cases.element_offsets(t)] = mask
        write_bytes(folder / f"{name}.bin", ordered.tobytes())


def load_outputs(folder: Path, case: Case, names: Iterable[str]) -> Run:
    """Results of a case; DeviceError names a file that is missing or has another size."""
    types = result_types(case.program)
    return Run({name: _output(folder, case, name, types[name]) for name in names})


def _output(folder: Path, case: Case, name: str, t: Any) -> Output:
    raw = _read_array(folder / f"{name}.bin")
    d: DType = t.dtype
    if isinstance(t, TileType):
        _sized(name, raw, t.bytes)
        valid = _read_array(folder / f"{name}{VALID}")
        _sized(f"{name}{VALID}", valid, 8)
        rows, cols = (int(n) for n in valid.view("<i4"))
        return Output(d, cases.to_logical(t, raw), (rows, cols))
    shape = case.inputs[name].words.shape
    _sized(name, raw, d.storage_bytes(int(np.prod(shape, dtype=np.int64))))
    return Output(d, cases.unpack_elements(d, raw).reshape(shape))


def _sized(name: str, raw: NDArray[np.uint8], size: int) -> None:
    if raw.size != size:
        raise DeviceError(f"output {name}: got {raw.size} bytes", allowed=f"{size}")


def _bytes(t: object, d: DType, words: NDArray[Any]) -> bytes:
    raw = cases.to_physical(t, words) if isinstance(t, TileType) else cases.pack_elements(d, words)
    return raw.tobytes()


def _read_array(path: Path) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(read_bytes(path, MAX_ARRAYS, regular=True), np.uint8)
    except FileError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise DeviceError(f"outputs: {path.name}: {reason}") from None


#: Cases that a device is sent before it has answered the first of them.
AHEAD = 16
#: Processes that end without an answer before the device is started without a case, to see whether it ends as
#: well, and the seconds for which that is waited.
TRIES, IDLE = 3, 10.0


class Server:
    """A command line that is started once and answers cases on its standard input and output.

    ``timeout`` is in seconds. A process that ends, answers out of turn or gives no answer for as long is
    blamed on the first case without an answer, and started again for those after it; where it ``must_start``,
    UnusableDeviceError for a command that never answers and ends without a case too.
    """

    def __init__(self, command: str, timeout: float, must_start: bool = False) -> None:
        self.command, self.timeout = command, timeout
        self._words = Template.of(command, ()).filled({})
        self._process: Conversation | None = None
        #: Processes that ended without an answer, as long as there was none; None afterwards.
        self._fruitless: int | None = 0
        self.must_start = must_start
        #: The case that the process answered last with results.
        self._before: Request | None = None
        #: What is sent and has no answer, and answers that nobody has taken.
        self._waiting = deque[Request]()
        self._ready = deque[Run | Exception]()

    @property
    def name(self) -> str:
        """The machine as the command line of this package names it."""
        return f"dut-server:{self.command}"

    def run(self, case: Case) -> Run:
        """The outputs of one case, also between two answers of :meth:`answers`.

        NotExecutableError where the device declines it, DeviceError where it gives no right answer.
        """
        while self._waiting:
            self._ready.append(self._next())
        self._send(request(case))
        answer = self._next()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answers(self, requests: Iterable[Request]) -> Iterator[Run | Exception]:
        """The results of each request, in order; requests are made while the device works on others."""
        if self._waiting or self._ready:
            self.close()
        source = iter(requests)
        while True:
            while len(self._waiting) + len(self._ready) < AHEAD:
                following = next(source, None)
                if following is None:
                    break
                self._send(following)
            if not self._waiting and not self._ready:
                return
            yield self._ready.popleft() if self._ready else self._next()

    def close(self) -> None:
        """End the process, and forget what it was asked."""
        self._end()
        self._waiting.clear()
        self._ready.clear()

    def _send(self, asked: Request) -> None:
        self._waiting.append(asked)
        if self._process is not None:
            self._process.send(asked.message)

    def _next(self) -> Run | Exception:
        """The next answer; a new process is sent everything that has none."""
        if self._process is None:
            self._process = self._started()
            for asked in self._waiting:
                self._process.send(asked.message)
        return self._answer(self._process, self._waiting.popleft())

    def _started(self) -> Conversation:
        try:
            return Conversation(self._words, self.timeout)
        except DeviceError as error:
            if self.must_start:
                raise UnusableDeviceError(f"{self.name}: {error}") from None
            raise

    def _check_usable(self, reason: str) -> None:
        """Raise UnusableDeviceError where the process ends without a case as it did with the first ones."""
        if self._fruitless is None or not self.must_start:
            return
        self._fruitless += 1
        if self._fruitless == TRIES:
            process = self._started()
            ended = process.ends(IDLE)
            process.end()
            if ended:
                message = f"{self.name}: does not start, {TRIES} tries: {reason}"
                raise UnusableDeviceError(message)

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = self._before = None

    def _doubt(self) -> str:
        """What else an answer in a wrong form may come from."""
        if self._before is None:
            return ""
        return f"; or the answer before had fewer than the {self._before.size} bytes asked for"

    def _answer(self, process: Conversation, asked: Request) -> Run | Exception:
        try:
            word, _, reason = process.line().partition(" ")
            if word in (OK, DECLINES, FAILED):
                self._fruitless = None
            if word == OK:
                run = asked.run(process.exactly(asked.size))
                if process.rest and not self._waiting:
                    # Where a case is waiting, they are the beginning of a wrong answer to that.
                    raise process.gone(f"answered with more than the {asked.size} bytes asked for")
                self._before = asked
                return replace(run, log=process.said())
            if word == DECLINES:
                return declined(reason)
            if word == FAILED:
                return failed(f"the device says: {reason or 'failed'}", process.said())
            allowed = f"allowed: {OK}, {DECLINES} REASON, {FAILED} REASON"
            raise process.gone(f"answered {f'{word} {reason}'.strip()[:80]!r}; {allowed}{self._doubt()}")
        except Gone as gone:
            self._end()
            self._check_usable(str(gone))
            return declined(gone.tail) if gone.status == DECLINED else failed(str(gone), gone.output)
        except DeviceError as error:
            return error
