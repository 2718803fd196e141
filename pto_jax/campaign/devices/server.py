"""Devices under test that answer case after case from one process: a case costs the device's own time."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...errors import DeviceError, UnusableDeviceError
from ...generate.programs import Case
from ..results import Run
from .contract import DECLINED, DECLINES, FAILED, OK
from .conversation import Conversation, Gone
from .process import Template, declined, failed
from .wire import Request, request

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
            self._process = None

    def _answer(self, process: Conversation, asked: Request) -> Run | Exception:
        try:
            word, _, reason = process.line().partition(" ")
            if word in (OK, DECLINES, FAILED):
                self._fruitless = None
            if word == OK:
                return replace(asked.run(process.exactly(asked.size)), log=process.said())
            if word == DECLINES:
                return declined(reason)
            if word == FAILED:
                return failed(f"the device says: {reason or 'failed'}", process.said())
            allowed = f"allowed: {OK}, {DECLINES} REASON, {FAILED} REASON"
            raise process.gone(f"answered {f'{word} {reason}'.strip()[:80]!r}; {allowed}")
        except Gone as gone:
            self._end()
            self._check_usable(str(gone))
            return declined(gone.tail) if gone.status == DECLINED else failed(str(gone), gone.output)
        except DeviceError as error:
            return error
