"""Cases for several processors on this engine, the interpreter, the sanitizer, and in other orders.

>>> from pto_jax.generate.options import PRESETS
>>> from pto_jax.generate.programs import generate
>>> case = generate(1, 0, PRESETS["ranks"])
>>> sorted(interpreted(case)) == sorted(compiled(case))
True
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import DeadlockError, Diagnostic, NotExecutableError, UndefinedDataError
from ..generate.programs import Case
from ..ir import ScalarType
from ..lowering.numerics import Numerics
from ..profiles import ProfileName
from ..runtime import kernel as engine
from ..runtime.debug.tracer import Observers
from ..runtime.ranks import RankKernel
from ..sanitizer.sanitize import shadowed
from ..schedules import rank_schedules

#: Legal orders that a case is executed in.
ORDERS = 6


def _kernel(case: Case, profile: ProfileName | None, numerics: Numerics = "exact", **more: Any) -> RankKernel:
    assert case.ranks is not None
    kernel: RankKernel = engine.compile(
        case.program,
        profile or case.profile,
        case.entry,
        numerics=numerics,
        grid=case.grid,
        warn=False,
        partial_launch=True,
        ranks=case.ranks.count,
        shared=case.ranks.shared,
        context=dict(case.ranks.context),
        **more,
    )
    return kernel


def _arguments(case: Case) -> dict[str, Any]:
    return {n: i.words.view(i.type.dtype.numpy) for n, i in case.inputs.items()}


def interpreted(case: Case, profile: ProfileName | None = None) -> Mapping[str, Any]:
    """The buffers that the interpreter gives, [ranks, ...], in the order of the text."""
    return _interpreter(case, profile)()


def _interpreter(case: Case, profile: ProfileName | None) -> Any:
    kernel = _kernel(case, profile, engine="interpreter")
    return partial(kernel.interpreted, *kernel.prepared((), _arguments(case)))


def compiled(
    case: Case, profile: ProfileName | None = None, numerics: Numerics = "exact", *, eager: bool = False
) -> Mapping[str, Any]:
    """The buffers that this engine gives, compiled or instruction by instruction."""
    kernel = _kernel(case, profile, numerics)
    if eager:
        return kernel.observed(Observers(()), **_arguments(case))[0]
    found: Mapping[str, Any] = kernel(**_arguments(case))
    return found


def sanitized(case: Case, profile: ProfileName | None = None, *, strict: bool = False) -> Mapping[str, Any]:
    """The buffers that the interpreter gives; UndefinedDataError where undefined data reaches them."""
    execute = _interpreter(case, profile)
    found = shadowed(lambda machine: execute(machine=machine), case.program, strict=strict)
    if found.diagnostics:
        raise UndefinedDataError(found.diagnostics)
    return found.outputs


def judged(case: Case, profile: ProfileName | None = None) -> Mapping[str, Any]:
    """The buffers in the order of the text, after the verdict on a case and executions in other orders.

    UndefinedDataError for a verdict that is wrong: a finding in a program that is right, none where orders
    differ, and none in a mutant, which lacks what it needs. NotExecutableError for mutants that have one.
    """
    kernel, values = _kernel(case, profile, engine="interpreter"), _arguments(case)
    is_mutant = bool(case.origin)
    found: list[Diagnostic] = []
    try:
        found += [f.diagnostic for f in kernel.judge(values).findings]
    except DeadlockError as error:
        found += error.diagnostics
    if found and is_mutant:
        raise NotExecutableError(found[:1])
    seed = int(case.id or "0", 16) % (1 << 32)
    execute = _interpreter(case, profile)
    other = None if found else rank_schedules.difference(execute, ORDERS, seed)
    if found or other is not None or is_mutant:
        lacks = f"the program {case.origin[-1]}" if is_mutant else "the program is right"
        wrong = "a finding" if found else f"no finding; {other}" if other else "no finding"
        text = f"{wrong}, though {lacks}" if not other or is_mutant else wrong
        raise UndefinedDataError([*found, Diagnostic("error", text, rule="ranks")])
    outputs: Mapping[str, Any] = execute()
    return outputs


def words_of(case: Case, found: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The element type and raw words of every buffer, of those that are arguments."""
    types = {n: i.type.dtype for n, i in case.inputs.items() if not isinstance(i.type, ScalarType)}
    arrays = {n: np.ascontiguousarray(found[n]) for n in found if n in types}
    return {n: (types[n], a.view(types[n].word)) for n, a in arrays.items()}
