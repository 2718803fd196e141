"""A campaign from its first case to its summary."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ... import errors, profiles
from ..known import named
from .announcement import announcement
from .block import Block
from .goal import bins_to_json
from .identity import differences, identity
from .plan import Plan
from .pool import Pool
from .progress import Progress
from .store import Store

if TYPE_CHECKING:
    from .cluster import Cluster

#: Seconds after which results are kept at the latest.
SAVED = 1.0
#: What ended a campaign: every block is done, there were too many failures, or the user's interrupt.
FINISHED, STOPPED, INTERRUPTED = "finished", "stopped at --max-failures", "interrupted"
#: And its time was over, or there was a cause of failures that is not known.
OVER, NEW = "stopped after --minutes", "stopped at a new cause"


@dataclass(frozen=True)
class Setup:
    """How a plan is executed on this machine: nothing here changes a result.

    This is one of ``processes`` processes, each with a store of its own. ``max_failures`` stops the
    campaign (0: nothing does), and so does a new cause with ``first_new``; failures of ``known`` causes do
    not count. Without ``store`` the results are kept in memory.
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
    known: frozenset[str] = frozenset()
    first_new: bool = False
    #: After which the campaign ends.
    seconds: float = math.inf
    #: A Dask scheduler whose workers execute the blocks; ``workers`` do without.
    scheduler: str | None = None


@dataclass(frozen=True)
class Result:
    """How a campaign ended, with its open store.

    ``failures`` has those of causes that are not known; ``rate`` is in cases per second, 0 if none was
    executed.
    """

    ended: str
    store: Store
    failures: int
    rate: float
    #: Programs of the user were left out because of their errors.
    rejected: bool


def run(setup: Setup, stream: TextIO | None = None) -> Result:
    """Execute what of a campaign is not done yet; ``stream`` is told how far it is.

    Raises FileError for a store that does not fit, ArgumentError and PtoError for a plan that cannot be
    executed. An interrupt ends it; what is done by then is kept, of unfinished blocks too.
    """
    store = _store(setup)
    done = store.done()
    total = setup.plan.size(setup.process, setup.processes)
    cells = set(store.coverage())
    progress = Progress(
        total, stream, sum(done.values()), failures(store), cells=cells, seconds=setup.seconds
    )
    progress.say(announcement(setup.plan, setup.workers, total - progress.done))
    todo = (
        store.block(start, count)
        for start, count in setup.plan.blocks(setup.process, setup.processes)
        if done.get(start) != count
    )
    ended = FINISHED
    try:
        ended = _executed(setup, store, progress, todo)
    except BaseException:
        _discard(store, kept=bool(done) or progress.done > 0)
        raise
    finally:
        progress.clear()
    executed = progress.done > progress.before
    rejected = bool(store.value("rejected"))
    return Result(ended, store, failures(store, setup.known), progress.rate if executed else 0.0, rejected)


def _executed(setup: Setup, store: Store, progress: Progress, todo: Iterator[Block]) -> str:
    """Execute some blocks, and keep at least every :data:`SAVED` seconds what is done; why it ended."""
    new = failures(store, setup.known)
    if reason := _enough(setup, progress, new):
        return reason
    changed: dict[int, Block] = {}
    saved = time.monotonic()
    with _Interrupt() as interrupt, _pool(setup, progress) as pool:
        try:
            for update in pool.run(todo):
                if update is not None:
                    changed[update.block.start] = update.block
                progress.shrinking = pool.shrinking
                progress.update(None if update is None else update.piece)
                if update is not None:
                    new += sum(named(f.cause) not in setup.known for f in update.piece.failures)
                if reason := INTERRUPTED if interrupt.seen else _enough(setup, progress, new):
                    return reason
                if changed and time.monotonic() - saved >= SAVED:
                    _save(store, setup, pool, changed)
                    saved = time.monotonic()
        finally:
            _save(store, setup, pool, changed)
    return FINISHED


def _pool(setup: Setup, progress: Progress) -> Pool | Cluster:
    """Who executes the blocks: processes of this machine, or the workers of a cluster."""
    if setup.scheduler is None:
        return Pool(setup.plan, setup.workers, progress.say, setup.memory)
    from .cluster import Cluster

    progress.say(f"blocks of {setup.plan.batch} cases go to the workers of {setup.scheduler}")
    return Cluster(setup.plan, setup.scheduler, progress.say, setup.memory)


def _enough(setup: Setup, progress: Progress, new: int) -> str:
    """Why a campaign with some failures of new causes ends now; nothing while it goes on."""
    if setup.first_new and new:
        return NEW
    if 0 < setup.max_failures <= new:
        return STOPPED
    return OVER if progress.elapsed >= setup.seconds else ""


class _Interrupt:
    """The interrupt key, noticed between two results, so that none of them is half counted."""

    def __init__(self) -> None:
        self.seen = False
        self._before: Any = None

    def __enter__(self) -> _Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _notice(self, *_: object) -> None:
        self.seen = True


def failures(store: Store, known: frozenset[str] = frozenset()) -> int:
    """How many failures a store has, of causes that are not known."""
    grouped = store.rows("SELECT cause, count(*) FROM failure GROUP BY cause")
    return sum(count for cause, count in grouped if named(cause or "") not in known)


def _store(setup: Setup) -> Store:
    """A new store, or the one to be continued."""
    wanted = identity(setup.plan, setup.process, setup.processes)
    if not setup.resume or setup.store is None or not Path(setup.store).exists():
        bins = {} if setup.plan.goal is None else {"bins": _bins(setup.plan)}
        return Store.create(setup.store, {**wanted, **bins, "started": time.time()})
    store = Store.open(setup.store)
    campaign = store.campaign()
    longer = setup.plan.count > campaign["count"]
    if longer:
        # More of the same cases; blocks that ended with the last one go on.
        campaign["count"] = setup.plan.count
    differing = differences(campaign, wanted)
    if differing:
        store.close()
        raise errors.ArgumentError(
            f"{setup.store} holds another campaign: {'; '.join(differing)}; "
            "resume it with its own options, or give another --store"
        )
    if longer:
        store.set(count=setup.plan.count)
    return store


def _bins(plan: Plan) -> dict[str, int]:
    """The bins of a plan's goal; ArgumentError for what is no goal."""
    from .goal_file import read_goal

    assert plan.goal is not None
    return bins_to_json(read_goal(plan.goal, plan.profiles or profiles.PROFILE_NAMES))


def _discard(store: Store, kept: bool) -> None:
    """Close a store; one in which nothing is was made for a campaign that cannot be executed."""
    store.close()
    if not kept and store.path is not None:
        store.path.unlink(missing_ok=True)


def _save(store: Store, setup: Setup, pool: Pool | Cluster, changed: dict[int, Block]) -> None:
    """Keep what is done of the blocks that changed; they are unchanged then."""
    if not changed:
        return
    if pool.device and store.value("device") is None:
        store.set(device=pool.device)
    if pool.rejected and not store.value("rejected"):
        store.set(rejected=True)
    store.update(changed.values(), setup.process)
    changed.clear()
