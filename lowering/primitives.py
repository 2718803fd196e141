"""JAX's interface for extensions; no other module names ``jax.extend`` or ``jax.interpreters``.

JAX may change these names with any release. ``tests/lowering/test_primitives.py`` has a test of each.
"""

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import (
    ClosedJaxpr as ClosedJaxpr,
    Jaxpr as Jaxpr,
    Literal as Literal,
    Primitive,
    jaxpr_as_fun as jaxpr_as_fun,
    unmapped_aval as unmapped_aval,
)
from jax.interpreters import ad, batching, mlir

#: What XLA calls a kernel that Pallas and Triton generate.
TRITON = "__gpu$xla.gpu.triton"
#: The platform name under which a lowering is for every platform without one of its own.
EVERY = ""


def primitive(
    name: str,
    *,
    evaluate: Callable[..., Any],
    types: Callable[..., Any],
    batch: Callable[..., Any],
    lower: Mapping[str, Callable[..., Any]],
    multiple_results: bool = False,
) -> Any:
    """A primitive of JAX: executed by ``evaluate``, with ``types`` of its results, lowered per platform.

    ``batch`` takes operands and the axis of each, None where it has none, and gives results and their axes.

    >>> double = primitive(
    ...     "double", evaluate=lambda x: 2 * x, types=lambda x: x, batch=lambda xs, axes: (xs[0], axes[0]),
    ...     lower={EVERY: lowered(lambda x: [2 * x])},
    ... )
    >>> double.bind(np.float32(3)), jax.jit(double.bind)(np.float32(3)).item()
    (np.float32(6.0), 6.0)
    """
    result: Any = Primitive(name)
    result.multiple_results = multiple_results
    result.def_impl(evaluate)
    result.def_abstract_eval(types)
    batching.primitive_batchers[result] = batch
    for platform, rule in lower.items():
        mlir.register_lowering(result, rule, platform=platform or None)
    return result


def lowered(code: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering rule of a function of arrays that gives a sequence of arrays."""
    rule: Callable[..., Any] = mlir.lower_fun(code, multiple_results=True)
    return rule


def lowers_triton() -> bool:
    """Whether kernels of Pallas and Triton can be lowered for GPUs in this context.

    JAX 0.12 deprecates them. It also asks for the kind of the GPU, which inside a mesh of CPU devices nobody
    can answer.
    """
    return _has_triton() and (_gpu_is_named() or jax.sharding.get_abstract_mesh().empty)


@cache
def _has_triton() -> bool:
    try:
        return importlib.util.find_spec("jax.experimental.pallas.triton") is not None
    except ModuleNotFoundError:
        return False


def _gpu_is_named() -> bool:
    """Whether a device or a mesh says which GPU code is for, where JAX asks at all."""
    device: Any = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    on_gpu = jax.default_backend() == "gpu" or (device is not None and device.platform != "cpu")
    return on_gpu or jax.__version_info__ < (0, 12)


@contextmanager
def triton_kernels() -> Iterator[None]:
    """A context in which they are lowered without a GPU too, and without the warning.

    The kind decides about conversions of 8-bit floats only, and no kernel here has one. Where nothing names
    a GPU, it is the oldest that is supported.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        if _gpu_is_named() or not lowers_triton():
            yield
            return
        gpu = jax.sharding.AbstractDevice("NVIDIA A100", None, "gpu")
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=gpu)):
            yield


def differentiate(of: Any, jvp: Callable[..., Any], transpose: Callable[..., Any]) -> None:
    """Define the derivative of a primitive and its transposition."""
    ad.primitive_jvps[of] = jvp
    ad.primitive_transposes[of] = transpose


def is_zero_tangent(x: Any) -> bool:
    """Whether a tangent is JAX's symbolic zero."""
    return isinstance(x, ad.Zero)


def untraced(x: Any) -> Any:
    """The NumPy array that vmap passes on as a traced one, None where there is none."""
    inner: Any = x
    while isinstance(inner, Tracer):
        inner = getattr(inner, "val", None)
    return inner if isinstance(inner, np.ndarray | np.generic) else None


def by_jax(eqn: Any, values: Any) -> list[Any]:
    """An equation of a trace executed by JAX, alone."""
    params = eqn.primitive.get_bind_params(eqn.params)
    with eqn.ctx.manager:
        result = eqn.primitive.bind(*map(jax.numpy.asarray, values), **params)
    return list(result) if eqn.primitive.multiple_results else [result]


def scanned(p: dict[str, Any]) -> tuple[int, int, ClosedJaxpr]:
    """How many constants a scan has and how many values it carries, and its body; trees in JAX 0.12."""
    if "num_consts" in p:
        return p["num_consts"], p["num_carry"], p["jaxpr"]
    fixed, carried, _ = map(len, p["ft_in"].unpack())
    return fixed, carried, ClosedJaxpr(p["jaxpr"], ())
