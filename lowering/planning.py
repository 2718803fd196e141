"""Where a program places its tiles: found by walking it with addresses only.

The walk folds constants, follows calls and rebindings exactly as execution does, so that every address
that execution will know is known here too.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from pto_jax.errors import NotExecutableError
from pto_jax.ir import Op, Program
from pto_jax.profiles import Profile
from pto_jax.types import TileType
from pto_jax.walk import Scalar, launch
from pto_jax.walk.abstract import AbstractMachine, abstract

from .storage import Placement, Plan


@dataclass
class Surveyor(AbstractMachine):
    """Notes the constant addresses of tiles."""

    found: list[Placement] = field(default_factory=list)

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        if address is not None:
            self.found.append(Placement(type, address if isinstance(address, int) else None))
        return None


@lru_cache(maxsize=1024)
def plan(program: Program, entry: str, profile: Profile, grid: int = 1) -> Plan:
    """The memory plan of a function executed on some blocks, which may take different paths.

    A program that execution will stop in is planned up to the place where it stops.
    """
    surveyor, function = Surveyor(), program.function(entry)
    assert function is not None, entry
    with suppress(NotExecutableError):
        launch(program, surveyor, function, [abstract(a) for a in function.args], grid=grid)
    return Plan(surveyor.found, profile.capacity)
