"""Kernels ahead of time: shapes of arguments that are not there yet, and portable artefacts."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from ..analysis.entries import Argument, GlobalTypes
from ..errors import ArgumentError
from ..ir import ScalarType, TileType


class Portable:
    """What is compiled ahead of time: a kernel as far as its arguments go."""

    entry: str
    arguments: Any

    def lower(self, /, *shapes: Any, **named: Any) -> jax.stages.Lowered:
        """The kernel lowered ahead of time for shapes of its arguments; ``.compile()`` makes it callable.

        Shapes are as for :func:`jax.jit`: ``jax.ShapeDtypeStruct`` or arrays, by position or name; without
        any, buffers have the elements that the program accesses at least.
        """
        args, kwargs = _shapes(self.entry, self.arguments, shapes, named)
        function: Any = self
        return jax.jit(function).lower(*args, **kwargs)

    def export(
        self, /, *shapes: Any, platforms: Sequence[str] | None = None, **named: Any
    ) -> jax.export.Exported:
        """The kernel as a portable artefact (:mod:`jax.export`), for shapes as :meth:`lower` takes them.

        ``exported.serialize()`` gives bytes that ``jax.export.deserialize(...).call`` executes, without this
        package where no argument or result is a Tile. ``platforms`` such as ("cpu", "cuda"); by default the
        present one.
        """
        args, kwargs = _shapes(self.entry, self.arguments, shapes, named)
        function: Any = self
        return jax.export.export(jax.jit(function), platforms=platforms)(*args, **kwargs)


def _shapes(
    entry: str, arguments: Sequence[Argument], shapes: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The shapes of a call's arguments; where none are given, those that the program declares."""
    if shapes or named:
        return tuple(shapes), dict(named)
    return tuple(_declared(entry, a) for a in arguments), {}


def _shaped(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _declared(entry: str, argument: Argument) -> Any:
    t = argument.type
    if isinstance(t, TileType):
        return _shaped(t.shape, t.dtype.numpy)
    if isinstance(t, ScalarType):
        # JAX narrows 64-bit types outside of its 64-bit mode; an index takes both.
        d = np.dtype(np.int32) if t.dtype.kind == "index" else t.dtype.numpy
        return _shaped((), d)
    if isinstance(t, GlobalTypes) and argument.min_elements is not None:
        size = argument.min_elements // (2 if t.dtype.packed else 1)
        return _shaped((size,), t.dtype.numpy)
    raise ArgumentError(
        f"{entry}: the program does not say the shape of argument {argument.name!r} ({t}); allowed: a shape "
        "for each argument, as in jax.ShapeDtypeStruct((64, 64), jnp.float32)"
    )
