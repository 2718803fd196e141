"""Campaigns on many computers: blocks on a Dask cluster.

The process of the campaign is the only one that writes its store. A block whose worker is lost is executed
again by another worker, with the same rows. A worker of the cluster must survive its cases, and its processes
may have no children, so it starts this module as a command with a pool of one process (:mod:`.pool`) that
ends with the worker.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import queue
import subprocess
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ...cases.identity import versions
from ...errors import ArgumentError, PtoError
from ...files import read_json
from . import pool
from .batch import Batch, Block
from .plan import Plan, differences
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
    kept: tuple[str, ...] = ()
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
        result = self.connection.recv()
        assert isinstance(result, Finished)
        return result

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
        result = host.execute(work)
    except (EOFError, OSError):
        host.end()
        raise RuntimeError("the process that executed a block has ended") from None
    with _lock:
        _idle.append(host)
    return result


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
        result = Finished(tuple(self.pieces), tuple(self.notes), refused=refused, usage=usage)
        if self.pool is not None:
            pool = self.pool
            result = replace(result, device=pool.device, peak=pool.peak, rejected=pool.rejected)
            result = replace(result, kept=tuple(pool.kept))
        self.pieces.clear()
        self.notes.clear()
        self.connection.send(result)


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


#: Seconds for the first connection; blocks that are given out ahead for each worker's thread.
CONNECTING, AHEAD = 30, 2
#: How often a block is given out whose workers end.
TRIES = 8
#: Seconds between two looks at how many workers there are.
_COUNTED = 2.0
_LOGGER = logging.getLogger("distributed.client")


class Cluster:
    """The workers of a Dask scheduler, in the place of a pool of processes (:class:`.pool.Pool`)."""

    def __init__(
        self, plan: Plan, scheduler: str, say: Callable[[str], None], memory: float = math.inf
    ) -> None:
        self._plan, self._scheduler, self._say, self._memory = plan, scheduler, say, memory
        self._client: Any = None
        self._given: dict[Any, tuple[Block, int]] = {}
        self._said: set[str] = set()
        self._threads, self._counted = 0, -math.inf
        self._logging = logging.NOTSET
        self.device = ""
        self.peak = 0
        #: Whether programs were left out because of their errors.
        self.rejected = False
        #: What is lacking in the results, and why.
        self.kept: list[str] = []
        #: Workers of a cluster do not say that they make a failure small.
        self.shrinking = 0

    def __enter__(self) -> Cluster:
        self._client = _client(self._scheduler)
        # What becomes of the connection is said in one line, by this campaign.
        self._logging = _LOGGER.level
        _LOGGER.setLevel(logging.CRITICAL)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception, CancelledError):
            # What is left of the campaign on the workers is of no use; they may be gone themselves.
            self._client.cancel(list(self._given))
            self._client.run(end_idle, on_error="ignore")
        with contextlib.suppress(Exception, CancelledError):
            self._client.close()
        _LOGGER.setLevel(self._logging)

    def run(self, blocks: Iterator[Block], tick: float = 0.5) -> Iterator[pool.Update | None]:
        """What is done, block by block; None at least every ``tick`` seconds.

        Raises ArgumentError or PtoError when the campaign cannot be executed.
        """
        left = True
        while left or self._given:
            while left and len(self._given) < AHEAD * max(1, self._workers()):
                block = next(blocks, None)
                left = block is not None
                if block is not None:
                    self._submit(block, 1)
            if not self._given:
                return
            for future in sorted(self._done(tick), key=lambda f: self._given[f][0].start):
                block, tries = self._given.pop(future)
                yield from self._finished(future, block, tries)
            yield None

    def _done(self, tick: float) -> set[Any]:
        """Blocks whose results are there, waited for a while; PtoError where the scheduler is gone."""
        from distributed import wait

        try:
            waited: Any = wait(  # type: ignore[no-untyped-call]
                list(self._given), timeout=tick, return_when="FIRST_COMPLETED"
            )
            done: set[Any] = waited.done
        except TimeoutError:
            return set()
        except (CancelledError, Exception):
            # Whatever class a lost connection has: no block is there any more.
            done = set()
        if not done or any(future.cancelled() for future in done):
            raise PtoError(f"the scheduler {self._scheduler} is gone; --resume goes on with another one")
        return done

    def _submit(self, block: Block, tries: int) -> None:
        done = tuple(block.batches())
        work = Work(self._plan, str(Path.cwd()), self._memory, block.start, block.count, done)
        self._given[self._client.submit(execute, work, pure=False)] = (block, tries)

    def _finished(self, future: Any, block: Block, tries: int) -> Iterator[pool.Update]:
        error = future.exception()
        if error is not None:
            if tries >= TRIES:
                last = f"{type(error).__name__}: {error}"
                raise PtoError(f"cases {block.start} to {block.end - 1}: {tries} workers ended: {last}")
            self._tell(f"a worker was lost; its block is executed again ({type(error).__name__})")
            self._submit(block, tries + 1)
            return
        result: Finished = future.result()
        if result.refused:
            raise (ArgumentError if result.usage else PtoError)(result.refused)
        if other := differences(result.versions, versions()):
            raise PtoError(f"a worker has other versions: {'; '.join(other)}; install the same everywhere")
        self.device, self.peak = result.device, max(self.peak, result.peak)
        self.rejected |= result.rejected
        self.kept += [text for text in result.kept if text not in self.kept]
        for text in result.notes:
            self._tell(text)
        for piece, seconds in result.pieces:
            block.add(piece, seconds)
            yield pool.Update(block, piece)

    def _workers(self) -> int:
        """Threads of the workers that are there now."""
        if time.monotonic() - self._counted > _COUNTED:
            self._counted = time.monotonic()
            self._threads = sum(self._client.ncores().values())
            if not self._threads:
                self._tell(f"no worker at {self._scheduler}; waiting for one")
        return self._threads

    def _tell(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def _client(scheduler: str) -> Any:
    """A connection to a scheduler: its address, or the file in which it wrote that."""
    try:
        from distributed import Client
    except ImportError:
        raise ArgumentError(
            "--scheduler needs Dask, which is not installed", fix="pip install 'pto_jax[distributed]'"
        ) from None
    address = _address(scheduler)
    try:
        return Client(address, timeout=CONNECTING)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArgumentError(
            f"--scheduler {scheduler}: no scheduler is reached: {reason}",
            allowed="tcp://HOST:PORT, or the file of dask scheduler --scheduler-file",
        ) from None


def _address(scheduler: str) -> str:
    """The address of a scheduler, from the file in which it wrote it where that is named."""
    if not Path(scheduler).is_file():
        return scheduler
    content = read_json(scheduler)
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise ArgumentError(f"--scheduler {scheduler}: no scheduler is reached: the file names no address")
    return address


if __name__ == "__main__":
    # What it answers with is unpickled by the worker, which knows this module by its name.
    from pto_jax.campaign.fuzz import cluster

    cluster.main(sys.argv[1:])
