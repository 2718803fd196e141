"""What campaigns need, and devices that cost nothing, for ``python -m benchmarks campaign``."""

import time
from dataclasses import dataclass

from pto_jax.campaign.fuzz.batch import Block
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.fuzz.pool import Pool
from pto_jax.cases.targets import Run
from pto_jax.errors import Diagnostic, NotExecutableError, PtoError
from pto_jax.generate.programs import Case


@dataclass(frozen=True)
class Measured:
    """What a campaign was measured to need.

    ``rate`` is cases per second of the blocks, without the start of the workers; ``first`` seconds to the
    first result, with it; ``memory`` the most bytes that a worker held after a block; ``cells`` coverage
    cells.
    """

    rate: float
    first: float
    memory: int
    cells: int


def measured(plan: Plan, workers: int = 1) -> Measured:
    """Execute a plan with some workers and nothing kept; PtoError when a case fails."""
    blocks = [Block(start, count) for start, count in plan.blocks()]
    cells: set[str] = set()
    began = time.monotonic()
    first = 0.0
    with Pool(plan, workers, print) as pool:
        for update in pool.run(iter(blocks)):
            if update is None:
                continue
            first = first or time.monotonic() - began
            for failed in update.piece.failures:
                raise PtoError(f"case {failed.id}, index {failed.index}: {failed.message}")
            cells.update(update.piece.coverage)
    rate = plan.count * workers / sum(b.seconds for b in blocks)
    return Measured(rate, first, pool.peak, len(cells))


class Nothing:
    """A device that costs nothing, for ``python:`` as a machine: it declines every program."""

    name = "nothing"

    def run(self, case: Case) -> Run:
        """Raise NotExecutableError."""
        raise NotExecutableError(Diagnostic("error", "the device declines: it executes nothing"))


#: A script that reads cases as a server does, and declines every one.
DECLINING = """\
import sys
pipe = sys.stdin.buffer
while head := pipe.readline().split():
    pipe.read(int(head[4]))
    for _ in range(int(head[5])):
        pipe.read(int(pipe.readline().split()[2]))
    for _ in range(int(head[6])):
        pipe.readline()
    print("declined", flush=True)
"""
