"""Workers of a campaign on this machine: blocks out, batches in, whatever happens to the processes.

A block on which a worker ends or hangs is executed again in parts, in new processes, down to the case that
does it; that case becomes a failure ``crashed``.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from ...errors import ArgumentError, PtoError
from .batch import Batch, alone, crash, joined
from .messages import Board, Done, Failed, Note, Ready, Task
from .plan import Plan

#: What a block may take that tells nothing of its cases, in time limits of one case. It may compile first.
BLOCK_LIMITS = 30
#: What recording a failure may take, in times of shrinking and of one case.
RECORDING = 2
#: Seconds that a process has to end after it is told to.
_ENDING = 2.0


@dataclass(frozen=True)
class Finished:
    """A block that is done, the number of the worker that did it, the seconds it took, and the bytes that the
    worker holds."""

    batch: Batch
    worker: int
    seconds: float
    memory: int


@dataclass
class _Job:
    """A block in the making: parts that are done, and those that are still to be executed."""

    start: int
    count: int
    todo: list[tuple[int, int]]
    done: list[Batch] = field(default_factory=list)
    unrecorded: frozenset[int] = frozenset()
    seconds: float = 0.0


@dataclass
class _Worker:
    """One process, replaced when it ends: what it is doing, and since when it has said nothing."""

    number: int
    process: multiprocessing.process.BaseProcess
    connection: Connection
    board: Board
    job: _Job | None
    ready: bool = False
    one_by_one: bool = False
    fresh: bool = True
    since: float = 0.0
    beats: int = 0
    memory: int = 0


class Pool:
    """``workers`` processes that execute the blocks of a plan.

    A process that holds more than ``memory`` bytes after a block is replaced: compiled functions stay in its
    caches. ``say`` is told what a user should know. ``device`` is known when the first batch is there. Use
    it as a context: its end is the end of the processes.
    """

    def __init__(
        self, plan: Plan, workers: int, say: Callable[[str], None], memory: float = math.inf
    ) -> None:
        self._plan, self._count, self._say, self._memory = plan, workers, say, memory
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._said: set[str] = set()
        self.device = ""
        #: Whether programs were left out because of their errors.
        self.rejected = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    @property
    def begun(self) -> int:
        """Cases of blocks under way that are done, where their workers tell of each."""
        total = 0
        for w in self._workers:
            if w.job is not None and w.ready and w.one_by_one and w.job.todo:
                start, count = w.job.todo[0]
                total += sum(b.count for b in w.job.done)
                total += w.board.index - start if start <= w.board.index < start + count else 0
        return total

    def run(self, blocks: Iterator[tuple[int, int]], tick: float = 0.5) -> Iterator[Finished | None]:
        """Batches in the order in which they are done; None at least every ``tick`` seconds.

        Raises ArgumentError or PtoError when the campaign cannot be executed at all.
        """
        jobs = (_Job(start, count, [(start, count)]) for start, count in blocks)
        for number, job in zip(range(self._count), jobs, strict=False):
            self._workers.append(self._started(number, job))
        while busy := [w for w in self._workers if w.job is not None]:
            ready = wait([w.connection for w in busy], timeout=tick)
            for worker in busy:
                finished = None
                if worker.connection in ready:
                    finished = self._heard(worker)
                elif self._overdue(worker):
                    finished = self._lost(worker, f"no answer within {self._limit(worker):g} s")
                if finished is not None:
                    self._give(self._workers[worker.number], next(jobs, None))
                    yield finished
            yield None

    def _started(self, number: int, job: _Job | None) -> _Worker:
        ours, theirs = self._context.Pipe()
        cells = self._context.RawArray("q", Board.SIZE)
        process = self._context.Process(target=_serve, args=(self._plan, theirs, cells))
        with _uninterrupted():
            process.start()
        theirs.close()
        return _Worker(number, process, ours, Board(cells), job)

    def _give(self, worker: _Worker, job: _Job | None) -> None:
        """Send a worker the next part of a block, once it is ready; one that holds too much is replaced."""
        worker.job = job
        if job is not None and worker.memory > self._memory:
            _end(worker)
            self._workers[worker.number] = self._started(worker.number, job)
        elif job is not None and worker.ready:
            worker.since = time.monotonic()
            # A worker that is gone is noticed where its messages are read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                worker.connection.send(Task(*job.todo[0], job.unrecorded))

    def _heard(self, worker: _Worker) -> Finished | None:
        """Take a message; the block, if that ends it."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_ENDING)
            return self._lost(worker, f"the process ended with {_reason(worker.process.exitcode)}")
        worker.since = time.monotonic()
        match message:
            case Ready():
                self.device, worker.ready, worker.one_by_one = message.device, True, message.one_by_one
                self._give(worker, worker.job)
            case Note():
                self._tell(message)
            case Failed() if not worker.ready:
                raise (ArgumentError if message.usage else PtoError)(message.message)
            case Failed():
                self._divide(worker, message.message, certain=True)
                return self._next(worker)
            case Done():
                return self._part(worker, message)
        return None

    def _tell(self, note: Note) -> None:
        self.rejected |= note.rejected
        if note.text not in self._said:
            self._said.add(note.text)
            self._say(note.text)

    def _part(self, worker: _Worker, done: Done) -> Finished | None:
        assert worker.job is not None
        worker.job.todo.pop(0)
        worker.job.done.append(done.batch)
        worker.job.seconds += done.seconds
        worker.fresh, worker.memory = False, done.memory
        return self._next(worker)

    def _next(self, worker: _Worker) -> Finished | None:
        """Give out the next part of a worker's block; the block, when there is none."""
        job = worker.job
        assert job is not None
        if job.todo:
            self._give(worker, job)
            return None
        return Finished(joined(job.done), worker.number, job.seconds, worker.memory)

    def _lost(self, worker: _Worker, reason: str) -> Finished | None:
        """Replace a process that ended or hangs; the block, if that ends it."""
        _end(worker)
        if not worker.ready:
            raise PtoError(f"a worker does not start: {reason}")
        self._divide(worker, reason, certain=worker.fresh)
        self._workers[worker.number] = renewed = self._started(worker.number, worker.job)
        return self._next(renewed)

    def _divide(self, worker: _Worker, reason: str, certain: bool) -> None:
        """Divide the part that a worker failed at, down to a case; ``certain`` says that a case which was
        executed alone is the reason, and not what the process did before."""
        job, at = worker.job, worker.board.index
        assert job is not None
        start, count = job.todo.pop(0)
        if worker.board.recording:
            job.unrecorded |= {at}
            job.todo.insert(0, (start, count))
            self._tell(Note(f"case {at}: its failure was not recorded: {reason}"))
        elif count > 1:
            known = worker.one_by_one and start <= at < start + count
            job.todo[:0] = _parts(start, count, at if known else None)
        elif certain:
            job.done.append(alone(crash(self._plan.seed, start, reason)))
        else:
            job.todo.insert(0, (start, count))

    def _overdue(self, worker: _Worker) -> bool:
        """Whether a worker has shown no progress for too long."""
        now, beats = time.monotonic(), worker.board.beats
        if beats != worker.beats:
            worker.beats, worker.since = beats, now
        return worker.ready and now - worker.since > self._limit(worker)

    def _limit(self, worker: _Worker) -> float:
        """Seconds for which a worker may say nothing."""
        plan = self._plan
        devices = sum(m.startswith("dut") for m in (plan.reference, plan.tested))
        _, count = worker.job.todo[0] if worker.job is not None else (0, 1)
        limit = plan.case_timeout + devices * plan.dut_timeout
        if not worker.one_by_one:
            limit = BLOCK_LIMITS * plan.case_timeout + devices * count * plan.dut_timeout
        if worker.board.recording:
            limit += RECORDING * (plan.shrink_seconds + limit)
        return limit


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes started here are deaf to the interrupt key from their first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _parts(start: int, count: int, told: int | None) -> list[tuple[int, int]]:
    """A block in parts: the case that was told of first and what is beside it, else halves.

    >>> _parts(8, 8, 10), _parts(8, 8, None)
    ([(10, 1), (8, 2), (11, 5)], [(8, 4), (12, 4)])
    """
    end = start + count
    if told is None:
        half = count // 2
        return [(start, half), (start + half, count - half)]
    listed = [(told, 1), (start, told - start), (told + 1, end - told - 1)]
    return [(s, n) for s, n in listed if n]


def _serve(plan: Plan, connection: Connection, cells: MutableSequence[int]) -> None:
    """A worker; what it needs is not imported in the campaign's own process."""
    from .worker import serve

    serve(plan, connection, cells)


def _end(worker: _Worker) -> None:
    """End a process and what it started."""
    worker.connection.close()
    process = worker.process
    process.terminate()
    process.join(_ENDING)
    if process.pid is not None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():
        process.kill()
        process.join(_ENDING)


def _reason(status: int | None) -> str:
    """An exit status in words.

    >>> _reason(-11), _reason(3)
    ('SIGSEGV', 'exit status 3')
    """
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"
