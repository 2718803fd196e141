"""Every instruction as a function on tiles and arrays.

``pto.ops.tadd(a, b)`` takes the sources in text order and gives the destination tile. Sources are tiles
(:func:`pto_jax.tile`), [rows, cols] arrays, which stand for tiles of their shape in the place and element
order that the instruction asks for, and numbers or 0-d arrays. Functions are made from the declarations;
``help(pto.ops.tadd)`` prints what the declaration says.

Keyword arguments of all of them, besides the instruction's attributes by name:

``dst``
    The destination: a Tile or an array, whose lanes outside the valid region are kept; a TileType
    (:func:`pto_jax.tile_type` makes one) for a fresh tile; or an element type ("f16", ``jnp.float16``) for
    one of the size it would have anyway. Instructions with several destinations take a tuple of those, None
    for an entry that is left open. Without it the type follows from the sources: in most cases type and
    valid region of the first one, else what ``help`` says; where it does not, ArgumentError says what to
    give.
``profile``
    "cpu_sim", "a2a3" (default) or "a5".
``numerics``, ``out_of_region``, ``subnormals``
    As for :func:`pto_jax.compile`.
``checks``
    The call returns ``(result, report)``: ``report.problems()`` has the rules on run-time values that were
    broken, with batch indices. Otherwise they raise ExecutionError where the values are concrete, and
    nothing under jit and vmap.

The functions work under jit and vmap. ``tprint`` has no destination and returns None.

>>> import numpy as np
>>> import pto_jax as pto
>>> x = np.ones((2, 16), np.float32)
>>> pto.ops.tadd(x, x)
Tile(vec 2x16xf32, [[2 2 ... 2 2] [2 2 ... 2 2]])
>>> pto.ops.tcvt(x, dst="f16").dtype.name, pto.ops.trowsum(x).shape
('f16', (2, 1))
>>> pto.ops.tadds(x, 1.0, checks=True)[1].problems()
[]
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from typing import Any

from . import isa
from .errors import ArgumentError, UnknownNameError
from .runtime import op_functions
from .runtime.op_types import python_name


@cache
def names() -> tuple[str, ...]:
    """The instructions that exist as functions of this module.

    >>> "tadd" in names(), "set_flag" in names()
    (True, False)
    """
    return tuple(python_name(i) for i in isa.instructions().values() if op_functions.is_function(i))


def function(name: str) -> Callable[..., Any]:
    """The function of an instruction by its name: of one from a table, or of one's own.

    Type checkers know the functions of this module by name, and not those that
    :mod:`pto_jax.extension` adds. Raises ArgumentError where no function has the name.

    >>> from pto_jax import ops
    >>> ops.function("tneg") is ops.tneg
    True
    """
    made = _find(name)
    if made is None:
        near = get_close_matches(name, names(), n=3)
        close = f"; close: {', '.join(near)}" if near else ""
        raise ArgumentError(f"ops.function: no function is called {name!r}{close}; ops.names() lists them")
    return made


def __getattr__(name: str) -> Callable[..., Any]:
    made = _find(name)
    if made is None and isa.find(name) is not None:
        raise _NoFunctionError(__name__, name)
    if made is None:
        raise UnknownNameError(__name__, name, names, "instruction")
    return made


class _NoFunctionError(ArgumentError, AttributeError):
    """An instruction that is no function of arrays."""

    def __init__(self, module: str, name: str) -> None:
        got = f"{module}.{name}: {name} works on more than tiles and numbers"
        super().__init__(got, allowed=f"pto.{name} in a kernel")


@cache
def _find(name: str) -> Callable[..., Any] | None:
    instruction = isa.find(name) if not name.startswith("_") else None
    if instruction is None or python_name(instruction) != name or not op_functions.is_function(instruction):
        return None
    return op_functions.function(instruction.name)


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])


__all__ = ["function", "names"]
