"""Executing recorded cases with the implementations of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import oracle
from ..profiles import Profile
from .cases import case_program
from .manifest import Case, GmOperand, ScalarOperand, TileOperand, VectorOperand
from .physical import pack_elements, to_logical, to_physical, unpack_elements


def run_case_oracle(
    case: Case, profile: str | Profile = "cpu_sim", **options: Any
) -> dict[str, NDArray[np.uint8]]:
    """Bytes of each written operand after the reference interpreter executed a case.

    ``options`` are those of :func:`pto_jax.oracle.run`.
    """
    program = case_program(case)
    taken = {v.name for v in program.functions[0].args}
    arguments = {o.name: _argument(o) for o in case.operands if o.name in taken}
    results = oracle.run(program, arguments, profile=profile, **options)
    return {name: _bytes(case, name, result) for name, result in results.items()}


def _argument(operand: Any) -> Any:
    if isinstance(operand, TileOperand):
        return oracle.OracleTile(operand.type, to_logical(operand.type, operand.before))
    if isinstance(operand, GmOperand):
        return unpack_elements(operand.dtype, operand.before)
    if isinstance(operand, VectorOperand):
        return operand.before.view(operand.dtype.word)
    assert isinstance(operand, ScalarOperand)
    return operand.value


def _bytes(case: Case, name: str, result: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        t = operand.type
        return to_physical(t, np.ascontiguousarray(result.data).view(t.dtype.word), operand.before)
    if isinstance(operand, VectorOperand):
        return np.ascontiguousarray(result).view(np.uint8)
    assert isinstance(operand, GmOperand)
    return pack_elements(operand.dtype, result)
