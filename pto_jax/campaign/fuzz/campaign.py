"""A campaign from its first case to its summary: the plan, execution, the result in a few lines."""

from __future__ import annotations

import json
import math
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ... import errors, profiles
from ...cases.comparison import COMPARED
from ...cases.identity import DEVICES, is_device
from ...failures.folders import named
from ...failures.junit import JunitCase, Kind
from ...profiles import PROFILE_NAMES
from .batch import Block
from .goal import bins_of_json, bins_to_json, goal_lines
from .plan import Plan, differences, identity
from .pool import Pool
from .progress import Progress, duration
from .store import Store

if TYPE_CHECKING:
    from .cluster import Cluster


#: Programs per second of one process on one core, of machines that compile each program.
_SLOW = {"eager": 0.4, "profile": 0.4, "jit": 0.4, "fast": 1.0, "lockstep": 1.0}
#: What lockstep programs are made of, and what they have not.
_LOCKSTEP = "straight lines of 20 instructions on tiles"
_RATE = "hundreds of programs/s once a minute of compiling is over"
_LEFT_OUT = "control flow, memory, matrix, pipes, cores, 64-bit types"


def announcement(plan: Plan, workers: int, left: int) -> str:
    """The line that a campaign prints at its start; ``left`` programs are still to be executed.

    Machines and programs, what is left out and how to get it, and the rate that slow machines have.

    >>> announcement(Plan(tested="jit", presets=("control",)), 2, 1000)
    'jit against oracle, generated programs (control), all profiles, 2 processes; each program is compiled: \
about 0.8 programs/s, 1000 programs in 20 min 50 s; without --tested, --against and --preset: lockstep, \
20 programs/s'
    """
    profiles = "all profiles" if plan.profiles in ((), PROFILE_NAMES) else " ".join(plan.profiles)
    processes = "1 process" if workers == 1 else f"{workers} processes"
    line = f"{plan.tested} against {plan.reference}, {_programs(plan)}, {profiles}, {processes}"
    return "; ".join([line, *_remarks(plan, workers, left)])


def _programs(plan: Plan) -> str:
    if plan.programs:
        files = "1 file" if len(plan.programs) == 1 else f"{len(plan.programs)} files"
        return f"{files}, mutated" if plan.mutate else files
    what = "functions over pointers" if plan.form == "kernel" else "generated programs"
    return _LOCKSTEP if plan.lockstep else f"{what} ({' '.join(plan.presets) or 'all presets'})"


def _remarks(plan: Plan, workers: int, left: int) -> list[str]:
    kinds = {machine.partition(":")[0] for machine in (plan.reference, plan.tested)}
    if plan.lockstep and is_device(plan.tested):
        return [f"expected results from lockstep, {_RATE}", f"left out: {_LEFT_OUT}: without --lockstep"]
    if plan.lockstep:
        return [f"left out: {_LEFT_OUT}: --tested jit takes them all, about {_rate('jit', workers)}"]
    if plan.tested.startswith("oracle:again"):
        return ["a baseline: each program twice, the second time in another process, with the same results"]
    slow = min(kinds & set(_SLOW), key=_SLOW.__getitem__, default=None)
    if slow is not None:
        seconds = duration(left / (_SLOW[slow] * workers))
        remark = f"each program is compiled: about {_rate(slow, workers)}, {left} programs in {seconds}"
        faster = "without --tested, --against and --preset: lockstep, 20 programs/s"
        return [remark] if plan.programs or kinds & set(DEVICES) else [remark, faster]
    if kinds & set(DEVICES) and workers > 1:
        return [f"up to {workers} programs at the same time, --workers 1: one after the other"]
    return []


def _rate(slow: str, workers: int) -> str:
    return f"{_SLOW[slow] * workers:.2g} programs/s"


#: Seconds after which results are kept at the latest.
SAVED = 1.0
#: What ended a campaign: every block is done, there were too many failures, or the user's interrupt.
FINISHED, STOPPED, INTERRUPTED = "finished", "stopped at --max-failures", "interrupted"
#: And its time was over, or there was a cause of failures that is not known.
OVER, NEW = "stopped after --minutes", "stopped at a new cause"


@dataclass(frozen=True)
class Setup:
    """How a plan is executed on this computer: nothing here changes a result.

    ``max_failures`` stops the campaign (0: nothing does), and so does a new cause with ``first_new``;
    failures of ``known`` causes do not count. Without ``store`` the results are kept in memory.
    """

    plan: Plan
    store: str | None = None
    resume: bool = False
    workers: int = 1
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
    total = setup.plan.count
    cells = set(store.coverage())
    progress = Progress(
        total, stream, sum(done.values()), failures(store), cells=cells, seconds=setup.seconds
    )
    progress.say(announcement(setup.plan, setup.workers, total - progress.done))
    todo = (store.block(start, count) for start, count in setup.plan.blocks() if done.get(start) != count)
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
                    _save(store, pool, changed)
                    saved = time.monotonic()
        finally:
            _save(store, pool, changed)
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
    """The interrupt key or SIGTERM, noticed between two results, so that none of them is half counted."""

    def __init__(self) -> None:
        self.seen = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _notice(self, *_: object) -> None:
        self.seen = True


