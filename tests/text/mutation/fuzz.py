"""Mutation fuzz of the parser, the verifier and the printer.

``python -m tests.text.mutation.fuzz --seed S --count N --jobs J`` damages N program texts and checks
what :mod:`.check` asks of each, in worker processes with limits of time and memory. Input number n of a
seed is the same text whatever the other options are, so that ``--start`` goes on where a run ended;
``--show`` prints it. Exit status 1 when something was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.text.mutation.check import Finding, check
from tests.text.mutation.corpus import Corpus
from tests.text.mutation.mutations import mutate

#: Bytes that a worker may allocate beyond what it has after its start.
MEMORY = 1 << 30
#: Seconds of silence after which a worker is ended from outside.
SILENCE = 120.0
#: CPU seconds for making one reproducer small.
SHRINKING = 20.0


@dataclass(frozen=True)
class Found:
    """A finding, the number of its input, and the smallest text known to show it."""

    index: int
    finding: Finding
    text: str


@dataclass
class TextFuzzReport:
    """What a run found: inputs per verdict, findings per cause, the first of every cause."""

    verdicts: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    first: dict[str, Found] = field(default_factory=dict)
    #: Largest resident memory of a worker, in bytes.
    peak: int = 0

    def add(self, found: Found) -> None:
        """Count a finding, and keep it where it is the first of its cause by the number of its input."""
        cause = found.finding.cause
        self.causes[cause] += 1
        if cause not in self.first or found.index < self.first[cause].index:
            self.first[cause] = found

    def merge(self, other: TextFuzzReport) -> None:
        """Add what another run found."""
        self.verdicts.update(other.verdicts)
        self.peak = max(self.peak, other.peak)
        for finding in other.first.values():
            self.add(finding)
        self.causes.update({cause: n - 1 for cause, n in other.causes.items()})

    def __str__(self) -> str:
        blocks = [
            f"{cause}: {self.causes[cause]} inputs, first {finding.index}\n  {finding.finding.message}\n  "
            f"{finding.text!r}"
            for cause, finding in sorted(self.first.items())
        ]
        inputs = self.verdicts.total() + self.causes.total()
        counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(self.verdicts.items()))
        total = f"{inputs} inputs: {counts or 'none checked'}, {self.causes.total()} findings"
        return "\n".join([*blocks, f"{total} of {len(self.causes)} causes; peak {self.peak >> 20} MiB"])


def damaged(corpus: Corpus, seed: int, index: int) -> str:
    """Input number ``index`` of a seed."""
    rng = random.Random(f"{seed}:{index}")
    return mutate(rng, corpus.choose(rng), corpus.choose(rng))


def fuzz(
    corpus: Corpus, seed: int, indices: range, watch: Callable[[int], None] | None = None
) -> TextFuzzReport:
    """Check inputs of a seed in this process."""
    report = TextFuzzReport()
    for index in indices:
        if watch is not None:
            watch(index)
        text = damaged(corpus, seed, index)
        result = check(text, index)
        if isinstance(result, str):
            report.verdicts[result] += 1
        else:
            small = text if result.cause in report.first else minimal(text, result, index)
            report.add(Found(index, result, small))
    report.peak = _resident()
    return report


def minimal(text: str, finding: Finding, seed: int) -> str:
    """A smaller text with a finding of the same cause."""
    end = time.process_time() + SHRINKING

    def same(candidate: str) -> bool:
        verdict = check(candidate, seed)
        return isinstance(verdict, Finding) and verdict.cause == finding.cause

    for unit in ("\n", " ", ""):
        text = unit.join(_reduced(text.split(unit) if unit else list(text), unit, same, end))
    return text


def _reduced(parts: list[str], unit: str, same: Callable[[str], bool], end: float) -> list[str]:
    """Fewer parts: runs of them are left out, from long ones to single ones."""
    size = max(1, len(parts) // 2)
    while True:
        at, shorter = 0, False
        while at < len(parts) and time.process_time() < end:
            rest = parts[:at] + parts[at + size :]
            if same(unit.join(rest)):
                parts, shorter = rest, True
            else:
                at += size
        if time.process_time() >= end or (size == 1 and not shorter):
            return parts
        size = max(1, size // 2)


# -- worker processes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Inputs of a seed, and what the corpus is made of."""

    seed: int
    indices: range
    generated: int
    folders: tuple[Path, ...]


