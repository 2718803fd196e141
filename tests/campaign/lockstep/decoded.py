"""Single programs of a lockstep table as cases."""

from __future__ import annotations

import numpy as np

from pto_jax.devices.lockstep import decoder, pool_of
from pto_jax.generate.programs import Case
from pto_jax.lockstep import values
from pto_jax.lockstep.programs import STEPS, contents, draw
from pto_jax.lockstep.tables import Table


def decode(table: Table, seed: int, index: int) -> Case:
    """The program of an index as a fragment: registers are its tile arguments, with open valid sizes."""
    drawn = draw(np, table, values.origin(seed), np.array([index], np.uint64), STEPS)
    return decoder(table).case(seed, index, drawn, contents(table, pool_of(table, seed), drawn)[0])
