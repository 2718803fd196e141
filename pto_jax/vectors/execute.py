"""Executing recorded cases with the implementations of this package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import oracle, profiles
from . import cases, manifest, physical


def run_case_oracle(
    case: manifest.Case, profile: str | profiles.Profile = "cpu_sim", **options: Any
) -> dict[str, NDArray[np.uint8]]:
    """Bytes of each written operand after the reference interpreter executed a case.

    ``options`` are those of :func:`pto_jax.oracle.run`.
    """
    program = cases.case_program(case)
    taken = {v.name for v in program.functions[0].args}
    arguments = {o.name: _argument(o) for o in case.operands if o.name in taken}
    results = oracle.run(program, arguments, profile=profile, **options)
    return {name: _bytes(case, name, result) for name, result in results.items()}


def _argument(operand: Any) -> Any:
    if isinstance(operand, manifest.TileOperand):
        return oracle.OracleTile(operand.type, physical.to_logical(operand.type, operand.before))
    if isinstance(operand, manifest.GmOperand):
        return physical.unpack_elements(operand.dtype, operand.before)
    if isinstance(operand, manifest.VectorOperand):
        return operand.before.view(operand.dtype.word)
    assert isinstance(operand, manifest.ScalarOperand)
    return operand.value


def _bytes(case: manifest.Case, name: str, result: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, manifest.TileOperand):
        t = operand.type
        return physical.to_physical(t, np.ascontiguousarray(result.data).view(t.dtype.word), operand.before)
    if isinstance(operand, manifest.VectorOperand):
        return np.ascontiguousarray(result).view(np.uint8)
    assert isinstance(operand, manifest.GmOperand)
    return physical.pack_elements(operand.dtype, result)
