"""Reading a campaign's store, also one that a campaign is still writing to."""

import contextlib
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    return database


def _read(database: sqlite3.Connection, name: str) -> Contents:
    campaign = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM campaign")}
    contents = Contents(name, campaign)
    contents.failures.extend(_failures(database))
    failing: defaultdict[int, list[str]] = defaultdict(list)
    for start, cause in database.execute("SELECT start, cause FROM failure"):
        failing[int(start)].append(cause or "")
    causes = set[str]()
    query = """SELECT start, finished, count, seconds, worker, kinds, coverage, ulp
               FROM batch ORDER BY finished, start"""
    for start, finished, count, seconds, worker, kinds, coverage, ulp in database.execute(query):
        cells, here = len(contents.coverage), failing[int(start)]
        contents.kinds.update(json.loads(kinds))
        contents.coverage.update(json.loads(coverage))
        new = (len(contents.coverage) - cells, len(here), len(set(here) - causes))
        causes.update(here)
        contents.blocks.append(Block(float(finished), int(count), float(seconds), str(worker), *new))
        if ulp and ulp != "{}":
            contents.ulp.merge(Histograms.from_json(ulp))
    return contents


def _failures(database: sqlite3.Connection) -> Iterator[Failure]:
    query = """SELECT case_index, case_id, kind, profile, instruction, cause, message, folder, detail
               FROM failure ORDER BY case_index"""
    for index, identity, kind, profile, instruction, cause, message, folder, detail in database.execute(
        query
    ):
        yield Failure(
            int(index),
            identity or "",
            kind or "",
            profile or "",
            instruction or "",
            cause or "",
            message or "",
            folder or None,
            json.loads(detail or "{}"),
        )
