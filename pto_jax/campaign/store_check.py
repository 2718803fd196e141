"""Stores from any source, opened only with ordinary tables and values of the expected kinds.

A store is an SQLite file. Views, triggers and computed columns, which could make a reader work for ever, and
values of other types are refused before anything else looks at them.
"""

import contextlib
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import FileError, objection
from ..files import limit, parse_json
from ..files.read import reason
from .fuzz.coverage import PARTS

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
        raise FileError(f"{path}: cannot be read: {reason(error)}") from None
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


def _json(check: Check) -> Check:
    """A check of a JSON text."""

    def checked(value: Any, place: str) -> None:
        _text(value, place)
        check(parse_json(value, place), place)

    return checked


_CHECKS: Mapping[str, Mapping[str, Check]] = {
    "campaign": {"key": _text, "value": _json(lambda value, place: None)},
    "batch": {
        "start": _integer,
        "count": _integer,
        "worker": _text,
        "seconds": _seconds,
        "finished": _seconds,
        "kinds": _json(_counts),
        "coverage": _json(_parted("cell", OLDER, len(PARTS))),
        "ulp": _optional(_json(_object)),
        "refusals": _optional(_json(_counts)),
    },
    "failure": {
        "case_index": _integer,
        "case_id": _optional(_text),
        "start": _integer,
        **{c: _optional(_text) for c in ("kind", "profile", "instruction", "cause", "message", "folder")},
        "detail": _optional(_json(_object)),
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
    "versions": _object,
    "started": _seconds,
    "bins": _parted("bin", len(PARTS)),
}
