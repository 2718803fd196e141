"""Derivatives of PTO programs: there are none, and the use of one is an error.

A tangent that enters a program leaves it through the linear primitive of this module, which cannot be
evaluated, lowered or transposed. JAX drops it where nothing uses it - under ``jax.lax.stop_gradient``, as in
``x + stop_gradient(kernel(x) - x)`` - and reaches one of the three, an error, where something does.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from ..errors import DifferentiationError
from ..lowering import primitives

_FIX = (
    "PTO instructions have no derivative; allowed: the gradient stopped on the arguments, "
    "{0}(jax.lax.stop_gradient({1})), or straight through, pto.straight_through({0}, reference); "
    "try: {1} + jax.lax.stop_gradient({0}(jax.lax.stop_gradient({1})) - {1})"
)


def refuse(name: str = "f", arguments: Sequence[str] = ()) -> NoReturn:
    """Raise the error that says how a program is used inside a function that is differentiated."""
    place = f"{name}: argument {', '.join(map(repr, arguments))}: " if arguments else ""
    raise DifferentiationError(place + _FIX.format(name, arguments[0] if arguments else "x"))


def without_derivative(
    name: str, outputs: dict[str, Array], arguments: Mapping[str, Any]
) -> dict[str, Array]:
    """Float results as functions of float arguments whose derivative must not be used.

    ``outputs`` are computed from the arguments with their gradient stopped.
    """
    results: dict[str, Array] = _tied(name, outputs, dict(arguments))
    return results


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _tied(name: str, outputs: dict[str, Array], arguments: dict[str, Array]) -> dict[str, Array]:
    return outputs


@partial(_tied.defjvp, symbolic_zeros=True)
def _tied_jvp(name: str, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    outputs = primals[0]
    nonzero = {n: t for n, t in tangents[1].items() if not isinstance(t, SymbolicZero)}

    def tangent(output: Array) -> Array:
        if not nonzero:
            return jnp.zeros_like(output)
        tangents: Array = _undefined.bind(
            *nonzero.values(), aval=jax.typeof(output), name=name, arguments=tuple(nonzero)
        )
        return tangents

    return outputs, {n: tangent(output) for n, output in outputs.items()}


def _used(*tangents: Any, aval: Any, name: str, arguments: tuple[str, ...]) -> NoReturn:
    refuse(name, arguments)


def _lowered(context: Any, *tangents: Any, aval: Any, name: str, arguments: tuple[str, ...]) -> NoReturn:
    refuse(name, arguments)


def _transposed(cotangent: Any, *tangents: Any, aval: Any, name: str, arguments: tuple[str, ...]) -> NoReturn:
    refuse(name, arguments)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    live = [t for t in tangents if not primitives.is_zero_tangent(t)]
    return _undefined.bind(*primals, **params), _undefined.bind(*live, **params)


def _batched(tangents: Sequence[Any], axes: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    size = next(t.shape[axis] for t, axis in zip(tangents, axes, strict=True) if axis is not None)
    aval = primitives.unmapped_aval(size, 0, params["aval"])
    return _undefined.bind(*tangents, **{**params, "aval": aval}), 0


#: Tangents of arguments -> the tangent of one result, which does not exist. Parameters: ``aval`` of the
#: result, ``name`` of the program and of its differentiated ``arguments``.
_undefined: Any = primitives.primitive(
    "pto_undefined_derivative",
    evaluate=_used,
    types=lambda *tangents, aval, name, arguments: aval,
    batch=_batched,
    lower={primitives.EVERY: _lowered},
)
primitives.differentiate(_undefined, _jvp, _transposed)
