"""Machines that cost nothing, in a module that worker processes can import, and commands in a folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz.store import Store
from pto_jax.cli import fuzz as commands_fuzz
from pto_jax.cli.main import main

#: The result of a case is its index; on some cases the machines differ, crash or hang.
MACHINES = '''\
import dataclasses
import os
import pathlib
import signal
import time

import numpy as np

from pto_jax.cases.targets import Output, Run
from pto_jax.ir import U32


@dataclasses.dataclass(frozen=True)
class Counting:
    """Gives the index of a case, with one wrong bit on some of them."""

    name: str = "counting"
    every: int = 0

    def run(self, case):
        results = {name: np.full((2, 3), case.index, np.uint32) for name in "yz"}
        if self.every and case.index % self.every == 3:
            results["yz"[case.index // self.every % 2]][1, 2] ^= 1
        return Run({name: Output(U32, words) for name, words in results.items()})


class Slow(Counting):
    def run(self, case):
        time.sleep(0.05)
        return wrong.run(case)


class Fragile(Counting):
    def run(self, case):
        if case.index == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        if case.index == 5:
            time.sleep(1000)
        return super().run(case)


class Sleeping(Counting):
    def run(self, case):
        pathlib.Path("worker.pid").write_text(str(os.getpid()))
        time.sleep(1000)


right = Counting("right")
wrong = Counting("wrong", 10)
steady = Slow("steady")
fragile = Fragile("fragile")
sleeping = Sleeping("sleeping")
'''


@dataclass
class Campaigns:
    """Runs ``pto-jax fuzz`` in a folder of its own, and keeps what it printed."""

    capfd: pytest.CaptureFixture[str]
    folder: Path
    out: str = ""
    err: str = ""

    def __call__(self, *args: object) -> int:
        status = main(["fuzz", *map(str, args)])
        self.out, self.err = self.capfd.readouterr()
        return status

    def start(self, *args: object) -> subprocess.Popen[str]:
        """The command in a process of its own."""
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        return subprocess.Popen(
            [sys.executable, "-m", "pto_jax.cli.main", "fuzz", *map(str, args)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, store: str) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of a store but the times, and which worker it was."""
        with Store.open(self.folder / store) as opened:
            known = {k: v for k, v in opened.campaign().items() if k != "started"}
            return {
                "campaign": sorted((k, str(v)) for k, v in known.items()),
                "batch": list(opened.rows("SELECT start, count, kinds, coverage, ulp FROM batch ORDER BY 1")),
                "failure": list(opened.rows("SELECT * FROM failure ORDER BY 1")),
            }


@pytest.fixture
def fuzz(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Campaigns]:
    (tmp_path / "fuzz_machines.py").write_text(MACHINES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Each process takes a second to begin.
    monkeypatch.setattr(commands_fuzz, "_workers", lambda memory: 1)
    yield Campaigns(capfd, tmp_path)
    sys.modules.pop("fuzz_machines", None)
