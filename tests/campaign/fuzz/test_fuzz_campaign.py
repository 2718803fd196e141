"""Campaigns from the command to the store: failures, interruptions, crashes, hangs, several processes."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


def machines(against: str, tested: str) -> list[str]:
    return [
        *("--against", f"python:fuzz_machines:{against}", "--tested", f"python:fuzz_machines:{tested}"),
        *("--preset", "aliases", "--profile", "a5", "--shrink-seconds", "0"),
    ]


@pytest.mark.slow
def test_failures_are_found_counted_and_kept(fuzz: Any) -> None:
    options = [*machines("right", "wrong"), "--seed", 7, "--count", 25, "--batch", 10, "--store", "s.sqlite"]
    assert fuzz(*options) == 1
    assert "25 cases: 22 equal, 3 different" in fuzz.out and "store: s.sqlite" in fuzz.out
    assert "python:fuzz_machines:wrong against python:fuzz_machines:right, seed 7" in fuzz.out
    rows = fuzz.rows("s.sqlite")
    assert [row[:2] for row in rows["batch"]] == [(0, 10), (10, 10), (20, 5)]
    assert [row[0] for row in rows["failure"]] == [3, 13, 23]
    assert [row[2] for row in rows["failure"]] == [0, 10, 20]
    assert '"expected": "0x00000003", "got": "0x00000002", "index": 5' in rows["failure"][0][-1]
    # Finished: nothing is executed again, and the answer is the same.
    assert fuzz(*options, "--resume") == 1 and fuzz.rows("s.sqlite") == rows
    assert "25 cases: 22 equal, 3 different" in fuzz.out and "rate" not in fuzz.out
    assert fuzz(*options) == 2 and "s.sqlite: exists; try: --resume, which continues it" in fuzz.err
    assert fuzz(*options, "--resume", "--profile", "a2a3") == 2
    assert "got another campaign: profiles: a5, not a5 a2a3; try: its own options" in fuzz.err


@pytest.mark.nightly
@pytest.mark.slow
def test_interrupted_and_killed_campaigns_end_with_the_rows_of_an_uninterrupted_one(fuzz: Any) -> None:
    """Each ends in the middle of a block, which the next one continues; the last is killed in the second."""
    options = [*machines("right", "steady"), "--count", 66, "--batch", 48, "--workers", 1]
    resumed = [*options, "--store", "s.sqlite", "--resume"]
    first = fuzz.start(*options, "--store", "s.sqlite")
    kept = _wait_for_cases(fuzz.folder / "s.sqlite", 5, first)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 130 and "Traceback" not in err
    assert "interrupted; to continue: pto-jax fuzz --tested python:fuzz_machines:steady --against" in err
    assert "--store s.sqlite" in err and err.rstrip().endswith("--resume")
    reported = int(re.findall(r"(\d+) cases: ", out)[0])
    assert kept <= reported < 48 and f"{reported // 10 + (reported % 10 > 3)} different" in out
    for expected in (reported + 5, 50):
        killed = fuzz.start(*resumed)
        _wait_for_cases(fuzz.folder / "s.sqlite", expected, killed)
        killed.kill()
        killed.communicate()
    assert fuzz(*resumed) == 1
    assert "66 cases: 59 equal, 7 different" in fuzz.out
    assert fuzz(*options, "--store", "whole.sqlite") == 1
    assert fuzz.rows("s.sqlite") == fuzz.rows("whole.sqlite")


def _wait_for_cases(store: Path, count: int, process: subprocess.Popen[str]) -> int:
    """Wait until a store has some cases, while the campaign goes on; how many there are."""
    found = 0
    while found < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
        if store.exists():
            try:
                with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
                    (found,) = database.execute("SELECT coalesce(sum(count), 0) FROM batch").fetchone()
            except sqlite3.OperationalError:
                continue
    return found


@pytest.mark.nightly
@pytest.mark.slow
def test_the_case_that_ends_or_hangs_its_worker_is_found(fuzz: Any) -> None:
    options = [*machines("right", "fragile"), "--start", 1, "--count", 9, "--batch", 6]
    assert fuzz(*options, "--store", "s.sqlite", "--case-timeout", 4) == 1
    rows = fuzz.rows("s.sqlite")
    assert "9 cases: 7 equal, 2 crashed" in fuzz.out
    assert [(row[0], row[3]) for row in rows["failure"]] == [(3, "crashed"), (5, "crashed")]
    assert rows["failure"][0][7] == "the process ended with SIGSEGV"
    assert rows["failure"][1][7] == "no answer within 4 s"
    assert [row[:3] for row in rows["batch"]] == [
        (1, 6, '{"crashed": 2, "equal": 4}'),
        (7, 3, '{"equal": 3}'),
    ]


@pytest.mark.slow
@pytest.mark.nightly
def test_too_many_failures_stop_a_campaign(fuzz: Any) -> None:
    options = [*machines("right", "wrong"), "--count", 1000, "--batch", 10, "--max-failures", 2]
    # A worker that holds too much memory after a block is replaced, which changes nothing.
    assert fuzz(*options, "--worker-memory", 1) == 1
    assert "stopped at --max-failures; --store FILE would keep what is done" in fuzz.err
    assert "14 cases: 12 equal, 2 different" in fuzz.out and "store: in memory" in fuzz.out
    assert not list(fuzz.folder.glob("*.sqlite*"))
    # Two processes do not go beyond it either; resumed, a campaign has to be allowed more.
    stored = [*options, "--store", "s.sqlite"]
    assert fuzz(*stored, "--workers", 2) == 1
    assert len(fuzz.rows("s.sqlite")["failure"]) == 2
    assert "to continue: pto-jax fuzz " in fuzz.err and "--max-failures 4 --resume" in fuzz.err
    before = fuzz.rows("s.sqlite")
    assert fuzz(*stored, "--resume") == 1 and fuzz.rows("s.sqlite") == before


@pytest.mark.nightly
@pytest.mark.slow
def test_workers_end_with_the_campaign(fuzz: Any) -> None:
    process = fuzz.start(*machines("right", "sleeping"), "--count", 4, "--store", "s.sqlite")
    marked = fuzz.folder / "worker.pid"
    while not marked.exists() or not marked.read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    process.communicate()
    worker = int(marked.read_text())
    while _lives(worker):
        time.sleep(0.05)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    # A process that nobody has waited for is over all the same.
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
