"""Stores of one campaign as one store: those of its processes, or of other ranges of its cases."""

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, FileError
from .batch import Batch
from .identity import INCIDENTAL, differences
from .store import Store

#: What parts of a campaign may have each for itself.
OWN = INCIDENTAL | {"start", "count", "process", "processes", "failures"}


def merge(stores: Sequence[str | Path], out: str | Path) -> int:
    """Write a store with the blocks of some, and return how many cases it has.

    Raises ArgumentError where the stores belong to different campaigns, or say different things of the
    same cases; FileError for files that are no stores, and when ``out`` exists.
    """
    if not stores:
        raise ArgumentError("no store to merge; give one or more")
    target = Path(out)
    if target.exists():
        raise FileError(f"{out}: exists; give the name of a new file")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    opened: list[Store] = []
    try:
        for path in stores:
            opened.append(Store.open(path))
        campaign = _campaign(opened)
        with Store.create(part, campaign) as merged:
            cases = merged.extend(_blocks(opened))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
        for store in opened:
            store.close()
    return cases


def _campaign(stores: Sequence[Store]) -> dict[str, Any]:
    """What the merged store says about its campaign."""
    campaigns = [s.campaign() for s in stores]
    for store, other in zip(stores[1:], campaigns[1:], strict=True):
        texts = differences(campaigns[0], other, OWN)
        if texts:
            raise ArgumentError(
                f"{stores[0].name} and {store.name} are different campaigns: {'; '.join(texts)}"
            )
    start = min(k["start"] for k in campaigns)
    devices = sorted({k["device"] for k in campaigns if k.get("device")})
    return {
        **campaigns[0],
        "start": start,
        "count": max(k["start"] + k["count"] for k in campaigns) - start,
        "process": 0,
        "processes": 1,
        "device": ", ".join(devices),
        "started": min(k.get("started", 0) for k in campaigns),
        "rejected": any(k.get("rejected") for k in campaigns),
    }


#: A block with its worker, its times, and the store it is in.
_Block = tuple[Batch, str, float, float, str]


def _blocks(stores: Sequence[Store]) -> Iterator[tuple[Batch, str, float, float]]:
    """The blocks of all stores in order, each once."""
    last: _Block | None = None
    for block in heapq.merge(*(_of(s) for s in stores), key=lambda b: b[0].start):
        if last is not None and block[0].start < last[0].start + last[0].count:
            if block[0] != last[0]:
                raise ArgumentError(_conflict(last, block))
            continue
        last = block
        yield block[:4]


def _of(store: Store) -> Iterator[_Block]:
    for batch, worker, seconds, finished in store.batches():
        yield batch, worker, seconds, finished, store.name


def _conflict(a: _Block, b: _Block) -> str:
    first, second = a[0], b[0]
    ends = [block.start + block.count - 1 for block in (first, second)]
    cases = f"{a[4]} and {b[4]}: cases {first.start} to {ends[0]}"
    if (first.start, ends[0]) != (second.start, ends[1]):
        return f"{cases} and {second.start} to {ends[1]} overlap; allowed: the same blocks, or others"
    parts = [
        n
        for n in ("kinds", "coverage", "ulp", "failures", "refusals")
        if getattr(first, n) != getattr(second, n)
    ]
    return f"{cases} have different {' and '.join(parts)}"