def failures(store: Store, known: frozenset[str] = frozenset()) -> int:
    """How many failures a store has, of causes that are not known."""
    grouped = store.rows("SELECT cause, count(*) FROM failure GROUP BY cause")
    return sum(count for cause, count in grouped if named(cause or "") not in known)


def _store(setup: Setup) -> Store:
    """A new store, or the one to be continued."""
    plan = identity(setup.plan)
    if not setup.resume or setup.store is None or not Path(setup.store).exists():
        bins = {} if setup.plan.goal is None else {"bins": _bins(setup.plan)}
        return Store.create(setup.store, {**plan, **bins, "started": time.time()})
    store = Store.open(setup.store)
    campaign = store.campaign()
    longer = setup.plan.count > campaign["count"]
    if longer:
        # More of the same cases; blocks that ended with the last one go on.
        campaign["count"] = setup.plan.count
    differing = differences(campaign, plan)
    if differing:
        store.close()
        raise errors.ArgumentError(
            f"{setup.store}: got another campaign: {'; '.join(differing)}",
            fix="its own options with --resume, or another --store",
        )
    if longer:
        store.set(count=setup.plan.count)
    return store


def _bins(plan: Plan) -> dict[str, int]:
    """The bins of a plan's goal; ArgumentError for what is no goal."""
    from .goal import read_goal

    assert plan.goal is not None
    return bins_to_json(read_goal(plan.goal, plan.profiles or profiles.PROFILE_NAMES))


def _discard(store: Store, kept: bool) -> None:
    """Close a store; one in which nothing is was made for a campaign that cannot be executed."""
    store.close()
    if not kept and store.path is not None:
        store.path.unlink(missing_ok=True)


def _save(store: Store, pool: Pool | Cluster, changed: dict[int, Block]) -> None:
    """Keep what is done of the blocks that changed; they are unchanged then."""
    if not changed:
        return
    if pool.device and store.value("device") is None:
        store.set(device=pool.device)
    if pool.rejected and not store.value("rejected"):
        store.set(rejected=True)
    _keep_notes(store, pool.kept)
    store.update(changed.values())
    changed.clear()


def _keep_notes(store: Store, texts: Sequence[str]) -> None:
    """Add to the notes of a store, which holds few: the first are those of the first cause."""
    before = store.value("notes") or []
    now = [*before, *(text for text in texts if text not in before)][:NOTES]
    if now != before:
        store.set(notes=now)


#: Notes that a store holds.
NOTES = 20
#: Causes that are shown, and the length of a line.
CAUSES, WIDTH = 10, 160
#: Bins of a goal that are named because they are not reached.
UNREACHED = 40
_KINDS = ("equal", "refused", "stopped", "undefined", "different", "crashed")


def summary(store: Store, known: frozenset[str] = frozenset()) -> str:
    """Counts per kind, failure groups, with a mark at those that are known, coverage, the store.

    >>> from collections import Counter
    >>> from .batch import Batch, Block
    >>> store = Store.create(None, {"seed": 1, "reference": "oracle", "tested": "jit"})
    >>> block = Block(0, 2)
    >>> block.add(Batch(0, 2, Counter(equal=2), Counter({"tadd|f32|-|full|row": 2})), 0.1)
    >>> store.update([block])
    >>> print(summary(store))
    jit against oracle, seed 1
    2 cases: 2 equal
    2 compared
    coverage: 1 cells, 1 instructions, 1 element types
    store: in memory
    >>> store.close()
    """
    return "\n".join(_lines(store, known))


def _lines(store: Store, known: frozenset[str]) -> Iterator[str]:
    campaign = store.campaign()
    yield f"{campaign.get('tested')} against {campaign.get('reference')}, seed {campaign.get('seed')}"
    kinds = store.kinds()
    order = [*_KINDS, *sorted(set(kinds) - set(_KINDS))]
    counts = ", ".join(f"{kinds[k]} {k}" for k in order if kinds[k])
    yield f"{kinds.total()} cases: {counts or 'none executed'}"
    yield f"{compared(store)} compared"
    yield from refusal_lines(store.refusals(), CAUSES)
    yield from note_lines(campaign.get("notes", ()))
    yield from _causes(store, known)
    cells = [c.split("|") for c in store.coverage()]
    instructions, types = len({c[0] for c in cells}), len({c[1] for c in cells} - {"-"})
    yield f"coverage: {len(cells)} cells, {instructions} instructions, {types} element types"
    if bins := bins_of_json(campaign.get("bins", {})):
        yield from goal_lines(bins, store.coverage(), UNREACHED)
    yield f"store: {store.name}"


