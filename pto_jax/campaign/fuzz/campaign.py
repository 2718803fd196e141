"""A campaign from its first case to its summary."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ...errors import ArgumentError
from .identity import differences, identity
from .plan import Plan
from .pool import Finished, Pool
from .progress import Progress
from .store import Store

#: What ended a campaign: every block is done, there were too many failures, or the user's interrupt.
FINISHED, STOPPED, INTERRUPTED = "finished", "stopped at --max-failures", "interrupted"


@dataclass(frozen=True)
class Setup:
    """How a plan is executed on this machine: nothing here changes a result.

    This is one of ``processes`` processes, each with a store of its own. ``max_failures`` stops the
    campaign (0: nothing does). Without ``store`` the results are kept in memory.
    """

    plan: Plan
    store: str | None = None
    resume: bool = False
    workers: int = 1
    process: int = 0
    processes: int = 1
    max_failures: int = 0
    #: Bytes that a worker may hold between two blocks.
    memory: float = math.inf


@dataclass(frozen=True)
class Result:
    """How a campaign ended, with its open store; ``rate`` is in cases per second, 0 if none was executed."""

    ended: str
    store: Store
    failures: int
    rate: float
    #: Programs of the user were left out because of their errors.
    rejected: bool


def run(setup: Setup, stream: TextIO | None = None) -> Result:
    """Execute what of a campaign is not done yet; ``stream`` is told how far it is.

    Raises FileError for a store that does not fit, ArgumentError and PtoError for a plan that cannot be
    executed. An interrupt ends it with the finished blocks kept.
    """
    plan = setup.plan
    store = _store(setup)
    done = store.done()
    total = sum(count for _, count in plan.blocks(setup.process, setup.processes))
    cells = set(store.coverage())
    progress = Progress(total, stream, sum(done.values()), failures(store), cells=cells)
    todo = (b for b in plan.blocks(setup.process, setup.processes) if b[0] not in done)
    ended = FINISHED
    try:
        with Pool(plan, setup.workers, progress.say, setup.memory) as pool:
            for finished in pool.run(todo):
                if finished is not None:
                    _keep(store, setup, pool, finished)
                progress.update(None if finished is None else finished.batch, pool.begun)
                if 0 < setup.max_failures <= progress.failures:
                    ended = STOPPED
                    break
    except KeyboardInterrupt:
        ended = INTERRUPTED
    except BaseException:
        _discard(store, kept=bool(done) or progress.done > 0)
        raise
    finally:
        progress.clear()
    executed = progress.done > progress.before
    rejected = bool(store.value("rejected"))
    return Result(ended, store, progress.failures, progress.rate if executed else 0.0, rejected)


def failures(store: Store) -> int:
    """How many failures a store has."""
    return int(next(store.rows("SELECT count(*) FROM failure"))[0])


def _store(setup: Setup) -> Store:
    """A new store, or the one to be continued."""
    wanted = identity(setup.plan, setup.process, setup.processes)
    if not setup.resume or setup.store is None or not Path(setup.store).exists():
        return Store.create(setup.store, {**wanted, "started": time.time()})
    store = Store.open(setup.store)
    # Through JSON, as the stored values went.
    differing = differences(store.campaign(), json.loads(json.dumps(wanted)))
    if differing:
        store.close()
        raise ArgumentError(
            f"{setup.store} holds another campaign: {'; '.join(differing)}; "
            "resume it with its own options, or give another --store"
        )
    return store


def _discard(store: Store, kept: bool) -> None:
    """Close a store; one in which nothing is was made for a campaign that cannot be executed."""
    store.close()
    if not kept and store.path is not None:
        store.path.unlink(missing_ok=True)


def _keep(store: Store, setup: Setup, pool: Pool, finished: Finished) -> None:
    if pool.device and store.value("device") is None:
        store.set(device=pool.device)
    if pool.rejected and not store.value("rejected"):
        store.set(rejected=True)
    worker = f"{setup.process}.{finished.worker}"
    store.add(finished.batch, worker, finished.seconds)
