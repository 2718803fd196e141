"""Calls that check their accesses, apart from the results if integer arguments determine them.

What a program accesses follows mostly from its integers. Then a function of these alone judges the accesses,
once for the same numbers, and nobody waits for the results. What a message shows is computed by a function of
its own, which few calls need. Elsewhere one function gives all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.core import Tracer

from ..lowering.primitives import ClosedJaxpr
from . import trace_parts
from .state import PackedReport

#: Results by name.
Results: TypeAlias = "dict[str, Any]"
#: The report of an execution without rules.
NOTHING = PackedReport(None, None, ())
#: Different numbers that the accesses of one kind of call are remembered for.
REMEMBERED = 4096


@dataclass(frozen=True)
class Judged:
    """A function of results, and two of some leaves of the arguments: what rules are broken, the report."""

    results: Callable[..., Results]
    flags: Callable[..., Any]
    report: Callable[..., PackedReport]
    places: tuple[int, ...]
    inside: set[tuple[bytes, ...]] = field(default_factory=set)

    def __call__(self, args: Sequence[Any], leaves: Sequence[Any]) -> tuple[Results, PackedReport]:
        """The results, and the report, which is empty for numbers that broke nothing before."""
        results = self.results(*args)
        numbers = [leaves[i] for i in self.places]
        key = tuple(np.asarray(n).tobytes() for n in numbers)
        if key in self.inside:
            return results, NOTHING
        flags = self.flags(*numbers)
        if isinstance(flags, Tracer) or np.asarray(flags).any():
            return results, self.report(*numbers)
        if len(self.inside) >= REMEMBERED:
            self.inside.clear()
        self.inside.add(key)
        return results, NOTHING


@dataclass(frozen=True)
class Calls:
    """Calls of one kernel; ``whole`` is the jitted function of results and report."""

    whole: Any
    made: dict[Any, Judged | None] = field(default_factory=dict)

    def __call__(self, args: Sequence[Any]) -> tuple[Results, PackedReport]:
        """The results, and the report of what was not judged before."""
        leaves, structure = jax.tree.flatten(tuple(args))
        kind = structure, *[(x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves]
        if kind not in self.made:
            self.made[kind] = _judged(self.whole.trace(*args), leaves)
        judged = self.made[kind]
        whole: tuple[Results, PackedReport] = self.whole(*args) if judged is None else judged(args, leaves)
        return whole


def _judged(traced: Any, leaves: Sequence[Any]) -> Judged | None:
    """The two functions of a trace; None where its accesses depend on more than numbers, or on nothing."""
    results, report = map(jax.tree.structure, traced.out_info)
    first, rules = (len(jax.tree.leaves(part)) for part in traced.out_info)
    jaxpr: ClosedJaxpr = traced.jaxpr
    wanted, others = [False] * first + [True] * rules, [True] * first + [False] * rules
    needed = trace_parts.inputs(jaxpr.jaxpr, wanted)
    arrays = any(n and x.ndim for n, x in zip(needed, leaves, strict=True))
    if not rules or arrays or jaxpr.effects:
        return None

    @jax.jit
    def pto(*args: Any) -> Any:
        found = trace_parts.evaluate(jaxpr, jax.tree.leaves(args), others)
        return jax.tree.unflatten(results, found[:first])

    def of_numbers(numbers: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        rest = iter(numbers)
        found = trace_parts.evaluate(jaxpr, [next(rest) if n else None for n in needed], wanted)
        return found[first:]

    @jax.jit
    def judge(*numbers: Any) -> Any:
        # The flags are the first leaf of a report.
        return of_numbers(numbers, [False] * first + [True] + [False] * (rules - 1))[0]

    @jax.jit
    def judge_in_full(*numbers: Any) -> Any:
        return jax.tree.unflatten(report, of_numbers(numbers, wanted))

    return Judged(pto, judge, judge_in_full, tuple(i for i, n in enumerate(needed) if n))