def compared(store: Store) -> int:
    """The number of cases that both machines executed and whose results were compared."""
    kinds = store.kinds()
    return sum(kinds[kind] for kind in COMPARED)


def refusal_lines(refusals: Mapping[str, int], limit: int) -> Iterator[str]:
    """What machines do not execute, and why, with the cases that have it.

    >>> list(refusal_lines({"too many tiles": 3}, 10))
    ['not executed (1), with the cases that have it:', '      3  too many tiles']
    """
    ranked = sorted(refusals.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        yield f"not executed ({len(ranked)}), with the cases that have it:"
    yield from (f"{n:>7}  {reason}" for reason, n in ranked[:limit])
    if len(ranked) > limit:
        yield f"         and {len(ranked) - limit} more"


def note_lines(notes: Sequence[str]) -> Iterator[str]:
    """What is lacking in the results of a campaign.

    >>> list(note_lines(["k.pto: rejected"]))
    ['not in the results:', '  k.pto: rejected']
    """
    if notes:
        yield "not in the results:"
    yield from (f"  {line}" for text in notes for line in text.splitlines())
    if len(notes) == NOTES:
        yield f"  and maybe more, of which {NOTES} are kept"


#: An error in a message, behind the executor that raised it.
_RAISED = re.compile(r"(?:^|: )(\w+(?:Error|Exception): .*)")


def _causes(store: Store, known: frozenset[str]) -> Iterator[str]:
    query = """SELECT cause, count(*), min(case_index), case_id, folder, message FROM failure
               GROUP BY cause ORDER BY count(*) DESC, min(case_index)"""
    grouped = list(store.rows(query))
    types = _types(store)
    if grouped:
        yield f"failure groups ({len(grouped)}):"
    for cause, count, index, case, folder, message in grouped[:CAUSES]:
        first = (cause or "unknown").splitlines()[0]
        line = first if len(first) <= WIDTH else first[: WIDTH - 3] + "..."
        yield f"{count:>7}  {line}{'  (known)' if named(cause or '') in known else ''}"
        on = f"on {', '.join(sorted(types[cause]))}; " if types[cause] else ""
        # The name of a group of crashes has no numbers: the first message has.
        raised = _RAISED.search(next(iter((message or "").splitlines()), ""))
        if raised is not None and first.startswith("crash") and raised[1] not in line:
            yield f"         first: {raised[1]}"
        yield f"         {on}case {case}, index {index}{f', {folder}' if folder else ''}"
    if len(grouped) > CAUSES:
        yield f"         and {len(grouped) - CAUSES} more"


def junit_cases(store: Store, known: frozenset[str], least: int) -> list[JunitCase]:
    """A campaign as tests: all its programs together, of which ``least`` have to be compared.

    And each cause of failures, known ones skipped, and each reason for not executing programs, skipped.
    """
    query = """SELECT cause, count(*), case_id, min(case_index), message, folder FROM failure
               GROUP BY cause ORDER BY min(case_index)"""
    kinds = store.kinds()
    few = too_few(store, least)
    name = f"{kinds.total()} programs: {compared(store)} compared, {kinds['equal']} equal"
    tests = [JunitCase(name, "failure" if few else "passed", few)]
    for note in store.value("notes") or ():
        line = next(iter(note.splitlines()), "")
        tests.append(JunitCase(line, "error", line, text=note))
    for reason, count in sorted(store.refusals().items()):
        tests.append(JunitCase(f"not executed: {reason}", "skipped", f"{count} programs"))
    for cause, count, case, index, message, folder in store.rows(query):
        text = f"{count} failures, first case {case}, index {index}\n{message}\n{folder or ''}"
        first = next(iter((message or "").splitlines()), "")
        kind: Kind = "skipped" if named(cause or "") in known else "failure"
        tests.append(JunitCase(named(cause or ""), kind, first, text=text))
    return tests


def too_few(store: Store, least: int) -> str:
    """What is wrong where fewer cases were compared than have to be; nothing where there are enough."""
    comparisons = compared(store)
    if comparisons >= least:
        return ""
    return f"{comparisons} of {store.kinds().total()} cases were compared; --min-compared is {least}"


def _types(store: Store) -> dict[str, set[str]]:
    """The element types of each cause's failures."""
    table: defaultdict[str, set[str]] = defaultdict(set)
    for cause, detail in store.rows("SELECT cause, detail FROM failure"):
        types = json.loads(detail or "{}").get("types")
        if isinstance(types, str) and types:
            table[cause].add(types)
    return table
