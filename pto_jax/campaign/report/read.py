"""Reading a campaign's store, also one that a campaign is still writing to."""

import contextlib
import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import stored
from ..fuzz.batch import Failure
from .ulp import Histograms

#: The version of the tables that is understood.
SCHEMA = 1


@dataclass(frozen=True)
class Block:
    """A finished block of cases: when it was finished (seconds of Unix time), and how long it took.

    ``cells`` are the coverage cells that no block before it had, ``failures`` its failures, ``causes`` those
    that no block before it had.
    """

    finished: float
    count: int
    seconds: float
    worker: str
    cells: int = 0
    failures: int = 0
    causes: int = 0


@dataclass
class Contents:
    """Everything a store says. ``coverage`` counts cells (:mod:`..fuzz.coverage`)."""

    name: str
    campaign: dict[str, Any]
    blocks: list[Block] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    ulp: Histograms = field(default_factory=Histograms)
    failures: list[Failure] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)


def read(path: str | Path) -> Contents:
    """What a store says at this moment; nothing is written. Raises FileError for a file that is none."""
    where = Path(path)
    stored.header(where)
    with stored.complaints(path), contextlib.closing(_opened(where)) as database:
        database.execute("BEGIN")
        stored.check(database, path, SCHEMA)
        return _read(database, str(path))


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that cannot write.

    Where the folder cannot be written either, the write-ahead log has no place; the file is then read as it
    is.
    """
    address = path.resolve().as_uri()
    database = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=stored.BUSY, isolation_level=None)
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        database = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True, isolation_level=None)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _read(database: sqlite3.Connection, name: str) -> Contents:
    campaign = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM campaign")}
    contents = Contents(name, campaign)
    failing: defaultdict[int, list[str]] = defaultdict(list)
    query = """SELECT start, case_index, case_id, kind, profile, instruction, cause, message, folder, detail
               FROM failure ORDER BY case_index"""
    for start, index, *texts, folder, detail in database.execute(query):
        known: tuple[Any, ...] = (int(index), *(text or "" for text in texts))
        failure = replace(Failure(*known), folder=folder or None, detail=json.loads(detail or "{}"))
        contents.failures.append(failure)
        failing[int(start)].append(failure.cause)
    causes = set[str]()
    columns = ("start", "finished", "count", "seconds", "worker", "kinds", "coverage", "ulp", "refusals")
    query = f"SELECT {stored.selected(database, 'batch', *columns)} FROM batch ORDER BY finished, start"
    for start, finished, count, seconds, worker, kinds, coverage, ulp, refusals in database.execute(query):
        cells, here = len(contents.coverage), failing[int(start)]
        contents.kinds.update(json.loads(kinds))
        contents.coverage.update(json.loads(coverage))
        contents.refusals.update(json.loads(refusals or "{}"))
        new = (len(contents.coverage) - cells, len(here), len(set(here) - causes))
        causes.update(here)
        contents.blocks.append(Block(float(finished), int(count), float(seconds), str(worker), *new))
        if ulp and ulp != "{}":
            contents.ulp.merge(Histograms.from_json(ulp))
    return contents
