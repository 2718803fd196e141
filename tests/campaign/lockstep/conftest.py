"""A table that compiles soon."""

from __future__ import annotations

import pytest

from pto_jax.lockstep.tables import Table, table


@pytest.fixture(scope="module")
def simple() -> Table:
    """A table of a few opcodes that compile in no time."""
    names = {"tand", "tmov", "tadds", "tcvt"}
    opcodes = [o for o in table("a5").opcodes if o.name in names and o.dtype.bits == 16]
    return Table("a5", 16, 16, tuple(opcodes[:6]))
