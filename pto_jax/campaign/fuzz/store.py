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
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import FileError, objection
from ...files import limit, parse_json
from ...files.read import unusable
from .batch import Batch, Block, Failure
from .coverage import PARTS

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
        header(where)
        store = cls(where, _connected(where))
        try:
            check(store._database, where, SCHEMA)
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

    def _batches(self, where: str, *values: int) -> Iterator[tuple[Batch, str, float, float]]:
        columns = ("start", "count", "kinds", "coverage", "ulp", "refusals", "worker", "seconds", "finished")
        query = f"SELECT {self._selected(*columns)} FROM batch {where} ORDER BY start"
        for start, count, kinds, coverage, ulp, refusals, *times in self.rows(query, *values):
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
        return selected(self._database, "batch", *columns)

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
            raise unusable(self.name, "written", error) from None


def _connected(path: Path | None) -> sqlite3.Connection:
    with contextlib.ExitStack() as opened:
        try:
            where = ":memory:" if path is None else path
            database = sqlite3.connect(where, timeout=BUSY, isolation_level=None)
            opened.callback(database.close)
            database.execute("PRAGMA journal_mode=WAL")
            # A transaction may be lost when the machine loses power, never when a process is killed.
            database.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error as error:
            folder = Path(path or "").parent
            fix = "" if folder.is_dir() else f"mkdir -p {folder}"
            raise FileError(
                f"{path}: cannot be opened as a store: {error}", allowed="a file in a folder", fix=fix
            ) from None
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
    row = (*case, f.instruction, f.cause, f.message, f.folder, _json(f.detail))
    return tuple(_utf8(value) if isinstance(value, str) else value for value in row)


def _utf8(text: str) -> str:
    r"""A text that UTF-8 can hold, with escapes for halves of surrogate pairs, as names of files have them.

    >>> print(_utf8("file \udce9"))
    file \udce9
    """
    return text.encode(errors="backslashreplace").decode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# -- stores from any source --------------------------------------------------------------------------

_HEADER = b"SQLite format 3\x00"
#: Bytes of one value; a block's coverage has a few ten thousand.
_MAX_VALUE = 1 << 26
#: Counts are smaller, so that floats hold them.
_LARGEST = 1 << 53
#: Seconds are fewer: from 1970 to the year 9999.
_LAST = 250_000_000_000
#: Parts of the cells of stores that know neither optional operands nor control flow.
OLDER = 5
#: Seconds to wait for another process that reads or writes.
BUSY = 30.0

Check = Callable[[Any, str], object]


