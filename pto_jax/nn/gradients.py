"""Straight-through gradients: the values of PTO programs, the derivative of a reference in plain JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DifferentiationError
from ..runtime.interchange import received
from ..runtime.kernel import Kernel
from ..runtime.tiles import Tile


def straight_through(kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the values of ``kernel`` and the derivative of ``reference``.

    ``kernel`` is a compiled :class:`pto_jax.Kernel` or any function that calls kernels or
    :mod:`pto_jax.ops`; ``reference`` a differentiable JAX function of the same arguments. Both give the same
    results: pytrees of one structure with arrays of the same shapes, where a Tile counts as its array, and
    the reference of a ``Kernel`` with one result may give the bare array. Element types of results may
    differ between float types: derivatives are converted. Integer and boolean arguments and results have no
    derivative.

    The function takes and gives what ``kernel`` does, with arrays in place of tiles. It works under jit,
    vmap, scan and shard_map, in forward and reverse mode of any order. Where results do not correspond,
    differentiating raises DifferentiationError.

    >>> import pto_jax as pto
    >>> half = straight_through(lambda x: pto.ops.tcvt(x, dst="f16").array, lambda x: x)
    >>> x = jnp.full((1, 16), 1.0001, jnp.float32)
    >>> half(x)[0, 0].item(), jax.grad(lambda x: half(x).astype(x.dtype).sum())(x)[0, 0].item()
    (1.0, 1.0)
    """
    name = str(getattr(kernel, "__name__", None) or getattr(kernel, "entry", type(kernel).__name__))

    # Unlike a custom_vjp, a custom_jvp serves both modes.
    @jax.custom_jvp
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _arrays(kernel(*args, **kwargs))

    @call.defjvp
    def _derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        results = call(*primals)
        wanted, moved = jax.jvp(lambda a, k: _arrays(reference(*a, **k)), primals, tangents)
        if isinstance(kernel, Kernel) and len(results) == 1 and not isinstance(wanted, dict):
            wanted, moved = (dict.fromkeys(results, x) for x in (wanted, moved))
        return results, _matched(name, results, wanted, moved)

    def function(*args: Any, **kwargs: Any) -> Any:
        taken: Any = call(*jax.tree.map(lambda x: received(x, name), (args, kwargs)))
        return taken

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Values of {name}, derivative of {getattr(reference, '__name__', 'its reference')}."
    return function


def _arrays(results: Any) -> Any:
    return jax.tree.map(
        lambda r: r.array if isinstance(r, Tile) else r, results, is_leaf=lambda r: isinstance(r, Tile)
    )


def _matched(name: str, results: Any, wanted: Any, moved: Any) -> Any:
    """The reference's tangents in the element types of the kernel's results."""
    structure: Any = jax.tree.structure(results)
    if structure != jax.tree.structure(wanted):
        raise DifferentiationError(
            f"{name}: the reference gives {_shown(wanted)}, the kernel {_shown(results)}; usual fix: a "
            "reference whose results have the kernel's structure"
        )
    leaves = [jax.tree_util.tree_leaves_with_path(results), jax.tree.leaves(wanted), jax.tree.leaves(moved)]
    tangents = [_tangent(name, *each) for each in zip(*leaves, strict=True)]
    return jax.tree.unflatten(structure, tangents)


def _tangent(name: str, result: tuple[Any, Any], wanted: Any, moved: Any) -> Any:
    path, value = result
    what = f"{name}: result{jax.tree_util.keystr(path)}"
    found, given = jnp.result_type(value), jnp.result_type(wanted)
    if np.shape(value) != np.shape(wanted):
        raise DifferentiationError(
            f"{what} has shape {np.shape(value)}, the reference gives {np.shape(wanted)}; usual fix: a "
            "reference with results of the kernel's shapes"
        )
    floats = [jnp.issubdtype(d, np.inexact) for d in (found, given)]
    if floats == [False, True]:
        raise DifferentiationError(
            f"{what} is {found}, which has no derivative, the reference gives {given}; usual fix: a kernel "
            "that gives floats, such as codes times their scale"
        )
    if floats == [True, False]:
        raise DifferentiationError(
            f"{what} is {found}, the reference gives {given}, which has no derivative; usual fix: a "
            "reference that gives floats"
        )
    return moved.astype(found) if floats[0] else moved


def _shown(results: Any) -> str:
    return str(jax.tree.map(lambda r: f"{jnp.result_type(r)}{list(np.shape(r))}", results))
