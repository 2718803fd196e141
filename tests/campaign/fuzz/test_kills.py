"""Campaigns that are killed at random moments, alone, with several workers and on a Dask cluster.

Each ends with the rows of one that nothing disturbed.
"""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Cases of a campaign, of a block, and how often it is killed.
CASES, BLOCK, KILLS = 60, 6, 4
MACHINES = ["--against", "python:fuzz_machines:right", "--tested", "python:fuzz_machines:steady"]
OPTIONS = [*MACHINES, "--preset", "aliases", "--profile", "a5", "--count", CASES, "--batch", BLOCK]


class Dask:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.scheduler = self._schedule()
        self.workers: list[subprocess.Popen[bytes]] = []

    def worker(self) -> None:
        """Start one more worker."""
        while not self.file.exists():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        options = ("--scheduler-file", str(self.file), "--nthreads", "1", "--name", str(len(self.workers)))
        self.workers.append(self._start("worker", *options))

    def kill(self) -> None:
        """Kill a worker with all that it started, as a machine that fails does."""
        _kill(self.workers.pop(0))

    def restart(self) -> None:
        """Another scheduler, with a worker."""
        self.end()
        self.file.unlink()
        self.scheduler, self.workers = self._schedule(), []
        self.worker()

    def end(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.scheduler):
            _kill(process)

    def _schedule(self) -> subprocess.Popen[bytes]:
        return self._start("scheduler", "--port", "0", "--scheduler-file", str(self.file))

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "dask.txt").open("ab")
        code = f"from distributed.cli.dask_{what} import main; main()"
        with log:
            return subprocess.Popen(
                [sys.executable, "-c", code, "--no-dashboard", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def dask(fuzz: Any) -> Iterator[Dask]:
    pytest.importorskip("distributed", reason="a package of the extra dev, which CI has")
    cluster = Dask(fuzz.folder)
    yield cluster
    cluster.end()


def _kept(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            (found,) = database.execute("SELECT coalesce(sum(count), 0) FROM batch").fetchone()
    except sqlite3.OperationalError:
        return 0
    return int(found)


def _wait(store: Path, cases: int, process: subprocess.Popen[str]) -> None:
    while _kept(store) < cases:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def _killed(fuzz: Any, options: list[Any], rng: random.Random, store: str) -> None:
    """Kill a campaign once it is some cases further than it was, and a moment later."""
    path = fuzz.folder / store
    process = fuzz.start(*options, "--store", store, *(["--resume"] if path.exists() else []))
    _wait(path, min(CASES - 2 * BLOCK, _kept(path) + rng.randrange(CASES // KILLS)), process)
    time.sleep(rng.random() / 4)
    process.kill()
    process.communicate()


def _check(fuzz: Any, options: list[Any], store: str) -> None:
    assert fuzz(*options, "--store", store, "--resume", "--quiet") == 1
    assert f"{CASES} cases: 54 equal, 6 different" in fuzz.out
    assert fuzz(*OPTIONS, "--store", "whole.db", "--quiet") == 1
    assert fuzz.rows(store) == fuzz.rows("whole.db")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_campaigns_end_with_the_same_rows(fuzz: Any, workers: int) -> None:
    options, rng = [*OPTIONS, "--workers", workers], random.Random(workers)
    for _ in range(KILLS):
        _killed(fuzz, options, rng, "s.db")
    _check(fuzz, options, "s.db")


@pytest.mark.slow
@pytest.mark.nightly
def test_a_cluster_whose_workers_come_and_go_gives_the_same_rows(fuzz: Any, dask: Dask) -> None:
    options, rng = [*OPTIONS, "--scheduler", dask.file], random.Random(3)
    # Its first workers come later than the campaign.
    process = fuzz.start(*options, "--store", "s.db")
    dask.worker()
    dask.worker()
    for kill in range(KILLS // 2):
        _wait(fuzz.folder / "s.db", 1 + kill * BLOCK + rng.randrange(BLOCK), process)
        dask.kill()
        dask.worker()
    process.kill()
    process.communicate()
    for _ in range(KILLS - KILLS // 2):
        _killed(fuzz, options, rng, "s.db")
    _check(fuzz, options, "s.db")


@pytest.mark.slow
@pytest.mark.nightly
def test_a_scheduler_that_there_is_not_is_one_line(fuzz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pto_jax.campaign.fuzz import cluster

    monkeypatch.setattr(cluster, "CONNECTING", 1)
    Path("s.json").write_text("{}")
    for address, message in (
        ("tcp://127.0.0.1:9", "--scheduler tcp://127.0.0.1:9: no scheduler is reached: "),
        ("nowhere", "allowed: tcp://HOST:PORT, or the file of dask scheduler --scheduler-file"),
        ("s.json", "--scheduler s.json: no scheduler is reached: "),
    ):
        assert fuzz(*OPTIONS, "--scheduler", address, "--quiet") == 2
        assert message in fuzz.err and len(fuzz.err.strip().splitlines()) == 1, fuzz.err
    assert fuzz(*OPTIONS, "--scheduler", "s.json", "--workers", 2) == 2
    assert "--workers with --scheduler" in fuzz.err


@pytest.mark.slow
@pytest.mark.nightly
def test_a_scheduler_that_is_killed_ends_the_campaign_with_one_line(
    fuzz: Any, dask: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished is kept, and another scheduler goes on with the rest."""
    # So long a lost connection may come back.
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "3s")
    process = fuzz.start(*OPTIONS, "--scheduler", dask.file, "--store", "s.db", "--quiet")
    dask.worker()
    _wait(fuzz.folder / "s.db", BLOCK, process)
    _kill(dask.scheduler)
    before = _kept(fuzz.folder / "s.db")
    out, err = process.communicate(timeout=60)
    message = f"pto-jax fuzz: error: the scheduler {dask.file} is gone; --resume goes on with another one"
    assert (process.returncode, out, err.strip()) == (1, "", message)
    assert BLOCK <= before <= _kept(fuzz.folder / "s.db") < CASES
    dask.restart()
    _check(fuzz, [*OPTIONS, "--scheduler", dask.file], "s.db")
