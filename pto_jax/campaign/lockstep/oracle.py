"""Samples of lockstep programs with their results, one program at a time, to be compared with a machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...generate.programs import Case
from ...lockstep import programs, stream, values
from ...lowering.lockstep import Programs
from ..results import Run
from .cases import decoder, outputs, pool_of


@dataclass(frozen=True)
class Given:
    """A machine that has already run one case."""

    name: str
    answer: Run | Exception
    follows: bool = False

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


def finished(runner: stream.Runner, seed: int, index: Sequence[int]) -> Iterator[Finished]:
    """The programs of some indices, a chunk of them executed at a time."""
    table = runner.table
    for place in range(0, len(index), runner.chunk):
        here = np.array(index[place : place + runner.chunk], np.uint64)
        drawn = programs.draw(np, table, values.origin(seed), here, runner.steps)
        filled = programs.contents(table, pool_of(table, seed), drawn)
        registers = runner.registers(drawn.programs, filled)
        for n, number in enumerate(here.tolist()):
            one = slice(n, n + 1)
            single = programs.Drawn(Programs(*(a[one] for a in drawn.programs)), *(a[one] for a in drawn[1:]))
            case = decoder(table).case(seed, number, single, filled[n])
            yield Finished(
                case,
                single.programs,
                Given(runner.name, Run(outputs(case, table, registers[n])), follows=True),
            )
