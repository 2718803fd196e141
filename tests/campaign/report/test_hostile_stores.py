"""Stores from anyone: one line for what no campaign writes, in every command that reads one; no command of
theirs is executed."""

import contextlib
import json
import os
import shlex
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from pto_jax.cli.main import main
from tests.campaign.report.test_report import TABLES, written

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
DEEP = "[" * 5000 + "]" * 5000
HIGH = "9" * 5000


def view(table: str, columns: str) -> str:
    """A view without an end in place of a table."""
    listed = ", ".join(f"x AS {c}" for c in columns.split())
    return f"ALTER TABLE {table} RENAME TO old; CREATE VIEW {table} AS {ENDLESS} {listed} FROM n"


HOSTILE: dict[str, tuple[str, str]] = {
    "endless campaign": (view("campaign", "key value"), "it holds the view campaign"),
    "endless blocks": (view("batch", "start count worker"), "it holds the view batch"),
    "endless failures": (view("failure", "case_index cause"), "it holds the view failure"),
    "trigger": (
        "CREATE TRIGGER t BEFORE INSERT ON batch BEGIN DELETE FROM failure; END",
        "it holds the trigger t",
    ),
    "computed column": (
        "ALTER TABLE batch ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))",
        "the column more of its table batch is computed",
    ),
    "no blocks": ("DROP TABLE batch", "it has no table batch"),
    "no failures": ("DROP TABLE failure", "it has no table failure"),
    "no column": ("ALTER TABLE failure DROP COLUMN cause", "its table failure has no column cause"),
    "no start": ("DELETE FROM campaign WHERE key = 'start'", "campaign.start is missing"),
    "nothing said": ("DELETE FROM campaign", "a store of version None"),
    "bytes for a message": ("UPDATE failure SET message = x'ff00'", "failure.message: got b'\\xff\\x00'"),
    "bytes for JSON": ("UPDATE batch SET coverage = x'7b7d'", "batch.coverage: got b'{}'"),
    "no UTF-8": ("UPDATE failure SET cause = CAST(x'ff' AS TEXT)", "Could not decode to UTF-8"),
    "infinite seconds": ("UPDATE batch SET seconds = 9e999", "batch.seconds: got inf"),
    "negative seconds": ("UPDATE batch SET seconds = -1", "batch.seconds: got -1"),
    "seconds that are no number": ("UPDATE batch SET seconds = NULL", "batch.seconds: got None"),
    "infinite time": ("UPDATE batch SET finished = -9e999", "batch.finished: got -inf"),
    "far future": ("UPDATE campaign SET value = '1e15' WHERE key = 'started'", "campaign.started: got 1"),
    "negative count": ("UPDATE batch SET count = -1", "batch.count: got -1"),
    "count in words": ("UPDATE batch SET count = 'many'", "batch.count: got 'many'"),
    "deep campaign": (f"UPDATE campaign SET value = '{DEEP}' WHERE key = 'presets'", "nested more than 64"),
    "deep coverage": (f"UPDATE batch SET coverage = '{DEEP}'", "nested more than 64"),
    "deep distances": (f"UPDATE batch SET ulp = '{DEEP}'", "nested more than 64"),
    "deep detail": (f"UPDATE failure SET detail = '{DEEP}'", "nested more than 64"),
    "high number": (f"UPDATE campaign SET value = '{HIGH}' WHERE key = 'seed'", "not JSON"),
    "no number": ("UPDATE campaign SET value = 'NaN' WHERE key = 'seed'", "NaN is no JSON number"),
    "high count": ("UPDATE batch SET kinds = '{\"equal\": 1e300}'", "allowed: a count"),
    "negative distance": (
        'UPDATE batch SET ulp = \'{"texp|f32": {"buckets": {"-1": 1}, "nan": 0, "worst": 0}}\'',
        "a bucket at -1",
    ),
    "programs by number": ("UPDATE campaign SET value = '3' WHERE key = 'programs'", "a list of files"),
    "versions in a row": ("UPDATE campaign SET value = '[]' WHERE key = 'versions'", "allowed: an object"),
    "machine by number": ("UPDATE campaign SET value = '3' WHERE key = 'tested'", "campaign.tested: got 3"),
    "cell of one part": ("UPDATE batch SET coverage = '{\"tadd\": 1}'", "allowed: a cell of 7 parts"),
    "goal by number": ("INSERT INTO campaign VALUES ('goal', '3')", "campaign.goal: got 3"),
    "bins in a row": ("INSERT INTO campaign VALUES ('bins', '[1]')", "allowed: an object"),
    "bins of no parts": ("INSERT INTO campaign VALUES ('bins', '{\"tadd\": 1}')", "a bin of 7 parts"),
    "bins without end": (
        "INSERT INTO campaign VALUES ('bins', '{\"tadd|*|*|*|*|*|*\": 1e300}')",
        "allowed: a count",
    ),
    "truth by number": ("INSERT INTO campaign VALUES ('mutate', '1')", "allowed: true or false"),
    "other version": ("UPDATE campaign SET value = '9' WHERE key = 'schema'", "version 9"),
}
#: What only the report looks into.
ONLY_REPORTED = {"negative distance"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("stores") / "store.sqlite"
    database = written(path)
    database.execute("PRAGMA journal_mode=DELETE")
    database.close()
    return path.read_bytes()


@pytest.fixture
def store(sound: bytes, tmp_path: Path) -> Path:
    (tmp_path / "store.sqlite").write_bytes(sound)
    return tmp_path / "store.sqlite"


def commands(name: str, store: Path) -> list[list[str]]:
    report = ["report", str(store)]
    resume = ["fuzz", "--quiet", "--resume", "--store", str(store)]
    return [report] if name in ONLY_REPORTED else [report, resume]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_store_is_one_line(name: str, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statements, message = HOSTILE[name]
    database = sqlite3.connect(store)
    # Statements that rename would look into the views that they make.
    database.execute("PRAGMA legacy_alter_table = ON")
    database.executescript(statements)
    database.close()
    for command in commands(name, store):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"{store}: " in error and message in error, error


def emptied(path: Path) -> None:
    """A store's tables without rows."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: os.mkfifo(p), "is no file"),
        (lambda p: p.mkdir(), "is no file"),
        (lambda p: p.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096), "file is not a database"),
        (lambda p: p.write_text("text"), "is no SQLite file"),
        (emptied, "a store of version None"),
        (lambda p: p.symlink_to(p), "cannot be read"),
    ],
)
def test_files_that_are_no_stores_are_one_line(
    make: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.sqlite"
    make(path)
    assert main(["report", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error, error


def test_escapes_in_a_store_are_escaped_in_the_report(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;title\x07\u202e\r"
    database = sqlite3.connect(store)
    for column in ("case_id", "kind", "instruction", "cause", "message", "folder"):
        database.execute(f"UPDATE failure SET {column} = ?", (hostile,))
    database.execute("UPDATE campaign SET value = ? WHERE key = 'device'", (json.dumps("\udc80" + hostile),))
    database.commit()
    database.close()
    assert main(["report", str(store), "--html", str(tmp_path / "a.html")]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(out) and "\\x1b]0;title\\x07\\u202e\\r" in out


@pytest.mark.parametrize("kind", ["dut", "python"])
def test_a_store_names_machines_that_nothing_executes(
    kind: str,
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "hostile.py").write_text(f"open({str(marker)!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    command = f'{shlex.quote(sys.executable)} -c \'open("{marker}", "w")\' {{program}} {{inputs}} {{outputs}}'
    machine = f"dut:{command}" if kind == "dut" else "python:hostile:NAME"
    database = sqlite3.connect(store)
    database.execute("UPDATE campaign SET value = ? WHERE key = 'tested'", (json.dumps(machine),))
    database.execute("UPDATE failure SET folder = NULL")
    database.commit()
    database.close()
    assert main(["report", str(store), "--html", str(tmp_path / "a.html")]) == 0
    assert main(["fuzz", "--quiet", "--resume", "--store", str(store)]) == 2
    assert "a command that is not executed; try: --trust, or name it with --tested" in capsys.readouterr().err
    assert not marker.exists()


def test_the_full_disk_leaves_the_report_that_was_there(store: Path, tmp_path: Path) -> None:
    from tests.files.test_write import small_disk

    for option in ("--html", "--json"):
        out = tmp_path / "out"
        out.write_text("before")
        with small_disk():
            assert main(["report", str(store), option, str(out)]) == 2
        assert out.read_text() == "before"
