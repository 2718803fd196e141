"""Blocks of a campaign in a process of their own on the machine of a cluster's worker.

The worker of a cluster must survive its cases, and its processes may have no children: it starts this module
as a command, which has a pool of one process (:mod:`.pool`) and goes on until the worker is gone.
"""

import atexit
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from ...errors import ArgumentError, PtoError
from .batch import Batch
from .block import Block
from .identity import versions
from .plan import Plan
from .pool import Pool

#: Seconds that a process has to end once nothing is left for it to do.
_ENDING = 2.0


@dataclass(frozen=True)
class Work:
    """A block, with what is done of it, for the campaign of a plan that was started in ``folder``."""

    plan: Plan
    folder: str
    memory: float
    start: int
    count: int
    done: tuple[Batch, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What a process that executes blocks is started for."""
        return (self.plan, self.folder, self.memory)


@dataclass(frozen=True)
class Finished:
    """What became of the cases that were not done, in the order in which it was known, and how long it took.

    ``refused`` says why the campaign cannot be executed at all; ``usage`` that the command is wrong.
    """

    pieces: tuple[tuple[Batch, float], ...] = ()
    notes: tuple[str, ...] = ()
    rejected: bool = False
    device: str = ""
    peak: int = 0
    refused: str = ""
    usage: bool = False
    versions: Mapping[str, str] = field(default_factory=versions)


class Host:
    """The process for the blocks of one campaign, as the cluster's worker sees it."""

    def __init__(self, work: Work) -> None:
        ours, theirs = Pipe()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        self.connection, self.key = ours, work.key
        self.process = subprocess.Popen(
            command, cwd=work.folder, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()

    def execute(self, work: Work) -> Finished:
        """Execute a block; EOFError where the process has ended."""
        self.connection.send(work)
        found = self.connection.recv()
        assert isinstance(found, Finished)
        return found

    def end(self) -> None:
        """End the process, which ends its own."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING)
            return
        self.process.kill()
        self.process.wait()


_lock = threading.Lock()
#: Processes of this worker that have nothing to do.
_idle: list[Host] = []


def execute(work: Work) -> Finished:
    """Execute a block on a cluster's worker, in a process that is there already if one is.

    Raises RuntimeError where that process ends, so that the cluster tries again.
    """
    if not Path(work.folder).is_dir():
        message = f"the campaign's folder {work.folder} is not there on a worker; share it with all of them"
        return Finished(refused=message)
    host = _taken(work)
    try:
        found = host.execute(work)
    except (EOFError, OSError):
        host.end()
        raise RuntimeError("the process that executed a block has ended") from None
    with _lock:
        _idle.append(host)
    return found


def _taken(work: Work) -> Host:
    """An idle process for a campaign, or a new one; those of other campaigns end."""
    with _lock:
        others = [h for h in _idle if h.key != work.key]
        alike = [h for h in _idle if h.key == work.key]
        _idle[:] = alike[1:]
    for host in others:
        host.end()
    return alike[0] if alike else Host(work)


def end_idle() -> None:
    """End the processes that have nothing to do."""
    with _lock:
        hosts = list(_idle)
        _idle.clear()
    for host in hosts:
        host.end()


atexit.register(end_idle)


class _Blocks:
    """The blocks that come through a connection, as an iterator that answers for those that are finished."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.work = queue.SimpleQueue[Work]()
        self.pieces: list[tuple[Batch, float]] = []
        self.notes: list[str] = []
        self.block: Block | None = None
        self.pool: Pool | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Take work until the worker is gone, which ends this process whatever it is doing."""
        while True:
            try:
                self.work.put(self.connection.recv())
            except (EOFError, OSError):
                os._exit(1)

    def __iter__(self) -> Iterator[Block]:
        while True:
            if self.block is not None:
                self.answer()
            work = self.work.get()
            self.block = Block(work.start, work.count, work.done)
            if self.block.todo:
                yield self.block

    def answer(self, refused: str = "", usage: bool = False) -> None:
        """Send what became of the block."""
        found = Finished(tuple(self.pieces), tuple(self.notes), refused=refused, usage=usage)
        if self.pool is not None:
            pool = self.pool
            found = replace(found, device=pool.device, peak=pool.peak, rejected=pool.rejected)
        self.pieces.clear()
        self.notes.clear()
        self.connection.send(found)


def serve(connection: Connection) -> None:
    """Execute blocks until the connection ends."""
    blocks = _Blocks(connection)
    first = blocks.work.get()
    blocks.work.put(first)
    try:
        with Pool(first.plan, 1, blocks.notes.append, first.memory) as pool:
            blocks.pool = pool
            before = 0.0
            for update in pool.run(iter(blocks)):
                if update is not None:
                    seconds = update.block.seconds
                    blocks.pieces.append((update.piece, max(0.0, seconds - before)))
                    before = seconds if update.block.todo else 0.0
    except PtoError as error:
        blocks.answer(str(error), isinstance(error, ArgumentError))


def main(arguments: Sequence[str]) -> None:
    """The process: its connection is a file that it was given."""
    serve(Connection(int(arguments[0])))


if __name__ == "__main__":
    # What it answers with is unpickled by the worker, which knows this module by its name.
    from pto_jax.campaign.fuzz import host

    host.main(sys.argv[1:])
