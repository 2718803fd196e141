"""Workers of a campaign on this computer: blocks in, results out, also when processes die.

Results come case by case, so that what was told is not lost with a process. Where a worker ends or hangs,
the rest of its block is executed in parts, in new processes, down to the case that does it; that case
becomes a failure ``crashed``.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from ...errors import ArgumentError, PtoError
from ...files.terminal import uninterrupted
from .batch import Batch, Block, Board, Done, Failed, Note, Piece, Ready, Span, Task, alone, crash
from .plan import Plan

#: What a block may take that tells nothing of its cases, in time limits of one case. It may compile first.
BLOCK_LIMITS = 30
#: What recording a failure may take, in times of shrinking and of one case.
RECORDING = 2
#: Seconds that a process has to end after it is told to.
_ENDING = 2.0


@dataclass(frozen=True)
class Update:
    """Some more cases of a block are done."""

    block: Block
    piece: Batch


@dataclass
class _Worker:
    """One process, replaced when it ends: what it is doing, and since when it has said nothing."""

    number: int
    process: BaseProcess
    connection: Connection
    board: Board
    block: Block | None
    ready: bool = False
    one_by_one: bool = False
    fresh: bool = True
    since: float = 0.0
    beats: int = 0
    memory: int = 0


class Pool:
    """``workers`` processes that execute the blocks of a plan.

    A process that holds more than ``memory`` bytes after a block is replaced: compiled functions stay in its
    caches. ``say`` is told what a user should know. ``device`` is known when the first result is there,
    ``peak`` is the most bytes that a worker held after a block. Use it as a context: its end is the end of
    the processes.
    """

    def __init__(
        self, plan: Plan, workers: int, say: Callable[[str], None], memory: float = math.inf
    ) -> None:
        self._plan, self._count, self._say, self._memory = plan, workers, say, memory
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._said: set[str] = set()
        self.device = ""
        self.peak = 0
        #: Whether programs were left out because of their errors.
        self.rejected = False
        #: What is lacking in the results, and why.
        self.kept: list[str] = []

    @property
    def shrinking(self) -> int:
        """How many workers are making a failure small."""
        return sum(w.block is not None and w.board.recording for w in self._workers)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def run(self, blocks: Iterator[Block], tick: float = 0.5) -> Iterator[Update | None]:
        """What is done, piece by piece; None at least every ``tick`` seconds.

        Raises ArgumentError or PtoError when the campaign cannot be executed at all.
        """
        for number, first in zip(range(self._count), blocks, strict=False):
            self._workers.append(self._started(number, first))
        while busy := [w for w in self._workers if w.block is not None]:
            ready = wait([w.connection for w in busy], timeout=tick)
            for worker in busy:
                block, piece = worker.block, None
                if worker.connection in ready:
                    piece = self._heard(worker)
                elif self._overdue(worker):
                    piece = self._lost(worker, f"no answer within {self._limit(worker):g} s")
                if block is not None and piece is not None:
                    yield Update(block, piece)
                # What gives out blocks may wait for the results of the last one.
                if block is not None and not block.todo:
                    self._give(self._workers[worker.number], next(blocks, None))
            yield None

    def _started(self, number: int, block: Block | None) -> _Worker:
        ours, theirs = self._context.Pipe()
        cells = self._context.RawArray("q", Board.SIZE)
        process = self._context.Process(target=_serve, args=(self._plan, theirs, cells))
        with uninterrupted():
            process.start()
        theirs.close()
        return _Worker(number, process, ours, Board(cells), block)

    def _give(self, worker: _Worker, block: Block | None) -> None:
        """Send a worker the next part of a block, once it is ready; one that holds too much is replaced."""
        worker.block = block
        if block is not None and worker.memory > self._memory:
            _end(worker)
            self._workers[worker.number] = self._started(worker.number, block)
        elif block is not None and worker.ready:
            worker.since = time.monotonic()
            task = Task(*block.todo[0], block.unrecorded, block.folders())
            # A worker that is gone is noticed where its messages are read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                worker.connection.send(task)

    def _heard(self, worker: _Worker) -> Batch | None:
        """Take a message; what it says about cases."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_ENDING)
            return self._lost(worker, f"the process ended with {_reason(worker.process.exitcode)}")
        worker.since = time.monotonic()
        block = worker.block
        match message:
            case Ready():
                self.device, worker.ready, worker.one_by_one = message.device, True, message.one_by_one
                self._give(worker, block)
            case Note():
                self._tell(message)
            case Failed() if message.final or not worker.ready:
                raise (ArgumentError if message.usage else PtoError)(message.message)
            case Failed():
                piece = self._divide(worker, message.message, certain=True)
                self._next(worker)
                return piece
            case Piece() if block is not None:
                worker.fresh, block.worker = False, worker.number
                block.add(message.batch, message.seconds)
                return message.batch
            case Done() if block is not None:
                worker.fresh, worker.memory = False, message.memory
                self.peak = max(self.peak, message.memory)
                block.todo.pop(0)
                self._next(worker)
        return None

    def _tell(self, note: Note) -> None:
        self.rejected |= note.rejected
        if note.text not in self._said:
            self._said.add(note.text)
            self.kept += [note.text] * note.kept
            self._say(note.text)

    def _next(self, worker: _Worker) -> None:
        """Give out the next part of a worker's block, where there is one."""
        if worker.block is not None and worker.block.todo:
            self._give(worker, worker.block)

    def _lost(self, worker: _Worker, reason: str) -> Batch | None:
        """Replace a process that ended or hangs; the case that did it, if it is known."""
        _end(worker)
        if not worker.ready:
            raise PtoError(f"a worker does not start: {reason}")
        piece = self._divide(worker, reason, certain=worker.fresh)
        self._workers[worker.number] = self._started(worker.number, worker.block)
        return piece

    def _divide(self, worker: _Worker, reason: str, certain: bool) -> Batch | None:
        """Divide what is left of the part that a worker failed at, down to a case, which is a crash then.

        ``certain`` says that a case which was executed alone is the reason, and not what the process did
        before.
        """
        block, at = worker.block, worker.board.index
        assert block is not None
        left = block.left(*block.todo.pop(0))
        if worker.board.recording:
            block.unrecorded |= {at}
            self._tell(Note(f"case {at}: its failure was not recorded: {reason}", kept=True))
        elif certain and len(left) == 1 and left[0][1] == 1:
            piece = alone(crash(self._plan.seed, left[0][0], reason))
            block.add(piece)
            return piece
        elif worker.one_by_one:
            left = [part for span in left for part in _parts(*span, at)]
        elif len(left) == 1:
            left = _parts(*left[0], None)
        block.todo[:0] = left
        return None

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
        _, count = worker.block.todo[0] if worker.block is not None else (0, 1)
        limit = plan.case_timeout + devices * plan.dut_timeout
        if not worker.one_by_one or plan.lockstep:
            limit = BLOCK_LIMITS * plan.case_timeout + devices * count * plan.dut_timeout
        if worker.board.recording:
            # A device is told of each call; others are as quick as the time they are given.
            limit += RECORDING * (min(plan.shrink_seconds, limit) + limit)
        return limit


def _parts(start: int, count: int, suspect: int | None) -> list[Span]:
    """Some cases in parts: the one that was told of first and what is beside it, else halves.

    >>> _parts(8, 8, 10), _parts(8, 8, None), _parts(8, 8, 3)
    ([(10, 1), (8, 2), (11, 5)], [(8, 4), (12, 4)], [(8, 8)])
    """
    end = start + count
    if suspect is None:
        spans = [(start, count // 2), (start + count // 2, count - count // 2)]
    elif start <= suspect < end:
        spans = [(suspect, 1), (start, suspect - start), (suspect + 1, end - suspect - 1)]
    else:
        spans = [(start, count)]
    return [(s, n) for s, n in spans if n]


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
