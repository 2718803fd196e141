"""Executing a traced program step by step, so that a program runs as traced without being compiled.

Compiling takes most of the time of a program that runs once. Here the inner functions of a trace, which
programs share, are compiled once each; loops and branches around them are executed in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from .. import arrays, engine
from ..arguments import prepare

_compiled: dict[int, tuple[ClosedJaxpr, Callable[..., Any]]] = {}


def run_traced(kernel: engine.Kernel, given: Mapping[str, Any]) -> Any:
    """Outputs and report of a kernel, traced as a whole with checks of run-time rules."""
    prepared = {a.name: prepare(a, given[a.name]) for a in kernel.arguments if a.name in given}
    mode = engine._Mode(check=True, keep_state=False, whole=True)
    with arrays.x64():
        run = partial(engine._execute, kernel, mode)
        traced, shape = jax.make_jaxpr(run, return_shape=True)(prepared)
        flat = _evaluate(traced.jaxpr, traced.consts, jax.tree.leaves(prepared))
        results, report, _ = jax.tree.unflatten(jax.tree.structure(shape), flat)
    return {n: results[n] for n in kernel.outputs if n in results}, report


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else known[v]

    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        step = _STEPS.get(eqn.primitive.name, _bind)
        known.update(zip(eqn.outvars, step(eqn, values), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _bind(eqn: Any, values: list[Any]) -> list[Any]:
    with eqn.ctx.manager:
        found = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(found) if eqn.primitive.multiple_results else [found]


def _call(eqn: Any, values: list[Any]) -> list[Any]:
    inner = eqn.params["jaxpr"]
    if id(inner.jaxpr) not in _compiled:
        # The entry keeps the trace alive, so that nothing else gets its identity.
        _compiled[id(inner.jaxpr)] = (inner, jax.jit(jaxpr_as_fun(inner)))
    return list(_compiled[id(inner.jaxpr)][1](*values))


def _cond(eqn: Any, values: list[Any]) -> list[Any]:
    branches = eqn.params["branches"]
    taken = branches[min(max(int(values[0]), 0), len(branches) - 1)]
    return _evaluate(taken.jaxpr, taken.consts, values[1:])


def _while(eqn: Any, values: list[Any]) -> list[Any]:
    p = eqn.params
    test, body, n, m = p["cond_jaxpr"], p["body_jaxpr"], p["cond_nconsts"], p["body_nconsts"]
    fixed, own, carried = values[:n], values[n : n + m], values[n + m :]
    while bool(_evaluate(test.jaxpr, test.consts, [*fixed, *carried])[0]):
        carried = _evaluate(body.jaxpr, body.consts, [*own, *carried])
    return carried


def _scan(eqn: Any, values: list[Any]) -> list[Any]:
    p = eqn.params
    body, n, m = p["jaxpr"], p["num_consts"], p["num_carry"]
    fixed, carried, rows = values[:n], values[n : n + m], values[n + m :]
    order = range(p["length"])
    outputs: list[Any] = [None] * p["length"]
    for i in reversed(order) if p["reverse"] else order:
        found = _evaluate(body.jaxpr, body.consts, [*fixed, *carried, *(x[i] for x in rows)])
        carried, outputs[i] = found[:m], found[m:]
    if p["length"]:
        stacked = [np.stack([np.asarray(row[k]) for row in outputs]) for k in range(len(outputs[0]))]
    else:
        stacked = [np.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars[m:]]
    return [*carried, *map(jax.numpy.asarray, stacked)]


_STEPS: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "jit": _call,
    "pjit": _call,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
