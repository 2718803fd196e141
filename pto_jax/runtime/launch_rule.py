"""The judgement of a launch where a kernel is called: what compiling leaves open is decided by arguments."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import jax
import numpy as np
from jax.core import Tracer

from ..analysis import entries, provenance
from ..errors import Diagnostic, ExecutionError, Span
from ..ir import MemRefType, PartitionViewType, Program, ScalarType, TensorViewType
from ..isa import effects, queries
from ..launches.judgement import Facts, judge
from .arguments import extents
from .state import Report, RuleLocation

_VIEWS = (TensorViewType, PartitionViewType, MemRefType)
_NOTHING = Report((), (), ())
RULE = "launch"


class Launch(Protocol):
    """What is judged; ``launch_is_open`` where compiling could not decide."""

    @property
    def program(self) -> Program:
        """The program with its functions."""

    @property
    def entry(self) -> str:
        """The name of the function that is executed."""

    @property
    def grid(self) -> int:
        """The number of blocks."""

    @property
    def arguments(self) -> tuple[entries.Argument, ...]:
        """The arguments of the function, in order."""

    @property
    def launch_is_open(self) -> bool:
        """Whether the arguments decide if the blocks are those the program needs."""


def launched(kernel: Launch, prepared: Mapping[str, Any], check: bool) -> Report:
    """The rule that a launch has the blocks its program needs, as arguments decide it.

    With ``check`` their values count: of scalars that a transformation traces, by a callback. Without, only
    the shapes of arrays do, which are known wherever a kernel is traced, and a broken rule is an error: to
    follow a program for every new value of a scalar would cost more than many kernels do.
    """
    if not kernel.launch_is_open:
        return _NOTHING
    types = {a.name: a.type for a in kernel.arguments}
    shapes = {n: extents(prepared[n], t.dtype) for n, t in types.items() if isinstance(t, _VIEWS)}
    if not check:
        problem = _judged(kernel, Facts(extents=shapes)) if shapes else None
        if problem is not None:
            raise ExecutionError(problem)
        return _NOTHING
    scalars = {n: prepared[n] for n, t in types.items() if isinstance(t, ScalarType)}
    if any(isinstance(x, Tracer) for x in scalars.values()):
        return _called_back(kernel, scalars, shapes)
    arrays = {n: prepared[n] for n, t in types.items() if isinstance(t, provenance.GlobalTypes)}
    contents = {n: partial(jax.device_get, x) for n, x in arrays.items() if not isinstance(x, Tracer)}
    problem = _judged(kernel, Facts(_integers(kernel, scalars), shapes, contents))
    if problem is None:
        return _NOTHING
    return _report(problem.span, problem.message, jax.numpy.ones((), bool))


def _judged(kernel: Launch, facts: Facts) -> Diagnostic | None:
    return judge(kernel.program, kernel.entry, kernel.grid, facts).problem


def _integers(kernel: Launch, scalars: Mapping[str, Any]) -> dict[str, int]:
    integers = [
        a.name for a in kernel.arguments if isinstance(a.type, ScalarType) and not a.type.dtype.is_float
    ]
    return {n: int(jax.device_get(scalars[n])) for n in integers}


def _called_back(kernel: Launch, scalars: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Report:
    """One flag for values that only execution has; the report cannot name them."""

    def broken(values: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        facts = Facts(_integers(kernel, values), shapes)
        return np.asarray(_judged(kernel, facts) is not None)

    shape = jax.eval_shape(lambda: jax.numpy.ones((), bool))
    flag = jax.pure_callback(broken, shape, dict(scalars), vmap_method="sequential")
    asked = next(op for op in kernel.program.walk() if effects.traits_of(op).launch == "block")
    blocks = f"{kernel.grid} block{'s' if kernel.grid > 1 else ''} (grid={kernel.grid})"
    allowed = f"{blocks} that write what the views declare; allowed: a grid that covers them"
    return _report(asked.span, allowed, flag)


def _report(span: Span | None, allowed: str, flag: jax.Array) -> Report:
    return Report((flag,), (RuleLocation(queries.GET_BLOCK_IDX, RULE, allowed, span),), ((),))
