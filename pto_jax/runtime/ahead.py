"""Kernels ahead of time: shapes of arguments that are not there yet, and portable artefacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.export
import numpy as np

from ..analysis.entries import Argument, GlobalTypes
from ..errors import ArgumentError
from ..ir.types import ScalarType, TileType


class Signature(Protocol):
    """A kernel as far as its arguments go."""

    @property
    def entry(self) -> str:
        """The name of the function that is executed."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it takes, in order."""


def shapes_of(
    kernel: Signature, shapes: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The shapes of a call's arguments; where none are given, those that the program declares."""
    if shapes or named:
        return tuple(shapes), dict(named)
    return tuple(_declared(kernel.entry, a) for a in kernel.arguments), {}


def _declared(entry: str, argument: Argument) -> Any:
    t = argument.type
    if isinstance(t, TileType):
        return jax.ShapeDtypeStruct(t.shape, t.dtype.numpy)
    if isinstance(t, ScalarType):
        # JAX narrows 64-bit types outside of its 64-bit mode; an index takes both.
        d = np.dtype(np.int32) if t.dtype.kind == "index" else t.dtype.numpy
        return jax.ShapeDtypeStruct((), d)
    if isinstance(t, GlobalTypes) and argument.min_elements is not None:
        size = argument.min_elements // (2 if t.dtype.packed else 1)
        return jax.ShapeDtypeStruct((size,), t.dtype.numpy)
    raise ArgumentError(
        f"{entry}: the program does not say the shape of argument {argument.name!r} ({t}); allowed: a shape "
        "for each argument, as in jax.ShapeDtypeStruct((64, 64), jnp.float32)"
    )


def exported(
    kernel: Any, platforms: Sequence[str] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> jax.export.Exported:
    """A function as a portable artefact."""
    return jax.export.export(jax.jit(kernel), platforms=platforms)(*args, **kwargs)
