"""Calls that check their accesses, apart from the results if integer arguments determine them.

What a program accesses follows mostly from its integers. Then a function of these alone judges the accesses,
once for the same numbers, and nobody waits for the results. What a message shows is computed by a function of
its own, which few calls need. Elsewhere one function gives all.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..garbage import seldom_collected
from ..lowering.numpy_steps import TooLongError, soon
from ..lowering.primitives import ClosedJaxpr, Jaxpr, Literal, by_jax, scanned
from .state import PackedReport

#: Results by name.
Results: TypeAlias = "dict[str, Any]"
#: The report of an execution without rules.
NOTHING = PackedReport(None, None, ())
#: Different numbers that the accesses of one kind of call are remembered for.
REMEMBERED = 4096
#: Equations that NumPy executes sooner than XLA compiles them.
SHORT = 20_000


@dataclass(frozen=True)
class Judged:
    """A function of results, and two of some leaves of the arguments: what rules are broken, the report."""

    results: Callable[..., Results]
    flags: Any
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
        flags = self._flags(numbers)
        if isinstance(flags, Tracer) or np.asarray(flags).any():
            return results, self.report(*numbers)
        if len(self.inside) >= REMEMBERED:
            self.inside.clear()
        self.inside.add(key)
        return results, NOTHING

    def _flags(self, numbers: Sequence[Any]) -> Any:
        """What rules are broken; code for it is compiled from the second numbers on."""
        if not self.inside:
            with suppress(TooLongError):
                return soon(self.flags.trace(*numbers).jaxpr, numbers, SHORT)[0]
        return self.flags(*numbers)


@dataclass(frozen=True)
class Calls:
    """Calls of one kernel; ``whole`` is the function of results and report, jitted with ``options``."""

    whole: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    made: dict[Any, Judged | None] = field(default_factory=dict)

    def __call__(self, args: Sequence[Any]) -> tuple[Results, PackedReport]:
        """The results, and the report of what was not judged before."""
        leaves, structure = jax.tree.flatten(tuple(args))
        # A trace is for one mesh, whose axes are in the types of arrays that are sharded over them.
        types = [getattr(x, "aval", None) or (x.shape, x.dtype) for x in leaves]
        kind = structure, jax.sharding.get_abstract_mesh(), *types
        if kind in self.made:
            return self._called(self.made[kind], args, leaves)
        with seldom_collected():
            self.made[kind] = _judged(self.whole.trace(*args), leaves, self.options)
            return self._called(self.made[kind], args, leaves)

    def _called(
        self, judged: Judged | None, args: Sequence[Any], leaves: Sequence[Any]
    ) -> tuple[Results, PackedReport]:
        whole: tuple[Results, PackedReport] = self.whole(*args) if judged is None else judged(args, leaves)
        return whole


def _judged(traced: Any, leaves: Sequence[Any], options: Mapping[str, Any]) -> Judged | None:
    """The two functions of a trace; None where its accesses depend on more than numbers, or on nothing."""
    results, report = map(jax.tree.structure, traced.out_info)
    first, rules = (len(jax.tree.leaves(part)) for part in traced.out_info)
    jaxpr: ClosedJaxpr = traced.jaxpr
    of_report, of_results = [False] * first + [True] * rules, [True] * first + [False] * rules
    needed = inputs(jaxpr.jaxpr, of_report)
    arrays = any(n and x.ndim for n, x in zip(needed, leaves, strict=True))
    if not rules or arrays or jaxpr.effects:
        return None

    @partial(jax.jit, **options)
    def pto(*args: Any) -> Any:
        values = evaluate(jaxpr, jax.tree.leaves(args), of_results)
        return jax.tree.unflatten(results, values[:first])

    def of_numbers(numbers: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        rest = iter(numbers)
        results = evaluate(jaxpr, [next(rest) if n else None for n in needed], needs)
        return results[first:]

    @partial(jax.jit, **options)
    def judge(*numbers: Any) -> Any:
        # The flags are the first leaf of a report.
        return of_numbers(numbers, [False] * first + [True] + [False] * (rules - 1))[0]

    @partial(jax.jit, **options)
    def judge_in_full(*numbers: Any) -> Any:
        return jax.tree.unflatten(report, of_numbers(numbers, of_report))

    return Judged(pto, judge, judge_in_full, tuple(i for i, n in enumerate(needed) if n))


#: Which of some values are needed.
Needed: TypeAlias = "list[bool]"


def inputs(jaxpr: Jaxpr, needs: Sequence[bool]) -> Needed:
    """Which arguments of a trace its wanted results need."""
    live = _live(jaxpr, needs)[1]
    return [v in live for v in jaxpr.invars]


def evaluate(traced: ClosedJaxpr, values: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
    """The wanted results of a trace, from the arguments that they need; None for the other ones."""
    jaxpr = traced.jaxpr
    environment: dict[Any, Any] = dict(zip(jaxpr.constvars, traced.consts, strict=True))
    environment.update(zip(jaxpr.invars, values, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else environment.get(v)

    for eqn, outputs in _live(jaxpr, needs)[0]:
        results = _evaluated(eqn, [read(v) for v in eqn.invars], outputs)
        environment.update(zip(eqn.outvars, results, strict=True))
    return [read(v) if w else None for v, w in zip(jaxpr.outvars, needs, strict=True)]


def _live(jaxpr: Jaxpr, needs: Sequence[bool]) -> tuple[list[tuple[Any, Needed]], set[Any]]:
    """The equations that wanted results need, each with its needed results, and the variables they need."""
    live = {v for v, w in zip(jaxpr.outvars, needs, strict=True) if w and not isinstance(v, Literal)}
    equations = []
    for eqn in reversed(jaxpr.eqns):
        outputs = [v in live for v in eqn.outvars]
        if any(outputs):
            equations.append((eqn, outputs))
            operands = zip(eqn.invars, _operands(eqn, outputs), strict=True)
            live |= {v for v, used in operands if used and not isinstance(v, Literal)}
    return equations[::-1], live


def _operands(eqn: Any, needs: Needed) -> Needed:
    """Which operands of an equation its wanted results need."""
    p = eqn.params
    match _kind(eqn):
        case "jit":
            return inputs(p["jaxpr"].jaxpr, needs)
        case "cond":
            branches = [inputs(b.jaxpr, needs) for b in p["branches"]]
            return [True, *map(any, zip(*branches, strict=True))]
        case "while":
            carried = _carried_while(p, needs)
            condition = inputs(p["cond_jaxpr"].jaxpr, [True])[: p["cond_nconsts"]]
            return condition + inputs(p["body_jaxpr"].jaxpr, carried)[: p["body_nconsts"]] + carried
        case "scan":
            n, m, traced = scanned(p)
            carried = _carried(traced.jaxpr, n, needs[:m], needs[m:])
            used = inputs(traced.jaxpr, carried + needs[m:])
            return used[:n] + carried + used[n + m :]
    return [True] * len(eqn.invars)


def _kind(eqn: Any) -> str:
    """The control flow that an equation is; what depends on the platform is left to JAX."""
    return "" if eqn.params.get("branches_platforms") else eqn.primitive.name


def _carried(body: Jaxpr, first: int, needs: Needed, rest: Needed) -> Needed:
    """Which of the values that a loop carries, from operand ``first`` on, wanted ones need in any trip."""
    used = inputs(body, needs + rest)[first : first + len(needs)]
    more = _both(needs, used)
    return needs if more == needs else _carried(body, first, more, rest)


def _carried_while(p: dict[str, Any], needs: Needed) -> Needed:
    condition = inputs(p["cond_jaxpr"].jaxpr, [True])[p["cond_nconsts"] :]
    return _carried(p["body_jaxpr"].jaxpr, p["body_nconsts"], _both(needs, condition), [])


def _both(first: Needed, second: Needed) -> Needed:
    return [a or b for a, b in zip(first, second, strict=True)]


def _evaluated(eqn: Any, values: list[Any], needs: Needed) -> list[Any]:
    if all(needs) and all(_operands(eqn, needs)):
        return by_jax(eqn, values)
    match _kind(eqn):
        case "jit":
            return evaluate(eqn.params["jaxpr"], values, needs)
        case "cond":
            return _cond(eqn.params, values, needs)
        case "while":
            return _while(eqn.params, values, needs)
        case "scan":
            return _scan(eqn.params, values, needs)
    return by_jax(eqn, values)


def _chosen(values: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
    return [x for x, n in zip(values, needed, strict=True) if n]


def _spread(values: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
    """Values at the needed places, None at the others."""
    rest = iter(values)
    return [next(rest) if n else None for n in needed]


def _cond(p: dict[str, Any], values: list[Any], needs: Needed) -> list[Any]:
    def branch(traced: ClosedJaxpr) -> Callable[[], list[Any]]:
        return lambda: _chosen(evaluate(traced, values[1:], needs), needs)

    return _spread(lax.switch(values[0], list(map(branch, p["branches"]))), needs)


def _while(p: dict[str, Any], values: list[Any], needs: Needed) -> list[Any]:
    n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    carried = _carried_while(p, needs)

    def goes_on(state: Sequence[Any]) -> Any:
        return evaluate(p["cond_jaxpr"], [*values[:n], *_spread(state, carried)], [True])[0]

    def body(state: Sequence[Any]) -> Sequence[Any]:
        results = evaluate(p["body_jaxpr"], [*values[n:m], *_spread(state, carried)], carried)
        new = _chosen(results, carried)
        if not p["cond_jaxpr"].out_avals[0].ndim:
            return new
        # Of a batch those whose condition is false keep what they carry.
        flags = goes_on(state)
        wide = (lax.broadcast_in_dim(flags, x.shape, range(flags.ndim)) for x in new)
        return [lax.select(flag, x, old) for flag, x, old in zip(wide, new, state, strict=True)]

    def condition(state: Sequence[Any]) -> Any:
        return jnp.any(goes_on(state))

    return _spread(lax.while_loop(condition, body, _chosen(values[m:], carried)), carried)


def _scan(p: dict[str, Any], values: list[Any], needs: Needed) -> list[Any]:
    n, count, traced = scanned(p)
    m, stacked = n + count, needs[count:]
    carried = _carried(traced.jaxpr, n, needs[:count], stacked)
    used = inputs(traced.jaxpr, carried + stacked)[m:]

    def body(state: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        operands = [*values[:n], *_spread(state, carried), *_spread(rows, used)]
        results = evaluate(traced, operands, carried + stacked)
        return _chosen(results[:count], carried), _chosen(results[count:], stacked)

    options = {k: p[k] for k in ("length", "reverse")}
    state, rows = lax.scan(body, _chosen(values[n:m], carried), _chosen(values[m:], used), **options)
    return _spread(state, carried) + _spread(rows, stacked)