def header(path: Path) -> None:
    """Refuse what is no SQLite file; FileError says in plain words what it is."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{path}: is no file", allowed="a file that pto-jax fuzz --store wrote")
        with path.open("rb") as file:
            start = file.read(len(_HEADER))
    except FileNotFoundError:
        raise FileError(f"{path}: no such store") from None
    except (OSError, ValueError) as error:
        raise unusable(path, "read", error) from None
    if start != _HEADER:
        problem = "is empty" if not start else "is no SQLite file"
        raise FileError(f"{path}: {problem}", allowed="a file that pto-jax fuzz --store wrote")


@contextlib.contextmanager
def complaints(path: str | Path) -> Iterator[None]:
    """Makes what is wrong with a store a FileError that names it."""
    try:
        yield
    except (sqlite3.Error, ValueError, OverflowError, FileError) as error:
        if isinstance(error, FileError) and str(error).startswith(f"{path}: "):
            raise
        raise FileError(
            f"{path}: no store of a campaign: {error}", allowed="a file that pto-jax fuzz --store wrote"
        ) from None


def check(database: sqlite3.Connection, path: str | Path, schema: int) -> None:
    """Raise FileError unless a store has the tables and values of a campaign, and nothing that computes."""
    with complaints(path):
        database.execute("PRAGMA trusted_schema = OFF")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit(_MAX_VALUE))
        for kind, name in database.execute("SELECT type, name FROM sqlite_master"):
            if kind not in ("table", "index"):
                raise ValueError(f"it holds the {kind} {name}")
        _check_columns(database, "campaign")
        campaign = _campaign(database)
        if campaign.get("schema") != schema:
            raise FileError(f"{path}: a store of version {campaign.get('schema')}", allowed=f"{schema}")
        for key in _CAMPAIGN.keys() & campaign.keys() | _NEEDED:
            if key not in campaign:
                raise ValueError(f"campaign.{key} is missing")
            _CAMPAIGN[key](campaign[key], f"campaign.{key}")
        for table in _CHECKS:
            _check_columns(database, table)
            _check_rows(database, table)


def _campaign(database: sqlite3.Connection) -> dict[str, Any]:
    """What is said of the campaign."""
    _check_rows(database, "campaign")
    rows = database.execute("SELECT key, value FROM campaign")
    return {key: parse_json(value, f"campaign.{key}") for key, value in rows}


def selected(database: sqlite3.Connection, table: str, *columns: str) -> str:
    """Columns of a table for a query, nothing in place of those that older stores lack."""
    held = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    return ", ".join(c if c in held else f"NULL AS {c}" for c in columns)


def _check_columns(database: sqlite3.Connection, table: str) -> None:
    held = {row[1]: row[6] for row in database.execute(f"PRAGMA table_xinfo({table})")}
    if not held:
        raise ValueError(f"it has no table {table}")
    if missing := [c for c in _CHECKS[table] if c not in held and c not in _LATER]:
        raise ValueError(f"its table {table} has no column {missing[0]}")
    if computed := [c for c, hidden in held.items() if hidden]:
        raise ValueError(f"the column {computed[0]} of its table {table} is computed")


def _check_rows(database: sqlite3.Connection, table: str) -> None:
    columns = _CHECKS[table]
    for row in database.execute(f"SELECT {selected(database, table, *columns)} FROM {table}"):
        for (name, check_value), value in zip(columns.items(), row, strict=True):
            check_value(value, f"{table}.{name}")


def _wrong(value: Any, place: str, needed: str) -> ValueError:
    text = repr(value)
    return ValueError(objection(f"{place}: got {text if len(text) <= 60 else text[:60] + '...'}", needed))


def _value(needed: str, fits: Callable[[Any], bool]) -> Check:
    """A check of a value that is of one kind."""

    def checked(value: Any, place: str) -> None:
        if not fits(value):
            raise _wrong(value, place, needed)

    return checked


_integer = _value("a count", lambda value: type(value) is int and 0 <= value < 1 << 63)
_seconds = _value("a number of seconds", lambda value: type(value) in (int, float) and 0 <= value < _LAST)
_text = _value("a text", lambda value: isinstance(value, str))
_object = _value("an object", lambda value: isinstance(value, dict))
_truth = _value("true or false", lambda value: isinstance(value, bool))
_strings = _value(
    "a list of names",
    lambda value: isinstance(value, str | list) and all(isinstance(v, str) for v in value),
)
_notes = _value(
    "a list of texts", lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value)
)
_files = _value(
    "a list of files",
    lambda value: isinstance(value, dict | list) and all(isinstance(v, str) for v in value),
)


def _counts(value: Any, place: str) -> None:
    _object(value, place)
    for name, count in value.items():
        if type(count) is not int or not 0 <= count < _LARGEST:
            raise _wrong(count, f"{place}: the count of {name!r}", "a count")


def _parted(what: str, *allowed: int) -> Check:
    """A check of counts of texts with as many parts as is allowed."""

    def checked(value: Any, place: str) -> None:
        _counts(value, place)
        for text in value:
            if text.count("|") + 1 not in allowed:
                raise _wrong(text, place, f"a {what} of {len(PARTS)} parts")

    return checked


def _optional(check: Check) -> Check:
    return lambda value, place: None if value is None else check(value, place)


def _is_json(check: Check) -> Check:
    """A check of a JSON text."""

    def checked(value: Any, place: str) -> None:
        _text(value, place)
        check(parse_json(value, place), place)

    return checked


_CHECKS: Mapping[str, Mapping[str, Check]] = {
    "campaign": {"key": _text, "value": _is_json(lambda value, place: None)},
    "batch": {
        "start": _integer,
        "count": _integer,
        "worker": _text,
        "seconds": _seconds,
        "finished": _seconds,
        "kinds": _is_json(_counts),
        "coverage": _is_json(_parted("cell", OLDER, len(PARTS))),
        "ulp": _optional(_is_json(_object)),
        "refusals": _optional(_is_json(_counts)),
    },
    "failure": {
        "case_index": _integer,
        "case_id": _optional(_text),
        "start": _integer,
        **{c: _optional(_text) for c in ("kind", "profile", "instruction", "cause", "message", "folder")},
        "detail": _optional(_is_json(_object)),
    },
}
#: Columns that older stores lack.
_LATER = frozenset({"refusals"})
_NEEDED = frozenset({"start", "count"})
#: What is said of a campaign, where it is said.
_CAMPAIGN: Mapping[str, Check] = {
    **dict.fromkeys(("seed", "start", "count", "batch", "process", "processes"), _integer),
    **dict.fromkeys(("reference", "tested"), _text),
    **dict.fromkeys(("presets", "profiles", "profile"), _strings),
    **{k: _optional(_text) for k in ("device", "entry", "failures", "goal")},
    **dict.fromkeys(("lockstep", "rejected", "mutate"), _truth),
    "programs": _files,
    "notes": _notes,
    "versions": _object,
    "started": _seconds,
    "bins": _parted("bin", len(PARTS)),
}
