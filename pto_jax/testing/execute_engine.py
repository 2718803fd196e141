"""Executing recorded cases with the JAX engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..arrays import x64
from ..engine import Kernel, choices
from ..profiles import CPU_SIM, Profile
from ..tiles import Tile
from .cases import case_program
from .physical import to_logical, to_physical
from .vectors import Case, GmOperand, ScalarOperand, TileOperand, VectorOperand


def run_case_engine(
    case: Case, profile: Profile = CPU_SIM, numerics: str = "exact"
) -> Mapping[str, NDArray[np.uint8]]:
    """Raw bytes of every written operand after the case's instruction.

    The program is not verified: vectors record what an implementation does even where a page forbids it.
    """
    program = case_program(case)
    kernel = Kernel(program, program.functions[0].name, choices(profile, numerics, None, "keep"))
    given = {a.name: _argument(case, a.name) for a in kernel.arguments}
    results = kernel.eager_unchecked(**given)
    return {name: _bytes(case, name, value) for name, value in results.items()}


def _argument(case: Case, name: str) -> Any:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        words = to_logical(operand.type, operand.before)
        with x64():
            return Tile(jnp.asarray(words), None, None, operand.type)
    if isinstance(operand, GmOperand | VectorOperand):
        return np.asarray(operand.before).view(operand.dtype.word)
    assert isinstance(operand, ScalarOperand)
    return np.array(operand.bits, operand.dtype.word)


def _bytes(case: Case, name: str, value: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        return to_physical(operand.type, np.asarray(value.words), operand.before.copy())
    return np.ascontiguousarray(np.asarray(value)).view(np.uint8)
