"""Samples of lockstep programs compared with another machine, one program at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...generate.programs import Case
from ...lockstep import values
from ...lockstep.programs import Drawn, contents, draw
from ...lockstep.stream import Runner
from ...lowering.lockstep import Programs
from ..comparison import Outcome, Watch, compare_case
from ..results import Run
from ..targets import Oracle, Target
from .cases import as_case, outputs, pool_of


@dataclass(frozen=True)
class Given:
    """A machine that has already run one case."""

    name: str
    answer: Run | Exception

    def run(self, case: Case) -> Run:
        """What it gave, or raised, whatever the case."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass(frozen=True)
class Finished:
    """A program as a case, as it was drawn (arrays with one row), and with the lockstep engine's results."""

    case: Case
    drawn: Programs
    machine: Given


def finished(runner: Runner, seed: int, index: Sequence[int]) -> Iterator[Finished]:
    """The programs of some indices, a chunk of them executed at a time."""
    table = runner.table
    for place in range(0, len(index), runner.chunk):
        here = np.array(index[place : place + runner.chunk], np.uint64)
        drawn = draw(np, table, values.origin(seed), here, runner.steps)
        filled = contents(table, pool_of(table, seed), drawn)
        registers = runner.registers(drawn.programs, filled)
        for n, number in enumerate(here.tolist()):
            one = slice(n, n + 1)
            single = Drawn(Programs(*(a[one] for a in drawn.programs)), *(a[one] for a in drawn[1:]))
            case = as_case(table, seed, number, single, filled[n])
            yield Finished(case, single.programs, Given(runner.name, Run(outputs(case, table, registers[n]))))


def compare(
    runner: Runner, reference: Target, seed: int, index: Sequence[int], watch: Watch | None = None
) -> Iterator[Outcome]:
    """What became of the programs of some indices, on a reference machine and in lockstep."""
    for program in finished(runner, seed, index):
        yield compare_case(program.case, reference, program.machine, watch)


def compare_with_interpreter(runner: Runner, seed: int, start: int, count: int) -> list[Outcome]:
    """The programs on which the lockstep engine and the reference interpreter do not agree.

    >>> from pto_jax.lockstep.table import Table, table
    >>> few = Table("a5", 16, 16, tuple(o for o in table("a5").opcodes if o.name in ("tadd", "tand")))
    >>> compare_with_interpreter(Runner(few, chunk=8), 1, 0, 8)
    []
    """
    every = compare(runner, Oracle(), seed, range(start, start + count))
    return [o for o in every if o.is_failure]
