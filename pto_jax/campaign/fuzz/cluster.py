"""Blocks of a campaign on a Dask cluster: workers may come, go and be killed.

The campaign's process is the only one that writes its store. A block whose worker is lost is executed again
by another one, with the same rows.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, PtoError
from ...files import read_json
from . import host, identity, pool
from .block import Block
from .plan import Plan

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
            self._client.run(host.end_idle, on_error="ignore")
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
        work = host.Work(self._plan, str(Path.cwd()), self._memory, block.start, block.count, done)
        self._given[self._client.submit(host.execute, work, pure=False)] = (block, tries)

    def _finished(self, future: Any, block: Block, tries: int) -> Iterator[pool.Update]:
        error = future.exception()
        if error is not None:
            if tries >= TRIES:
                last = f"{type(error).__name__}: {error}"
                raise PtoError(f"cases {block.start} to {block.end - 1}: {tries} workers ended: {last}")
            self._tell(f"a worker was lost; its block is executed again ({type(error).__name__})")
            self._submit(block, tries + 1)
            return
        found: host.Finished = future.result()
        if found.refused:
            raise (ArgumentError if found.usage else PtoError)(found.refused)
        if other := identity.differences(found.versions, identity.versions()):
            raise PtoError(f"a worker has other versions: {'; '.join(other)}; install the same everywhere")
        self.device, self.peak = found.device, max(self.peak, found.peak)
        self.rejected |= found.rejected
        for text in found.notes:
            self._tell(text)
        for piece, seconds in found.pieces:
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
            "--scheduler needs Dask, which is not installed; usual fix: pip install 'pto_jax[distributed]'"
        ) from None
    address = _address(scheduler)
    try:
        return Client(address, timeout=CONNECTING)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArgumentError(
            f"--scheduler {scheduler}: no scheduler is reached: {reason}; allowed: tcp://HOST:PORT, or the "
            "file of dask scheduler --scheduler-file"
        ) from None


def _address(scheduler: str) -> str:
    """The address of a scheduler, from the file in which it wrote it where that is named."""
    if not Path(scheduler).is_file():
        return scheduler
    told = read_json(scheduler)
    address = told.get("address") if isinstance(told, dict) else None
    if not isinstance(address, str):
        raise ArgumentError(f"--scheduler {scheduler}: no scheduler is reached: the file names no address")
    return address
