"""The store of a campaign: one SQLite file, to which results are added while blocks are under way.

A row of ``batch`` counts adjoining cases: those of a block that are done so far, and in the end the whole
block. Rows and their failures are one transaction, so that a campaign which is killed at any moment leaves
whole cases and nothing else. Readers may open the file while it is written.

>>> store = Store.create(None, {"seed": 1})
>>> store.value("seed"), store.done()
(1, {})
>>> store.close()
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import FileError
from .. import store_check
from .batch import Batch, Block, Failure

SCHEMA = 1
_TABLES = """
CREATE TABLE campaign(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE batch(start INTEGER PRIMARY KEY, count INTEGER, worker TEXT, seconds REAL, finished REAL,
                   kinds TEXT, coverage TEXT, ulp TEXT, refusals TEXT);
CREATE TABLE failure(case_index INTEGER PRIMARY KEY, case_id TEXT, start INTEGER, kind TEXT, profile TEXT,
                     instruction TEXT, cause TEXT, message TEXT, folder TEXT, detail TEXT);
CREATE INDEX failure_start ON failure(start);
"""
#: Rows of the cases from one index to before another.
_WITHIN = "WHERE start >= ? AND start < ?"


class Store:
    """An open store. Raises FileError, which names the file, for what cannot be read or written."""

    def __init__(self, path: Path | None, database: sqlite3.Connection) -> None:
        self.path, self._database = path, database

    @classmethod
    def create(cls, path: str | Path | None, campaign: Mapping[str, Any]) -> Store:
        """A new store with what is known about the campaign; without a path, in memory."""
        where = None if path is None else Path(path)
        if where is not None and where.exists() and where.stat().st_size:
            raise FileError(f"{where}: exists", fix="--resume, which continues it, or another --store")
        store = cls(where, _connected(where))
        try:
            with store._writing() as database:
                for statement in _TABLES.split(";"):
                    database.execute(statement)
                _insert(database, {"schema": SCHEMA, **campaign})
        except FileError:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """A store that is there."""
        where = Path(path)
        store_check.header(where)
        store = cls(where, _connected(where))
        try:
            store_check.check(store._database, where, SCHEMA)
        except FileError:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The file's name for messages."""
        return "in memory" if self.path is None else str(self.path)

    def value(self, key: str) -> Any:
        """A value of the campaign, None where there is none."""
        row = self._database.execute("SELECT value FROM campaign WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def campaign(self) -> dict[str, Any]:
        """Everything that is known about the campaign."""
        return {k: json.loads(v) for k, v in self.rows("SELECT key, value FROM campaign ORDER BY key")}

    def set(self, **values: Any) -> None:
        """Add to what is known about the campaign."""
        with self._writing() as database:
            _insert(database, values)

    def done(self) -> dict[int, int]:
        """Cases that are done: starts and counts of the rows."""
        return dict(self.rows("SELECT start, count FROM batch ORDER BY start"))

    def update(self, blocks: Iterable[Block]) -> None:
        """Replace what is kept of some blocks by what is known of them now, in one transaction.

        Raises FileError where the rows of a block are not those that it was read or updated with last.
        """
        now, kept = time.time(), [(block, list(block.batches())) for block in blocks]
        with self._writing() as database:
            for block, batches in kept:
                within = (block.start, block.end)
                rows = database.execute(f"SELECT start, count FROM batch {_WITHIN} ORDER BY start", within)
                if rows.fetchall() != block.stored:
                    raise sqlite3.IntegrityError(f"rows of cases {block.start} to {block.end - 1}")
                database.execute(f"DELETE FROM batch {_WITHIN}", within)
                database.execute("DELETE FROM failure WHERE case_index >= ? AND case_index < ?", within)
                # The time of a block is that of all its rows.
                for n, batch in enumerate(batches):
                    _add(database, batch, str(block.worker), 0.0 if n else block.seconds, now)
        for block, batches in kept:
            block.stored = [(batch.start, batch.count) for batch in batches]

    def block(self, start: int, count: int) -> Block:
        """A block with what is kept of it."""
        rows = list(self._batches(_WITHIN, start, start + count))
        return Block(start, count, (row[0] for row in rows), sum(row[2] for row in rows))

    def batches(self) -> Iterator[tuple[Batch, str, float, float]]:
        """Blocks in the order of their cases, each with its worker, seconds and time."""
        return self._batches("")

    def _batches(self, where: str, *given: int) -> Iterator[tuple[Batch, str, float, float]]:
        columns = ("start", "count", "kinds", "coverage", "ulp", "refusals", "worker", "seconds", "finished")
        query = f"SELECT {self._selected(*columns)} FROM batch {where} ORDER BY start"
        for start, count, kinds, coverage, ulp, refusals, *times in self.rows(query, *given):
            contents = (Counter(json.loads(kinds)), Counter(json.loads(coverage)), ulp)
            refused = Counter(json.loads(refusals or "{}"))
            yield Batch(start, count, *contents, self._failures(start), refused), *times

    def _failures(self, start: int) -> tuple[Failure, ...]:
        query = """SELECT case_index, case_id, kind, profile, instruction, cause, message, folder, detail
                   FROM failure WHERE start = ? ORDER BY case_index"""
        return tuple(replace(Failure(*row), detail=json.loads(row[-1])) for row in self.rows(query, start))

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Rows of a query, one at a time."""
        yield from self._database.execute(query, values)

    def kinds(self) -> Counter[str]:
        """Cases per kind of outcome."""
        return self._summed("kinds")

    def coverage(self) -> Counter[str]:
        """Coverage cells with how often each occurred."""
        return self._summed("coverage")

    def refusals(self) -> Counter[str]:
        """What machines do not execute, and why, with the cases that have it."""
        return self._summed("refusals")

    def _summed(self, column: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for (text,) in self.rows(f"SELECT {self._selected(column)} FROM batch"):
            total.update(json.loads(text or "{}"))
        return total

    def _selected(self, *columns: str) -> str:
        return store_check.selected(self._database, "batch", *columns)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        try:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
        except sqlite3.IntegrityError as error:
            raise FileError(f"{self.name}: written by another campaign at the same time ({error})") from None
        except sqlite3.Error as error:
            raise FileError(f"{self.name}: cannot be written: {error}") from None


def _connected(path: Path | None) -> sqlite3.Connection:
    with contextlib.ExitStack() as opened:
        try:
            where = ":memory:" if path is None else path
            database = sqlite3.connect(where, timeout=store_check.BUSY, isolation_level=None)
            opened.callback(database.close)
            database.execute("PRAGMA journal_mode=WAL")
            # A transaction may be lost when the machine loses power, never when a process is killed.
            database.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error as error:
            raise FileError(f"{path}: cannot be opened as a store: {error}") from None
        opened.pop_all()
    return database


def _add(database: sqlite3.Connection, batch: Batch, worker: str, seconds: float, finished: float) -> None:
    contents = (_json(batch.kinds), _json(batch.coverage), batch.ulp)
    row = (batch.start, batch.count, worker, seconds, finished, *contents, _json(batch.refusals))
    database.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    database.executemany(
        "INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_row(f, batch.start) for f in batch.failures],
    )


def _insert(database: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO campaign VALUES (?, ?)", [(k, _json(v)) for k, v in values.items()]
    )


def _row(f: Failure, start: int) -> tuple[Any, ...]:
    case = (f.index, f.id, start, f.kind, f.profile)
    return *case, f.instruction, f.cause, f.message, f.folder, _json(f.detail)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
