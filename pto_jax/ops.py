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

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from . import isa
from .runtime.op_functions import function, is_function
from .runtime.op_messages import python_name


@cache
def names() -> tuple[str, ...]:
    """The instructions that exist as functions of this module."""
    return tuple(python_name(i) for i in isa.instructions().values() if is_function(i))


def __getattr__(name: str) -> Callable[..., Any]:
    instruction = isa.find(name) if not name.startswith("_") else None
    if instruction is None or python_name(instruction) != name or not is_function(instruction):
        raise AttributeError(f"module {__name__!r} has no instruction {name!r}; ops.names() lists them")
    return function(instruction.name)


def __dir__() -> list[str]:
    return sorted(["names", *names()])


__all__ = ["names"]
