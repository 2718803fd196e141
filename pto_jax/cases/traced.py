"""Executing a traced program step by step, so that a program runs as traced without being compiled.

Compiling takes most of the time of a program that runs once. Here loops and branches are executed in Python.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from ..lowering.primitives import ClosedJaxpr, Literal, by_jax, scanned

#: Executes one equation on the values of its operands.
Step: TypeAlias = Callable[[Any, list[Any]], list[Any]]


@dataclass(frozen=True)
class Interpreter:
    """Executes traces: control flow itself, other primitives by a table of steps or else by JAX.

    ``array`` makes the arrays that values are kept as.
    """

    array: Callable[[Any], Any]
    steps: Mapping[str, Step]

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """What a function of a tree of arrays gives, traced as a whole."""
        with np.errstate(all="ignore"):
            traced, shape = jax.make_jaxpr(function, return_shape=True)(argument)
            flat = self.evaluate(traced, map(self.array, jax.tree.leaves(argument)))
        return jax.tree.unflatten(jax.tree.structure(shape), flat)

    def evaluate(self, traced: ClosedJaxpr, arguments: Iterable[Any]) -> list[Any]:
        """The results of a trace."""
        jaxpr = traced.jaxpr
        environment: dict[Any, Any] = dict(zip(jaxpr.constvars, map(self.array, traced.consts), strict=True))
        environment.update(zip(jaxpr.invars, arguments, strict=True))

        def read(v: Any) -> Any:
            return self.array(v.val) if isinstance(v, Literal) else environment[v]

        for eqn in jaxpr.eqns:
            results = self._step(eqn.primitive.name)(eqn, [read(v) for v in eqn.invars])
            environment.update(zip(eqn.outvars, map(self.array, results), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _step(self, name: str) -> Step:
        match name:
            case "cond":
                return self._cond
            case "while":
                return self._while
            case "scan":
                return self._scan
        return self.steps.get(name, by_jax)

    def _cond(self, eqn: Any, values: list[Any]) -> list[Any]:
        branches = eqn.params["branches"]
        return self.evaluate(branches[min(max(int(values[0]), 0), len(branches) - 1)], values[1:])

    def _while(self, eqn: Any, values: list[Any]) -> list[Any]:
        p = eqn.params
        n, m = p["cond_nconsts"], p["body_nconsts"]
        fixed, own, carried = values[:n], values[n : n + m], values[n + m :]
        while (goes_on := np.asarray(self.evaluate(p["cond_jaxpr"], [*fixed, *carried])[0])).any():
            new = self.evaluate(p["body_jaxpr"], [*own, *carried])
            # Of a batch those whose condition is false keep what they carry.
            carried = new if goes_on.all() else [*map(partial(_kept, goes_on), new, carried)]
        return carried

    def _scan(self, eqn: Any, values: list[Any]) -> list[Any]:
        p = eqn.params
        n, m, body = scanned(p)
        length = p["length"]
        fixed, carried, rows = values[:n], values[n : n + m], values[n + m :]
        outputs: list[Any] = [None] * length
        for i in reversed(range(length)) if p["reverse"] else range(length):
            results = self.evaluate(body, [*fixed, *carried, *(x[i] for x in rows)])
            carried, outputs[i] = results[:m], results[m:]
        stacked = [
            np.stack([np.asarray(row[k]) for row in outputs])
            if length
            else np.zeros(v.aval.shape, v.aval.dtype)
            for k, v in enumerate(eqn.outvars[m:])
        ]
        return [*carried, *stacked]


def _kept(goes_on: Any, new: Any, old: Any) -> Any:
    """The new value where the flags of a batch, the first axes, are true."""
    shape = goes_on.shape + (1,) * (np.ndim(new) - goes_on.ndim)
    return np.where(goes_on.reshape(shape), new, old)
