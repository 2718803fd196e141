"""Executing a traced program step by step, so that a program runs as traced without being compiled.

Compiling takes most of the time of a program that runs once. Here loops and branches are executed in Python.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np

from pto_jax.lowering.bits import x64
from pto_jax.lowering.primitives import ClosedJaxpr, Literal, by_jax
from pto_jax.runtime.arguments import prepare
from pto_jax.runtime.execution import Mode, execute
from pto_jax.runtime.kernel import Kernel

#: Executes one equation on the values of its operands.
Step: TypeAlias = Callable[[Any, list[Any]], list[Any]]


@dataclass(frozen=True)
class Interpreter:
    """Executes traces: control flow itself, other primitives by a table of steps or else by JAX.

    ``array`` makes the arrays that values are kept as.
    """

    array: Callable[[Any], Any]
    steps: Mapping[str, Step]

    def run(self, kernel: Kernel, given: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Outputs and report of a kernel, traced as a whole with checks of run-time rules."""
        prepared = {
            a.name: prepare(kernel.entry, a, given[a.name]) for a in kernel.arguments if a.name in given
        }
        mode = Mode(check="all", keep_state=False, whole=True)
        with x64(), np.errstate(all="ignore"):
            run = partial(execute, kernel, mode)  # pyright: ignore[reportArgumentType]
            traced, shape = jax.make_jaxpr(run, return_shape=True)(prepared)
            flat = self.evaluate(traced, map(self.array, jax.tree.leaves(prepared)))
            results, report, _ = jax.tree.unflatten(jax.tree.structure(shape), flat)
        return {n: results[n] for n in kernel.outputs if n in results}, report

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
        while bool(self.evaluate(p["cond_jaxpr"], [*fixed, *carried])[0]):
            carried = self.evaluate(p["body_jaxpr"], [*own, *carried])
        return carried

    def _scan(self, eqn: Any, values: list[Any]) -> list[Any]:
        p = eqn.params
        n, m, length = p["num_consts"], p["num_carry"], p["length"]
        fixed, carried, rows = values[:n], values[n : n + m], values[n + m :]
        outputs: list[Any] = [None] * length
        for i in reversed(range(length)) if p["reverse"] else range(length):
            results = self.evaluate(p["jaxpr"], [*fixed, *carried, *(x[i] for x in rows)])
            carried, outputs[i] = results[:m], results[m:]
        stacked = [
            np.stack([np.asarray(row[k]) for row in outputs])
            if length
            else np.zeros(v.aval.shape, v.aval.dtype)
            for k, v in enumerate(eqn.outvars[m:])
        ]
        return [*carried, *stacked]
