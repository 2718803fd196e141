"""Arrays whose sharding is part of their type (explicit mesh axes): each device computes its own part."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import jax
from jax.sharding import PartitionSpec

from ..errors import ArgumentError


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
        wanted = ", ".join("None" if i in axes else repr(a) for i, a in enumerate(spec))
        raise ArgumentError(
            f"{what}: found {jax.typeof(x)}, sharded along {label}; allowed: whole along {label}; "
            f"usual fix: jax.sharding.reshard(..., jax.P({wanted}))"
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