class _Worker:
    """A process that checks a task's inputs."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self.task = task
        self.current: Any = context.Value("q", task.indices.start)
        self.connection, other = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(task, self.current, other), daemon=True)
        self.process.start()
        other.close()
        self.seen = (task.indices.start, time.monotonic())

    def silent(self) -> bool:
        """Whether nothing has happened for long."""
        if self.seen[0] != self.current.value:
            self.seen = (self.current.value, time.monotonic())
        return time.monotonic() - self.seen[1] > SILENCE

    def ended(self) -> TextFuzzReport | None:
        """What the worker found, None when it ended in the middle of an input."""
        try:
            report: TextFuzzReport = self.connection.recv()
        except EOFError:
            return None
        finally:
            self.process.join()
        return report


def _work(task: Task, current: Any, connection: Connection) -> None:
    corpus = Corpus(task.generated, task.folders)
    _limit_memory()

    def watch(index: int) -> None:
        current.value = index

    connection.send(fuzz(corpus, task.seed, task.indices, watch))


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, OSError, ValueError):
        return


def _resident() -> int:
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run(
    task: Task, jobs: int = 1, block: int = 4000, progress: Callable[[str], None] | None = None
) -> TextFuzzReport:
    """Check a task's inputs in worker processes, some at a time. A worker that ends or hangs is a finding.

    ``progress`` is told the counts after every ``block`` inputs, and new causes.
    """
    blocks = [task.indices[i : i + block] for i in range(0, len(task.indices), block)]
    waiting = [Task(task.seed, indices, task.generated, task.folders) for indices in reversed(blocks)]
    running: list[_Worker] = []
    report = TextFuzzReport()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_Worker(waiting.pop()))
        ready = wait([w.connection for w in running], timeout=1.0)
        for worker in [w for w in running if w.connection in ready or w.silent()]:
            if worker.connection not in ready:
                worker.process.kill()
            running.remove(worker)
            causes = len(report.causes)
            report.merge(worker.ended() or _lost(worker, waiting))
            if progress is not None:
                text = str(report)
                progress(text if len(report.causes) > causes else text.splitlines()[-1])
    return report


def _lost(worker: _Worker, waiting: list[Task]) -> TextFuzzReport:
    """The finding that a worker did not come to its end.

    What it had not done is done again without that input.
    """
    task, at = worker.task, int(worker.current.value)
    for rest in (range(at + 1, task.indices.stop), range(task.indices.start, at)):
        if rest:
            waiting.append(Task(task.seed, rest, task.generated, task.folders))
    text = damaged(Corpus(task.generated, task.folders), task.seed, at)
    lost = TextFuzzReport()
    lost.add(Found(at, Finding("died", f"input {at}", f"exit status {worker.process.exitcode}"), text))
    return lost


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.text.mutation.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="first input (default: 0)")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="inputs (default: 1000)")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="worker processes (default: 1)")
    parser.add_argument(
        "--generated", type=int, default=1000, metavar="N", help="generated programs to damage"
    )
    parser.add_argument("--folder", action="append", default=[], type=Path, help="also damage its programs")
    parser.add_argument("--show", action="store_true", help="print the inputs instead of checking them")
    options = parser.parse_args(arguments)
    task = Task(
        options.seed,
        range(options.start, options.start + options.count),
        options.generated,
        tuple(options.folder),
    )
    if options.show:
        corpus = Corpus(task.generated, task.folders)
        sys.stdout.buffer.writelines(
            damaged(corpus, task.seed, i).encode("utf-8", "surrogatepass") for i in task.indices
        )
        return 0
    report = run(task, options.jobs, progress=lambda line: print(line, file=sys.stderr, flush=True))
    print(report)
    return 1 if report.causes else 0


if __name__ == "__main__":
    sys.exit(main())
