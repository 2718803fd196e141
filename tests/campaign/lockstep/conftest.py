"""A table that compiles soon, and single programs of a table as cases."""

import numpy as np
import pytest

from pto_jax.devices.lockstep import decoder, pool_of
from pto_jax.generate.programs import Case
from pto_jax.lockstep import values
from pto_jax.lockstep.programs import STEPS, contents, draw
from pto_jax.lockstep.tables import Table, table


@pytest.fixture(scope="module")
def simple() -> Table:
    """A table of a few opcodes that compile in no time."""
    names = {"tand", "tmov", "tadds", "tcvt"}
    opcodes = [o for o in table("a5").opcodes if o.name in names and o.dtype.bits == 16]
    return Table("a5", 16, 16, tuple(opcodes[:6]))


def decode(table: Table, seed: int, index: int) -> Case:
    """The program of an index as a fragment: registers are its tile arguments, with open valid sizes."""
    drawn = draw(np, table, values.origin(seed), np.array([index], np.uint64), STEPS)
    return decoder(table).case(seed, index, drawn, contents(table, pool_of(table, seed), drawn)[0])
