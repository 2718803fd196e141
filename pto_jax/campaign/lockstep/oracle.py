"""Samples of lockstep programs compared with another machine, one program at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...testing.generate import Case
from ..judge import Outcome, Watch, judge
from ..results import Output, Run
from ..targets import Oracle, Target
from .cases import decode, outputs
from .stream import Runner


@dataclass(frozen=True)
class Finished:
    """A machine that has already run one case."""

    name: str
    results: dict[str, Output]

    def run(self, case: Case) -> Run:
        return Run(self.results)


def finished(runner: Runner, seed: int, index: list[int]) -> Iterator[tuple[Case, Finished]]:
    """The programs of some indices as cases, with what the lockstep engine computed."""
    size = runner.chunk * runner.devices
    for place in range(0, len(index), size):
        here = index[place : place + size]
        for i, registers in zip(here, runner.registers(seed, np.array(here, np.uint64)), strict=True):
            case = decode(runner.table, seed, i, runner.steps)
            yield case, Finished(runner.name, outputs(case, runner.table, registers))


def compare(
    runner: Runner, reference: Target, seed: int, index: list[int], watch: Watch | None = None
) -> Iterator[Outcome]:
    """What became of the programs of some indices, on a reference machine and in lockstep."""
    for case, tested in finished(runner, seed, index):
        yield judge(case, reference, tested, watch)


def compare_with_interpreter(runner: Runner, seed: int, start: int, count: int) -> list[Outcome]:
    """The programs on which the lockstep engine and the reference interpreter do not agree.

    >>> from .table import Table, table
    >>> few = Table("a5", 16, 16, tuple(o for o in table("a5").opcodes if o.name in ("tadd", "tand")))
    >>> compare_with_interpreter(Runner(few, chunk=8), 1, 0, 8)
    []
    """
    every = compare(runner, Oracle(), seed, list(range(start, start + count)))
    return [o for o in every if o.is_failure]
