"""Executing recorded cases with the JAX engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ..lowering.words import x64
from ..profiles import CPU_SIM, Profile
from ..runtime.kernel import Kernel, choices
from ..runtime.tiles import Tile
from .cases import case_program
from .manifest import Case, GmOperand, ScalarOperand, TileOperand, VectorOperand
from .physical import to_logical, to_physical


def run_case_engine(
    case: Case, profile: Profile = CPU_SIM, numerics: str = "exact"
) -> Mapping[str, NDArray[np.uint8]]:
    """Raw bytes of every written operand after the case's instruction.

    The program is not verified: vectors record what an implementation does even where a page forbids it.
    """
    kernel = _kernel(case, profile, numerics)
    return _after(case, kernel.eager_unchecked(**_arguments(case, kernel)))


def run_cases_engine(
    cases: Sequence[Case],
    profile: Profile = CPU_SIM,
    numerics: str = "exact",
    compiler_options: Mapping[str, bool | int] | None = None,
) -> list[Mapping[str, NDArray[np.uint8]]]:
    """What :func:`run_case_engine` gives for each of the cases, from one compiled function.

    Most of the time a small program takes is the fixed cost of a compilation; ``compiler_options`` are
    those of :func:`jax.jit`.
    """
    kernels = [_kernel(case, profile, numerics) for case in cases]
    arguments = [_arguments(case, kernel) for case, kernel in zip(cases, kernels, strict=True)]

    def execute(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [kernel(**one) for kernel, one in zip(kernels, given, strict=True)]

    with x64():
        results = jax.jit(execute, compiler_options=dict(compiler_options or {}))(arguments)
    return [_after(case, result) for case, result in zip(cases, results, strict=True)]


def _kernel(case: Case, profile: Profile, numerics: str) -> Kernel:
    program = case_program(case)
    return Kernel(program, program.functions[0].name, choices(profile, numerics, None, "keep"))


def _arguments(case: Case, kernel: Kernel) -> dict[str, Any]:
    return {a.name: _argument(case, a.name) for a in kernel.arguments}


def _after(case: Case, results: Mapping[str, Any]) -> dict[str, NDArray[np.uint8]]:
    return {name: _bytes(case, name, value) for name, value in results.items()}


def _argument(case: Case, name: str) -> Any:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        words = to_logical(operand.type, operand.before)
        with x64():
            return Tile(jax.device_put(words), None, None, operand.type)
    if isinstance(operand, GmOperand | VectorOperand):
        return np.asarray(operand.before).view(operand.dtype.word)
    assert isinstance(operand, ScalarOperand)
    return np.array(operand.bits, operand.dtype.word)


def _bytes(case: Case, name: str, value: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        return to_physical(operand.type, np.asarray(value.words), operand.before.copy())
    return np.ascontiguousarray(np.asarray(value)).view(np.uint8)
