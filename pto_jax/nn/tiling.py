"""Matrices cut into tiles: padding with zeros, computation tile by tile, and reassembly.

Arrays whose sharding is part of their type (explicit mesh axes) are computed by each device for its part.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec

from ..errors import ArgumentError

#: Tiles of vector instructions: with their results they fit every profile's unified buffer. Most matrices are
#: one tile wide, so that cutting them moves nothing.
VECTOR = (16, 1024)


def cut(x: Array, rows: int, cols: int) -> Array:
    """[R, C] as tiles [R / rows, C / cols, rows, cols]; what is missing of the last ones is zero."""
    x = jnp.pad(x, ((0, -x.shape[0] % rows), (0, -x.shape[1] % cols)))
    down, across = x.shape[0] // rows, x.shape[1] // cols
    return x.reshape(down, rows, across, cols).transpose(0, 2, 1, 3)


def joined(tiles: Array, rows: int, cols: int) -> Array:
    """The first ``rows`` and ``cols`` of the matrix that :func:`cut` has cut."""
    down, across, height, width = tiles.shape
    return tiles.transpose(0, 2, 1, 3).reshape(down * height, across * width)[:rows, :cols]


def each(f: Callable[..., Any], *tiles: Array) -> Any:
    """``f`` of every tile; operands with one tile along an axis serve all others along it."""
    down, across = (max(t.shape[i] for t in tiles) for i in (0, 1))
    if (down, across) == (1, 1):
        return jax.tree.map(lambda r: r[None, None], f(*(t[0, 0] for t in tiles)))
    inner = jax.vmap(f, in_axes=tuple(0 if t.shape[1] == across else None for t in tiles))
    outer = jax.vmap(inner, in_axes=tuple(0 if t.shape[0] == down else None for t in tiles))
    return outer(*(_without(t, t.shape[0] == down, t.shape[1] == across) for t in tiles))


def _without(tiles: Array, down: bool, across: bool) -> Array:
    """Tiles without the axes that are not mapped."""
    tiles = tiles if across else tiles[:, 0]
    return tiles if down else tiles[0]


def vector_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the tiles that a matrix is cut into for vector instructions.

    >>> vector_size((1, 300)), vector_size((1000, 10))
    ((16, 320), (16, 32))
    """
    sizes = zip(shape, VECTOR, (16, 32), strict=True)
    rows, cols = (even(extent, largest, multiple) for extent, largest, multiple in sizes)
    return rows, cols


def even(extent: int, largest: int, multiple: int) -> int:
    """The size of equal parts of an extent, a multiple of ``multiple`` and at most ``largest``."""
    count = max(1, -(-extent // largest))
    return max(1, -(-extent // (count * multiple))) * multiple


def stored(arrays: Any, turns: Array) -> Any:
    """The same arrays (a pytree), on a CPU computed once for all that use them.

    XLA fuses a chain of elementwise instructions into each of its uses, the turns of a loop among them, and
    removes optimization barriers before it does. What it does not look through is a loop of which it cannot
    know whether it turns: this one, whether or not it ``turns``, hands on its arrays.
    """
    barrier: Any = lax.optimization_barrier

    def loop(turns: Array, *some: Array) -> tuple[Array, ...]:
        # Not False: under shard_map the condition varies over the axes that the arrays vary over.
        handed_on: tuple[Array, ...] = lax.while_loop(
            lambda c: c[0], lambda c: (c[0] ^ c[0], barrier(c[1])), (turns, some)
        )[1]
        return handed_on

    leaves, structure = jax.tree.flatten(arrays)
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(leaves):
        if x.size:
            groups.setdefault(_varies_over(x, i), []).append(i)
    for axes, members in groups.items():
        some = [leaves[i] for i in members]
        own = turns if axes == _varies_over(turns) else some[0].reshape(-1)[0] != jnp.zeros((), some[0].dtype)
        kept = lax.platform_dependent(own, *some, cpu=loop, default=lambda _, *s: tuple(s))
        for i, x in zip(members, kept, strict=True):
            leaves[i] = x
    return jax.tree.unflatten(structure, leaves)


def _varies_over(x: Array, number: int | None = None) -> Any:
    """The axes of shard_map over which an array varies, or its number where its type does not say them."""
    return getattr(jax.typeof(x), "manual_axis_type", number)


def partition(axes: Iterable[Any]) -> PartitionSpec:
    """The spec of an array from the mesh axes of each of its axes: None, one or several."""
    return cast("Any", PartitionSpec)(*axes)  # type: ignore[no-any-return]


def spec_of(x: Any) -> PartitionSpec:
    """The explicit mesh axes of each axis of an array; None where it is whole, or left to the compiler."""
    spec = tuple(jax.typeof(x).sharding.spec)
    return partition(spec + (None,) * (x.ndim - len(spec)))


def names(axes: Iterable[Any]) -> frozenset[str]:
    """The mesh axes of a spec, or of a part of one."""
    listed = (a if isinstance(a, tuple) else (a,) for a in axes if a is not None)
    return frozenset(name for several in listed for name in several)


def of_sizes(axes: Iterable[Any], shape: Sequence[int]) -> PartitionSpec:
    """The spec of an array that broadcasts to one with the axes ``axes``: extents of 1 are whole."""
    kept = tuple(axes)[-len(shape) :] if shape else ()
    return partition(None if size == 1 else a for a, size in zip(kept, shape, strict=True))


def whole_along(what: str, x: Any, axes: Iterable[int], label: str) -> None:
    """ArgumentError where an array is sharded along axes whose elements belong to one result."""
    spec, axes = tuple(spec_of(x)), {a % x.ndim for a in axes}
    if names(spec[a] for a in axes):
        expected = ", ".join("None" if i in axes else repr(a) for i, a in enumerate(spec))
        raise ArgumentError(
            f"{what}: got {jax.typeof(x)}, sharded along {label}",
            allowed=f"whole along {label}",
            fix=f"jax.sharding.reshard(..., jax.P({expected}))",
        )


def on_each_part(
    f: Callable[..., Any], arguments: Sequence[Any], specs: Sequence[PartitionSpec], results: Any
) -> Any:
    """``f`` of each device's parts of arrays, whose results have the specs ``results`` (a pytree).

    Arrays are first brought to the sharding that ``specs`` says; an argument may be None. Where no spec names
    a mesh axis, ``f`` of the arrays themselves.
    """
    used = frozenset[str]().union(*map(names, specs))
    if not used:
        return f(*arguments)
    given = [i for i, a in enumerate(arguments) if a is not None]
    inputs = tuple(specs[i] for i in given)
    mesh = next(s.mesh for s in (jax.typeof(arguments[i]).sharding for i in given) if names(s.spec))

    def part(*parts: Any) -> Any:
        named = dict(zip(given, parts, strict=True))
        return f(*(named.get(i) for i in range(len(arguments))))

    reshard: Any = jax.sharding.reshard
    shared = (reshard(arguments[i], jax.NamedSharding(mesh, p)) for i, p in zip(given, inputs, strict=True))
    return jax.shard_map(part, mesh=mesh, in_specs=inputs, out_specs=results, axis_names=used)(*shared)
